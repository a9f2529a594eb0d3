//! Operations on files in one call. The documentation of each function shows its few lines.

#[cfg(feature = "fs")]
use std::io::{self, BufWriter};
#[cfg(feature = "fs")]
use std::path::Path;
#[cfg(feature = "edit")]
use std::path::PathBuf;

use gguf_format::Gguf;
#[cfg(feature = "fs")]
use gguf_format::Head;
use gguf_io::Model;
#[cfg(feature = "fs")]
use gguf_io::{Output, WriteError, Writer};
use gguf_model::summary::Summary;
#[cfg(feature = "edit")]
use gguf_pipeline::{Draft, RunOptions, RunSummary};

#[cfg(feature = "hf")]
use crate::Conversion;
#[cfg(feature = "fs")]
use crate::Error;
#[cfg(feature = "edit")]
use crate::Warning;

/// Summarizes a model: architecture, parameters, types, context length, vocabulary.
///
/// ```
/// use ggufkit::Model;
///
/// let model = Model::open("examples/tiny.gguf")?;
/// let summary = ggufkit::summary(&model);
/// println!("{} tensors, {} parameters", summary.n_tensors, summary.n_params);
/// assert_eq!(summary.architecture.as_deref(), Some("llama"));
/// assert_eq!(summary.block_count, Some(1));
/// # Ok::<(), ggufkit::Error>(())
/// ```
pub fn summary(model: &Model) -> Summary {
    let heads: Vec<&Gguf<'_>> = model.files().iter().map(|file| file.gguf()).collect();
    gguf_model::summary::summary(&heads)
}

/// Writes a file: `tensors` provides the data of each tensor, in the order of the head. The file is renamed when it is complete and synced,
/// and never appears incomplete. Feature `fs`.
///
/// ```
/// use ggufkit::{GgmlType, Head, Model, TensorInfo};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("model.gguf");
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// head.set("llama.block_count", 1u32);
/// head.tensors.push(TensorInfo::new("output_norm.weight", [2], GgmlType::F32));
/// let norm: Vec<u8> = [1.0f32, 0.5].iter().flat_map(|value| value.to_le_bytes()).collect();
/// ggufkit::write(&path, &head, [norm])?;
///
/// let model = Model::open(&path)?;
/// assert_eq!(model.tensor("output_norm.weight")?.n_bytes()?, 8);
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// This is [`Writer::write`] to an [`Output`]. To replace a file, or to write tensors one by one, use those:
///
/// ```
/// use std::io::BufWriter;
/// use ggufkit::{Head, Output, Writer};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("model.gguf");
/// # let head = Head::default();
///
/// let output = Output::create(&path, true)?;
/// let mut writer = Writer::new(BufWriter::new(output.file()), &head)?;
/// // Call writer.tensor(name, data) for each tensor here.
/// writer.finish()?;
/// output.commit()?;
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If the file exists or cannot be written, the head is invalid, or the tensors do not match the head.
#[cfg(feature = "fs")]
pub fn write<D: AsRef<[u8]>>(
    path: impl AsRef<Path>,
    head: &Head,
    tensors: impl IntoIterator<Item = D>,
) -> Result<(), Error> {
    let path = path.as_ref();
    let output = Output::create(path, false)?;
    let io = |source: io::Error| gguf_io::Error::Io { path: path.to_owned(), action: "write", source };
    let written = Writer::write(BufWriter::new(output.file()), head, tensors).map(drop);
    match written {
        Ok(()) => Ok(output.commit()?),
        Err(WriteError::Io(e)) => Err(io(e).into()),
        Err(e) => Err(e.into()),
    }
}

/// The written files, and warnings for the user. Features `edit`, `quantize` and `hf`.
#[cfg(feature = "edit")]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Written {
    /// The files.
    pub paths: Vec<PathBuf>,
    /// Warnings about the input or the output.
    pub warnings: Vec<Warning>,
}

#[cfg(feature = "edit")]
impl Written {
    pub(crate) fn new(done: RunSummary, mut warnings: Vec<Warning>) -> Written {
        warnings.extend(done.overflows.into_iter().map(Warning::Overflow));
        Written { paths: done.paths, warnings }
    }
}

