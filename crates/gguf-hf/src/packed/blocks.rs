//! Blocks of 4-bit floats, written in GGUF's layout: MXFP4 and NVFP4.
//!
//! A checkpoint stores codes and scales in two tensors, with adjacent values in one byte. A GGUF block starts with its scales, and a byte holds
//! a value and the value half a group after it. The conversion is lossless (`repack_mxfp4` in `conversion/gpt_oss.py`, `repack_mxfp4_blocks` and
//! `_nvfp4_pack` in `conversion/base.py` of llama.cpp).

use gguf_pipeline::Error;

use super::companion::problem;
use super::data::Data;
use crate::dtype::SourceTensor;
use crate::model_plan::PlanError;

/// A block format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    /// Values per scale.
    pub(super) group: usize,
    /// Groups per block.
    n_groups: usize,
    /// Mask of the scale bits to keep.
    scale_bits: u8,
}

impl Format {
    /// 32 values with a power of two as scale.
    pub(super) const MXFP4: Format = Format { group: 32, n_groups: 1, scale_bits: 0xFF };
    /// Four groups of 16 values, each with an unsigned 8-bit float as scale.
    pub(super) const NVFP4: Format = Format { group: 16, n_groups: 4, scale_bits: 0x7F };

    /// Values per block.
    pub(super) fn len(self) -> u64 {
        (self.group * self.n_groups) as u64
    }

    /// Bytes per block.
    fn n_bytes(self) -> usize {
        self.n_groups + self.group * self.n_groups / 2
    }
}

/// Codes and their scales, both stored group by group.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) format: Format,
    /// Four bits per value, the first of two in the low half of the byte.
    pub(super) codes: usize,
    /// One byte per group.
    pub(super) scales: usize,
    pub(super) n_blocks: u64,
}

impl Blocks {
    /// The index of the packed weight.
    pub(super) fn main(&self) -> usize {
        self.codes
    }

    /// Reads blocks in GGUF's layout.
    pub(super) fn read(&self, data: Data<'_>, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let Format { group, n_groups, scale_bits } = self.format;
        let (n_bytes, n_codes) = (self.format.n_bytes(), self.format.n_bytes() - n_groups);
        let (first, n) = (offset / n_bytes as u64, (buffer.len() / n_bytes) as u64);
        let is_whole = offset.is_multiple_of(n_bytes as u64) && buffer.len().is_multiple_of(n_bytes);
        if !is_whole || first.checked_add(n).is_none_or(|end| end > self.n_blocks) {
            let bytes = self.n_blocks.saturating_mul(n_bytes as u64);
            return Err(Error::OutOfTensor { tensor: data.tensor.name.clone(), bytes });
        }
        let (scales_of_block, codes_of_block) = (n_groups as u64, n_codes as u64);
        let scales = data.bytes(self.scales, first * scales_of_block, n * scales_of_block)?;
        let codes = data.bytes(self.codes, first * codes_of_block, n * codes_of_block)?;
        let parts = scales.chunks_exact(n_groups).zip(codes.chunks_exact(n_codes));
        for (block, (scales, codes)) in buffer.chunks_exact_mut(n_bytes).zip(parts) {
            let (first, values) = block.split_at_mut(n_groups);
            first.iter_mut().zip(scales).for_each(|(to, scale)| *to = scale & scale_bits);
            for (values, codes) in values.chunks_exact_mut(group / 2).zip(codes.chunks_exact(group / 2)) {
                let (low, high) = codes.split_at(group / 4);
                let code =
                    |half: &[u8], value: usize| half.get(value / 2).map_or(0, |byte| byte >> (value % 2 * 4) & 15);
                for (j, byte) in values.iter_mut().enumerate() {
                    *byte = code(low, j) | code(high, j) << 4;
                }
            }
        }
        Ok(())
    }
}

/// Checks that codes and scales are bytes of matching shapes with whole blocks per row. Returns the shape of the values, and the blocks.
pub(super) fn of_rows(
    format: Format,
    codes: (usize, &SourceTensor),
    scales: (usize, &SourceTensor),
) -> Result<(Vec<u64>, Blocks), PlanError> {
    let ((codes, tensor), (scales, of_scales)) = (codes, scales);
    let wrong = |tensor: &SourceTensor, what: &str| {
        Err(problem(
            tensor,
            format!("has the format {} and the shape {:?}, expected {what}", tensor.dtype, tensor.shape),
        ))
    };
    let [rows, n_bytes] = tensor.shape[..] else {
        return wrong(tensor, "two dimensions");
    };
    let too_large = || problem(tensor, format!("has the shape {:?}, which is too large", tensor.shape));
    let columns = n_bytes.checked_mul(2).filter(|n| *n < 1 << 40).ok_or_else(too_large)?;
    if !columns.is_multiple_of(format.len()) || !["U8", "I8"].contains(&tensor.dtype.name) {
        return wrong(tensor, &format!("U8 and rows of a multiple of {} bytes", format.len() / 2));
    }
    let n_scales = columns / format.group as u64;
    let is_scale = match format {
        Format::MXFP4 => ["U8", "I8", "F8_E8M0"].contains(&of_scales.dtype.name),
        _ => of_scales.dtype.name == "F8_E4M3",
    };
    if !is_scale || of_scales.shape != [rows, n_scales] {
        let dtype = if format == Format::MXFP4 { "U8 or F8_E8M0" } else { "F8_E4M3" };
        return wrong(of_scales, &format!("{dtype} and [{rows}, {n_scales}]"));
    }
    let n_blocks = rows.checked_mul(columns / format.len()).filter(|n| *n < 1 << 56).ok_or_else(too_large)?;
    Ok((vec![rows, columns], Blocks { format, codes, scales, n_blocks }))
}
