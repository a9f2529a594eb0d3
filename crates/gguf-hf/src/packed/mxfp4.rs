//! MXFP4 as gpt-oss stores it: `X_blocks`, 16 bytes for 32 values, and `X_scales`, a power of two for each block.
//!
//! GGUF's blocks have the same codes in another order: the scale first, then value `j` and value `j + 16` in a byte, where the checkpoint
//! has neighbours. Nothing is lost (`repack_mxfp4` in `conversion/gpt_oss.py` of llama.cpp).

use gguf_pipeline::Error;

use super::data::Data;
use super::{Form, Found, New, expect_shape, problem};
use crate::dtype::{Dtype, SourceTensor};
use crate::model_plan::PlanError;

/// Values and bytes of a block, and bytes of its values in the checkpoint.
const LEN: u64 = 32;
const BYTES: u64 = 17;
const CODES: u64 = 16;

/// Blocks and their scales.
#[derive(Debug)]
pub(super) struct Blocks {
    codes: usize,
    scales: usize,
    n_blocks: u64,
}

impl Blocks {
    /// The number of the packed weight.
    pub(super) fn main(&self) -> usize {
        self.codes
    }

    /// Reads blocks as GGUF has them.
    pub(super) fn read(&self, data: Data<'_>, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let (first, n) = (offset / BYTES, buffer.len() as u64 / BYTES);
        let is_whole = offset.is_multiple_of(BYTES) && (buffer.len() as u64).is_multiple_of(BYTES);
        if !is_whole || first.checked_add(n).is_none_or(|end| end > self.n_blocks) {
            let bytes = self.n_blocks.saturating_mul(BYTES);
            return Err(Error::OutOfTensor { tensor: data.tensor.name.clone(), bytes });
        }
        let scales = data.bytes(self.scales, first, n)?;
        let codes = data.bytes(self.codes, first * CODES, n * CODES)?;
        let (codes, _) = codes.as_chunks::<{ CODES as usize }>();
        let (blocks, _) = buffer.as_chunks_mut::<{ BYTES as usize }>();
        for ((block, scale), codes) in blocks.iter_mut().zip(&scales).zip(codes) {
            let code = |value: usize| codes.get(value / 2).copied().unwrap_or_default() >> (value % 2 * 4) & 15;
            let [first, values @ ..] = block;
            *first = *scale;
            for (j, byte) in values.iter_mut().enumerate() {
                *byte = code(j) | code(j + CODES as usize) << 4;
            }
        }
        Ok(())
    }
}

/// Finds the blocks of a checkpoint.
pub(super) fn find(found: &mut Found<'_>) -> Result<(), PlanError> {
    for (codes, tensor) in found.tensors() {
        let Some(name) = tensor.name.strip_suffix("_blocks") else { continue };
        let (scales, of_scales) = found.need(&format!("{name}_scales"), tensor)?;
        for tensor in [tensor, of_scales] {
            if tensor.dtype.name != "U8" {
                return Err(problem(tensor, format!("has the format {}, expected U8", tensor.dtype)));
            }
        }
        let [n, rows, n_blocks, CODES] = tensor.shape[..] else {
            let shape = &tensor.shape;
            return Err(problem(tensor, format!("has the shape {shape:?}, expected four dimensions, the last of 16")));
        };
        expect_shape(of_scales, &[n, rows, n_blocks])?;
        let too_large = || problem(tensor, format!("has the shape {:?}, which is too large", tensor.shape));
        let columns = n_blocks.checked_mul(LEN).ok_or_else(too_large)?;
        let all = n.checked_mul(rows).and_then(|n| n.checked_mul(n_blocks)).filter(|n| *n < 1 << 56);
        let blocks = Blocks { codes, scales, n_blocks: all.ok_or_else(too_large)? };
        // As in the floating-point checkpoint, where the matrices are stored transposed.
        let shape = vec![n, columns, rows];
        let tensor = SourceTensor { name: name.to_owned(), dtype: Dtype::MXFP4, shape };
        found.gone.extend([codes, scales]);
        found.first.push(New { tensor, form: Form::Blocks(blocks), format: "MXFP4".to_owned() });
    }
    Ok(())
}
