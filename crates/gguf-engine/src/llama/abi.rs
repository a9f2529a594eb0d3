//! The functions of libllama and libggml, and the layouts of their values, which are found by probes.
//!
//! The structures of parameters change between versions, so they stay opaque: the library fills them with its defaults, and only
//! fields are set whose offsets are established. The checks are those of the fields themselves: their default values, and results of
//! functions whose inputs are known.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

use crate::{Error, ErrorKind};

/// The size of the room for a structure of parameters. Those of 2025 and 2026 have at most 200 bytes.
const ROOM: usize = 1024;

/// A structure of parameters, passed by value. It is larger than that of the library. By the calling conventions a structure of this size is
/// passed in memory: on the stack, where the library ignores what follows its own structure, or as a pointer to a copy.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Opaque(pub [u8; ROOM]);

/// `ggml_tensor`, of which only fields at probed offsets are read.
#[repr(C)]
pub struct Tensor {
    _opaque: [u8; 0],
}

/// `struct llama_batch`, which has been the same since 2023, but for fields that were removed at its end before the functions below appeared.
#[repr(C)]
pub struct Batch {
    pub n_tokens: i32,
    pub token: *const i32,
    pub embd: *const f32,
    pub pos: *const i32,
    pub n_seq_id: *const i32,
    pub seq_id: *const *const i32,
    pub logits: *const i8,
}

/// `struct ggml_init_params`.
#[repr(C)]
struct InitParams {
    mem_size: usize,
    mem_buffer: *mut c_void,
    no_alloc: bool,
}

/// The callback of an evaluation: `ggml_backend_sched_eval_callback`.
pub type Callback = unsafe extern "C" fn(tensor: *mut Tensor, ask: bool, user: *mut c_void) -> bool;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used. All must exist.
        #[allow(non_snake_case, reason = "names of the library")]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Finds all functions.
            ///
            /// # Errors
            /// If one is missing.
            ///
            /// # Safety
            /// The library is libllama: functions of these names have these signatures.
            unsafe fn find(libraries: &[Library], path: &Path) -> Result<Functions, Error> {
                $(
                    // SAFETY: the caller guarantees the signature; the library is never closed.
                    let $name = *unsafe {
                        libraries.iter().find_map(|library| library.get(concat!(stringify!($name), "\0").as_bytes()).ok())
                    }
                    .ok_or_else(|| missing(path, stringify!($name)))?;
                )*
                Ok(Functions { $($name,)* })
            }
        }
    };
}

/// The callback that ends an evaluation: `ggml_abort_callback`.
pub type Abort = unsafe extern "C" fn(user: *mut c_void) -> bool;

type Any = *mut c_void;

functions! {
    llama_backend_init: fn();
    llama_set_abort_callback: fn(Any, Abort, Any);
    llama_model_load_from_file: fn(*const c_char, Opaque) -> Any;
    llama_model_free: fn(Any);
    llama_init_from_model: fn(Any, Opaque) -> Any;
    llama_free: fn(Any);
    llama_get_memory: fn(Any) -> Any;
    llama_memory_clear: fn(Any, bool);
    llama_set_n_threads: fn(Any, i32, i32);
    llama_n_ctx: fn(Any) -> u32;
    llama_n_batch: fn(Any) -> u32;
    llama_n_ubatch: fn(Any) -> u32;
    llama_n_seq_max: fn(Any) -> u32;
    llama_decode: fn(Any, Batch) -> i32;
    llama_synchronize: fn(Any);
    llama_get_logits_ith: fn(Any, i32) -> *const f32;
    llama_model_get_vocab: fn(Any) -> Any;
    llama_model_has_decoder: fn(Any) -> bool;
    llama_model_desc: fn(Any, *mut c_char, usize) -> i32;
    llama_vocab_n_tokens: fn(Any) -> i32;
    llama_vocab_bos: fn(Any) -> i32;
    llama_vocab_get_add_bos: fn(Any) -> bool;
    llama_vocab_is_eog: fn(Any, i32) -> bool;
    llama_tokenize: fn(Any, *const c_char, i32, *mut i32, i32, bool, bool) -> i32;
    llama_token_to_piece: fn(Any, i32, *mut c_char, i32, i32, bool) -> i32;
    ggml_backend_load_all_from_path: fn(*const c_char);
    ggml_backend_dev_count: fn() -> usize;
    ggml_backend_dev_get: fn(usize) -> Any;
    ggml_backend_dev_by_type: fn(c_int) -> Any;
    ggml_backend_dev_name: fn(Any) -> *const c_char;
    ggml_backend_dev_description: fn(Any) -> *const c_char;
    ggml_backend_tensor_get: fn(*const Tensor, Any, usize, usize);
    ggml_tensor_overhead: fn() -> usize;
    ggml_new_tensor_4d: fn(Any, c_int, i64, i64, i64, i64) -> *mut Tensor;
    ggml_mul_mat_id: fn(Any, *mut Tensor, *mut Tensor, *mut Tensor) -> *mut Tensor;
    ggml_free: fn(Any);
    ggml_get_name: fn(*const Tensor) -> *const c_char;
    ggml_op_desc: fn(*const Tensor) -> *const c_char;
    ggml_nbytes: fn(*const Tensor) -> usize;
}

