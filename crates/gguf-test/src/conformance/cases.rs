//! Files that only other implementations need: the values of every type, decoded tensors, shards, models for writers, and large files.

use gguf_format::{GgmlType, TYPES, swap_blocks};

use super::judge::Value;
use crate::corpus::bytes::*;
use crate::data::{Scales, blocks};
use crate::random::Random;

/// A file: the bytes that are stored, and its length. Zeros follow.
pub struct File {
    pub name: String,
    pub start: Vec<u8>,
    pub len: u64,
}

/// A model whose file is fixed.
pub struct Model {
    pub name: &'static str,
    pub form: Form,
    pub pairs: Vec<(&'static str, Value)>,
    pub tensors: Vec<Data>,
}

/// A tensor of a model.
pub struct Data {
    pub name: String,
    pub shape: Vec<u64>,
    pub ty: u32,
    pub bytes: Vec<u8>,
}

pub const FORMS: [(&str, Form); 4] = [("v3", V3), ("big", V3_BIG), ("v2", V2), ("v1", V1)];

fn number(ty: u32, n: u64) -> Value {
    Value::Number(ty, n)
}

fn words(texts: &[&str]) -> Value {
    Value::List(STRING, texts.iter().map(|t| Value::Text(t.as_bytes().to_vec())).collect())
}

/// The values of a type that a reader may get wrong.
fn ends(ty: u32) -> Vec<Value> {
    let bits = |list: &[u64]| list.iter().map(|n| number(ty, *n)).collect();
    match ty {
        U8 => bits(&[0, 1, 0x7f, 0x80, 0xff]),
        I8 => bits(&[0, 1, 0x7f, 0x80, 0xff]),
        U16 | I16 => bits(&[0, 1, 0x0102, 0x7fff, 0x8000, 0xffff]),
        U32 | I32 => bits(&[0, 1, 0x0102_0304, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]),
        U64 | I64 => bits(&[0, 1, 0x0102_0304_0506_0708, (1 << 53) + 1, i64::MAX as u64, 1 << 63, u64::MAX]),
        F32 => [0.0, -0.0, 1.5, 0.1, f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::INFINITY, -f32::INFINITY, f32::NAN]
            .iter()
            .map(|x| number(ty, x.to_bits().into()))
            .collect(),
        F64 => [0.0, -0.0, 1.5, 0.1, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::INFINITY, -f64::INFINITY, f64::NAN]
            .iter()
            .map(|x| number(ty, x.to_bits()))
            .collect(),
        BOOL => bits(&[0, 1]),
        _ => ["", "a", "\t\"\\\n", "naïve", "日本語", "🦙", "a b c"]
            .iter()
            .map(|t| Value::Text(t.as_bytes().to_vec()))
            .collect(),
    }
}

/// The type of a value, and its bytes.
pub fn encode(f: Form, value: &Value) -> (u32, Vec<u8>) {
    match value {
        Value::Number(ty, n) => (*ty, f.number(*ty, *n)),
        Value::Text(raw) => (STRING, f.string(raw)),
        Value::List(ty, items) => {
            let items_bytes: Vec<u8> = items.iter().flat_map(|item| encode(f, item).1).collect();
            (ARRAY, f.array(*ty, items.len() as u64, &items_bytes))
        }
        Value::Long(_) => unreachable!("nothing long is written"),
    }
}

impl Model {
    /// The alignment that its metadata states, or 32.
    fn alignment(&self) -> usize {
        let stated = self.pairs.iter().find(|(key, _)| *key == "general.alignment");
        match stated {
            Some((_, Value::Number(U32, n))) => *n as usize,
            _ => 32,
        }
    }

