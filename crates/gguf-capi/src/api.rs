//! The functions of `gguf.h`, with its names, signatures and semantics.
//!
//! A getter of the wrong type aborts, as documented in `gguf.h`, with a message that names the key, its type and the requested
//! type. Other misuse (an invalid id, a null pointer, a duplicate tensor) prints a message to stderr, returns 0, null or false, and
//! changes nothing; a context with a rejected change can no longer be written.
#![cfg_attr(
    not(test),
    expect(clippy::cast_possible_truncation, reason = "gguf.h has lengths as size_t"),
    expect(clippy::indexing_slicing, reason = "the size of a number is at most that of a word")
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use gguf_format::{Array, FromValue, Str, Value, ValueRef, ValueType};
use libc::FILE;

use crate::context::{Context, Entry, Stored, View, shape};
use crate::failure::{Failure, guard, keep, report, reported};
use crate::ggml::Tensor;
use crate::source::{self, Callback, InitParams, Stream};
use crate::write;

/// `GGUF_TYPE_COUNT` of `gguf.h`, not a valid type.
const TYPE_COUNT: u32 = 13;

/// `GGML_TYPE_COUNT` of `ggml.h`, not a valid type.
const GGML_TYPE_COUNT: u32 = 43;

/// The context of a C pointer.
///
/// # Safety
/// The pointer is null or comes from a function that creates contexts, the context has not been freed, and nothing modifies it during its
/// use.
unsafe fn context<'a>(ctx: *const Context) -> Result<&'a Context, Failure> {
    // SAFETY: as above.
    unsafe { ctx.as_ref() }.ok_or_else(|| Failure::new("the context is NULL"))
}

/// The context of a C pointer, for modification.
///
/// # Safety
/// As for [`context`], and nothing reads it during its use either.
pub(crate) unsafe fn context_mut<'a>(ctx: *mut Context) -> Result<&'a mut Context, Failure> {
    // SAFETY: as above.
    unsafe { ctx.as_mut() }.ok_or_else(|| Failure::new("the context is NULL"))
}

/// The bytes of a C string.
///
/// # Safety
/// The pointer is null or points to a NUL-terminated string that outlives the result.
pub(crate) unsafe fn c_bytes<'a>(text: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::new(format!("{what} is NULL")));
    }
    // SAFETY: as above.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

fn boxed(context: Context) -> *mut Context {
    Box::into_raw(Box::new(context))
}

/// An empty context, for a new file.
#[unsafe(no_mangle)]
pub extern "C" fn gguf_init_empty() -> *mut Context {
    guard("gguf_init_empty", null_mut(), || boxed(Context::default()))
}

/// The context of a file; null, with a message, if the file is missing or rejected.
///
/// # Safety
/// `fname` is null or a C string; `params.ctx` is null or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file(fname: *const c_char, params: InitParams) -> *mut Context {
    reported("gguf_init_from_file", null_mut(), || {
        // SAFETY: guaranteed by the caller.
        let bytes = unsafe { c_bytes(fname, "the file name") }?;
        let named = |text: &str| format!("{}: {text}", Str(bytes));
        // SAFETY: not null, as checked, and otherwise guaranteed by the caller.
        let path = unsafe { CStr::from_ptr(fname) };
        // An interrupted edit in place is completed before reading.
        gguf_io::in_place::finish(source::path_of(bytes)).map_err(|e| Failure::new(e.to_string()))?;
        let mut stream = Stream::open(path, c"rb").map_err(|e| Failure::new(named(&e.to_string())))?;
        // SAFETY: the parameters are guaranteed by the caller.
        let made = unsafe { source::from_stream(&mut stream, params) };
        // Nothing was written, so nothing can be lost.
        let _ = stream.close();
        made.map(boxed).map_err(|e| Failure { text: named(&e.text), ..e })
    })
}

