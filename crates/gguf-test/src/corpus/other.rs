//! Foreign files, versions, files truncated at every place, and unusual metadata in valid structures.

use super::bytes::*;
use super::{Corpus, Reading};

pub fn cases(c: &mut Corpus) {
    not_gguf(c);
    versions(c);
    truncated(c);
    tails(c);
    meaning(c);
}

/// A small valid file: one pair, one tensor of 32 bytes.
pub fn small(f: Form) -> File {
    let align = if f.draft.is_some() { 64 } else { 32 };
    let plain = f.llama().align(align).data(32);
    // The draft's offsets are relative to the start of the file.
    let offset = match f.draft {
        Some(_) => plain.clone().tensor("t", &[8], 0, 0).head().len().next_multiple_of(64) as u64,
        None => 0,
    };
    plain.tensor("t", &[8], 0, offset)
}

fn not_gguf(c: &mut Corpus) {
    let gguf = small(V3).bytes();
    let kinds: &[(&str, &[u8])] = &[
        ("empty", b""),
        ("one-byte", b"G"),
        ("three-bytes", b"GGU"),
        ("lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        ("html", b"<!DOCTYPE html><html><body>Not found</body></html>"),
        ("html-after-space", b"\r\n  <html><head></head></html>"),
        ("json", b"{\"error\":\"Invalid username or password.\"}"),
        ("text", b"Entry not found"),
        ("safetensors", b"\x08\0\0\0\0\0\0\0{}      "),
        ("zip", b"PK\x03\x04\x14\0\0\0\x08\0model/data.pkl"),
        ("zip-empty", b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("pickle", b"\x80\x02}q\0X\x01\0\0\0aq\x01K\x01s."),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\0\0\0\0"),
        ("ggml", b"lmgg\0\x7d\0\0\0\x10\0\0\0\x01\0\0"),
        ("ggmf", b"fmgg\x01\0\0\0\0\x7d\0\0\0\x10\0\0"),
        ("ggjt", b"tjgg\x03\0\0\0\0\x7d\0\0\0\x10\0\0"),
        ("ggcc", b"ccgg\x0a\0\0\0\0\x7d\0\0\0\x10\0\0"),
        ("ggla", b"algg\x01\0\0\0\x08\0\0\0\x10\0\0\0"),
        ("ggsn", b"nsgg\x05\0\0\0\0\0\0\0\0\0\0\0"),
        ("ggml-big", b"ggml\0\0\x7d\0\0\0\x10\0\0\0\x01\0"),
        ("zeros", &[0; 64]),
        ("zeros-two", &[0; 2]),
        ("ones", &[0xff; 64]),
        ("lower-case", b"gguf\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("near-miss", b"GGUX\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("elf", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"),
    ];
    for (name, bytes) in kinds {
        c.add(format!("not-gguf-{name}"), bytes.to_vec(), Reading::NotGguf, &["file.kind"]);
    }
    // A GGUF inside of a file is only found at a known offset.
    for (name, before) in [("embedded-1", &b"\0"[..]), ("embedded-bom", b"\xef\xbb\xbf"), ("embedded-64", &[7; 64])] {
        c.add(name, [before, &gguf].concat(), Reading::NotGguf, &["file.kind"]);
        c.sound(format!("{name}-found"), [before, &gguf].concat()[before.len()..].to_vec());
    }
    c.sound("embedded-twice", [gguf.clone(), gguf].concat());
}

fn versions(c: &mut Corpus) {
    for v in [0, 4, 5, 255, 256, 0x0003_0000, 0x0000_0300, 0x7fff_ffff, 0x8000_0000, 0x8000_0003, u32::MAX, 0x4655_4747]
    {
        let mut bytes = small(V3).bytes();
        bytes[4..8].copy_from_slice(&v.to_le_bytes());
        c.add(format!("version-{v}"), bytes, Reading::UnknownVersion, &["file.version"]);
    }
    for (name, f) in [
        ("v1", V1),
        ("v1-big", V1_BIG),
        ("v1-nul", V1_NUL),
        ("v2", V2),
        ("v2-big", V2_BIG),
        ("v2-nul", V2_NUL),
        ("v3", V3),
        ("v3-big", V3_BIG),
        ("v3-reversed-magic", V3_REVERSED),
        ("v3-reversed-magic-little", Form { reversed_magic: true, ..V3 }),
    ] {
        c.sound(format!("version-{name}"), small(f).bytes());
        c.sound(format!("version-{name}-nothing"), f.file().bytes());
    }
}

/// Every fourth length of a small file, and each length around the boundaries between fields.
fn truncated(c: &mut Corpus) {
    for (name, f) in [("v3", V3), ("v1", V1), ("big", V3_BIG)] {
        let file = small(f);
        let (bytes, head) = (file.bytes(), file.head().len());
        let counts = if f.wide() { 24 } else { 16 };
        // The minimum size of a pair and of an info after the counts.
        let held = counts + if f.wide() { 8 + 5 + 8 + 16 } else { 4 + 5 + 4 + 16 };
        for n in 0..bytes.len() {
            let edge = [4, 8, counts, held, head, bytes.len() - 32].iter().any(|&at| n.abs_diff(at) <= 1);
            if !edge && n % 4 != 0 {
                continue;
            }
            let name = format!("trunc-{name}-{n}");
            let part = bytes[..n].to_vec();
            match n {
                0..4 => c.add(name, part, Reading::NotGguf, &["file.kind"]),
                4..8 => c.past_end(name, part, &["head.past_end"]),
                // Version 1 needs the first pair to identify its variant.
                16..44 if !f.wide() => c.past_end(name, part, &["head.past_end"]),
                _ if n < held => c.past_end(name, part, &["head.counts"]),
                _ if n < head => c.past_end(name, part, &["head.past_end"]),
                _ => c.reads(name, part, &["tensor.bounds", "file.truncated"]),
            }
        }
        // The whole head and no data, of a file that is long enough.
        c.add_of(format!("head-only-{name}"), bytes[..head].to_vec(), bytes.len() as u64, Reading::Sound, &[]);
    }
}

fn tails(c: &mut Corpus) {
    let bytes = small(V3).bytes();
    c.sound("tail-none", bytes.clone());
    c.sound("tail-garbage", [&bytes[..], b"garbage"].concat());
    c.sound("tail-zeros", [bytes.clone(), vec![0; 4096]].concat());
    c.sound("tail-zip-polyglot", [&bytes[..], b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"].concat());
    let head = small(V3).head().len();
    let mut nonzero = bytes.clone();
    nonzero[head..bytes.len() - 32].fill(0xaa);
    c.sound("tail-nonzero-padding", nonzero);
    c.sound("tail-unpadded", V3.llama().tensor("t", &[5], 24, 0).data(5).bytes());
    c.reads("tail-one-short", bytes[..bytes.len() - 1].to_vec(), &["tensor.bounds", "file.truncated"]);
    c.reads("tail-no-data", bytes[..head].to_vec(), &["tensor.bounds", "file.truncated"]);
    c.reads("tail-only-padding", bytes[..bytes.len() - 32].to_vec(), &["tensor.bounds", "file.truncated"]);
    // A tensor without elements still has an offset: ggml rejects a file that ends before its data starts.
    let no_padding = V3.llama().tensor("t", &[0], 0, 0).bytes();
    c.reads("tail-dim-zero-no-padding", no_padding, &["file.truncated", "tensor.bounds"]);
    c.sound("tail-dim-zero", V3.llama().tensor("t", &[0], 0, 0).data(1).bytes());
    c.sound("tail-no-tensors-no-padding", V3.llama().bytes());
    c.sound("tail-no-tensors-data", V3.llama().data(100).bytes());
}

/// Metadata that must be handled with care, in valid structures.
fn meaning(c: &mut Corpus) {
    let f = V3;
    let one = |key: &str, ty: u32, value: Vec<u8>| f.llama().kv(key, ty, value).bytes();
    c.sound("sem-head-count-zero", one("llama.attention.head_count", U32, f.u32(0)));
    c.sound("sem-block-count-huge", one("llama.block_count", U32, f.u32(u32::MAX)));
    c.sound("sem-block-count-negative", one("llama.block_count", I32, f.u32(u32::MAX)));
    c.sound("sem-context-u64", one("llama.context_length", U64, f.u64(u64::MAX)));
    c.sound("sem-token-id-out-of-range", one("tokenizer.ggml.bos_token_id", U32, f.u32(u32::MAX)));
    c.sound("sem-scores-as-u8", one("tokenizer.ggml.scores", ARRAY, f.array(U8, 3, &[1, 2, 3])));
    c.sound("sem-tokens-as-number", one("tokenizer.ggml.tokens", U32, f.u32(3)));
    c.sound("sem-tokens-empty", one("tokenizer.ggml.tokens", ARRAY, f.strings(&["", "", ""])));
    c.sound("sem-token-byte-minus-one", one("tokenizer.ggml.tokens", ARRAY, f.strings(&["<0x-1>", "<0xZZ>"])));
    c.sound("sem-template-dunder", one("tokenizer.chat_template", STRING, f.string(b"{{ ''.__class__.__mro__ }}")));
    c.sound(
        "sem-template-loop",
        one("tokenizer.chat_template", STRING, f.string(b"{% for i in range(9**9) %}{% endfor %}")),
    );
    c.sound("sem-url-file", one("general.url", STRING, f.string(b"file:///etc/passwd")));
    c.sound("sem-file-type-huge", one("general.file_type", U32, f.u32(u32::MAX)));
    c.sound("sem-split-count-huge", one("split.count", U16, f.u16(u16::MAX)));
    c.sound("sem-float-nan", one("llama.rope.freq_base", F32, f.u32(0x7fc0_0001)));
    c.sound("sem-float-infinity", one("llama.rope.freq_base", F64, f.u64(f64::INFINITY.to_bits())));
    c.sound("sem-architecture-number", f.file().kv("general.architecture", U32, f.u32(7)).bytes());
    c.sound("sem-architecture-missing", f.file().bytes());
    c.sound("string-not-utf8", one("general.name", STRING, f.string(b"\xff\xfe\xc3")));
    c.sound("string-surrogate", one("general.name", STRING, f.string(b"\xed\xa0\x80")));
    c.sound("string-nul-inside", one("general.name", STRING, f.string(b"a\0b")));
    c.sound("string-only-nul", one("general.name", STRING, f.string(b"\0")));
    c.sound("string-escape", one("general.name", STRING, f.string(b"\x1b]0;title\x07\x1b[2J\r\n")));
    c.sound("string-bidi", one("general.name", STRING, f.string("\u{202e}evil\u{202c}".as_bytes())));
    c.sound("string-5000", one("general.name", STRING, f.string(&[b'x'; 5000])));
}
