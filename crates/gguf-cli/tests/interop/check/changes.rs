//! All changes of a model: each key and tensor is removed, given other values, types, shapes and names, and new ones are added.

use super::*;

/// A change of a model.
pub(super) enum Edit {
    RemoveKey(usize),
    SetKey(usize, Raw),
    AddKey(Kv),
    RemoveTensor(usize),
    SetTensor(usize, Tensor),
    AddTensor(Tensor),
}

/// A change, what it changes, and the kind of change.
pub(super) struct Mutation {
    pub(super) item: String,
    pub(super) class: String,
    pub(super) edit: Edit,
}

impl Edit {
    pub(super) fn apply(&self, to: &Model) -> Model {
        let mut model = to.clone();
        match self {
            Edit::RemoveKey(i) => drop(model.kvs.remove(*i)),
            Edit::SetKey(i, value) => model.kvs[*i].value = value.clone(),
            Edit::AddKey(kv) => model.kvs.push(kv.clone()),
            Edit::RemoveTensor(i) => drop(model.tensors.remove(*i)),
            Edit::SetTensor(i, tensor) => model.tensors[*i] = tensor.clone(),
            Edit::AddTensor(tensor) => model.tensors.push(tensor.clone()),
        }
        model
    }
}

/// All changes of a model, in a fixed order.
pub(super) fn mutations(model: &Model) -> Vec<Mutation> {
    let mut all = Vec::new();
    let arch = model.arch();
    let n_blocks = model.count(&keys::for_arch(keys::BLOCK_COUNT, &arch)).unwrap_or(1).clamp(1, 64);
    for (i, kv) in model.kvs.iter().enumerate() {
        let item = match kv.key.strip_prefix(&format!("{arch}.")) {
            Some(rest) => format!("{{arch}}.{rest}"),
            None => kv.key.clone(),
        };
        let mut add = |class: String, edit: Edit| all.push(Mutation { item: item.clone(), class, edit });
        add("key removed".into(), Edit::RemoveKey(i));
        for (class, value) in values(&kv.key, &kv.value, n_blocks) {
            if value != kv.value {
                add(class, Edit::SetKey(i, value));
            }
        }
    }
    add_keys(model, &arch, n_blocks, &mut all);
    // One tensor of each name in the first and the last block that has it.
    let mut chosen: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (i, t) in model.tensors.iter().enumerate() {
        let entry = chosen.entry(pattern(&t.name)).or_insert((i, i));
        entry.1 = i;
    }
    let indexes: BTreeSet<usize> = chosen.values().flat_map(|(first, last)| [*first, *last]).collect();
    for i in indexes {
        let t = &model.tensors[i];
        let item = pattern(&t.name);
        let mut add = |class: String, edit: Edit| all.push(Mutation { item: item.clone(), class, edit });
        add("tensor removed".into(), Edit::RemoveTensor(i));
        add("tensor twice".into(), Edit::AddTensor(t.clone()));
        for (class, dims) in shapes(&t.dims) {
            if dims != t.dims {
                add(class, Edit::SetTensor(i, Tensor { dims, ..t.clone() }));
            }
        }
        for (ty, name) in TYPES {
            if *ty != t.ty {
                add(format!("tensor of {name}"), Edit::SetTensor(i, Tensor { ty: *ty, ..t.clone() }));
            }
        }
        for (class, name) in names(&t.name, n_blocks) {
            add(class, Edit::SetTensor(i, Tensor { name, ..t.clone() }));
        }
    }
    add_tensors(model, &arch, n_blocks, &mut all);
    add_own_tensors(model, &arch, n_blocks, &mut all);
    all
}