/// The context of the GGUF at the current position of a stream.
///
/// # Safety
/// `file` is null or open; `params.ctx` is null or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_file_ptr(file: *mut FILE, params: InitParams) -> *mut Context {
    const NAME: &str = "gguf_init_from_file_ptr";
    if file.is_null() {
        keep(NAME, &Failure::new("the file is NULL"));
        return null_mut();
    }
    // SAFETY: both are guaranteed by the caller.
    reported(NAME, null_mut(), || unsafe { source::from_stream(&mut Stream::new(file), params) }.map(boxed))
}

/// The context of a GGUF in memory, which may be freed afterwards.
///
/// # Safety
/// `data` is null or has `size` bytes; `params.ctx` is null or points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_buffer(data: *const c_void, size: usize, params: InitParams) -> *mut Context {
    const NAME: &str = "gguf_init_from_buffer";
    if data.is_null() || size == 0 || isize::try_from(size).is_err() {
        keep(NAME, &Failure::new("the buffer is NULL, empty, or larger than memory can be"));
        return null_mut();
    }
    reported(NAME, null_mut(), || {
        // SAFETY: the caller guarantees this many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast(), size) };
        // SAFETY: the parameters are guaranteed by the caller.
        unsafe { source::from_bytes(bytes, params) }.map(boxed)
    })
}

/// The context of a GGUF read by a callback.
///
/// # Safety
/// `callback` is null or writes at most the requested number of bytes, and does not throw; `params.ctx` is null or points to a writable
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_init_from_callback(
    callback: Option<Callback>,
    userdata: *mut c_void,
    max_chunk_read: usize,
    max_expected_size: u64,
    params: InitParams,
) -> *mut Context {
    const NAME: &str = "gguf_init_from_callback";
    let Some(callback) = callback else {
        keep(NAME, &Failure::new("the callback is NULL"));
        return null_mut();
    };
    reported(NAME, null_mut(), || {
        // SAFETY: the callback and the parameters are guaranteed by the caller.
        unsafe { source::from_callback(callback, userdata, max_chunk_read, max_expected_size, params) }.map(boxed)
    })
}

/// Frees a context and everything its pointers refer to; null is ignored.
///
/// # Safety
/// The pointer is null or a context that has not been freed and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_free(ctx: *mut Context) {
    if !ctx.is_null() {
        // SAFETY: guaranteed by the caller; contexts are boxed.
        guard("gguf_free", (), || drop(unsafe { Box::from_raw(ctx) }));
    }
}

/// The names of value types in gguf.h.
const TYPE_NAMES: [&CStr; TYPE_COUNT as usize] =
    [c"u8", c"i8", c"u16", c"i16", c"u32", c"i32", c"f32", c"bool", c"str", c"arr", c"u64", c"i64", c"f64"];

/// The name of a value type; null for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn gguf_type_name(ty: u32) -> *const c_char {
    TYPE_NAMES.get(ty as usize).map_or(null(), |name| name.as_ptr())
}

fn type_name(ty: ValueType) -> &'static str {
    TYPE_NAMES.get(ty.0 as usize).and_then(|name| name.to_str().ok()).unwrap_or("no type")
}

/// Functions that read a context; failures are reported and return `$otherwise`.
macro_rules! readers {
    ($($(#[$doc:meta])* fn $name:ident($ctx:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty, or $otherwise:expr, $body:expr;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The context is null or has not been freed, and is not modified during the call. Other pointers are null or C strings.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(ctx: *const Context $(, $arg: $ty)*) -> $ret {
            reported(stringify!($name), $otherwise, || {
                // SAFETY: guaranteed by the caller.
                let $ctx = unsafe { context(ctx) }?;
                $body
            })
        }
    )* };
}

