//! Bytes that can be read at any position.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Bytes of a known length that can be read at any position, from any number of threads at once: a file, a
/// [`Map`](crate::Map), memory, or a range of a remote object.
///
/// Contract of implementations:
///
/// * [`size`](ReadAt::size) is constant, and the bytes do not change during the lifetime of the value. A source that cannot prevent changes
///   (another process writes to the file, the object is replaced) returns an error if it can detect one, for example by comparing an ETag
///   with that of the first response. A change must never lead to undefined behaviour.
/// * A read is exact: it fills the whole buffer or fails. A range that ends beyond [`size`](ReadAt::size) is an error of
///   the kind [`io::ErrorKind::UnexpectedEof`], never a short read.
/// * Reads are independent: there is no cursor, and two threads never disturb each other's position.
/// * Errors are final. A source that can retry (a dropped connection, a rate limit) does so before it returns one.
///
/// Only the first two methods are required:
///
/// ```
/// use std::io;
/// use gguf_io::ReadAt;
///
/// /// A source of zeros.
/// #[derive(Debug)]
/// struct Zeros(u64);
///
/// impl ReadAt for Zeros {
///     fn size(&self) -> io::Result<u64> {
///         Ok(self.0)
///     }
///
///     fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
///         match offset.checked_add(buf.len() as u64) {
///             Some(end) if end <= self.0 => Ok(buf.fill(0)),
///             _ => Err(io::ErrorKind::UnexpectedEof.into()),
///         }
///     }
/// }
/// ```
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// The number of bytes. A remote source gets it from its first response.
    ///
    /// # Errors
    /// If the system does not report it.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buf` with the bytes at `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the bytes end before `buf` is full; otherwise the source's own. The content of `buf` is then
    /// unspecified.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Fills a vector with the bytes at `offset`, as [`read_exact_at`](ReadAt::read_exact_at) does, which is the default. A source that has just
    /// these bytes in a vector of its own may exchange the two instead of copying the bytes. The length stays the same.
    ///
    /// # Errors
    /// As for [`read_exact_at`](ReadAt::read_exact_at).
    fn read_vec_at(&self, offset: u64, buf: &mut Vec<u8>) -> io::Result<()> {
        self.read_exact_at(offset, buf)
    }

    /// A stream of the bytes from `offset` to the end, for readers that do not know the required length, such as that of the head. By
    /// default every read of the stream calls [`read_exact_at`](ReadAt::read_exact_at). A remote source should use a single request that
    /// ends when the stream is dropped.
    ///
    /// # Errors
    /// If the stream cannot be opened.
    fn stream(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
        let stream = Stream { source: self, offset, size: self.size()? };
        match self.preferred_read() {
            ..=DEFAULT_READ => Ok(Box::new(stream)),
            bytes => Ok(Box::new(BufReader::with_capacity(bytes, stream))),
        }
    }

    /// The number of bytes that are best read at once, 128 KiB by default, which suits files. Sequential readers of heads and tensors read at
    /// least as much where there is as much. A source in which each read is a request returns some megabytes.
    fn preferred_read(&self) -> usize {
        DEFAULT_READ
    }

    /// All bytes, if they are in memory and immutable during the lifetime of the value; `None` otherwise, which is the default. Data is
    /// then borrowed from the source instead of copied.
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }

    /// The file that contains all bytes, if any; `None` otherwise, which is the default. The kernel then copies data to other files
    /// directly.
    fn as_file(&self) -> Option<&File> {
        None
    }

    /// What distinguishes these bytes from those that the source has at other times, such as an ETag; `None` otherwise, which is the default.
    /// A run continues the work of an earlier one only if the versions of its sources are the same. A remote source that does not know its
    /// version returns a value that no other one has.
    fn version(&self) -> Option<String> {
        None
    }
}

/// The default of [`ReadAt::preferred_read`]: fits the second-level cache together with its decoded values.
pub(crate) const DEFAULT_READ: usize = 128 << 10;

/// A sequential reader from a position.
struct Stream<'a, S: ?Sized> {
    source: &'a S,
    offset: u64,
    size: u64,
}

impl<S: ReadAt + ?Sized> Read for Stream<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let n = left.min(buf.len());
        if n == 0 {
            return Ok(0);
        }
        self.source.read_exact_at(self.offset, buf.get_mut(..n).unwrap_or_default())?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// Does not use the file's position. It moves on Windows; on Unix it only moves if data is copied from a file with holes.
impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn as_file(&self) -> Option<&File> {
        Some(self)
    }

    fn read_exact_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match read_at(self, buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = buf.get_mut(n..).unwrap_or_default();
                    offset = offset.saturating_add(n as u64);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

/// The offset is an argument of the call, so threads do not disturb each other, although each call moves the file's position.
#[cfg(windows)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

/// Targets without positioned reads in the standard library, such as `wasm32-unknown-unknown`, which has no files either.
#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Bytes in memory, also behind [`Arc<[u8]>`](Arc), `Box<[u8]>` and `&'static [u8]`.
impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let part = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)?.get(..buf.len()));
        buf.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// A source of which only the length is known: for heads whose data is not read. Reading is an error of the kind
/// [`Unsupported`](io::ErrorKind::Unsupported).
#[derive(Debug, Clone, Copy)]
pub struct NoData(pub u64);

impl ReadAt for NoData {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Bytes in memory of any other type, such as `bytes::Bytes` or a memory map from another crate.
///
/// ```
/// use gguf_io::{InMemory, ReadAt};
///
/// let source = InMemory(std::borrow::Cow::Borrowed(&b"GGUF"[..]));
/// let mut last = [0; 2];
/// source.read_exact_at(2, &mut last)?;
/// assert_eq!(&last, b"UF");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct InMemory<T>(pub T);

impl<T: AsRef<[u8]>> fmt::Debug for InMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InMemory({} bytes)", self.0.as_ref().len())
    }
}

/// Forwards reads to another source.
macro_rules! forward {
    ($(($($generics:tt)*) $ty:ty, $this:ident => $inner:expr;)*) => { $(
        impl<$($generics)*> ReadAt for $ty {
            fn size(&self) -> io::Result<u64> {
                let $this = self;
                $inner.size()
            }

            fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
                let $this = self;
                $inner.read_exact_at(offset, buf)
            }

            fn read_vec_at(&self, offset: u64, buf: &mut Vec<u8>) -> io::Result<()> {
                let $this = self;
                $inner.read_vec_at(offset, buf)
            }

            fn stream(&self, offset: u64) -> io::Result<Box<dyn Read + '_>> {
                let $this = self;
                $inner.stream(offset)
            }

            fn preferred_read(&self) -> usize {
                let $this = self;
                $inner.preferred_read()
            }

            fn as_bytes(&self) -> Option<&[u8]> {
                let $this = self;
                $inner.as_bytes()
            }

            fn as_file(&self) -> Option<&File> {
                let $this = self;
                $inner.as_file()
            }

            fn version(&self) -> Option<String> {
                let $this = self;
                $inner.version()
            }
        }
    )* };
}

#[cfg(feature = "fs")]
forward! {
    () crate::Map, this => **this;
}

forward! {
    () Vec<u8>, this => this.as_slice();
    (T: AsRef<[u8]> + Send + Sync) InMemory<T>, this => this.0.as_ref();
    (T: ReadAt + ?Sized) &T, this => **this;
    (T: ReadAt + ?Sized) Box<T>, this => **this;
    (T: ReadAt + ?Sized) Arc<T>, this => **this;
}