/// A name without its numbers.
fn pattern(name: &str) -> String {
    let parts = name.split('.').map(|part| if part.parse::<u64>().is_ok() { "N" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

/// Other values of a key.
fn values(key: &str, value: &Raw, n_blocks: u64) -> Vec<(String, Raw)> {
    let mut out = Vec::new();
    match value {
        Raw::One(ty, bytes) => {
            let n = decoded(*ty, bytes);
            for (to, name) in SCALARS {
                out.push((format!("key as {name}"), Raw::One(to, number(to, n))));
            }
            for (class, to, count) in [
                ("array of 1", *ty, 1),
                ("array of a block each", *ty, n_blocks),
                ("array of one too few", *ty, n_blocks - 1),
                ("array of one too many", *ty, n_blocks + 1),
                ("array of i32 of a block each", I32, n_blocks),
                ("array of f32 of a block each", F32, n_blocks),
                ("array of bool of a block each", BOOL, n_blocks),
                ("array of u64 of a block each", U64, n_blocks),
                ("array of string", STRING, 2),
                ("array of none", *ty, 0),
                ("array of 4", *ty, 4),
                ("array of 513", *ty, 513),
            ] {
                let element = if to == *ty { bytes.clone() } else { number(to, n) };
                out.push((format!("key as {class}"), Raw::Many(to, vec![element; count as usize])));
            }
            match *ty {
                STRING => {
                    let choices: &[&str] = match key {
                        keys::GENERAL_ARCHITECTURE => &["llama", "bert", "clip", "gptj", "qwen3moe", "mamba", "gpt2"],
                        keys::GENERAL_TYPE => &["model", "adapter", "imatrix", "mmproj", "vocab"],
                        keys::TOKENIZER_GGML_MODEL => &[
                            "llama",
                            "gpt2",
                            "bert",
                            "t5",
                            "rwkv",
                            "no_vocab",
                            "none",
                            "plamo2",
                            "gemma4",
                            "whitespace",
                        ],
                        keys::TOKENIZER_GGML_PRE => keys::PRE_TOKENIZERS,
                        _ if key.ends_with("rope.scaling.type") => keys::ROPE_SCALING_TYPES,
                        _ => &[],
                    };
                    for choice in ["", "unheard", "silu", "gelu", "none", "swiglu"].iter().chain(choices) {
                        out.push((format!("key = {choice:?}"), Raw::One(STRING, text(choice))));
                    }
                    out.push(("key = not UTF-8".into(), Raw::One(STRING, [&1u64.to_le_bytes()[..], &[0xff]].concat())));
                }
                F32 | F64 => {
                    for to in [0.0, 1.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 1e30, -1e-9] {
                        out.push((format!("key = {to}"), plain(*ty, to)));
                    }
                }
                BOOL => {
                    out.push(("key = false".into(), plain(BOOL, 0.0)));
                    out.push(("key = true".into(), plain(BOOL, 1.0)));
                    out.push(("key = bool 2".into(), Raw::One(BOOL, vec![2])));
                }
                _ => {
                    for to in [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 16.0, 64.0, 512.0, 513.0, 1024.0, 1025.0] {
                        out.push((format!("key = {to}"), plain(*ty, to)));
                    }
                    for (class, to) in
                        [("- 1", n - 1.0), ("+ 1", n + 1.0), ("* 2", n * 2.0), ("/ 2", (n / 2.0).floor())]
                    {
                        out.push((format!("key {class}"), plain(*ty, to)));
                    }
                    for (class, to) in [("2^31 - 1", 2147483647.0), ("-1", -1.0), ("2^31", 2147483648.0)] {
                        out.push((format!("key = {class}"), plain(*ty, to)));
                    }
                }
            }
        }
        Raw::Many(ty, list) => {
            let n = |bytes: &Vec<u8>| decoded(*ty, bytes);
            for (to, name) in SCALARS {
                if to != *ty {
                    let elements = list.iter().map(|bytes| number(to, n(bytes))).collect();
                    out.push((format!("array of {name}"), Raw::Many(to, elements)));
                }
            }
            for (to, name) in [(U32, "u32"), (I32, "i32"), (F32, "f32"), (STRING, "string"), (BOOL, "bool")] {
                let n = list.first().map_or(0.0, n);
                out.push((format!("array as {name}"), plain(to, n)));
            }
            let mut more = list.clone();
            more.extend(list.last().cloned());
            let edited = |at: usize, bytes: Vec<u8>| {
                let mut list = list.clone();
                if let Some(element) = list.get_mut(at) {
                    *element = bytes;
                }
                Raw::Many(*ty, list)
            };
            let last = list.len().saturating_sub(1);
            out.push(("array + 1".into(), Raw::Many(*ty, more)));
            out.push(("array - 1".into(), Raw::Many(*ty, list[..last].to_vec())));
            out.push(("array of 1".into(), Raw::Many(*ty, list[..list.len().min(1)].to_vec())));
            out.push(("array of none".into(), Raw::Many(*ty, Vec::new())));
            out.push(("array of 513".into(), Raw::Many(*ty, list.iter().cycle().take(513).cloned().collect())));
            if *ty == STRING {
                out.push(("array with an empty text".into(), edited(0, text(""))));
                out.push(("array with two equal texts".into(), edited(0, list.last().cloned().unwrap_or_default())));
                out.push(("array with a text without space".into(), edited(0, text("abc"))));
            } else {
                let zeros = list.iter().map(|_| number(*ty, 0.0)).collect();
                out.push(("array of zeros".into(), Raw::Many(*ty, zeros)));
                let ones = list.iter().map(|_| number(*ty, 1.0)).collect();
                out.push(("array of ones".into(), Raw::Many(*ty, ones)));
                for (place, at) in [("first", 0), ("last", last)] {
                    for to in [0.0, 1.0, -1.0, 7.0, 1e6] {
                        out.push((format!("array with {place} = {to}"), edited(at, number(*ty, to))));
                    }
                }
            }
        }
    }
    out
}

/// Other shapes of a tensor.
fn shapes(dims: &[u64]) -> Vec<(String, Vec<u64>)> {
    let mut out = Vec::new();
    for i in 0..dims.len() {
        for (class, to) in [("+ 1", dims[i] + 1), ("- 1", dims[i] - 1), ("* 2", dims[i] * 2), ("= 0", 0)] {
            let mut dims = dims.to_vec();
            dims[i] = to;
            out.push((format!("tensor dimension {i} {class}"), dims));
        }
    }
    if dims.len() > 1 {
        let mut swapped = dims.to_vec();
        swapped.swap(0, 1);
        out.push(("tensor transposed".into(), swapped));
        out.push(("tensor in one dimension".into(), vec![dims.iter().product()]));
        out.push(("tensor without its last dimension".into(), dims[..dims.len() - 1].to_vec()));
    }
    out.push(("tensor with a dimension of 1".into(), [dims, &[1]].concat()));
    out.push(("tensor with a dimension of 2".into(), [dims, &[2]].concat()));
    out.push(("tensor with a first dimension of 1".into(), [&[1], dims].concat()));
    out
}

/// Types of tensors, by the numbers of ggml.
const TYPES: &[(u32, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (30, "BF16"),
    (8, "Q8_0"),
    (2, "Q4_0"),
    (12, "Q4_K"),
    (39, "MXFP4"),
    (24, "I8"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (4, "removed type 4"),
    (99, "unknown type 99"),
];

/// Other names of a tensor.
fn names(name: &str, n_blocks: u64) -> Vec<(String, String)> {
    let mut out = vec![("tensor renamed".to_owned(), format!("x.{name}"))];
    if let Some(stem) = name.strip_suffix(".weight") {
        out.push(("tensor without .weight".into(), stem.to_owned()));
        out.push(("tensor as .bias".into(), format!("{stem}.bias")));
    }
    if let Some((number, rest)) = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        out.push(("tensor beyond the blocks".into(), format!("blk.{n_blocks}.{rest}")));
        out.push(("tensor with a leading zero".into(), format!("blk.0{number}.{rest}")));
    }
    out
}

/// Adds the keys of the table that the model does not have.
fn add_keys(model: &Model, arch: &str, n_blocks: u64, all: &mut Vec<Mutation>) {
    for row in keys::all() {
        let is_numbered = row.pattern.replace("{arch}", "").contains('{');
        if is_numbered || row.pattern.starts_with("clip.") || model.get(&row.for_arch(arch)).is_some() {
            continue;
        }
        let mut add = |class: String, value: Raw| {
            let kv = Kv { key: row.for_arch(arch), value };
            all.push(Mutation {
                item: row.pattern.to_owned(),
                class: format!("key added {class}"),
                edit: Edit::AddKey(kv),
            });
        };
        for kind in row.kinds {
            match kind {
                keys::KeyType::Scalar(ValueType(STRING)) => {
                    add("= \"\"".into(), Raw::One(STRING, text("")));
                    add("= \"unheard\"".into(), Raw::One(STRING, text("unheard")));
                }
                keys::KeyType::Scalar(ty) => {
                    let numbers: &[f64] = if ty.0 == BOOL { &[0.0, 1.0] } else { &[0.0, 1.0, 2.0, 8.0, 1e5] };
                    numbers.iter().for_each(|n| add(format!("= {n}"), plain(ty.0, *n)));
                }
                keys::KeyType::Array(ty) => {
                    for (class, count) in [("of a block each", n_blocks), ("of 1", 1), ("of 513", 513)] {
                        for n in [0.0, 1.0] {
                            let elements = vec![number(ty.0, n); count as usize];
                            add(format!("as array of {} {class}, {n}", type_name(ty.0)), Raw::Many(ty.0, elements));
                        }
                    }
                }
            }
        }
        for to in [U8, U64, I32, F32, F64, STRING, BOOL] {
            if !row.kinds.contains(&keys::KeyType::Scalar(ValueType(to))) {
                add(format!("as {}", type_name(to)), plain(to, 1.0));
            }
        }
    }
}

/// Adds tensors of other architectures, unknown tensors, and blocks.
fn add_tensors(model: &Model, arch: &str, n_blocks: u64, all: &mut Vec<Mutation>) {
    let embd = model.count(&keys::for_arch(keys::EMBEDDING_LENGTH, arch)).unwrap_or(32);
    let mut names: BTreeSet<(bool, String)> = BTreeSet::new();
    for architecture in gguf_model::arch::ARCHITECTURES {
        names.extend(architecture.outside().map(|tensor| (false, tensor.name_in(None))));
        names.extend(architecture.block().map(|tensor| (true, tensor.name_in(Some(0)))));
    }
    names.insert((false, "unheard.weight".into()));
    names.insert((true, "blk.0.unheard.weight".into()));
    names.insert((true, format!("blk.{n_blocks}.attn_norm.weight")));
    names.insert((true, "blk.1000.attn_norm.weight".into()));
    let weights: BTreeSet<&str> = model.tensors.iter().filter_map(|t| t.name.strip_prefix("blk.0.")).collect();
    let stems = weights.iter().filter_map(|name| name.strip_suffix(".weight"));
    for stem in stems.chain(["attn_q", "attn_qkv", "ffn_down", "ffn_up_exps"]) {
        names.insert((true, format!("blk.0.{stem}.scale")));
        names.insert((true, format!("blk.0.{stem}.input_scale")));
    }
    names.insert((false, "output.scale".into()));
    for (_, name) in names {
        if model.tensors.iter().any(|t| t.name == name) {
            continue;
        }
        for (class, dims) in [("tensor added", vec![embd]), ("tensor added with one element", vec![1])] {
            let edit = Edit::AddTensor(Tensor { name: name.clone(), dims, ty: 0 });
            all.push(Mutation { item: pattern(&name), class: class.into(), edit });
        }
    }
}

/// Adds the tensors of the architecture that the model does not have, with their shapes, to its first and last block.
fn add_own_tensors(model: &Model, arch: &str, n_blocks: u64, all: &mut Vec<Mutation>) {
    let Some(family) = gguf_model::arch::of(arch) else { return };
    let mut head = Vec::new();
    model.encode(&mut head);
    let gguf = Gguf::parse(head.as_slice()).unwrap();
    let h = Hparams::new(|pattern| gguf.get(&keys::for_arch(pattern, arch)));
    let outside = family.outside().map(|tensor| (tensor, None));
    let blocks = family.block().flat_map(|tensor| [(tensor, Some(0)), (tensor, Some(n_blocks - 1))]);
    let mut names = BTreeSet::new();
    for (tensor, block) in outside.chain(blocks) {
        let name = tensor.name_in(block);
        let dims: Option<Vec<u64>> = tensor.shape().iter().map(|dim| dim.of(&h, block.unwrap_or(0))).collect();
        let Some(dims) = dims.filter(|dims| !dims.is_empty()) else { continue };
        if names.insert((name.clone(), dims.clone())) && model.tensors.iter().all(|t| t.name != name) {
            let edit = Edit::AddTensor(Tensor { name: name.clone(), dims, ty: 0 });
            all.push(Mutation { item: pattern(&name), class: "tensor added with its shape".into(), edit });
        }
    }
    // A bias for each matrix.
    for t in model.tensors.iter().filter(|t| t.dims.len() > 1) {
        let Some(stem) = t.name.strip_suffix(".weight").filter(|_| !t.name.starts_with("blk.1.")) else { continue };
        let name = format!("{stem}.bias");
        if model.tensors.iter().all(|t| t.name != name) {
            let edit = Edit::AddTensor(Tensor { name: name.clone(), dims: t.dims[1..].to_vec(), ty: 0 });
            all.push(Mutation { item: pattern(&name), class: "tensor added as a bias".into(), edit });
        }
    }
}
