//! Tensor names, dimensions, types, and offsets.

use super::bytes::*;
use super::{Corpus, Reading};

/// Id, elements per block and bytes per block, as in ggml.
#[rustfmt::skip]
pub const TYPES: [(u32, u64, u64); 43] = [
    (0, 1, 4), (1, 1, 2), (2, 32, 18), (3, 32, 20), (4, 16, 10), (5, 16, 12), (6, 32, 22), (7, 32, 24), (8, 32, 34),
    (9, 32, 36), (10, 256, 84), (11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (15, 256, 292),
    (16, 256, 66), (17, 256, 74), (18, 256, 98), (19, 256, 50), (20, 32, 18), (21, 256, 110), (22, 256, 82),
    (23, 256, 136), (24, 1, 1), (25, 1, 2), (26, 1, 4), (27, 1, 8), (28, 1, 8), (29, 256, 56), (30, 1, 2),
    (31, 32, 18), (32, 32, 18), (33, 32, 18), (34, 256, 54), (35, 256, 66), (36, 32, 18), (37, 32, 18), (38, 32, 18),
    (39, 32, 17), (40, 64, 36), (41, 128, 18), (42, 64, 18),
];

/// Types removed from ggml.
const REMOVED: [u32; 8] = [4, 5, 31, 32, 33, 36, 37, 38];

const F32_TENSOR: u32 = 0;
const I8_TENSOR: u32 = 24;
const BEYOND: &[&str] = &["tensor.bounds", "file.truncated"];

pub fn cases(c: &mut Corpus) {
    names(c);
    dimensions(c);
    sizes(c);
    types(c);
    offsets(c);
}

fn one(f: Form, dims: &[u64], ty: u32) -> Vec<u8> {
    f.llama().tensor("t", dims, ty, 0).data(32).bytes()
}

fn names(c: &mut Corpus) {
    let named = |name: &[u8]| V3.llama().tensor(name, &[8], 0, 0).data(32).bytes();
    for n in [0, 1, 63, 64] {
        c.sound(format!("tname-{n}"), named(&b"n".repeat(n)));
    }
    for n in [65, 100, 255, 5000, 70_000] {
        c.reads(format!("tname-{n}"), named(&b"n".repeat(n)), &["tensor.name.length"]);
    }
    let f = V2_NUL;
    c.sound("tname-64-nul", f.llama().tensor(b"n".repeat(64), &[8], 0, 0).data(32).bytes());
    c.reads("tname-65-nul", f.llama().tensor(b"n".repeat(65), &[8], 0, 0).data(32).bytes(), &["tensor.name.length"]);
    let odd: &[(&str, &[u8])] = &[
        ("path", b"../../../etc/cron.d/x"),
        ("absolute", b"/etc/passwd"),
        ("windows", b"C:\\con\\nul"),
        ("newline-ansi", b"a\r\n\x1b[2Jb"),
        ("nul-inside", b"blk.0\0.weight"),
        ("not-utf8", b"\xc3\x28\xff"),
        ("bidi", "\u{2066}x\u{2069}".as_bytes()),
        ("html", b"<img src=x onerror=alert(1)>"),
        ("printf", b"%s%s%n"),
        ("shell", b"$(reboot);`id`"),
    ];
    for (name, bytes) in odd {
        c.sound(format!("tname-{name}"), named(bytes));
    }
}

fn dimensions(c: &mut Corpus) {
    for (form, f) in [("v3", V3), ("big", V3_BIG), ("v1", V1)] {
        c.sound(format!("ndims-{form}-0"), one(f, &[], F32_TENSOR));
        for n in 1..=4 {
            c.sound(format!("ndims-{form}-{n}"), one(f, &[2, 2, 2, 1][..n], F32_TENSOR));
        }
        for n in [5, 8, 9, 255, 1000] {
            c.reads(format!("ndims-{form}-{n}"), one(f, &vec![1; n], F32_TENSOR), &["tensor.dims"]);
        }
        for n in [1 << 16, (1 << 29) + 1, (1 << 30) + 1, 0x7fff_ffff, 1 << 31, u32::MAX] {
            let info = f.info_stating(b"t", n, &[8, 8, 8, 8], 0, F32_TENSOR, 0);
            let file = f.llama().raw_tensor(info).data(32).bytes();
            c.past_end(format!("ndims-{form}-{n}-lie"), file, &["head.past_end", "tensor.dims"]);
        }
        c.sound(format!("dims-{form}-trailing-ones"), one(f, &[8, 1, 1, 1], F32_TENSOR));
        c.sound(format!("dims-{form}-leading-one"), one(f, &[1, 8], F32_TENSOR));
        c.sound(format!("dims-{form}-zero"), one(f, &[0], F32_TENSOR));
        c.sound(format!("dims-{form}-zero-last"), one(f, &[8, 0], F32_TENSOR));
        c.reads(format!("dims-{form}-one-more-than-data"), one(f, &[9], F32_TENSOR), BEYOND);
        c.reads(format!("dims-{form}-2e31-2"), one(f, &[1 << 31, 2], I8_TENSOR), BEYOND);
        c.reads(format!("dims-{form}-2e32-1"), one(f, &[u64::from(u32::MAX)], I8_TENSOR), BEYOND);
        let max = u64::from(u32::MAX);
        c.reads(format!("dims-{form}-wrap-four"), one(f, &[max, max, max, max], F32_TENSOR), &["tensor.size"]);
        let n = 1 << 31;
        c.reads(format!("dims-{form}-wrap-zero"), one(f, &[n, n, 4], F32_TENSOR), &["tensor.size"]);
        let eight = if f.wide() { vec![(1 << 61) + 1, 8] } else { vec![n, n, n, n] };
        c.reads(format!("dims-{form}-wrap-eight"), one(f, &eight, F32_TENSOR), &["tensor.size"]);
    }
}

/// Sizes beyond 64 bits, 63 bits, or the file.
fn sizes(c: &mut Corpus) {
    let wraps: &[(&str, &[u64], u32)] = &[
        ("max", &[u64::MAX], I8_TENSOR),
        ("max-four", &[u64::MAX; 4], F32_TENSOR),
        ("2e63", &[1 << 63], I8_TENSOR),
        ("2e63-zero", &[1 << 63, 0], I8_TENSOR),
        ("zero-2e63", &[0, 1 << 63], I8_TENSOR),
        ("wrap-then-zero", &[1 << 40, 1 << 40, 0], I8_TENSOR),
        ("2e32-2e32", &[1 << 32, 1 << 32], F32_TENSOR),
        ("2e42+1", &[(1 << 42) + 1, 1 << 22], F32_TENSOR),
        ("2e31-2e32", &[1 << 31, 1 << 32], I8_TENSOR),
        ("bytes-wrap-2e62", &[1 << 62], F32_TENSOR),
        ("bytes-wrap-2e62+8", &[(1 << 62) + 8], F32_TENSOR),
        ("bytes-wrap-2e61", &[1 << 61], F32_TENSOR),
        ("bytes-wrap-f64", &[1 << 60], 28),
        ("bytes-wrap-f16", &[1 << 62], 1),
        ("bytes-wrap-q8_0", &[(1 << 63) - 32, 1], 8),
        ("bytes-wrap-q8_1", &[1 << 58, 31], 9),
        ("bytes-wrap-q8_k", &[(1 << 63) - 256], 15),
    ];
    for (name, dims, ty) in wraps {
        c.reads(format!("dims-{name}"), one(V3, dims, *ty), &["tensor.size"]);
        c.reads(format!("dims-{name}-big"), one(V3_BIG, dims, *ty), &["tensor.size"]);
    }
    let large: &[(&str, &[u64], u32)] = &[
        ("1TiB", &[1 << 38], F32_TENSOR),
        ("mem-size", &[(1 << 63) - 32], I8_TENSOR),
        ("2e63-1", &[(1 << 63) - 1], I8_TENSOR),
        ("pad-wrap", &[(1 << 63) - 31], I8_TENSOR),
        ("2e32-elements", &[1 << 16, 1 << 16], F32_TENSOR),
        ("2e32-bytes", &[1 << 15, 1 << 15], F32_TENSOR),
        ("2e60", &[1 << 60], F32_TENSOR),
        ("2e62-q4_0", &[1 << 62], 2),
        ("two-rows", &[8, 2], F32_TENSOR),
    ];
    for (name, dims, ty) in large {
        c.reads(format!("dims-{name}"), one(V3, dims, *ty), BEYOND);
    }
    // No elements, and strides that wrap, with the zero in each place.
    for (at, dims) in [[0, 1 << 62, 1 << 62], [1 << 62, 0, 1 << 62], [1 << 62, 1 << 62, 0]].iter().enumerate() {
        c.reads(format!("dims-zero-2e62-{at}"), one(V3, dims, I8_TENSOR), &["tensor.size"]);
    }
    c.sound("dims-zero-2e31", one(V3, &[1 << 31, 1 << 31, 0], I8_TENSOR));
    // Valid sizes whose sum wraps.
    let n = 1 << 62;
    let file = (0..4).fold(V3.llama(), |file, i| file.tensor(format!("t{i}"), &[n], I8_TENSOR, i * n));
    c.reads("dims-sum-wrap", file.data(32).bytes(), BEYOND);
    let half = (1 << 63) - 32;
    let file = V3.llama().tensor("a", &[half], I8_TENSOR, 0).tensor("b", &[half], I8_TENSOR, half);
    c.reads("dims-sum-wrap-two", file.data(32).bytes(), BEYOND);
}

fn types(c: &mut Corpus) {
    for (id, len, bytes) in TYPES {
        let removed: &[&str] = if REMOVED.contains(&id) { &["tensor.type.removed"] } else { &[] };
        let of = |dims: &[u64], n: u64| V3.llama().tensor("t", dims, id, 0).data(n as usize).bytes();
        c.reads(format!("type-{id}"), of(&[2 * len, 3], 6 * bytes), removed);
        let short = [removed, BEYOND].concat();
        c.reads(format!("type-{id}-one-byte-short"), of(&[2 * len, 3], 6 * bytes - 1), &short);
        if len > 1 {
            let row = [removed, &["tensor.row"]].concat();
            c.reads(format!("type-{id}-part-of-a-block"), of(&[len + len / 2], 2 * bytes), &row);
            c.reads(format!("type-{id}-one"), of(&[1, len], bytes), &row);
            c.reads(format!("type-{id}-no-dimensions"), of(&[], bytes), &row);
        }
    }
    for id in [43, 44, 63, 64, 99, 100, 255, 256, 65_536, 0x0200_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        c.reads(format!("unknown-type-{id}"), one(V3, &[8], id), &["tensor.type.unknown"]);
        c.reads(format!("unknown-type-{id}-big"), one(V3_BIG, &[8], id), &["tensor.type.unknown"]);
        let far = V3.llama().tensor("t", &[8], id, 1 << 40).data(32).bytes();
        c.reads(format!("unknown-type-{id}-far"), far, &["tensor.type.unknown", "tensor.bounds"]);
    }
}

fn offsets(c: &mut Corpus) {
    let at = |offset: u64| V3.llama().tensor("t", &[8], F32_TENSOR, offset).data(96).bytes();
    for offset in [0, 32, 64] {
        c.sound(format!("off-{offset}"), at(offset));
    }
    for offset in [1, 4, 16, 31, 33, 63] {
        c.reads(format!("off-{offset}-unaligned"), at(offset), &["tensor.unaligned"]);
    }
    for (name, offset) in
        [("end", 96), ("past-end", 128), ("2e31", 1 << 31), ("2e32", 1 << 32), ("2e40", 1 << 40), ("2e63", 1 << 63)]
    {
        c.reads(format!("off-{name}"), at(offset), BEYOND);
    }
    // The end of the data exceeds 64 bits: the required file length has no representation.
    for (name, offset) in [("2e64-32", 0u64.wrapping_sub(32)), ("2e64-64", 0u64.wrapping_sub(64))] {
        c.reads(format!("off-{name}"), at(offset), &["tensor.bounds"]);
    }
    c.reads("off-max", at(u64::MAX), &["tensor.bounds", "tensor.unaligned"]);
    c.reads("off-2e63+1", at((1 << 63) + 1), &["tensor.bounds", "tensor.unaligned", "file.truncated"]);
    c.reads("off-65", at(65), &["tensor.bounds", "tensor.unaligned", "file.truncated"]);

    // Pairs of tensors: shape and offset of each.
    let two = |a: (&[u64], u64), b: (&[u64], u64)| {
        V3.llama().tensor("a", a.0, F32_TENSOR, a.1).tensor("b", b.0, F32_TENSOR, b.1).data(256).bytes()
    };
    let overlap = &["tensor.overlap"];
    c.sound("off-packed", two((&[8], 0), (&[8], 32)));
    c.reads("off-shared", two((&[8], 0), (&[8], 0)), &["tensor.shared"]);
    c.sound("off-gap", two((&[8], 0), (&[8], 128)));
    c.sound("off-reversed", two((&[8], 64), (&[8], 0)));
    c.sound("off-first-not-at-zero", two((&[8], 32), (&[8], 64)));
    c.reads("off-overlap-part", two((&[16], 0), (&[16], 32)), overlap);
    c.reads("off-overlap-part-reversed", two((&[16], 32), (&[16], 0)), overlap);
    c.reads("off-overlap-nested", two((&[64], 0), (&[8], 64)), overlap);
    c.reads("off-overlap-nested-reversed", two((&[8], 64), (&[64], 0)), overlap);
    c.reads("off-overlap-same-start", two((&[8], 0), (&[16], 0)), overlap);
    c.reads("off-overlap-same-end", two((&[16], 0), (&[8], 32)), overlap);
    c.reads("off-overlap-one-byte", two((&[8], 0), (&[8], 31)), &["tensor.overlap", "tensor.unaligned"]);
    c.sound("off-empty-inside", two((&[64], 0), (&[0], 64)));
    c.sound("off-empty-both", two((&[0], 0), (&[0], 0)));
    c.sound("off-empty-at-end", two((&[64], 0), (&[0], 256)));
    c.reads("off-empty-beyond", two((&[64], 0), (&[0], 288)), BEYOND);
    let three =
        V3.llama().tensor("a", &[64], 0, 0).tensor("b", &[8], 0, 32).tensor("c", &[8], 0, 128).data(256).bytes();
    c.reads("off-overlap-two-in-one", three, overlap);
    let chain = (0..7).fold(V3.llama(), |file, i| file.tensor(format!("t{i}"), &[16], 0, 32 * i)).data(256).bytes();
    c.reads("off-overlap-chain", chain, overlap);
    // The tensor would fit with a smaller type: the next one starts inside it.
    let smaller = V3.llama().tensor("a", &[32], 8, 0).tensor("b", &[32], 2, 32).data(64).bytes();
    c.reads("off-overlap-type", smaller, overlap);
    let unknown = V3.llama().tensor("a", &[64], 99, 0).tensor("b", &[8], 0, 32).data(64).bytes();
    c.reads("off-overlap-unknown-size", unknown, &["tensor.type.unknown"]);
    let head = V3.llama().tensor("t", &[8], 0, 0).head();
    c.add_of("off-file-longer-than-u32", head.clone(), 1 << 40, Reading::Sound, &[]);
    c.add_of("off-file-length-max", head, u64::MAX, Reading::Sound, &[]);
    let head = V3.llama().tensor("t", &[1 << 37], 0, 0).tensor("u", &[8], 0, 1 << 39).head();
    let end = head.len().next_multiple_of(32) as u64 + (1 << 39) + 32;
    c.add_of("off-beyond-4GiB", head.clone(), end, Reading::Sound, &[]);
    c.add_of("off-beyond-4GiB-one-short", head, end - 1, Reading::Sound, BEYOND);
}
