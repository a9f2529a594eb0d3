//! Counts, lengths, element types and nesting: numbers that make a careless reader allocate, wrap or loop forever.

use super::bytes::*;
use super::other::small;
use super::{Corpus, Reading};

/// Numbers that wrap, truncate or change sign somewhere.
const HUGE: [(&str, u64); 13] = [
    ("65536", 1 << 16),
    ("2e31-1", (1 << 31) - 1),
    ("2e31", 1 << 31),
    ("2e32-1", (1 << 32) - 1),
    ("2e32", 1 << 32),
    ("2e32+5", (1 << 32) + 5),
    ("2e53+1", (1 << 53) + 1),
    ("2e60", 1 << 60),
    ("2e61", 1 << 61),
    ("2e62+1", (1 << 62) + 1),
    ("2e63-1", (1 << 63) - 1),
    ("2e63", 1 << 63),
    ("2e64-1", u64::MAX),
];

/// The forms for every length, each with its representable numbers.
fn forms() -> impl Iterator<Item = (&'static str, Form, &'static str, u64)> {
    [("v3", V3), ("big", V3_BIG), ("v1", V1)].into_iter().flat_map(|(name, f)| {
        HUGE.into_iter().filter(move |&(_, n)| f.wide() || n <= u32::MAX.into()).map(move |(say, n)| (name, f, say, n))
    })
}

pub fn cases(c: &mut Corpus) {
    for (form, f, say, n) in forms() {
        c.past_end(format!("nkv-{form}-{say}"), small(f).n_kv(n).bytes(), &["head.counts"]);
        c.past_end(format!("ntensors-{form}-{say}"), small(f).n_tensors(n).bytes(), &["head.counts"]);
        let both = small(f).n_kv(n).n_tensors(n).bytes();
        c.past_end(format!("counts-{form}-{say}"), both, &["head.counts"]);

        let key = [f.string_of(n, b"general.name"), f.u32(U8), vec![1; 64]].concat();
        c.past_end(format!("keylen-{form}-{say}"), f.file().raw_kv(key).bytes(), &["head.past_end", "key.length"]);
        let value = [f.string_of(n, b"text"), vec![0; 64]].concat();
        c.past_end(format!("strlen-{form}-{say}"), f.llama().kv("a", STRING, value).bytes(), &["head.past_end"]);
        let name = [f.string_of(n, b"t"), f.u32(1), f.len(8), f.u32(0), f.u64(0), vec![0; 64]].concat();
        let file = f.llama().raw_tensor(name).data(32).bytes();
        c.past_end(format!("tname-len-{form}-{say}"), file, &["head.past_end", "tensor.name.length"]);
        for (elem, ty) in [("u8", U8), ("u16", U16), ("f32", F32), ("u64", U64), ("bool", BOOL), ("string", STRING)] {
            let file = f.llama().kv("a", ARRAY, f.array(ty, n, &[1; 64])).bytes();
            c.past_end(format!("arrlen-{form}-{elem}-{say}"), file, &["head.past_end"]);
        }
        let inner = f.array(U8, 0, &[]);
        let nested = f.array(ARRAY, n, &[inner.clone(), inner.clone(), inner].concat());
        c.past_end(format!("arrlen-{form}-array-{say}"), f.llama().kv("a", ARRAY, nested).bytes(), &["head.past_end"]);
        let inside = f.array(ARRAY, 1, &f.array(U64, n, &[1; 64]));
        c.past_end(format!("arrlen-{form}-inside-{say}"), f.llama().kv("a", ARRAY, inside).bytes(), &["head.past_end"]);
    }
    counts(c);
    lengths(c);
    types(c);
    nesting(c);
}

