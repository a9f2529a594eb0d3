//! The choice of a neighbour in a list.

use crate::lanes::{Floats, Ints, Lanes, MAX_LANES, Masks};

/// The neighbour with the least error so far in each lane, of a list that is read a vector at a time. `L::N` is a multiple of 8.
pub(super) struct Least<L: Lanes> {
    lanes: L,
    error: L::F,
    /// The position in the list above the code.
    found: L::I,
    position: L::I,
}

impl<L: Lanes> Least<L> {
    /// No neighbour.
    #[inline(always)]
    pub fn none(lanes: L) -> Least<L> {
        let mut position = [0; MAX_LANES];
        for i in 0..L::N {
            position[i] = (i as i32) << 16;
        }
        Least { lanes, error: lanes.splat(f32::MAX), found: lanes.splat_i(0), position: lanes.load_i(&position) }
    }

    /// The next codes of the list, and their errors, which are not negative.
    #[inline(always)]
    pub fn add(&mut self, codes: L::I, error: L::F) {
        let less = error.lt(self.error);
        self.error = less.select(error, self.error);
        self.found = less.select_i(codes | self.position, self.found);
        self.position = self.position + self.lanes.splat_i((L::N as i32) << 16);
    }

    /// The code with the least error, of equal ones the first.
    #[inline(always)]
    pub fn code(self) -> Option<u16> {
        // Errors are not negative, so their bits have the same order.
        let bits = self.error.bits();
        let (mut eights, mut found) = ([0; MAX_LANES], [0; MAX_LANES]);
        self.lanes.least_of_eight(bits).store(&mut eights);
        self.found.store(&mut found);
        let mut least = eights[0];
        for eight in 1..L::N / 8 {
            least = least.min(eights[8 * eight]);
        }
        let mut equal = bits.equal(self.lanes.splat_i(least)).to_bits();
        let mut first = i32::MAX;
        while equal != 0 {
            first = first.min(found[equal.trailing_zeros() as usize % MAX_LANES]);
            equal &= equal - 1;
        }
        (least != f32::MAX.to_bits() as i32).then_some(first as u16)
    }
}
