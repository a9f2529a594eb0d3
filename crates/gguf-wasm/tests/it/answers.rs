use std::sync::Arc;

use gguf_wasm::{Offered, Page, TensorOrder};
use ggufkit::{GgmlType, Head, ReadAt, TensorInfo, Writer};

fn offered(name: &str, bytes: Vec<u8>) -> Offered {
    (name.to_owned(), Arc::new(bytes) as Arc<dyn ReadAt>)
}

fn example(name: &str) -> Offered {
    let path = format!("{}/../ggufkit/examples/{name}", env!("CARGO_MANIFEST_DIR"));
    offered(name, std::fs::read(path).unwrap())
}

/// A page that lives as long as the test, as one of a module does.
fn open(files: &[Offered], name: &str) -> &'static Page {
    Box::leak(Box::new(Page::open(files, name).unwrap()))
}

fn names(page: &Page, rows: &[(u32, u32)]) -> Vec<String> {
    page.tensors(rows).as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tensors_are_found_and_sorted() {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    let tensor = |name: &str, n: u64, ty| TensorInfo::new(name, [n], ty);
    head.tensors =
        vec![tensor("b.norm", 4, GgmlType::F32), tensor("a", 64, GgmlType::Q4_0), tensor("B.bias", 20, GgmlType::F16)];
    let data = [vec![0u8; 16], vec![0; 36], vec![0; 40]];
    let page = open(&[offered("m.gguf", Writer::write(Vec::new(), &head, data).unwrap())], "m.gguf");
    let found = |part, order, descending| names(page, &page.find_tensors(part, order, descending));
    assert_eq!(found("", TensorOrder::File, false), ["b.norm", "a", "B.bias"]);
    assert_eq!(found("", TensorOrder::Name, false), ["B.bias", "a", "b.norm"]);
    assert_eq!(found("", TensorOrder::Type, false), ["b.norm", "B.bias", "a"]);
    assert_eq!(found("", TensorOrder::Elements, true), ["a", "B.bias", "b.norm"]);
    assert_eq!(found("", TensorOrder::Bytes, true), ["B.bias", "a", "b.norm"]);
    assert_eq!(found("b.", TensorOrder::File, false), ["b.norm", "B.bias"]);
    assert_eq!(found("q4", TensorOrder::File, false), ["a"]);
    assert!(found("c", TensorOrder::File, false).is_empty());
}

#[test]
fn shards_are_one_model() {
    let [first, second] = ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"].map(example);
    let whole = open(&[second.clone(), first.clone()], &second.0);
    let overview = whole.overview();
    assert_eq!(overview["summary"]["n_shards"], 2);
    assert_eq!(overview["missing"].as_array().unwrap().len(), 0);
    assert_eq!(
        overview["summary"]["n_tensors"],
        open(&[example("tiny.gguf")], "tiny.gguf").overview()["summary"]["n_tensors"]
    );
    assert!(whole.estimate(0, GgmlType::F16, GgmlType::F16, true, 0)["error"].is_null());

    let part = open(std::slice::from_ref(&first), &first.0);
    assert_eq!(part.overview()["missing"][0], second.0);
    assert_eq!(part.estimate(0, GgmlType::F16, GgmlType::F16, true, 0)["error"], "1 shards are missing");
    let findings = Page::findings(std::slice::from_ref(&first), &first.0);
    assert!(findings["findings"].as_array().unwrap().iter().any(|f| f["code"] == "split.file"), "{findings}");
}

#[test]
fn numbers_keep_all_digits() {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("a.large", u64::MAX);
    head.set("a.list", [1u64 << 63, 7]);
    head.set("a.long", "é".repeat(300));
    let page = open(&[offered("m.gguf", head.encode().unwrap())], "m.gguf");
    let indices = page.find_kvs("A.L");
    assert_eq!(indices, [1, 2, 3]);
    let rows = page.kvs(&indices);
    assert_eq!(rows[0]["value"], "18446744073709551615");
    assert_eq!(rows[1]["length"], "2");
    assert_eq!(page.elements(2, 0, 1), serde_json::json!(["9223372036854775808"]));
    assert_eq!(rows[2]["value"], format!("{}…", "é".repeat(200)));
    assert_eq!(page.text(3), "é".repeat(300));
}

#[test]
fn tokens_are_found_by_text_bytes_id_and_type() {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("tokenizer.ggml.model", "gpt2");
    head.set("tokenizer.ggml.pre", "gpt-2");
    head.set("tokenizer.ggml.tokens", ["a", "Ġb", "<x>", "2"]);
    head.set("tokenizer.ggml.token_type", [1, 1, 3, 1]);
    head.set("tokenizer.ggml.merges", ["a b"]);
    let page = open(&[offered("m.gguf", head.encode().unwrap())], "m.gguf");
    assert_eq!(page.find_tokens("", None), [0, 1, 2, 3]);
    assert_eq!(page.find_tokens(" B", None), [1]);
    assert_eq!(page.find_tokens("Ġ", None), [1]);
    // The token 2, and the token with that text.
    assert_eq!(page.find_tokens("2", None), [2, 3]);
    assert_eq!(page.find_tokens("", Some(3)), [2]);
    let rows = page.tokens(&[1, 2]);
    assert_eq!((&rows[0]["text"], &rows[0]["bytes"]), (&"Ġb".into(), &"20 62".into()));
    assert_eq!((&rows[1]["id"], &rows[1]["type"]), (&2.into(), &3.into()));
}

/// No file makes the module fail: each is an error, or a page all of whose views answer.
#[test]
fn hostile_files_have_answers() {
    let mut opened = 0;
    for case in gguf_test::corpus::all() {
        let file = [offered("m.gguf", case.bytes)];
        Page::findings(&file, "m.gguf");
        let Ok(page) = Page::open(&file, "m.gguf") else { continue };
        let page: &'static Page = Box::leak(Box::new(page));
        opened += 1;
        page.overview();
        page.kvs(&page.find_kvs(""));
        page.tensors(&page.find_tensors("", TensorOrder::Bytes, true));
        (0..8).for_each(|kv| drop((page.elements(kv, 0, 10), page.text(kv))));
        page.templates();
        page.tokenizer();
        page.tokens(&page.find_tokens("", None));
        page.estimate(0, GgmlType::F16, GgmlType(99), true, u64::MAX);
    }
    assert!(opened > 100, "{opened}");
}
