//! What is read and written without a change is the same file, byte by byte: for odd files made here, for every file of
//! the corpus, and, where they are at hand, for real models.

#[path = "corpus/mod.rs"]
mod corpus;

use std::path::{Path, PathBuf};
use std::{env, fs};

use corpus::bytes::*;
use corpus::rewrite::{plain_dialects, rebuilt, through};
use corpus::{Reading, accessors};
use gguf_format::{ByteOrder, Dialect, DraftReading, Gguf, Version};

/// Reads a file, writes its head again in every way, and compares: all of the file, what stands behind the head included.
fn same_bytes(name: &str, file: &[u8]) -> usize {
    let gguf = Gguf::parse(file).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (read, rest) = file.split_at(gguf.head_bytes() as usize);
    let head = accessors::round_trip(&gguf);
    let again = [&head.encode_as_read().expect(name), rest].concat();
    assert!(again == file, "{name} differs");
    assert!(rebuilt(&head).encode_as_read().expect(name) == read, "{name} differs with its arrays built anew");
    let mut ways = 0;
    for dialect in dialects() {
        let back = through(&head, dialect);
        ways += usize::from(back.is_some());
        assert!(back.is_none_or(|back| back == read), "{name} differs by way of {dialect:?}");
    }
    ways
}

/// Every dialect a head can be written in.
fn dialects() -> Vec<Dialect> {
    let mut out = plain_dialects().to_vec();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for version in [Version::V1, Version::V2] {
            let plain = Dialect::new(version).with_order(order);
            out.extend([plain, Dialect { nul_strings: true, ..plain }]);
        }
    }
    out.push(Dialect { reversed_magic: true, ..Dialect::new(Version::V3).with_order(ByteOrder::Big) });
    for i in 0..8 {
        let (value_len_is_inclusive, array_type_first, full_padding) = (i & 1 != 0, i & 2 != 0, i & 4 != 0);
        let draft = DraftReading { value_len_is_inclusive, array_type_first, full_padding };
        out.push(Dialect { draft, ..Dialect::new(Version::Draft) });
    }
    out
}

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

/// All files of a folder and the folders in it whose names end in `.gguf`.
fn models(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            models(&path, into);
        } else if path.extension().is_some_and(|e| e == "gguf") {
            into.push(path);
        }
    }
}

/// Part of the interop suite: every model of the shared data, and the vocabularies of llama.cpp.
#[test]
fn real_models() {
    let folders: Vec<PathBuf> = [("GGUF_SHARED", "data"), ("GGUF_PEERS", "llama.cpp/models")]
        .iter()
        .filter_map(|(var, folder)| Some(PathBuf::from(env::var_os(var)?).join(folder)))
        .collect();
    for folder in folders {
        let mut paths = vec![];
        models(&folder, &mut paths);
        assert!(!paths.is_empty(), "no models in {}", folder.display());
        for path in paths {
            let file = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            same_bytes(&path.display().to_string(), &file);
        }
    }
}
