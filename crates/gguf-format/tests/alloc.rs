//! Memory: at every instant at most three times the bytes read so far plus 64 KiB, for every input.
//!
//! A program of its own because of its counting allocator.

use gguf_format::{Gguf, HeadScan, ScanState, check};
use gguf_test::corpus;
use gguf_test::corpus::bytes::*;
use gguf_test::corpus::other::small;
use gguf_test::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Files whose heads consist of the smallest, or the most expensive, items.
fn costly() -> Vec<(&'static str, Vec<u8>)> {
    // Just beyond a power of two, where a doubling vector has the most unused capacity.
    let n = (1 << 16) + 64;
    let many = |file: File, what: &str, one: &dyn Fn(u64) -> Vec<u8>| {
        let encoded: Vec<u8> = (0..n).flat_map(one).collect();
        if what == "pairs" {
            file.raw_kv(encoded).n_kv(n).bytes()
        } else {
            file.raw_tensor(encoded).n_tensors(n).bytes()
        }
    };
    let name = |i: u64| i.to_le_bytes()[..4].to_vec();
    vec![
        ("empty keys", many(V3.file(), "pairs", &|_| V3.kv(b"", U8, &[1]))),
        ("empty keys of version 1", many(V1.file(), "pairs", &|_| V1.kv(b"", U8, &[1]))),
        ("empty keys and empty arrays", many(V3.file(), "pairs", &|_| V3.kv(b"", ARRAY, &V3.array(U8, 0, &[])))),
        ("short keys", many(V3.file(), "pairs", &|i| V3.kv(&name(i), U8, &[9]))),
        ("bad bools", many(V1.file(), "pairs", &|i| V1.kv(&name(i), BOOL, &[9]))),
        ("keys twice", many(V1.file(), "pairs", &|i| V1.kv(&name(i / 2), U8, &[9]))),
        ("large values", (0..200).fold(V3.file(), |f, i| f.kv(name(i), STRING, V3.string(&[b'x'; 4096]))).bytes()),
        ("scalars", many(V3.llama(), "tensors", &|i| V3.info(&name(i), &[], 0, i * 32))),
        ("scalars of version 1", many(V1.llama(), "tensors", &|i| V1.info(&name(i), &[], 0, i * 32))),
        ("nameless scalars", many(V1.llama(), "tensors", &|_| V1.info(b"", &[], 0, 0))),
        ("nameless empty tensors", many(V3.llama(), "tensors", &|_| V3.info(b"", &[0], 0, 0))),
        ("tensors twice", many(V1.llama(), "tensors", &|i| V1.info(&name(i / 2), &[], 0, 0))),
        ("unaligned and beyond", many(V1.llama(), "tensors", &|i| V1.info(&name(i), &[1], 0, i + (1 << 40)))),
        ("unknown types", many(V1.llama(), "tensors", &|i| V1.info(&name(i), &[], 99, 1))),
        ("long names", many(V3.llama(), "tensors", &|i| V3.info(&[&[b'n'; 100][..], &name(i)].concat(), &[], 0, 0))),
        ("strings", V3.llama().kv("a", ARRAY, V3.array(STRING, n, &V3.string(b"").repeat(n as usize))).bytes()),
        ("arrays", V3.llama().kv("a", ARRAY, V3.array(ARRAY, n, &V3.array(U8, 0, &[]).repeat(n as usize))).bytes()),
        ("a large file", small(V3).data(1 << 20).bytes()),
    ]
}

/// Reads a head in pieces into memory that doubles, like a program.
fn read_in_pieces(file: &[u8], piece: usize) {
    let mut scan = HeadScan::new(Some(file.len() as u64));
    let mut bytes: Vec<u8> = vec![];
    for part in file.chunks(piece) {
        if bytes.capacity() - bytes.len() < part.len() {
            bytes.reserve_exact(bytes.len().max(part.len()));
        }
        counting::read(part.len());
        bytes.extend_from_slice(part);
        match scan.advance(&bytes) {
            Ok(ScanState::Need(_)) => {}
            Ok(ScanState::Complete) => {
                let gguf = Gguf::from_scan(&bytes, &scan).map(|g| (g.n_kv(), g.n_tensors()));
                return drop(std::hint::black_box(gguf));
            }
            Err(e) => return drop(std::hint::black_box(e)),
        }
    }
}

/// A single test: the counts are those of the whole process.
#[test]
fn memory_follows_the_bytes_read() {
    let mut files: Vec<(String, Vec<u8>, u64)> =
        corpus::all().into_iter().map(|c| (c.name, c.bytes, c.file_bytes)).collect();
    files.extend(costly().into_iter().map(|(name, bytes)| {
        let n = bytes.len() as u64;
        (name.to_owned(), bytes, n)
    }));
    let mut broken = vec![];
    for (name, bytes, file_bytes) in &files {
        let mut law = |what: &str, read: usize, run: &dyn Fn()| {
            if let Err(excess) = counting::law(read, run) {
                broken.push(format!("{name}: {what} of {} bytes: {excess}", bytes.len()));
            }
        };
        law("reading a slice", bytes.len(), &|| {
            let parsed = Gguf::parse(bytes).map(|g| g.n_kv());
            drop(std::hint::black_box(parsed));
        });
        law("reading within the file", bytes.len(), &|| {
            let parsed = Gguf::parse_within(bytes, Some(*file_bytes)).map(|g| g.n_kv());
            drop(std::hint::black_box(parsed));
        });
        law("judging the structure", bytes.len(), &|| {
            assert!(std::hint::black_box(check::structure(bytes, *file_bytes)).codes().count() < 40);
        });
        for piece in [1000, 65_536] {
            law("reading in pieces", 0, &|| read_in_pieces(bytes, piece));
        }
    }
    for line in &broken {
        println!("{line}");
    }
    assert!(broken.is_empty(), "{} of {} files break the law", broken.len(), files.len());
}