    /// The file, and the end of the last tensor without the padding that may follow.
    pub fn file(&self) -> (Vec<u8>, usize) {
        let (f, align) = (self.form, self.alignment());
        let mut file = f.file();
        for (key, value) in &self.pairs {
            let (ty, raw) = encode(f, value);
            file = file.kv(key, ty, raw);
        }
        let mut data = Vec::new();
        let mut end = 0;
        for t in &self.tensors {
            file = file.tensor(&t.name, &t.shape, t.ty, data.len() as u64);
            data.extend(&t.bytes);
            end = data.len();
            data.resize(end.next_multiple_of(align), 0);
        }
        let mut out = file.head();
        if self.tensors.is_empty() {
            let end = out.len();
            return (out, end);
        }
        out.resize(out.len().next_multiple_of(align), 0);
        let end = out.len() + end;
        out.extend(data);
        (out, end)
    }
}

/// The types whose blocks can be decoded.
pub fn decoded_types() -> impl Iterator<Item = GgmlType> {
    let types = TYPES.iter().filter(|info| !info.removed).map(|info| GgmlType(info.id));
    types.filter(|ty| is_plain(*ty) || gguf_quants::codec::codec(*ty).is_some())
}

/// Integers and doubles, which are their own values.
fn is_plain(ty: GgmlType) -> bool {
    matches!(ty, GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64 | GgmlType::F64)
}

/// The decoded values of little-endian data, as JSON.
pub fn decoded(ty: GgmlType, raw: &[u8]) -> Option<Vec<String>> {
    fn each<const N: usize>(raw: &[u8], value: impl Fn([u8; N]) -> String) -> Vec<String> {
        raw.as_chunks::<N>().0.iter().map(|b| value(*b)).collect()
    }
    Some(match ty {
        GgmlType::I8 => each(raw, |b| i8::from_le_bytes(b).to_string()),
        GgmlType::I16 => each(raw, |b| i16::from_le_bytes(b).to_string()),
        GgmlType::I32 => each(raw, |b| i32::from_le_bytes(b).to_string()),
        GgmlType::I64 => each(raw, |b| i64::from_le_bytes(b).to_string()),
        GgmlType::F64 => each(raw, |b| super::json::float(f64::from_le_bytes(b))),
        _ => gguf_quants::dequantize(ty, raw).ok()?.iter().map(|x| super::json::float(*x)).collect(),
    })
}

/// A tensor of random blocks with moderate scales.
fn random_tensor(ty: GgmlType, name: &str) -> Data {
    let info = ty.info().expect("a known type");
    let n_blocks = 64u64.div_ceil(info.block_len.into()).min(16).max(if info.block_len == 1 { 16 } else { 1 });
    let mut random = Random::new("conformance", ty.0.into());
    let bytes = match is_plain(ty) {
        true => random.bytes((n_blocks * u64::from(info.block_bytes)) as usize),
        false => blocks(ty, Scales::Finite, &mut random, n_blocks as usize),
    };
    let bytes = if ty == GgmlType::F64 {
        (0..n_blocks).flat_map(|_| f64::from(random.normal()).to_le_bytes()).collect()
    } else {
        bytes
    };
    Data { name: name.to_owned(), shape: vec![n_blocks * u64::from(info.block_len)], ty: ty.0, bytes }
}

fn name_of(ty: GgmlType) -> &'static str {
    ty.info().map_or("unknown", |info| info.name)
}

/// Complete files.
pub fn files() -> Vec<File> {
    let mut out = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>| {
        let len = bytes.len() as u64;
        out.push(File { name, start: bytes, len });
    };
    for (form, f) in FORMS {
        for ty in (0..13).filter(|ty| *ty != ARRAY) {
            let mut file = f.llama();
            for (i, value) in ends(ty).iter().enumerate() {
                file = file.kv(format!("value.n{i}"), ty, encode(f, value).1);
            }
            let (_, list) = encode(f, &Value::List(ty, ends(ty)));
            add(format!("value-{form}-{}", super::json::type_name(ty)), file.kv("value.list", ARRAY, list).bytes());
        }
    }
    let mut tensors = |name: String, form: Form, tensors: Vec<Data>| {
        let pairs = vec![("general.architecture", Value::Text(b"llama".to_vec()))];
        add(name, Model { name: "", form, pairs, tensors }.file().0);
    };
    for ty in decoded_types() {
        tensors(format!("data-v3-{}", name_of(ty)), V3, vec![random_tensor(ty, "t")]);
    }
    for ty in decoded_types().filter(|ty| ty.info().is_some_and(|info| info.block_len == 1)) {
        let mut tensor = random_tensor(ty, "t");
        swap_blocks(ty, &mut tensor.bytes).expect("plain numbers are swapped");
        tensors(format!("data-big-{}", name_of(ty)), V3_BIG, vec![tensor]);
    }
    for (form, f) in [("v2", V2), ("v1", V1)] {
        for ty in [GgmlType::F32, GgmlType::F16, GgmlType::Q4_0, GgmlType::Q8_0] {
            tensors(format!("data-{form}-{}", name_of(ty)), f, vec![random_tensor(ty, "t")]);
        }
    }
    let all = decoded_types().map(|ty| random_tensor(ty, name_of(ty))).collect();
    tensors("data-every-type".to_owned(), V3, all);
    let special = |ty: GgmlType, words: &[u64], width: usize| {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()[..width].to_vec()).collect();
        Data { name: "t".to_owned(), shape: vec![words.len() as u64], ty: ty.0, bytes }
    };
    let singles = [0, 0x8000_0000, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7f7f_ffff, 0x3dcc_cccd];
    tensors("data-special-f32".to_owned(), V3, vec![special(GgmlType::F32, &singles, 4)]);
    let halves = [0, 0x8000, 1, 0x03ff, 0x0400, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x2e66];
    tensors("data-special-f16".to_owned(), V3, vec![special(GgmlType::F16, &halves, 2)]);
    let brains = [0, 0x8000, 1, 0x0080, 0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0x3dcd];
    tensors("data-special-bf16".to_owned(), V3, vec![special(GgmlType::BF16, &brains, 2)]);

    for (set, count, n_tensors) in [("shard-set", 3, 3), ("shard-too-few", 3, 9), ("shard-number", 2, 3)] {
        for no in 0..3u64 {
            let mut pairs = vec![
                ("split.no", number(U16, no)),
                ("split.count", number(U16, count)),
                ("split.tensors.count", number(I32, n_tensors)),
            ];
            if no == 0 {
                pairs.insert(0, ("general.architecture", Value::Text(b"llama".to_vec())));
            }
            let mut tensor = random_tensor(GgmlType::F32, "t");
            tensor.name = format!("blk.{no}.ffn_up.weight");
            let model = Model { name: "", form: V3, pairs, tensors: vec![tensor] };
            add(format!("{set}-{:05}-of-00003", no + 1), model.file().0);
        }
    }
    out
}

