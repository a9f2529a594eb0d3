//! Checkpoints in Meta's own layout of Llama: `params.json`, and the tensors in `consolidated.00.pth` and so on.
//!
//! Each file holds a shard of every tensor, split for model parallelism: rows of most matrices, columns of the output projections. This module
//! presents the checkpoint in the layout of transformers: joined, with transformers' names, and with the rows of queries and keys in its order.
//! The architecture tables then apply unchanged and reverse that order.

use std::path::Path;

use gguf_pipeline::moves::{Axis, Move};
use serde_json::{Map, Value as Json, json};

use super::{DataPlace, TensorFiles, View};
use crate::config::shortened;
use crate::documents::Documents;
use crate::dtype::SourceTensor;
use crate::error::{Error, Names};
use crate::folder::Folder;
use crate::folder_error::FolderError;
use crate::json::set_field;
use crate::model_plan::PlanError;
use crate::problem::FileProblem;

/// The file of hyperparameters.
pub(crate) const PARAMS: &str = "params.json";

/// The value of `llama.tensor_data_layout` for such tensors, according to the specification.
pub(crate) const LAYOUT: &str = "Meta AI original pth";

/// The maximum number of files in a checkpoint; the largest has sixteen.
const MAX_SHARDS: usize = 1000;

/// How the shards of a tensor are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Each file has the whole tensor.
    Copies,
    /// Rows.
    Rows,
    /// Rows of attention heads, in pairs that are rotated together.
    Heads,
    /// Columns.
    Columns,
    /// Columns, or rows since Llama 3.
    Embeddings,
}

/// Meta's names and their equivalents in transformers, without `layers.N.` and `.weight`.
const BLOCK: [(&str, &str, Parts); 9] = [
    ("attention.wq", "self_attn.q_proj", Parts::Heads),
    ("attention.wk", "self_attn.k_proj", Parts::Heads),
    ("attention.wv", "self_attn.v_proj", Parts::Rows),
    ("attention.wo", "self_attn.o_proj", Parts::Columns),
    ("feed_forward.w1", "mlp.gate_proj", Parts::Rows),
    ("feed_forward.w2", "mlp.down_proj", Parts::Columns),
    ("feed_forward.w3", "mlp.up_proj", Parts::Rows),
    ("attention_norm", "input_layernorm", Parts::Copies),
    ("ffn_norm", "post_attention_layernorm", Parts::Copies),
];

/// Meta's names of tensors outside of blocks and their equivalents in transformers, without `.weight`.
const OUTSIDE: [(&str, &str, Parts); 3] = [
    ("tok_embeddings", "model.embed_tokens", Parts::Embeddings),
    ("norm", "model.norm", Parts::Copies),
    ("output", "lm_head", Parts::Rows),
];

/// The name of a tensor in transformers and how its shards are joined; `None` for an unknown name.
fn renamed(name: &str) -> Option<(String, Parts)> {
    let stem = name.strip_suffix(".weight")?;
    let row = |table: &[(&str, &'static str, Parts)], stem: &str| {
        table.iter().find(|(from, ..)| *from == stem).map(|(_, to, parts)| (*to, *parts))
    };
    match stem.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        Some((block, stem)) => {
            let (to, parts) = row(&BLOCK, stem)?;
            Some((format!("model.layers.{block}.{to}.weight"), parts))
        }
        None => row(&OUTSIDE, stem).map(|(to, parts)| (format!("{to}.weight"), parts)),
    }
}

