//! Writes a head and its tensors to a stream.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use gguf_format::{Head, LayoutError, Str, Value};

/// Writes a GGUF to any stream, in one of three ways, always with the same bytes:
///
/// * [`Writer::write`]: the whole file in one pass, from available tensors;
/// * [`Writer::new`]: the head first, then tensors one by one;
/// * [`Writer::data_first`]: tensors first, after space reserved for the head, which [`finish`](Writer::finish) writes.
///
/// Offsets, sizes and padding follow from the head. Every tensor is given by name, in the order of the head, with exactly the bytes of its
/// type and shape; anything else is an immediate error.
///
/// ```
/// # fn main() -> Result<(), gguf_io::WriteError> {
/// use gguf_format::{GgmlType, Head, TensorInfo};
/// use gguf_io::Writer;
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// head.tensors.push(TensorInfo::new("output_norm.weight", [2], GgmlType::F32));
///
/// let mut writer = Writer::new(Vec::new(), &head)?;
/// writer.tensor("output_norm.weight", &[0, 0, 128, 63, 0, 0, 128, 63])?;
/// let bytes = writer.finish()?;
/// assert_eq!(bytes.len() % 32, 0);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    places: Vec<TensorSpan>,
    file_bytes: u64,
    /// The next or current tensor.
    next: usize,
    /// Bytes of the file so far; of the data section, if the head is written last.
    pos: u64,
    late: Option<Late<W>>,
    /// The stream has failed, so the written length is unknown.
    is_broken: bool,
}

/// The place of a tensor.
#[derive(Debug)]
struct TensorSpan {
    name: Vec<u8>,
    /// The start of its data, from the start of the file.
    start: u64,
    end: u64,
}

/// A head to be written last.
struct Late<W> {
    head: Head,
    data_offset: u64,
    write: fn(&mut W, &Plan) -> io::Result<()>,
}

impl<W> fmt::Debug for Late<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").field("data_offset", &self.data_offset).finish_non_exhaustive()
    }
}

/// The layout derived from a head: its bytes, the start of the data section, and the places of tensors.
struct Plan {
    head: Vec<u8>,
    data_offset: u64,
    places: Vec<TensorSpan>,
    file_bytes: u64,
}

impl Plan {
    fn of(head: &Head) -> Result<Plan, LayoutError> {
        let layout = head.layout()?;
        let places = head.tensors.iter().enumerate().map(|(i, t)| {
            // Sizes and offsets were checked when the layout was created.
            let start = layout.file_offset(i).unwrap_or(0);
            TensorSpan { name: t.name.clone(), start, end: start + t.n_bytes().unwrap_or(0) }
        });
        let (places, data_offset, file_bytes) = (places.collect(), layout.data_offset(), layout.file_bytes());
        Ok(Plan { places, head: layout.into_head(), data_offset, file_bytes })
    }

    /// Writes the head and its padding, which may be much longer.
    fn write_head(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        zeros(self.data_offset.saturating_sub(self.head.len() as u64), |zeros| out.write_all(zeros))
    }
}

/// Calls `write` with this many zeros, in pieces.
fn zeros<E>(mut n: u64, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    const ZEROS: [u8; 4096] = [0; 4096];
    while n > 0 {
        let piece = ZEROS.get(..usize::try_from(n).unwrap_or(ZEROS.len())).unwrap_or(&ZEROS);
        write(piece)?;
        n -= piece.len() as u64;
    }
    Ok(())
}

impl<W: Write> Writer<W> {
    /// Writes the whole file in one pass: `tensors` provides the data of each tensor, in the order of the head.
    ///
    /// # Errors
    /// [`WriteError`], for example if the size of a tensor's data does not match its type and shape.
    pub fn write<D: AsRef<[u8]>>(out: W, head: &Head, tensors: impl IntoIterator<Item = D>) -> Result<W, WriteError> {
        let mut writer = Writer::new(out, head)?;
        for data in tensors {
            let name = writer.places.get(writer.next).ok_or(WriteError::TooMany { tensors: writer.next })?.name.clone();
            writer.tensor(name, data.as_ref())?;
        }
        writer.finish()
    }

    /// Writes the head; the tensors follow.
    ///
    /// # Errors
    /// [`WriteError::Layout`], [`WriteError::Io`].
    pub fn new(mut out: W, head: &Head) -> Result<Writer<W>, WriteError> {
        let plan = Plan::of(head)?;
        plan.write_head(&mut out)?;
        Ok(Writer::start(out, plan, None))
    }

    fn start(out: W, plan: Plan, late: Option<Late<W>>) -> Writer<W> {
        let pos = plan.data_offset;
        Writer { out, places: plan.places, file_bytes: plan.file_bytes, next: 0, pos, late, is_broken: false }
    }