readers! {
    /// The version of the file, which is also used for writing.
    fn gguf_get_version(ctx) -> u32, or 0, Ok(ctx.version.number());
    /// The alignment of tensor data.
    fn gguf_get_alignment(ctx) -> usize, or 0, Ok(ctx.alignment as usize);
    /// The start of the data section, from the start of the file; aligned if there is a tensor.
    fn gguf_get_data_offset(ctx) -> usize, or 0, Ok(ctx.data_offset as usize);
    /// The number of key-value pairs.
    fn gguf_get_n_kv(ctx) -> i64, or 0, Ok(ctx.entries.len() as i64);
    /// The id of a key; -1 if it does not exist.
    fn gguf_find_key(ctx, key: *const c_char) -> i64, or -1, {
        // SAFETY: guaranteed by the caller.
        let key = unsafe { c_bytes(key, "the key") }?;
        Ok(ctx.find_key(key).map_or(-1, |i| i as i64))
    };
    /// The key with that id.
    fn gguf_get_key(ctx, key_id: i64) -> *const c_char, or null(), Ok(ctx.entry(key_id)?.c_key().as_ptr().cast());
    /// The type of a value; `GGUF_TYPE_COUNT` for an invalid id.
    fn gguf_get_kv_type(ctx, key_id: i64) -> u32, or TYPE_COUNT, Ok(ctx.entry(key_id)?.value().value_type().0);
    /// The type of an array's elements; aborts if the value is not an array.
    fn gguf_get_arr_type(ctx, key_id: i64) -> u32, or TYPE_COUNT, {
        let entry = ctx.entry(key_id)?;
        match entry.value() {
            ValueRef::Array(a) => Ok(a.elem_type().0),
            _ => wrong_type("gguf_get_arr_type", entry, "an array"),
        }
    };
    /// The string of a value; aborts if the value is not a string.
    fn gguf_get_val_str(ctx, key_id: i64) -> *const c_char, or null(), {
        let entry = ctx.entry(key_id)?;
        if shape(entry.value()) != (ValueType::STRING, 1) {
            wrong_type("gguf_get_val_str", entry, "str");
        }
        Ok(entry.view()?.string(0).map_or(null(), |s| s.as_ptr().cast()))
    };
    /// The bytes of a value in this machine's order; aborts if it is a string or an array.
    fn gguf_get_val_data(ctx, key_id: i64) -> *const c_void, or null(), {
        let entry = ctx.entry(key_id)?;
        let (elem, n) = shape(entry.value());
        if elem == ValueType::STRING || n != 1 {
            wrong_type("gguf_get_val_data", entry, "a number or a bool");
        }
        Ok(entry.view()?.numbers().cast())
    };
    /// The number of elements of an array; 1 for a single value.
    fn gguf_get_arr_n(ctx, key_id: i64) -> usize, or 0, Ok(shape(ctx.entry(key_id)?.value()).1 as usize);
    /// The elements of an array in this machine's order, aligned; null if there are none; aborts if they are strings.
    fn gguf_get_arr_data(ctx, key_id: i64) -> *const c_void, or null(), {
        let entry = ctx.entry(key_id)?;
        if shape(entry.value()).0 == ValueType::STRING {
            wrong_type("gguf_get_arr_data", entry, "an array of numbers or bools");
        }
        Ok(entry.view()?.numbers().cast())
    };
    /// The string at `i` of an array; aborts if the elements are not strings.
    fn gguf_get_arr_str(ctx, key_id: i64, i: usize) -> *const c_char, or null(), {
        let entry = ctx.entry(key_id)?;
        if !matches!(entry.view()?, View::Strings { .. }) {
            wrong_type("gguf_get_arr_str", entry, "an array of str");
        }
        let string = entry.view()?.string(i).ok_or_else(|| {
            Failure::new(format!("{} has {} strings; index {i} is out of range", Str(entry.key()), shape(entry.value()).1))
        })?;
        Ok(string.as_ptr().cast())
    };
    /// The number of tensors.
    fn gguf_get_n_tensors(ctx) -> i64, or 0, Ok(ctx.tensors.len() as i64);
    /// The id of a tensor; -1 if it does not exist.
    fn gguf_find_tensor(ctx, name: *const c_char) -> i64, or -1, {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { c_bytes(name, "the name") }?;
        Ok(ctx.find_tensor(name).map_or(-1, |i| i as i64))
    };
    /// The offset of a tensor's data in the data section.
    fn gguf_get_tensor_offset(ctx, tensor_id: i64) -> usize, or 0, Ok(ctx.info(tensor_id)?.offset as usize);
    /// The name of a tensor.
    fn gguf_get_tensor_name(ctx, tensor_id: i64) -> *const c_char, or null(),
        Ok(ctx.info(tensor_id)?.tensor.name.as_ptr().cast());
    /// The shape of a tensor: four dimensions, where missing ones are 1.
    fn gguf_get_tensor_ne(ctx, tensor_id: i64) -> *const i64, or null(), Ok(ctx.info(tensor_id)?.tensor.ne.as_ptr());
    /// The type of a tensor; `GGML_TYPE_COUNT` for an invalid id.
    fn gguf_get_tensor_type(ctx, tensor_id: i64) -> u32, or GGML_TYPE_COUNT, Ok(ctx.info(tensor_id)?.tensor.ty);
    /// Size of a tensor's data.
    fn gguf_get_tensor_size(ctx, tensor_id: i64) -> usize, or 0,
        Ok(ctx.info(tensor_id)?.tensor.n_bytes().unwrap_or(0) as usize);
    /// Size of the head, padded; 0 if nothing can be written because a change was rejected.
    fn gguf_get_meta_size(ctx) -> usize, or 0, Ok(write::meta(ctx)?.1);
}

