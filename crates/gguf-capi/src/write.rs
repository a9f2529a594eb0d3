//! Writes contexts, with the same bytes as `gguf_write_out` of `gguf.cpp`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gguf_format::{Head, Kv, Str, TensorInfo, Value, ValueRef, ValueType, align_up};
use gguf_io::Output;

use crate::context::{Context, Info};
use crate::failure::Failure;
use crate::ggml::Ggml;

/// The maximum number of bytes to copy at a time from another device.
const PIECE: usize = 16 << 20;

/// The head, and its length including padding: the result of `gguf_get_meta_data`. The caller adds the padding, because the alignment can
/// be up to 2 GiB.
pub fn meta(context: &Context) -> Result<(Vec<u8>, usize), Failure> {
    if let Some(why) = &context.refused {
        return Err(Failure::new(format!("not written, because an earlier change was rejected: {why}")));
    }
    let kvs = context.entries.iter().map(|e| Kv { key: e.key().to_vec(), value: written(e.value()) });
    let tensors = context.tensors.iter().map(|info| {
        let ne = info.tensor.ne.iter().take(info.tensor.n_dims()).map(|&n| n as u64);
        TensorInfo {
            name: info.tensor.name().to_vec(),
            shape: ne.collect(),
            ty: gguf_format::GgmlType(info.tensor.ty),
            offset: info.offset,
        }
    });
    let head = Head { dialect: context.dialect(), kvs: kvs.collect(), tensors: tensors.collect() };
    let bytes = head.encode_as_read()?;
    let padded = align_up(bytes.len() as u64, context.alignment).and_then(|n| usize::try_from(n).ok());
    let padded = padded.ok_or_else(|| Failure::new("the head does not fit into memory"))?;
    Ok((bytes, padded))
}

fn write_zeros(n: u64, out: &mut dyn Write) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), n), out).map(|_| ())
}

/// A value as it is written: a bool other than 0 and 1 becomes 1.
fn written(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Bool(b) => Value::Bool((b != 0).into()),
        ValueRef::Array(a) if a.elem_type() == ValueType::BOOL && a.encoded_bytes().iter().any(|&b| b > 1) => {
            a.encoded_bytes().iter().map(|&b| b != 0).collect::<gguf_format::Array>().into()
        }
        v => v.to_owned(),
    }
}

/// Writes the head and, unless `only_meta`, the data.
pub fn write(context: &Context, out: &mut dyn Write, only_meta: bool) -> Result<(), Failure> {
    let (meta, padded) = meta(context)?;
    if !only_meta {
        // Checked before the first byte, so that no file is left half written.
        context.tensors.iter().try_for_each(writable)?;
    }
    out.write_all(&meta)?;
    write_zeros((padded - meta.len()) as u64, out)?;
    if only_meta {
        return Ok(());
    }
    for info in &context.tensors {
        let bytes = data(info, out)?;
        let padded = align_up(bytes, context.alignment).unwrap_or(bytes);
        write_zeros(padded - bytes, out)?;
    }
    Ok(())
}

fn writable(info: &Info) -> Result<(), Failure> {
    let tensor = &info.tensor;
    let bad = |text: &str| Failure::new(format!("the tensor {} {text}", Str(tensor.name())));
    if !tensor.is_contiguous() {
        return Err(bad("is not contiguous"));
    }
    if tensor.buffer.is_null() && tensor.data.is_null() && tensor.n_bytes() != Some(0) {
        return Err(bad("has no data"));
    }
    Ok(())
}

/// Writes a tensor's data; returns the number of bytes.
fn data(info: &Info, out: &mut dyn Write) -> Result<u64, Failure> {
    let tensor = &info.tensor;
    let n = tensor.n_bytes().and_then(|n| usize::try_from(n).ok());
    let n = n.ok_or_else(|| Failure::new("a tensor does not fit into memory"))?;
    if n == 0 {
        return Ok(0);
    }
    if tensor.buffer.is_null() {
        // SAFETY: guaranteed to be readable by the caller of gguf_set_tensor_data (gguf.h).
        let bytes = unsafe { std::slice::from_raw_parts(tensor.data.cast::<u8>(), n) };
        out.write_all(bytes)?;
        return Ok(n as u64);
    }
    let ggml = Ggml::find()?;
    let mut piece = vec![0; n.min(PIECE)];
    let mut done = 0;
    while done < n {
        let len = piece.len().min(n - done);
        // SAFETY: the tensor is a copy of one of ggml's, whose buffer is as valid as its data; the piece is inside of it.
        unsafe { (ggml.backend_tensor_get)(tensor, piece.as_mut_ptr().cast(), done, len) };
        out.write_all(piece.get(..len).unwrap_or_default())?;
        done += len;
    }
    Ok(n as u64)
}

/// Writes a file that appears once it is complete; a target that is not a regular file, such as a pipe, is written directly.
pub fn write_to_file(context: &Context, path: &Path, only_meta: bool) -> Result<(), Failure> {
    // A link is kept, and its target is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let named = |e: io::Error| Failure::new(format!("{}: {e}", path.display()));
    let there = fs::metadata(&path).ok();
    if there.as_ref().is_some_and(|m| !m.is_file()) {
        let mut file = fs::OpenOptions::new().write(true).open(&path).map_err(named)?;
        return write(context, &mut file, only_meta);
    }
    let output = Output::create(&path, true)?;
    if let Some(there) = there {
        let mode = there.permissions().mode();
        output.file().set_permissions(fs::Permissions::from_mode(mode)).map_err(named)?;
    }
    let mut out = io::BufWriter::with_capacity(1 << 16, output.file());
    let written = write(context, &mut out, only_meta).and_then(|()| Ok(out.flush()?));
    written.map_err(|e| Failure { text: format!("{}: {}", path.display(), e.text), ..e })?;
    drop(out);
    Ok(output.commit()?)
}
