//! Keys, bools, duplicates and the alignment.

use super::bytes::*;
use super::{Corpus, Reading};

pub fn cases(c: &mut Corpus) {
    spelling(c);
    bools(c);
    duplicates(c);
    alignment(c);
}

fn spelling(c: &mut Corpus) {
    let one = |key: &[u8]| V3.llama().kv(key, U8, [1]).bytes();
    c.reads("key-empty", one(b""), &["key.empty"]);
    c.reads("key-empty-only", V3.file().kv("", U8, [1]).bytes(), &["key.empty"]);
    c.reads("key-empty-v1", V1.llama().kv("", U8, [1]).bytes(), &["key.empty"]);
    // With its counted NUL an empty key has length 1.
    c.reads("key-empty-nul", V2_NUL.llama().kv("", U8, [1]).bytes(), &["key.empty"]);
    c.sound("key-one-byte", one(b"a"));
    c.sound("key-65535", one(&[b'k'; 65_535]));
    c.reads("key-65536", one(&[b'k'; 65_536]), &["key.length"]);
    c.reads("key-100000", one(&[b'k'; 100_000]), &["key.length"]);
    let odd: &[(&str, &[u8])] = &[
        ("upper-case", b"General.Name"),
        ("dash", b"deepseek-ocr.block_count"),
        ("space", b" general.name "),
        ("dots", b"..a..b.."),
        ("newline-ansi", b"a\n\x1b[31mred"),
        ("nul-inside", b"general.name\0hidden"),
        ("nul-last", b"general.name\0"),
        ("nul-only", b"\0"),
        ("not-utf8", b"\xff\xfe"),
        ("utf8", "schlüssel.名前".as_bytes()),
        ("bidi", "\u{202e}drawkcab".as_bytes()),
        ("path", b"../../etc/passwd"),
        ("html", b"<script>alert(1)</script>"),
        ("proto", b"__proto__"),
        ("gguf-py", b"GGUF.version"),
    ];
    for (name, key) in odd {
        c.sound(format!("key-{name}"), one(key));
    }
}

fn bools(c: &mut Corpus) {
    for b in [0, 1, 2, 7, 127, 128, 255u8] {
        let codes: &[&str] = if b > 1 { &["value.bool"] } else { &[] };
        let one = |ty: u32, value: &[u8]| V3.llama().kv("a", ty, value).bytes();
        c.reads(format!("bool-{b}"), one(BOOL, &[b]), codes);
        c.reads(format!("bool-array-{b}"), one(ARRAY, &V3.array(BOOL, 3, &[0, 1, b])), codes);
        let nested = V3.array(ARRAY, 2, &[V3.array(BOOL, 0, &[]), V3.array(BOOL, 2, &[1, b])].concat());
        c.reads(format!("bool-nested-{b}"), one(ARRAY, &nested), codes);
        let big = V3_BIG.llama().kv("a", BOOL, [b]);
        c.reads(format!("bool-big-{b}"), big.bytes(), codes);
        c.sound(format!("bool-not-u8-{b}"), one(U8, &[b]));
    }
}

fn duplicates(c: &mut Corpus) {
    let f = V3;
    let dup = &["key.duplicate"];
    c.reads("dup-key", f.llama().kv("a", U8, [1]).kv("a", U8, [1]).bytes(), dup);
    c.reads("dup-key-other-type", f.llama().kv("a", U8, [1]).kv("a", STRING, f.string(b"x")).bytes(), dup);
    c.reads("dup-key-apart", f.file().kv("a", U8, [1]).kv("b", U8, [1]).kv("a", U8, [2]).bytes(), dup);
    c.reads("dup-key-three", f.file().kv("a", U8, [1]).kv("a", U8, [1]).kv("a", U8, [1]).bytes(), dup);
    c.reads("dup-architecture", f.llama().kv("general.architecture", STRING, f.string(b"gpt2")).bytes(), dup);
    c.reads("dup-key-empty", f.file().kv("", U8, [1]).kv("", U8, [1]).bytes(), &["key.duplicate", "key.empty"]);
    c.reads("dup-key-nul-strings", V2_NUL.llama().kv("a", U8, [1]).kv("a", U8, [1]).bytes(), dup);
    c.sound("dup-not-prefix", f.llama().kv("a", U8, [1]).kv("aa", U8, [1]).bytes());
    // In C, a key ends at a NUL.
    c.reads("dup-key-up-to-nul", f.llama().kv("a", U8, [1]).kv("a\0", U8, [1]).bytes(), dup);
    c.reads("dup-key-nul-twice", f.llama().kv("a\0b", U8, [1]).kv("a\0c", U8, [1]).bytes(), dup);
    c.sound("dup-not-case", f.llama().kv("a", U8, [1]).kv("A", U8, [1]).bytes());
    let many = (0..200).fold(f.llama(), |file, i| file.kv(format!("k{}", i % 100), U8, [1]));
    c.reads("dup-key-hundred", many.bytes(), dup);

    let dup = &["tensor.duplicate"];
    let two = |a: &str, b: &str| f.llama().tensor(a, &[8], 0, 0).tensor(b, &[8], 0, 32).data(64).bytes();
    c.reads("dup-tensor", two("t", "t"), dup);
    c.reads("dup-tensor-empty-name", two("", ""), dup);
    c.sound("dup-tensor-not-prefix", two("t", "t2"));
    c.reads("dup-tensor-up-to-nul", two("t", "t\0"), dup);
    let three = f.llama().tensor("t", &[8], 0, 0).tensor("u", &[8], 0, 32).tensor("t", &[8], 0, 64).data(96);
    c.reads("dup-tensor-apart", three.bytes(), dup);
    let zeros = f.llama().tensor("t", &[0], 0, 0).tensor("t", &[0], 0, 0).data(1);
    c.reads("dup-tensor-no-data", zeros.bytes(), dup);
}

