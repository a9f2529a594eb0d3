//! Converts a head to a context, with the limits of gguf.h (`gguf_init_from_reader` of `gguf.cpp`).
#![cfg_attr(
    not(test),
    expect(clippy::cast_possible_truncation, reason = "gguf.h has lengths as size_t, and few dimensions")
)]

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use gguf_format::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, GgmlType, Gguf, HeadScan, KvRef, Limits, ScanState, Str, ValueRef, ValueType,
    Version, align_up,
};

use crate::context::{Context, Entry, Info, NATIVE, Stored, shape};
use crate::failure::Failure;
use crate::ggml::{Ggml, GgmlContext, InitParams, MAX_DIMS, MAX_NAME, Tensor, c_prefix, type_info};

/// The maximum lengths of strings and arrays (`GGUF_MAX_STRING_LENGTH`, `GGUF_MAX_ARRAY_ELEMENTS`).
const MAX_LEN: u64 = 1 << 30;

/// Additional memory allocated by ggml: the context itself, and its allocator's overhead.
const SPARE: usize = 4096;

/// The maximum allocation at a time if the length of the source is unknown.
const PIECE: usize = 1 << 20;

/// The limits of gguf.h, checked before reading.
const LIMITS: Limits = Limits {
    tensors: u64::MAX,
    kvs: u64::MAX,
    string_bytes: MAX_LEN,
    name_bytes: MAX_NAME as u64 - 1,
    elements: MAX_LEN,
    levels: 1,
    dims: MAX_DIMS as u32,
};

fn scan(total: u64) -> HeadScan {
    HeadScan::new(Some(total)).keep_nuls().within(LIMITS)
}

/// Checks a head while it is read, each time that it has doubled. Otherwise a file that is invalid for gguf.h would be read into memory up
/// to its end.
struct Watch {
    next: usize,
}

impl Watch {
    fn new() -> Watch {
        Watch { next: PIECE }
    }

    fn look(&mut self, bytes: &[u8], scan: &HeadScan) -> Result<(), Failure> {
        if bytes.len() < self.next {
            return Ok(());
        }
        self.next = bytes.len().saturating_mul(2);
        check_memory(bytes.len())?;
        let head = Gguf::partial(bytes, scan);
        dialect(&head)?;
        let alignment = key_values(&head, |_| Ok(()))?;
        tensors(&head, alignment, |_| Ok(()))
    }
}

/// Checks that this many more bytes can be allocated. A later failed allocation would abort the process.
fn check_memory(bytes: usize) -> Result<(), Failure> {
    let mut tried = Vec::<u8>::new();
    tried.try_reserve_exact(bytes).map_err(|_| no_memory())?;
    // Prevents the compiler from removing the unused allocation.
    drop(std::hint::black_box(tried));
    Ok(())
}

/// A key or a name for a message, truncated.
fn shown(text: &[u8]) -> Str<'_> {
    Str(text.get(..80).unwrap_or(text))
}

fn no_memory() -> Failure {
    Failure::new("there is not enough memory")
}

/// Reads a head from a stream that ends after `total` bytes.
pub fn read_head(reader: &mut impl Read, total: u64) -> Result<Gguf<'static>, Failure> {
    let mut watch = Watch::new();
    let head = gguf_io::read_head_with(reader, scan(total), |bytes, scan| watch.look(bytes, scan))?;
    // The index has less than a word for every byte.
    check_memory(head.bytes().len())?;
    Ok(head.into_gguf()?)
}

/// ggml does not know files with counted terminators of strings: their NULs are part of the strings.
fn keeping_nuls(head: Gguf<'static>, total: u64) -> Result<Gguf<'static>, Failure> {
    if !head.dialect().nul_strings {
        return Ok(head);
    }
    let bytes = head.bytes().to_vec();
    let mut scan = HeadScan::new(Some(total)).keep_nuls();
    scan.advance(&bytes)?;
    Ok(Gguf::from_scan(bytes, &scan)?)
}

/// Reads a head from a source that must not be read beyond what is needed. `read` fills the buffer starting at an offset, or fails.
pub fn read_head_exactly(
    total: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Failure>,
) -> Result<Gguf<'static>, Failure> {
    let (mut scan, mut watch) = (scan(total), Watch::new());
    let mut bytes = Vec::new();
    while let ScanState::Need(need) = scan.advance(&bytes)? {
        let need = usize::try_from(need).map_err(|_| no_memory())?;
        // In pieces, because claimed lengths may be wrong.
        while bytes.len() < need {
            let start = bytes.len();
            let end = need.min(start + PIECE);
            bytes.try_reserve(end - start).map_err(|_| no_memory())?;
            bytes.resize(end, 0);
            read(start as u64, bytes.get_mut(start..).unwrap_or_default())?;
        }
        watch.look(&bytes, &scan)?;
    }
    check_memory(bytes.len())?;
    Ok(Gguf::from_scan(bytes, &scan)?)
}

