//! A GGUF as source: one file, or all shards of one.

use std::path::{Path, PathBuf};

use gguf_format::{ByteOrder, TensorInfo, swap_blocks};
use gguf_io::Model;

use super::Source;
use crate::error::Error;

/// The tensors of a model in GGUF, open for reading.
#[derive(Debug)]
pub struct GgufSource {
    model: Model,
    tensors: Vec<TensorInfo>,
    places: Vec<Place>,
}

/// Where a tensor's data lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    file: usize,
    offset: u64,
    bytes: u64,
}

impl GgufSource {
    /// Opens the model that `path` belongs to, with all its shards.
    ///
    /// # Errors
    /// When a file cannot be read or is no sound GGUF, when a shard is missing, and when the data of a tensor is not whole.
    pub fn open(path: &Path) -> Result<GgufSource, Error> {
        let model = Model::open(path).map_err(Error::input)?;
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        for (file, opened) in model.files().iter().enumerate() {
            for tensor in opened.gguf().tensors() {
                let bad = |problem: String| {
                    let name = tensor.name.to_string();
                    Error::input(gguf_io::Error::Tensor { path: opened.path().to_owned(), name, problem })
                };
                let range = opened.gguf().tensor_range(&tensor).map_err(|e| bad(e.to_string()))?;
                if range.end > opened.file_bytes() {
                    let (end, len) = (range.end, opened.file_bytes());
                    return Err(bad(format!(
                        "its data ends at byte {end}, the file at byte {len}; {} bytes are missing",
                        end - len
                    )));
                }
                places.push(Place { file, offset: range.start, bytes: range.end - range.start });
                tensors.push(tensor.to_owned());
            }
        }
        Ok(GgufSource { model, tensors, places })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tensors of all files, in order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The number of the file that each tensor is in, from 0, and where in it the data starts.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, u64)> {
        self.places.iter().map(|place| (place.file, place.offset))
    }

    /// The real paths of the files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.model.files().iter().filter_map(|f| f.path().canonicalize().ok())
    }
}

impl Source for GgufSource {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let place = self.places.get(index).copied();
        let whole = place.filter(|p| offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= p.bytes));
        let found = whole.and_then(|p| Some((p, self.model.files().get(p.file)?, self.tensors.get(index)?)));
        let Some((place, file, tensor)) = found else {
            let tensor = self.tensors.get(index).map(|t| String::from_utf8_lossy(&t.name).into_owned());
            let bytes = place.map_or(0, |p| p.bytes);
            return Err(Error::OutOfTensor { tensor: tensor.unwrap_or_else(|| format!("number {index}")), bytes });
        };
        file.read_at(place.offset + offset, buffer).map_err(Error::input)?;
        if file.gguf().dialect().order == ByteOrder::Big {
            let unknown = |_| Error::NoCodec { tensor: String::from_utf8_lossy(&tensor.name).into_owned() };
            swap_blocks(tensor.ty, buffer).map_err(unknown)?;
        }
        Ok(())
    }
}
