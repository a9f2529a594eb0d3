//! `verify`: whether a file was made from a checkpoint.

use std::path::PathBuf;
use std::sync::Arc;

use ggufkit::RunOptions;
use ggufkit::hf::Options;
use ggufkit::quantize::imatrix::ImatrixFile;
use ggufkit::verify::{Program, options_for};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::codec::{threads, type_name};
use crate::progress;
use crate::remote;
use crate::value::{object, text};

/// A tensor of a file or of the conversion of its checkpoint.
#[pyclass(frozen, get_all, module = "ggufkit")]
pub struct VerifiedTensor {
    /// The name.
    pub name: String,
    /// The type in the file; None if the file lacks the tensor.
    pub r#type: Option<String>,
    /// `identical`, `rounded`, `encoded`, `within`, `different`, `missing` or `extra`.
    pub state: String,
    /// What is known about the data: how it was encoded, or where it differs and what explains it.
    pub details: String,
    /// Whether the tensor is what the checkpoint makes of it.
    pub ok: bool,
}

#[pymethods]
impl VerifiedTensor {
    fn __str__(&self) -> String {
        let details = if self.details.is_empty() { String::new() } else { format!(": {}", self.details) };
        format!("{} {}{details}", self.name, self.state)
    }

    fn __repr__(&self) -> String {
        format!("<VerifiedTensor {}>", self.__str__())
    }
}

/// The comparison of a file with its checkpoint: a sequence of `VerifiedTensor`.
#[pyclass(frozen, sequence, module = "ggufkit")]
pub struct Verification {
    tensors: Py<PyTuple>,
    /// The keys that differ: the value in the conversion and the value in the file, each None if there is none.
    #[pyo3(get)]
    keys: Py<PyDict>,
    /// The keys that differ and only describe the file, such as `general.name`, as `keys`.
    #[pyo3(get)]
    descriptions: Py<PyDict>,
    /// Whether the file was made from the checkpoint: no key differs but descriptions, and every tensor is identical, rounded, encoded, or within
    /// the errors that its type explains. With `imatrix` or `exact`, the latter are not enough.
    #[pyo3(get)]
    ok: bool,
    /// The file type in the metadata, such as `Q4_K_M`.
    #[pyo3(get)]
    file_type: Option<String>,
    /// The program that the keys and their order show: `converter` (llama.cpp's, or this one) or `quantizer`.
    #[pyo3(get)]
    program: Option<&'static str>,
    /// The importance matrix that the metadata names.
    #[pyo3(get)]
    imatrix: Option<String>,
    n_tensors: usize,
    n_bad: usize,
}

#[pymethods]
impl Verification {
    fn __len__(&self) -> usize {
        self.n_tensors
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.tensors.bind(py).try_iter()?.into_any())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.tensors.bind(py).as_any().get_item(index)
    }

    fn __bool__(&self) -> bool {
        self.ok
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let ok = if self.ok { "True" } else { "False" };
        let (n, bad, keys) = (self.n_tensors, self.n_bad, self.keys.bind(py).len());
        format!("<Verification ok={ok}: {n} tensors, {bad} of them different; {keys} different keys>")
    }
}

/// Compares a GGUF file with the checkpoint from which it should have been made, as `gguf verify` does.
///
/// `path` is the file, any shard of it, or a URL; `against` is the folder of the checkpoint, a single tensor file, or a URL (`hf:org/repo`).
/// Nothing is written, and memory does not grow with the model.
///
/// `imatrix` is the path of the importance matrix that the file should be quantized with. `base` is the folder of the base model of an adapter,
/// `target` that of the target of a draft model. `pre` is the name of the pre-tokenizer, `fuse_qkv` and `fuse_gate_up_experts` are the options of
/// the conversion. With `exact`, errors within the bounds of the types count as differences. `progress` and `threads` are as for `Plan.run`.
///
/// Differences are not exceptions; what cannot be compared is.
#[pyfunction]
#[pyo3(signature = (path, against, *, imatrix = None, base = None, target = None, pre = None, fuse_qkv = false, fuse_gate_up_experts = false, exact = false, progress = None, threads = None))]
#[allow(clippy::too_many_arguments, reason = "arguments with names, in Python")]
pub fn verify(
    py: Python<'_>,
    path: PathBuf,
    against: PathBuf,
    imatrix: Option<PathBuf>,
    base: Option<PathBuf>,
    target: Option<PathBuf>,
    pre: Option<String>,
    fuse_qkv: bool,
    fuse_gate_up_experts: bool,
    exact: bool,
    progress: Option<Bound<'_, PyAny>>,
    threads: Option<usize>,
) -> PyResult<Verification> {
    let (file, checkpoint) = (remote::locate(py, path)?, remote::locate(py, against)?);
    let [base, target] = [base, target].map(|folder| folder.map(|folder| remote::locate(py, folder)).transpose());
    let (base, target) = (base?, target?);
    let is_exact = exact || imatrix.is_some();
    let run = RunOptions::default().threads(self::threads(threads)?);
    let work = |progress: &dyn ggufkit::Progress| {
        let model = remote::model(&file)?;
        let options = Options::default()
            .base(base.as_ref().map(remote::model_folder).transpose()?)
            .target(target.as_ref().map(remote::model_folder).transpose()?)
            .pre(pre)
            .fuse_qkv(fuse_qkv)
            .fuse_gate_up_experts(fuse_gate_up_experts);
        let conversion = remote::conversion(&checkpoint, &options_for(&model, options))?;
        let matrix = imatrix.map(ImatrixFile::open).transpose()?.map(Arc::new);
        ggufkit::verify::verify(model, &conversion.plan, matrix, &run, progress)
    };
    let found = progress::run(py, progress.as_ref(), work)?;
    let (keys, descriptions) = (PyDict::new(py), PyDict::new(py));
    for key in &found.keys {
        let (name, [planned, stored]) = found.values(key);
        let value = |value: Option<ggufkit::ValueRef<'_>>| value.map(|value| object(py, value)).transpose();
        let keys = if found.is_description(key) { &descriptions } else { &keys };
        keys.set_item(text(py, name)?, (value(planned)?, value(stored)?))?;
    }
    let tensor = |tensor: &ggufkit::verify::VerifiedTensor| VerifiedTensor {
        name: tensor.name.clone(),
        r#type: tensor.ty.map(type_name),
        state: tensor.state.name().to_owned(),
        details: tensor.details(),
        ok: tensor.state.is_good(),
    };
    let tensors = found.tensors.iter().map(|found| Bound::new(py, tensor(found))).collect::<PyResult<Vec<_>>>()?;
    Ok(Verification {
        n_tensors: tensors.len(),
        n_bad: found.tensors.iter().filter(|tensor| !tensor.state.is_good()).count(),
        tensors: PyTuple::new(py, tensors)?.unbind(),
        keys: keys.unbind(),
        descriptions: descriptions.unbind(),
        ok: found.is_good() && (found.n_within() == 0 || !is_exact),
        file_type: found.made.file_type.map(|ty| ty.to_string()),
        program: found.made.program.and_then(|program| match program {
            Program::Converter => Some("converter"),
            Program::Quantizer => Some("quantizer"),
            _ => None,
        }),
        imatrix: found.made.imatrix.clone(),
    })
}
