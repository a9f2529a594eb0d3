//! Errors of PyTorch files.

use std::fmt;
use std::io;

use gguf_format::FileKind;

/// Why a PyTorch file cannot be read.
#[derive(Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the numbers and names of the message")]
pub enum TorchError {
    /// Reading failed with an I/O error.
    Io(io::Error),
    /// The file is not in a PyTorch format.
    NotTorch(FileKind),
    /// A zip archive not written by `torch.save`.
    Zip(ZipProblem),
    /// A pickle that is invalid or has unsupported content.
    Pickle(PickleError),
    /// The storage of a tensor is not in the file.
    NoStorage { tensor: String, key: String },
    /// The storage of a tensor differs in size from the pickle's description.
    StorageSize { key: String, found: u64, expected: u64 },
    /// A storage of a file in the old format is not listed in the pickle.
    UnknownStorage { at: u64, key: String },
    /// A tensor reaches past the end of its storage.
    OutOfStorage { tensor: String, key: String, last: u64, elements: u64 },
    /// A tensor with many times more elements than its storage.
    Expanded { tensor: String, elements: u64, stored: u64 },
    /// The size of a tensor overflows.
    Size { tensor: String, shape: Vec<u64> },
    /// The file does not contain a dictionary of tensors; the keys are the first of its content.
    NoTensors { keys: Vec<String> },
    /// The name of a tensor is too long.
    LongName { start: String, max: usize },
    /// The file was written on a machine with a different byte order.
    BigEndian,
    /// An unknown version of the format.
    Version { found: String },
}

/// An error in a pickle, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickleError {
    /// The offset of the instruction in the file.
    pub at: u64,
    /// The error.
    pub problem: PickleProblem,
}

