//! Functions that gguf.h does not have, with the prefix `gguf_x_` (`include/gguf_x.h`): errors with an offset, tensors without ggml,
//! checks, models in several files, mapped data, and data as `f32`.
//!
//! These functions print nothing. Failures return null, false or -1, and [`gguf_x_last_error`] has the reason.
#![cfg_attr(
    not(test),
    expect(clippy::cast_possible_truncation, reason = "gguf.h has lengths as size_t, and few dimensions"),
    expect(clippy::indexing_slicing, reason = "the number of dimensions was checked")
)]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::null;

use gguf_format::check::{Finding, Report as Findings};
use gguf_format::{ByteOrder, GgmlType, Gguf, Str};
use gguf_io::{Model as Files, ModelFile, Tensor as FileTensor};
use gguf_quants::codec::codec;

use crate::api::{c_bytes, context_and};
use crate::context::Context;
use crate::failure::{self, Failure, NO_OFFSET, kept};
use crate::ggml::{MAX_DIMS, Tensor};
use crate::read;
use crate::source::path_of;

/// The reason of the last failure on this thread; empty if there was none. Valid until the next failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn gguf_x_last_error() -> *const c_char {
    failure::last().0
}

/// The byte offset of the last error of this thread; `UINT64_MAX` if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn gguf_x_last_error_offset() -> u64 {
    failure::last().1
}

/// Appends a tensor of `n_dims` dimensions, like `gguf_add_tensor` for a tensor of ggml. `data` may be null as long as only the head is
/// written.
///
/// # Safety
/// The context is null or has not been freed, and nothing else uses it during the call; `name` is null or a C string; `ne` is null or has
/// `n_dims` numbers; `data` is null or has the size of the tensor and is valid until the file is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_add_tensor(
    ctx: *mut Context,
    name: *const c_char,
    ty: u32,
    n_dims: u32,
    ne: *const i64,
    data: *const c_void,
) -> bool {
    kept("gguf_x_add_tensor", false, || {
        // SAFETY: both are guaranteed by the caller.
        let (ctx, name) = unsafe { context_and(ctx, name, "the name") }?;
        let n_dims = n_dims as usize;
        let mut shape = [1; MAX_DIMS];
        if ne.is_null() || !(1..=MAX_DIMS).contains(&n_dims) {
            return Err(ctx.refuse(format!("a tensor has 1 to {MAX_DIMS} dimensions, not {n_dims}")));
        }
        // SAFETY: the caller guarantees this many numbers.
        shape[..n_dims].copy_from_slice(unsafe { std::slice::from_raw_parts(ne, n_dims) });
        let tensor = Tensor::new(&name, ty, shape).filter(|_| shape.iter().all(|&n| n >= 0));
        let Some(mut tensor) = tensor else {
            return Err(ctx.refuse(format!("invalid tensor: name {}, type {ty}, shape {shape:?}", Str(&name))));
        };
        tensor.data = data.cast_mut();
        ctx.add_tensor(&tensor).map(|()| true)
    })
}

/// The findings about a file.
#[derive(Debug)]
pub struct Report {
    findings: Vec<CFinding>,
}

#[derive(Debug)]
struct CFinding {
    severity: u32,
    offset: u64,
    /// Code, place, message, expected value, hint.
    texts: [CString; 5],
}

/// `struct gguf_x_finding` of `gguf_x.h`. The texts are valid as long as the report.
#[repr(C)]
#[derive(Debug)]
pub struct XFinding {
    severity: u32,
    offset: u64,
    code: *const c_char,
    place: *const c_char,
    message: *const c_char,
    expected: *const c_char,
    hint: *const c_char,
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

impl Report {
    /// The findings about a head, and about the model if the head can be read.
    fn new(mut findings: Findings, gguf: Option<&Gguf<'_>>, file_name: Option<&str>) -> Box<Report> {
        if let Some(gguf) = gguf {
            findings.append(gguf_model::check::model(&[gguf], file_name));
        }
        let one = |f: &Finding| CFinding {
            severity: f.severity as u32,
            offset: f.place.offset().unwrap_or(NO_OFFSET),
            texts: [f.code, &f.place.to_string(), &f.message, &f.expected, &f.hint].map(c_text),
        };
        Box::new(Report { findings: findings.findings().map(|f| one(&f)).collect() })
    }
}

/// Checks a file: its structure, the specification, and the model in it. Null if the file cannot be opened.
///
/// # Safety
/// `fname` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_check_file(fname: *const c_char) -> *mut Report {
    kept("gguf_x_check_file", std::ptr::null_mut(), || {
        // SAFETY: guaranteed by the caller.
        let path = path_of(unsafe { c_bytes(fname, "the file name") }?);
        let named = |e: std::io::Error| Failure::new(format!("{}: {e}", path.display()));
        let failure = |e: gguf_io::Error| Failure::new(e.to_string());
        gguf_io::in_place::finish(path).map_err(failure)?;
        let mut file = gguf_io::open_regular(path).map_err(failure)?;
        let total = file.metadata().map_err(named)?.len();
        let head = gguf_io::read_head(&mut file, Some(total)).map_err(named)?;
        let findings = gguf_format::check::format(head.bytes(), total);
        let file_name = path.file_name().and_then(|n| n.to_str());
        Ok(Box::into_raw(Report::new(findings, head.into_gguf().ok().as_ref(), file_name)))
    })
}