/// Aborts the process, as documented in gguf.h for a getter of the wrong type.
fn wrong_type(function: &str, entry: &Entry, asked: &str) -> ! {
    let found = match entry.value() {
        ValueRef::Array(a) => format!("an array of {} {}", a.len(), type_name(a.elem_type())),
        v => type_name(v.value_type()).into(),
    };
    report(function, &Failure::new(format!("the key {} is {found}, not {asked}", Str(entry.key()))));
    std::process::abort()
}

/// The single value of an entry, or of an array of one element; aborts if it has another type.
fn single<'a, T: FromValue<'a>>(function: &str, entry: &'a Entry, asked: ValueType) -> Result<T, Failure> {
    let value = entry.value();
    if shape(value) != (asked, 1) {
        wrong_type(function, entry, type_name(asked));
    }
    let value = match value {
        ValueRef::Array(a) => a.get(0),
        v => Some(v),
    };
    // A bool is true for every byte except 0.
    let value = value.map(|v| if let ValueRef::Bool(b) = v { ValueRef::Bool((b != 0).into()) } else { v });
    value.and_then(|v| v.get().ok()).ok_or_else(|| Failure::new("the value cannot be read"))
}

macro_rules! value_getters {
    ($($name:ident $ty:ident $asked:ident $otherwise:literal;)*) => { readers! { $(
        #[doc = concat!("The value of type `", stringify!($ty), "` of an id; aborts when it has another type.")]
        fn $name(ctx, key_id: i64) -> $ty, or $otherwise, {
            single(stringify!($name), ctx.entry(key_id)?, ValueType::$asked)
        };
    )* } };
}

value_getters! {
    gguf_get_val_u8 u8 U8 0;
    gguf_get_val_i8 i8 I8 0;
    gguf_get_val_u16 u16 U16 0;
    gguf_get_val_i16 i16 I16 0;
    gguf_get_val_u32 u32 U32 0;
    gguf_get_val_i32 i32 I32 0;
    gguf_get_val_f32 f32 F32 0.0;
    gguf_get_val_u64 u64 U64 0;
    gguf_get_val_i64 i64 I64 0;
    gguf_get_val_f64 f64 F64 0.0;
    gguf_get_val_bool bool BOOL false;
}

