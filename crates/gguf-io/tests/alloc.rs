//! Memory while reading a head from a stream: at every instant at most three times the bytes read so far plus 64 KiB, for every file of the
//! format's corpus and for expensive heads.
//!
//! A program of its own because of its counting allocator.

use std::io::{self, Read};

use gguf_io::read_head;
use gguf_test::corpus::bytes::*;
use gguf_test::{corpus, counting};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// A stream that delivers a limited number of bytes at a time, and reports each read to the allocator.
struct Pieces<'a> {
    left: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.left.len().min(self.most).min(buf.len());
        let (now, later) = self.left.split_at(n);
        buf[..n].copy_from_slice(now);
        self.left = later;
        counting::read(n);
        Ok(n)
    }
}

/// Heads that are long, or claim large sizes.
fn costly() -> Vec<(&'static str, Vec<u8>)> {
    let n = (1 << 16) + 64;
    let pairs = V1.kv(b"", U8, &[1]).repeat(n);
    let infos = V1.info(b"", &[], 0, 0).repeat(n);
    let strings = V3.array(STRING, n as u64, &V3.string(b"abc").repeat(n));
    let promise = V3.llama().kv("a", ARRAY, V3.array(U8, 1 << 40, &[1; 100_000]));
    vec![
        ("pairs", V1.file().raw_kv(pairs).n_kv(n as u64).bytes()),
        ("infos", V1.llama().raw_tensor(infos).n_tensors(n as u64).bytes()),
        ("strings", V3.llama().kv("tokens", ARRAY, &strings).bytes()),
        ("a large value", V3.llama().kv("a", ARRAY, V3.array(U8, 3_000_000, &[1; 3_000_000])).bytes()),
        ("a promise", promise.bytes()),
        ("much data", V3.llama().data(5_000_000).bytes()),
    ]
}

/// A single test: the counts are those of the whole process.
#[test]
fn memory_follows_the_bytes_read() {
    let mut files: Vec<(String, Vec<u8>)> = corpus::all().into_iter().map(|c| (c.name, c.bytes)).collect();
    files.extend(costly().into_iter().map(|(name, bytes)| (name.to_owned(), bytes)));
    let mut broken = vec![];
    let mut whole = 0;
    for (name, bytes) in &files {
        for total in [None, Some(bytes.len() as u64)] {
            for most in [1000, usize::MAX] {
                let mut stream = Pieces { left: bytes, most };
                let law = counting::law(0, || {
                    let head = read_head(&mut stream, total).expect("a stream that does not fail");
                    whole += usize::from(head.into_gguf().is_ok_and(|gguf| gguf.head_bytes() > 0));
                });
                if let Err(excess) = law {
                    broken.push(format!("{name} ({total:?} bytes, {most} at a time): {excess}"));
                }
            }
        }
    }
    for line in &broken {
        println!("{line}");
    }
    assert!(whole > files.len(), "{whole} heads were whole");
    assert!(broken.is_empty(), "{} of {} files exceed the limit", broken.len(), files.len());
}
