//! Adapters back to folders of PEFT: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! An adapter does not say how the tensors of its base model are made. The conversion of the base model does: its sources name the modules,
//! and the conversion of the folder, which is planned with them, is inverted as that of a model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gguf_format::GgmlType;
use gguf_pipeline::plan::Op;
use gguf_pipeline::{Source as _, TensorPlan};
use serde_json::{Map, Value as Json, json};

use super::files::shard;
use super::folder::PlannedFolder;
use super::key_values::json_of;
use super::problem::{ExportProblem, ExportWarning};
use super::restore::{Contents, Stored};
use super::sources::NewTensor;
use super::{Export, ExportOptions, Failed, card, differences_of, dtype_of, pretty};
use crate::checkpoint::TensorFiles;
use crate::convert::plan_folder;
use crate::documents::Documents;
use crate::dtype::Dtype;
use crate::folder::Folder;
use crate::model_plan::OutType;
use crate::number::to_index;
use crate::options::Options;

/// The files of an adapter.
const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// What PEFT puts before the name of a module.
const ROOT: &str = "base_model.model.";

/// The endings of the names of the two factors in a file.
const FACTORS: [&str; 2] = [".lora_a", ".lora_b"];

/// Plans the folder of an adapter.
pub(super) fn plan(stored: &Stored, architecture: String, options: &ExportOptions) -> Result<Export, Failed> {
    let base = options.base.as_ref().ok_or(ExportProblem::NoBase)?;
    let found = Modules::of(stored, base)?;
    let document = found.config(stored);
    let weights = shard(WEIGHTS.to_owned(), &found.tensors);
    let gguf = stored.source.model().gguf();
    let mut documents: BTreeMap<String, Vec<u8>> = card::files(gguf).into_iter().collect();
    documents.insert(CONFIG.to_owned(), pretty(&document));

    let mut folder = PlannedFolder::new(&options.folder);
    for (name, bytes) in &documents {
        folder.insert(name, bytes.clone(), bytes.len() as u64);
    }
    folder.insert(WEIGHTS, weights.head.clone(), weights.n_bytes);
    let is_matrix = |ty: GgmlType| stored.tensors.iter().any(|tensor| tensor.ty == ty && tensor.shape.len() > 1);
    let ty = match () {
        () if is_matrix(GgmlType::F16) => OutType::F16,
        () if is_matrix(GgmlType::BF16) => OutType::BF16,
        () if is_matrix(GgmlType::Q8_0) => OutType::Q8_0,
        () => OutType::F32,
    };
    let asked = Options { base: Some(Arc::clone(base)), ..Options::default() };
    let asked = asked.ty(ty).order(gguf.dialect().order);
    let class = "LoRA";
    let refused = |e: crate::Error| ExportProblem::Refused { class: class.to_owned(), message: e.to_string() };
    let conversion = plan_folder(&folder, &asked).map_err(refused)?;
    let mut warnings = differences_of(gguf, stored, &conversion)?;
    let contents = Contents { documents, groups: vec![found.tensors], shards: vec![weights] };
    let plan = stored.planned(&conversion, contents, |_| false, &mut warnings)?;
    // A matrix that the file leaves out of several is not changed.
    warnings.retain(|warning| !matches!(warning, ExportWarning::Lost { tensor } if tensor.contains(".lora_B")));
    Ok(Export { plan, architecture, class: class.to_owned(), warnings })
}

/// The modules that an adapter changes.
struct Modules {
    /// The factors and replaced tensors, in the order of the file.
    tensors: Vec<(NewTensor, Dtype)>,
    /// The rank of each changed module.
    ranks: BTreeMap<String, u64>,
    /// The modules of the base model that have a matrix.
    all: Vec<String>,
    /// Whether the base model stores its matrices transposed.
    is_transposed: bool,
}

