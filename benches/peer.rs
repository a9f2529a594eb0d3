//! The real ggml, loaded at run time, for benchmarks and comparisons.
//!
//! The folder named by the environment variable `GGUF_PEERS` holds `lib/libggml-base.so` and llama.cpp's sources in
//! `llama.cpp/`. Without it, benchmarks print our own figures only.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;

/// The folder of the peers, if there is one.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("GGUF_PEERS").map(PathBuf::from)
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
    /// What the loader says.
    pub fn load(peers: &Path) -> Result<Ggml, libloading::Error> {
        // SAFETY: ggml's initialisers only set up tables of their own.
        unsafe { Library::new(peers.join("lib/libggml-base.so")) }.map(Ggml)
    }

    /// `gguf_init_from_file` without tensor data; `None` when ggml refuses the file.
    ///
    /// # Errors
    /// When the library lacks the function.
    pub fn open(&self, path: &Path) -> Result<Option<GgmlFile<'_>>, libloading::Error> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
        // SAFETY: the signature is that of gguf.h; `name` lives across the call; a null `ctx` asks for no tensors.
        let context = unsafe {
            let init = self
                .0
                .get::<unsafe extern "C" fn(*const c_char, InitParams) -> *mut c_void>(b"gguf_init_from_file\0")?;
            init(name.as_ptr(), InitParams { no_alloc: true, ctx: std::ptr::null_mut() })
        };
        Ok((!context.is_null()).then_some(GgmlFile { ggml: self, context }))
    }
}

impl GgmlFile<'_> {
    /// The keys, in file order.
    ///
    /// # Errors
    /// When the library lacks a function.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>, libloading::Error> {
        // SAFETY: the signatures are those of gguf.h; ids below `gguf_get_n_kv` are valid and give NUL-terminated keys
        // that live as long as the context.
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
