use std::sync::Arc;

use gguf_wasm::{Comparison, Difference, Map, Offered, Page, Survey, TensorOrder};
use ggufkit::{GgmlType, Head, ReadAt, TensorInfo, Writer};
use serde_json::json;

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

/// A model with one tensor of two rows of 64 values, in F32 or, cut off, in BF16.
fn model(ty: GgmlType, scale: f32) -> Offered {
    let values: Vec<f32> = (0..128).map(|i| (i as f32 - 64.0) * scale).collect();
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("a.scale", scale);
    head.tensors = vec![TensorInfo::new("w", [64, 2], ty)];
    let skipped = if ty == GgmlType::BF16 { 2 } else { 0 };
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().skip(skipped)).collect();
    offered("m.gguf", Writer::write(Vec::new(), &head, [data]).unwrap())
}

#[test]
fn statistics_are_those_of_the_toolkit() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tiny.gguf", "tiny-00001-of-00002.gguf"] {
        let file = example(name);
        let path = dir.path().join("m.gguf");
        std::fs::write(
            &path,
            std::fs::read(format!("{}/../ggufkit/examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap(),
        )
        .unwrap();
        let page = open(&[file], name);
        let rows = page.find_tensors("", TensorOrder::File, false);
        for (row, name) in rows.iter().zip(names(page, &rows)) {
            let mut weights = page.weights(*row).unwrap();
            let bytes = weights.describe()["bytes"].as_str().unwrap().parse().unwrap();
            let mut survey = Survey::new(8);
            survey.add(&mut weights, false, 0, bytes).unwrap();
            survey.add(&mut weights, true, 0, bytes).unwrap();
            let found = survey.stats(&weights);
            let Ok(expected) = ggufkit::edit::stats(path.as_path(), &name, 8, None, &()) else { continue };
            assert_eq!(found["n"], expected.n.to_string());
            assert_eq!(found["min"], json!(expected.min.map(|v| format!("{v:?}"))));
            assert_eq!((&found["mean"], &found["stddev"]), (&json!(expected.mean), &json!(expected.stddev)), "{name}");
            assert_eq!(found["histogram"], json!(expected.histogram));
        }
    }
}