/// `ggml_init` takes its structure by value, which the macro cannot name, because the structure is private.
type GgmlInit = unsafe extern "C" fn(InitParams) -> Any;

fn missing(path: &Path, function: &str) -> Error {
    Error::new(
        ErrorKind::Library,
        format!("{}: the library has no function {function}; it is too old, or incomplete", path.display()),
    )
}

/// The libraries, their functions and their layouts. Libraries are never closed, because they keep threads.
pub struct Abi {
    pub functions: Functions,
    pub layout: Layout,
    /// Parameters with the library's defaults.
    pub model_params: Opaque,
    pub context_params: Opaque,
    /// The offset of `cb_eval` and its user data in the parameters of a context.
    pub callback_at: usize,
    pub version: Option<String>,
    libraries: Vec<Library>,
}

/// The offsets of fields in `ggml_tensor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    ty: usize,
    ne: usize,
    nb: usize,
    src: usize,
}

/// The number of a tensor type in the library, `enum ggml_type`: they have never changed.
pub const TYPE_F32: i32 = 0;
const TYPE_F16: i32 = 1;
const TYPE_I32: i32 = 26;

impl Abi {
    /// Finds the functions and layouts.
    ///
    /// # Errors
    /// If a function is missing, or a layout is unknown.
    ///
    /// # Safety
    /// The libraries are libllama and those that it depends on.
    pub unsafe fn new(libraries: Vec<Library>, path: &Path) -> Result<Abi, Error> {
        // SAFETY: guaranteed by the caller.
        let functions = unsafe { Functions::find(&libraries, path)? };
        let unknown = |what: &str| {
            Error::new(ErrorKind::Library, format!("{}: the library has an unknown layout: {what}", path.display()))
        };
        // SAFETY: guaranteed by the caller.
        let (model_params, _) = unsafe { defaults(&libraries, path, "llama_model_default_params")? };
        // SAFETY: as above.
        let (context_params, length) = unsafe { defaults(&libraries, path, "llama_context_default_params")? };
        let callback_at = callback_in(context_params.0.get(..length).unwrap_or_default()).map_err(unknown)?;
        // SAFETY: guaranteed by the caller; the signature is that of ggml.h.
        let init: GgmlInit = unsafe { find(&libraries, path, "ggml_init")? };
        // SAFETY: the functions are those of ggml.
        let layout = unsafe { Layout::probe(init, &functions) }.map_err(unknown)?;
        // SAFETY: the function takes nothing and returns a static text.
        let version = unsafe {
            find::<unsafe extern "C" fn() -> *const c_char>(&libraries, path, "llama_version")
                .ok()
                .and_then(|f| text(f()))
        };
        Ok(Abi { functions, layout, model_params, context_params, callback_at, version, libraries })
    }

    /// The function `ggml_backend_load_all`, which looks for devices in the folder that the library was built with.
    pub fn load_all(&self, path: &Path) -> Result<unsafe extern "C" fn(), Error> {
        // SAFETY: the signature is that of ggml-backend.h.
        unsafe { find(&self.libraries, path, "ggml_backend_load_all") }
    }
}

/// Finds a function.
///
/// # Safety
/// `F` is the type of the function.
unsafe fn find<F: Copy>(libraries: &[Library], path: &Path, name: &str) -> Result<F, Error> {
    let symbol = format!("{name}\0");
    // SAFETY: guaranteed by the caller; the library is never closed.
    let found = unsafe { libraries.iter().find_map(|library| library.get::<F>(symbol.as_bytes()).ok()) };
    found.map(|f| *f).ok_or_else(|| missing(path, name))
}