/// An error in an instruction of a pickle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the numbers and names of the message")]
pub enum PickleProblem {
    /// The pickle is truncated.
    Truncated { wanted: u64, left: u64 },
    /// It does not start with a protocol that `torch.save` writes.
    Protocol { found: u8 },
    /// An unsupported instruction.
    Opcode { opcode: u8, name: &'static str },
    /// A class or function that is not on the list of allowed ones.
    Global { module: String, name: String },
    /// The called value is not an allowed function.
    Call { found: &'static str },
    /// An operand of the wrong type.
    Expected { expected: &'static str, found: &'static str },
    /// Stack underflow.
    EmptyStack,
    /// There is no mark on the stack.
    NoMark,
    /// A memo entry is read that was not stored.
    NoMemo { index: u32 },
    /// Text that is not UTF-8.
    NotUtf8,
    /// An unterminated name.
    LongLine { max: usize },
    /// Too many instructions.
    TooLong { max: u64 },
    /// Too many bytes.
    TooLarge { max: u64 },
    /// A number that is negative or does not fit 64 bits.
    Number { what: &'static str },
    /// Shape and strides of a tensor differ in length.
    Strides { shape: usize, strides: usize },
    /// Too many tensors.
    TooManyDimensions { max: usize },
    /// Too many storages.
    TooManyStorages { max: usize },
    /// Too many values.
    TooManyValues { max: usize },
    /// Too many lists and dictionaries with elements.
    TooManyLists { max: usize },
    /// A tensor function is called with missing arguments.
    Arguments { found: usize },
    /// More dimensions than PyTorch allows.
    Dimensions { found: usize, max: usize },
    /// A storage that is a view of another, as PyTorch wrote before 2017.
    ViewedStorage,
}

/// An error in a zip archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are the numbers and names of the message")]
pub enum ZipProblem {
    /// The end of the archive is missing.
    NoEnd,
    /// A record does not start with its signature.
    Signature { at: u64, what: &'static str },
    /// A record extends beyond the enclosing data.
    Truncated { at: u64, what: &'static str },
    /// The central directory is too large.
    DirectoryTooLarge { found: u64, max: u64 },
    /// The central directory is not at the offset in the end record.
    Directory { at: u64, bytes: u64, end: u64 },
    /// The number of members differs from the end record.
    Count { found: u64, expected: u64 },
    /// The archive is split into several files.
    Spanned,
    /// A name that is not UTF-8.
    Name { at: u64 },
    /// Two members have the same name.
    Duplicate { name: String },
    /// A member is encrypted.
    Encrypted { name: String },
    /// A member is compressed.
    Compressed { name: String, method: u16 },
    /// The sizes of a member differ though it is not compressed.
    Sizes { name: String, stored: u64, size: u64 },
    /// The local header of a member disagrees with the central directory.
    LocalHeader { at: u64, name: String },
    /// Two members overlap.
    Overlap { first: String, second: String, at: u64 },
    /// A required member is missing.
    Missing { name: &'static str },
    /// The archive contains a TorchScript program.
    TorchScript,
    /// A member that is read into memory is too large.
    TooLarge { name: String, found: u64, max: u64 },
}

impl From<PickleError> for TorchError {
    fn from(e: PickleError) -> TorchError {
        TorchError::Pickle(e)
    }
}

impl From<ZipProblem> for TorchError {
    fn from(e: ZipProblem) -> TorchError {
        TorchError::Zip(e)
    }
}

/// A name from a file, shortened for a message.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 100;
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{:?}...", self.0.get(..end).unwrap_or_default()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl fmt::Display for TorchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TorchError::Io(e) => write!(f, "cannot read: {e}"),
            TorchError::NotTorch(FileKind::GitLfsPointer) => {
                f.write_str("a git-lfs pointer, not the file itself; fetch it with git lfs pull")
            }
            TorchError::NotTorch(FileKind::Pickle) => f.write_str(
                "a Python pickle that torch.save did not write; only files of torch.save are read",
            ),
            TorchError::NotTorch(FileKind::Tar) => f.write_str(
                "a tar archive, as PyTorch wrote before 2017; load it and save it again with a current PyTorch",
            ),
            TorchError::NotTorch(kind) => write!(f, "not a PyTorch file but {kind}; {}", kind.hint()),
            TorchError::Zip(problem) => write!(f, "{problem}"),
            TorchError::Pickle(e) => write!(f, "{e}"),
            TorchError::NoStorage { tensor, key } => {
                write!(f, "the tensor {} has its data in the storage {}, which the file does not have", Name(tensor), Name(key))
            }
            TorchError::StorageSize { key, found, expected } => write!(
                f,
                "the storage {} has {found} bytes, expected {expected}; the file is truncated or damaged, fetch it again",
                Name(key)
            ),
            TorchError::UnknownStorage { at, key } => {
                write!(f, "byte {at}: data of the storage {}, which no tensor has", Name(key))
            }
            TorchError::OutOfStorage { tensor, key, last, elements } => write!(
                f,
                "the tensor {} reaches to element {last} of the storage {}, which has {elements}",
                Name(tensor),
                Name(key)
            ),
            TorchError::Expanded { tensor, elements, stored } => write!(
                f,
                "the tensor {} repeats {stored} stored values as {elements}; save it as a contiguous tensor",
                Name(tensor)
            ),
            TorchError::Size { tensor, shape } => {
                write!(f, "the tensor {} of shape {shape:?} has no size below 2^63 bytes", Name(tensor))
            }
            TorchError::NoTensors { keys } if keys.is_empty() => f.write_str("the file holds no tensors by name"),
            TorchError::NoTensors { keys } => {
                f.write_str("the file holds no tensors by name, only ")?;
                for (i, key) in keys.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { "" } else { ", " }, Name(key))?;
                }
                f.write_str("; save the model's state_dict")
            }
            TorchError::LongName { start, max } => {
                write!(f, "the name of a tensor that begins with {} has more than {max} bytes", Name(start))
            }
            TorchError::BigEndian => {
                f.write_str("the data is in big-endian byte order, expected little-endian; save the file again on a little-endian machine")
            }
            TorchError::Version { found } => {
                write!(f, "version {} of PyTorch's old format, expected 1001", Name(found))
            }
        }
    }
}

impl std::error::Error for TorchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TorchError::Io(e) => e.source(),
            _ => None,
        }
    }
}

impl fmt::Display for PickleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.problem)
    }
}

