//! `plan`, `export` and `merge_lora`: outputs, planned and run.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ggufkit::edit::split_converted;
use ggufkit::hf::Options;
use ggufkit::hf::export::{Export, ExportOptions};
use ggufkit::hf::lora::{LoraAdapter, MergedType, merge};
use ggufkit::quantize::imatrix::ImatrixFile;
use ggufkit::quantize::mix::{MixOptions, Target, TensorTypeRule};
use ggufkit::{Conversion, Draft, GgmlType, OutType, PlannedConversion, QuantizeOptions, RunOptions, Warning};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::codec::{tensor_type, threads, type_name};
use crate::error::raise;
use crate::progress;
use crate::remote::{self, ModelPath, Outputs, Place};

/// A planned output: what it will be, before a weight is read. From `plan`, `export` and `merge_lora`.
#[pyclass(frozen, module = "ggufkit")]
pub struct Plan {
    planned: Planned,
    warnings: Vec<String>,
}

enum Planned {
    Conversion(Box<PlannedConversion>),
    Quantization { plan: Box<ggufkit::Plan>, ty: String },
    Export(Box<Export>),
}

impl Plan {
    fn plan(&self) -> &ggufkit::Plan {
        match &self.planned {
            Planned::Conversion(planned) => planned.plan(),
            Planned::Quantization { plan, .. } => plan,
            Planned::Export(export) => &export.plan,
        }
    }

    /// The path of the output. `{ftype}` is replaced by the type; a conversion into a folder gets the name of the model.
    fn output_path(&self, out: &Path) -> PathBuf {
        match &self.planned {
            Planned::Conversion(planned) => planned.output_path(out),
            Planned::Quantization { ty, .. } => match out.to_str() {
                Some(text) => {
                    PathBuf::from(text.replace("{ftype}", &ty.to_lowercase()).replace("{FTYPE}", &ty.to_uppercase()))
                }
                None => out.to_owned(),
            },
            Planned::Export(_) => out.to_owned(),
        }
    }

    /// The plan of a GGUF file, split on request.
    fn of_file(
        mut plan: ggufkit::Plan,
        ty: String,
        max_shard: Option<NonZeroU64>,
        mut warnings: Vec<String>,
    ) -> Result<Plan, ggufkit::Error> {
        if let Some(bytes) = max_shard {
            let (split, too_large) = split_converted(plan, None, Some(bytes))?;
            plan = split;
            warnings.extend(too_large.into_iter().map(|tensor| Warning::TooLarge { tensor }.to_string()));
        }
        Ok(Plan { planned: Planned::Quantization { plan: Box::new(plan), ty }, warnings })
    }
}

/// Plans the conversion of a Hugging Face checkpoint, or the quantization of a GGUF file. No weight is read.
///
/// `path` is the folder of a checkpoint, a GGUF file, or a URL of one (`hf:org/repo`). `type` is a file type such as `Q4_K_M`; by default,
/// that of the checkpoint; a GGUF file keeps its types. `imatrix` is the path of an importance matrix. `tensor_types` are rules `PATTERN=TYPE` for single tensors.
/// `allow_requantize` accepts tensors that are already quantized. `projector` converts the image and audio encoders instead of the language
/// model. `max_shard` splits the output into files of at most as many bytes of tensor data.
#[pyfunction]
#[pyo3(signature = (path, *, r#type = None, imatrix = None, tensor_types = Vec::new(), allow_requantize = false, projector = false, max_shard = None))]
#[allow(clippy::too_many_arguments, reason = "arguments with names, in Python")]
pub fn plan(
    py: Python<'_>,
    path: PathBuf,
    r#type: Option<&str>,
    imatrix: Option<PathBuf>,
    tensor_types: Vec<String>,
    allow_requantize: bool,
    projector: bool,
    max_shard: Option<Bound<'_, PyAny>>,
) -> PyResult<Plan> {
    let max_shard = max_shard.map(|size| bytes_of_size(&size)).transpose()?;
    let place = remote::locate(py, path)?;
    let options = quantize_options(tensor_types, allow_requantize)?;
    let is_quantization = imatrix.is_some() || !options.mix.tensor_types.is_empty();
    let work = || -> Result<Plan, ggufkit::Error> {
        let imatrix = imatrix.map(ImatrixFile::open).transpose()?.map(Arc::new);
        if is_gguf(&place) {
            let draft = Draft::copy_of(remote::model(&place)?)?;
            let target = Target::parse(r#type.unwrap_or("COPY"))?;
            let quantized = ggufkit::quantize::plan(draft, imatrix, &options, &target)?;
            let warnings = quantized.warnings.into_iter().map(|w| Warning::from(w).to_string()).collect();
            return Plan::of_file(quantized.plan, target.to_string(), max_shard, warnings);
        }
        let mut conversion = match &place {
            ModelPath::Local(path) => Conversion::open(path)?,
            ModelPath::Remote(client, location) => Conversion::from_folder(remote::folder(client, location)?),
        }
        .projector(projector);
        if let Some(ty) = r#type.filter(|ty| !ty.eq_ignore_ascii_case("auto")) {
            let target = Target::parse(ty)?;
            conversion = match OutType::from_name(&target.to_string().to_ascii_lowercase()) {
                Some(ty) if !is_quantization => conversion.ty(ty),
                _ => conversion.quantize_with(ty, options, imatrix)?,
            };
        }
        if let Some(bytes) = max_shard {
            conversion = conversion.max_bytes(bytes);
        }
        let planned = conversion.plan()?;
        let warnings = planned.warnings().iter().map(Warning::to_string).collect();
        Ok(Plan { planned: Planned::Conversion(Box::new(planned)), warnings })
    };
    py.detach(work).map_err(raise)
}