/// Large files: the bytes of their start, and their length.
pub fn growth() -> Vec<File> {
    let f = V3;
    let mut out = Vec::new();
    let mut add = |name: &str, start: Vec<u8>, len: u64| out.push(File { name: format!("growth-{name}"), start, len });
    // A value at the end of the head, of which only the length is stored.
    let open = |key: &str, ty: u32, value: Vec<u8>| f.llama().kv(key, ty, value).bytes();
    for (name, n) in [("name-64m", 64u64 << 20), ("name-1g", 1 << 30)] {
        let start = open("general.name", STRING, f.u64(n));
        let len = start.len() as u64 + n;
        add(name, start, len);
    }
    for (name, elem, n, width) in [
        ("u8-256m", U8, 1u64 << 28, 1),
        ("f64-16m", F64, 1 << 24, 8),
        ("bool-64m", BOOL, 1 << 26, 1),
        ("strings-1m", STRING, 1 << 20, 8),
        ("arrays-64k", ARRAY, 1 << 16, 12),
    ] {
        let start = open("tokenizer.ggml.tokens", ARRAY, f.array(elem, n, &[]));
        let len = start.len() as u64 + n * width;
        add(name, start, len);
    }
    // Zeros are pairs with empty keys, and tensors without names.
    add("keys-256k", f.file().n_kv(1 << 18).head(), 24 + (13 << 18));
    add("tensors-256k", f.file().n_tensors(1 << 18).head(), 24 + (24 << 18) + 64);
    let tensor = |shape: &[u64], bytes: u64| {
        let head = f.llama().tensor("t", shape, 0, 0).head();
        let len = head.len().next_multiple_of(32) as u64 + bytes;
        (head, len)
    };
    let (start, len) = tensor(&[1 << 17, 1 << 17], 4 << 34);
    add("tensor-64g", start.clone(), len);
    add("tensor-64g-one-short", start, len - 1);
    let (start, len) = tensor(&[1 << 28], 4 << 28);
    add("row-1g", start, len);
    let shared = (0..2000).fold(f.llama(), |file, i| file.tensor(format!("blk.{i}.attn_q.weight"), &[256, 512], 0, 0));
    let len = shared.head().len().next_multiple_of(32) as u64 + 4 * 256 * 512;
    add("shared-data", shared.head(), len);
    // 2,000 tensors in order, so that a search of the list for each name takes a long time.
    let many = (0..2000).fold(f.llama(), |file, i| file.tensor(format!("blk.{i}.attn_q.weight"), &[8], 0, 32 * i));
    let len = many.head().len().next_multiple_of(32) as u64 + 32 * 2000;
    add("tensors-2k", many.head(), len);
    let keys = (0..10_000).fold(f.llama(), |file, i| file.kv(format!("key.n{i}"), U32, f.u32(i)));
    let head = keys.head();
    let len = head.len() as u64;
    add("keys-10k", head, len);
    out
}