/// The context to modify, and a copy of the given key or name, which may point into the context.
///
/// # Safety
/// As [`context_mut`] and [`c_bytes`].
pub(crate) unsafe fn context_and<'a>(
    ctx: *mut Context,
    text: *const c_char,
    what: &str,
) -> Result<(&'a mut Context, Vec<u8>), Failure> {
    // SAFETY: both are guaranteed by the caller.
    let (text, ctx) = unsafe { (c_bytes(text, what).map(<[u8]>::to_vec), context_mut(ctx)?) };
    let text = or_refuse(ctx, text)?;
    Ok((ctx, text))
}

/// Rejects a change because of an error found before the context was modified.
fn or_refuse<T>(ctx: &mut Context, result: Result<T, Failure>) -> Result<T, Failure> {
    result.map_err(|e| ctx.refuse(e.text))
}

/// Functions that set a key to `$value`, which is computed before the context is modified, because it may point into it.
macro_rules! setters {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*), $value:expr;)*) => { $(
        $(#[$doc])*
        /// The pair becomes the last one.
        ///
        /// # Safety
        /// The context is null or has not been freed, and nothing else uses it during the call. Other pointers are null or valid as
        /// specified in gguf.h.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(ctx: *mut Context, key: *const c_char $(, $arg: $ty)*) {
            reported(stringify!($name), (), || {
                let value: Result<Value, Failure> = $value;
                // SAFETY: both are guaranteed by the caller.
                let (ctx, key) = unsafe { context_and(ctx, key, "the key") }?;
                let value = or_refuse(ctx, value)?;
                ctx.set(&key, Stored::Owned(value))
            })
        }
    )* };
}

setters! {
    /// Sets a key to a `u8`.
    fn gguf_set_val_u8(val: u8), Ok(Value::U8(val));
    /// Sets a key to a `i8`.
    fn gguf_set_val_i8(val: i8), Ok(Value::I8(val));
    /// Sets a key to a `u16`.
    fn gguf_set_val_u16(val: u16), Ok(Value::U16(val));
    /// Sets a key to a `i16`.
    fn gguf_set_val_i16(val: i16), Ok(Value::I16(val));
    /// Sets a key to a `u32`.
    fn gguf_set_val_u32(val: u32), Ok(Value::U32(val));
    /// Sets a key to a `i32`.
    fn gguf_set_val_i32(val: i32), Ok(Value::I32(val));
    /// Sets a key to a `f32`.
    fn gguf_set_val_f32(val: f32), Ok(Value::F32(val));
    /// Sets a key to a `u64`.
    fn gguf_set_val_u64(val: u64), Ok(Value::U64(val));
    /// Sets a key to a `i64`.
    fn gguf_set_val_i64(val: i64), Ok(Value::I64(val));
    /// Sets a key to a `f64`.
    fn gguf_set_val_f64(val: f64), Ok(Value::F64(val));
    /// Sets a key to a `bool`.
    fn gguf_set_val_bool(val: bool), Ok(Value::Bool(val.into()));
    /// Sets a key to a string, which is copied.
    fn gguf_set_val_str(val: *const c_char), {
        // SAFETY: guaranteed by the caller.
        unsafe { c_bytes(val, "the string") }.map(|s| Value::String(s.to_vec()))
    };
    /// Sets a key to an array of `n` numbers or bools, which are copied.
    fn gguf_set_arr_data(ty: u32, data: *const c_void, n: usize), {
        // SAFETY: `n` elements are guaranteed by the caller.
        unsafe { numbers(ValueType(ty), data, n) }.map(Value::Array)
    };
    /// Sets a key to an array of `n` strings, which are copied.
    fn gguf_set_arr_str(data: *const *const c_char, n: usize), {
        // SAFETY: `n` strings are guaranteed by the caller.
        unsafe { strings(data, n) }.map(Value::Array)
    };
}

