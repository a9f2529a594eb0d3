//! The real ggml, loaded at run time, for benchmarks and comparisons.
//!
//! The directory in the environment variable `GGUF_PEERS` contains `lib/libggml-base.so` and llama.cpp's sources in `llama.cpp/`. Without
//! it, benchmarks only print our own figures.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};

use gguf_format::GgmlType;
use libloading::Library;

/// The directory of the peers, if set.
pub fn folder() -> Option<PathBuf> {
    gguf_test::peers::folder(gguf_test::peers::PEERS)
}

/// `struct gguf_init_params` of `gguf.h`.
#[repr(C)]
struct InitParams {
    no_alloc: bool,
    ctx: *mut *mut c_void,
}

/// A ggml library.
#[derive(Debug)]
pub struct Ggml(Library);

/// A GGUF opened by ggml; freed when dropped.
#[derive(Debug)]
pub struct GgmlFile<'a> {
    ggml: &'a Ggml,
    context: *mut c_void,
}

impl Ggml {
    /// Loads `libggml-base` from the peers' folder.
    ///
    /// # Errors
    /// If the library cannot be loaded, or lacks a function.
    pub fn load(peers: &Path) -> Result<Ggml, libloading::Error> {
        // SAFETY: ggml's initialisers only set up its own tables.
        unsafe { Library::new(peers.join("lib/libggml-base.so")) }.map(Ggml)
    }

    /// `gguf_init_from_file` without tensor data; `None` if ggml rejects the file.
    ///
    /// # Errors
    /// If the library lacks the function.
    pub fn open(&self, path: &Path) -> Result<Option<GgmlFile<'_>>, libloading::Error> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
        // SAFETY: the signature is that of gguf.h; `name` outlives the call; a null `ctx` requests no tensors.
        let context = unsafe {
            let init = self
                .0
                .get::<unsafe extern "C" fn(*const c_char, InitParams) -> *mut c_void>(b"gguf_init_from_file\0")?;
            init(name.as_ptr(), InitParams { no_alloc: true, ctx: std::ptr::null_mut() })
        };
        Ok((!context.is_null()).then_some(GgmlFile { ggml: self, context }))
    }
}

/// The required part of `struct ggml_type_traits` of `ggml.h`.
#[repr(C)]
struct TypeTraits {
    type_name: *const c_char,
    blck_size: i64,
    blck_size_interleave: i64,
    type_size: usize,
    is_quantized: bool,
    to_float: Option<ToFloat>,
}

/// `ggml_to_float_t` of `ggml.h`.
type ToFloat = unsafe extern "C" fn(*const c_void, *mut f32, i64);
/// `ggml_quantize_chunk` of `ggml.h`.
type QuantizeChunk = unsafe extern "C" fn(u32, *const f32, *mut c_void, i64, i64, i64, *const f32) -> usize;

impl Ggml {
    /// `ggml_quantize_chunk`: encodes rows of `row_len` values to `packed`, which has exactly the required size; `weights` has one entry
    /// for each column. For unsupported types, uses the function for rows, without a matrix. ggml aborts if a required matrix is missing,
    /// and for some values that overflow; see [`Isolated`](crate::Isolated).
    ///
    /// # Errors
    /// If the library lacks the function.
    pub fn quantize(
        &self,
        ty: GgmlType,
        values: &[f32],
        row_len: usize,
        weights: Option<&[f32]>,
        packed: &mut [u8],
    ) -> Result<(), libloading::Error> {
        assert_eq!(ty.tensor_bytes([values.len() as u64]), Ok(packed.len() as u64));
        assert!(weights.is_none_or(|w| w.len() == row_len) && values.len().is_multiple_of(row_len));
        if is_row_only(ty) {
            let name = format!("quantize_row_{ty}_ref\0");
            // SAFETY: the signature is that of ggml-quants.h; the lengths of both buffers were checked.
            unsafe {
                let quantize = self.0.get::<unsafe extern "C" fn(*const f32, *mut c_void, i64)>(name.as_bytes())?;
                quantize(values.as_ptr(), packed.as_mut_ptr().cast(), values.len() as i64);
            }
            return Ok(());
        }
        // SAFETY: the signature is that of ggml.h; the lengths of all three buffers were checked.
        unsafe {
            let quantize = self.0.get::<QuantizeChunk>(b"ggml_quantize_chunk\0")?;
            let (rows, weights) = (values.len() / row_len, weights.map_or(std::ptr::null(), <[f32]>::as_ptr));
            quantize(ty.0, values.as_ptr(), packed.as_mut_ptr().cast(), 0, rows as i64, row_len as i64, weights);
        }
        Ok(())
    }

