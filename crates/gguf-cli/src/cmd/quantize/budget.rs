//! The options of `gguf quantize` for a target size instead of a file type.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_pipeline::Draft;
use gguf_pipeline::fleet::{FleetPlan, MAX_PARTS, MatrixFile, SourceFile};
use gguf_quantize::budget::{Budget, Limit, Measured};
use gguf_quantize::mix::parse_tensor_type;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sensitivities::Document;
use crate::cmd::fleet;
use crate::cmd::size::parse_size;
use crate::failure::{Failure, Verdict};
use crate::ui::{Ui, grouped, shown_path};

/// A size to stay within.
#[derive(Debug, clap::Args)]
pub struct BudgetOptions {
    /// Choose the type of each tensor for the lowest total error within this file size, such as 4.2GiB, 700MB or a
    /// number of bytes; replaces TYPE
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_negative_numbers = true, group = "limit", conflicts_with = "pure")]
    target_size: Option<u64>,

    /// Likewise, with at most this many bits per weight, such as 3.9; replaces TYPE
    #[arg(long, value_name = "BITS", value_parser = parse_bits, allow_negative_numbers = true, group = "limit", conflicts_with = "pure")]
    target_bpw: Option<f64>,

    /// Types to choose from, such as q4_K,q5_K,q6_K
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = parse_candidate, requires = "limit")]
    candidates: Vec<GgmlType>,

    /// With --plan-only, plan the measurements in N parts: the output is then their results as JSON, for --measured
    #[arg(long, value_name = "N", value_parser = parse_parts, requires_all = ["limit", "plan_only"], conflicts_with_all = ["report", "measured"])]
    pub measure: Option<usize>,

    /// Use errors that parts of a plan with --measure have measured, and measure only the tensors that have none; repeatable
    #[arg(long, value_name = "FILE", requires = "limit")]
    pub measured: Vec<PathBuf>,

    /// Weigh the errors of tensors by measured sensitivities, a file of gguf sensitivity
    #[arg(long, value_name = "FILE", requires = "limit")]
    sensitivity: Option<PathBuf>,
}

fn parse_parts(text: &str) -> Result<usize, String> {
    let n = text.parse().ok().filter(|n| (1..=MAX_PARTS).contains(n));
    n.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| format!("expected a number of parts, from 1 to {MAX_PARTS}"))
}

/// Measured errors with what they depend on, in JSON. An error is the integer with the bits of a number in double precision.
#[derive(Serialize, Deserialize)]
struct JsonMeasured {
    /// The version of the format: 1.
    gguf_measured: u32,
    program: String,
    /// The hash of the plan whose parts have measured them.
    plan: String,
    sources: Vec<SourceFile>,
    matrix: Option<MatrixFile>,
    tensors: JsonErrors,
}

/// The types of each tensor, with their errors.
type JsonErrors = BTreeMap<String, Vec<(String, Option<u64>)>>;

const PROGRAM: &str = concat!("gguf ", env!("CARGO_PKG_VERSION"));

/// Measured errors as the results of a part.
///
/// # Errors
/// None that are known.
pub fn results(measured: &Measured) -> Result<Value, Failure> {
    let bits = |(ty, error): &(GgmlType, Option<f64>)| (ty.to_string(), error.map(f64::to_bits));
    let errors: JsonErrors =
        measured.iter().map(|(name, errors)| (name.to_owned(), errors.iter().map(bits).collect())).collect();
    serde_json::to_value(errors).map_err(|e| Failure::CouldNotRun(e.to_string()))
}

/// The results of all parts of a plan as a document.
///
/// # Errors
/// If the results are not measured errors.
pub fn document(plan: &FleetPlan, results: Vec<Value>) -> Result<Vec<u8>, Failure> {
    let wrong = |e: serde_json::Error| Failure::Bad(format!("the results of a part are not measured errors: {e}"));
    let mut tensors = JsonErrors::new();
    for part in results {
        tensors.append(&mut serde_json::from_value(part).map_err(wrong)?);
    }
    let document = JsonMeasured {
        gguf_measured: 1,
        program: PROGRAM.to_owned(),
        plan: plan.hash().to_owned(),
        sources: plan.sources().to_vec(),
        matrix: plan.matrix().cloned(),
        tensors,
    };
    serde_json::to_vec(&document).map_err(wrong)
}

