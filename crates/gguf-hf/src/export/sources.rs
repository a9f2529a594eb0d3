//! The tensors of the checkpoint: the names, shapes and order of those that the tensors of a file were made of.

use std::collections::HashMap;

use gguf_format::{GgmlType, Gguf};
use gguf_model::Hparams;
use gguf_model::arch::{RowOp, Stack, Tensor, TensorNames};

use super::config::Candidate;
use super::problem::ExportProblem;
use crate::arch::names::matches;
use crate::arch::rows::{KEPT, PRODUCT, Template, operands};
use crate::arch::slot::length;
use crate::facts::Fact;
use crate::formula::Fields;
use crate::pattern::Pattern;

/// A tensor of the file.
#[derive(Debug, Clone)]
pub(super) struct FileTensor {
    pub(super) name: String,
    /// The outermost dimension first.
    pub(super) shape: Vec<u64>,
    pub(super) ty: GgmlType,
}

/// A tensor of the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewTensor {
    pub(super) name: String,
    /// The outermost dimension first.
    pub(super) shape: Vec<u64>,
    /// The index of the first tensor of the file that it is a part of.
    pub(super) of: usize,
    /// Whether all elements are 1: a factor of which the file only has the product.
    pub(super) is_one: bool,
}

/// Parameters that are not in a module of their own, so that their names do not end in `.weight`.
const BARE: &[&str] = &[
    "sinks",
    "mlp.experts.gate_up_proj",
    "mlp.experts.down_proj",
    "class_embedding",
    "position_embedding",
    "cls_token",
    "pos_embed",
];

/// The starts of the names of such parameters in RWKV 6.
const PARAMETERS_OF_TIME: &[&str] = &["time_maa_", "time_decay", "time_faaaa"];

/// The tensors of the checkpoint, in the order of the file's.
///
/// # Errors
/// [`ExportProblem::NoRow`] if the table has no place for a tensor, [`ExportProblem::Shape`] if its sources cannot have a shape.
pub(super) fn sources(
    candidate: &Candidate,
    gguf: &Gguf<'_>,
    tensors: &[FileTensor],
) -> Result<Vec<NewTensor>, ExportProblem> {
    let of = |prefix: &str| Hparams::new(|pattern| gguf.get(pattern.replace("{arch}", prefix).as_str()));
    let (checkpoint, arch) = (candidate.checkpoint, candidate.checkpoint.architecture(candidate.architecture));
    let h = of(if checkpoint.sizes.is_empty() { arch } else { checkpoint.sizes });
    let rows = Rows::new(candidate);
    let mut found: Vec<NewTensor> = Vec::new();
    let (mut places, mut exact): (HashMap<String, usize>, Vec<bool>) = Default::default();
    let mut unshaped: Vec<(String, &FileTensor)> = Vec::new();
    for (of, tensor) in tensors.iter().enumerate() {
        if is_computed(candidate, &tensor.name) {
            continue;
        }
        let matches = rows.of(&tensor.name);
        if matches.is_empty() {
            return Err(ExportProblem::NoRow { tensor: tensor.name.clone(), architecture: arch.to_owned() });
        }
        // Rows without a source are made of others when the file was written.
        let made = matches.iter().filter(|found| !found.tensor.row.source.is_empty());
        let expanded = made.filter(|found| found.tensor.row.when.holds(&h, found.block.unwrap_or(0))).chain(&matches);
        let mut expanded: Vec<&Found> = expanded.filter(|found| !found.tensor.row.source.is_empty()).collect();
        // Names that stand for others on a condition are the last choice.
        let is_renamed = |found: &Found| {
            let own = format!("{}.weight", found.tensor.row.source);
            checkpoint.names.rename_if.iter().any(|(_, new, _)| own == **new)
        };
        expanded.sort_by_key(|found| is_renamed(found));
        let mut naming = expanded.iter().map(|found| Naming { candidate, h: &h, found });
        let Some(parts) = naming.clone().find_map(|naming| naming.expanded(&tensor.shape)) else {
            // Another tensor may determine the shape of the source.
            if let Some(name) = naming.find_map(|naming| naming.only_name()) {
                unshaped.push((name, tensor));
                continue;
            }
            return Err(match expanded.first() {
                Some(_) => ExportProblem::Shape { tensor: tensor.name.clone(), shape: tensor.shape.clone() },
                None => ExportProblem::NoRow { tensor: tensor.name.clone(), architecture: arch.to_owned() },
            });
        };
        let wrong = || ExportProblem::Shape { tensor: tensor.name.clone(), shape: tensor.shape.clone() };
        for Part { name, shape, is_only, is_one } in parts {
            match places.get(&name).and_then(|place| found.get_mut(*place).zip(exact.get_mut(*place))) {
                None => {
                    places.insert(name.clone(), found.len());
                    found.push(NewTensor { name, shape, of, is_one });
                    exact.push(is_only);
                }
                Some((known, _)) if known.shape == shape => {}
                // The known shape is exact, and this tensor states only a part of it.
                Some((_, known_exactly)) if *known_exactly && !is_only => {}
                Some((known, known_exactly)) if !*known_exactly => (known.shape, *known_exactly) = (shape, is_only),
                Some(_) => return Err(wrong()),
            }
        }
    }
    match unshaped.into_iter().find(|(name, _)| !places.contains_key(name)) {
        None => {
            let named = found.iter().map(|tensor| name_in_block(candidate, &tensor.name, &found)).collect::<Vec<_>>();
            for (tensor, name) in found.iter_mut().zip(named) {
                if let Some(name) = name {
                    tensor.name = name;
                }
            }
            Ok(found)
        }
        Some((_, tensor)) => Err(ExportProblem::Shape { tensor: tensor.name.clone(), shape: tensor.shape.clone() }),
    }
}

