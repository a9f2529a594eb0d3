//! Rows of a trained model.

use std::error::Error;
use std::path::Path;

use gguf_format::GgmlType;
use gguf_io::ModelFile;
use gguf_quants::float;

/// The values of every matrix of a GGUF in bf16, f16 or f32, one after the other.
///
/// # Errors
/// When the file cannot be read.
pub fn real_rows(file: &Path) -> Result<Vec<f32>, Box<dyn Error>> {
    let model = ModelFile::open(file)?;
    let mut values = vec![];
    for tensor in model.gguf().tensors() {
        if tensor.dims.len() < 2 {
            continue;
        }
        let bytes = model.tensor_data(&tensor)?;
        let mut rows = vec![0.0; bytes.len() / if tensor.ty == GgmlType::F32 { 4 } else { 2 }];
        match tensor.ty {
            GgmlType::BF16 => float::decode_bf16(bytes, &mut rows),
            GgmlType::F16 => float::decode_f16(bytes, &mut rows),
            GgmlType::F32 => float::decode_f32(bytes, &mut rows),
            _ => continue,
        }
        values.append(&mut rows);
    }
    Ok(values)
}