impl Modules {
    fn of(stored: &Stored, base: &Arc<dyn Folder>) -> Result<Modules, Failed> {
        let of_base = |e: crate::Error| ExportProblem::Base { message: e.to_string() };
        let checkpoint = TensorFiles::open(&Documents::new(&**base)).map_err(of_base)?;
        let shapes: BTreeMap<&str, &[u64]> =
            checkpoint.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
        let conversion = plan_folder(&**base, &Options::default()).map_err(of_base)?;
        let by_name: BTreeMap<String, &TensorPlan> =
            conversion.plan.tensors().iter().map(|tensor| (tensor.shown(), tensor)).collect();
        let matrices = shapes.iter().filter(|(_, shape)| shape.len() == 2);
        let all = matrices.filter_map(|(name, _)| Some(name.strip_suffix(".weight")?.to_owned())).collect();
        let mut found = Modules { tensors: Vec::new(), ranks: BTreeMap::new(), all, is_transposed: false };
        let (mut firsts, mut names): (BTreeMap<String, usize>, BTreeSet<String>) = Default::default();
        for (of, tensor) in stored.tensors.iter().enumerate() {
            let name = &tensor.name;
            let of_factor = |(factor, ending): (usize, &&str)| Some((Some(factor), name.strip_suffix(*ending)?));
            let (factor, own) = FACTORS.iter().enumerate().find_map(of_factor).unwrap_or((None, name.as_str()));
            let other = || ExportProblem::NotInBase { tensor: name.clone() };
            let planned = by_name.get(own).ok_or_else(other)?;
            let dtype = dtype_of(tensor.ty, None)
                .ok_or_else(|| ExportProblem::Type { tensor: name.clone(), ty: tensor.ty.to_string() })?;
            let is_embedding = own.ends_with("token_embd.weight");
            let is_transposed = !is_embedding && is_transposed(&planned.op);
            found.is_transposed |= is_transposed && factor.is_some();
            for input in planned.op.inputs() {
                let shape = shapes.get(&*input.name).ok_or_else(other)?;
                let mut push = |name: String, shape: Vec<u64>| {
                    if names.insert(name.clone()) {
                        found.tensors.push((NewTensor { name, shape, of, is_one: false }, dtype));
                    }
                };
                let Some(factor) = factor else {
                    push(format!("{ROOT}{}", &*input.name), shape.to_vec());
                    continue;
                };
                let (Some(module), &[n_rows, n_columns]) = (input.name.strip_suffix(".weight"), *shape) else {
                    return Err(ExportProblem::NotInvertible { tensor: name.clone() }.into());
                };
                let (n_rows, n_columns) =
                    if is_transposed || is_embedding { (n_columns, n_rows) } else { (n_rows, n_columns) };
                // The factor of the rows has a column for each rank, the other a row. Embeddings are looked up by rows, so they exchange.
                let rank = match (factor, tensor.shape.as_slice()) {
                    (0, [.., _, rank]) if is_embedding => *rank,
                    (0, [.., rank, _]) | (1, [.., _, rank]) => *rank,
                    _ => return Err(other().into()),
                };
                if *found.ranks.entry(module.to_owned()).or_insert(rank) != rank {
                    return Err(ExportProblem::Factors { tensor: name.clone() }.into());
                }
                if factor == 0 && !is_embedding {
                    if tensor.shape.last() != Some(&n_columns) {
                        return Err(other().into());
                    }
                    // One factor belongs to all tensors that are parts of the module.
                    let first = *firsts.entry(module.to_owned()).or_insert(of);
                    if first != of && !is_same_data(stored, first, of)? {
                        return Err(ExportProblem::Factors { tensor: name.clone() }.into());
                    }
                }
                let ending = match (is_embedding, factor) {
                    (false, 0) => "lora_A.weight",
                    (false, _) => "lora_B.weight",
                    (true, 0) => "lora_embedding_A",
                    (true, _) => "lora_embedding_B",
                };
                let shape = if factor == 0 { vec![rank, n_columns] } else { vec![n_rows, rank] };
                push(format!("{ROOT}{module}.{ending}"), shape);
            }
        }
        Ok(found)
    }