#[test]
fn maps_have_the_values_of_their_cells() {
    let page = open(&[model(GgmlType::F32, 1.0)], "m.gguf");
    let mut weights = page.weights((0, 0)).unwrap();
    let cells = |map: &Map| -> Vec<f32> {
        map.cells().chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    // Cells of one value have that value.
    let mut map = Map::new(3..6, 1, 3);
    map.rows(&mut weights, None, 0, 1..2).unwrap();
    assert_eq!(cells(&map), [3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 5.0, 5.0, 5.0]);
    // Cells of unequal widths, over both rows.
    let mut map = Map::new(0..64, 1, 3);
    map.rows(&mut weights, None, 0, 0..2).unwrap();
    let extremes: Vec<f32> = cells(&map).chunks(3).flat_map(|cell| [cell[1], cell[2]]).collect();
    assert_eq!(extremes, [-64.0, 21.0, -42.0, 42.0, -21.0, 63.0]);
    assert_eq!(weights.values(1..9, 62..70).unwrap(), json!([["62.0", "63.0"]]));
}

#[test]
fn models_are_compared() {
    let a = open(&[model(GgmlType::F32, 0.37)], "m.gguf");
    let b = open(&[model(GgmlType::BF16, 0.37)], "m.gguf");
    let comparison = Comparison::new(a, b).unwrap();
    assert_eq!(comparison.summary(), json!({ "n_keys": 0, "n_same_keys": 2, "n_tensors": 1 }));
    let rows = comparison.tensors(a, b, 0, 9);
    assert_eq!((&rows[0]["types"], &rows[0]["name"]), (&json!(["f32", "bf16"]), &json!("w")));
    let mut difference = Difference::default();
    let mut sides = comparison.sides(a, b, 0).unwrap();
    difference.rows(&mut sides, 0, 1).unwrap();
    difference.rows(&mut sides, 1, 1).unwrap();
    let found = difference.result();
    let [a_file, b_file] = [GgmlType::F32, GgmlType::BF16].map(|ty| model(ty, 0.37).1);
    let [a_model, b_model] = [a_file, b_file].map(|source| ggufkit::Model::from_source(source, "m.gguf").unwrap());
    let expected = ggufkit::diff(a_model, b_model, &Default::default(), &()).unwrap();
    let figures = expected.total().figures();
    assert_eq!(found["same"], false);
    assert_eq!((&found["error"]["rmse"], &found["error"]["cosine"]), (&json!(figures.rmse), &json!(figures.cosine)));
    // The map of the error has the largest one.
    let [x, y] = &mut sides;
    let mut map = Map::new(0..64, 1, 1);
    map.rows(x, Some(y), 0, 0..2).unwrap();
    let rms = f32::from_le_bytes(map.cells()[..4].try_into().unwrap());
    assert!((f64::from(rms) / figures.rmse - 1.0).abs() < 1e-6);

    let same = Comparison::new(a, open(&[model(GgmlType::F32, 0.37)], "m.gguf")).unwrap();
    let other = open(&[model(GgmlType::F32, 0.5)], "m.gguf");
    assert_eq!(same.summary()["n_keys"], 0);
    let changed = Comparison::new(a, other).unwrap();
    let keys = changed.keys(0, 9);
    assert_eq!((&keys[0]["key"], &keys[0]["a"], &keys[0]["b"]), (&json!("a.scale"), &json!("0.37"), &json!("0.5")));
}

#[test]
fn edits_are_those_of_the_toolkit() {
    let dir = tempfile::tempdir().unwrap();
    let [path, out] = ["tiny.gguf", "out.gguf"].map(|name| dir.path().join(name));
    let file = example("tiny.gguf");
    let whole = std::fs::read(format!("{}/../ggufkit/examples/tiny.gguf", env!("CARGO_MANIFEST_DIR"))).unwrap();
    std::fs::write(&path, &whole).unwrap();
    let page = open(&[file], "tiny.gguf");
    let edits =
        json!([{ "set": "general.name=Another name" }, { "set": "a.new:u32=7" }, { "rename": ["a.new", "a.newer"] }]);
    let answer = page.edits(&edits);
    assert_eq!(
        (&answer["changes"][0]["key"], &answer["changes"][0]["after"]),
        (&json!("general.name"), &json!("Another name"))
    );
    assert_eq!(answer["changes"][1], json!({ "key": "a.new", "after": "7" }));
    let data: usize = answer["data_offset"].as_str().unwrap().parse().unwrap();
    let mut edited = page.edited_head(&edits);
    edited.extend_from_slice(&whole[data..]);

    let head = ggufkit::Head::from_gguf(ggufkit::ModelFile::open(&path).unwrap().gguf());
    let list = |text: &str| ggufkit::edit::typed::Assignment::parse(text).unwrap().edit(&head).unwrap();
    let rename = ggufkit::Edit::RenameKey { from: "a.new".into(), to: "a.newer".into() };
    let all = [list("general.name=Another name"), list("a.new:u32=7"), rename];
    let plan = ggufkit::EditPlan::new(&path, &all, &ggufkit::EditOptions::default().rewrite(true)).unwrap();
    plan.write_to(&out, false, &()).unwrap();
    assert_eq!(edited, std::fs::read(&out).unwrap());
    assert_eq!(answer["file_bytes"], edited.len().to_string());

    for (edit, message) in [
        ("general.name:u32=7", "general.name"),
        ("a.unknown=7", "type"),
        ("llama.block_count=many", "many"),
        ("nothing", "="),
    ] {
        let refused = page.edits(&json!([{ "set": "a.b:string=c" }, { "set": edit }]));
        assert_eq!(refused["edit"], 1, "{refused}");
        assert!(refused["error"].as_str().unwrap().contains(message), "{refused}");
    }
}

/// A name of a gigabyte is not read: neither the page nor the check waits for it.
#[test]
fn long_names_and_heads_are_refused_at_once() {
    #[derive(Debug)]
    struct Zeros(Vec<u8>, std::sync::atomic::AtomicU64);
    impl ReadAt for Zeros {
        fn size(&self) -> std::io::Result<u64> {
            Ok(1 << 31)
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
            self.1.fetch_add(buf.len() as u64, std::sync::atomic::Ordering::Relaxed);
            for (i, byte) in buf.iter_mut().enumerate() {
                *byte = self.0.get(offset as usize + i).copied().unwrap_or(0);
            }
            Ok(())
        }
    }
    let start = |n_tensors: u64, n_kv: u64, rest: &[u64]| {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        [n_tensors, n_kv].iter().chain(rest).for_each(|n| bytes.extend_from_slice(&n.to_le_bytes()));
        bytes
    };
    for (bytes, words) in [(start(1, 0, &[1 << 30]), "at most 65536"), (start(0, 1, &[1 << 27]), "at most 16777216")] {
        let source = Arc::new(Zeros(bytes, Default::default()));
        let file = [("m.gguf".to_owned(), Arc::clone(&source) as Arc<dyn ReadAt>)];
        let Err(message) = Page::open(&file, "m.gguf") else { panic!("it opens") };
        assert!(message.contains(words), "{message}");
        let findings = Page::findings(&file, "m.gguf");
        assert!(findings["error"].as_str().unwrap().contains("too much for this page"), "{findings}");
        assert!(source.1.load(std::sync::atomic::Ordering::Relaxed) < 32 << 20);
    }
}