/// Checks a GGUF in memory.
///
/// # Safety
/// `data` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_check_buffer(data: *const c_void, size: usize) -> *mut Report {
    kept("gguf_x_check_buffer", std::ptr::null_mut(), || {
        if data.is_null() || isize::try_from(size).is_err() {
            return Err(Failure::new("the buffer is NULL, or larger than memory can be"));
        }
        // SAFETY: the caller guarantees this many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) };
        let findings = gguf_format::check::format(bytes, size as u64);
        Ok(Box::into_raw(Report::new(findings, Gguf::parse(bytes).ok().as_ref(), None)))
    })
}

/// The number of findings; 0 for null.
///
/// # Safety
/// The report is null or has not been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_report_n(report: *const Report) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { report.as_ref() }.map_or(0, |r| r.findings.len())
}

/// Stores a finding; false if the index is out of range.
///
/// # Safety
/// The report is null or has not been freed; `finding` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_report_get(report: *const Report, i: usize, finding: *mut XFinding) -> bool {
    kept("gguf_x_report_get", false, || {
        // SAFETY: guaranteed by the caller.
        let found = unsafe { report.as_ref() }.and_then(|r| r.findings.get(i));
        let found =
            found.filter(|_| !finding.is_null()).ok_or_else(|| Failure::new(format!("there is no finding {i}")))?;
        let [code, place, message, expected, hint] = found.texts.each_ref().map(|t| t.as_ptr());
        let (severity, offset) = (found.severity, found.offset);
        // SAFETY: the location is guaranteed by the caller.
        unsafe { finding.write(XFinding { severity, offset, code, place, message, expected, hint }) };
        Ok(true)
    })
}

/// Frees a report; null is ignored.
///
/// # Safety
/// The report is null or has not been freed, and it and its texts are not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_report_free(report: *mut Report) {
    if !report.is_null() {
        // SAFETY: guaranteed by the caller; reports are boxed.
        drop(unsafe { Box::from_raw(report) });
    }
}

/// All files of a model.
#[derive(Debug)]
pub struct Model {
    files: Files,
    paths: Vec<CString>,
    contexts: Vec<Result<Context, Failure>>,
    tensors: Vec<FoundTensor>,
    by_name: HashMap<Box<[u8]>, usize>,
}

/// The location of a tensor.
#[derive(Debug)]
struct FoundTensor {
    file: usize,
    index: u64,
    name: CString,
}

/// `struct gguf_x_tensor` of `gguf_x.h`. The name is valid as long as the model.
#[repr(C)]
#[derive(Debug)]
pub struct XTensor {
    name: *const c_char,
    ty: u32,
    n_dims: u32,
    ne: [i64; MAX_DIMS],
    file: usize,
    offset: u64,
    size: u64,
}

impl Model {
    /// # Safety
    /// Nothing writes to the files or truncates them during the lifetime of the model.
    unsafe fn open(path: &Path) -> Result<Model, Failure> {
        // SAFETY: guaranteed by the caller.
        let files = unsafe { Files::map(path) }?;
        let (mut tensors, mut by_name) = (Vec::new(), HashMap::new());
        for (file, model_file) in files.files().iter().enumerate() {
            for info in model_file.gguf().tensors() {
                let name = info.name.as_bytes();
                by_name.entry(name.into()).or_insert(tensors.len());
                let name = CString::new(crate::ggml::c_prefix(name)).unwrap_or_default();
                tensors.push(FoundTensor { file, index: info.index, name });
            }
        }
        let context = |f: &ModelFile| read::context(f.gguf().clone(), 0, f.file_bytes());
        let contexts = files.files().iter().map(context).collect();
        let path = |f: &ModelFile| CString::new(f.path().as_os_str().as_encoded_bytes()).unwrap_or_default();
        let paths = files.files().iter().map(path).collect();
        Ok(Model { files, paths, contexts, tensors, by_name })
    }

