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
use gguf_model::image::{IMAGE_MODELS, ImageModel as KnownModel, ORIGINAL_SHAPE, PREFIXES, WHOLE_PREFIX, recognize};
use gguf_pipeline::plan::{Input, Op, Reason, SourcePlace, TensorPlan};

use crate::checkpoint::TensorFiles;
use crate::conversion::OutputKind;
use crate::dtype::{Dtype, SourceTensor};
use crate::error::Error;
use crate::folder::Folder;
use crate::key_values::KeyValues;
use crate::location::Found;
use crate::metadata::ModelMetadata;
use crate::model_plan::{OutType, PlanError, Skipped, float_input};
use crate::output::QUANTIZATION_VERSION;
use crate::packed::{Method, Weights, scaled_by};
use crate::request::Request;
use crate::strategy::{Keys, Strategy, TensorPlans};

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
    let location = found.location();
    Ok(open(location.dir, location.file)?.is_some_and(|checkpoint| is_known(&checkpoint)))
}

/// As [`is_image_model`], for a folder that need not be on the disk.
///
/// # Errors
/// [`Error`], if it cannot be read.
pub fn is_image_model_folder(folder: &dyn Folder) -> Result<bool, Error> {
    Ok(open(folder, None)?.is_some_and(|checkpoint| is_known(&checkpoint)))
}

/// Whether the tensors of a checkpoint are those of a known image model.
pub(crate) fn is_known(checkpoint: &TensorFiles) -> bool {
    Names::of(checkpoint).model(checkpoint).is_some()
}

/// The error for tensors of an unknown model without a configuration.
pub(crate) fn unknown(request: &Request<'_>) -> Error {
    let supported = IMAGE_MODELS.iter().map(|model| model.title).collect();
    Error::Plan { path: request.path(), source: PlanError::UnsupportedImages { supported } }
}

/// The tensor heads of an image model.
#[derive(Debug)]
pub(crate) struct ImageModel {
    model: &'static KnownModel,
    names: Names,
    checkpoint: TensorFiles,
}

impl Strategy for ImageModel {
    const KIND: OutputKind = OutputKind::Images;
    /// The shapes of reshaped tensors, by their keys.
    type Planned = Vec<(String, Vec<i32>)>;

    fn read(request: &Request<'_>, checkpoint: Option<TensorFiles>) -> Result<ImageModel, Error> {
        let mut checkpoint = checkpoint.unwrap_or_default();
        let fail = |source| Error::Plan { path: request.path(), source };
        let names = Names::of(&checkpoint);
        let model = names.model(&checkpoint).ok_or_else(|| unknown(request))?;
        if let Some(tensor) = model.diffusers.iter().find(|name| names.has(&checkpoint, name)) {
            let (tensor, model) = ((*tensor).to_owned(), model.title);
            return Err(fail(PlanError::DiffusersLayout { tensor, model }));
        }
        let ty = request.options.ty;
        if matches!(ty, OutType::Q8_0 | OutType::TQ1_0 | OutType::TQ2_0) {
            return Err(fail(PlanError::ImageType { ty: ty.resolve(&[]) }));
        }
        if checkpoint.is_safetensors() {
            checkpoint.sort_by_data();
        }
        Ok(ImageModel { model, names, checkpoint })
    }