fn counts(c: &mut Corpus) {
    // Counts that wrap to a small number when multiplied by the size of a reader's structures.
    for size in [13, 24, 32, 48, 56, 64, 80, 88, 96, 288, 336, 352, 368] {
        let n = (u64::MAX / size).wrapping_add(1);
        c.past_end(format!("ntensors-div{size}"), small(V3).n_tensors(n).bytes(), &["head.counts"]);
        c.past_end(format!("nkv-div{size}"), small(V3).n_kv(n).bytes(), &["head.counts"]);
    }
    for (form, f) in [("v3", V3), ("v1", V1)] {
        // Too few pairs: the next is parsed as a tensor. Too many: a tensor is parsed as a pair.
        let pair = f.llama().kv("a", U32, f.u32(1));
        c.sound(format!("nkv-{form}-0-nothing-else"), pair.clone().n_kv(0).bytes());
        c.sound(format!("ntensors-{form}-0"), small(f).n_tensors(0).bytes());
        c.sound(format!("nkv-{form}-1-too-few"), pair.n_kv(1).bytes());
        c.past_end(format!("nkv-{form}-1-too-many"), f.llama().n_kv(2).bytes(), &["head.past_end"]);
        let too_many = small(f).n_tensors(2).head();
        let codes = &["head.past_end", "tensor.bounds", "file.truncated"];
        c.past_end(format!("ntensors-{form}-1-too-many"), too_many, codes);
        // The counts are possible, but not the counted items.
        let held = [f.llama().n_kv(2).head(), vec![0; 13]].concat();
        c.reads(format!("nkv-{form}-zeros"), held, &["key.empty"]);
        let fits = [small(f).n_tensors(2).head(), vec![0; 24]].concat();
        let codes = &["tensor.bounds", "tensor.overlap", "file.truncated"];
        c.reads(format!("ntensors-{form}-zeros"), fits, codes);
    }
    let file = (0..3000).fold(V3.llama(), |file, i| file.kv(format!("k{i}"), U8, [1]));
    c.sound("nkv-3000", file.bytes());
    let file = (0..3000).fold(V3.llama(), |file, i| file.tensor(format!("t{i}"), &[0], 0, 0));
    c.sound("ntensors-3000-empty", file.data(1).bytes());
}

/// Lengths that are off by one.
fn lengths(c: &mut Corpus) {
    for (form, f) in [("v3", V3), ("v1", V1), ("big", V3_BIG)] {
        let value = |n: u64| f.llama().kv("a", STRING, f.string_of(n, b"text")).bytes();
        c.sound(format!("strlen-{form}-exact"), value(4));
        c.past_end(format!("strlen-{form}-1-more"), value(5), &["head.past_end"]);
        c.sound(format!("strlen-{form}-1-less"), value(3));
        c.sound(format!("strlen-{form}-0"), value(0));
        let array = |n: u64| f.llama().kv("a", ARRAY, f.array(U32, n, &[0; 12])).bytes();
        c.sound(format!("arrlen-{form}-exact"), array(3));
        c.past_end(format!("arrlen-{form}-1-more"), array(4), &["head.past_end"]);
        c.sound(format!("arrlen-{form}-1-less"), array(2));
        let strings = |n: u64| f.llama().kv("a", ARRAY, f.array(STRING, n, &f.string(b"abc"))).bytes();
        c.sound(format!("arrlen-{form}-string-exact"), strings(1));
        c.past_end(format!("arrlen-{form}-string-1-more"), strings(2), &["head.past_end"]);
        let last = f.array(STRING, 2, &[f.string(b"abc"), f.string_of(9, b"short")].concat());
        c.past_end(format!("arrlen-{form}-last-string"), f.llama().kv("a", ARRAY, last).bytes(), &["head.past_end"]);
        let key = |n: u64| f.file().raw_kv([f.string_of(n, b"key"), f.u32(U8), vec![1]].concat()).bytes();
        c.past_end(format!("keylen-{form}-all"), key(100), &["head.past_end"]);
        let name = |n: u64| f.llama().raw_tensor([f.string_of(n, b"t"), vec![0; 40]].concat()).bytes();
        c.past_end(format!("tname-len-{form}-beyond"), name(60), &["head.past_end"]);
    }
    for ty in [U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64] {
        let bytes = V3.llama().kv("a", ty, V3.some(ty)).bytes();
        c.past_end(format!("trunc-value-{ty}"), bytes[..bytes.len() - 1].to_vec(), &["head.past_end"]);
    }
}

