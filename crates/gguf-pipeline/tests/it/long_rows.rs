//! Rows of any length: memory must not depend on it, and the bytes must be those of whole rows.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
use gguf_io::Writer;
use gguf_pipeline::{Draft, Error, Event, Progress, RunOptions, RunSummary};
use gguf_quants::measure::{RowError, TensorError};
use gguf_test::checkpoint::f32_data;

use crate::common::{Weights, floats, threads, typed, weighted};

/// More than two parts of a row, the last of them short.
const ROW: u64 = (2 << 20) + 512;
const ROWS: u64 = 2;

/// A model with two long rows, its values, and weights of the columns.
fn long_rows(dir: &Path) -> (PathBuf, Vec<f32>, Vec<f32>) {
    let path = dir.join("long.gguf");
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    head.tensors = vec![TensorInfo::new("blk.0.attn_q.weight", [ROW, ROWS], GgmlType::F32)];
    let data = f32_data(7, ROW * ROWS);
    fs::write(&path, Writer::write(Vec::new(), &head, [&data]).unwrap()).unwrap();
    let weights = floats(&f32_data(8, ROW)).iter().map(|x| x * x + 0.01).collect();
    (path, floats(&data), weights)
}

fn quantize(
    input: &Path,
    out: &Path,
    ty: GgmlType,
    weights: Option<&[f32]>,
    run: &RunOptions,
    progress: &dyn Progress,
) -> Result<RunSummary, Error> {
    let mut draft = typed(Draft::copy_of(input).unwrap(), ty);
    if let Some(weights) = weights {
        draft = weighted(draft, Arc::new(Weights(weights.to_vec())));
    }
    draft.lay_out().unwrap().run(out, run, progress)
}

/// The bytes of a divided row are those of the whole row, with and without a matrix, for types that look at whole rows and others.
#[test]
fn rows_in_parts_are_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (input, values, weights) = long_rows(dir.path());
    let out = dir.path().join("out.gguf");
    for (ty, is_weighted, n) in [
        (GgmlType::Q4_0, true, 3),
        (GgmlType::Q4_0, false, 1),
        (GgmlType::Q5_1, true, 1),
        (GgmlType::Q4_K, true, 2),
        (GgmlType::IQ4_NL, true, 3),
        (GgmlType::Q8_0, false, 2),
        (GgmlType::F16, false, 2),
    ] {
        let weights = is_weighted.then_some(weights.as_slice());
        let summary = quantize(&input, &out, ty, weights, &threads(n).force(true).measure(true), &()).unwrap();
        let bytes = fs::read(&out).unwrap();
        let gguf = Gguf::parse(&bytes).unwrap();
        let tensor = gguf.tensor("blk.0.attn_q.weight").unwrap();
        let range = gguf.tensor_range(&tensor).unwrap();
        let found = &bytes[range.start as usize..range.end as usize];
        let expected = gguf_quants::quantize(tensor.ty, &values, ROW as usize, weights, None).unwrap();
        assert_eq!(tensor.ty, ty);
        assert!(found == expected, "{ty}, weighted: {is_weighted}");

        let decoded = gguf_quants::dequantize(tensor.ty, &expected).unwrap();
        let mut error = TensorError::new();
        for (row, (x, y)) in values.chunks(ROW as usize).zip(decoded.chunks(ROW as usize)).enumerate() {
            error.add(row as u64, &RowError::new(x, y, weights));
        }
        let report = &summary.report.unwrap().tensors[0].error;
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        for (found, expected) in
            [(Some(report.figures()), Some(error.figures())), (report.weighted(), error.weighted())]
        {
            assert_eq!(found.is_some(), expected.is_some());
            let Some((a, b)) = found.zip(expected) else { continue };
            assert!(near(a.rmse, b.rmse) && near(a.relative, b.relative) && near(a.cosine, b.cosine), "{a:?} {b:?}");
            let (a, b) = (a.largest.unwrap(), b.largest.unwrap());
            assert!((a.row, a.column) == (b.row, b.column) && near(a.error, b.error), "{a:?} {b:?}");
        }
    }
}

/// Cancels the work after two chunks; counts reused work.
#[derive(Default)]
struct Watch {
    ends: bool,
    done: AtomicU64,
    kept: AtomicU64,
}

impl Progress for Watch {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Advanced { .. } => _ = self.done.fetch_add(1, Ordering::Relaxed),
            Event::Kept { .. } => _ = self.kept.fetch_add(1, Ordering::Relaxed),
            _ => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.ends && self.done.load(Ordering::Relaxed) >= 2
    }
}

/// A journal treats parts of rows like other chunks.
#[test]
fn rows_in_parts_are_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let (input, _, weights) = long_rows(dir.path());
    let (out, whole) = (dir.path().join("out.gguf"), dir.path().join("whole.gguf"));
    let run = |n| threads(n).resume(true);
    quantize(&input, &whole, GgmlType::Q4_0, Some(&weights), &run(2), &()).unwrap();
    let watch = Watch { ends: true, ..Watch::default() };
    let ended = quantize(&input, &out, GgmlType::Q4_0, Some(&weights), &run(1), &watch);
    assert!(matches!(ended, Err(Error::Kept { .. })), "{ended:?}");
    let watch = Watch::default();
    quantize(&input, &out, GgmlType::Q4_0, Some(&weights), &run(2), &watch).unwrap();
    assert_eq!((watch.kept.into_inner(), watch.done.into_inner()), (2, 4));
    assert!(fs::read(&out).unwrap() == fs::read(&whole).unwrap());
}