    /// No formulas apply to image models.
    fn add_facts(&mut self, _: &Request<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn plan_tensors(self, request: &Request<'_>) -> Result<(TensorPlans, Self::Planned), Error> {
        let ImageModel { model, names, checkpoint } = self;
        let (dir, asked) = (request.files.path(), request.options.ty);
        let weights = Weights::open(dir, checkpoint, &Method::image())?;
        let of_tensor = |source: PlanError| weights.error(dir, source);
        let stored = Stored::of(weights.checkpoint());
        let (mut tensors, mut skipped, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
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
            let input = float_input(index, source).map_err(of_tensor)?;
            let (ty, reason) = tensor_type(model, name, &source.shape, stored.dtype(source), asked);
            let shape = match reshaped(model, &source.shape) {
                Some(shape) => {
                    let original: Vec<i32> = source.shape.iter().filter_map(|n| i32::try_from(*n).ok()).collect();
                    if original.len() != source.shape.len() {
                        let (tensor, shape) = (source.name.clone(), source.shape.clone());
                        return Err(of_tensor(PlanError::LongDimension { tensor, shape }));
                    }
                    shapes.push((format!("{ORIGINAL_SHAPE}{name}"), original));
                    shape
                }
                None => source.shape.iter().rev().copied().collect(),
            };
            tensors.push(tensor(name, shape, ty, reason, input, tensors.len()));
        }
        let ty = match asked {
            OutType::Auto | OutType::Lossless => names.main_type(weights.checkpoint()),
            ty => ty.resolve(&[]),
        };
        let planned = TensorPlans {
            architecture: model.name,
            ty,
            tensors,
            skipped,
            unpacked: weights.unpacked().to_vec(),
            warnings: Vec::new(),
            paths: weights.checkpoint().paths().map(Path::to_owned).collect(),
            source: Arc::new(weights),
        };
        Ok((planned, shapes))
    }

    fn keys(request: &Request<'_>, tensors: &TensorPlans, shapes: Self::Planned) -> Result<Keys, Error> {
        let name = request.options.name.clone();
        let mut kvs = KeyValues::default();
        kvs.set(GENERAL_ARCHITECTURE, tensors.architecture);
        if let Some(name) = &name {
            kvs.set(GENERAL_NAME, name.as_str());
        }
        kvs.set(GENERAL_QUANTIZATION_VERSION, QUANTIZATION_VERSION);
        kvs.set(GENERAL_FILE_TYPE, file_type(tensors.ty));
        for (key, shape) in shapes {
            kvs.i32s(&key, &shape);
        }
        let stem = request.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.or_else(|| request.name.map(str::to_owned)).or(stem);
        let metadata = ModelMetadata { name, ..ModelMetadata::default() };
        Ok(Keys { kvs, metadata, warnings: Vec::new(), table: None })
    }
}

/// The tensors of the file of a folder, or of the diffusers files in the folder; `None` for a folder without such files.
pub(crate) fn open(dir: &dyn Folder, file: Option<&str>) -> Result<Option<TensorFiles>, Error> {
    match file {
        Some(file) => TensorFiles::open_file(dir, file).map(Some),
        None => TensorFiles::open_images(dir),
    }
}

/// The name prefix of the model's tensors.
#[derive(Debug, Clone, Copy)]
struct Names {
    prefix: &'static str,
}

impl Names {
    /// Determines the name prefix of a checkpoint.
    fn of(checkpoint: &TensorFiles) -> Names {
        let names = || checkpoint.tensors().iter().map(|tensor| tensor.name.as_str());
        let of_part = PREFIXES.iter().find(|prefix| names().any(|name| name.starts_with(**prefix)));
        let of_all = || Some(WHOLE_PREFIX).filter(|prefix| names().all(|name| name.starts_with(prefix)));
        Names { prefix: of_part.copied().or_else(of_all).unwrap_or_default() }
    }

    /// The name in the output; `None` for a tensor of another part of the checkpoint.
    fn of_model<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(self.prefix)
    }

    fn has(&self, checkpoint: &TensorFiles, name: &str) -> bool {
        checkpoint.tensors().iter().any(|tensor| self.of_model(&tensor.name) == Some(name))
    }

    /// The model to which a checkpoint's tensors belong.
    fn model(&self, checkpoint: &TensorFiles) -> Option<&'static KnownModel> {
        let names = checkpoint.tensors().iter().filter_map(|tensor| self.of_model(&tensor.name));
        let names: HashSet<&str> = names.collect();
        recognize(|name| names.contains(name))
    }

    /// The 16-bit type of the file: bfloat16 if it is the most frequent format of the model's tensors, otherwise half precision.
    fn main_type(&self, checkpoint: &TensorFiles) -> GgmlType {
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
    fn of(checkpoint: &'a TensorFiles) -> Stored<'a> {
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
fn tensor_type(model: &KnownModel, name: &str, shape: &[u64], stored: Dtype, asked: OutType) -> (GgmlType, Reason) {
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
fn reshaped(model: &KnownModel, shape: &[u64]) -> Option<Vec<u64>> {
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
    let place = SourcePlace { file: 0, offset: number as u64 };
    TensorPlan::new(name, shape, ty, reason, op).at(place)
}