/// Reads measured errors, which must be those of the source and the matrix.
///
/// # Errors
/// If a file cannot be read, or belongs to another source, matrix or version.
pub fn read_measured(paths: &[PathBuf], draft: &Draft, matrix: Option<&MatrixFile>) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let sources = FleetPlan::sources_of(draft)?;
    for path in paths {
        let wrong =
            |what: String| Failure::of_file(Verdict::Bad, "bad_input", path, format!("{}: {what}", path.display()));
        let document: JsonMeasured = serde_json::from_slice(&fleet::bytes_of(path)?)
            .map_err(|e| wrong(format!("not measured errors of a plan with --measure: {e}")))?;
        let differs = match () {
            () if (document.gguf_measured, document.program.as_str()) != (1, PROGRAM) => Some("version of the program"),
            () if document.sources != sources => Some("source"),
            () if document.matrix.as_ref() != matrix => Some("importance matrix"),
            () => None,
        };
        if let Some(what) = differs {
            return Err(wrong(format!("the errors were measured with another {what}")));
        }
        for (name, errors) in document.tensors {
            let typed = |(ty, bits): (String, Option<u64>)| Some((GgmlType::from_name(&ty)?, bits.map(f64::from_bits)));
            let errors: Option<Vec<_>> = errors.into_iter().map(typed).collect();
            measured.add(name, errors.ok_or_else(|| wrong("it has an unknown tensor type".to_owned()))?);
        }
    }
    Ok(measured)
}

impl BudgetOptions {
    /// The types to choose from, if they are given.
    pub fn candidates(&self) -> Option<Vec<GgmlType>> {
        (!self.candidates.is_empty()).then(|| self.candidates.clone())
    }

    /// The requested size, candidate types and sensitivities, if there is a size. A warning says if relative errors were measured with an importance
    /// matrix and are needed without one, or the other way around.
    ///
    /// # Errors
    /// If the file of sensitivities cannot be read.
    pub fn budget(&self, ui: &mut Ui, has_imatrix: bool) -> Result<Option<Budget<'static>>, Failure> {
        let size = self.target_size.map(Limit::FileBytes);
        let Some(limit) = size.or(self.target_bpw.map(Limit::BitsPerWeight)) else { return Ok(None) };
        let candidates = self.candidates();
        let mut sensitivities = None;
        if let Some(path) = &self.sensitivity {
            let document = Document::read(path)?;
            if document.has_imatrix != has_imatrix {
                let how = if document.has_imatrix { "with" } else { "without" };
                let problem = format!("measured {how} an importance matrix; use the same matrix for both commands");
                ui.warning(&format!("{}: {problem}", shown_path(path)));
            }
            sensitivities = Some(document.sensitivities());
        }
        Ok(Some(Budget { candidates, sensitivities, ..Budget::new(limit) }))
    }

    /// The files that the output must not replace.
    pub fn files(&self) -> Vec<PathBuf> {
        self.measured.iter().chain(&self.sensitivity).cloned().collect()
    }
}

/// Displays a limit as `within 4,509,715,660 bytes`.
pub struct Within(pub Limit);

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Limit::FileBytes(n) => write!(f, "within {} bytes", grouped(n)),
            Limit::BitsPerWeight(bits) => write!(f, "within {bits} bits per weight"),
        }
    }
}

fn parse_bits(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(bits) if bits > 0.0 && bits <= 64.0 => Ok(bits),
        _ => Err("expected bits per weight, above 0 and at most 64, such as 3.9".to_owned()),
    }
}

/// Parses a tensor type, ignoring spaces around it.
fn parse_candidate(text: &str) -> Result<GgmlType, String> {
    parse_tensor_type(text.trim()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_above_0_and_at_most_64() {
        assert_eq!(parse_bits("3.9"), Ok(3.9));
        for text in ["0", "-1", "NaN", "inf", "100", "x"] {
            assert!(parse_bits(text).is_err(), "{text}");
        }
    }
}