/// The name of a tensor outside of blocks that is in a block of the checkpoint: the block that has others of the same module.
pub(super) fn name_in_block(candidate: &Candidate, name: &str, others: &[NewTensor]) -> Option<String> {
    let TensorNames { roots, outside_blocks, .. } = candidate.checkpoint.names;
    let root = roots.first().copied().unwrap_or_default();
    outside_blocks.iter().find_map(|(in_block, outside)| {
        let rest = name.strip_prefix(root)?.strip_prefix(outside)?;
        let (before, after) = in_block.strip_suffix(outside)?.split_once("{}")?;
        let block = others.iter().find_map(|other| {
            let (block, own) = other.name.strip_prefix(root)?.strip_prefix(before)?.split_once('.')?;
            let is_own = after.strip_prefix('.').is_some_and(|module| own.starts_with(module));
            (is_own && block.bytes().all(|byte| byte.is_ascii_digit())).then_some(block)
        })?;
        Some(format!("{root}{}{rest}", in_block.replace("{}", block)))
    })
}

/// Whether a tensor is computed from the configuration, or otherwise not made of tensors of the same values.
pub(super) fn is_computed(candidate: &Candidate, name: &str) -> bool {
    use gguf_model::arch::Computed;
    // Ids of tokens are a parameter.
    candidate.checkpoint.facts.ids == name
        || candidate.checkpoint.computed.iter().any(|computed| match computed {
            Computed::Llama3Freqs | Computed::Llama3FreqsBy(_) | Computed::Llama3FreqsOfPart => {
                name == super::ROPE_FREQS
            }
            Computed::LongRopeFactors => super::ROPE_FACTORS.iter().any(|(tensor, _)| name == *tensor),
            Computed::Values(tensor, _) | Computed::Sinusoids(tensor, _) => name == *tensor,
            _ => false,
        })
}

/// A source of a tensor.
struct Part {
    name: String,
    shape: Vec<u64>,
    /// Whether it is known that the source has no more elements.
    is_only: bool,
    /// Whether all elements are 1.
    is_one: bool,
}

/// A row for a tensor of the file.
#[derive(Debug, Clone, Copy)]
struct Found {
    tensor: Tensor,
    block: Option<u64>,
    kept: Option<u64>,
}

/// The rows of an architecture.
struct Rows {
    outside: Vec<Tensor>,
    block: Vec<Tensor>,
}

impl Rows {
    fn new(candidate: &Candidate) -> Rows {
        Rows { outside: candidate.architecture.outside().collect(), block: candidate.architecture.block().collect() }
    }

