//! The formats of bitsandbytes: 4-bit codes for a table of 16 values (NF4, FP4), and 8-bit rows (LLM.int8).
//!
//! The values are bit-identical to `dequantize_4bit` and `int8_vectorwise_dequant` of bitsandbytes 0.50. 4-bit: the table value times the
//! block's absolute maximum in `f32`, rounded to the type of the original weight. 8-bit: the integer times the row's absolute maximum times the
//! `f32` nearest to 1/127.

use core::ops::Range;

use gguf_pipeline::Error;
use serde::Deserialize;

use super::companion::{expect, expect_shape, problem, scales};
use super::data::{Data, Number, Numbers};
use super::decode::Decode;
use super::found::{Form, FoundWeights, Problem, Replacement};
use super::scaled::{self, Scale};
use crate::dtype::{Dtype, SourceTensor};
use crate::number::{to_f32, to_index};

/// Prefix of the name of a weight's quantization state, without the name of its table.
const STATE: &str = ".quant_state.bitsandbytes__";

/// The maximum size of a quantization state; those in use take less than 200 bytes.
const MAX_STATE: u64 = 4096;

/// The `f32` nearest to 1/127 (`int8_vectorwise_dequant`).
const INVERSE_127: f32 = 7.874_016e-3;

/// A 4-bit weight.
#[derive(Debug)]
struct FourBits {
    codes: usize,
    /// Value of each code.
    table: Vec<f32>,
    largest: Largest,
    /// Values per block; never 0.
    block: u64,
    columns: u64,
    /// The type of the original weight.
    ty: Number,
}

/// The absolute maxima of the blocks.
#[derive(Debug)]
enum Largest {
    Stored(Numbers),
    /// 8-bit codes, themselves quantized in blocks.
    Nested {
        codes: usize,
        table: Vec<f32>,
        largest: Numbers,
        block: u64,
        offset: f32,
    },
}

impl Largest {
    fn read(&self, data: Data<'_>, blocks: Range<u64>) -> Result<Vec<f32>, Error> {
        let n = blocks.end - blocks.start;
        let (codes, table, largest, block, offset) = match self {
            Largest::Stored(numbers) => return data.numbers(*numbers, blocks.start, n),
            Largest::Nested { codes, table, largest, block, offset } => (*codes, table, *largest, *block, *offset),
        };
        let first = blocks.start / block;
        let outer = data.numbers(largest, first, blocks.end.div_ceil(block) - first)?;
        let codes = data.bytes(codes, blocks.start, n)?;
        let mut values = data.buffer(n, 0f32)?;
        for ((value, code), number) in values.iter_mut().zip(&codes).zip(blocks) {
            let of_code = table.get(usize::from(*code)).copied().unwrap_or_default();
            let scale = outer.get(to_index(number / block - first)).copied().unwrap_or_default();
            *value = of_code * scale + offset;
        }
        Ok(values)
    }
}

impl Decode for FourBits {
    fn decode(&self, data: Data<'_>, rows: Range<u64>, columns: Range<u64>, out: &mut [f32]) -> Result<(), Error> {
        // Blocks may span rows.
        let first = rows.start * self.columns + columns.start;
        let end = first + out.len() as u64;
        let bytes = data.bytes(self.codes, first / 2, end.div_ceil(2) - first / 2)?;
        let blocks = first / self.block..end.div_ceil(self.block);
        let largest = self.largest.read(data, blocks.clone())?;
        for (value, place) in out.iter_mut().zip(first..) {
            let byte = bytes.get(to_index(place / 2 - first / 2)).copied().unwrap_or_default();
            let code = if place % 2 == 0 { byte >> 4 } else { byte & 15 };
            let scale = largest.get(to_index(place / self.block - blocks.start)).copied().unwrap_or_default();
            *value = self.table.get(usize::from(code)).copied().unwrap_or_default() * scale;
        }
        self.ty.round(out);
        Ok(())
    }
}

/// The quantization state of a weight, stored by bitsandbytes as JSON in a tensor of bytes.
#[derive(Deserialize)]
struct State {
    blocksize: u64,
    dtype: String,
    #[serde(deserialize_with = "crate::json::list::<8, _, _>")]
    shape: Vec<u64>,
    nested_blocksize: Option<u64>,
    nested_offset: Option<f64>,
}

/// Finds the bitsandbytes weights of a checkpoint.
pub(super) fn find(found: &mut FoundWeights<'_>) -> Result<(), Problem> {
    for (index, tensor) in found.tensors() {
        if let Some((weight, table)) = tensor.name.split_once(STATE) {
            four_bits(found, index, tensor, weight, table)?;
        } else if let Some(base) = tensor.name.strip_suffix(".SCB") {
            eight_bits(found, index, tensor, base)?;
        } else if tensor.name.ends_with(".weight_format") {
            found.consumed.insert(index);
        }
    }
    Ok(())
}