/// Sets all keys of another context, in its order.
///
/// # Safety
/// Both contexts are null or have not been freed; nothing else uses the first, or modifies the second, during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_kv(ctx: *mut Context, src: *const Context) {
    reported("gguf_set_kv", (), || {
        // SAFETY: guaranteed by the caller. The pairs are copies, so both may be the same context.
        let pairs = unsafe { context(src) }.and_then(Context::pairs);
        // SAFETY: guaranteed by the caller.
        let ctx = unsafe { context_mut(ctx) }?;
        let pairs = or_refuse(ctx, pairs)?;
        pairs.into_iter().try_for_each(|(key, value)| ctx.set(&key, value))
    })
}

/// Removes a key; returns its former id, or -1 if it did not exist.
///
/// # Safety
/// The context is null or has not been freed, and nothing else uses it during the call; `key` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_remove_key(ctx: *mut Context, key: *const c_char) -> i64 {
    reported("gguf_remove_key", -1, || {
        // SAFETY: both are guaranteed by the caller.
        let (ctx, key) = unsafe { context_and(ctx, key, "the key") }?;
        Ok(ctx.remove(&key)?.map_or(-1, |i| i as i64))
    })
}

/// Appends a tensor of ggml: its description, and the location of its data.
///
/// # Safety
/// The context is null or has not been freed, and nothing else uses it during the call; `tensor` is null or a tensor of ggml.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_add_tensor(ctx: *mut Context, tensor: *const Tensor) {
    reported("gguf_add_tensor", (), || {
        // SAFETY: guaranteed by the caller.
        let ctx = unsafe { context_mut(ctx) }?;
        if tensor.is_null() {
            return Err(ctx.refuse("the tensor is NULL".into()));
        }
        // SAFETY: guaranteed by the caller; every field is a number or a pointer, for which all bits are valid.
        let tensor = unsafe { tensor.read() };
        ctx.add_tensor(&tensor)
    })
}

/// Changes the type of a tensor; the offsets of the following ones change with its size.
///
/// # Safety
/// The context is null or has not been freed, and nothing else uses it during the call; `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_type(ctx: *mut Context, name: *const c_char, ty: u32) {
    reported("gguf_set_tensor_type", (), || {
        // SAFETY: both are guaranteed by the caller.
        let (ctx, name) = unsafe { context_and(ctx, name, "the name") }?;
        ctx.set_tensor_type(&name, ty)
    })
}

/// Sets the location of a tensor's data, which is read when the file is written.
///
/// # Safety
/// The context is null or has not been freed, and nothing else uses it during the call; `name` is null or a C string; `data` has the size
/// of the tensor and is valid until the file is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_set_tensor_data(ctx: *mut Context, name: *const c_char, data: *const c_void) {
    reported("gguf_set_tensor_data", (), || {
        // SAFETY: both are guaranteed by the caller.
        let (ctx, name) = unsafe { context_and(ctx, name, "the name") }?;
        ctx.tensor_mut(&name)?.tensor.data = data.cast_mut();
        Ok(())
    })
}

/// An array of numbers in this machine's order.
///
/// # Safety
/// `data` is null or has `n` elements of type `ty`.
unsafe fn numbers(ty: ValueType, data: *const c_void, n: usize) -> Result<Array, Failure> {
    let Some(size) = ty.fixed_bytes().map(|s| s as usize) else {
        return Err(Failure::new(format!("the type {} is not that of a number or a bool", ty.0)));
    };
    let bytes = n.checked_mul(size).filter(|&b| isize::try_from(b).is_ok());
    let bytes = bytes.ok_or_else(|| Failure::new(format!("{n} elements are more than memory can hold")))?;
    if bytes > 0 && data.is_null() {
        return Err(Failure::new("the data is NULL"));
    }
    let mut array = Array::new(ty);
    if bytes == 0 {
        return Ok(array);
    }
    // SAFETY: the caller guarantees this many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
    for raw in bytes.chunks_exact(size) {
        // The size of the type was checked.
        let mut word = [0; 8];
        word[..size].copy_from_slice(raw);
        let [b0, b1, b2, b3, ..] = word;
        let (two, four) = ([b0, b1], [b0, b1, b2, b3]);
        let pushed = array.push(match ty {
            ValueType::U8 => ValueRef::U8(b0),
            ValueType::I8 => ValueRef::I8(b0 as i8),
            ValueType::BOOL => ValueRef::Bool(b0),
            ValueType::U16 => ValueRef::U16(u16::from_ne_bytes(two)),
            ValueType::I16 => ValueRef::I16(i16::from_ne_bytes(two)),
            ValueType::U32 => ValueRef::U32(u32::from_ne_bytes(four)),
            ValueType::I32 => ValueRef::I32(i32::from_ne_bytes(four)),
            ValueType::F32 => ValueRef::F32(f32::from_ne_bytes(four)),
            ValueType::U64 => ValueRef::U64(u64::from_ne_bytes(word)),
            ValueType::I64 => ValueRef::I64(i64::from_ne_bytes(word)),
            _ => ValueRef::F64(f64::from_ne_bytes(word)),
        });
        pushed.map_err(|e| Failure::new(e.to_string()))?;
    }
    Ok(array)
}