/// Plans the export of a GGUF model to a Hugging Face folder, which transformers loads. No weight is read; `run` writes into a folder.
///
/// `path` is the model, any shard of it, or a URL. `type` is the type of all tensors, `F32`, `F16` or `BF16`; by default, that in the file, and
/// BF16 for quantized tensors. A further file of tensors begins after `max_shard` bytes. The warnings of the plan are what a conversion of the
/// folder would give otherwise than the file.
#[pyfunction]
#[pyo3(signature = (path, *, r#type = None, max_shard = None))]
pub fn export(
    py: Python<'_>,
    path: PathBuf,
    r#type: Option<&str>,
    max_shard: Option<Bound<'_, PyAny>>,
) -> PyResult<Plan> {
    let ty = r#type.map(tensor_type).transpose()?;
    if ty.is_some_and(|ty| ![GgmlType::F32, GgmlType::F16, GgmlType::BF16].contains(&ty)) {
        let name = r#type.unwrap_or_default();
        return Err(PyValueError::new_err(format!("{name:?} is not a type of exports; expected F32, F16 or BF16")));
    }
    let mut options = ExportOptions::default().ty(ty).folder(path.file_stem().unwrap_or_default());
    if let Some(size) = max_shard {
        options = options.max_file_bytes(bytes_of_size(&size)?.get());
    }
    let place = remote::locate(py, path)?;
    let work = || -> Result<Plan, ggufkit::Error> {
        let export = ggufkit::hf::export::plan(remote::model(&place)?, &options)?;
        let warnings = export.warnings.iter().map(ToString::to_string).collect();
        Ok(Plan { planned: Planned::Export(Box::new(export)), warnings })
    };
    py.detach(work).map_err(raise)
}