/// Copies a model with changed key-values; an [`EditPlan`](crate::EditPlan) changes the file itself. All shards become one file, of version 3 and little-endian unless `change` sets
/// [`Head::dialect`]. Feature `edit`.
///
/// ```
/// use ggufkit::{Model, keys};
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("out.gguf");
///
/// ggufkit::edit_metadata("examples/tiny.gguf", &out, |head| {
///     head.set("general.name", "Tiny, renamed");
///     head.set(keys::TOKENIZER_CHAT_TEMPLATE, "{{ messages[0].content }}");
///     head.remove("general.description");
/// })?;
/// assert_eq!(Model::open(&out)?.gguf().get_as::<&str>("general.name")?, "Tiny, renamed");
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// This uses a [`Draft`] that copies the model. Use one directly to rename, reorder or remove tensors, to replace a file, or to show
/// progress:
///
/// ```
/// use ggufkit::{Draft, Event, RunOptions};
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("out.gguf");
///
/// let mut draft = Draft::copy_of("examples/tiny.gguf")?;
/// draft.head.set("general.name", "Tiny, without output matrix");
/// draft.tensors.retain(|tensor| *tensor.name != *b"output.weight");
/// draft.lay_out()?.run(&out, &RunOptions::default().force(true), &|event: Event<'_>| println!("{event:?}"))?;
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If the model cannot be read, the key-values cannot be written, or the output exists. No output is left then.
#[cfg(feature = "edit")]
pub fn edit_metadata(
    model: impl AsRef<Path>,
    out: impl AsRef<Path>,
    change: impl FnOnce(&mut Head),
) -> Result<Written, Error> {
    let mut draft = Draft::copy_of(model)?;
    change(&mut draft.head);
    let done = draft.lay_out()?.run(out, &RunOptions::default(), &())?;
    Ok(Written::new(done, Vec::new()))
}

/// Merges the shards of a model into one file. Any shard can be given. For a model from [`split`](gguf_edit::split()), the result is
/// identical to the original file. Feature `edit`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("out.gguf");
/// ggufkit::merge("examples/tiny-00001-of-00002.gguf", &out)?;
/// # assert_eq!(std::fs::read(&out).unwrap(), std::fs::read("examples/tiny.gguf").unwrap());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// As for [`edit_metadata`].
#[cfg(feature = "edit")]
pub fn merge(shard: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Written, Error> {
    let plan = match gguf_edit::merge(&shard) {
        Ok(merge) => merge.plan,
        // A single file is copied.
        Err(gguf_edit::Error::NotSplit { .. }) => return edit_metadata(shard, out, |_| ()),
        Err(e) => return Err(e.into()),
    };
    let done = plan.run(out, &RunOptions::default(), &())?;
    Ok(Written::new(done, Vec::new()))
}

/// Quantizes a model to a file type such as `Q4_K_M`, byte for byte as llama-quantize does. Feature `quantize`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("out.gguf");
/// let written = ggufkit::quantize_file("examples/tiny.gguf", &out, "Q8_0")?;
/// for warning in &written.warnings {
///     eprintln!("{warning}");
/// }
/// # assert!(std::fs::metadata(&out).unwrap().len() < std::fs::metadata("examples/tiny.gguf").unwrap().len());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// With an importance matrix, rules for single tensors, a number of threads or progress, use the separate steps:
///
/// ```
/// use ggufkit::quantize::{self, QuantizeOptions, mix::Target};
/// use ggufkit::{Draft, Event, RunOptions};
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("out.gguf");
///
/// let copy = Draft::copy_of("examples/tiny.gguf")?;
/// let options = QuantizeOptions::default();
/// let quantization = quantize::plan(copy, None, &options, &Target::parse("Q8_0")?)?;
/// for tensor in quantization.plan.tensors() {
///     println!("{}: {} to {}", tensor.shown(), tensor.from, tensor.ty);
/// }
/// quantization.plan.run(&out, &RunOptions::default(), &|event: Event<'_>| println!("{event:?}"))?;
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// # Errors
/// If the file type is unknown or needs an importance matrix, a tensor is already quantized to another type, the model cannot be read, or
/// the output exists. No output is left then.
#[cfg(feature = "quantize")]
pub fn quantize_file(model: impl AsRef<Path>, out: impl AsRef<Path>, file_type: &str) -> Result<Written, Error> {
    let target = gguf_quantize::mix::Target::parse(file_type)?;
    let copy = Draft::copy_of(model)?;
    let quantization = gguf_quantize::plan(copy, None, &Default::default(), &target)?;
    let done = quantization.plan.run(out, &RunOptions::default(), &())?;
    Ok(Written::new(done, quantization.warnings.into_iter().map(Into::into).collect()))
}

/// Converts the Hugging Face checkpoint in the directory `dir`, byte for byte like llama.cpp's converter. `out` is a file, or a directory
/// for a file named after the model. Feature `hf`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path();
/// let written = ggufkit::convert("../../examples/glossary", out)?;
/// println!("{}", written.paths[0].display());
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// With options, progress, or without writing anything, use a [`Conversion`].
///
/// # Errors
/// If the checkpoint is incomplete, its architecture is not supported, or the output exists. No output is left then.
#[cfg(feature = "hf")]
pub fn convert(dir: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Written, Error> {
    Conversion::open(dir)?.run(out, &())
}