/// An array of strings.
///
/// # Safety
/// `data` is null or has `n` pointers, each null or a C string.
unsafe fn strings(data: *const *const c_char, n: usize) -> Result<Array, Failure> {
    if n > 0 && data.is_null() {
        return Err(Failure::new("the strings are NULL"));
    }
    let mut array = Array::new(ValueType::STRING);
    for i in 0..n {
        // SAFETY: `n` pointers to strings are guaranteed by the caller.
        let string = unsafe { c_bytes(data.add(i).read(), "a string of the array") }?;
        array.push(ValueRef::String(Str(string))).map_err(|e| Failure::new(e.to_string()))?;
    }
    Ok(array)
}

/// Writes the head, and the data unless `only_meta`, at the current position of a stream.
///
/// # Safety
/// The context is null or has not been freed, and is not modified during the call; `file` is null or open; the data of all tensors is
/// readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_write_to_file_ptr(ctx: *const Context, file: *mut FILE, only_meta: bool) -> bool {
    reported("gguf_write_to_file_ptr", false, || {
        // SAFETY: guaranteed by the caller.
        let ctx = unsafe { context(ctx) }?;
        if file.is_null() {
            return Err(Failure::new("the file is NULL"));
        }
        // SAFETY: guaranteed by the caller.
        let mut stream = unsafe { Stream::new(file) };
        write::write(ctx, &mut stream, only_meta).map(|()| true)
    })
}

/// Writes the head, and the data unless `only_meta`, to a file that appears complete or not at all.
///
/// # Safety
/// The context is null or has not been freed, and is not modified during the call; `fname` is null or a C string; the data of all tensors
/// is readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_write_to_file(ctx: *const Context, fname: *const c_char, only_meta: bool) -> bool {
    reported("gguf_write_to_file", false, || {
        // SAFETY: guaranteed by the caller.
        let ctx = unsafe { context(ctx) }?;
        // SAFETY: guaranteed by the caller.
        let path = unsafe { c_bytes(fname, "the file name") }?;
        write::write_to_file(ctx, source::path_of(path), only_meta).map(|()| true)
    })
}

/// Stores the head, padded: `gguf_get_meta_size` bytes.
///
/// # Safety
/// The context is null or has not been freed, and is not modified during the call; `data` is null or has `gguf_get_meta_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gguf_get_meta_data(ctx: *const Context, data: *mut c_void) {
    reported("gguf_get_meta_data", (), || {
        // SAFETY: guaranteed by the caller.
        let (meta, padded) = write::meta(unsafe { context(ctx) }?)?;
        if data.is_null() {
            return Err(Failure::new("the data is NULL"));
        }
        // SAFETY: the caller guarantees the size of the padded head; the source is our own.
        unsafe {
            let data = data.cast::<u8>();
            data.copy_from_nonoverlapping(meta.as_ptr(), meta.len());
            data.add(meta.len()).write_bytes(0, padded - meta.len());
        }
        Ok(())
    })
}
