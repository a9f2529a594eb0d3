//! Definitions of ggml: `struct ggml_tensor`, and functions looked up at run time in the program's ggml.
#![cfg_attr(
    not(test),
    expect(clippy::cast_possible_truncation, reason = "ggml has lengths as size_t"),
    expect(clippy::indexing_slicing, reason = "an index is below MAX_DIMS")
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{size_of, transmute_copy};

use gguf_format::{GgmlType, TypeInfo};

use crate::failure::Failure;

/// `GGML_MAX_DIMS` of `ggml.h`.
pub const MAX_DIMS: usize = 4;

/// `GGML_MAX_NAME` of `ggml.h`: size of a name, including its NUL.
pub const MAX_NAME: usize = 64;

/// `sizeof(struct ggml_object)`, which precedes every tensor in a `ggml_context`.
const OBJECT_BYTES: usize = 3 * size_of::<usize>() + 8;

/// `struct ggml_tensor` of `ggml.h`. Added tensors are copied, because ggml needs the structure to read data in a backend's buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    pub(crate) ty: u32,
    pub(crate) buffer: *mut c_void,
    pub(crate) ne: [i64; MAX_DIMS],
    pub(crate) nb: [usize; MAX_DIMS],
    op: u32,
    op_params: [i32; 16],
    flags: i32,
    src: [*mut c_void; 10],
    view_src: *mut c_void,
    view_offs: usize,
    pub(crate) data: *mut c_void,
    pub(crate) name: [u8; MAX_NAME],
    extra: *mut c_void,
    padding: [u8; 8],
}

impl Tensor {
    /// A packed tensor of that shape, without data. `None` if the type has no blocks, a row is not a whole number of them, or the name is
    /// too long.
    pub(crate) fn new(name: &[u8], ty: u32, ne: [i64; MAX_DIMS]) -> Option<Tensor> {
        let mut stored = [0; MAX_NAME];
        stored.get_mut(..name.len()).filter(|_| name.len() < MAX_NAME)?.copy_from_slice(name);
        let null = std::ptr::null_mut();
        let mut tensor = Tensor {
            ty,
            buffer: null,
            ne,
            nb: [0; MAX_DIMS],
            op: 0,
            op_params: [0; 16],
            flags: 0,
            src: [null; 10],
            view_src: null,
            view_offs: 0,
            data: null,
            name: stored,
            extra: null,
            padding: [0; 8],
        };
        tensor.set_type(ty)?;
        Some(tensor)
    }

    /// Changes the type, and sets the strides of a packed tensor; `None` if a row is not a whole number of blocks.
    pub(crate) fn set_type(&mut self, ty: u32) -> Option<()> {
        let info = type_info(ty)?;
        let blocks =
            self.ne[0].checked_div(info.block_len.into()).filter(|b| b * i64::from(info.block_len) == self.ne[0])?;
        self.ty = ty;
        // Strides of an empty tensor may overflow; they are not used.
        let row = (info.block_bytes as usize).wrapping_mul(blocks as usize);
        self.nb = [info.block_bytes as usize, row, 0, 0];
        for i in 2..MAX_DIMS {
            self.nb[i] = self.nb[i - 1].wrapping_mul(self.ne[i - 1] as usize);
        }
        Some(())
    }

    /// The name, up to its NUL.
    pub(crate) fn name(&self) -> &[u8] {
        c_prefix(&self.name)
    }

    /// The size from the first element to the end of the last one; `None` if it does not fit in 64 bits or the type is unknown
    /// (`ggml_nbytes` of `ggml.c`).
    pub(crate) fn n_bytes(&self) -> Option<u64> {
        let info = type_info(self.ty)?;
        if self.ne.iter().any(|&n| n <= 0) {
            return Some(0);
        }
        let step = |i: usize| (self.ne[i] as u64 - 1).checked_mul(self.nb[i] as u64);
        let mut bytes = match u64::from(info.block_len) {
            1 => step(0)?.checked_add(info.block_bytes.into())?,
            // Rows are whole blocks. ggml multiplies first, which wraps for a row of 2^56 elements.
            len => (self.ne[0] as u64 / len).checked_mul(self.nb[0] as u64)?,
        };
        for i in 1..MAX_DIMS {
            bytes = bytes.checked_add(step(i)?)?;
        }
        Some(bytes)
    }

    /// Whether the elements are contiguous (`ggml_is_contiguous` of `ggml.c`).
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut packed = *self;
        packed.set_type(self.ty).is_some()
            && (0..MAX_DIMS).all(|i| {
                // The stride of a dimension of size 1 is never used.
                let one_step = if i == 0 { type_info(self.ty).map_or(1, |t| t.block_len.into()) } else { 1 };
                self.ne[i] == one_step || self.nb[i] == packed.nb[i]
            })
    }

    /// The number of dimensions in a file: up to the last one that is not 1, at least one.
    pub(crate) fn n_dims(&self) -> usize {
        self.ne.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1)
    }
}