/// Plans the merge of LoRA adapters into their base model: `base + scale * alpha / rank * (B @ A)` in float32, as llama-export-lora does. No
/// weight is read.
///
/// `base` is a GGUF model or the folder of a checkpoint; `adapters` is one adapter or a list of them, each a GGUF file or a folder in the format of
/// PEFT; all may be URLs. `scale` multiplies the changes: a number, or one for each adapter. `type` is the file type of the output; by default,
/// every tensor has its type in the base model. `imatrix`, `tensor_types`, `allow_requantize` and `max_shard` are as for `plan`. `base_config` is
/// the folder with the config.json of the base model, for adapters in the format of PEFT and a base in GGUF.
#[pyfunction]
#[pyo3(signature = (base, adapters, *, scale = None, r#type = None, imatrix = None, tensor_types = Vec::new(), allow_requantize = false, base_config = None, max_shard = None))]
#[allow(clippy::too_many_arguments, reason = "arguments with names, in Python")]
pub fn merge_lora(
    py: Python<'_>,
    base: PathBuf,
    adapters: Bound<'_, PyAny>,
    scale: Option<Bound<'_, PyAny>>,
    r#type: Option<&str>,
    imatrix: Option<PathBuf>,
    tensor_types: Vec<String>,
    allow_requantize: bool,
    base_config: Option<PathBuf>,
    max_shard: Option<Bound<'_, PyAny>>,
) -> PyResult<Plan> {
    let max_shard = max_shard.map(|size| bytes_of_size(&size)).transpose()?;
    let adapters: Vec<PathBuf> = adapters.extract().map(|path| vec![path]).or_else(|_| adapters.extract())?;
    let adapters = adapters.into_iter().map(|path| remote::locate(py, path)).collect::<PyResult<Vec<_>>>()?;
    let scales = scales(scale, adapters.len())?;
    let options = quantize_options(tensor_types, allow_requantize)?;
    if r#type.is_none() && (imatrix.is_some() || allow_requantize || !options.mix.tensor_types.is_empty()) {
        return Err(PyValueError::new_err("imatrix, tensor_types and allow_requantize require a type, such as Q4_K_M"));
    }
    let base = remote::locate(py, base)?;
    let config = match base_config {
        Some(config) => Some(remote::locate(py, config)?),
        None => Some(base.clone()).filter(|base| !is_gguf(base)),
    };
    let work = || -> Result<Plan, ggufkit::Error> {
        let plain = if r#type.is_some() { OutType::Lossless } else { OutType::Auto };
        let base = draft(&base, Options::default().ty(plain))?;
        let of_adapter = |(place, scale): (&ModelPath, f32)| -> Result<LoraAdapter, ggufkit::Error> {
            let folder = config.as_ref().map(remote::model_folder).transpose()?;
            Ok(LoraAdapter { draft: draft(place, Options::default().ty(OutType::F32).base(folder))?, scale })
        };
        let adapters = adapters.iter().zip(scales).map(of_adapter).collect::<Result<Vec<_>, _>>()?;
        let ty = if r#type.is_some() { MergedType::Single } else { MergedType::OfBase };
        let merged = merge(base, &adapters, ty)?;
        let ignored =
            |tensor: &String| format!("{tensor}: the adapter replaces a norm, which llama.cpp and this merge ignore");
        let mut warnings: Vec<String> = merged.ignored.iter().map(ignored).collect();
        let Some(ty) = r#type else {
            return Plan::of_file(merged.draft.lay_out()?, "merged".to_owned(), max_shard, warnings);
        };
        let (target, imatrix) = (Target::parse(ty)?, imatrix.map(ImatrixFile::open).transpose()?.map(Arc::new));
        let quantized = ggufkit::quantize::plan(merged.draft, imatrix, &options, &target)?;
        warnings.extend(quantized.warnings.into_iter().map(|w| Warning::from(w).to_string()));
        Plan::of_file(quantized.plan, target.to_string(), max_shard, warnings)
    };
    py.detach(work).map_err(raise)
}

/// The draft of a model in GGUF, or of a conversion.
fn draft(place: &ModelPath, options: Options) -> Result<Draft, ggufkit::Error> {
    if is_gguf(place) {
        return Ok(Draft::copy_of(remote::model(place)?)?);
    }
    Ok(remote::conversion(place, &options)?.plan.into_draft())
}

/// The scales of adapters: a number for all, or one for each.
fn scales(scale: Option<Bound<'_, PyAny>>, n: usize) -> PyResult<Vec<f32>> {
    let Some(scale) = scale else { return Ok(vec![1.0; n]) };
    if let Ok(scale) = scale.extract::<f32>() {
        return Ok(vec![scale; n]);
    }
    let scales: Vec<f32> = scale.extract()?;
    match scales.len() == n {
        true => Ok(scales),
        false => Err(PyValueError::new_err(format!("{} scales for {n} adapters; expected one for each", scales.len()))),
    }
}

fn quantize_options(tensor_types: Vec<String>, allow_requantize: bool) -> PyResult<QuantizeOptions> {
    let tensor_types =
        tensor_types.iter().map(|rule| TensorTypeRule::parse(rule)).collect::<Result<_, _>>().map_err(raise)?;
    let mut options = QuantizeOptions::default();
    (options.mix, options.allow_requantize) = (MixOptions { tensor_types, ..MixOptions::default() }, allow_requantize);
    Ok(options)
}

/// Whether a place is that of a GGUF file rather than of a checkpoint.
fn is_gguf(place: &ModelPath) -> bool {
    match place {
        ModelPath::Local(path) => path.is_file() && path.extension().is_none_or(|e| !is_tensor_file(e)),
        ModelPath::Remote(_, location) => location.to_string().to_ascii_lowercase().ends_with(".gguf"),
    }
}