/// A text of the library.
///
/// # Safety
/// The pointer is null, or to a text that ends with 0.
pub unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: guaranteed by the caller.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// The default parameters, and their size: the bytes that the library writes.
///
/// # Safety
/// The function of this name returns a structure of more than 16 bytes.
unsafe fn defaults(libraries: &[Library], path: &Path, name: &str) -> Result<(Opaque, usize), Error> {
    // SAFETY: guaranteed by the caller.
    let function: unsafe extern "C" fn() = unsafe { find(libraries, path, name)? };
    let [mut zeros, mut ones] = [Opaque([0; ROOM]), Opaque([0xff; ROOM])];
    // SAFETY: the room is larger than the structure.
    unsafe {
        returned_into(function, &mut zeros);
        returned_into(function, &mut ones);
    }
    let length = zeros.0.iter().zip(&ones.0).rposition(|(a, b)| a == b).map_or(0, |last| last + 1);
    // Bytes of padding are not written. They must not differ between calls, and the room ends with bytes that were not written.
    if length <= 16 || length >= ROOM {
        let problem = format!("{}: the library has an unknown layout: {name} returns {length} bytes", path.display());
        return Err(Error::new(ErrorKind::Library, problem));
    }
    Ok((zeros, length))
}

/// Calls a function that returns a large structure, which it writes to memory of the caller. A Rust function type would leave bytes uninitialized
/// that the library does not write.
///
/// # Safety
/// The structure is larger than 16 bytes and fits into the room.
#[cfg(target_arch = "x86_64")]
unsafe fn returned_into(function: unsafe extern "C" fn(), out: &mut Opaque) {
    // SAFETY: by both calling conventions of x86-64, the place is the hidden first argument, and the function returns it.
    unsafe {
        let function: unsafe extern "C" fn(*mut Opaque) -> *mut Opaque = std::mem::transmute(function);
        function(out);
    }
}

/// Calls a function that returns a large structure. On AArch64, the place of the structure is in the register x8.
#[cfg(target_arch = "aarch64")]
unsafe fn returned_into(function: unsafe extern "C" fn(), out: &mut Opaque) {
    // SAFETY: the function follows the calling convention of C.
    unsafe {
        std::arch::asm!("blr {function}", function = in(reg) function, in("x8") std::ptr::from_mut(out), clobber_abi("C"));
    }
}

/// Finds `cb_eval` in the default parameters of a context, which start with `n_ctx, n_batch, n_ubatch, n_seq_max`. The callback and its user
/// data are the 16 zero bytes before the types of keys and values, which are both F16.
fn callback_in(params: &[u8]) -> Result<usize, &'static str> {
    let word = |at: usize| params.get(at..at + 4).and_then(|bytes| bytes.first_chunk()).map(|b| u32::from_ne_bytes(*b));
    if [0, 4, 8, 12].map(word) != [512, 2048, 512, 1].map(Some) {
        return Err(
            "the parameters of a context do not start with n_ctx = 512, n_batch = 2048, n_ubatch = 512, n_seq_max = 1",
        );
    }
    let is_callback = |at: &usize| {
        params.get(*at..at + 16).is_some_and(|bytes| bytes.iter().all(|&b| b == 0))
            && [at + 16, at + 20].map(word) == [1, 1].map(Some)
    };
    let mut found = (16..params.len()).step_by(8).filter(is_callback);
    match (found.next(), found.next()) {
        (Some(at), None) => Ok(at),
        (None, _) => Err("cb_eval is not found in the parameters of a context"),
        _ => Err("cb_eval is found twice in the parameters of a context"),
    }
}

