//! Image and video models: a single tensor file, or a diffusers folder with the same tensor names, becomes a GGUF file in which every
//! tensor keeps its name.
//!
//! The recognized models are listed in [`gguf_model::image`]. Types, order and key-values follow `tools/convert.py` of ComfyUI-GGUF for the
//! type [`OutType::Auto`], with two differences. A tensor with more than four dimensions, which that script leaves to another tool, is
//! stored as a matrix, and its shape is recorded like the shape of a reshaped tensor. FP8 values with scales are multiplied by their
//! scales.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use gguf_format::keys::{GENERAL_ARCHITECTURE, GENERAL_FILE_TYPE, GENERAL_NAME, GENERAL_QUANTIZATION_VERSION};
use gguf_format::{GgmlType, MAX_DIMS, n_elements};
use gguf_model::image::{IMAGE_MODELS, ImageModel, ORIGINAL_SHAPE, PREFIXES, WHOLE_PREFIX, recognize};
use gguf_pipeline::plan::{Input, Op, Place, Reason, TensorPlan};

use crate::checkpoint::Checkpoint;
use crate::conversion::{Conversion, OutputKind};
use crate::dtype::{Dtype, SourceTensor};
use crate::error::Error;
use crate::key_values::KeyValues;
use crate::location::{Found, Location};
use crate::metadata::ModelMetadata;
use crate::model_plan::{OutType, PlanError, Skipped, float_input};
use crate::options::Options;
use crate::output::{QUANTIZATION_VERSION, check_planned_head, lay_out};
use crate::packed::{Method, Weights, scaled_by};
use crate::warning::Warning;

/// Tensors with at most this number of elements stay in single precision.
const FEW: u64 = 1024;

/// Tensors with fewer elements are not reshaped.
const LEAST_RESHAPED: u64 = 512;

/// The row length of a reshaped tensor: the block size of ggml's K types.
const ROW: u64 = 256;

/// Whether a checkpoint is an image or video model, which [`plan`](crate::plan) converts as such.
///
/// # Errors
/// [`Error`], if it cannot be read.
pub fn is_image_model(path: impl AsRef<Path>) -> Result<bool, Error> {
    let found = Found::at(path.as_ref())?;
    Ok(open(&found.location())?.is_some_and(|checkpoint| Names::of(&checkpoint).model(&checkpoint).is_some()))
}

/// Plans the conversion of an image model; `None` for another checkpoint.
///
/// # Errors
/// [`Error`], including for diffusers tensor files of an unknown model.
pub(crate) fn plan(location: &Location<'_>, options: &Options) -> Result<Option<Conversion>, Error> {
    let Some(checkpoint) = open(location)? else { return Ok(None) };
    let path = location.path();
    let fail = |source| Error::Plan { path: path.clone(), source };
    let names = Names::of(&checkpoint);
    let Some(model) = names.model(&checkpoint) else {
        // A folder that contains only these files holds no other kind of model.
        let unknown = || fail(PlanError::UnsupportedImages { supported: titles() });
        return if location.file.is_none() { Err(unknown()) } else { Ok(None) };
    };
    if let Some(tensor) = model.diffusers.iter().find(|name| names.has(&checkpoint, name)) {
        let (tensor, model) = ((*tensor).to_owned(), model.title);
        return Err(fail(PlanError::DiffusersLayout { tensor, model }));
    }
    if matches!(options.ty, OutType::Q8_0 | OutType::TQ1_0 | OutType::TQ2_0) {
        return Err(fail(PlanError::ImageType { ty: options.ty.resolve(&[]) }));
    }

    let weights = Weights::open(location.dir.path(), checkpoint, &Method::image())?;
    let plan_of = |source: PlanError| weights.error(location.dir.path(), source);
    let main = names.main_type(weights.checkpoint());
    let stored = Stored::of(weights.checkpoint());
    let ty = match options.ty {
        OutType::Auto | OutType::Lossless => main,
        ty => ty.resolve(&[]),
    };
    let mut kvs = KeyValues::default();
    kvs.set(GENERAL_ARCHITECTURE, model.name);
    if let Some(name) = &options.name {
        kvs.set(GENERAL_NAME, name.as_str());
    }
    kvs.set(GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION);
    kvs.set(GENERAL_FILE_TYPE, file_type(ty));
    let (mut tensors, mut skipped) = (Vec::new(), Vec::new());
    let mut skip = |name: &str, reason| skipped.push(Skipped { name: name.to_owned(), reason });
    for (index, source) in weights.tensors().iter().enumerate() {
        let Some(name) = names.of_model(&source.name) else {
            skip(&source.name, "part of another model");
            continue;
        };
        if model.ignored.iter().any(|part| name.contains(part)) {
            skip(&source.name, "not needed by the model");
            continue;
        }
        let input = float_input(index, source).map_err(plan_of)?;
        let (ty, reason) = tensor_type(model, name, &source.shape, stored.dtype(source), options.ty);
        let shape = match reshaped(model, &source.shape) {
            Some(shape) => {
                let original: Vec<i32> = source.shape.iter().filter_map(|n| i32::try_from(*n).ok()).collect();
                if original.len() != source.shape.len() {
                    return Err(plan_of(PlanError::LongDimension {
                        tensor: source.name.clone(),
                        shape: source.shape.clone(),
                    }));
                }
                kvs.i32s(&format!("{ORIGINAL_SHAPE}{name}"), &original);
                shape
            }
            None => source.shape.iter().rev().copied().collect(),
        };
        tensors.push(tensor(name, shape, ty, reason, input, tensors.len()));
    }

    let unpacked = weights.unpacked().to_vec();
    let paths = weights.checkpoint().paths().map(Path::to_owned).collect();
    let plan = lay_out(&path, location.dir, kvs, tensors, Arc::new(weights), paths, options)?;
    let (n_errors, warnings): (usize, Vec<Warning>) = check_planned_head(&plan, |_| Vec::new())?;
    let (kind, architecture, next_tokens) = (OutputKind::Images, model.name, options.next_tokens);
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = options.name.clone().or_else(|| location.name.map(str::to_owned)).or(stem);
    let metadata = ModelMetadata { name, ..ModelMetadata::default() };
    let conversion =
        Conversion { unpacked, plan, kind, architecture, ty, skipped, warnings, n_errors, metadata, next_tokens };
    Ok(Some(conversion))
}

