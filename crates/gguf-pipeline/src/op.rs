//! Operations: how the values of an output tensor are made of source tensors. Each is a file with its inputs, the type of its values, how it
//! is divided into chunks, and how it is read.

use gguf_format::GgmlType;
use serde::{Deserialize, Serialize};

mod batch_norm;
mod computed;
mod copy;
mod elementwise;
mod gather;
mod input;
mod inverse;
mod low_rank;
mod mean;
mod narrow;
mod operation;
mod product;
mod resize;
mod round;
mod sum;

pub use batch_norm::BatchNorm;
pub use elementwise::{Elementwise, Invertible};
pub use gather::{Gather, Inverse};
pub use input::{Input, InputName};
pub use inverse::{Restored, RestoredPart};
pub use low_rank::{LowRank, Term};
pub use narrow::Narrow;
pub use product::Product;
pub use resize::Resize;
pub use round::RoundToMean;
pub use sum::Sum;

pub(crate) use operation::{ChunkedBy, Operation, ReadBuffers, Wanted};

/// The origin of an output tensor's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Op {
    /// A copy of the source's elements in their order.
    Copy(Input),
    /// Rearranged or mapped elements.
    Gather(Box<Gather>),
    /// Elements rounded to three values.
    RoundToMean(Box<RoundToMean>),
    /// The products of the elements of source tensors.
    Product(Product),
    /// The sums of corresponding elements of equal parts of a tensor.
    Sum(Box<Sum>),
    /// A grid of vectors, interpolated to another size.
    Resize(Box<Resize>),
    /// A matrix, and products of two factors that are added to it.
    LowRank(Box<LowRank>),
    /// A batch normalization, folded into a vector.
    BatchNorm(Box<BatchNorm>),
    /// The lower halves of the source's 64-bit integers.
    Narrow(Narrow),
    /// Values computed by the plan.
    Computed(#[serde(with = "crate::fleet::bits::list")] Vec<f32>),
}

impl Op {
    /// The source tensor, if the operation copies its elements in their order.
    pub fn copied(&self) -> Option<&Input> {
        match self {
            Op::Copy(input) => Some(input),
            _ => None,
        }
    }

    /// The source tensors of the operation.
    pub fn inputs(&self) -> &[Input] {
        self.operation().inputs()
    }

    /// The source tensors of the operation, to change them.
    pub fn inputs_mut(&mut self) -> &mut [Input] {
        let operation: &mut dyn Operation = match self {
            Op::Copy(op) => op,
            Op::Gather(op) => &mut **op,
            Op::RoundToMean(op) => &mut **op,
            Op::Product(op) => op,
            Op::Sum(op) => &mut **op,
            Op::Resize(op) => &mut **op,
            Op::LowRank(op) => &mut **op,
            Op::BatchNorm(op) => &mut **op,
            Op::Narrow(op) => op,
            Op::Computed(op) => op,
        };
        operation.inputs_mut()
    }

    /// The type of the values before they are encoded.
    pub fn value_type(&self) -> GgmlType {
        self.operation().value_type()
    }

    /// The operation, as a run sees it.
    pub(crate) fn operation(&self) -> &dyn Operation {
        match self {
            Op::Copy(op) => op,
            Op::Gather(op) => &**op,
            Op::RoundToMean(op) => &**op,
            Op::Product(op) => op,
            Op::Sum(op) => &**op,
            Op::Resize(op) => &**op,
            Op::LowRank(op) => &**op,
            Op::BatchNorm(op) => &**op,
            Op::Narrow(op) => op,
            Op::Computed(op) => op,
        }
    }
}