    /// `adapter_config.json`.
    fn config(&self, stored: &Stored) -> Json {
        let gguf = stored.source.model().gguf();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        self.ranks.values().for_each(|rank| *counts.entry(*rank).or_default() += 1);
        let rank = counts.iter().max_by_key(|(_, n)| **n).map_or(1, |(rank, _)| *rank);
        let others = self.ranks.iter().filter(|(_, own)| **own != rank);
        let patterns: Map<String, Json> = others.map(|(module, own)| (regex(module), json!(own))).collect();
        // Without alpha, llama.cpp does not divide by the rank.
        let alpha = gguf.get("adapter.lora.alpha").map(json_of).filter(|alpha| alpha.as_f64() != Some(0.0));
        let alphas = if alpha.is_some() { Map::new() } else { patterns.clone() };
        let base = gguf.get_as::<&str>("general.base_model.0.repo_url").ok();
        let base = base.map(|url| url.strip_prefix("https://huggingface.co/").unwrap_or(url));
        let mut document = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base.unwrap_or_default(),
            "r": rank,
            "lora_alpha": alpha.unwrap_or(json!(rank)),
            "rank_pattern": patterns,
            "alpha_pattern": alphas,
            "target_modules": self.targets(),
            "fan_in_fan_out": self.is_transposed,
            "bias": "none",
            "lora_dropout": 0.0,
            "inference_mode": true,
            "init_lora_weights": true,
            "modules_to_save": null,
            "use_dora": false,
            "use_rslora": false,
        });
        if let (Some(tokens), Some(document)) = (gguf.get("adapter.alora.invocation_tokens"), document.as_object_mut())
        {
            document.insert("alora_invocation_tokens".to_owned(), json_of(tokens));
        }
        document
    }

    /// `target_modules`: the last part of a name if all modules with it are changed, otherwise the whole name.
    fn targets(&self) -> BTreeSet<&str> {
        let last = |module: &str| module.rsplit('.').next().unwrap_or_default().to_owned();
        let left_out: BTreeSet<String> =
            self.all.iter().filter(|module| !self.ranks.contains_key(*module)).map(|module| last(module)).collect();
        let target = |module: &'_ String| match left_out.contains(&last(module)) {
            true => 0,
            false => module.rfind('.').map_or(0, |at| at + 1),
        };
        self.ranks.keys().filter_map(|module| module.get(target(module)..)).collect()
    }
}

/// A name of a module as a regular expression.
fn regex(module: &str) -> String {
    module.replace('.', "\\.")
}

/// Whether an operation exchanges rows and columns.
fn is_transposed(op: &Op) -> bool {
    match op {
        Op::Gather(gather) => {
            let axes = gather.moves.iter().flat_map(|item| &item.axes);
            axes.filter(|axis| axis.count > 1 && axis.from == 1).any(|axis| axis.to != 1)
        }
        _ => false,
    }
}

/// Whether two tensors have the same bytes.
fn is_same_data(stored: &Stored, a: usize, b: usize) -> Result<bool, Failed> {
    /// The bytes that are compared at once.
    const PIECE: u64 = 1 << 20;
    let n_bytes = |index: usize| stored.source.tensor(index).and_then(|tensor| tensor.n_bytes().ok());
    let n = n_bytes(a).unwrap_or(0);
    if n_bytes(b) != Some(n) {
        return Ok(false);
    }
    let mut pieces = [vec![0; to_index(n.min(PIECE))], vec![0; to_index(n.min(PIECE))]];
    let mut at = 0;
    while at < n {
        let len = to_index(n.saturating_sub(at).min(PIECE));
        for (index, piece) in [a, b].into_iter().zip(&mut pieces) {
            piece.truncate(len);
            stored.source.read(index, at, piece).map_err(Failed::Pipeline)?;
        }
        let [first, second] = &pieces;
        if first != second {
            return Ok(false);
        }
        at += PIECE;
    }
    Ok(true)
}