    /// `ggml_quantize_init`: creates the tables of the type's encoder, if they do not exist yet.
    ///
    /// # Errors
    /// If the library lacks the function.
    pub fn prepare(&self, ty: GgmlType) -> Result<(), libloading::Error> {
        // SAFETY: the signature is that of ggml.h.
        unsafe { self.0.get::<unsafe extern "C" fn(u32)>(b"ggml_quantize_init\0")?(ty.0) };
        Ok(())
    }

    /// `to_float` of the type's traits, or otherwise the function for rows; false if ggml has neither.
    ///
    /// # Errors
    /// If the library lacks `ggml_get_type_traits`.
    pub fn to_float(&self, ty: GgmlType, packed: &[u8], values: &mut [f32]) -> Result<bool, libloading::Error> {
        assert_eq!(ty.tensor_bytes([values.len() as u64]), Ok(packed.len() as u64));
        // SAFETY: the signatures are those of ggml.h and ggml-quants.h; the lengths of both buffers were checked.
        unsafe {
            let traits = self.0.get::<unsafe extern "C" fn(u32) -> *const TypeTraits>(b"ggml_get_type_traits\0")?;
            let to_float = match (*traits(ty.0)).to_float {
                Some(to_float) => to_float,
                None => match self.0.get::<ToFloat>(format!("dequantize_row_{ty}\0").as_bytes()) {
                    Ok(to_float) => *to_float,
                    Err(_) => return Ok(false),
                },
            };
            to_float(packed.as_ptr().cast(), values.as_mut_ptr(), values.len() as i64);
        }
        Ok(true)
    }

    /// `ggml_validate_row_data`, which reports problems on stderr.
    ///
    /// # Errors
    /// If the library lacks the function.
    pub fn validate(&self, ty: GgmlType, packed: &[u8]) -> Result<bool, libloading::Error> {
        // SAFETY: the signature is that of ggml.h; ggml reads only whole blocks within the bytes.
        unsafe {
            let validate =
                self.0.get::<unsafe extern "C" fn(u32, *const c_void, usize) -> bool>(b"ggml_validate_row_data\0")?;
            Ok(validate(ty.0, packed.as_ptr().cast(), packed.len()))
        }
    }
}

/// Types that ggml encodes only as operands of products, not for files: `ggml_quantize_chunk` rejects them.
fn is_row_only(ty: GgmlType) -> bool {
    [GgmlType::Q8_1, GgmlType::Q8_K].contains(&ty)
}

impl GgmlFile<'_> {
    /// The keys, in file order.
    ///
    /// # Errors
    /// If the library lacks a function.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>, libloading::Error> {
        // SAFETY: the signatures are those of gguf.h; ids below `gguf_get_n_kv` are valid and give NUL-terminated keys that are valid as
        // long as the context.
        unsafe {
            let n = self.ggml.0.get::<unsafe extern "C" fn(*const c_void) -> i64>(b"gguf_get_n_kv\0")?;
            let key =
                self.ggml.0.get::<unsafe extern "C" fn(*const c_void, i64) -> *const c_char>(b"gguf_get_key\0")?;
            Ok((0..n(self.context)).map(|i| CStr::from_ptr(key(self.context, i)).to_bytes().to_vec()).collect())
        }
    }
}

impl Drop for GgmlFile<'_> {
    fn drop(&mut self) {
        // SAFETY: the context came from `gguf_init_from_file` and is freed once.
        unsafe {
            if let Ok(free) = self.ggml.0.get::<unsafe extern "C" fn(*mut c_void)>(b"gguf_free\0") {
                free(self.context);
            }
        }
    }
}
