//! Quantizing: a model in GGUF becomes one of another file type.
//!
//! As in a conversion, [`plan`] decides everything from the heads, and [`QuantizePlan::run`] streams the tensors. The tensor data
//! and their types are what `llama_model_quantize` of llama.cpp gives, to the byte, whatever the number of threads. The head
//! differs from llama.cpp's where that is at fault: data is aligned as `general.alignment` says, which llama.cpp keeps but does
//! not follow.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_arch::mix::{self, Decision, MixOptions, ModelFacts, Target, TensorFacts};
use gguf_arch::plan::{Input, Op, PlannedTensor, Reason};
use gguf_format::check::Severity;
use gguf_format::{Dialect, GgmlType, Head, Layout, Str, TensorInfo, Value, Version};

use crate::error::Error;
use crate::imatrix::{self, ImatrixFile, Use};
use crate::progress::Progress;
use crate::run::{Importance, Rules, Run};
use crate::source::gguf::GgufSource;
use crate::{QUANTIZATION_VERSION, write_file};

/// What can be chosen about quantizing.
#[derive(Debug, Clone)]
pub struct QuantizeOptions {
    /// What the file becomes.
    pub target: Target,
    /// The choices about tensors. Whether there is an importance matrix is filled in.
    pub mix: MixOptions,
    /// Takes tensors that are quantized already, which loses more than quantizing once.
    pub allow_requantize: bool,
    /// Key-values that are set at the end, in order.
    pub overrides: Vec<(String, Value)>,
    /// What the output says about the importance matrix; see [`provenance`](crate::imatrix::provenance).
    pub provenance: Vec<(&'static str, Value)>,
    /// Number of threads; `None` for as many as the machine has processors.
    pub threads: Option<NonZeroUsize>,
    /// Replaces the output if there is one.
    pub force: bool,
}

/// Everything about a quantization but the data.
#[derive(Debug)]
pub struct QuantizePlan<'m> {
    source: GgufSource,
    head: Head,
    layout: Layout,
    tensors: Vec<PlannedTensor>,
    decisions: Vec<Decision>,
    matrix: Option<&'m ImatrixFile>,
    /// Names of the matrix's entries, by the tensors' places in the output.
    entries: BTreeMap<usize, Vec<u8>>,
    warnings: Vec<String>,
    threads: Option<NonZeroUsize>,
    force: bool,
}