    fn tensor(&self, i: i64) -> Result<(&FoundTensor, FileTensor<'_>), Failure> {
        let place = usize::try_from(i).ok().and_then(|i| self.tensors.get(i));
        let found = place.and_then(|place| {
            let file = self.files.files().get(place.file)?;
            Some((place, file.tensor_by_index(place.index)?))
        });
        found.ok_or_else(|| Failure::new(format!("there is no tensor {i}; there are {}", self.tensors.len())))
    }
}

/// Opens a model from any of its files, and maps them; null if one is missing or cannot be read.
///
/// # Safety
/// `fname` is null or a C string. Nothing writes to the files or truncates them before the model is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_model_open(fname: *const c_char) -> *mut Model {
    kept("gguf_x_model_open", std::ptr::null_mut(), || {
        // SAFETY: guaranteed by the caller.
        let path = path_of(unsafe { c_bytes(fname, "the file name") }?);
        // SAFETY: the files are guaranteed by the caller.
        let model = unsafe { Model::open(path) }?;
        Ok(Box::into_raw(Box::new(model)))
    })
}

/// Frees a model, with its contexts and maps; null is ignored.
///
/// # Safety
/// The model is null or has not been freed, and nothing of it is used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_model_free(model: *mut Model) {
    if !model.is_null() {
        // SAFETY: guaranteed by the caller; models are boxed.
        drop(unsafe { Box::from_raw(model) });
    }
}

/// Functions that read a model; failures are stored and return `$otherwise`.
macro_rules! readers {
    ($($(#[$doc:meta])* fn $name:ident($model:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty, or $otherwise:expr, $body:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The model is null or has not been freed. Other pointers are null or valid as specified in `gguf_x.h`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(model: *const Model $(, $arg: $ty)*) -> $ret {
            kept(stringify!($name), $otherwise, || {
                // SAFETY: guaranteed by the caller.
                let $model = unsafe { model.as_ref() }.ok_or_else(|| Failure::new("the model is NULL"))?;
                $body
            })
        }
    )* };
}

