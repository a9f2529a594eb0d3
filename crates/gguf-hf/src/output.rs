//! The layout of the output, and the check of its planned head.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::check::{Finding, Place, Severity};
use gguf_format::sort::CompactSort as _;
use gguf_format::{Dialect, Head, Kv, Version};
use gguf_pipeline::plan::{Draft, Plan, Rounding, TensorPlan};

use crate::error::Error;
use crate::files;
use crate::folder::Folder;
use crate::key_values::KeyValues;
use crate::options::Options;
use crate::warning::Warning;

/// `general.quantization_version`: the generation of ggml's quantized types (`GGML_QNT_VERSION` in `ggml.h`).
pub(crate) const QUANTIZATION_VERSION: u32 = 2;

/// The maximum number of findings about the planned header that are reported as separate warnings.
const MAX_FINDINGS: usize = 10;

/// Lays out the file for the key-values and tensors; data is read from `source`: the files `paths` in `dir`. `path` names the checkpoint.
pub(crate) fn lay_out(
    path: &Path,
    dir: &dyn Folder,
    kvs: KeyValues,
    tensors: Vec<TensorPlan>,
    source: Arc<dyn gguf_pipeline::Source>,
    paths: Vec<PathBuf>,
    options: &Options,
) -> Result<Plan, Error> {
    let kvs = kvs.into_vec().into_iter().map(|(key, value)| Kv { key: key.into_bytes(), value }).collect();
    let head = Head { dialect: Dialect::new(Version::V3).with_order(options.order), kvs, ..Head::default() };
    let mut inputs = files::small_files(dir);
    inputs.extend(options.target.iter().flat_map(|target| files::small_files(&**target)));
    inputs.extend(options.base.iter().flat_map(|base| files::small_files(&**base)));
    inputs.extend(paths);
    inputs.extend(options.metadata.as_ref().and_then(|file| file.canonicalize().ok()));
    let draft = Draft {
        path: path.to_owned(),
        head,
        tensors,
        source,
        rounding: Rounding::Converter,
        importance: None,
        inputs,
        input_bytes: None,
        is_split: false,
        is_vocab_only: options.vocab_only,
    };
    Ok(draft.lay_out()?)
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
pub(crate) fn check_planned_head(
    plan: &Plan,
    fields_of: impl Fn(&str) -> Vec<String>,
) -> Result<(usize, Vec<Warning>), Error> {
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
