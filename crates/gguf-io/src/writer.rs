//! A head and its tensors onto a stream.

use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};

use gguf_format::{Head, Layout, LayoutError};

/// Writes a GGUF in one of the three ways of the format, always to the same bytes:
///
/// * [`Writer::write`]: the whole file in one pass, from tensors that are at hand;
/// * [`Writer::new`]: the head first, then tensor data as it comes;
/// * [`Writer::data_first`]: tensor data first, behind space reserved for the head, and the head last.
///
/// Data is appended in the order of the head's tensors, in pieces of any size; padding is added in between. Finishing
/// before the last byte is an error, as is one byte too many.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    layout: Layout,
    /// End of each tensor's data from the start of the file.
    ends: Vec<u64>,
    next: usize,
    pos: u64,
    head_is_written: bool,
}

/// Why a file could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The stream refused.
    Io(io::Error),
    /// The head cannot be laid out, or changed after it was.
    Layout(LayoutError),
    /// Finished before all tensor data was there.
    Short {
        /// The tensor whose data is not complete.
        tensor: String,
        /// Bytes of tensor data still missing, of this tensor and all after it.
        missing: u64,
    },
    /// More data than the tensors take.
    TooMuch,
    /// Finished without the head, which was to come last.
    NoHead,
}

impl From<io::Error> for WriteError {
    fn from(e: io::Error) -> WriteError {
        WriteError::Io(e)
    }
}

impl From<LayoutError> for WriteError {
    fn from(e: LayoutError) -> WriteError {
        WriteError::Layout(e)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(e) => write!(f, "{e}"),
            WriteError::Layout(e) => write!(f, "{e}"),
            WriteError::Short { tensor, missing } => {
                write!(f, "finished inside tensor {tensor}, {missing} bytes of tensor data are missing")
            }
            WriteError::NoHead => f.write_str("the head was to be written last and was not"),
            WriteError::TooMuch => f.write_str("more tensor data than the head announces"),
        }
    }
}

impl std::error::Error for WriteError {}

impl<W: Write> Writer<W> {
    /// The whole file in one pass: `tensors` gives the data of each tensor, in the order of the head.
    ///
    /// # Errors
    /// [`WriteError`]; among others when a tensor's data has not the size that its type and shape say.
    pub fn write<D: AsRef<[u8]>>(out: W, head: &Head, tensors: impl IntoIterator<Item = D>) -> Result<W, WriteError> {
        let mut writer = Writer::new(out, head)?;
        for (i, data) in tensors.into_iter().enumerate() {
            let data = data.as_ref();
            match writer.tensor_bytes(i) {
                Some(n) if data.len() as u64 == n => writer.append(data)?,
                Some(n) if (data.len() as u64) < n => return Err(writer.short_or(head, WriteError::TooMuch)),
                _ => return Err(WriteError::TooMuch),
            }
        }
        writer.finish(head)
    }

    /// Writes the head; tensor data follows with [`append`](Writer::append).
    ///
    /// # Errors
    /// [`WriteError::Layout`], [`WriteError::Io`].
    pub fn new(mut out: W, head: &Head) -> Result<Writer<W>, WriteError> {
        let layout = head.layout()?;
        out.write_all(&head.encode(&layout)?)?;
        Ok(Writer { head_is_written: true, ..Writer::start(out, head, layout) })
    }

    fn start(out: W, head: &Head, layout: Layout) -> Writer<W> {
        // Sizes and offsets were checked when the layout was made.
        let ends = head.tensors.iter().enumerate();
        let ends = ends.map(|(i, t)| layout.file_offset(i).unwrap_or(0) + t.n_bytes().unwrap_or(0)).collect();
        let pos = layout.data_offset;
        let mut writer = Writer { out, layout, ends, next: 0, pos, head_is_written: false };
        writer.skip_empty();
        writer
    }

    /// Where everything lands.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Appends tensor data; it may end inside a tensor or run over several.
    ///
    /// # Errors
    /// [`WriteError::TooMuch`] after the last tensor, [`WriteError::Io`].
    pub fn append(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let left = self.left();
            if left == 0 {
                return Err(WriteError::TooMuch);
            }
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
            let (now, rest) = data.split_at(n);
            self.out.write_all(now)?;
            self.pos += n as u64;
            data = rest;
            if self.left() == 0 {
                self.next += 1;
                self.skip_empty();
                self.pad()?;
            }
        }
        Ok(())
    }

    /// Bytes that the current tensor still takes.
    fn left(&self) -> u64 {
        self.ends.get(self.next).map_or(0, |end| end.saturating_sub(self.pos))
    }

    /// Tensors without data are complete at once.
    fn skip_empty(&mut self) {
        while self.tensor_bytes(self.next) == Some(0) {
            self.next += 1;
        }
    }

    /// Bytes of the data of tensor `i`.
    fn tensor_bytes(&self, i: usize) -> Option<u64> {
        self.ends.get(i)?.checked_sub(self.layout.file_offset(i)?)
    }

    /// Zeros up to where the next tensor starts, or the file ends.
    fn pad(&mut self) -> Result<(), WriteError> {
        let to = self.layout.file_offset(self.next).unwrap_or(self.layout.file_bytes);
        io::copy(&mut io::Read::take(io::repeat(0), to.saturating_sub(self.pos)), &mut self.out)?;
        self.pos = self.pos.max(to);
        Ok(())
    }

    fn short_or(&self, head: &Head, otherwise: WriteError) -> WriteError {
        let Some(tensor) = head.tensors.get(self.next) else { return otherwise };
        let later = head.tensors.iter().skip(self.next + 1).map(|t| t.n_bytes().unwrap_or(0)).sum::<u64>();
        let tensor = gguf_format::Str(&tensor.name).to_string();
        WriteError::Short { tensor, missing: self.left() + later }
    }

    /// Ends the file and gives the stream back, flushed.
    ///
    /// # Errors
    /// [`WriteError::Short`] when tensor data is missing, [`WriteError::NoHead`] when the head was to come last,
    /// [`WriteError::Io`].
    pub fn finish(mut self, head: &Head) -> Result<W, WriteError> {
        if self.next < self.ends.len() {
            return Err(self.short_or(head, WriteError::TooMuch));
        }
        if !self.head_is_written {
            return Err(WriteError::NoHead);
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Reserves the space of the head at the stream's start; tensor data follows with [`append`](Writer::append), and
    /// the head comes last, with [`finish_with_head`](Writer::finish_with_head).
    ///
    /// # Errors
    /// [`WriteError::Layout`], [`WriteError::Io`].
    pub fn data_first(mut out: W, head: &Head) -> Result<Writer<W>, WriteError> {
        let layout = head.layout()?;
        out.seek(SeekFrom::Start(layout.data_offset))?;
        Ok(Writer::start(out, head, layout))
    }

    /// Writes the head into the space reserved for it. Its values may differ from those announced, as long as every size
    /// is the same.
    ///
    /// # Errors
    /// [`WriteError::Short`] when tensor data is missing, [`LayoutError::Changed`] when the head does not fit its space.
    pub fn finish_with_head(mut self, head: &Head) -> Result<W, WriteError> {
        let bytes = head.encode(&self.layout)?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&bytes)?;
        self.head_is_written = true;
        self.finish(head)
    }
}