/// The context of a head. The GGUF starts at byte `start` of its file and has `total` bytes.
pub fn context(head: Gguf<'static>, start: u64, total: u64) -> Result<Context, Failure> {
    dialect(&head)?;
    let mut context = Context { version: head.dialect().version, ..Context::default() };
    let head = Arc::new(keeping_nuls(head, total)?);
    let entries = &mut context.entries;
    context.alignment = key_values(&head, |kv| {
        entries.try_reserve(1).map_err(|_| no_memory())?;
        entries.push(Entry::new(kv.key.as_bytes(), Stored::Read(head.clone(), kv.index))?);
        Ok(())
    })?;
    let infos = &mut context.tensors;
    tensors(&head, context.alignment, |info| {
        infos.try_reserve(1).map_err(|_| no_memory())?;
        infos.push(info);
        Ok(())
    })?;
    let mut head_end = head.head_bytes();
    if !context.tensors.is_empty() {
        // The data section starts at a multiple of the alignment, which must be in the file even if there is no data.
        head_end = align_up(head_end, context.alignment)
            .filter(|&at| at <= total)
            .ok_or_else(|| Failure::at(head_end, "the file ends before the data section starts"))?;
    }
    context.data_offset = start.checked_add(head_end).ok_or_else(|| Failure::new("the file is too long"))?;
    Ok(context)
}

/// Rejects versions and byte orders that gguf.h cannot read on this machine.
fn dialect(head: &Gguf<'_>) -> Result<(), Failure> {
    let dialect = head.dialect();
    if dialect.reversed_magic {
        return Err(Failure::at(0, "the magic is FUGG, not GGUF"));
    }
    if dialect.order != NATIVE {
        return Err(Failure::at(4, format_args!("the file is {}, this machine is not", dialect.order)));
    }
    if dialect.version < Version::V2 {
        return Err(Failure::at(4, format_args!("version {} is no longer read by gguf.h", dialect.version)));
    }
    Ok(())
}

/// Calls `take` with the pairs that gguf.h accepts, up to the first invalid one; returns the alignment.
fn key_values<'a>(head: &'a Gguf<'_>, mut take: impl FnMut(KvRef<'a>) -> Result<(), Failure>) -> Result<u64, Failure> {
    let mut seen = HashSet::new();
    let mut alignment = None;
    for kv in head.kvs() {
        let key = kv.key.as_bytes();
        let bad = |text: &str| Failure::at(kv.offset, format_args!("key {} ({}): {text}", kv.index, shown(key)));
        if key.is_empty() {
            return Err(bad("it is empty"));
        }
        if key.len() as u64 > MAX_LEN {
            return Err(bad("it is longer than 1 GiB"));
        }
        seen.try_reserve(1).map_err(|_| no_memory())?;
        if !seen.insert(key) {
            return Err(bad("duplicate key"));
        }
        value(&kv).map_err(bad)?;
        // Keys are compared as C strings, up to a NUL.
        if alignment.is_none() && c_prefix(key) == ALIGNMENT_KEY.as_bytes() {
            alignment = Some(kv.value);
        }
        take(kv)?;
    }
    match alignment {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(ValueRef::U32(v)) if v.is_power_of_two() => Ok(v.into()),
        Some(ValueRef::U32(v)) => Err(Failure::new(format!("{ALIGNMENT_KEY} must be a power of two, not {v}"))),
        Some(v) => Err(Failure::new(format!("{ALIGNMENT_KEY} must be of type u32, not {}", v.value_type()))),
    }
}

