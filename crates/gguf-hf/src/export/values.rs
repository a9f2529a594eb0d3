//! The values of a model's tensors: as they are stored, and decoded.

use std::ops::Range;
use std::sync::Arc;

use gguf_format::GgmlType;
use gguf_pipeline::{Error, GgufSource, Source, SourceRead, SourceVersion, Stored};
use gguf_quants::codec::codec;

use crate::number::to_index;

/// The tensors of a model twice: first as they are stored, then in the same order in single precision.
#[derive(Debug)]
pub(super) struct Values {
    stored: Arc<GgufSource>,
    n_tensors: usize,
}

/// The bytes of a value in single precision.
const WIDTH: u64 = 4;

impl Values {
    pub(super) fn new(stored: Arc<GgufSource>) -> Values {
        let n_tensors = stored.n_tensors();
        Values { stored, n_tensors }
    }

    /// The stored tensor, and whether its values are decoded.
    fn find(&self, index: usize) -> (usize, bool) {
        match index.checked_sub(self.n_tensors) {
            Some(stored) => (stored, true),
            None => (index, false),
        }
    }

    fn type_of(&self, stored: usize) -> GgmlType {
        self.stored.tensor(stored).map_or(GgmlType::F32, |tensor| tensor.ty())
    }

    /// The bytes of the blocks with the values in a range of bytes in single precision, and the number of values before these in the first.
    fn blocks(&self, stored: usize, range: Range<u64>) -> Option<(Range<u64>, usize, usize)> {
        let info = self.type_of(stored).info()?;
        let (len, bytes) = (u64::from(info.block_len).max(1), u64::from(info.block_bytes));
        let (first, end) = (range.start / WIDTH, range.end.div_ceil(WIDTH));
        let (first_block, end_block) = (first / len, end.div_ceil(len));
        let n_values = to_index((end_block - first_block) * len);
        Some((first_block * bytes..end_block * bytes, to_index(first - first_block * len), n_values))
    }
}

impl Source for Values {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let (stored, is_decoded) = self.find(index);
        if !is_decoded {
            return self.stored.read(stored, offset, buffer);
        }
        let name = || self.stored.tensor(stored).map_or_else(String::new, |tensor| tensor.name().to_string());
        let refused = || Error::NoCodec { tensor: name() };
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let (blocks, skipped, n_values) = self.blocks(stored, range).ok_or_else(refused)?;
        let mut packed = vec![0; to_index(blocks.end - blocks.start)];
        self.stored.read(stored, blocks.start, &mut packed)?;
        let mut values = vec![0.0; n_values];
        let codec = codec(self.type_of(stored)).ok_or_else(refused)?;
        codec.decode(&packed, &mut values).map_err(|source| Error::Codec { tensor: name(), row: 0, source })?;
        for (place, value) in buffer.as_chunks_mut::<4>().0.iter_mut().zip(values.iter().skip(skipped)) {
            *place = value.to_le_bytes();
        }
        Ok(())
    }

    fn stored(&self, index: usize) -> Option<Stored<'_>> {
        match self.find(index) {
            (stored, false) => self.stored.stored(stored),
            _ => None,
        }
    }

    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        match self.find(index) {
            (stored, false) => self.stored.reads(stored, range),
            (stored, true) => match self.blocks(stored, range) {
                Some((blocks, ..)) => self.stored.reads(stored, blocks),
                None => Vec::new(),
            },
        }
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        self.stored.check_unchanged()
    }

    fn versions(&self) -> Vec<SourceVersion> {
        self.stored.versions()
    }
}