fn alignment(c: &mut Corpus) {
    let f = V3;
    let key = "general.alignment";
    let with = |ty: u32, value: Vec<u8>| f.llama().kv(key, ty, value);
    let u32_of = |v: u64| with(U32, f.u32(v as u32));

    for v in [1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 4096, 65_536] {
        c.sound(format!("align-{v}"), u32_of(v).align(v).tensor("t", &[8], 0, 0).data(32).bytes());
        c.sound(format!("align-{v}-no-tensors"), u32_of(v).bytes());
        // The second tensor has the offset for alignment 1.
        let two = u32_of(v).align(v).tensor("t", &[1], 24, 0).tensor("u", &[1], 24, 1).data(2).bytes();
        c.reads(format!("align-{v}-packed"), two, if v == 1 { &[] } else { &["tensor.unaligned"] });
    }
    for v in [0, 3, 5, 7, 12, 20, 33, 100, 0x7fff_ffff, 0xffff_ffff] {
        let bytes = u32_of(v).tensor("t", &[8], 0, 0).data(32).bytes();
        c.add(format!("align-{v}"), bytes, Reading::Alignment, &["alignment.value"]);
        c.add(format!("align-{v}-no-tensors"), u32_of(v).bytes(), Reading::Alignment, &["alignment.value"]);
    }
    for v in [1 << 30, 1 << 31, 0xffff_fff8] {
        let bytes = u32_of(v).tensor("t", &[8], 0, 0).data(32).bytes();
        c.reads(format!("align-{v}"), bytes, &["tensor.bounds", "file.truncated"]);
        c.sound(format!("align-{v}-no-tensors"), u32_of(v).bytes());
        let empty = u32_of(v).tensor("t", &[0], 0, 0).bytes();
        c.reads(format!("align-{v}-empty-tensor"), empty, &["file.truncated", "tensor.bounds"]);
    }
    for ty in [U8, I8, U16, I16, I32, U64, I64] {
        let good = with(ty, f.number(ty, 32)).tensor("t", &[8], 0, 0).data(32).bytes();
        c.reads(format!("align-type-{ty}"), good, &["alignment.type"]);
        let zero = with(ty, f.number(ty, 0)).bytes();
        c.add(format!("align-type-{ty}-0"), zero, Reading::Alignment, &["alignment.type", "alignment.value"]);
    }
    for (name, ty, value) in [
        ("i32-negative", I32, f.u32(-32i32 as u32)),
        ("i64-min", I64, f.u64(1 << 63)),
        ("u64-2e32", U64, f.u64(1 << 32)),
        ("u64-max", U64, f.u64(u64::MAX)),
        ("f32", F32, f.u32(32f32.to_bits())),
        ("f64", F64, f.u64(32f64.to_bits())),
        ("bool", BOOL, vec![1]),
        ("string", STRING, f.string(b"32")),
        ("array", ARRAY, f.array(U32, 1, &f.u32(32))),
    ] {
        let bytes = with(ty, value).tensor("t", &[8], 0, 0).data(32).bytes();
        c.add(format!("align-type-{name}"), bytes, Reading::Alignment, &["alignment.type"]);
    }
    let twice = u32_of(64).kv(key, U32, f.u32(32)).align(64).tensor("t", &[8], 0, 0).data(32).bytes();
    c.reads("align-twice", twice, &["key.duplicate"]);
    c.sound("align-big", {
        let f = V3_BIG;
        f.llama().kv(key, U32, f.u32(64)).align(64).tensor("t", &[8], 0, 0).data(32).bytes()
    });
    let f = V1;
    for value in [7, 64, 256] {
        let alias = f.llama().kv("general.alignment\0", U32, f.u32(value)).tensor("t", &[8], 0, 0).data(32).bytes();
        c.reads(format!("align-alias-{value}"), alias, &["alignment.alias"]);
    }
    let both = f.llama().kv(key, U32, f.u32(32)).kv("general.alignment\0x", U32, f.u32(64)).bytes();
    c.reads("align-alias-beside", both, &["alignment.alias", "key.duplicate"]);
    c.sound("align-v1", f.llama().kv(key, U32, f.u32(64)).align(64).tensor("t", &[8], 0, 0).data(32).bytes());
    let f = V2_NUL;
    c.sound("align-nul", f.llama().kv(key, U32, f.u32(64)).align(64).tensor("t", &[8], 0, 0).data(32).bytes());
}