fn value(kv: &KvRef<'_>) -> Result<(), &'static str> {
    let (elem, n) = shape(kv.value);
    let is_array = matches!(kv.value, ValueRef::Array(_));
    if is_array && elem == ValueType::ARRAY {
        return Err("gguf.h has no arrays of arrays");
    }
    if is_array && n > MAX_LEN {
        return Err("the array is longer than 2^30");
    }
    let is_long = |bytes: &[u8]| bytes.len() as u64 > MAX_LEN;
    let is_too_long = match kv.value {
        ValueRef::String(s) => is_long(s.as_bytes()),
        // Only the elements of nested arrays are visited.
        ValueRef::Array(a) => {
            is_long(a.encoded_bytes()) && a.strings().into_iter().flatten().any(|s| is_long(s.as_bytes()))
        }
        _ => false,
    };
    if is_too_long { Err("a string is longer than 1 GiB") } else { Ok(()) }
}

/// The number of elements of a shape; `None` for a shape that ggml rejects.
///
/// ggml's reader multiplies the dimensions in order, so nothing overflows after a zero. Its constructor of tensors skips zeros after the
/// first dimension, and aborts the process if a product reaches the limit given by the next dimension. Releases differ for shapes near
/// 2^63. A shape is accepted here only if all of them accept it, with and without a `ggml_context`.
fn n_elements(ne: [i64; MAX_DIMS]) -> Option<i64> {
    let [first, rest @ ..] = ne;
    let mut product = first;
    for dim in rest.into_iter().filter(|&dim| dim > 1) {
        product = if product < i64::MAX / dim { product * dim } else { return None };
    }
    (product < i64::MAX).then_some(if ne.contains(&0) { 0 } else { product })
}

/// Calls `take` with the tensors that gguf.h accepts, up to the first invalid one.
fn tensors(head: &Gguf<'_>, alignment: u64, mut take: impl FnMut(Info) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    let mut next = 0u64;
    for info in head.tensors() {
        let name = info.name.as_bytes();
        let at = info.info_offset;
        let bad = |text: String| Failure::at(at, format_args!("tensor {} ({}): {text}", info.index, shown(name)));
        if name.len() >= MAX_NAME {
            return Err(bad(format!("its name has {} bytes; at most {} are allowed", name.len(), MAX_NAME - 1)));
        }
        seen.try_reserve(1).map_err(|_| no_memory())?;
        if !seen.insert(name) {
            return Err(bad("duplicate name".into()));
        }
        if info.dims.len() > MAX_DIMS {
            return Err(bad(format!("it has {} dimensions; at most {MAX_DIMS} are allowed", info.dims.len())));
        }
        let mut ne = [1i64; MAX_DIMS];
        for (n, dim) in ne.iter_mut().zip(info.dims) {
            *n = i64::try_from(dim).map_err(|_| bad(format!("the dimension {dim} is negative as a signed number")))?;
        }
        let n_elements = n_elements(ne).ok_or_else(|| bad(format!("too many elements: {ne:?}")))?;
        let Some(ty) = type_info(info.ty.0) else { return Err(bad(format!("ggml has no tensor type {}", info.ty.0))) };
        if !ne[0].unsigned_abs().is_multiple_of(ty.block_len.into()) {
            return Err(bad(format!("rows of {} are not whole blocks of {}", ne[0], ty.name)));
        }
        let bytes = (n_elements.unsigned_abs() / u64::from(ty.block_len)).checked_mul(ty.block_bytes.into());
        let bytes = bytes.filter(|&b| b <= u64::MAX - (alignment - 1));
        let bytes = bytes.ok_or_else(|| bad(format!("the size of {ne:?} elements exceeds 64 bits")))?;
        let tensor = Tensor::new(name, info.ty.0, ne).ok_or_else(|| bad("it has no layout".into()))?;
        if info.offset != next {
            return Err(bad(format!("its data is at offset {}, expected {next}", info.offset)));
        }
        take(Info { tensor, offset: next })?;
        next = align_up(bytes, alignment)
            .and_then(|padded| next.checked_add(padded))
            .ok_or_else(|| bad("the size of all data exceeds 64 bits".into()))?;
    }
    Ok(())
}

/// Size of the data section, including the padding after the last tensor.
fn data_bytes(context: &Context) -> Option<u64> {
    let Some(last) = context.tensors.last() else { return Some(0) };
    last.offset.checked_add(align_up(last.tensor.n_bytes()?, context.alignment)?)
}

/// Fills memory with the data section, from its start.
///
/// # Safety
/// The given number of bytes at the pointer is writable, and may be uninitialised.
pub type ReadData<'a> = &'a mut dyn FnMut(*mut u8, usize) -> Result<(), Failure>;

/// Creates a `ggml_context` with the tensors of a context; with their data, if `read` is given. `there` is the size of the data in the
/// file.
pub fn ggml_context(context: &Context, read: Option<ReadData<'_>>, there: u64) -> Result<*mut GgmlContext, Failure> {
    let ggml = Ggml::find()?;
    let too_large = || Failure::new("the tensors do not fit into memory");
    let data_bytes = match read {
        None => 0,
        Some(_) => data_bytes(context).and_then(|n| usize::try_from(n).ok()).ok_or_else(too_large)?,
    };
    if data_bytes as u64 > there {
        return Err(Failure::new(format!("the tensor data takes {data_bytes} bytes, but the file has only {there}")));
    }
    // SAFETY: the signature is that of ggml.h.
    let overhead = unsafe { (ggml.tensor_overhead)() };
    let objects = context.tensors.len() + usize::from(read.is_some());
    let mem_size = objects.checked_mul(overhead).and_then(|o| o.checked_add(data_bytes)).ok_or_else(too_large)?;
    // ggml aborts the process if memory is exhausted, so the allocation is tested first, including ggml's overhead.
    check_memory(mem_size.checked_add(SPARE).ok_or_else(too_large)?)?;
    let params = InitParams { mem_size, mem_buffer: std::ptr::null_mut(), no_alloc: read.is_none() };
    // SAFETY: the signature is that of ggml.h, and the memory is ggml's own.
    let made = unsafe { (ggml.init)(params) };
    if made.is_null() {
        return Err(Failure::new("ggml cannot create a context for the tensors"));
    }
    // SAFETY: the context was just created, with memory for the tensors and the data.
    match unsafe { fill(&ggml, made, context, data_bytes, read) } {
        Ok(()) => Ok(made),
        Err(failure) => {
            // SAFETY: created above, and not shared.
            unsafe { (ggml.free)(made) };
            Err(failure)
        }
    }
}

/// Adds the tensors, and their data, to a new `ggml_context`.
///
/// # Safety
/// `made` is a context of this ggml with memory for all tensors, and for `data_bytes` of data if `read` is given.
unsafe fn fill(
    ggml: &Ggml,
    made: *mut GgmlContext,
    context: &Context,
    data_bytes: usize,
    read: Option<ReadData<'_>>,
) -> Result<(), Failure> {
    let no_tensor = || Failure::new("ggml cannot create a tensor");
    let no_alloc = read.is_none();
    let mut data = std::ptr::null_mut::<u8>();
    if let Some(read) = read {
        // SAFETY: the context is valid and has memory for a tensor of that size; names are C strings.
        unsafe {
            let blob = (ggml.new_tensor_1d)(made, GgmlType::I8.0, data_bytes as i64);
            data = blob.as_ref().ok_or_else(no_tensor)?.data.cast();
            (ggml.set_name)(blob, c"GGUF tensor data binary blob".as_ptr());
        }
        // ggml allocated this size for the tensor, which is not shared.
        read(data, data_bytes)?;
    }
    // SAFETY: the context is valid throughout; shapes have four dimensions, names a NUL.
    unsafe {
        (ggml.set_no_alloc)(made, true);
        for info in &context.tensors {
            let tensor = (ggml.new_tensor)(made, info.tensor.ty, MAX_DIMS as i32, info.tensor.ne.as_ptr());
            let Some(tensor) = tensor.as_mut() else { return Err(no_tensor()) };
            (ggml.set_name)(tensor, info.tensor.name.as_ptr().cast());
            if !no_alloc {
                // Inside the data, whose size was computed from the offsets.
                tensor.data = data.wrapping_add(info.offset as usize).cast();
            }
        }
        (ggml.set_no_alloc)(made, no_alloc);
    }
    Ok(())
}