    /// Size of the complete file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Writes the next tensor.
    ///
    /// # Errors
    /// [`WriteError::Order`] if another tensor is next, [`WriteError::Size`] if the data has the wrong size; nothing is written then, and
    /// the right tensor can follow. Otherwise [`WriteError::Io`].
    pub fn tensor(&mut self, name: impl AsRef<[u8]>, data: &[u8]) -> Result<(), WriteError> {
        let needed = self.turn(name.as_ref())?;
        if data.len() as u64 != needed {
            return Err(self.size(self.next, needed, data.len() as u64));
        }
        self.put(data)?;
        self.end()
    }

    /// Writes the next tensor with bytes from a reader, which is read only as far as the tensor needs.
    ///
    /// # Errors
    /// As [`tensor`](Writer::tensor). A reader that ends early leaves the tensor incomplete: the file cannot be finished.
    pub fn tensor_from(&mut self, name: impl AsRef<[u8]>, reader: impl Read) -> Result<(), WriteError> {
        let mut tensor = self.begin(name)?;
        let needed = tensor.left();
        io::copy(&mut reader.take(needed), &mut tensor)?;
        tensor.end()
    }

    /// Begins the next tensor, whose data comes in pieces.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use gguf_format::{GgmlType, Head, TensorInfo};
    /// # let mut head = Head::default();
    /// # head.tensors.push(TensorInfo::new("output_norm.weight", [2], GgmlType::F32));
    /// # let mut writer = gguf_io::Writer::new(Vec::new(), &head)?;
    /// use std::io::Write;
    ///
    /// let mut tensor = writer.begin("output_norm.weight")?;
    /// for value in [1.0f32, 2.0] {
    ///     tensor.write_all(&value.to_le_bytes())?;
    /// }
    /// tensor.end()?;
    /// # writer.finish()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WriteError::Order`] if another tensor is next; [`WriteError::Io`].
    pub fn begin(&mut self, name: impl AsRef<[u8]>) -> Result<TensorWriter<'_, W>, WriteError> {
        let (tensor, needed) = (self.next, self.turn(name.as_ref())?);
        if needed == 0 {
            self.end()?;
        }
        Ok(TensorWriter { writer: self, tensor, needed, left: needed })
    }

    /// Finishes the file, including a head that is written last, and returns the flushed stream.
    ///
    /// # Errors
    /// [`WriteError::Short`] if tensor data is missing; [`WriteError::Io`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.usable()?;
        if let Some(place) = self.places.get(self.next) {
            let later = self.places.iter().skip(self.next + 1).map(|p| p.end - p.start);
            let missing = later.fold(place.end.saturating_sub(self.pos), u64::saturating_add);
            return Err(WriteError::Short { tensor: printable(&place.name), missing });
        }
        if let Some(late) = self.late {
            (late.write)(&mut self.out, &Plan::of(&late.head)?)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Checks that a tensor is next; returns the size of its data.
    fn turn(&self, name: &[u8]) -> Result<u64, WriteError> {
        self.usable()?;
        match self.places.get(self.next) {
            Some(place) if self.pos > place.start => {
                Err(WriteError::Short { tensor: printable(&place.name), missing: place.end.saturating_sub(self.pos) })
            }
            Some(place) if place.name == name => Ok(place.end - place.start),
            place => Err(WriteError::Order { expected: place.map(|p| printable(&p.name)), given: printable(name) }),
        }
    }

    fn usable(&self) -> Result<(), WriteError> {
        if self.is_broken { Err(WriteError::Broken) } else { Ok(()) }
    }

    fn put(&mut self, data: &[u8]) -> Result<(), WriteError> {
        self.usable()?;
        self.is_broken = true;
        self.out.write_all(data)?;
        self.is_broken = false;
        self.pos += data.len() as u64;
        Ok(())
    }

    /// Ends a complete tensor: writes zeros up to the start of the next one, or the end of the file.
    fn end(&mut self) -> Result<(), WriteError> {
        self.next += 1;
        let to = self.places.get(self.next).map_or(self.file_bytes, |place| place.start);
        zeros(to.saturating_sub(self.pos), |zeros| self.put(zeros))
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Reserves the space of the head at the start of the stream. The tensors follow, and [`finish`](Writer::finish) writes the head. Until
    /// then its values can be [set](Writer::set), as long as its size does not change.
    ///
    /// # Errors
    /// [`WriteError::Layout`], [`WriteError::Io`].
    pub fn data_first(mut out: W, head: Head) -> Result<Writer<W>, WriteError> {
        let plan = Plan::of(&head)?;
        let data_offset = plan.data_offset;
        out.seek(SeekFrom::Start(data_offset))?;
        let write = |out: &mut W, plan: &Plan| {
            out.seek(SeekFrom::Start(0))?;
            plan.write_head(out)
        };
        Ok(Writer::start(out, plan, Some(Late { head, data_offset, write })))
    }
}

impl<W> Writer<W> {
    fn size(&self, tensor: usize, needed: u64, given: u64) -> WriteError {
        let tensor = self.places.get(tensor).map(|p| printable(&p.name)).unwrap_or_default();
        WriteError::Size { tensor, needed, given }
    }

    /// Changes a value of a head that is written last, for values that are only known after the tensors.
    ///
    /// # Errors
    /// [`WriteError::HeadIsWritten`] if the head was written first; [`LayoutError::Changed`] if it would no longer fit its space;
    /// [`WriteError::Layout`] if the value cannot be written. The head is then unchanged.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<(), WriteError> {
        let late = self.late.as_mut().ok_or(WriteError::HeadIsWritten)?;
        let mut head = late.head.clone();
        head.set(key, value);
        // Tensors cannot change, so they keep their places if the data section does.
        if Plan::of(&head)?.data_offset != late.data_offset {
            return Err(WriteError::Layout(LayoutError::Changed));
        }
        late.head = head;
        Ok(())
    }
}

