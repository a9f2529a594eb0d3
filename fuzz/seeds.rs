//! Writes the seeds of the fuzz targets, a directory for each: `seeds FOLDER`. They are the hostile files of the tests, and small valid
//! files of every kind that a target reads.

use gguf_test::torch::hostile::{self, SOUND, sound_data};
use gguf_test::torch::{self, Pickle, Saved};
use gguf_test::{checkpoint, corpus, legacy};

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The maximum size: larger files slow a fuzzer down more than they help.
const LARGEST: usize = 4096;

/// The separator between the files in the input of a target.
const SEPARATOR: &[u8] = b"\n=FILE=\n";

fn main() -> io::Result<()> {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "name the folder to write the seeds to"));
    };
    for target in ["parse", "prefix_growth", "round_trip", "check"] {
        for case in corpus::all().iter().filter(|c| c.bytes.len() <= LARGEST) {
            // Two of the targets interpret their last bytes differently.
            let more: &[u8] = match target {
                "prefix_growth" => &[7, 31],
                "check" => &[0, 0],
                _ => &[],
            };
            write(&folder, target, &case.name, &[&case.bytes, more].concat())?;
        }
    }
    // Legacy targets add the magic and the version to their input themselves.
    for file in legacy::all() {
        let (target, skip, first): (&str, usize, &[u8]) = match (&file.bytes[..4], file.bytes[4]) {
            (b"lmgg", _) => ("legacy_ggml", 4, &[]),
            (b"fmgg", 1) => ("legacy_ggmf", 8, &[]),
            (b"fmgg", _) => ("legacy_rwkv", 8, &[]),
            (b"tjgg", version) => ("legacy_ggjt", 8, &[version - 1]),
            (b"ccgg", _) => ("legacy_ggcc", 8, &[]),
            _ => ("legacy_ggla", 8, &[]),
        };
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(file.name), [first, &file.bytes[skip..]].concat())?;
    }
    let drafts = folder.join("legacy_draft");
    fs::create_dir_all(&drafts)?;
    for case in corpus::all().iter().filter(|c| c.name.contains("draft") && c.bytes.len() <= LARGEST) {
        fs::write(drafts.join(&case.name), case.bytes.get(8..).unwrap_or_default())?;
    }
    matrices(&folder)?;
    safetensors(&folder)?;
    torch_files(&folder)?;
    tokenizers(&folder)?;
    vocabularies(&folder)?;
    cards(&folder)?;
    recipes(&folder)?;
    journals(&folder)
}

fn write(folder: &Path, target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

/// The small files from `llama-imatrix`, and matrices of one entry.
fn matrices(folder: &Path) -> io::Result<()> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/gguf-quantize/tests/data/imatrix");
    for file in fs::read_dir(files)? {
        let file = file?;
        let bytes = fs::read(file.path())?;
        if bytes.len() <= LARGEST {
            write(folder, "imatrix", &file.file_name().to_string_lossy(), &bytes)?;
        }
    }
    let mut old = Vec::new();
    for number in [1i32, 1] {
        old.extend(number.to_le_bytes());
    }
    old.extend(b"x");
    for number in [2i32, 2] {
        old.extend(number.to_le_bytes());
    }
    old.extend([1.0f32, 0.5].map(f32::to_le_bytes).concat());
    write(folder, "imatrix", "one-entry.dat", &old)?;
    old.extend([3i32, 1].map(i32::to_le_bytes).concat());
    old.extend(b"t");
    write(folder, "imatrix", "one-entry-and-text.dat", &old)
}

