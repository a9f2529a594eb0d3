//! What is read and written without a change is the same file, byte by byte: for odd files made here and for every file
//! of the corpus. Real models: `interop/tables.rs`.

use gguf_test::corpus;
use gguf_test::corpus::Reading;
use gguf_test::corpus::bytes::*;
use gguf_test::corpus::rewrite::same_bytes;

/// A file with everything that is odd and can be read.
fn odd(f: Form) -> File {
    let nested =
        f.array(ARRAY, 3, &[f.strings(&["a", ""]), f.array(ARRAY, 0, &[]), f.array(U16, 1, &f.u16(7))].concat());
    let mut file = f.llama();
    for ty in 0..13 {
        file = file.kv(format!("type.{ty}"), ty, f.some(ty));
        file = file.kv(format!("array.{ty}"), ARRAY, f.array(ty, 2, &[f.some(ty), f.some(ty)].concat()));
        file = file.kv(format!("empty.{ty}"), ARRAY, f.array(ty, 0, &[]));
    }
    file.kv("nested", ARRAY, nested)
        .kv("Upper Case!", F64, f.u64(0x7ff8_0000_dead_beef))
        .kv("not.utf8", STRING, f.string(b"\xff\0\xfe"))
        .kv("nan", F32, f.u32(0xffc0_1234))
        .kv("twice", U8, [1])
        .kv("twice", I64, f.u64(u64::MAX))
        .kv("", U8, [2])
        .kv("a.bool.of.7", BOOL, [7])
        .kv("bools", ARRAY, f.array(BOOL, 3, &[0, 7, 255]))
        .tensor("last.in.the.file", &[8, 1, 1, 1], 0, 192)
        .tensor("scalar", &[], 0, 128)
        .tensor("five", &[1, 1, 1, 1, 1], 24, 64)
        .tensor("", &[0, 3], 0, 0)
        .tensor("removed", &[16], 4, 0)
        .tensor("unknown", &[u64::from(u32::MAX)], 99, u64::MAX)
        .tensor("twice", &[2], 0, 32)
        .tensor("twice", &[2], 0, 32)
        .data(333)
}

#[test]
fn odd_files() {
    let forms = [V1, V1_BIG, V1_NUL, V2, V2_BIG, V2_NUL, V3, V3_BIG, V3_REVERSED, Form { reversed_magic: true, ..V3 }];
    for (i, f) in forms.into_iter().enumerate() {
        let ways = same_bytes(&format!("odd file {i}"), &odd(f).bytes());
        assert!(ways >= 10, "odd file {i} by {ways} ways");
        for v in [8, 24, 64, 4096] {
            let aligned = odd(f).kv("general.alignment", U32, f.u32(v)).align(v.into());
            same_bytes(&format!("odd file {i} with alignment {v}"), &aligned.bytes());
        }
    }
}

#[test]
fn the_corpus() {
    let mut n = 0;
    for case in corpus::all().iter().filter(|c| c.reading == Reading::Sound) {
        same_bytes(&case.name, &case.bytes);
        n += 1;
    }
    assert!(n > 300, "{n} files");
}