/// The recognized models, for messages.
pub(crate) fn titles() -> Vec<&'static str> {
    IMAGE_MODELS.iter().map(|model| model.title).collect()
}

/// The tensors of a file, or of the diffusers files in a folder, in data order; `None` for a folder without such files.
fn open(location: &Location<'_>) -> Result<Option<Checkpoint>, Error> {
    let mut checkpoint = match location.file {
        Some(file) => Checkpoint::open_file(location.dir, file)?,
        None => match Checkpoint::open_images(location.dir)? {
            Some(checkpoint) => checkpoint,
            None => return Ok(None),
        },
    };
    if checkpoint.is_safetensors() {
        checkpoint.sort_by_data();
    }
    Ok(Some(checkpoint))
}

/// The name prefix of the model's tensors.
#[derive(Debug, Clone, Copy)]
struct Names {
    prefix: &'static str,
}

impl Names {
    /// Determines the name prefix of a checkpoint.
    fn of(checkpoint: &Checkpoint) -> Names {
        let names = || checkpoint.tensors().iter().map(|tensor| tensor.name.as_str());
        let of_part = PREFIXES.iter().find(|prefix| names().any(|name| name.starts_with(**prefix)));
        let of_all = || Some(WHOLE_PREFIX).filter(|prefix| names().all(|name| name.starts_with(prefix)));
        Names { prefix: of_part.copied().or_else(of_all).unwrap_or_default() }
    }

    /// The name in the output; `None` for a tensor of another part of the checkpoint.
    fn of_model<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(self.prefix)
    }

    fn has(&self, checkpoint: &Checkpoint, name: &str) -> bool {
        checkpoint.tensors().iter().any(|tensor| self.of_model(&tensor.name) == Some(name))
    }

    /// The model to which a checkpoint's tensors belong.
    fn model(&self, checkpoint: &Checkpoint) -> Option<&'static ImageModel> {
        let names = checkpoint.tensors().iter().filter_map(|tensor| self.of_model(&tensor.name));
        let names: HashSet<&str> = names.collect();
        recognize(|name| names.contains(name))
    }

    /// The 16-bit type of the file: bfloat16 if it is the most frequent format of the model's tensors, otherwise half precision.
    fn main_type(&self, checkpoint: &Checkpoint) -> GgmlType {
        let mut counts: Vec<(Dtype, usize)> = Vec::new();
        for tensor in checkpoint.tensors().iter().filter(|tensor| self.of_model(&tensor.name).is_some()) {
            match counts.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype) {
                Some((_, count)) => *count += 1,
                None => counts.push((tensor.dtype, 1)),
            }
        }
        let count = |wanted: Dtype| counts.iter().find(|(dtype, _)| *dtype == wanted).map_or(0, |(_, count)| *count);
        let most = counts.iter().filter(|(dtype, _)| *dtype != Dtype::BF16).map(|(_, count)| *count).max();
        if count(Dtype::BF16) > most.unwrap_or(0) { GgmlType::BF16 } else { GgmlType::F16 }
    }
}

