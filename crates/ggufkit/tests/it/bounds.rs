//! Operations whose memory must not depend on the claims of a file: rows of any length, shared data, padding.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
use gguf_io::Writer;
use gguf_pipeline::{Draft, Error, Event, Progress, RunOptions, RunSummary};
use gguf_quantize::imatrix::{Entry, Format, Imatrix, ImatrixFile};
use gguf_quantize::mix::{Target, TensorTypeRule};
use gguf_quantize::{QuantizeOptions, Warning};
use gguf_quants::measure::{RowError, TensorError};
use gguf_test::checkpoint::f32_data;

/// More than two parts of a row, the last of them short.
const ROW: u64 = (2 << 20) + 512;
const ROWS: u64 = 2;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn write(path: &Path, head: &Head, data: &[Vec<u8>]) {
    fs::write(path, Writer::write(Vec::new(), head, data).unwrap()).unwrap();
}

/// A model with two long rows, and an importance matrix for it.
fn long_rows(dir: &Path) -> (PathBuf, Vec<f32>, Arc<ImatrixFile>) {
    let path = dir.join("long.gguf");
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    head.tensors = vec![TensorInfo::new("blk.0.attn_q.weight", [ROW, ROWS], GgmlType::F32)];
    let data = f32_data(7, ROW * ROWS);
    write(&path, &head, std::slice::from_ref(&data));
    let sums = floats(&f32_data(8, ROW)).iter().map(|x| x * x + 0.01).collect();
    let entries = [(b"blk.0.attn_q.weight".to_vec(), Entry { sums, counts: vec![1] })].into();
    let matrix =
        Imatrix { format: Format::Gguf, entries, datasets: vec![b"t".to_vec()], chunk_count: 1, chunk_size: 1 };
    let matrix = ImatrixFile::from_bytes(matrix.write(Vec::new()).unwrap()).unwrap();
    (path, floats(&data), Arc::new(matrix))
}

fn quantize(
    input: &Path,
    out: &Path,
    ty: &str,
    matrix: Option<&Arc<ImatrixFile>>,
    run: &RunOptions,
    progress: &dyn Progress,
) -> Result<RunSummary, Error> {
    let mut options = QuantizeOptions::default();
    options.mix.tensor_types = vec![TensorTypeRule::parse(&format!(".={ty}")).unwrap()];
    let target = Target::parse("Q8_0").unwrap();
    let plan = gguf_quantize::plan(Draft::copy_of(input).unwrap(), matrix.cloned(), &options, &target).unwrap();
    plan.plan.run(out, run, progress)
}

/// The bytes of a divided row are those of the whole row, with and without a matrix, for types that look at whole rows and others.
#[test]
fn rows_in_parts_are_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let (input, values, matrix) = long_rows(dir.path());
    let out = dir.path().join("out.gguf");
    let weights = matrix.weights(b"blk.0.attn_q.weight").unwrap().unwrap();
    for (ty, with_matrix, threads) in [
        ("q4_0", true, 3),
        ("q4_0", false, 1),
        ("q5_1", true, 1),
        ("q4_K", true, 2),
        ("iq4_nl", true, 3),
        ("q8_0", false, 2),
        ("f16", false, 2),
    ] {
        let run = RunOptions::default().threads(NonZeroUsize::new(threads)).force(true).measure(true);
        let used = with_matrix.then_some(&matrix);
        let summary = quantize(&input, &out, ty, used, &run, &()).unwrap();
        let bytes = fs::read(&out).unwrap();
        let gguf = Gguf::parse(&bytes).unwrap();
        let tensor = gguf.tensor("blk.0.attn_q.weight").unwrap();
        let range = gguf.tensor_range(&tensor).unwrap();
        let found = &bytes[range.start as usize..range.end as usize];
        let weights = with_matrix.then_some(weights.as_slice());
        let expected = gguf_quants::quantize(tensor.ty, &values, ROW as usize, weights, None).unwrap();
        assert_eq!(tensor.ty.to_string(), ty);
        assert!(found == expected, "{ty}, matrix: {with_matrix}");

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
    let (input, _, matrix) = long_rows(dir.path());
    let (out, whole) = (dir.path().join("out.gguf"), dir.path().join("whole.gguf"));
    let run = |threads| RunOptions::default().threads(NonZeroUsize::new(threads)).resume(true);
    quantize(&input, &whole, "q4_0", Some(&matrix), &run(2), &()).unwrap();
    let watch = Watch { ends: true, ..Watch::default() };
    let ended = quantize(&input, &out, "q4_0", Some(&matrix), &run(1), &watch);
    assert!(matches!(ended, Err(Error::Kept { .. })), "{ended:?}");
    let watch = Watch::default();
    quantize(&input, &out, "q4_0", Some(&matrix), &run(2), &watch).unwrap();
    assert_eq!((watch.kept.into_inner(), watch.done.into_inner()), (2, 4));
    assert!(fs::read(&out).unwrap() == fs::read(&whole).unwrap());
}

#[test]
fn a_file_of_padding_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.gguf"), dir.path().join("out.gguf"));
    let small = |alignment: u32, n: usize| {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        head.set("general.alignment", alignment);
        let mut bytes = head.encode_as_read().unwrap();
        head.tensors = (0..n).map(|i| TensorInfo::new(format!("t{i}"), [8], GgmlType::F32)).collect();
        if n > 0 {
            let data = vec![vec![0; 32]; n];
            bytes = Writer::write(Vec::new(), &head, &data).unwrap();
        }
        fs::write(&input, bytes).unwrap();
        let draft = Draft::copy_of(&input).unwrap();
        draft.lay_out().and_then(|plan| plan.run(&out, &RunOptions::default().force(true), &()).map(|_| ()))
    };
    for alignment in [1 << 29, 1 << 31] {
        let error = small(alignment, 0).unwrap_err();
        assert!(matches!(error, Error::Padding { alignment: found, .. } if found == u64::from(alignment)), "{error}");
        assert!(error.is_bad_input() && error.to_string().contains("general.alignment is "), "{error}");
        assert!(!out.exists());
    }
    // Huge pages, and small amounts of padding.
    for (alignment, n) in [(32, 3), (4096, 3), (2 << 20, 20), (64 << 20, 0)] {
        small(alignment, n).unwrap();
        fs::remove_file(&out).unwrap();
    }
    // Each tensor is padded.
    assert!(matches!(small(2 << 20, 200), Err(Error::Padding { .. })));
}

#[test]
fn data_that_is_shared_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.gguf");
    let warnings = |offsets: [u64; 2]| {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        let info = |(i, offset)| TensorInfo {
            offset,
            ..TensorInfo::new(format!("blk.{i}.attn_q.weight"), [32, 64], GgmlType::F32)
        };
        head.tensors = (0..2).zip(offsets).map(info).collect();
        let mut bytes = head.encode_as_read().unwrap();
        bytes.resize(bytes.len().next_multiple_of(32) + 8192 + offsets[1] as usize, 0);
        fs::write(&input, bytes).unwrap();
        let target = Target::parse("Q8_0").unwrap();
        let draft = Draft::copy_of(&input).unwrap();
        gguf_quantize::plan(draft, None, &QuantizeOptions::default(), &target).unwrap().warnings
    };
    assert!(warnings([0, 8192]).is_empty());
    let found = warnings([0, 0]);
    let [Warning::Shared { tensor_bytes: 16384, input_bytes, .. }] = found[..] else { panic!("{found:?}") };
    assert!(input_bytes < 16384);
    assert!(found[0].to_string().starts_with("tensors share data: 16,384 bytes in a model of "), "{}", found[0]);
}