/// A tensor written in pieces of any size, as a [`Write`]; see [`Writer::begin`].
///
/// A write beyond the tensor's size is rejected as a whole. If a tensor is dropped before all its bytes are written, the file cannot be
/// finished; [`end`](TensorWriter::end) reports this immediately.
#[derive(Debug)]
pub struct TensorWriter<'w, W> {
    writer: &'w mut Writer<W>,
    tensor: usize,
    needed: u64,
    left: u64,
}

impl<W> TensorWriter<'_, W> {
    /// Number of missing bytes.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Ends the tensor.
    ///
    /// # Errors
    /// [`WriteError::Size`] if bytes are missing.
    pub fn end(self) -> Result<(), WriteError> {
        if self.left > 0 { Err(self.size(self.needed - self.left)) } else { Ok(()) }
    }

    fn size(&self, given: u64) -> WriteError {
        self.writer.size(self.tensor, self.needed, given)
    }
}

/// Errors of this writer are [`io::Error`]s that contain a [`WriteError`]; `?` in a function that returns [`WriteError`] extracts it.
impl<W: Write> Write for TensorWriter<'_, W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let given = data.len() as u64;
        let written = match self.left.checked_sub(given) {
            None => Err(self.size((self.needed - self.left).saturating_add(given))),
            Some(left) => self.writer.put(data).and_then(|()| {
                self.left = left;
                // Only padding follows the last byte, so calling `end` is optional.
                if left == 0 && given > 0 { self.writer.end() } else { Ok(()) }
            }),
        };
        match written {
            Ok(()) => Ok(data.len()),
            Err(WriteError::Io(e)) => Err(e),
            Err(e) => Err(io::Error::new(io::ErrorKind::InvalidInput, e)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.out.flush()
    }
}

fn printable(name: &[u8]) -> String {
    Str(name).to_string()
}

/// Why a file could not be written. As with [`Error`](crate::Error), the message includes that of the cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The stream failed.
    Io(io::Error),
    /// The head cannot be laid out, or no longer fits the space reserved for it.
    Layout(LayoutError),
    /// Another tensor is next.
    Order {
        /// The next tensor; `None` after the last one.
        expected: Option<String>,
        /// The given tensor.
        given: String,
    },
    /// The size of a tensor's data does not match its type and shape.
    Size {
        /// The tensor.
        tensor: String,
        /// Bytes of its data.
        needed: u64,
        /// Given bytes.
        given: u64,
    },
    /// Data for more tensors than the head has.
    TooMany {
        /// Tensors of the head.
        tensors: usize,
    },
    /// Finished or continued before all data was written.
    Short {
        /// The first tensor with incomplete data.
        tensor: String,
        /// Missing bytes of tensor data: when finishing, of this tensor and all after it.
        missing: u64,
    },
    /// The head was written first, so its values cannot change.
    HeadIsWritten,
    /// The stream failed earlier, so the written length is unknown.
    Broken,
}

impl From<io::Error> for WriteError {
    fn from(e: io::Error) -> WriteError {
        e.downcast::<WriteError>().unwrap_or_else(WriteError::Io)
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
            WriteError::Order { expected: Some(expected), given } => {
                write!(f, "tensor {given} out of order: the next one is {expected}")
            }
            WriteError::Order { expected: None, given } => {
                write!(f, "tensor {given} out of order: all tensors are written")
            }
            WriteError::Size { tensor, needed, given } => {
                write!(f, "tensor {tensor}: {given} bytes given, its type and shape need {needed}")
            }
            WriteError::TooMany { tensors } => write!(f, "data for more tensors than the {tensors} of the head"),
            WriteError::Short { tensor, missing } => {
                write!(f, "tensor {tensor} is not complete, {missing} bytes of tensor data are missing")
            }
            WriteError::HeadIsWritten => f.write_str("the head is written already"),
            WriteError::Broken => f.write_str("the output failed earlier"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io(e) => e.source(),
            WriteError::Layout(e) => e.source(),
            _ => None,
        }
    }
}