impl Layout {
    /// Makes tensors and looks for what is known of them.
    ///
    /// # Safety
    /// The functions are those of ggml.
    unsafe fn probe(init: GgmlInit, f: &Functions) -> Result<Layout, &'static str> {
        const ROOM_FOR_TENSORS: usize = 1 << 16;
        // SAFETY: the context is used below only, and has room for the tensors and their headers. Their data is not allocated. The shapes are those
        // that ggml_mul_mat_id asks for. Each tensor is followed by others, so the bytes that are read belong to the context.
        let (tensors, bytes) = unsafe {
            let context =
                init(InitParams { mem_size: ROOM_FOR_TENSORS, mem_buffer: std::ptr::null_mut(), no_alloc: true });
            if context.is_null() {
                return Err("ggml_init returns nothing");
            }
            let size = (f.ggml_tensor_overhead)();
            if !(64..4096).contains(&size) {
                return Err("the size of a tensor is not between 64 and 4,096 bytes");
            }
            let new = |ty, [a, b, c]: [i64; 3]| (f.ggml_new_tensor_4d)(context, ty, a, b, c, 1);
            let weights = new(TYPE_F16, [67, 71, 5]);
            let inputs = new(TYPE_F32, [67, 2, 11]);
            let ids = new(TYPE_I32, [2, 11, 1]);
            let product = (f.ggml_mul_mat_id)(context, weights, inputs, ids);
            let _last = new(TYPE_F32, [4, 1, 1]);
            let bytes = [weights, inputs, ids, product].map(|tensor| {
                let length = size.min(1024);
                std::slice::from_raw_parts(tensor.cast::<u8>(), length).to_vec()
            });
            if text((f.ggml_op_desc)(product)).as_deref() != Some("MUL_MAT_ID") {
                return Err("the operation of a product of experts is not MUL_MAT_ID");
            }
            (f.ggml_free)(context);
            ([weights, inputs, ids].map(|t| t as u64), bytes)
        };
        let [weights, inputs, ids, product] = &bytes;
        let words = |bytes: &[u8], at: usize, n: usize| -> Option<Vec<u64>> {
            let (words, _) = bytes.get(at..at + 8 * n)?.as_chunks::<8>();
            Some(words.iter().map(|w| u64::from_ne_bytes(*w)).collect())
        };
        let only = |bytes: &[u8], wanted: &[u64]| {
            let mut found =
                (0..bytes.len()).step_by(8).filter(|&at| words(bytes, at, wanted.len()).as_deref() == Some(wanted));
            found.next().filter(|_| found.next().is_none())
        };
        let ne = only(weights, &[67, 71, 5, 1]).ok_or("the shape of a tensor is not found")?;
        let nb = only(weights, &[2, 134, 9514, 47570]).ok_or("the strides of a tensor are not found")?;
        let src = only(product, &tensors).ok_or("the inputs of an operation are not found")?;
        let is = |bytes: &[u8], at, wanted: &[u64]| words(bytes, at, wanted.len()).as_deref() == Some(wanted);
        if !is(inputs, ne, &[67, 2, 11, 1]) || !is(inputs, nb, &[4, 268, 536, 5896]) || !is(ids, nb, &[4, 8, 88, 88]) {
            return Err("the shapes and strides of tensors differ in place");
        }
        let ty = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| i32::from_ne_bytes(*b))
        };
        let is_type =
            |at: &usize| [weights, inputs, ids].map(|t| ty(t, *at)) == [TYPE_F16, TYPE_F32, TYPE_I32].map(Some);
        let mut types = (0..ne).step_by(4).filter(is_type);
        let ty = types.next().filter(|_| types.next().is_none()).ok_or("the type of a tensor is not found")?;
        Ok(Layout { ty, ne, nb, src })
    }

    /// The type of a tensor.
    ///
    /// # Safety
    /// The tensor is one of the library.
    pub unsafe fn ty(self, tensor: *const Tensor) -> i32 {
        // SAFETY: the field is at this place in every tensor.
        unsafe { tensor.byte_add(self.ty).cast::<i32>().read() }
    }

    /// The shape of a tensor.
    ///
    /// # Safety
    /// The tensor is one of the library.
    pub unsafe fn ne(self, tensor: *const Tensor) -> [i64; 4] {
        // SAFETY: the field is at this place in every tensor.
        unsafe { tensor.byte_add(self.ne).cast::<[i64; 4]>().read() }
    }

    /// The strides of a tensor, in bytes.
    ///
    /// # Safety
    /// The tensor is one of the library.
    pub unsafe fn nb(self, tensor: *const Tensor) -> [usize; 4] {
        // SAFETY: the field is at this place in every tensor.
        unsafe { tensor.byte_add(self.nb).cast::<[usize; 4]>().read() }
    }

    /// The first three inputs of an operation.
    ///
    /// # Safety
    /// The tensor is one of the library.
    pub unsafe fn src(self, tensor: *const Tensor) -> [*const Tensor; 3] {
        // SAFETY: the field is at this place in every tensor.
        unsafe { tensor.byte_add(self.src).cast::<[*const Tensor; 3]>().read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of two versions, with `cb_eval` at another place in each.
    fn params(callback_at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0x11; length];
        for (at, n) in [(0, 512_u32), (4, 2048), (8, 512), (12, 1), (callback_at + 16, 1), (callback_at + 20, 1)] {
            bytes[at..at + 4].copy_from_slice(&n.to_ne_bytes());
        }
        bytes[callback_at..callback_at + 16].fill(0);
        bytes
    }

    #[test]
    fn the_callback_is_found_in_exactly_one_place() {
        assert_eq!(callback_in(&params(72, 120)), Ok(72));
        assert_eq!(callback_in(&params(88, 160)), Ok(88));
        let mut other = params(88, 160);
        other[4] = 1;
        assert!(callback_in(&other).unwrap_err().contains("n_batch = 2048"));
        let mut none = params(88, 160);
        none[88 + 20] = 8;
        assert!(callback_in(&none).unwrap_err().contains("not found"));
        let mut two = params(88, 200);
        let copy = two[88..112].to_vec();
        two[160..184].copy_from_slice(&copy);
        assert!(callback_in(&two).unwrap_err().contains("found twice"));
    }
}
