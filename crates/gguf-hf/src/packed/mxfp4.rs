//! MXFP4, blocks of 32 values with a power-of-two scale. gpt-oss stores transposed matrices as `X_blocks` with `X_scales`; compressed-tensors
//! and MiMo store matrices by rows with `X.weight_scale`.

use gguf_format::GgmlType;
use gguf_format::sort::CompactSort as _;
use gguf_pipeline::plan::TensorPlan;

use super::blocks::{Blocks, Format, of_rows};
use super::companion::{expect_shape, problem};
use super::found::{Form, FoundWeights, Replacement};
use crate::dtype::{Dtype, SourceTensor};
use crate::model_plan::PlanError;

/// Bytes of the values in a block.
const CODES: u64 = 16;

/// Finds the MXFP4 weights of a checkpoint.
pub(super) fn find(found: &mut FoundWeights<'_>) -> Result<(), PlanError> {
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
        let columns = n_blocks.checked_mul(Format::MXFP4.len()).ok_or_else(too_large)?;
        let all = n.checked_mul(rows).and_then(|n| n.checked_mul(n_blocks)).filter(|n| *n < 1 << 56);
        let blocks = Blocks { format: Format::MXFP4, codes, scales, n_blocks: all.ok_or_else(too_large)? };
        // The floating-point checkpoint stores the matrices transposed, and architectures expect its shapes.
        let shape = vec![n, columns, rows];
        let tensor = SourceTensor { name: name.to_owned(), dtype: Dtype::MXFP4_TRANSPOSED, shape };
        found.consumed.extend([codes, scales]);
        found.first.push(Replacement { tensor, form: Form::Blocks(blocks), format: "MXFP4".to_owned() });
    }
    Ok(())
}

/// Finds matrices stored by rows. `end` is the name suffix of the packed weights.
pub(super) fn find_rows(found: &mut FoundWeights<'_>, end: &str) -> Result<(), PlanError> {
    for (codes, tensor) in found.tensors() {
        let Some(base) = tensor.name.strip_suffix(end) else { continue };
        let name = format!("{base}.weight");
        let (scales, of_scales) = match found.find(&format!("{name}_scale")) {
            Some(scales) => scales,
            None if end == ".weight" => continue,
            None => found.need(&format!("{name}_scale"), tensor)?,
        };
        if end != ".weight" && found.find(&name).is_some() {
            return Err(problem(tensor, format!("is present together with {name:?}, which replaces it")));
        }
        add_rows(found, name, (codes, tensor), (scales, of_scales))?;
    }
    Ok(())
}

/// Adds the blocks of a matrix stored by rows, under the given name.
pub(super) fn add_rows(
    found: &mut FoundWeights<'_>,
    name: String,
    codes: (usize, &SourceTensor),
    scales: (usize, &SourceTensor),
) -> Result<(), PlanError> {
    let (shape, blocks) = of_rows(Format::MXFP4, codes, scales)?;
    found.consumed.extend([codes.0, scales.0]);
    let tensor = SourceTensor { name, dtype: Dtype::MXFP4, shape };
    found.first.push(Replacement { tensor, form: Form::Blocks(blocks), format: "MXFP4".to_owned() });
    Ok(())
}

/// Moves the tensors stored by rows before all others, ordered by block and by name in the checkpoint, as the reference does
/// (`_write_mxfp4_experts` in `conversion/mimo.py` and `conversion/kimi_k3.py`), and integer tensors before these (`generate_extra_tensors` in
/// `conversion/deepseek.py`).
pub(super) fn arrange(sources: &[SourceTensor], tensors: &mut [TensorPlan]) {
    let place = |tensor: &TensorPlan| {
        let first = tensor.op.inputs().first()?;
        let is_in_rows = sources.get(first.index()).is_some_and(|source| source.dtype == Dtype::MXFP4);
        let part = first.name.trim_end_matches(".weight").rsplit('.').next();
        let name = String::from_utf8_lossy(&tensor.name);
        let block = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0u64);
        let part = part.unwrap_or_default().to_owned();
        match tensor.op.value_type() {
            GgmlType::I32 => Some((0, block, part)),
            _ => is_in_rows.then_some((1, block, part)),
        }
    };
    if tensors.iter().any(|tensor| tensor.op.value_type() == GgmlType::MXFP4) {
        tensors.compact_sort_by_cached_key(|tensor| match place(tensor) {
            Some(place) => place,
            None => (2, 0, String::new()),
        });
    }
}