/// Reads the configuration and the tensors of such a checkpoint; `None` if the folder has none.
///
/// # Errors
/// If a file is missing or invalid, or the shards do not match.
pub(crate) fn open(files: &Documents<'_>) -> Result<Option<(Json, TensorFiles)>, Error> {
    let name = |i: usize| format!("consolidated.{i:02}.pth");
    if !files.has(&name(0))? {
        return Ok(None);
    }
    let Some(document) = files.json(PARAMS)? else { return Ok(None) };
    let params = Params::new(files.path(), (*document).clone())?;
    let n_shards = count_shards(files)?;
    let mut whole = TensorFiles::empty();
    let mut shards = Vec::new();
    for i in 0..n_shards {
        let Some(file) = files.open(&name(i))? else {
            return Err(Error::MissingParts { dir: files.path().to_owned(), parts: Names(vec![name(i)]) });
        };
        let mut shard = TensorFiles::empty();
        shard.add_part(super::Part::new(files, &name(i), file))?;
        whole.parts.append(&mut shard.parts);
        shards.push(shard);
    }
    let plan = |tensor: &str, source: PlanError| {
        let at = shards.iter().position(|shard| shard.tensors.iter().any(|t| t.name == tensor)).unwrap_or(0);
        Error::Plan { path: files.path().join(name(at)), source }
    };
    let Some(first) = shards.first() else { return Ok(None) };
    for (index, tensor) in first.tensors.iter().enumerate() {
        // RoPE frequencies are computed from the parameters.
        if tensor.name == "rope.freqs" {
            continue;
        }
        let parts = parts_of(&shards, index, tensor).map_err(|problem| plan(&tensor.name, problem))?;
        match renamed(&tensor.name) {
            Some((name, how)) => {
                let how = match (how, tensor.shape.as_slice()) {
                    (Parts::Embeddings, [_, width]) if *width == params.width => Parts::Rows,
                    (Parts::Embeddings, _) => Parts::Columns,
                    (how, _) => how,
                };
                let joined = join(&parts, how, params.head_dim).map_err(|problem| plan(&tensor.name, problem))?;
                whole.add_joined(name, joined);
            }
            // The architecture decides whether it accepts the tensor.
            None => whole.add_joined(tensor.name.clone(), Joined::alone(&parts)),
        }
    }
    let lens = |name: &str| whole.tensors.iter().find(|t| t.name == name).and_then(|t| t.shape.first()).copied();
    let config = params.config(lens("model.layers.0.mlp.gate_proj.weight"), lens("model.embed_tokens.weight"));
    Ok(Some((config, whole)))
}

/// The number of files, which must be numbered without gaps.
fn count_shards(dir: &dyn Folder) -> Result<usize, Error> {
    let mut numbers = Vec::new();
    for name in super::names_in(dir)? {
        let number = name.strip_prefix("consolidated.").and_then(|name| name.strip_suffix(".pth"));
        numbers.extend(number.filter(|n| n.len() == 2).and_then(|number| number.parse::<usize>().ok()));
    }
    let n = numbers.iter().max().map_or(0, |last| last + 1).min(MAX_SHARDS);
    let missing = (0..n).filter(|i| !numbers.contains(i)).map(|i| format!("consolidated.{i:02}.pth"));
    let missing: Vec<String> = missing.collect();
    match missing.is_empty() {
        true => Ok(n),
        false => Err(Error::MissingParts { dir: dir.path().to_owned(), parts: Names(missing) }),
    }
}

/// A tensor of one file: its description, its location and the number of the file.
struct Piece<'a> {
    tensor: &'a SourceTensor,
    file: usize,
    offset: u64,
    strides: Vec<u64>,
}

/// The shards of a tensor in all files, with the same number format and number of dimensions.
fn parts_of<'a>(
    shards: &'a [TensorFiles],
    index: usize,
    tensor: &'a SourceTensor,
) -> Result<Vec<Piece<'a>>, PlanError> {
    let mut parts = Vec::new();
    for (file, shard) in shards.iter().enumerate() {
        let is_it = |t: &SourceTensor| t.name == tensor.name;
        // All files have the tensors in the same order.
        let same = shard.tensors.get(index).filter(|t| is_it(t)).map(|_| index);
        let found = same.or_else(|| shard.tensors.iter().position(is_it));
        let piece = found.and_then(|i| Some((shard.tensors.get(i)?, shard.places.get(i)?)));
        let Some((piece, place)) = piece else {
            let (found, expected) = (file as u64, shards.len() as u64);
            let name = tensor.name.clone();
            return Err(PlanError::Incomplete { tensor: name.clone(), name, found, expected, origin: Box::default() });
        };
        if piece.dtype != tensor.dtype {
            return Err(PlanError::Mixed { name: tensor.name.clone(), tensor: piece.name.clone() });
        }
        if piece.shape.len() != tensor.shape.len() {
            let (name, tensor, found) = (tensor.name.clone(), piece.name.clone(), piece.shape.clone());
            return Err(PlanError::Shapes { name, tensor, found });
        }
        let strides = match place.view.and_then(|view| shard.views.get(view)?.moves.first()) {
            Some(view) => view.axes.iter().rev().map(|axis| axis.from).collect(),
            None => contiguous(&piece.shape),
        };
        parts.push(Piece { tensor: piece, file, offset: place.offset, strides });
    }
    Ok(parts)
}