fn safetensors(folder: &Path) -> io::Result<()> {
    for (name, data_bytes, json) in [
        ("empty", 0u16, "{}"),
        ("metadata", 0, r#"{"__metadata__":{"format":"pt"}}"#),
        ("one", 8, r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#),
        (
            "three",
            15,
            r#"{"b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]},"c":{"dtype":"U8","shape":[],"data_offsets":[14,15]},"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#,
        ),
        (
            "small-types",
            2,
            r#"{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},"b":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[1,2]}}"#,
        ),
    ] {
        write(folder, "safetensors", name, &[&data_bytes.to_le_bytes(), json.as_bytes()].concat())?;
    }
    Ok(())
}

/// Valid PyTorch files and all hostile ones, and the pickles of the valid ones alone.
fn torch_files(folder: &Path) -> io::Result<()> {
    let sound = torch::state_dict(&[SOUND]);
    let half = Saved { name: "h", class: "HalfStorage", key: "1", elements: 3, shape: &[3], strides: &[1], ..SOUND };
    let two = torch::state_dict(&[SOUND, Saved { shape: &[3, 2], strides: &[1, 3], name: "t", ..SOUND }, half]);
    let typed = Pickle::new(4).op(b"}").text("f").global("torch._utils", "_rebuild_tensor_v3").op(b"((");
    let typed = typed.text("storage").global("torch.storage", "UntypedStorage").text("1").text("cpu").int(6).op(b"tQ");
    let typed = typed.int(0).ints(&[6]).ints(&[1]).op(b"\x89}").global("torch", "float8_e4m3fn").op(b"tRs").end();
    for (name, pickle) in [("one", &sound), ("two", &two), ("typed", &typed)] {
        write(folder, "unpickle", name, pickle)?;
        write(folder, "torch_zip", name, &torch::file(pickle, &[("0", sound_data()), ("1", vec![0; 6])]))?;
    }
    let stream = torch::stream(&two, &[("0", 6, sound_data()), ("1", 3, vec![0; 6])]);
    write(folder, "torch_zip", "stream", &stream)?;
    for (i, case) in hostile::all().iter().enumerate().filter(|(_, case)| case.bytes.len() <= LARGEST) {
        write(folder, "torch_zip", &format!("hostile-{i}"), &case.bytes)?;
    }
    Ok(())
}

/// Joins the files of one input after its first byte.
fn joined(first: &[u8], files: &[&[u8]]) -> Vec<u8> {
    [first, &files.join(SEPARATOR)].concat()
}

fn tokenizers(folder: &Path) -> io::Result<()> {
    let bpe = br#"{"added_tokens":[{"id":4,"content":"<s>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"String":" "},"content":"_"},{"type":"Lowercase"}]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{L}+|\\d{1,3}| ?[^\\s]+"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[4],"tokens":["<s>"]}}},"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},"model":{"type":"BPE","unk_token":null,"fuse_unk":false,"byte_fallback":true,"vocab":{"a":0,"b":1,"ab":2,"<0x0A>":3},"merges":["a b",["a","b"]]}}"#;
    let config = br#"{"tokenizer_class":"LlamaTokenizer","add_bos_token":true,"bos_token":"<s>","eos_token":{"content":"</s>"},"chat_template":"{{ x }}","additional_special_tokens":["<x>"],"added_tokens_decoder":{"4":{"content":"<s>","special":true},"5":{"content":"</s>","special":true}}}"#;
    let map = br#"{"bos_token":"<s>","unk_token":{"content":"<unk>"}}"#;
    let added = br#"{"<x>":6}"#;
    let model_config = br#"{"model_type":"llama","vocab_size":7,"bos_token_id":1}"#;
    let merges = b"#version: 0.2\na b\nab c\n";
    let template = b"{% for m in messages %}{{ m }}{% endfor %}";
    let pieces =
        checkpoint::sentencepiece(&[("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("\u{2581}a", -1.5, 1), ("<0x0A>", 0.0, 6)]);
    for (kind, name) in
        [(0, "llama"), (1, "bpe"), (4, "pieces"), (5, "llama-hf"), (8, "internlm2"), (10, "phi3"), (0x81, "given")]
    {
        let files: [&[u8]; 8] = [bpe, config, map, added, model_config, merges, template, &pieces];
        write(folder, "tokenizer", name, &joined(&[kind], &files))?;
    }
    let files: [&[u8]; 8] = [b"", config, b"", b"", b"", b"", b"", &pieces];
    write(folder, "tokenizer", "sentencepiece-alone", &joined(&[4], &files))?;
    write(folder, "tokenizer", "json-alone", &joined(&[1], &[bpe]))
}

/// Files of the kinds of the target, each with every size of the vocabulary.
fn vocabularies(folder: &Path) -> io::Result<()> {
    const KINDS: u8 = 12;
    let pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("\u{2581}a", -1.5, 1), ("<0x0A>", 0.0, 6)];
    let pieces = checkpoint::sentencepiece(&pieces);
    // The trainer's specification with a Unigram model, and the normalizer's: its name, a table, three switches.
    let unigram =
        [&pieces, &b"\x12\x02\x18\x01\x1a\x10\x0a\x03nfk\x12\x03\x01\x02\x03\x18\x01\x20\x01\x28\x01"[..]].concat();
    let words = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nab\n";
    let ranks = b"YQ== 0\nYg== 1\nYWI= 2\n4oA= 3\n";
    let rwkv = b"1 '\\x00' 1\n2 'a' 1\n3 b'\\xe2\\x80' 2\n4 \"'\" 1\n";
    let plamo =
        b"[\"<|plamo:unk|>\", 0.0, \"UNKNOWN\"]\n[\"<0x0A>\", -1.5, \"BYTE\"]\n[\"a\", \"-inf\", \"NORMAL\", \"a\", 1, 2]\n";
    let tekken = br#"{"config":{"default_vocab_size":15,"default_num_special_tokens":12,"version":"v2"},"vocab":[{"rank":0,"token_bytes":"YQ==","token_str":"a"},{"rank":1,"token_bytes":"Yg==","token_str":"b"},{"rank":2,"token_bytes":"YWI=","token_str":"ab"}],"special_tokens":[{"rank":0,"token_str":"<unk>","is_control":true},{"rank":1,"token_str":"<s>","is_control":true},{"rank":2,"token_str":"</s>","is_control":true},{"rank":11,"token_str":"<pad>","is_control":true}]}"#;
    let files: [&[u8]; KINDS as usize] =
        [&pieces, &unigram, &pieces, &unigram, &unigram, words, ranks, ranks, rwkv, plamo, tekken, ranks];
    for (kind, file) in (0..).zip(files) {
        for size in 0..4 {
            write(folder, "vocabulary", &format!("{kind}-{size}"), &[&[kind + KINDS * size], file].concat())?;
        }
    }
    Ok(())
}

fn cards(folder: &Path) -> io::Result<()> {
    let card = b"---\nlicense: apache-2.0\nlanguage:\n- en\n- no\nbase_model: mistralai/Mistral-7B-v0.1\ndatasets: [a/b, https://huggingface.co/c/d]\ntags:\n  - x\nmodel-index:\n- name: a\n  results: &r\n  - task: {type: t}\ntext: |\n  two\n  lines\nsame: *r\n---\n# Title\n";
    let generation =
        br#"{"temperature":0.7,"top_k":20,"repetition_penalty":1.1,"sequence":"a","other":[1,{"x":null}]}"#;
    let config = br#"{"_name_or_path":"org/Name-8x7B-Instruct-v1.0"}"#;
    let metadata = br#"{"general.name":"N","general.tags":["a"],"general.base_models":[{"name":"b","version":null}],"general.sampling.top_k":3}"#;
    write(folder, "card", "all", &joined(b"", &[card, generation, config, metadata]))?;
    write(folder, "card", "card", card)?;
    write(folder, "card", "flow", b"---\n{a: [b, {c: d}], \"e\": 'f', ? g : h}\n---\n")
}

fn recipes(folder: &Path) -> io::Result<()> {
    for (name, text) in [
        ("mixture", "Q4_K_M\n^blk\\.\\d+\\.attn_k\\.weight$=iq4_nl\n^blk\\.[01]\\.ffn_down\\.weight$=q8_0 # more\n"),
        ("rules", "^blk\\.([0-2]|1\\d|29)\\.(attn_v|ffn_down)\\.weight$=q6_K\nweight$=q4_K\n"),
        ("patterns", "(?=a)(?!b)\\bx{2,3}?(a|b|)*[^a-z\\d-]+.\\W$=q5_0"),
        ("type", "IQ2_XS"),
    ] {
        write(folder, "recipe", name, text.as_bytes())?;
    }
    Ok(())
}

fn journals(folder: &Path) -> io::Result<()> {
    let hash = "0123456789abcdef0123456789abcdef";
    for how in 0..16u8 {
        let lines = format!("0 0 8 0 {hash}\n1 0 8 0 {hash}\n2 0 8 3 {hash}\n");
        write(folder, "journal", &format!("how-{how}"), &[&[how, 20, 1][..], lines.as_bytes()].concat())?;
    }
    let line = format!("{{\"gguf_journal\":2,\"program\":\"x\",\"head\":\"\"}} {hash}\n");
    write(folder, "journal", "another", &[&[4][..], line.as_bytes()].concat())
}
