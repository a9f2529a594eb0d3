//! Rows of a trained model.

use std::error::Error;
use std::path::Path;

use gguf_format::GgmlType;
use gguf_io::ModelFile;

/// The values of all matrices of a GGUF in bf16, f16 or f32.
///
/// # Errors
/// If the file cannot be read.
pub fn real_rows(file: &Path) -> Result<Vec<f32>, Box<dyn Error>> {
    let model = ModelFile::open(file)?;
    let mut values = vec![];
    for tensor in model.tensors() {
        if tensor.shape().len() >= 2 && matches!(tensor.ty(), GgmlType::BF16 | GgmlType::F16 | GgmlType::F32) {
            values.append(&mut tensor.to_f32()?);
        }
    }
    Ok(values)
}
