//! Levels of several blocks, one per lane, as bytes of those blocks.

use crate::lanes::{Ints, Lanes, MAX_LANES};

/// Four levels of a byte each, as one little-endian word.
#[inline(always)]
pub(super) fn word<L: Lanes>(bytes: [L::I; 4]) -> L::I {
    bytes[0] | bytes[1].shl::<8>() | bytes[2].shl::<16>() | bytes[3].shl::<24>()
}

/// Writes words into each lane's block, starting at an offset.
#[inline(always)]
pub(super) fn put<L: Lanes, const BYTES: usize, const N: usize>(out: &mut [[u8; BYTES]], at: usize, words: &[L::I; N]) {
    let mut lane_words = [[0; MAX_LANES]; N];
    for w in 0..N {
        words[w].store(&mut lane_words[w]);
    }
    for (lane, out) in out.iter_mut().enumerate() {
        for w in 0..N {
            out[at + 4 * w..at + 4 * w + 4].copy_from_slice(&lane_words[w][lane].to_le_bytes());
        }
    }
}