impl fmt::Display for PickleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PickleProblem::Truncated { wanted, left } => {
                write!(f, "the pickle needs {wanted} more bytes and has {left}; the file is truncated or damaged")
            }
            PickleProblem::Protocol { found } => write!(f, "pickle protocol {found}, expected 2 to 5"),
            PickleProblem::Opcode { opcode, name: "" } => {
                write!(f, "0x{opcode:02x} is not a pickle instruction")
            }
            PickleProblem::Opcode { opcode, name } => {
                write!(f, "the instruction {name} (0x{opcode:02x}) is refused: torch.save does not write it")
            }
            PickleProblem::Global { module, name } => write!(
                f,
                "{} of the module {} is refused; only tensors, plain containers and numbers are read, and nothing is executed",
                Name(name),
                Name(module)
            ),
            PickleProblem::Call { found } => write!(f, "{found} is called, expected a function that builds a tensor"),
            PickleProblem::Expected { expected, found } => write!(f, "{found} where {expected} is expected"),
            PickleProblem::EmptyStack => f.write_str("an instruction needs a value, and the stack has none"),
            PickleProblem::NoMark => f.write_str("an instruction needs a mark, and the stack has none"),
            PickleProblem::NoMemo { index } => write!(f, "value {index} is read from the memo, but was never stored"),
            PickleProblem::NotUtf8 => f.write_str("text that is not UTF-8"),
            PickleProblem::LongLine { max } => write!(f, "a name of more than {max} bytes"),
            PickleProblem::TooLong { max } => write!(f, "more than {max} instructions"),
            PickleProblem::TooLarge { max } => write!(f, "the pickle has more than {max} bytes"),
            PickleProblem::Number { what } => write!(f, "{what} is negative or does not fit 64 bits"),
            PickleProblem::Strides { shape, strides } => {
                write!(f, "a tensor with {shape} dimensions and {strides} strides")
            }
            PickleProblem::TooManyDimensions { max } => write!(f, "tensors with more than {max} dimensions together"),
            PickleProblem::TooManyStorages { max } => write!(f, "more than {max} storages"),
            PickleProblem::TooManyValues { max } => write!(f, "more than {max} values"),
            PickleProblem::TooManyLists { max } => write!(f, "more than {max} lists and dictionaries with elements"),
            PickleProblem::Arguments { found } => {
                write!(f, "a tensor is built from {found} values, which is too few")
            }
            PickleProblem::Dimensions { found, max } => write!(f, "a tensor with {found} dimensions, expected at most {max}"),
            PickleProblem::ViewedStorage => f.write_str(
                "a storage that is a view of another, as PyTorch wrote before 2017; save the file again with a current PyTorch",
            ),
        }
    }
}

impl std::error::Error for PickleError {}

impl fmt::Display for ZipProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ZipProblem::NoEnd => {
                f.write_str("the zip archive has no directory at its end; the file is truncated, fetch it again")
            }
            ZipProblem::Signature { at, what } => write!(f, "byte {at}: expected {what} of the zip archive"),
            ZipProblem::Truncated { at, what } => write!(f, "byte {at}: {what} of the zip archive is truncated"),
            ZipProblem::DirectoryTooLarge { found, max } => {
                write!(f, "the directory of the zip archive has {found} bytes, expected at most {max}")
            }
            ZipProblem::Directory { at, bytes, end } => write!(
                f,
                "the directory of the zip archive has {bytes} bytes from byte {at} on, expected it to end at byte {end}"
            ),
            ZipProblem::Count { found, expected } => {
                write!(f, "the directory of the zip archive has {found} members, expected {expected}")
            }
            ZipProblem::Spanned => f.write_str("the zip archive is one of several files; join them first"),
            ZipProblem::Name { at } => write!(f, "byte {at}: a name in the zip archive is not UTF-8"),
            ZipProblem::Duplicate { name } => write!(f, "the zip archive has the member {} twice", Name(name)),
            ZipProblem::Encrypted { name } => write!(f, "the member {} of the zip archive is encrypted", Name(name)),
            ZipProblem::Compressed { name, method } => write!(
                f,
                "the member {} of the zip archive is compressed (method {method}); PyTorch stores its files uncompressed, \
                 unpack the archive and pack it anew without compression",
                Name(name)
            ),
            ZipProblem::Sizes { name, stored, size } => {
                write!(f, "the member {} of the zip archive takes {stored} bytes, but its size is {size}", Name(name))
            }
            ZipProblem::LocalHeader { at, name } => {
                write!(f, "byte {at}: expected the header of the member {} of the zip archive", Name(name))
            }
            ZipProblem::Overlap { first, second, at } => {
                write!(f, "byte {at}: the members {} and {} of the zip archive overlap", Name(first), Name(second))
            }
            ZipProblem::Missing { name } => {
                write!(f, "a zip archive without {name}, so not a file of torch.save")
            }
            ZipProblem::TorchScript => f.write_str(
                "a TorchScript archive, which is a program; save the model's state_dict with torch.save instead",
            ),
            ZipProblem::TooLarge { name, found, max } => {
                write!(f, "the member {} of the zip archive has {found} bytes, expected at most {max}", Name(name))
            }
        }
    }
}