/// Whether a single file with this extension is a checkpoint.
fn is_tensor_file(extension: &std::ffi::OsStr) -> bool {
    ["safetensors", "bin", "pt", "pth"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// A number of bytes: an int, or a string with a unit (`2GB`, `500M`, powers of 1000).
pub fn bytes_of_size(size: &Bound<'_, PyAny>) -> PyResult<NonZeroU64> {
    let wrong =
        || PyValueError::new_err(format!("{size}: not a size; expected bytes, or a number with K, M or G: \"2GB\""));
    let bytes = match size.extract::<u64>() {
        Ok(bytes) => Some(bytes),
        Err(_) => {
            let text: String = size.extract().map_err(|_| wrong())?;
            let text = text.trim().to_ascii_uppercase();
            let text = text.strip_suffix('B').unwrap_or(&text).trim_end();
            let units = [('K', 1_000u64), ('M', 1_000_000), ('G', 1_000_000_000)];
            let with_unit = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(*unit)?.trim_end(), *bytes)));
            let (number, unit) = with_unit.unwrap_or((text, 1));
            number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit))
        }
    };
    bytes.and_then(NonZeroU64::new).ok_or_else(wrong)
}

#[pymethods]
impl Plan {
    /// The size of the output files together, in bytes.
    #[getter]
    fn file_bytes(&self) -> u64 {
        self.plan().file_bytes()
    }

    /// The number of output files.
    #[getter]
    fn n_files(&self) -> usize {
        self.plan().files().len()
    }

    /// The architecture in GGUF.
    #[getter]
    fn architecture(&self) -> Option<String> {
        if let Planned::Export(export) = &self.planned {
            return Some(export.architecture.clone());
        }
        let head = self.plan().head();
        head.get("general.architecture").and_then(|value| value.as_str()).map(|arch| arch.to_string())
    }

    /// The output tensors: tuples of name, shape in the order of NumPy, type before, and type.
    #[getter]
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for tensor in self.plan().tensors() {
            let shape = PyTuple::new(py, tensor.shape.iter().rev())?;
            list.append((tensor.shown(), shape, type_name(tensor.from), type_name(tensor.ty)))?;
        }
        Ok(list)
    }

    /// Warnings about the input and the output.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Writes the output, and returns the paths of its files. They appear when they are complete.
    ///
    /// `{ftype}` in `out` is replaced by the type; a conversion into a folder gets the name of the model, and an export is a folder. `out` may also be an
    /// object of a store (`s3://bucket/name.gguf`, `gs://`, `az://`), which is uploaded while it is made. `force` replaces existing files.
    /// `progress` is True for a bar (needs tqdm) or a callable `(done, total, name)`; an exception in it, or Ctrl-C, cancels the work, and
    /// nothing is left. With `resume`, completed work is kept then, and the next run continues it.
    ///
    /// Values that become infinite in their new type are a Python warning.
    #[pyo3(signature = (out, *, progress = None, threads = None, force = false, resume = false))]
    fn run(
        &self,
        py: Python<'_>,
        out: PathBuf,
        progress: Option<Bound<'_, PyAny>>,
        threads: Option<usize>,
        force: bool,
        resume: bool,
    ) -> PyResult<Vec<Place>> {
        let options = RunOptions::default().threads(self::threads(threads)?).force(force).resume(resume);
        let out = self.output_path(&out);
        let outputs = Outputs::of(py, &out)?;
        if let (Planned::Export(_), Outputs::Objects(_)) = (&self.planned, outputs) {
            return Err(PyValueError::new_err(format!("{}: expected a folder", out.display())));
        }
        let done = progress::run(py, progress.as_ref(), |progress| match &self.planned {
            Planned::Export(export) => Ok(export.run(&out, &options, progress)?),
            _ => Ok(outputs.run(self.plan(), &out, options.clone(), progress)?),
        })?;
        for overflow in &done.overflows {
            py.import("warnings")?.call_method1("warn", (overflow.to_string(),))?;
        }
        Ok(done.paths.into_iter().map(Place).collect())
    }

    fn _repr_html_<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("ggufkit._html")?.call_method1("plan", (this,))
    }

    fn __str__(&self) -> String {
        let tensors = self.plan().tensors();
        let width = tensors.iter().map(|tensor| tensor.shown().len()).max().unwrap_or(0);
        let mut text = String::new();
        for tensor in tensors {
            let dims: Vec<String> = tensor.shape.iter().rev().map(u64::to_string).collect();
            let (from, to) = (type_name(tensor.from), type_name(tensor.ty));
            text += &format!("{:width$}  {:>16}  {from:>6} -> {to}\n", tensor.shown(), dims.join(" x "));
        }
        text + &format!("{} tensors, {} bytes", tensors.len(), self.file_bytes())
    }

    fn __repr__(&self) -> String {
        let arch = self.architecture().unwrap_or_default();
        format!("<Plan {arch}: {} tensors, {} bytes>", self.plan().tensors().len(), self.file_bytes())
    }
}