/// The models for writers.
pub fn models() -> Vec<Model> {
    let arch = || ("general.architecture", Value::Text(b"llama".to_vec()));
    let tensor = |name: &str, ty: GgmlType, shape: &[u64]| {
        let info = ty.info().expect("a known type");
        let n: u64 = shape.iter().product();
        let mut random = Random::new(name, ty.0.into());
        let bytes = blocks(ty, Scales::Finite, &mut random, (n / u64::from(info.block_len)) as usize);
        Data { name: name.to_owned(), shape: shape.to_vec(), ty: ty.0, bytes }
    };
    let every = |form: Form, name: &'static str| {
        let mut pairs = vec![arch()];
        pairs.extend([
            ("value.u8", number(U8, 200)),
            ("value.i8", number(I8, 0x80)),
            ("value.u16", number(U16, 60_000)),
            ("value.i16", number(I16, 0x8000)),
            ("value.u32", number(U32, 4_000_000_000)),
            ("value.i32", number(I32, 0xffff_fffe)),
            ("value.f32", number(F32, 0.1f32.to_bits().into())),
            ("value.bool", number(BOOL, 1)),
            ("value.string", Value::Text("naïve 🦙".as_bytes().to_vec())),
            ("value.u64", number(U64, 1 << 63)),
            ("value.i64", number(I64, u64::MAX)),
            ("value.f64", number(F64, 0.1f64.to_bits())),
        ]);
        Model { name, form, pairs, tensors: vec![tensor("t", GgmlType::F32, &[3])] }
    };
    let with_alignment = |n: u64, name: &'static str| {
        let pairs = vec![arch(), ("general.alignment", number(U32, n))];
        let tensors = vec![
            tensor("a", GgmlType::F32, &[3]),
            tensor("b", GgmlType::F16, &[5]),
            tensor("c", GgmlType::Q8_0, &[32, 3]),
        ];
        Model { name, form: V3, pairs, tensors }
    };
    let lists = (0..13).filter(|ty| *ty != ARRAY).map(|ty| {
        (
            [
                "list.u8",
                "list.i8",
                "list.u16",
                "list.i16",
                "list.u32",
                "list.i32",
                "list.f32",
                "list.bool",
                "list.string",
                "",
                "list.u64",
                "list.i64",
                "list.f64",
            ][ty as usize],
            Value::List(ty, ends(ty).into_iter().take(5).collect()),
        )
    });
    let nested = Value::List(
        ARRAY,
        vec![Value::List(U8, vec![number(U8, 1), number(U8, 2)]), words(&["x", ""]), Value::List(ARRAY, vec![])],
    );
    vec![
        Model { name: "write-nothing", form: V3, pairs: vec![], tensors: vec![] },
        Model { name: "write-one-pair", form: V3, pairs: vec![arch()], tensors: vec![] },
        Model {
            name: "write-one-tensor",
            form: V3,
            pairs: vec![arch()],
            tensors: vec![tensor("t", GgmlType::F32, &[8])],
        },
        every(V3, "write-every-value"),
        every(V3_BIG, "write-big-endian"),
        every(V2, "write-version-2"),
        Model {
            name: "write-arrays",
            form: V3,
            pairs: std::iter::once(arch()).chain(lists).collect(),
            tensors: vec![],
        },
        Model {
            name: "write-empty-array",
            form: V3,
            pairs: vec![arch(), ("list.empty", Value::List(U32, vec![]))],
            tensors: vec![],
        },
        Model { name: "write-nested-arrays", form: V3, pairs: vec![arch(), ("list.nested", nested)], tensors: vec![] },
        with_alignment(8, "write-alignment-8"),
        with_alignment(32, "write-alignment-32"),
        with_alignment(64, "write-alignment-64"),
        with_alignment(4096, "write-alignment-4096"),
        Model {
            name: "write-dimensions",
            form: V3,
            pairs: vec![arch()],
            tensors: vec![
                tensor("one", GgmlType::F32, &[5]),
                tensor("two", GgmlType::F32, &[3, 2]),
                tensor("three", GgmlType::F32, &[3, 2, 2]),
                tensor("four", GgmlType::F32, &[3, 1, 2, 2]),
            ],
        },
        Model {
            name: "write-types",
            form: V3,
            pairs: vec![arch(), ("general.quantization_version", number(U32, 2))],
            tensors: vec![
                tensor("a.weight", GgmlType::Q4_0, &[32, 3]),
                tensor("b.weight", GgmlType::Q6_K, &[256, 1]),
                tensor("c.weight", GgmlType::BF16, &[7]),
                tensor("d.weight", GgmlType::IQ4_NL, &[64]),
            ],
        },
        Model {
            name: "write-order",
            form: V3,
            pairs: vec![("z.last", number(U8, 1)), ("a.first", number(U8, 2)), arch()],
            tensors: vec![tensor("z", GgmlType::F32, &[1]), tensor("a", GgmlType::F32, &[2])],
        },
        Model {
            name: "write-name-63",
            form: V3,
            pairs: vec![arch()],
            tensors: vec![{
                let mut t = tensor("n", GgmlType::F32, &[8]);
                t.name = "n".repeat(63);
                t
            }],
        },
        Model {
            name: "write-hundred",
            form: V3,
            pairs: vec![arch()],
            tensors: (0..100)
                .map(|i| tensor(&format!("blk.{i}.attn_norm.weight"), GgmlType::F32, &[i % 9 + 1]))
                .collect(),
        },
    ]
}
