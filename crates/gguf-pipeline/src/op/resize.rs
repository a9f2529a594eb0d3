//! The bilinear interpolation of a grid of vectors.
//!
//! The vectors in the corners of both grids coincide. The operations are those of torch for vectors of a multiple of 8 elements, on every
//! CPU with AVX2 (`cpu_upsample_linear_channels_last` in `aten/src/ATen/native/cpu/UpSampleKernel.cpp` of PyTorch, with aligned corners):
//! the terms are added from the last one on, each product and sum in one step.

use gguf_format::GgmlType;
use gguf_quants::float;
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::operation::{ChunkedBy, Operation, ReadBuffers, Wanted};
use crate::buffers::no_codec;
use crate::cast::decoder;
use crate::error::Error;

/// A grid of vectors, resized by bilinear interpolation between the vectors in its corners, in single precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// The grid, of a plain type: vectors in rows.
    pub input: Input,
    /// Rows and columns of the input, at least 1.
    pub from: [u64; 2],
    /// Rows and columns of the output, at least 1.
    pub to: [u64; 2],
    /// Elements of a vector.
    pub vector_len: u64,
}

impl Operation for Resize {
    fn inputs(&self) -> &[Input] {
        std::slice::from_ref(&self.input)
    }

    fn inputs_mut(&mut self) -> &mut [Input] {
        std::slice::from_mut(&mut self.input)
    }

    fn value_type(&self) -> GgmlType {
        GgmlType::F32
    }

    fn chunked_by(&self) -> ChunkedBy {
        ChunkedBy::Rows
    }

    fn read<'b>(&self, wanted: Wanted<'_>, buffers: &'b mut ReadBuffers) -> Result<&'b [u8], Error> {
        let ReadBuffers { raw, mapped, .. } = buffers;
        wanted.set_len(mapped, GgmlType::F32)?;
        let decode = decoder(self.input.ty).ok_or_else(|| no_codec(wanted.tensor))?;
        interpolate(self, wanted.first, mapped, |from, values| {
            wanted.at(from, values.len() as u64).read_input(&self.input, raw)?;
            decode(raw, values);
            Ok(())
        })?;
        Ok(mapped)
    }
}

/// Elements of a vector to interpolate at once.
const RUN: usize = 2048;