/// Decides everything about quantizing the model that `input` belongs to, without reading its weights. All that is wrong with an
/// importance matrix, and how it fits the model, is found here.
///
/// # Errors
/// [`Error`], which names the file or tensor.
pub fn plan<'m>(
    input: &Path,
    matrix: Option<&'m ImatrixFile>,
    options: &QuantizeOptions,
) -> Result<QuantizePlan<'m>, Error> {
    let source = GgufSource::open(input)?;
    let mut head = Head::from_gguf(source.model().gguf());
    head.dialect = Dialect::new(Version::V3);
    if let Target::FileType(ty) = options.target {
        for (key, value) in [("general.quantization_version", QUANTIZATION_VERSION), ("general.file_type", ty.0)] {
            head.remove(key);
            head.set(key, value);
        }
    }
    for key in ["split.no", "split.count", "split.tensors.count"] {
        head.remove(key);
    }
    let provenance = options.provenance.iter().map(|(key, value)| (*key, value));
    for (key, value) in options.overrides.iter().map(|(key, value)| (key.as_str(), value)).chain(provenance) {
        head.remove(key);
        head.set(key, value.clone());
    }

    let mut order: Vec<(usize, &TensorInfo)> = source.tensors().iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| mix::processing_order(&a.name, &b.name));
    let facts: Vec<TensorFacts<'_>> =
        order.iter().map(|(_, t)| TensorFacts { name: Str(&t.name), shape: &t.shape, ty: t.ty }).collect();
    let mix_options = MixOptions { has_imatrix: matrix.is_some(), ..options.mix.clone() };
    let model = ModelFacts::of(|key| head.get(key));
    let decisions = mix::decide(&model, &facts, options.target, &mix_options)
        .map_err(|source| Error::Mix { path: input.to_owned(), source })?;

    let mut warnings = Vec::new();
    if let Some(matrix) = matrix {
        let uses: Vec<Use<'_>> = facts.iter().zip(&decisions).map(|(t, decision)| Use::of(t, decision)).collect();
        for finding in imatrix::check(matrix, &uses).findings() {
            let said =
                format!("{}: {} ({}); expected {}", finding.place, finding.message, finding.code, finding.expected);
            match finding.severity {
                Severity::Error => return Err(Error::MatrixAtFault { finding: said }),
                Severity::Warning => warnings.push(format!("importance matrix: {said}")),
                _ => {}
            }
        }
    }
    let (mut tensors, mut entries) = (Vec::new(), BTreeMap::new());
    for (i, (&(index, from), decision)) in order.iter().zip(&decisions).enumerate() {
        let name = String::from_utf8_lossy(&from.name).into_owned();
        let changes = decision.ty != from.ty;
        if changes && from.ty.is_quantized() && !options.allow_requantize {
            return Err(Error::Requantize { tensor: name, from: from.ty, to: decision.ty });
        }
        let entry = matrix.and_then(|m| m.entry(&from.name)).filter(|entry| entry.n_values == columns(from));
        match entry {
            Some(_) if changes => {
                entries.insert(i, from.name.clone());
            }
            None if changes && decision.needs_imatrix => {
                return Err(Error::NeedsMatrix { tensor: name, ty: decision.ty, given: matrix.is_some() });
            }
            _ => {}
        }
        if let Some(wanted) = decision.instead_of {
            let row = from.shape.first().copied().unwrap_or(1);
            warnings.push(format!(
                "{}: {} in place of {wanted}, whose blocks do not fit rows of {row}",
                Str(&from.name),
                decision.ty
            ));
        }
        tensors.push(PlannedTensor {
            op: Op::Copy(Input { index, name: name.clone(), ty: from.ty }),
            name,
            shape: from.shape.clone(),
            ty: decision.ty,
            reason: Reason::Asked,
        });
    }
    head.tensors = order
        .iter()
        .zip(&decisions)
        .map(|((_, from), decision)| TensorInfo { ty: decision.ty, offset: 0, ..(*from).clone() })
        .collect();
    let layout = head.layout()?;
    let (threads, force) = (options.threads, options.force);
    Ok(QuantizePlan { source, head, layout, tensors, decisions, matrix, entries, warnings, threads, force })
}

/// Weights that a matrix has for a tensor: one a column, for each matrix of a stack.
fn columns(tensor: &TensorInfo) -> u64 {
    let dim = |i: usize| tensor.shape.get(i).copied().unwrap_or(1);
    dim(0).saturating_mul(dim(2))
}

impl QuantizePlan<'_> {
    /// The model that is read.
    pub fn source(&self) -> &GgufSource {
        &self.source
    }

    /// The head of the output.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Where everything lands.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The output's tensors in order, each with the type it has now and the decision about it.
    pub fn tensors(&self) -> impl Iterator<Item = (&TensorInfo, GgmlType, &Decision)> {
        let from = self.tensors.iter().map(|t| t.op.input().map_or(t.ty, |input| input.ty));
        self.head.tensors.iter().zip(from).zip(&self.decisions).map(|((to, from), decision)| (to, from, decision))
    }

    /// How many of the tensors that change their type have weights of importance, and how many there are.
    pub fn coverage(&self) -> (usize, usize) {
        let changing = self.tensors.iter().filter(|t| t.op.input().is_some_and(|input| input.ty != t.ty)).count();
        (self.entries.len(), changing)
    }

    /// What the user should know, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Reads, quantizes and writes everything.
    ///
    /// # Errors
    /// [`Error`]. No output is left then, and a file that had the name before is untouched.
    pub fn run(&self, out: &Path, progress: &dyn Progress) -> Result<(), Error> {
        let inputs: Vec<PathBuf> = self.source.paths().collect();
        let run = Run {
            tensors: &self.tensors,
            layout: &self.layout,
            source: &self.source,
            rules: Rules::Ggml,
            importance: self.matrix.map(|matrix| Importance { matrix, entries: &self.entries }),
            order: self.head.dialect.order,
            threads: self.threads,
        };
        write_file(out, &inputs, self.force, &self.head, self.layout.file_bytes, &run, progress).map(|_| ())
    }
}