readers! {
    /// The number of files; 0 for null.
    fn gguf_x_model_n_files(model) -> usize, or 0, Ok(model.paths.len());
    /// The path of a file, valid as long as the model.
    fn gguf_x_model_path(model, file: usize) -> *const c_char, or null(), {
        let path = model.paths.get(file).ok_or_else(|| Failure::new(format!("there is no file {file}")))?;
        Ok(path.as_ptr())
    };
    /// The context of a file, for the functions of gguf.h that read one; valid as long as the model. Null if gguf.h cannot represent the
    /// file.
    fn gguf_x_model_context(model, file: usize) -> *const Context, or null(), match model.contexts.get(file) {
        Some(Ok(context)) => Ok(std::ptr::from_ref(context)),
        Some(Err(why)) => Err(Failure { text: why.text.clone(), offset: why.offset }),
        None => Err(Failure::new(format!("there is no file {file}"))),
    };
    /// The number of tensors in all files; 0 for null.
    fn gguf_x_model_n_tensors(model) -> i64, or 0, Ok(model.tensors.len() as i64);
    /// The index of the tensor with that name; -1 if it does not exist.
    fn gguf_x_model_find_tensor(model, name: *const c_char) -> i64, or -1, {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { c_bytes(name, "the name") }?;
        model.by_name.get(name).map(|&i| i as i64).ok_or_else(|| Failure::new(format!("there is no tensor {}", Str(name))))
    };
    /// Stores the description of a tensor, and the location of its data in the file.
    fn gguf_x_model_tensor(model, i: i64, tensor: *mut XTensor) -> bool, or false, {
        let (place, found) = model.tensor(i)?;
        let info = found.info();
        let bad = |text: String| Failure::at(info.info_offset, format_args!("tensor {}: {text}", info.name));
        let range = found.file().gguf().tensor_range(&info).map_err(|e| bad(e.to_string()))?;
        let mut ne = [1; MAX_DIMS];
        if info.dims.len() > MAX_DIMS {
            return Err(bad(format!("it has {} dimensions", info.dims.len())));
        }
        for (n, dim) in ne.iter_mut().zip(info.dims) {
            *n = i64::try_from(dim).map_err(|_| bad(format!("the dimension {dim} is too large")))?;
        }
        if tensor.is_null() {
            return Err(Failure::new("the pointer to the tensor is NULL"));
        }
        let (n_dims, size) = (info.dims.len() as u32, range.end - range.start);
        let found = XTensor { name: place.name.as_ptr(), ty: info.ty.0, n_dims, ne, file: place.file, offset: range.start, size };
        // SAFETY: the location is guaranteed by the caller.
        unsafe { tensor.write(found) };
        Ok(true)
    };
    /// The mapped data of a tensor; null if the file does not contain all of it. Valid as long as the model.
    fn gguf_x_model_tensor_data(model, i: i64) -> *const c_void, or null(), {
        let data = model.tensor(i)?.1.as_bytes()?;
        Ok(data.ok_or_else(|| Failure::new("the file is not mapped"))?.as_ptr().cast())
    };
    /// Stores `n` elements of a tensor as floats, starting at element `first`. Both must be whole numbers of blocks.
    fn gguf_x_model_tensor_f32(model, i: i64, first: u64, n: u64, out: *mut f32) -> bool, or false, {
        let (_, tensor) = model.tensor(i)?;
        let (name, ty) = (tensor.name(), tensor.ty());
        if tensor.file().gguf().dialect().order != ByteOrder::Little {
            return Err(Failure::new(format!("{name} is big-endian, and only little-endian data is decoded")));
        }
        let data = tensor.as_bytes()?.unwrap_or_default();
        let bytes_of = |n: u64| ty.tensor_bytes([n]).ok().and_then(|b| usize::try_from(b).ok());
        let range = first.checked_add(n).and_then(|last| Some(bytes_of(first)?..bytes_of(last)?));
        let packed = range.and_then(|r| data.get(r)).ok_or_else(|| {
            Failure::new(format!("elements {first} to {first} + {n} of {name} are not whole blocks of {ty}"))
        })?;
        // SAFETY: the floats are guaranteed by the caller.
        unsafe { decode(ty, packed, out, n as usize) }
    };
}

/// Decodes blocks.
///
/// # Safety
/// `out` is null or has room for `n` floats.
unsafe fn decode(ty: GgmlType, packed: &[u8], out: *mut f32, n: usize) -> Result<bool, Failure> {
    let codec = codec(ty).ok_or_else(|| Failure::new(format!("{ty} cannot be decoded")))?;
    // Checked before the floats are touched, because the caller only guarantees this number of them.
    if codec.packed_bytes(n) != Some(packed.len()) {
        return Err(Failure::new(format!("{} bytes are not {n} elements of {ty}", packed.len())));
    }
    if n == 0 {
        return Ok(true);
    }
    if out.is_null() || !out.is_aligned() {
        return Err(Failure::new("the buffer for the floats is NULL or not aligned"));
    }
    // SAFETY: the caller guarantees this many floats, which are zeroed before they are read.
    let values = unsafe {
        out.write_bytes(0, n);
        std::slice::from_raw_parts_mut(out, n)
    };
    codec.decode(packed, values).map_err(|e| Failure::new(e.to_string()))?;
    Ok(true)
}

/// Whether data of a tensor type can be decoded to floats.
#[unsafe(no_mangle)]
pub extern "C" fn gguf_x_can_decode(ty: u32) -> bool {
    codec(GgmlType(ty)).is_some()
}

/// Decodes `n_bytes` of packed data to `n` floats: the values of ggml's `to_float`.
///
/// # Safety
/// `data` is null or has `n_bytes` bytes; `out` is null or has space for `n` floats, and does not overlap `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_x_decode(ty: u32, data: *const c_void, n_bytes: usize, out: *mut f32, n: usize) -> bool {
    kept("gguf_x_decode", false, || {
        if data.is_null() || isize::try_from(n_bytes).is_err() {
            return Err(Failure::new("the data is NULL, or larger than memory can be"));
        }
        // SAFETY: the caller guarantees this many bytes.
        let packed = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), n_bytes) };
        // SAFETY: the caller guarantees this many floats.
        unsafe { decode(GgmlType(ty), packed, out, n) }
    })
}

/// The version of this library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn gguf_x_version() -> *const c_char {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
    VERSION.as_ptr()
}