/// Fills `out` with the values of the resized grid in single precision, from element `first` on. `read` fills a slice with the values of
/// the source from an element on.
///
/// # Errors
/// Errors of `read`.
fn interpolate(
    grid: &Resize,
    first: u64,
    out: &mut [u8],
    mut read: impl FnMut(u64, &mut [f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let [_, from_columns] = grid.from;
    let [_, to_columns] = grid.to;
    let (mut place, mut out) = (first, out);
    let mut corners = [[0f32; RUN]; 4];
    let mut sums = [0f32; RUN];
    while !out.is_empty() {
        let vector_len = grid.vector_len.max(1);
        let (vector, element) = (place / vector_len, place % vector_len);
        let rows = neighbours(vector / to_columns.max(1), grid.from[0], grid.to[0]);
        let columns = neighbours(vector % to_columns.max(1), from_columns, to_columns);
        let left = usize::try_from(vector_len - element).unwrap_or(usize::MAX);
        let n = RUN.min(left).min(out.len() / 4).max(1);
        let mut weights = [0f32; 4];
        let all = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
        for (((row, column), values), weight) in all.zip(&mut corners).zip(&mut weights) {
            *weight = row.1 * column.1;
            let vector = row.0.saturating_mul(from_columns).saturating_add(column.0);
            let from = vector.saturating_mul(vector_len).saturating_add(element);
            read(from, values.get_mut(..n).unwrap_or_default())?;
        }
        let [a, b, c, d] = &corners;
        let values = a.iter().zip(b).zip(c.iter().zip(d));
        for (sum, ((a, b), (c, d))) in sums.iter_mut().zip(values).take(n) {
            let last = d.mul_add(weights[3], c * weights[2]);
            *sum = a.mul_add(weights[0], b.mul_add(weights[1], last));
        }
        let (now, later) = out.split_at_mut((n * 4).min(out.len()));
        float::encode_f32(sums.get(..n).unwrap_or_default(), now);
        (place, out) = (place + n as u64, later);
    }
    Ok(())
}

/// The two positions along an axis of the source beside a position of the output, and their weights.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the position is between 0 and the last; conversions of floats saturate"
)]
fn neighbours(at: u64, from: u64, to: u64) -> [(u64, f32); 2] {
    if from == to {
        return [(at, 1.0), (at, 0.0)];
    }
    let last = from.saturating_sub(1);
    let step = if to > 1 { last as f32 / (to - 1) as f32 } else { 0.0 };
    let place = step * at as f32;
    let first = (place.floor() as u64).min(last);
    let weight = (place - first as f32).clamp(0.0, 1.0);
    [(first, 1.0 - weight), ((first + 1).min(last), weight)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const EXPECTED: &[u32] = &[
        0xc28c_999a, 0xc27d_c57d, 0xc238_0ea2, 0xc190_1d44, 0x41a4_7504, 0x428b_6666, 0xc16b_a83c, 0x425e_3a82,
        0x3fbe_2bd0, 0xc10f_15f6, 0xc10c_ccd2, 0x3ff5_0740, 0x41b9_9998, 0xc188_1d43, 0x41cb_5074, 0x40ca_f8a8,
        0xc170_3a88, 0xc22a_ea10, 0xc26f_7c58, 0xc284_e2bf, 0xc279_c57d, 0xc23f_7c58, 0xc1b5_d41e, 0x414f_c578,
        0x426c_e52d, 0xc136_52e6, 0x41c5_3812, 0xc1c6_972b, 0x4201_7775, 0x4081_110d, 0xc15b_a83d, 0xc1a7_5a35,
        0xc1ef_8af8, 0xc1ae_04e1, 0xc1d8_1d41, 0x4014_6b27, 0x4191_9999, 0x41a5_0750, 0xc166_b46c, 0x4112_7023,
        0x4203_5f16, 0x41bd_fb1c, 0x41c9_ca56, 0xc12c_6b49, 0x413d_7c52, 0xc24c_3f64, 0xc0e9_99ac, 0xbf81_d424,
        0x4289_4e04, 0xc1fb_2977, 0xc1c6_35a5, 0xc0f2_be2d, 0x41a1_68d6, 0xc216_57c7, 0x4135_1ad0, 0xc1ca_666a,
        0x412b_94b4, 0xc128_3a87, 0x4035_f159, 0xc235_3335, 0x4214_fd8f, 0x4123_f63c, 0x4227_7778, 0xc140_9c11,
        0x410a_701e, 0xc1ee_f8b2, 0xc267_4b95, 0xc1d9_41d8, 0xc207_dde0, 0xc1f1_a35a, 0xc17d_f15c, 0x4264_52e4,
        0xc228_0ea2, 0x41a5_9998, 0xc248_a0eb, 0x4206_cccc, 0xc180_1d44, 0xc25c_a0eb, 0x4271_a838, 0x4229_a83a,
        0x424d_a839, 0x41c6_2be2, 0x410b_3332, 0xc289_be2c, 0x4104_57c2, 0x41bf_5072, 0x4248_83a7, 0x416d_7c54,
        0x4262_3a82, 0xc26d_c57d, 0xc1a5_d41e, 0x41e4_7504, 0xc25e_ea10, 0x416b_3330, 0xc241_c57d, 0x422c_83a8,
    ];

    /// The expected bits are those of `torch.nn.functional.interpolate(…, mode='bilinear', align_corners=True)`, PyTorch 2.11 with AVX2.
    #[test]
    fn grids_are_resized_as_in_torch() {
        let source: Vec<f32> = (0..5 * 4 * 8).map(|i| ((i * i * 37 + i * 11) % 1009) as f32 / 7.0 - 70.3).collect();
        let input = Input::new(0, "", GgmlType::F32);
        let grid = Resize { input, from: [5, 4], to: [4, 3], vector_len: 8 };
        let resized = |first: u64, n: usize| {
            let mut out = vec![0; n * 4];
            let read = |from: u64, values: &mut [f32]| {
                values.copy_from_slice(&source[from as usize..][..values.len()]);
                Ok(())
            };
            interpolate(&grid, first, &mut out, read).unwrap();
            out.as_chunks::<4>().0.iter().map(|v| u32::from_le_bytes(*v)).collect::<Vec<_>>()
        };
        assert_eq!(resized(0, 96), EXPECTED);
        assert_eq!(resized(13, 20), EXPECTED[13..33]);
    }
}
