//! `gguf imatrix check`: validates a matrix and reports missing entries for a model.

use std::path::{Path, PathBuf};

use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, Str, TensorInfo};
use gguf_quantize::imatrix::{self, ImatrixFile, RULES, Use};
use gguf_quantize::mix::{MixOptions, ModelFacts, Target, TensorFacts, decide, processing_order};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::findings::{self, Judged, Section};
use crate::hints;
use crate::json;
use crate::open;
use crate::ui::{Ui, grouped, shown_path};

/// The default file type for checking coverage.
const USUAL: &str = "Q4_K_M";

/// Validate an importance matrix, and check that it covers a model.
///
/// Without a model, reports non-finite and negative values, entries and experts without measurements, and missing keys.
/// With a model, also reports tensors without an entry, entries of the wrong size, and entries that match no tensor.
/// With a file type, also reports tensors whose type requires a matrix but that have no entry. A quantized model is
/// checked like its unquantized original. The exit code is 1 if there are errors.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf imatrix check imatrix.gguf
  gguf imatrix check imatrix.gguf model.gguf
  gguf imatrix check imatrix.gguf my-model/ IQ2_XS     a checkpoint folder
  gguf imatrix check imatrix.gguf model.gguf IQ2_XS --json | jq .coverage")]
pub struct Args {
    /// Importance matrix (GGUF or .dat)
    #[arg(required_unless_present = "rules", conflicts_with = "rules")]
    file: Option<PathBuf>,

    /// GGUF model (any shard of a split model) or checkpoint folder
    model: Option<PathBuf>,

    /// Target file type, by name or by llama.cpp number [default: Q4_K_M]
    #[arg(value_name = "TYPE")]
    ty: Option<String>,

    #[command(flatten)]
    shown: findings::Options,
}

/// The properties of a model that the check needs.
struct Tensors {
    facts: ModelFacts,
    /// In quantization order.
    infos: Vec<TensorInfo>,
}

/// The number of tensors that use importance, and how many of them have an entry.
struct Coverage {
    target: Target,
    n_covered: usize,
    n_tensors: usize,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let Some(file) = self.file.as_deref().filter(|_| !self.shown.rules) else {
            return findings::print_rules(ui, &[RULES], self.shown.json);
        };
        let target = Target::parse(self.ty.as_deref().unwrap_or(USUAL));
        let target = target.map_err(|e| Failure::CouldNotRun(e.to_string()))?;
        let matrix = open::matrix(file)?;
        let (report, coverage) = match &self.model {
            None => (imatrix::check(&matrix, &[]), None),
            Some(model) => {
                let tensors = Tensors::of(ui, model)?;
                let uses = tensors.uses(model, target)?;
                (imatrix::check(&matrix, &uses), Some(Coverage::of(&matrix, &uses, target)))
            }
        };
        let sections = [Section { paths: vec![file.to_owned()], report }];
        let verdict = findings::verdict(&sections, self.shown.strict);
        let printed = match (self.shown.json, self.shown.quiet) {
            (true, _) => {
                let coverage = coverage.zip(self.model.as_ref()).map(|(coverage, model)| coverage.as_json(model));
                let files: Vec<Judged> = sections.into_iter().map(Judged::Section).collect();
                findings::print_json(ui, verdict, &files, &[("coverage", coverage.unwrap_or(Value::Null))])
            }
            (false, true) => Ok(()),
            (false, false) => {
                let subject = match coverage.zip(self.model.as_ref()) {
                    None => shown_path(file),
                    Some((coverage, model)) => format!("{} for {}{coverage}", shown_path(file), shown_path(model)),
                };
                findings::print(ui, &subject, &sections, verdict)
            }
        };
        match printed {
            // The exit code is the same even if nobody reads the findings.
            Ok(()) | Err(Failure::PipeClosed) => Ok(verdict),
            Err(failure) => Err(failure),
        }
    }
}

impl Tensors {
    fn of(ui: &mut Ui, path: &Path) -> Result<Tensors, Failure> {
        let (facts, mut infos) = if path.is_dir() {
            let conversion = gguf_hf::plan(path, &gguf_hf::Options::default())?;
            conversion.warnings.iter().for_each(|warning| ui.warning(&warning.to_string()));
            let head = conversion.plan.head();
            (
                ModelFacts::of(|key| head.get(key)),
                conversion.plan.tensors().iter().map(|t| TensorInfo::new(&*t.name, &*t.shape, t.ty)).collect(),
            )
        } else {
            let model = open::model(path)?;
            let infos: Vec<_> = model.tensors().map(|t| t.info().to_owned()).collect();
            (ModelFacts::of(|key| model.gguf().get(key)), infos)
        };
        let lacking = match (facts.architecture.is_empty(), infos.is_empty()) {
            (true, _) => "general.architecture is missing",
            (_, true) => "it has no tensors",
            _ => "",
        };
        if !lacking.is_empty() {
            return Err(Failure::Bad(format!("{}: {lacking}; expected a model", path.display())));
        }
        infos.compact_sort_by(|a, b| processing_order(&a.name, &b.name));
        Ok(Tensors { facts, infos })
    }

    /// How each tensor would be quantized.
    fn uses(&self, path: &Path, target: Target) -> Result<Vec<Use<'_>>, Failure> {
        let facts = self.infos.iter().map(|info| {
            // Quantized tensors are checked like their unquantized originals.
            let ty = if info.ty.is_quantized() { GgmlType::F16 } else { info.ty };
            TensorFacts { name: Str(&info.name), shape: &info.shape, ty }
        });
        let tensors: Vec<TensorFacts<'_>> = facts.collect();
        let options = MixOptions { has_imatrix: true, ..MixOptions::default() };
        let decisions = decide(&self.facts, &tensors, target, &options)
            .map_err(|e| Failure::Bad(format!("{}: {e}", path.display())).with_help(hints::for_mix(&e)))?;
        Ok(tensors.iter().zip(&decisions).map(|(tensor, decision)| Use::of(tensor, decision)).collect())
    }
}

impl Coverage {
    fn of(matrix: &ImatrixFile, uses: &[Use<'_>], target: Target) -> Coverage {
        let wanting: Vec<&Use<'_>> = uses.iter().filter(|u| u.wants_importance()).collect();
        let n_covered = wanting.iter().filter(|u| u.is_covered(matrix)).count();
        Coverage { target, n_covered, n_tensors: wanting.len() }
    }

    fn as_json(&self, model: &Path) -> Value {
        json!({
            "model": json::path(model),
            "file_type": self.target.to_string(),
            "covered": self.n_covered,
            "tensors": self.n_tensors,
        })
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (covered, all) = (grouped(self.n_covered as u64), grouped(self.n_tensors as u64));
        write!(f, " as {}, {covered} of {all} tensors covered", self.target)
    }
}
