//! Models and plans for tests.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::{GgmlType, Head, TensorInfo};
use gguf_io::Writer;
use gguf_pipeline::plan::Entry;
use gguf_pipeline::{Draft, Error, Importance, RunOptions};
use gguf_quants::float::encode_f16;
use gguf_test::checkpoint::f32_data;

/// Writes a model with reproducible values. Vectors are in single precision, matrices in half precision.
pub fn write_model(path: &Path, shapes: &[(&str, &[u64])]) {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    let ty = |shape: &[u64]| if shape.len() == 1 { GgmlType::F32 } else { GgmlType::F16 };
    head.tensors = shapes.iter().map(|(name, shape)| TensorInfo::new(*name, *shape, ty(shape))).collect();
    let data = (0..).zip(shapes).map(|(seed, (_, shape))| {
        let bytes = f32_data(seed, shape.iter().product());
        match ty(shape) {
            GgmlType::F32 => bytes,
            _ => {
                let mut halves = vec![0; bytes.len() / 2];
                encode_f16(&floats(&bytes), &mut halves);
                halves
            }
        }
    });
    fs::write(path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
}

/// A model of ten matrices with rows of whole blocks of every type.
pub fn matrices(dir: &Path) -> PathBuf {
    let names: Vec<String> = (0..10).map(|i| format!("blk.{i}.ffn_up.weight")).collect();
    let shapes: Vec<(&str, &[u64])> = names.iter().map(|name| (name.as_str(), &[256, 9][..])).collect();
    let path = dir.join("in.gguf");
    write_model(&path, &shapes);
    path
}

/// Numbers from their bytes.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The draft with another type of its matrices.
pub fn typed(mut draft: Draft, ty: GgmlType) -> Draft {
    draft.tensors.iter_mut().filter(|tensor| tensor.shape.len() > 1).for_each(|tensor| tensor.ty = ty);
    draft
}

/// The draft with weights of importance for its matrices.
pub fn weighted(mut draft: Draft, importance: Arc<dyn Importance>) -> Draft {
    for tensor in draft.tensors.iter_mut().filter(|tensor| tensor.shape.len() > 1) {
        tensor.importance = Some(Box::new(Entry(tensor.name.clone())));
    }
    draft.importance = Some(importance);
    draft
}

/// The same weights for every tensor, repeated over the columns.
#[derive(Debug)]
pub struct Weights(pub Vec<f32>);

impl Importance for Weights {
    fn weights(&self, _: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, Error> {
        Ok(Some(columns.map(|column| self.0[column as usize % self.0.len()]).collect()))
    }
}

pub fn threads(n: usize) -> RunOptions {
    RunOptions::default().threads(NonZeroUsize::new(n))
}
