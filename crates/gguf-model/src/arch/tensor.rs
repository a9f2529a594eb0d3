//! Tensors of rows, weights and biases: their names, and their shapes in a model.

use gguf_format::Dims;

use super::dim::Dim;
use super::row::{Need, Row};
use crate::hparams::Hparams;

/// A tensor of an architecture: the weight of a row, or its bias.
#[derive(Debug, Clone, Copy)]
pub struct Tensor {
    /// The row.
    pub row: &'static Row,
    /// Whether it is the row's bias.
    pub is_bias: bool,
}

impl Tensor {
    /// Whether `name`, without `blk.N.`, is the tensor's name.
    pub fn is_named(&self, name: &str) -> bool {
        match self.is_bias {
            false => name == self.row.own_name(),
            true => name.strip_suffix(".bias") == Some(self.row.stem()) && name != self.row.own_name(),
        }
    }

    /// The tensor's name, without `blk.N.`.
    pub fn name(&self) -> String {
        if self.is_bias { format!("{}.bias", self.row.stem()) } else { self.row.own_name().to_owned() }
    }

    /// The tensor's name in block `block`, or outside the blocks.
    pub fn name_in(&self, block: Option<u64>) -> String {
        match block {
            Some(block) => format!("{}{block}.{}", self.row.stack().prefix(), self.name()),
            None => self.name(),
        }
    }

    /// Its dimensions, the contiguous one first.
    pub fn shape(&self) -> &'static [Dim] {
        match self.row.shape {
            [_, rest @ ..] if self.is_bias && !rest.is_empty() => rest,
            shape => shape,
        }
    }

    /// Whether it is required.
    pub fn need(&self) -> Need {
        if self.is_bias { self.row.bias.unwrap_or(Need::Optional) } else { self.row.need }
    }

    /// Whether `dims` match the expected shape. Trailing dimensions of 1 are ignored, and so are dimensions that the
    /// keys do not determine.
    pub fn fits(&self, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        self.fits_or(None, dims, h, block)
    }

    /// As [`fits`](Tensor::fits), but a dimension that the keys do not determine is 0, the default of llama.cpp's hyperparameters.
    pub fn fits_exactly(&self, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        self.fits_or(Some(0), dims, h, block)
    }

    fn fits_or(&self, default: Option<u64>, dims: Dims<'_>, h: &Hparams<'_>, block: u64) -> bool {
        let shape = self.shape();
        if shape.is_empty() {
            return true;
        }
        let same = shape.iter().enumerate().all(|(i, dim)| dim.can_be(dims.dim(i), default, h, block));
        same && dims.skip(shape.len()).all(|n| n == 1)
    }

    /// The expected shape as text, with `?` for dimensions that the keys do not determine.
    pub fn expected(&self, h: &Hparams<'_>, block: u64) -> String {
        let dims = self.shape().iter().map(|dim| dim.of(h, block).map_or_else(|| "?".to_owned(), |n| n.to_string()));
        format!("[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}
