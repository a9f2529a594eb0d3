//! Plans of quantizations for models that could not be written unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Head, TensorInfo, Value};
use gguf_pipeline::{Draft, Error as PipelineError, RunOptions};
use gguf_quantize::mix::Target;
use gguf_quantize::{Error, QuantizeOptions};

/// A file with these tensors of 32 columns and 4 rows, and arbitrary additions to its head.
fn write(dir: &Path, names: &[&str], more: impl Fn(&mut Head)) -> PathBuf {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 2u32);
    let tensor = |(i, name): (usize, &&str)| TensorInfo {
        offset: 512 * i as u64,
        ..TensorInfo::new(*name, [32, 4], GgmlType::F32)
    };
    head.tensors = names.iter().enumerate().map(tensor).collect();
    more(&mut head);
    let mut bytes = head.encode_as_read().unwrap();
    bytes.resize(bytes.len().next_multiple_of(32) + 512 * names.len(), 0);
    let path = dir.join("model.gguf");
    fs::write(&path, bytes).unwrap();
    path
}

fn quantize(model: &Path, options: &QuantizeOptions) -> Result<usize, Error> {
    let plan = gguf_quantize::plan(Draft::copy_of(model)?, None, options, &Target::parse("Q8_0").unwrap())?.plan;
    plan.run(model.with_file_name("out.gguf"), &RunOptions::default().force(true), &())?;
    Ok(plan.tensors().len())
}

/// Removed or replaced parts do not have to be writable.
#[test]
fn what_an_edit_mends_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, mut pruned) = (QuantizeOptions::default(), QuantizeOptions::default());
    pruned.prune_layers = vec![1];
    let long = format!("blk.1.{}.weight", "w".repeat(70));
    for second in ["blk.1.attn_q.weight", &long] {
        let model = write(dir.path(), &["blk.0.attn_q.weight", second, second], |_| {});
        let error = quantize(&model, &plain).unwrap_err();
        assert!(matches!(error, Error::Pipeline(PipelineError::Layout { .. })), "{error:?}");
        assert!(error.to_string().starts_with(model.to_str().unwrap()), "{error}");
        assert_eq!(quantize(&model, &pruned).unwrap(), 1);
    }
    let model = write(dir.path(), &["blk.0.attn_q.weight"], |head| {
        let twice = head.kvs[1].clone();
        head.kvs.push(twice);
    });
    assert!(quantize(&model, &plain).is_err());
    let mut set = QuantizeOptions::default();
    set.overrides = vec![("llama.block_count".to_owned(), Value::from(1u32))];
    assert_eq!(quantize(&model, &set).unwrap(), 1);
}

/// The error for an importance matrix takes precedence over all others.
#[test]
fn an_importance_matrix_is_no_model() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(dir.path(), &["a.in_sum2", "a.in_sum2"], |head| head.set("general.type", "imatrix"));
    assert!(matches!(quantize(&model, &QuantizeOptions::default()), Err(Error::NotAModel { .. })));
}
