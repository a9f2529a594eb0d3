//! Sources of heads and data: C streams, memory, callbacks.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::FILE;

use crate::context::Context;
use crate::failure::Failure;
use crate::ggml::GgmlContext;
use crate::read::{self, ReadData};

/// `struct gguf_init_params` of `gguf.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct InitParams {
    /// A C bool: 0 or 1.
    pub no_alloc: u8,
    /// The location for a pointer to a new `ggml_context`, or null.
    pub ctx: *mut *mut GgmlContext,
}

/// `gguf_reader_callback_t` of `gguf.h`. It may be C++ code, but must not throw.
pub type Callback = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, u64, usize) -> usize;

/// A C stream.
#[derive(Debug)]
pub struct Stream(*mut FILE);

impl Stream {
    /// # Safety
    /// The stream is open, and is not closed while this value is used.
    pub unsafe fn new(file: *mut FILE) -> Stream {
        Stream(file)
    }

    /// Opens a file; [`close`](Stream::close) closes it.
    pub fn open(path: &CStr, mode: &CStr) -> io::Result<Stream> {
        // SAFETY: both are C strings.
        let file = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        if file.is_null() { Err(io::Error::last_os_error()) } else { Ok(Stream(file)) }
    }

    pub fn close(self) -> io::Result<()> {
        // SAFETY: the stream is open, and is not used again.
        if unsafe { libc::fclose(self.0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn position(&self) -> io::Result<u64> {
        // SAFETY: the stream is open.
        u64::try_from(unsafe { libc::ftello(self.0) }).map_err(|_| io::Error::last_os_error())
    }

    fn seek(&self, pos: u64, from: c_int) -> io::Result<()> {
        let pos = libc::off_t::try_from(pos).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the stream is open.
        if unsafe { libc::fseeko(self.0, pos, from) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads up to `len` bytes.
    ///
    /// # Safety
    /// `len` bytes at `to` are writable.
    unsafe fn read_raw(&self, to: *mut u8, len: usize) -> io::Result<usize> {
        // SAFETY: the stream is open; the memory is guaranteed by the caller.
        let n = unsafe { libc::fread(to.cast(), 1, len, self.0) };
        // SAFETY: the stream is open.
        if n < len && unsafe { libc::ferror(self.0) } != 0 { Err(io::Error::last_os_error()) } else { Ok(n) }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer has this length.
        unsafe { self.read_raw(buf.as_mut_ptr(), buf.len()) }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        // SAFETY: the stream is open, and the buffer has this length.
        let n = unsafe { libc::fwrite(buf.as_ptr().cast(), 1, buf.len(), self.0) };
        if n < buf.len() { Err(io::Error::last_os_error()) } else { Ok(n) }
    }

    fn flush(&mut self) -> io::Result<()> {
        // SAFETY: the stream is open.
        if unsafe { libc::fflush(self.0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Creates the `ggml_context` requested by the parameters, and stores its pointer.
///
/// # Safety
/// `params.ctx` is null or points to a writable pointer.
unsafe fn with_tensors(
    context: Context,
    params: InitParams,
    there: u64,
    read: ReadData<'_>,
) -> Result<Context, Failure> {
    if !params.ctx.is_null() {
        let read = if params.no_alloc == 0 { Some(read) } else { None };
        let made = read::ggml_context(&context, read, there);
        // Null on failure, as in ggml.
        // SAFETY: the pointer is guaranteed by the caller.
        unsafe { params.ctx.write(*made.as_ref().unwrap_or(&std::ptr::null_mut())) };
        made?;
    }
    Ok(context)
}

fn missing(len: usize) -> Failure {
    Failure::new(format!("the {len} bytes of tensor data are incomplete"))
}

/// Reads from the current position of a stream. Afterwards, the position is after the head or the data.
///
/// # Safety
/// `params.ctx` is null or points to a writable pointer.
pub unsafe fn from_stream(stream: &mut Stream, params: InitParams) -> Result<Context, Failure> {
    let start = stream.position()?;
    stream.seek(0, libc::SEEK_END)?;
    let total = stream.position()?.saturating_sub(start);
    stream.seek(start, libc::SEEK_SET)?;
    let head = read::read_head(stream, total)?;
    let head_end = start.saturating_add(head.head_bytes());
    let context = read::context(head, start, total)?;
    stream.seek(head_end, libc::SEEK_SET)?;
    let at = context.data_offset;
    let there = total.saturating_sub(at - start);
    let mut read = |to, len| {
        stream.seek(at, libc::SEEK_SET)?;
        // SAFETY: the memory is guaranteed by the caller of the closure.
        if unsafe { stream.read_raw(to, len) }? < len { Err(missing(len)) } else { Ok(()) }
    };
    // SAFETY: the parameters are guaranteed by the caller.
    unsafe { with_tensors(context, params, there, &mut read) }
}

/// From memory, which is copied.
///
/// # Safety
/// `params.ctx` is null or points to a writable pointer.
pub unsafe fn from_bytes(mut bytes: &[u8], params: InitParams) -> Result<Context, Failure> {
    let all = bytes;
    let total = all.len() as u64;
    let context = read::context(read::read_head(&mut bytes, total)?, 0, total)?;
    let data = usize::try_from(context.data_offset).ok().and_then(|at| all.get(at..)).unwrap_or_default();
    let mut read = |to: *mut u8, len| {
        let data = data.get(..len).ok_or_else(|| missing(len))?;
        // SAFETY: the memory is guaranteed by the caller of the closure, and does not overlap the buffer.
        unsafe { data.as_ptr().copy_to_nonoverlapping(to, len) };
        Ok(())
    };
    // SAFETY: the parameters are guaranteed by the caller.
    unsafe { with_tensors(context, params, data.len() as u64, &mut read) }
}

/// From a callback: only required bytes are requested, at most `max_chunk` at a time.
///
/// # Safety
/// The callback writes at most the requested number of bytes, and `params.ctx` is null or points to a writable pointer.
pub unsafe fn from_callback(
    callback: Callback,
    userdata: *mut c_void,
    max_chunk: usize,
    total: u64,
    params: InitParams,
) -> Result<Context, Failure> {
    let max_chunk = if max_chunk == 0 { usize::MAX } else { max_chunk };
    let read_raw = |at: u64, to: *mut u8, len: usize| -> Result<(), Failure> {
        let mut done = 0;
        while done < len {
            let n = max_chunk.min(len - done);
            let pos = at.checked_add(done as u64).ok_or_else(|| Failure::new("the file is too long"))?;
            // SAFETY: `to` has this much space left; the callback is guaranteed by the caller.
            let got = unsafe { callback(userdata, to.wrapping_add(done).cast(), pos, n) };
            // A callback that returns more than was requested cannot be trusted.
            if got != n {
                return Err(Failure::at(pos, format_args!("the callback read {got} bytes of {n}")));
            }
            done += n;
        }
        Ok(())
    };
    let head = read::read_head_exactly(total, |at, buf: &mut [u8]| read_raw(at, buf.as_mut_ptr(), buf.len()))?;
    let context = read::context(head, 0, total)?;
    let at = context.data_offset;
    let mut read = |to, len| read_raw(at, to, len);
    // SAFETY: the parameters are guaranteed by the caller.
    unsafe { with_tensors(context, params, total.saturating_sub(at), &mut read) }
}

/// A path from C.
pub fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