/// The FP8 tensors of a checkpoint that have no scales.
struct Stored<'a> {
    bare: HashSet<&'a str>,
}

impl<'a> Stored<'a> {
    fn of(checkpoint: &'a Checkpoint) -> Stored<'a> {
        let names = || checkpoint.tensors().iter().map(|tensor| tensor.name.as_str());
        let scaled: HashSet<&str> = names().filter_map(scaled_by).collect();
        let is_bare = |name: &str| name.strip_suffix("weight").is_none_or(|before| !scaled.contains(before));
        let floats = checkpoint.tensors().iter().filter(|tensor| tensor.dtype.bits == 8);
        Stored { bare: floats.map(|tensor| tensor.name.as_str()).filter(|name| is_bare(name)).collect() }
    }

    /// The format of a tensor: half precision for FP8 without scales, because it represents all FP8 values.
    fn dtype(&self, tensor: &SourceTensor) -> Dtype {
        if self.bare.contains(tensor.name.as_str()) { Dtype::F16 } else { tensor.dtype }
    }
}

/// `general.file_type`, in llama.cpp's numbering.
fn file_type(ty: GgmlType) -> u32 {
    match ty {
        GgmlType::F32 => 0,
        GgmlType::BF16 => 32,
        _ => 1,
    }
}

/// The type of a tensor and its reason (`handle_tensors` in `tools/convert.py`, for [`OutType::Auto`]). `shape` is the shape in the
/// checkpoint.
fn tensor_type(model: &ImageModel, name: &str, shape: &[u64], stored: Dtype, asked: OutType) -> (GgmlType, Reason) {
    // Half precision in the checkpoint is intentional.
    let is_half = stored == Dtype::F16;
    let precise = if shape.len() == 1 {
        Some(Reason::Vector)
    } else if n_elements(shape.iter().copied()).is_some_and(|n| n <= FEW) {
        Some(Reason::Small)
    } else if model.precise.iter().any(|part| name.contains(part)) || shape.len() > MAX_DIMS {
        Some(Reason::Precise)
    } else {
        None
    };
    match (asked, precise) {
        (OutType::F32, _) => (GgmlType::F32, Reason::Asked),
        // The reference adds five-dimensional tensors in single precision.
        (_, Some(reason)) if !is_half || shape.len() > MAX_DIMS => (GgmlType::F32, reason),
        (_, Some(reason)) => (GgmlType::F16, reason),
        (OutType::BF16, None) => (GgmlType::BF16, Reason::Asked),
        (OutType::F16, None) => (GgmlType::F16, Reason::Asked),
        (OutType::Lossless, None) if !is_half && stored != Dtype::BF16 => (GgmlType::F32, Reason::Asked),
        (_, None) if stored == Dtype::BF16 => (GgmlType::BF16, Reason::Asked),
        (_, None) => (GgmlType::F16, Reason::Asked),
    }
}

/// The output shape, in GGUF's order, of a tensor whose shape changes.
fn reshaped(model: &ImageModel, shape: &[u64]) -> Option<Vec<u64>> {
    let n = n_elements(shape.iter().copied())?;
    let row = shape.last().copied()?;
    if model.reshapes && shape.len() > 1 && n >= LEAST_RESHAPED && n.is_multiple_of(ROW) && !row.is_multiple_of(ROW) {
        return Some(vec![ROW, n / ROW]);
    }
    if shape.len() <= MAX_DIMS {
        return None;
    }
    let rows = shape.first().copied().filter(|rows| *rows > 0)?;
    Some(vec![n / rows, rows])
}

fn tensor(name: &str, shape: Vec<u64>, ty: GgmlType, reason: Reason, input: Input, number: usize) -> TensorPlan {
    let op = Op::Copy(input);
    let place = Place { file: 0, offset: number as u64 };
    TensorPlan::new(name, shape, ty, reason, op).at(place)
}
