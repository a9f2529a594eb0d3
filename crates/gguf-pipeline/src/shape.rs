//! The dimensions of tensors.

use std::fmt;
use std::ops::{Deref, DerefMut};

use gguf_format::MAX_DIMS;

/// The dimensions of a tensor in GGUF's order, the contiguous one first.
#[derive(Clone, PartialEq, Eq)]
pub struct Shape(Dims);

// A model may have very many tensors, of at most four dimensions.
#[derive(Clone, PartialEq, Eq)]
enum Dims {
    Few { n: u8, dims: [u64; MAX_DIMS] },
    Many(Box<[u64]>),
}

impl Default for Shape {
    fn default() -> Shape {
        Shape(Dims::Few { n: 0, dims: [0; MAX_DIMS] })
    }
}

impl Shape {
    /// The dimensions without trailing ones, which do not change the data; at least the first.
    pub fn without_ones(&self) -> &[u64] {
        let n = self.iter().rposition(|&dim| dim != 1).map_or(1, |last| last + 1);
        self.get(..n).unwrap_or(self)
    }
}

impl Deref for Shape {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match &self.0 {
            Dims::Few { n, dims } => dims.get(..usize::from(*n)).unwrap_or_default(),
            Dims::Many(dims) => dims,
        }
    }
}

impl DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [u64] {
        match &mut self.0 {
            Dims::Few { n, dims } => dims.get_mut(..usize::from(*n)).unwrap_or_default(),
            Dims::Many(dims) => dims,
        }
    }
}

impl FromIterator<u64> for Shape {
    fn from_iter<I: IntoIterator<Item = u64>>(all: I) -> Shape {
        let mut all = all.into_iter();
        let (mut n, mut dims) = (0, [0; MAX_DIMS]);
        while let Some(dim) = all.next() {
            match dims.get_mut(usize::from(n)) {
                Some(to) => (*to, n) = (dim, n + 1),
                None => return Shape(Dims::Many(dims.into_iter().chain([dim]).chain(all).collect())),
            }
        }
        Shape(Dims::Few { n, dims })
    }
}

impl From<Vec<u64>> for Shape {
    fn from(all: Vec<u64>) -> Shape {
        all.into_iter().collect()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