fn four_bits(
    found: &mut FoundWeights<'_>,
    index: usize,
    tensor: &SourceTensor,
    weight: &str,
    table: &str,
) -> Result<(), Problem> {
    let wrong = |text: String| Problem::from(problem(tensor, text));
    let n_bytes = tensor.shape.iter().product();
    if tensor.dtype.name != "U8" || n_bytes > MAX_STATE {
        let (dtype, shape) = (tensor.dtype, &tensor.shape);
        return Err(wrong(format!(
            "has the format {dtype} and the shape {shape:?}, expected at most {MAX_STATE} of U8"
        )));
    }
    let data = Data { checkpoint: found.checkpoint, tensor };
    let state: State = serde_json::from_slice(&data.bytes(index, 0, n_bytes)?)
        .map_err(|e| wrong(format!("is not the JSON of a quantization state: {e}")))?;
    let ty = match state.dtype.as_str() {
        "float16" => Number::F16,
        "bfloat16" => Number::BF16,
        "float32" => Number::F32,
        other => return Err(wrong(format!("names the dtype {other:?}, expected float16, bfloat16 or float32"))),
    };
    let (shape, block) = (state.shape, state.blocksize);
    let n = gguf_format::n_elements(shape.iter().copied()).filter(|n| !shape.is_empty() && *n < 1 << 56);
    let (Some(n), 1..) = (n, block) else {
        return Err(wrong(format!("names the invalid shape {shape:?} with blocks of {block}")));
    };
    let (codes, packed) = found.need(weight, tensor)?;
    // The bytes may be stored as numbers of another format.
    let stored = packed.dtype.tensor_bytes(&packed.shape);
    if stored != Some(n.div_ceil(2)) {
        let text = format!("has {} bytes, expected {} for {shape:?}", stored.unwrap_or(0), n.div_ceil(2));
        return Err(problem(packed, text).into());
    }
    let n_blocks = n.div_ceil(block);
    let values = |found: &mut FoundWeights<'_>, name: &str, len: u64| -> Result<Vec<f32>, Problem> {
        let (index, of_table) = found.need(&format!("{weight}.{name}"), tensor)?;
        expect(of_table, "F32", &[len])?;
        found.consumed.insert(index);
        Ok(Data { checkpoint: found.checkpoint, tensor: of_table }.numbers(
            Numbers { index, number: Number::F32 },
            0,
            len,
        )?)
    };
    let of_codes = values(found, "quant_map", 16)?;
    let (largest, of_largest) = found.need(&format!("{weight}.absmax"), tensor)?;
    found.consumed.extend([index, largest]);
    let largest = match state.nested_blocksize {
        None => {
            expect_shape(of_largest, &[n_blocks])?;
            Largest::Stored(scales(largest, of_largest)?)
        }
        Some(0) => return Err(wrong("names nested blocks of 0".to_owned())),
        Some(block) => {
            expect(of_largest, "U8", &[n_blocks])?;
            let table = values(found, "nested_quant_map", 256)?;
            let (index, nested) = found.need(&format!("{weight}.nested_absmax"), tensor)?;
            expect(nested, "F32", &[n_blocks.div_ceil(block)])?;
            found.consumed.insert(index);
            let outer = Numbers { index, number: Number::F32 };
            let offset = to_f32(state.nested_offset.unwrap_or(0.0));
            Largest::Nested { codes: largest, table, largest: outer, block, offset }
        }
    };
    let columns = shape.last().copied().unwrap_or(1);
    let matrix = FourBits { codes, table: of_codes, largest, block, columns, ty };
    let tensor = SourceTensor { name: weight.to_owned(), dtype: Dtype::F32, shape };
    let format = format!("{} (bitsandbytes)", table.to_uppercase());
    let form = Form::Decoded(codes, Box::new(matrix));
    found.replaced.insert(codes, Replacement { tensor, form, format });
    Ok(())
}

fn eight_bits(found: &mut FoundWeights<'_>, index: usize, tensor: &SourceTensor, base: &str) -> Result<(), Problem> {
    let (codes, weight) = found.need(&format!("{base}.weight"), tensor)?;
    let rows = weight.shape.first().copied().unwrap_or(0);
    if weight.dtype.name != "I8" || weight.shape.len() != 2 {
        let (dtype, shape) = (weight.dtype, &weight.shape);
        let text = format!("has the format {dtype} and the shape {shape:?}, expected I8 and two dimensions");
        return Err(problem(weight, text).into());
    }
    expect(tensor, "F32", &[rows])?;
    if let Some((at, order)) = found.find(&format!("{base}.weight_format")) {
        expect(order, "U8", &[])?;
        let kind = Data { checkpoint: found.checkpoint, tensor: order }.bytes(at, 0, 1)?.first().copied();
        if kind != Some(0) {
            let text = format!("is {}, and only rows (0) are read", kind.unwrap_or_default());
            return Err(problem(order, text).into());
        }
    }
    let at = Numbers { index, number: Number::F32 };
    let scale = Scale::new(at, &weight.shape, &tensor.shape, &[]).map_err(|text| problem(tensor, text))?;
    let values = Numbers { index: codes, number: Number::I8 };
    let columns = weight.shape.last().copied().unwrap_or(1);
    let matrix = scaled::Scaled { values, scale: Some(scale), columns, factor: Some(INVERSE_127) };
    found.consumed.insert(index);
    let new = SourceTensor { dtype: Dtype::F32, ..weight.clone() };
    let form = Form::Decoded(codes, Box::new(matrix));
    found.replaced.insert(codes, Replacement { tensor: new, form, format: "INT8 (bitsandbytes)".to_owned() });
    Ok(())
}