/// The description of a type that current ggml supports.
pub fn type_info(ty: u32) -> Option<&'static TypeInfo> {
    GgmlType(ty).info().filter(|t| !t.removed)
}

/// The bytes before the first NUL: the C string.
pub fn c_prefix(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

/// `struct ggml_init_params` of `ggml.h`.
#[repr(C)]
pub struct InitParams {
    pub mem_size: usize,
    pub mem_buffer: *mut c_void,
    pub no_alloc: bool,
}

/// A `struct ggml_context`, opaque to this library.
pub type GgmlContext = c_void;

/// The required functions of ggml, with the signatures of `ggml.h` and `ggml-backend.h`.
#[derive(Debug)]
pub struct Ggml {
    pub init: unsafe extern "C" fn(InitParams) -> *mut GgmlContext,
    pub free: unsafe extern "C" fn(*mut GgmlContext),
    pub new_tensor: unsafe extern "C" fn(*mut GgmlContext, u32, c_int, *const i64) -> *mut Tensor,
    pub new_tensor_1d: unsafe extern "C" fn(*mut GgmlContext, u32, i64) -> *mut Tensor,
    pub set_name: unsafe extern "C" fn(*mut Tensor, *const c_char) -> *mut Tensor,
    pub set_no_alloc: unsafe extern "C" fn(*mut GgmlContext, bool),
    pub tensor_overhead: unsafe extern "C" fn() -> usize,
    pub backend_tensor_get: unsafe extern "C" fn(*const Tensor, *mut c_void, usize, usize),
}

impl Ggml {
    /// Finds the ggml loaded by this process. It is looked up for each use, because a program may load it late.
    pub fn find() -> Result<Ggml, Failure> {
        // A program's own libraries are in the global scope. A library loaded by a plug-in is not, but can be found by name.
        let names: [Option<&CStr>; 3] = [None, Some(c"libggml-base.so"), Some(c"libggml-base.so.0")];
        let ggml = names.into_iter().find_map(Ggml::find_in).ok_or_else(|| {
            Failure::new(
                "needs ggml, which this process has not loaded (libggml-base); without it, use gguf_x_add_tensor",
            )
        })?;
        // SAFETY: the signature is that of ggml.h.
        let overhead = unsafe { (ggml.tensor_overhead)() };
        if overhead != OBJECT_BYTES + size_of::<Tensor>() {
            return Err(Failure::new(format!(
                "the ggml in this process has a different struct ggml_tensor: {overhead} bytes including its object, expected {}",
                OBJECT_BYTES + size_of::<Tensor>()
            )));
        }
        Ok(ggml)
    }

    fn find_in(library: Option<&CStr>) -> Option<Ggml> {
        let scope = match library {
            None => libc::RTLD_DEFAULT,
            Some(name) => {
                // SAFETY: the name is a C string; RTLD_NOLOAD only finds loaded libraries. The handle is kept: it pins a library that the
                // program uses anyway.
                let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
                if handle.is_null() {
                    return None;
                }
                handle
            }
        };
        // SAFETY: each field has the signature of the function of that name in ggml.h or ggml-backend.h.
        unsafe {
            Some(Ggml {
                init: symbol(scope, c"ggml_init")?,
                free: symbol(scope, c"ggml_free")?,
                new_tensor: symbol(scope, c"ggml_new_tensor")?,
                new_tensor_1d: symbol(scope, c"ggml_new_tensor_1d")?,
                set_name: symbol(scope, c"ggml_set_name")?,
                set_no_alloc: symbol(scope, c"ggml_set_no_alloc")?,
                tensor_overhead: symbol(scope, c"ggml_tensor_overhead")?,
                backend_tensor_get: symbol(scope, c"ggml_backend_tensor_get")?,
            })
        }
    }
}

/// Looks up a function by name.
///
/// # Safety
/// `F` is a function pointer with the signature of the function, and `scope` a handle of `dlopen` or `RTLD_DEFAULT`.
unsafe fn symbol<F: Copy>(scope: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller gives a valid scope; the name is a C string.
    let address = unsafe { libc::dlsym(scope, name.as_ptr()) };
    // SAFETY: the address is that of a function, and the caller guarantees its signature.
    (!address.is_null()).then(|| unsafe { transmute_copy::<*mut c_void, F>(&address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_strides_of_packed_tensors() {
        let t = Tensor::new(b"t", GgmlType::Q4_0.0, [64, 3, 1, 1]).unwrap();
        assert_eq!((t.nb, t.n_bytes(), t.n_dims(), t.is_contiguous()), ([18, 36, 108, 108], Some(108), 2, true));
        assert!(Tensor::new(b"t", GgmlType::Q4_0.0, [33, 1, 1, 1]).is_none());
        assert!(Tensor::new(&[b'n'; 64], GgmlType::F32.0, [1; 4]).is_none());
        let empty = Tensor::new(b"", GgmlType::F32.0, [32, 0, 1, 1]).unwrap();
        assert_eq!((empty.n_bytes(), empty.n_dims()), (Some(0), 2));
    }
}
