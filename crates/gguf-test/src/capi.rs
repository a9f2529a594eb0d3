//! The functions of gguf.h as a table for two libraries: ours, linked, and ggml's, loaded at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use gguf::{Callback, Context, InitParams, Tensor};
use libloading::Library;

macro_rules! functions {
    ($($name:ident($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions of gguf.h.
        pub struct Api { $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?),* }

        impl Api {
            /// The functions of this library.
            pub fn ours() -> Api {
                Api { $($name: gguf::$name),* }
            }

            /// The functions of ggml.
            pub fn theirs(ggml: &Library) -> Api {
                // SAFETY: the signatures are those of gguf.h.
                unsafe { Api { $($name: *ggml.get(concat!(stringify!($name), "\0").as_bytes()).unwrap()),* } }
            }
        }

        /// The names of all functions.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

type Ctx = *const Context;
type Mut = *mut Context;
type Text = *const c_char;

functions! {
    gguf_init_empty() -> Mut;
    gguf_init_from_file_ptr(*mut libc::FILE, InitParams) -> Mut;
    gguf_init_from_file(Text, InitParams) -> Mut;
    gguf_init_from_buffer(*const c_void, usize, InitParams) -> Mut;
    gguf_init_from_callback(Option<Callback>, *mut c_void, usize, u64, InitParams) -> Mut;
    gguf_free(Mut);
    gguf_type_name(u32) -> Text;
    gguf_get_version(Ctx) -> u32;
    gguf_get_alignment(Ctx) -> usize;
    gguf_get_data_offset(Ctx) -> usize;
    gguf_get_n_kv(Ctx) -> i64;
    gguf_find_key(Ctx, Text) -> i64;
    gguf_get_key(Ctx, i64) -> Text;
    gguf_get_kv_type(Ctx, i64) -> u32;
    gguf_get_arr_type(Ctx, i64) -> u32;
    gguf_get_val_u8(Ctx, i64) -> u8;
    gguf_get_val_i8(Ctx, i64) -> i8;
    gguf_get_val_u16(Ctx, i64) -> u16;
    gguf_get_val_i16(Ctx, i64) -> i16;
    gguf_get_val_u32(Ctx, i64) -> u32;
    gguf_get_val_i32(Ctx, i64) -> i32;
    gguf_get_val_f32(Ctx, i64) -> f32;
    gguf_get_val_u64(Ctx, i64) -> u64;
    gguf_get_val_i64(Ctx, i64) -> i64;
    gguf_get_val_f64(Ctx, i64) -> f64;
    gguf_get_val_bool(Ctx, i64) -> bool;
    gguf_get_val_str(Ctx, i64) -> Text;
    gguf_get_val_data(Ctx, i64) -> *const c_void;
    gguf_get_arr_n(Ctx, i64) -> usize;
    gguf_get_arr_data(Ctx, i64) -> *const c_void;
    gguf_get_arr_str(Ctx, i64, usize) -> Text;
    gguf_get_n_tensors(Ctx) -> i64;
    gguf_find_tensor(Ctx, Text) -> i64;
    gguf_get_tensor_offset(Ctx, i64) -> usize;
    gguf_get_tensor_name(Ctx, i64) -> Text;
    gguf_get_tensor_ne(Ctx, i64) -> *const i64;
    gguf_get_tensor_type(Ctx, i64) -> u32;
    gguf_get_tensor_size(Ctx, i64) -> usize;
    gguf_remove_key(Mut, Text) -> i64;
    gguf_set_val_u8(Mut, Text, u8);
    gguf_set_val_i8(Mut, Text, i8);
    gguf_set_val_u16(Mut, Text, u16);
    gguf_set_val_i16(Mut, Text, i16);
    gguf_set_val_u32(Mut, Text, u32);
    gguf_set_val_i32(Mut, Text, i32);
    gguf_set_val_f32(Mut, Text, f32);
    gguf_set_val_u64(Mut, Text, u64);
    gguf_set_val_i64(Mut, Text, i64);
    gguf_set_val_f64(Mut, Text, f64);
    gguf_set_val_bool(Mut, Text, bool);
    gguf_set_val_str(Mut, Text, Text);
    gguf_set_arr_data(Mut, Text, u32, *const c_void, usize);
    gguf_set_arr_str(Mut, Text, *const Text, usize);
    gguf_set_kv(Mut, Ctx);
    gguf_add_tensor(Mut, *const Tensor);
    gguf_set_tensor_type(Mut, Text, u32);
    gguf_set_tensor_data(Mut, Text, *const c_void);
    gguf_write_to_file_ptr(Ctx, *mut libc::FILE, bool) -> bool;
    gguf_write_to_file(Ctx, Text, bool) -> bool;
    gguf_get_meta_size(Ctx) -> usize;
    gguf_get_meta_data(Ctx, *mut c_void);
}

/// The variable with the path of a `libggml-base.so` other than that of the peers.
const GGML: &str = "GGUF_GGML";

/// ggml, silent.
pub fn ggml(peers: &std::path::Path) -> Library {
    let library = crate::peers::folder(GGML).unwrap_or_else(|| peers.join("lib/libggml-base.so"));
    // SAFETY: ggml's initialisers only set up tables of their own; the signatures are those of ggml.h.
    unsafe {
        let ggml = Library::new(library).unwrap();
        let set = ggml.get::<unsafe extern "C" fn(unsafe extern "C" fn(c_int, Text, *mut c_void), *mut c_void)>(
            b"ggml_log_set\0",
        );
        set.unwrap()(silent, std::ptr::null_mut());
        ggml
    }
}

unsafe extern "C" fn silent(_level: c_int, _text: Text, _data: *mut c_void) {}

/// Suppresses stderr during its lifetime: thousands of rejected files are reported there.
pub struct Quiet(c_int);

impl Quiet {
    pub fn stderr() -> Quiet {
        // SAFETY: plain calls on descriptors that are open.
        unsafe {
            let saved = libc::dup(2);
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
            libc::dup2(null, 2);
            libc::close(null);
            Quiet(saved)
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: the descriptor was saved by `new`.
        unsafe {
            libc::dup2(self.0, 2);
            libc::close(self.0);
        }
    }
}

/// Parameters for no tensors.
pub fn no_tensors() -> InitParams {
    InitParams { no_alloc: 1, ctx: std::ptr::null_mut() }
}

pub fn c(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap()
}

/// Marks a tensor whose dimensions, ignoring zeros, have a product close to 64 bits: ggml's arithmetic wraps, or its releases differ.
pub const WRAPS: &str = ", wraps";

/// The results of all getters of a context, and its written bytes.
#[allow(clippy::not_unsafe_ptr_arg_deref, reason = "the tests have their contexts from the same table")]
pub fn snapshot(api: &Api, ctx: Ctx) -> Vec<String> {
    let mut seen = Vec::new();
    // SAFETY: the context is one of this library; ids are below the counts, and getters fit the types found.
    unsafe {
        let text = |p: Text| if p.is_null() { "NULL".into() } else { format!("{:?}", CStr::from_ptr(p)) };
        let (n_kv, n_tensors) = ((api.gguf_get_n_kv)(ctx), (api.gguf_get_n_tensors)(ctx));
        let alignment = (api.gguf_get_alignment)(ctx);
        let at = (api.gguf_get_data_offset)(ctx);
        seen.push(format!("v{} {n_kv} {n_tensors} align {alignment} data {at}", (api.gguf_get_version)(ctx)));
        for id in 0..n_kv {
            let key = (api.gguf_get_key)(ctx, id);
            let ty = (api.gguf_get_kv_type)(ctx, id);
            let n = (api.gguf_get_arr_n)(ctx, id);
            let elem = if ty == 9 { (api.gguf_get_arr_type)(ctx, id) } else { ty };
            let size = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][elem as usize];
            let bytes = |p: *const c_void, n| {
                if n == 0 { (p.is_null(), &[][..]) } else { (false, std::slice::from_raw_parts(p.cast::<u8>(), n)) }
            };
            let value = if elem == 8 {
                (0..n).map(|i| text((api.gguf_get_arr_str)(ctx, id, i))).collect::<Vec<_>>().join(",")
            } else {
                format!("{:?}", bytes((api.gguf_get_arr_data)(ctx, id), n * size))
            };
            let one = match elem {
                _ if n != 1 => String::new(),
                0 => (api.gguf_get_val_u8)(ctx, id).to_string(),
                1 => (api.gguf_get_val_i8)(ctx, id).to_string(),
                2 => (api.gguf_get_val_u16)(ctx, id).to_string(),
                3 => (api.gguf_get_val_i16)(ctx, id).to_string(),
                4 => (api.gguf_get_val_u32)(ctx, id).to_string(),
                5 => (api.gguf_get_val_i32)(ctx, id).to_string(),
                6 => (api.gguf_get_val_f32)(ctx, id).to_bits().to_string(),
                7 => (api.gguf_get_val_bool)(ctx, id).to_string(),
                8 => text((api.gguf_get_val_str)(ctx, id)),
                10 => (api.gguf_get_val_u64)(ctx, id).to_string(),
                11 => (api.gguf_get_val_i64)(ctx, id).to_string(),
                _ => (api.gguf_get_val_f64)(ctx, id).to_bits().to_string(),
            };
            let raw =
                if elem != 8 && n == 1 { bytes((api.gguf_get_val_data)(ctx, id), size) } else { (false, &[][..]) };
            let names = (text((api.gguf_type_name)(ty)), text((api.gguf_type_name)(elem)));
            let found = (api.gguf_find_key)(ctx, key);
            seen.push(format!("{id} {found} {} {names:?} x {n}: {one} {raw:?} {value}", text(key)));
        }
        let mut is_other = false;
        for id in 0..n_tensors {
            let name = (api.gguf_get_tensor_name)(ctx, id);
            let ne = std::slice::from_raw_parts((api.gguf_get_tensor_ne)(ctx, id), 4);
            // ggml writes the dimensions up to the last one above 1.
            is_other |= ne.iter().rposition(|&n| n != 1) != ne.iter().rposition(|&n| n > 1) && ne[1..].contains(&0);
            let (ty, size) = ((api.gguf_get_tensor_type)(ctx, id), (api.gguf_get_tensor_size)(ctx, id));
            let (offset, found) = ((api.gguf_get_tensor_offset)(ctx, id), (api.gguf_find_tensor)(ctx, name));
            // ggml computes wrong sizes if its arithmetic wraps.
            let wraps = ne.iter().map(|&n| n.max(1) as f64).product::<f64>() > (1u64 << 54) as f64;
            is_other |= wraps;
            let size = if wraps { 0 } else { size };
            seen.push(format!(
                "tensor {id} {found} {} {ne:?} type {ty}, {size} at {offset}{}",
                text(name),
                if wraps { WRAPS } else { "" }
            ));
        }
        // Padding of a large alignment takes long. ggml loses a zero in the last dimension.
        if alignment <= 4096 && !is_other {
            let mut meta = vec![0xaa_u8; (api.gguf_get_meta_size)(ctx)];
            (api.gguf_get_meta_data)(ctx, meta.as_mut_ptr().cast());
            seen.push(format!("{meta:?}"));
        }
    }
    seen
}