    /// The rows for a name.
    fn of(&self, name: &str) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for tensor in &self.outside {
            let own = tensor.name();
            let kept = own
                .split_once("{n}")
                .and_then(|(before, after)| name.strip_prefix(before)?.strip_suffix(after)?.parse::<u64>().ok());
            if own == name || kept.is_some() {
                found.push(Found { tensor: *tensor, block: None, kept });
            }
        }
        for tensor in &self.block {
            let in_block = name.strip_prefix(tensor.row.stack().prefix()).and_then(|rest| rest.split_once('.'));
            if let Some((block, own)) = in_block
                && let Ok(block) = block.parse::<u64>()
                && tensor.is_named(own)
            {
                found.push(Found { tensor: *tensor, block: Some(block), kept: None });
            }
        }
        found
    }
}

/// How the sources of a tensor are named.
#[derive(Clone, Copy)]
struct Naming<'a> {
    candidate: &'a Candidate,
    h: &'a Hparams<'a>,
    found: &'a Found,
}

impl Naming<'_> {
    /// The names and shapes of the sources for a tensor of this shape; `None` if it does not determine them.
    fn expanded(&self, shape: &[u64]) -> Option<Vec<Part>> {
        let row = self.found.tensor.row;
        // Alternatives are spellings of the class, of which the first is that of transformers.
        row.source.split('|').find_map(|alternative| self.of_alternative(alternative, shape))
    }

    /// The name of the source, if there is one only.
    fn only_name(&self) -> Option<String> {
        let row = self.found.tensor.row;
        let templates: Vec<Template> = operands(row.source.split('|').next()?).map(Template::new).collect();
        match templates.as_slice() {
            [template] if template.stack.is_none() => Some(self.name(template, None)),
            _ => None,
        }
    }

    fn of_alternative(&self, alternative: &'static str, shape: &[u64]) -> Option<Vec<Part>> {
        let row = self.found.tensor.row;
        let templates: Vec<Template> = operands(alternative).map(Template::new).collect();
        let is_joined = alternative.contains(" + ");
        if alternative.contains(PRODUCT) {
            return self.factors(&templates, shape);
        }
        let is_other = matches!(row.op, RowOp::SumParts | RowOp::BatchNorm(_) | RowOp::Values(_));
        if templates.len() > 1 && !is_joined || is_other {
            return None;
        }
        let pattern = match row.pattern {
            "" => None,
            text => Some(Pattern::parse(text).ok()?),
        };
        let fields = &self.candidate.fields;
        let source = |shape: &[u64]| match &pattern {
            Some(pattern) => pattern.source_shape(shape, &|axis| self.length(axis, fields)),
            None => Some((shape.to_vec(), true)),
        };
        let mut parts: Vec<Part> = Vec::new();
        let mut push = |name: String, (shape, is_only)| parts.push(Part { name, shape, is_only, is_one: false });
        let lengths = match templates.len() {
            1 => vec![shape.first().copied()],
            _ => self.lengths(&templates, shape.first().copied()?)?.into_iter().map(Some).collect(),
        };
        for (template, first) in templates.iter().zip(lengths) {
            let mut own = shape.to_vec();
            if let (Some(place), Some(first)) = (own.first_mut(), first) {
                *place = first;
            }
            match template.stack.filter(|(unit, _)| *unit != KEPT) {
                None => push(self.name(template, None), source(&own)?),
                Some((_, _)) if !template.joins => {
                    let (n, inner) = own.split_first()?;
                    for number in 0..*n {
                        push(self.name(template, Some(number)), source(inner)?);
                    }
                }
                Some((unit, _)) => {
                    let n = fields.fields.get(unit)?.as_u64().filter(|n| *n > 0)?;
                    let first = own.first_mut()?;
                    *first = first.is_multiple_of(n).then(|| *first / n)?;
                    for number in 0..n {
                        push(self.name(template, Some(number)), source(&own)?);
                    }
                }
            }
        }
        Some(parts)
    }

    /// The factors of a vector: the first is the product, and the others, each a matrix of one row, are ones.
    fn factors(&self, templates: &[Template], shape: &[u64]) -> Option<Vec<Part>> {
        let [length] = shape else { return None };
        let factors = templates.iter().enumerate().map(|(i, template)| {
            let is_one = i > 0;
            let shape = if is_one { vec![1, *length] } else { vec![*length] };
            Part { name: self.name(template, None), shape, is_only: true, is_one }
        });
        Some(factors.collect())
    }

    /// The length of a named axis.
    fn length(&self, axis: &str, fields: &Fields) -> Option<u64> {
        let permuted = fields.number(&format!("@{}.{axis}", Fact::Permuted.name()));
        permuted.or_else(|| length(axis, self.h, self.found.block.unwrap_or(0))).or_else(|| fields.number(axis))
    }

    /// The lengths of concatenated tensors: those of queries, keys and values, otherwise equal ones.
    fn lengths(&self, templates: &[Template], total: u64) -> Option<Vec<u64>> {
        let block = self.found.block.unwrap_or(0);
        let of = |per_block: Option<gguf_model::PerBlock<'_>>| per_block?.get(block);
        let (heads, heads_kv) = (of(self.h.heads), of(self.h.heads_kv));
        let width = |template: &Template| {
            let last = template.before.rsplit('.').next().unwrap_or_default();
            let (n, d) = match last.trim_start_matches("lin_").chars().next()? {
                'q' => (heads, self.h.head_k),
                'k' => (heads_kv, self.h.head_k),
                'v' => (heads_kv, self.h.head_v),
                _ => return None,
            };
            n?.checked_mul(d?)
        };
        let named: Option<Vec<u64>> = templates.iter().map(width).collect();
        let n = templates.len() as u64;
        named
            .filter(|lengths| lengths.iter().sum::<u64>() == total)
            .or_else(|| total.is_multiple_of(n).then(|| vec![total / n; templates.len()]))
    }

    /// The name of a source.
    fn name(&self, template: &Template, number: Option<u64>) -> String {
        let Found { tensor, block, kept } = *self.found;
        let names = self.candidate.checkpoint.names;
        let mut own = template.before.to_owned();
        if let Some((_, after)) = template.stack
            && let Some(number) = number.or(kept)
        {
            own.push_str(&format!("{number}{after}"));
        }
        let last = own.rsplit('.').next().unwrap_or_default();
        let is_bare = PARAMETERS_OF_TIME.iter().any(|start| last.starts_with(start));
        let is_bare = is_bare || BARE.iter().any(|bare| own == *bare || own.ends_with(&format!(".{bare}")));
        // Several tensors may be parts of one, as `v.patch_embd.weight.1` is.
        let of_weight = tensor.row.own_name().ends_with(".weight") || tensor.row.own_name().contains(".weight.");
        let suffix = match (tensor.is_bias, of_weight && !is_bare) {
            (true, _) => ".bias",
            (false, true) => ".weight",
            (false, false) => "",
        };
        // Scores of experts are a parameter of the router.
        if let Some(stem) = own.strip_suffix("e_score_correction") {
            own = format!("{stem}e_score_correction_bias");
            return format!("{}{own}", self.prefix(names.layers, block, &own));
        }
        format!("{}{own}{suffix}", self.prefix(names.layers, block, &own))
    }

    /// The root and the prefix of the block.
    fn prefix(&self, layers: &[&str], block: Option<u64>, own: &str) -> String {
        const WITHOUT_ROOT: &[&str] = &["lm_head", "score", "classifier", "cls.", "embed_out", "head"];
        let TensorNames { roots, takes, .. } = self.candidate.checkpoint.names;
        let place = match self.found.tensor.row.stack() {
            Stack::Audio => layers.len().saturating_sub(1),
            stack => stack.place(),
        };
        let layer = layers.get(place).copied().unwrap_or_default();
        let layer = block.map_or_else(String::new, |block| layer.replace("{}", &block.to_string()));
        // Encoders are known by their names.
        let is_taken = |root: &&&str| takes.iter().any(|pattern| matches(pattern, &format!("{root}{layer}{own}")));
        let root = roots.iter().find(is_taken).or(roots.first()).copied().unwrap_or_default();
        match block {
            None if WITHOUT_ROOT.iter().any(|name| own == *name || own.starts_with(&format!("{name}."))) => {
                String::new()
            }
            _ => format!("{root}{layer}"),
        }
    }
}
