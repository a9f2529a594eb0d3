//! The loops shared by all block types: the traits that define a type, and the driver that turns them into a codec.
//!
//! A type has blocks of `BYTES` bytes for `LEN` values. It defines each conversion twice: as a scalar reference, and over [`Lanes`]. The
//! driver iterates over the blocks, selects the instruction set, and encodes with the reference the blocks that the lanes cannot encode.

use core::marker::PhantomData;

use crate::dispatch::{Isa, Kernel};
use crate::lanes::Lanes;
use crate::lanes::twice::Twice;
use crate::rows::{Rows, Tile};

/// Decoding of one block.
pub(super) trait DecodeBlock<const LEN: usize, const BYTES: usize> {
    /// One block, scalar reference.
    fn plain(block: &[u8; BYTES], values: &mut [f32; LEN]);

    /// One block, several values at a time.
    fn lanes<L: Lanes>(lanes: L, block: &[u8; BYTES], values: &mut [f32; LEN]);
}

/// Encoding of one block.
pub(super) trait EncodeBlock<const LEN: usize, const BYTES: usize>: Sized {
    /// The vectors that are processed in pairs.
    const PAIRS: Pairs = Pairs::Never;

    /// One block, scalar reference; `weights` are those of its columns. Implementations are, or call, functions that are never inlined.
    fn plain(x: &[f32; LEN], weights: Option<&[f32; LEN]>) -> Result<[u8; BYTES], Lost>;

    /// One block per lane, for the first [`Tile::len`] lanes, which is also the length of `out`. Bit `i` of the result is set if block `i`
    /// is valid; invalid blocks have unspecified contents and are encoded again by the reference.
    fn lanes<L: Lanes>(lanes: L, tile: &Tile<'_, LEN>, out: &mut [[u8; BYTES]]) -> u32;

    /// Rows of whole blocks each. Overridden by types that read more than one block, or that have a separate encoder for a matrix.
    fn rows(isa: Isa, rows: Rows<'_>, blocks: &mut [[u8; BYTES]]) -> Result<(), Refused> {
        encode_blocks::<Self, LEN, BYTES>(isa, rows, blocks)
    }
}

/// When an encoder processes two vectors in step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Never: one vector fills the pipeline.
    Never,
    /// Always: sums form dependency chains, whose latency the second vector hides.
    Always,
    /// Only for vectors of four lanes: the encoder works on lanes in groups of eight.
    Narrow,
}

impl Pairs {
    const fn for_lanes<L: Lanes>(self) -> bool {
        match self {
            Pairs::Never => false,
            Pairs::Always => L::PAIRS_ARE_FASTER,
            Pairs::Narrow => L::N < 8,
        }
    }
}

/// ggml aborts on the block, so no valid bytes exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

/// A block that was [`Lost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Its index, from the first block of the call.
    pub block: usize,
}

/// Blocks to values.
pub(super) fn decode<C: DecodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize>(
    isa: Isa,
    packed: &[u8],
    values: &mut [f32],
) {
    let (blocks, values) = (packed.as_chunks().0, values.as_chunks_mut().0);
    isa.run(Decode::<C, LEN, BYTES> { blocks, values, of: PhantomData });
}

struct Decode<'a, C, const LEN: usize, const BYTES: usize> {
    blocks: &'a [[u8; BYTES]],
    values: &'a mut [[f32; LEN]],
    of: PhantomData<C>,
}

impl<C: DecodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize> Kernel for Decode<'_, C, LEN, BYTES> {
    type Output = ();

    fn plain(self) {
        for (block, values) in self.blocks.iter().zip(self.values) {
            C::plain(block, values);
        }
    }

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for (block, values) in self.blocks.iter().zip(self.values) {
            C::lanes(lanes, block, values);
        }
    }
}

/// Rows to blocks.
pub(super) fn encode<C: EncodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize>(
    isa: Isa,
    rows: Rows<'_>,
    packed: &mut [u8],
) -> Result<(), Refused> {
    C::rows(isa, rows, packed.as_chunks_mut().0)
}

/// Blocks that do not depend on each other.
pub(super) fn encode_blocks<C: EncodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize>(
    isa: Isa,
    rows: Rows<'_>,
    blocks: &mut [[u8; BYTES]],
) -> Result<(), Refused> {
    isa.run(Encode::<C, LEN, BYTES> { rows, blocks, of: PhantomData })
}

struct Encode<'a, C, const LEN: usize, const BYTES: usize> {
    rows: Rows<'a>,
    blocks: &'a mut [[u8; BYTES]],
    of: PhantomData<C>,
}

impl<C: EncodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize> Kernel for Encode<'_, C, LEN, BYTES> {
    type Output = Result<(), Refused>;

    fn plain(self) -> Result<(), Refused> {
        (0..).zip(self.blocks).try_for_each(|(block, out)| encode_plain::<C, LEN, BYTES>(&self.rows, block, out))
    }

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Result<(), Refused> {
        if const { C::PAIRS.for_lanes::<L>() } { self.tiles(Twice(lanes)) } else { self.tiles(lanes) }
    }
}

impl<C: EncodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize> Encode<'_, C, LEN, BYTES> {
    #[inline(always)]
    fn tiles<L: Lanes>(self, lanes: L) -> Result<(), Refused> {
        let mut last = None;
        for first in (0..self.blocks.len()).step_by(L::N) {
            let tile = self.rows.tile::<LEN>(first, L::N, &mut last);
            let out = &mut self.blocks[first..first + tile.len];
            let valid = C::lanes(lanes, &tile, out);
            if valid & tile.lanes() != tile.lanes() {
                redo::<C, LEN, BYTES>(&self.rows, first, valid, out)?;
            }
        }
        Ok(())
    }
}

/// Encodes the blocks of a tile that the lanes could not encode.
#[inline(never)]
fn redo<C: EncodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize>(
    rows: &Rows<'_>,
    first: usize,
    valid: u32,
    out: &mut [[u8; BYTES]],
) -> Result<(), Refused> {
    let mut lost = (0..).zip(out).filter(|(lane, _)| valid >> lane & 1 == 0);
    lost.try_for_each(|(lane, out)| encode_plain::<C, LEN, BYTES>(rows, first + lane, out))
}

fn encode_plain<C: EncodeBlock<LEN, BYTES>, const LEN: usize, const BYTES: usize>(
    rows: &Rows<'_>,
    block: usize,
    out: &mut [u8; BYTES],
) -> Result<(), Refused> {
    *out = C::plain(rows.block(block), rows.block_weights(block)).map_err(|Lost| Refused { block })?;
    Ok(())
}
