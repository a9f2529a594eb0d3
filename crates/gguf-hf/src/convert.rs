//! The conversion of a checkpoint: all decisions that do not require reading the weights.
//!
//! 1. [`locate`] determines the kind of checkpoint: a text model, encoders of images and sound, an adapter or an image model. Each kind is a
//!    [`Strategy`] for the next four steps, in a file of its own.
//! 2. [`read`](Strategy::read): the configuration and the heads of the tensor files.
//! 3. [`add_facts`](Strategy::add_facts): what formulas and patterns of the architecture read besides the configuration.
//! 4. [`plan_tensors`](Strategy::plan_tensors): the output tensors, each with its type and the operation that makes it.
//! 5. [`keys`](Strategy::keys): the key-values in file order.
//! 6. [`lay_out`]: the output file, and the check of its head.

use std::path::{Path, PathBuf};

use gguf_pipeline::{Progress, RunOptions, RunSummary};

use crate::adapter::problem::AdapterProblem;
use crate::adapter::{self, Adapter};
use crate::checkpoint::TensorFiles;
use crate::conversion::{Conversion, OutputKind};
use crate::error::Error;
use crate::folder::Folder;
use crate::image::{self, ImageModel};
use crate::location::{Found, Location};
use crate::options::Options;
use crate::output::lay_out;
use crate::request::Request;
use crate::strategy::Strategy;
use crate::text::TextModel;
use crate::tower::Encoders;

/// Converts the checkpoint in `dir` to a GGUF file at `out`; see [`Conversion::output_path`] for names of folders and templates.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let header = br#"{"double_blocks.0.img_attn.proj.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}}"#;
/// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 32]].concat();
/// # let checkpoint = folder.path().join("flux.safetensors");
/// # std::fs::write(&checkpoint, bytes).unwrap();
/// # let out = folder.path().join("model.gguf");
/// use gguf_hf::{Options, OutType};
///
/// let options = Options::default().ty(OutType::F32);
/// let summary = gguf_hf::convert(&checkpoint, &out, &options, &Default::default(), &())?;
/// assert_eq!(summary.paths, [out.clone()]);
/// # let file = gguf_io::ModelFile::open(&out).unwrap();
/// # assert_eq!(file.gguf().get_as::<&str>("general.architecture"), Ok("flux"));
/// # Ok::<(), gguf_hf::Error>(())
/// ```
///
/// # Errors
/// [`Error`]. On failure no output is left, and an existing file of that name is unchanged.
pub fn convert(
    dir: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &Options,
    run: &RunOptions,
    progress: &dyn Progress,
) -> Result<RunSummary, Error> {
    let conversion = plan(dir, options)?;
    Ok(conversion.plan.run(conversion.output_path(out.as_ref()), run, progress)?)
}

/// Plans the conversion of a checkpoint without reading its weights. `dir` is the checkpoint's folder, the model's folder in the Hugging
/// Face cache (`models--ORGANIZATION--NAME`; the revision in `refs/main` is used), or a single tensor file in the checkpoint's folder.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let header = br#"{"double_blocks.0.img_attn.proj.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}}"#;
/// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 32]].concat();
/// # let checkpoint = folder.path().join("flux.safetensors");
/// # std::fs::write(&checkpoint, bytes).unwrap();
/// use gguf_hf::{Options, OutType, OutputKind};
///
/// let conversion = gguf_hf::plan(&checkpoint, &Options::default().ty(OutType::F16))?;
/// for warning in &conversion.warnings {
///     eprintln!("{warning}");
/// }
/// for tensor in conversion.plan.tensors() {
///     println!("{}: {} because {}", tensor.shown(), tensor.ty, tensor.reason);
/// }
/// // The tensors are those of FLUX.
/// assert_eq!((conversion.architecture, conversion.kind), ("flux", OutputKind::Images));
/// # Ok::<(), gguf_hf::Error>(())
/// ```
///
/// # Errors
/// [`Error`], which names the file and the field or tensor.
pub fn plan(dir: impl AsRef<Path>, options: &Options) -> Result<Conversion, Error> {
    plan_at(&Found::at(dir.as_ref())?.location(), options)
}

/// Plans the conversion of a checkpoint in any [`Folder`], such as one in memory or one of the caller; see [`plan`].
///
/// # Errors
/// As for [`plan`].
pub fn plan_folder(folder: &dyn Folder, options: &Options) -> Result<Conversion, Error> {
    plan_at(&Location { dir: folder, file: None, name: None }, options)
}

/// The folder of the checkpoint at a path that [`plan`] accepts: the current revision of a model's folder in the Hugging Face cache, or the
/// folder of a tensor file.
///
/// # Errors
/// If there is no checkpoint, or if a model in the cache has several revisions and none is current.
pub fn model_folder(path: impl AsRef<Path>) -> Result<PathBuf, Error> {
    Ok(Found::at(path.as_ref())?.dir)
}

/// Plans a conversion: each kind of checkpoint has its own way through the same steps.
fn plan_at(location: &Location<'_>, options: &Options) -> Result<Conversion, Error> {
    let request = Request::new(location, options);
    let (kind, checkpoint) = locate(&request)?;
    match kind {
        OutputKind::Model => plan_as::<TextModel>(&request, checkpoint),
        OutputKind::Projector => plan_as::<Encoders>(&request, checkpoint),
        OutputKind::Adapter => plan_as::<Adapter>(&request, checkpoint),
        OutputKind::Images => plan_as::<ImageModel>(&request, checkpoint),
    }
}

/// The steps of a conversion, from the documents to the layout of the output.
fn plan_as<S: Strategy>(request: &Request<'_>, checkpoint: Option<TensorFiles>) -> Result<Conversion, Error> {
    let mut model = S::read(request, checkpoint)?;
    model.add_facts(request)?;
    let (tensors, planned) = model.plan_tensors(request)?;
    let keys = S::keys(request, &tensors, planned)?;
    lay_out(request, S::KIND, tensors, keys)
}

/// Determines the kind of conversion, and the heads of the tensor files if the kind depends on them.
fn locate(request: &Request<'_>) -> Result<(OutputKind, Option<TensorFiles>), Error> {
    let files = &request.files;
    if adapter::is_adapter(files)? {
        return Ok((OutputKind::Adapter, None));
    }
    if request.base.is_some() {
        return Err(Error::Adapter { path: files.path().to_owned(), source: AdapterProblem::NotAnAdapter });
    }
    if request.options.projector {
        return Ok((OutputKind::Projector, None));
    }
    match image::open(files, request.file)? {
        Some(checkpoint) if image::is_known(&checkpoint) => Ok((OutputKind::Images, Some(checkpoint))),
        // A folder that contains only these files holds no other kind of model.
        Some(_) if request.file.is_none() => Err(image::unknown(request)),
        checkpoint => Ok((OutputKind::Model, checkpoint)),
    }
}