/// The strides of a contiguous tensor.
fn contiguous(shape: &[u64]) -> Vec<u64> {
    let mut next = 1u64;
    let strides = shape.iter().rev().map(|n| {
        let stride = next;
        next = next.saturating_mul(*n);
        stride
    });
    let mut strides: Vec<u64> = strides.collect();
    strides.reverse();
    strides
}

/// A tensor split over several files.
struct Joined {
    source: SourceTensor,
    inputs: Vec<(usize, u64)>,
    moves: Vec<Move>,
}

impl Joined {
    /// The tensor of the first file alone.
    fn alone(parts: &[Piece<'_>]) -> Joined {
        let mut source = SourceTensor { name: String::new(), dtype: crate::dtype::Dtype::F32, shape: Vec::new() };
        let (mut inputs, mut moves) = (Vec::new(), Vec::new());
        if let Some(part) = parts.first() {
            source = part.tensor.clone();
            inputs.push((part.file, part.offset));
            let to = contiguous(&source.shape);
            let steps = source.shape.iter().zip(part.strides.iter().zip(to));
            let axes = steps.map(|(&count, (&from, to))| Axis { count, from, to }).collect();
            moves.push(Move { input: 0, from: 0, to: 0, axes });
        }
        Joined { source, inputs, moves }
    }
}

/// Joins the shards of a tensor.
fn join(parts: &[Piece<'_>], how: Parts, head_dim: u64) -> Result<Joined, PlanError> {
    let Some(first) = parts.first() else { return Ok(Joined::alone(parts)) };
    let wrong = |piece: &Piece<'_>, problem: String| PlanError::Pattern {
        tensor: piece.tensor.name.clone(),
        shape: piece.tensor.shape.clone(),
        problem,
    };
    if how == Parts::Copies {
        return match parts.iter().find(|part| part.tensor.shape != first.tensor.shape) {
            Some(part) => Err(wrong(part, "expected the same tensor in each file".to_owned())),
            None => Ok(Joined::alone(parts)),
        };
    }
    // The tensors lie in files, so sums of their sizes stay far below 2^64.
    let mut sizes = Vec::new();
    for part in parts {
        match (part.tensor.shape.as_slice(), part.strides.as_slice()) {
            (&[rows, columns], &[down, right]) => sizes.push((part, rows, columns, down, right)),
            _ => return Err(wrong(part, "expected a matrix".to_owned())),
        }
    }
    let sum = |of: fn(&(&Piece<'_>, u64, u64, u64, u64)) -> u64| sizes.iter().map(of).fold(0, u64::saturating_add);
    let (rows, columns) = match how {
        Parts::Columns => (first.tensor.shape.first().copied().unwrap_or(0), sum(|part| part.2)),
        _ => (sum(|part| part.1), first.tensor.shape.get(1).copied().unwrap_or(0)),
    };
    let shape = vec![rows, columns];
    if first.tensor.dtype.tensor_bytes(&shape).is_none() {
        return Err(wrong(first, "the size of all parts overflows".to_owned()));
    }
    let (mut inputs, mut moves, mut at) = (Vec::new(), Vec::new(), 0);
    for (input, (part, n, m, down, right)) in sizes.into_iter().enumerate() {
        inputs.push((part.file, part.offset));
        let across = Axis { count: m, from: right, to: 1 };
        let axes = match how {
            Parts::Columns if n == rows => vec![Axis { count: n, from: down, to: columns }, across],
            Parts::Rows if m == columns => vec![Axis { count: n, from: down, to: columns }, across],
            Parts::Heads if m == columns && n.is_multiple_of(head_dim) && head_dim.is_multiple_of(2) => {
                // Rows that are rotated together are adjacent in Meta's layout, and half a head apart in transformers.
                let half = head_dim / 2;
                vec![
                    Axis {
                        count: n / head_dim,
                        from: head_dim.saturating_mul(down),
                        to: head_dim.saturating_mul(columns),
                    },
                    Axis { count: 2, from: down, to: half.saturating_mul(columns) },
                    Axis { count: half, from: down.saturating_mul(2), to: columns },
                    across,
                ]
            }
            Parts::Heads if m == columns => {
                return Err(wrong(
                    part,
                    format!("expected whole heads of an even number of rows; a head has {head_dim}"),
                ));
            }
            _ => {
                return Err(wrong(
                    part,
                    format!("the same tensor has the shape {:?} in the first file", first.tensor.shape),
                ));
            }
        };
        moves.push(Move { input, from: 0, to: at, axes });
        at += match how {
            Parts::Columns => m,
            _ => n.saturating_mul(columns),
        };
    }
    let source = SourceTensor { name: first.tensor.name.clone(), dtype: first.tensor.dtype, shape };
    Ok(Joined { source, inputs, moves })
}

impl TensorFiles {
    fn add_joined(&mut self, name: String, joined: Joined) {
        let Joined { source: SourceTensor { dtype, shape, .. }, inputs, moves } = joined;
        let (part, offset) = inputs.first().copied().unwrap_or_default();
        let bytes = dtype.tensor_bytes(&shape).unwrap_or(0);
        let view = Some(self.views.len());
        self.views.push(View { width: (dtype.bits / 8).max(1) as usize, inputs, moves });
        self.places.push(DataPlace { part, offset, bytes, view });
        self.tensors.push(SourceTensor { name, dtype, shape });
    }
}

/// The hyperparameters.
struct Params {
    fields: Map<String, Json>,
    width: u64,
    head_dim: u64,
}

impl Params {
    fn new(dir: &Path, document: Json) -> Result<Params, Error> {
        let invalid = |problem| Error::from(FolderError::Invalid { file: dir.join(PARAMS), problem });
        let Json::Object(fields) = document else {
            let found = shortened(&document);
            return Err(invalid(FileProblem::Value { key: "the document".to_owned(), found, expected: "an object" }));
        };
        let number = |key: &str| {
            let value = fields.get(key).unwrap_or(&Json::Null);
            let wrong = || FileProblem::Value {
                key: key.to_owned(),
                found: shortened(value),
                expected: "a whole number above 0",
            };
            value.as_u64().filter(|n| (1..=1 << 32).contains(n)).ok_or_else(|| invalid(wrong()))
        };
        let (width, heads) = (number("dim")?, number("n_heads")?);
        number("n_layers")?;
        let head_dim = if fields.contains_key("head_dim") { number("head_dim")? } else { width / heads };
        if head_dim == 0 {
            let (key, found) = ("n_heads".to_owned(), heads.to_string());
            return Err(invalid(FileProblem::Value { key, found, expected: "at most dim" }));
        }
        Ok(Params { fields, width, head_dim })
    }

    /// The equivalent `config.json` of transformers.
    fn config(&self, ffn_width: Option<u64>, n_tokens: Option<u64>) -> Json {
        let get = |key: &str| self.fields.get(key).filter(|value| !value.is_null()).cloned();
        let theta = get("rope_theta").unwrap_or(json!(10000.0));
        let is_scaled = get("use_scaled_rope") == Some(Json::Bool(true));
        let mut config = json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.width,
            "num_attention_heads": get("n_heads"),
            "num_key_value_heads": get("n_kv_heads").or_else(|| get("n_heads")),
            "num_hidden_layers": get("n_layers"),
            "intermediate_size": ffn_width,
            "vocab_size": n_tokens,
            "rms_norm_eps": get("norm_eps"),
            "rope_theta": theta,
            "max_position_embeddings": get("max_seq_len").unwrap_or_else(|| json!(self.context(theta.as_f64(), is_scaled))),
        });
        if get("head_dim").is_some() {
            set_field(&mut config, "head_dim", json!(self.head_dim));
        }
        if is_scaled {
            let scaling = json!({
                "rope_type": "llama3",
                "factor": get("rope_scaling_factor").unwrap_or(json!(if self.width < 4096 { 32.0 } else { 8.0 })),
                "low_freq_factor": 1.0,
                "high_freq_factor": get("rope_high_freq_factor").unwrap_or(json!(4.0)),
                "original_max_position_embeddings": 8192,
            });
            set_field(&mut config, "rope_scaling", scaling);
        }
        config
    }

    /// The context length, which the file does not contain. It follows from the generation of Llama that matches the other parameters
    /// (`Params.loadOriginalParamsJson` in `convert_legacy_llama.py`; Llama 3 and later by their model cards).
    fn context(&self, theta: Option<f64>, is_scaled: bool) -> u64 {
        let theta = theta.unwrap_or_default();
        let is_second = self.fields.get("norm_eps").and_then(Json::as_f64) == Some(1e-5);
        match () {
            () if is_scaled => 131_072,
            () if self.fields.contains_key("moe") => 32_768,
            () if theta == 1_000_000.0 => 16_384,
            () if theta == 500_000.0 => 8192,
            () if is_second => 4096,
            () => 2048,
        }
    }
}