fn types(c: &mut Corpus) {
    for (form, f) in [("v3", V3), ("big", V3_BIG), ("v1", V1)] {
        for ty in 0..13 {
            c.sound(format!("valuetype-{form}-{ty}"), f.llama().kv("a", ty, f.some(ty)).bytes());
            let two = [f.some(ty), f.some(ty)].concat();
            c.sound(format!("arrtype-{form}-{ty}"), f.llama().kv("a", ARRAY, f.array(ty, 2, &two)).bytes());
            c.sound(format!("arrtype-{form}-{ty}-empty"), f.llama().kv("a", ARRAY, f.array(ty, 0, &[])).bytes());
        }
        for ty in [13, 14, 16, 99, 255, 256, 0x0900_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let mut unknown = |name: String, ty: u32, value: Vec<u8>| {
                let file = f.llama().kv("a", ty, [value, vec![0; 32]].concat()).bytes();
                c.add(name, file, Reading::UnknownValueType, &["value.type"]);
            };
            unknown(format!("valuetype-{form}-unknown-{ty}"), ty, vec![]);
            unknown(format!("arrtype-{form}-unknown-{ty}"), ARRAY, f.array(ty, 1, &[]));
            unknown(format!("arrtype-{form}-unknown-{ty}-empty"), ARRAY, f.array(ty, 0, &[]));
            unknown(format!("arrtype-{form}-unknown-{ty}-inside"), ARRAY, f.array(ARRAY, 1, &f.array(ty, 0, &[])));
        }
    }
}

/// `depth` nested arrays.
fn nested(f: Form, depth: usize, innermost: &[u8]) -> Vec<u8> {
    (1..depth).fold(innermost.to_vec(), |inner, _| f.array(ARRAY, 1, &inner))
}

fn nesting(c: &mut Corpus) {
    for (form, f) in [("v3", V3), ("big", V3_BIG), ("v1", V1)] {
        let of = |depth| f.llama().kv("a", ARRAY, nested(f, depth, &f.array(U8, 1, &[7]))).bytes();
        for depth in [2, 3, 16, 63, 64] {
            c.sound(format!("nest-{form}-{depth}"), of(depth));
        }
        for depth in [65, 66, 1000, 20_000] {
            c.add(format!("nest-{form}-{depth}"), of(depth), Reading::TooDeep, &["value.nesting"]);
        }
        let wide = f.array(ARRAY, 500, &f.array(STRING, 0, &[]).repeat(500));
        c.sound(format!("nest-{form}-wide"), f.llama().kv("a", ARRAY, wide).bytes());
        let mixed = [f.array(U8, 2, &[1, 2]), f.strings(&["x", ""]), f.array(ARRAY, 1, &f.array(F64, 0, &[]))].concat();
        c.sound(format!("nest-{form}-mixed"), f.llama().kv("a", ARRAY, f.array(ARRAY, 3, &mixed)).bytes());
        let cut = f.array(ARRAY, 3, &[f.array(U8, 2, &[1, 2]), f.strings(&["x", ""])].concat());
        c.past_end(format!("nest-{form}-one-short"), f.llama().kv("a", ARRAY, cut).bytes(), &["head.past_end"]);
        // A bomb: each level claims the entire rest.
        let bomb = (0..40).fold(vec![], |inner: Vec<u8>, _| f.array(ARRAY, 1 << 20, &inner));
        c.past_end(format!("nest-{form}-bomb"), f.llama().kv("a", ARRAY, bomb).bytes(), &["head.past_end"]);
    }
}
