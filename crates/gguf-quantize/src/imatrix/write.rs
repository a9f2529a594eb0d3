//! Writes both formats, byte for byte like `llama-imatrix`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use gguf_format::keys;
use gguf_format::{Array, GgmlType, Head, Str, TensorInfo, Value, ValueRef, ValueType};
use gguf_io::{Output, WriteError, Writer};

use super::{Entry, Error, Format, Imatrix, Problem};
use gguf_pipeline::{Error as Failure, Progress};

/// The size of the write buffer.
const BUFFER: usize = 1 << 18;

impl Imatrix {
    /// Writes the matrix in its format.
    ///
    /// # Errors
    /// If the format cannot represent it, for example because a name is too long or there are no entries, or if `out` fails.
    pub fn write<W: Write>(&self, out: W) -> Result<W, Error> {
        if self.entries.is_empty() {
            return Err(Problem::Nothing.into());
        }
        match self.format {
            Format::Gguf => self.write_gguf(out),
            Format::Legacy => self.write_legacy(out),
        }
    }

    /// Writes the matrix to a file, which gets its name when it is complete. The files `inputs` are never replaced, others only if `force` is
    /// set. Only [`is_cancelled`](Progress::is_cancelled) of `progress` is used.
    ///
    /// # Errors
    /// As for [`write`](Imatrix::write); no output is left then, and an existing file is untouched.
    pub fn write_file(
        &self,
        path: &Path,
        inputs: &[&Path],
        force: bool,
        progress: &dyn Progress,
    ) -> Result<(), crate::Error> {
        let is_input = |real: PathBuf| inputs.iter().any(|input| input.canonicalize().is_ok_and(|input| input == real));
        if path.canonicalize().is_ok_and(is_input) {
            return Err(Failure::OverwritesInput { path: path.to_owned() }.into());
        }
        let output = Output::unnamed(path, force).map_err(Failure::from)?;
        let out = BufWriter::with_capacity(BUFFER, Cancellable { out: output.file(), progress });
        let written = self.write(out).and_then(|mut out| Ok(out.flush()?));
        if progress.is_cancelled() {
            return Err(Failure::Cancelled.into());
        }
        written.map_err(|e| e.at(Some(path)))?;
        Ok(output.commit().map_err(Failure::from)?)
    }

    /// `IMatrixCollector::save_imatrix` in `tools/imatrix/imatrix.cpp`.
    fn write_gguf<W: Write>(&self, out: W) -> Result<W, Error> {
        let mut datasets = Array::new(ValueType::STRING);
        for text in &self.datasets {
            datasets.push(ValueRef::String(Str(text))).map_err(|_| Problem::TooLarge)?;
        }
        let mut head = Head::default();
        head.set(keys::GENERAL_TYPE, "imatrix");
        head.set(keys::IMATRIX_DATASETS, Value::Array(datasets));
        head.set(keys::IMATRIX_CHUNK_COUNT, self.chunk_count);
        head.set(keys::IMATRIX_CHUNK_SIZE, self.chunk_size);
        for (name, entry) in &self.entries {
            let (n_sums, n_counts) = shape(name, entry)?;
            // Trailing dimensions of 1 are dropped, except for the first.
            let info = |suffix: &[u8], columns: u64| {
                let shape = if n_counts == 1 { vec![columns] } else { vec![columns, n_counts] };
                TensorInfo::new([name, suffix].concat(), shape, GgmlType::F32)
            };
            head.tensors.push(info(b".in_sum2", n_sums / n_counts));
            head.tensors.push(info(b".counts", 1));
        }
        let mut writer = Writer::new(out, &head).map_err(write_error)?;
        for (entry, tensors) in self.entries.values().zip(head.tensors.chunks(2)) {
            let counts: Vec<f32> = entry.counts.iter().map(|&n| n as f32).collect();
            for (tensor, values) in tensors.iter().zip([&entry.sums, &counts]) {
                let mut tensor = writer.begin(&tensor.name).map_err(write_error)?;
                in_pieces(values, |bytes| Ok(tensor.write_all(bytes)?))?;
                tensor.end().map_err(write_error)?;
            }
        }
        writer.finish().map_err(write_error)
    }

    /// `IMatrixCollector::save_imatrix_legacy` in `tools/imatrix/imatrix.cpp`.
    fn write_legacy<W: Write>(&self, mut out: W) -> Result<W, Error> {
        let number = |out: &mut W, n: usize| -> Result<(), Error> {
            let n = i32::try_from(n).map_err(|_| Problem::TooLarge)?;
            Ok(out.write_all(&n.to_le_bytes())?)
        };
        number(&mut out, self.entries.len())?;
        for (name, entry) in &self.entries {
            let (_, n_counts) = shape(name, entry)?;
            if n_counts != 1 {
                return Err(Error::from(Problem::Sizes { sums: entry.sums.len() as u64, counts: n_counts }).of(name));
            }
            number(&mut out, name.len())?;
            out.write_all(name)?;
            let n_calls = i32::try_from(entry.counts.first().copied().unwrap_or(0)).map_err(|_| Problem::TooLarge)?;
            out.write_all(&n_calls.to_le_bytes())?;
            number(&mut out, entry.sums.len())?;
            in_pieces(&entry.sums, |bytes| Ok(out.write_all(bytes)?))?;
        }
        number(&mut out, usize::try_from(self.chunk_count).unwrap_or(usize::MAX))?;
        let text = self.datasets.last().map_or(&[][..], Vec::as_slice);
        number(&mut out, text.len())?;
        out.write_all(text)?;
        out.flush()?;
        Ok(out)
    }
}

/// Encodes values, in pieces of limited size.
fn in_pieces(values: &[f32], mut write: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let mut bytes = Vec::new();
    for values in values.chunks(BUFFER / 4) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        write(&bytes)?;
    }
    Ok(())
}

/// A writer that fails once the work is cancelled.
struct Cancellable<'a, W> {
    out: W,
    progress: &'a dyn Progress,
}

impl<W: Write> Write for Cancellable<'_, W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.progress.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.out.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The numbers of sums and counts of an entry, if they are consistent.
fn shape(name: &[u8], entry: &Entry) -> Result<(u64, u64), Error> {
    let (sums, counts) = (entry.sums.len() as u64, entry.counts.len() as u64);
    match sums.checked_rem(counts) {
        Some(0) if sums > 0 => Ok((sums, counts)),
        _ => Err(Error::from(Problem::Sizes { sums, counts }).of(name)),
    }
}

fn write_error(e: WriteError) -> Error {
    match e {
        WriteError::Io(e) => e.into(),
        WriteError::Layout(e) => e.into(),
        other => std::io::Error::other(other.to_string()).into(),
    }
}
