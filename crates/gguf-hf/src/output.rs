//! The layout of the output, and the check of its planned head.

use std::path::PathBuf;

use gguf_format::check::{Finding, Place, Severity};
use gguf_format::sort::CompactSort as _;
use gguf_format::{Dialect, Head, Kv, Version};
use gguf_pipeline::plan::{Draft, Plan, Rounding};

use crate::arch;
use crate::conversion::{Conversion, OutputKind};
use crate::error::Error;
use crate::files::small_files;
use crate::request::Request;
use crate::strategy::{Keys, TensorPlans};
use crate::warning::{ArchitectureWarning, Warning};

/// `general.quantization_version`: the generation of ggml's quantized types (`GGML_QNT_VERSION` in `ggml.h`).
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// The maximum number of findings about the planned header that are reported as separate warnings.
const MAX_FINDINGS: usize = 10;

/// Lays out the output file for the planned tensors and key-values, and checks its head.
///
/// # Errors
/// If the file cannot be laid out.
pub(crate) fn lay_out(
    request: &Request<'_>,
    kind: OutputKind,
    planned: TensorPlans,
    keys: Keys,
) -> Result<Conversion, Error> {
    let options = request.options;
    let kvs = keys.kvs.into_vec().into_iter().map(|(key, value)| Kv { key: key.into_bytes(), value }).collect();
    let head = Head { dialect: Dialect::new(Version::V3).with_order(options.order), kvs, ..Head::default() };
    let folders = [Some(&request.files), request.target.as_ref(), request.base.as_ref()];
    let mut inputs: Vec<PathBuf> = folders.into_iter().flatten().flat_map(|files| small_files(files)).collect();
    inputs.extend(planned.paths);
    inputs.extend(options.metadata.as_ref().and_then(|file| file.canonicalize().ok()));
    let draft = Draft {
        // An image model may be one file among others of its folder.
        path: if kind == OutputKind::Images { request.path() } else { request.files.path().to_owned() },
        head,
        tensors: planned.tensors,
        source: planned.source,
        rounding: Rounding::Converter,
        importance: None,
        inputs,
        input_bytes: None,
        is_split: false,
        is_vocab_only: options.vocab_only,
    };
    let plan = draft.lay_out()?;
    let mut warnings = planned.warnings;
    warnings.extend(keys.warnings);
    let fields_of = |key: &str| match &keys.table {
        Some((table, fields)) => arch::keys::fields_of(key, table, fields),
        None => Vec::new(),
    };
    let (n_errors, findings) = check_planned_head(&plan, fields_of)?;
    let is_error = |w: &&Warning| matches!(w, Warning::Architecture(ArchitectureWarning::OnlyMtp { .. }));
    let n_errors = n_errors + warnings.iter().filter(is_error).count();
    warnings.extend(findings);
    Ok(Conversion {
        plan,
        kind,
        architecture: planned.architecture,
        ty: planned.ty,
        skipped: planned.skipped,
        unpacked: planned.unpacked,
        warnings,
        n_errors,
        metadata: keys.metadata,
        mtp: options.mtp,
    })
}

/// Runs the model check on the planned header. Returns the number of errors, and up to [`MAX_FINDINGS`] warnings: every error, and every
/// warning about keys, values and tensors.
///
/// The output stays identical to the reference, which also writes such files, but the user learns of the problem before loading the model
/// fails.
///
/// `fields_of` returns the fields of `config.json` that a key comes from, which the finding of a missing key names.
///
/// # Errors
/// If the header cannot be encoded.
fn check_planned_head(plan: &Plan, fields_of: impl Fn(&str) -> Vec<String>) -> Result<(usize, Vec<Warning>), Error> {
    let heads = plan.heads()?;
    let report = gguf_model::check::model(&heads.iter().collect::<Vec<_>>(), None);
    let matters = |f: &Finding| match f.severity {
        Severity::Error => true,
        Severity::Warning => ["key.", "value.", "tensor."].iter().any(|kind| f.code.starts_with(kind)),
        _ => false,
    };
    let mut found: Vec<Finding> = report.findings().filter(|f| matters(f)).map(|f| f.into_owned()).collect();
    for finding in found.iter_mut().filter(|finding| finding.code == "key.missing") {
        if let Place::Key { name, .. } = &finding.place
            && let Some((_, key)) = name.split_once('.')
            && let fields @ [_, ..] = fields_of(key).as_slice()
        {
            finding.expected = format!("{} of config.json", fields.join(" or ")).into();
        }
    }
    found.compact_sort_by_key(|f| core::cmp::Reverse(f.severity));
    let n_errors = found.iter().filter(|f| f.severity == Severity::Error).count();
    let more = found.len().saturating_sub(MAX_FINDINGS);
    let mut warnings: Vec<Warning> = found.into_iter().take(MAX_FINDINGS).map(Warning::Output).collect();
    warnings.extend((more > 0).then_some(Warning::MoreOutput(more)));
    Ok((n_errors, warnings))
}
