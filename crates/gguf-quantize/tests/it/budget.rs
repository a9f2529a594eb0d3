//! Types for a size, and the report of errors, on a small generated model.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
use gguf_io::Writer;
use gguf_pipeline::plan::{TensorOrigin, TensorPlan};
use gguf_pipeline::report::Report;
use gguf_pipeline::{Draft, Error as PipelineError, Event, Plan, Progress, RunOptions};
use gguf_quantize::budget::{Budget, Limit};
use gguf_quantize::imatrix::{Entry, Format, Imatrix, ImatrixFile};
use gguf_quantize::mix::{Reason, Target, TensorTypeRule};
use gguf_quantize::{ChooseTypes, Error, Quantization, QuantizeOptions, Warning};
use gguf_quants::codec::codec;

/// Number of experts in the stack.
const EXPERTS: u64 = 8;

/// Names and shapes, in the order of the file.
const TENSORS: &[(&str, &[u64])] = &[
    ("token_embd.weight", &[256, 8]),
    ("output.weight", &[256, 8]),
    ("output_norm.weight", &[256]),
    ("blk.0.attn_v.weight", &[256, 8]),
    ("blk.0.attn_q.weight", &[256, 16]),
    // Rows that are whole blocks of 32 only, or of no type.
    ("blk.0.ffn_up.weight", &[96, 16]),
    ("blk.0.ffn_gate.weight", &[40, 16]),
    ("blk.1.attn_v.weight", &[256, 8]),
    ("blk.1.ffn_down_exps.weight", &[256, 2, EXPERTS]),
];

/// Only the last expert is not zero.
fn model(dir: &Path) -> PathBuf {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 2u32);
    head.set("llama.expert_count", EXPERTS as u32);
    head.tensors = TENSORS
        .iter()
        .map(|&(name, shape)| {
            let ty = if shape.len() == 1 { GgmlType::F32 } else { GgmlType::F16 };
            TensorInfo::new(name, shape, ty)
        })
        .collect();
    let mut state = 7u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let data: Vec<Vec<u8>> = head
        .tensors
        .iter()
        .map(|t| {
            let n = t.shape.iter().product::<u64>() as usize;
            let zeros = if t.shape.len() == 3 { n - n / EXPERTS as usize } else { 0 };
            let values: Vec<f32> = (0..n).map(|i| if i < zeros { 0.0 } else { random() * random() }).collect();
            let mut out = vec![0; t.n_bytes().unwrap() as usize];
            let rows = gguf_quants::Rows::new(&values, t.shape[0] as usize, None).unwrap();
            codec(t.ty).unwrap().encode(rows, &mut out).unwrap();
            out
        })
        .collect();
    let path = dir.join("model.gguf");
    fs::write(&path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    path
}

/// Importance of all tensors except the output and the embeddings.
fn matrix() -> Arc<ImatrixFile> {
    let covered = TENSORS.iter().filter(|(name, shape)| name.starts_with("blk.") && shape.len() > 1);
    let entry = |&(name, shape): &(&str, &[u64])| {
        let experts = shape.get(2).copied().unwrap_or(1);
        let sums = (0..shape[0] * experts).map(|i| 1.0 + (i % 7) as f32).collect();
        (name.as_bytes().to_vec(), Entry { sums, counts: vec![9; experts as usize] })
    };
    let matrix = Imatrix {
        format: Format::Gguf,
        entries: covered.map(entry).collect(),
        datasets: vec![b"text".to_vec()],
        chunk_count: 1,
        chunk_size: 512,
    };
    Arc::new(ImatrixFile::from_bytes(matrix.write(Vec::new()).unwrap()).unwrap())
}

fn run(threads: usize) -> RunOptions {
    RunOptions::default().threads(NonZeroUsize::new(threads)).force(true)
}

fn budget(limit: Limit, candidates: &[GgmlType], threads: usize) -> Budget<'static> {
    let candidates = (!candidates.is_empty()).then(|| candidates.to_vec());
    Budget { candidates, threads: NonZeroUsize::new(threads), ..Budget::new(limit) }
}

fn quantize(
    model: &Path,
    matrix: Option<&Arc<ImatrixFile>>,
    options: &QuantizeOptions,
    types: &dyn ChooseTypes,
) -> Result<Quantization, Error> {
    gguf_quantize::plan(Draft::copy_of(model)?, matrix.cloned(), options, types)
}

fn types(plan: &Plan) -> Vec<(String, GgmlType)> {
    plan.tensors().iter().map(|t| (t.shown(), t.ty)).collect()
}

fn type_of(plan: &Plan, name: &str) -> GgmlType {
    types(plan).iter().find(|(n, _)| n == name).unwrap().1
}

/// The smallest size in the error.
fn smallest(error: &Error) -> Limit {
    match error {
        Error::Budget { smallest, .. } => *smallest,
        e => panic!("{e}"),
    }
}

/// A size below that of the smallest types is refused before anything is measured.
#[test]
fn an_impossible_size_costs_no_measurement() {
    struct Cancelled;

    impl Progress for Cancelled {
        fn event(&self, _: Event<'_>) {}

        fn is_cancelled(&self) -> bool {
            true
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let plan = |bytes| {
        let types_tried = [GgmlType::Q4_0, GgmlType::Q8_0];
        let budget = Budget { progress: &Cancelled, ..budget(Limit::FileBytes(bytes), &types_tried, 1) };
        quantize(&model, None, &QuantizeOptions::default(), &budget).unwrap_err()
    };
    let Limit::FileBytes(least) = smallest(&plan(600)) else { panic!() };
    assert!(matches!(plan(least - 1), Error::Budget { .. }));
    let measured = plan(least);
    assert!(matches!(measured, Error::Pipeline(PipelineError::Cancelled)), "{measured}");
}

#[test]
fn a_size_is_never_exceeded_and_well_used() {
    let dir = tempfile::tempdir().unwrap();
    let (model, matrix, out) = (model(dir.path()), matrix(), dir.path().join("out.gguf"));
    // Types that are fast to try even without optimisation.
    let types_tried = [GgmlType::Q3_K, GgmlType::IQ4_XS, GgmlType::Q5_K, GgmlType::Q8_0, GgmlType::F16];
    let plan = |limit, threads| {
        quantize(&model, Some(&matrix), &QuantizeOptions::default(), &budget(limit, &types_tried, threads))
    };

    let Limit::FileBytes(least) = smallest(&plan(Limit::FileBytes(1000), 1).unwrap_err()) else { panic!() };
    let best = plan(Limit::FileBytes(u64::MAX), 1).unwrap();
    let most = best.plan.file_bytes();
    let is_best = |w: &Warning| matches!(w, Warning::BestTypes { .. });
    assert!(best.warnings.iter().any(is_best), "{:?}", best.warnings);
    assert!(best.plan.tensors().iter().all(|t| t.ty == t.from));
    assert_eq!(smallest(&plan(Limit::FileBytes(least - 1), 1).unwrap_err()), Limit::FileBytes(least));

    let mut before = 0;
    for size in [least, least + 777, (least + most) / 2, most - 1] {
        let chosen = plan(Limit::FileBytes(size), 2).unwrap();
        assert_eq!(types(&chosen.plan), types(&plan(Limit::FileBytes(size), 5).unwrap().plan));
        assert!(!chosen.warnings.iter().any(is_best));
        chosen.plan.run(&out, &run(2), &()).unwrap();
        let bytes = fs::read(&out).unwrap();
        assert!(bytes.len() as u64 <= size && bytes.len() as u64 >= before, "{} of {size}", bytes.len());
        // One more step of the tensor with the widest steps does not fit.
        assert!(bytes.len() as u64 + 4_000 > size, "{} of {size}", bytes.len());
        let gguf = Gguf::parse(bytes.as_slice()).unwrap();
        assert!(gguf.get("general.file_type").is_some());
        before = bytes.len() as u64;
    }

    let Limit::BitsPerWeight(bits) = smallest(&plan(Limit::BitsPerWeight(0.5), 1).unwrap_err()) else { panic!() };
    let size = |plan: &Plan| {
        let bytes: u64 = plan.tensors().iter().map(|t| t.n_bytes()).sum();
        let weights: u64 = TENSORS.iter().map(|(_, shape)| shape.iter().product::<u64>()).sum();
        bytes as f64 * 8.0 / weights as f64
    };
    for limit in [bits * 1.000001, 6.0, 9.5] {
        let bits = size(&plan(Limit::BitsPerWeight(limit), 1).unwrap().plan);
        assert!(bits <= limit && bits > limit - 1.0, "{bits} of {limit}");
    }
}

#[test]
fn what_is_decided_otherwise_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (model, matrix) = (model(dir.path()), matrix());
    let mut with = QuantizeOptions::default();
    with.mix.tensor_types = vec![TensorTypeRule::parse("attn_q=q8_0").unwrap()];
    with.mix.output_tensor_type = Some(GgmlType::Q5_K);
    let plan = |limit, matrix, options: &QuantizeOptions| {
        let candidates = [GgmlType::IQ2_XXS, GgmlType::Q2_K, GgmlType::Q6_K];
        quantize(&model, matrix, options, &budget(limit, &candidates, 2)).map(|done| done.plan)
    };
    let least = smallest(&plan(Limit::FileBytes(1), Some(&matrix), &with).unwrap_err());
    let with_matrix = plan(least, Some(&matrix), &with).unwrap();
    for (name, ty) in [
        ("blk.0.attn_q.weight", GgmlType::Q8_0),
        ("output.weight", GgmlType::Q5_K),
        ("output_norm.weight", GgmlType::F32),
        ("blk.0.ffn_gate.weight", GgmlType::F16),
        ("blk.0.ffn_up.weight", GgmlType::IQ4_NL),
        ("blk.0.attn_v.weight", GgmlType::IQ2_XXS),
        // The matrix has no entry for it, so types that need one are excluded.
        ("token_embd.weight", GgmlType::Q2_K),
    ] {
        assert_eq!(type_of(&with_matrix, name), ty, "{name}");
    }
    let least = smallest(&plan(Limit::FileBytes(1), None, &with).unwrap_err());
    assert_eq!(type_of(&plan(least, None, &with).unwrap(), "blk.0.attn_v.weight"), GgmlType::Q2_K);

    let within = budget(Limit::BitsPerWeight(7.0), &[GgmlType::Q6_K, GgmlType::Q4_K], 1);
    let plan = quantize(&model, None, &QuantizeOptions::default(), &within).unwrap().plan;
    for tensor in plan.tensors().iter().filter(|t| matches!(t.reason, Reason::Budget { .. })) {
        // Q5_0 and Q8_0 replace them if rows are short.
        let fits = [GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::Q5_0, GgmlType::Q8_0].contains(&tensor.ty);
        assert!(fits, "{} {}", tensor.ty, tensor.reason);
    }
    let within = budget(Limit::BitsPerWeight(7.0), &[GgmlType::IQ2_XXS], 1);
    let error = quantize(&model, None, &QuantizeOptions::default(), &within).unwrap_err();
    assert!(matches!(error, Error::NeedsMatrix { ty: GgmlType::IQ2_XXS, .. }), "{error}");
}

/// A sample without the last expert would see a tensor of zeros, which has no error in any type.
#[test]
fn every_expert_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let (model, matrix) = (model(dir.path()), matrix());
    let within = budget(Limit::FileBytes(16_000), &[GgmlType::Q2_K, GgmlType::Q8_0], 1);
    let plan = quantize(&model, Some(&matrix), &QuantizeOptions::default(), &within).unwrap().plan;
    let tensor = plan.tensors().iter().find(|t| *t.name == *b"blk.1.ffn_down_exps.weight").unwrap();
    assert!(matches!(tensor.reason, Reason::Budget { relative_ppm: 1.. }), "{}", tensor.reason);
}

/// A model of one tensor of F32.
fn model_of(dir: &Path, row: u64, values: &[f32]) -> PathBuf {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("llama.block_count", 1u32);
    head.tensors = vec![TensorInfo::new("blk.0.attn_q.weight", [row, values.len() as u64 / row], GgmlType::F32)];
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let path = dir.join("one.gguf");
    fs::write(&path, Writer::write(Vec::new(), &head, vec![data]).unwrap()).unwrap();
    path
}

/// The maximum of F16 is 65,504, also for scales in half precision; squares overflow single precision at 1e19.
#[test]
fn types_that_cannot_hold_the_numbers_are_not_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.gguf");
    for largest in [2e5, 1e10, 1e20, 3e38] {
        let values: Vec<f32> = (0..512).map(|i| largest * ((i * 37 % 101) as f32 / 50.0 - 1.0)).collect();
        let model = model_of(dir.path(), 256, &values);
        let plan = |candidates: &[GgmlType]| {
            let within = budget(Limit::BitsPerWeight(40.0), candidates, 1);
            quantize(&model, None, &QuantizeOptions::default(), &within).map(|done| done.plan)
        };
        let types = [GgmlType::Q2_K, GgmlType::IQ3_S, GgmlType::F16, GgmlType::F32];
        let best = plan(&types).unwrap();
        assert_eq!(type_of(&best, "blk.0.attn_q.weight"), GgmlType::F32, "{largest}");
        let of_narrow = plan(&types[..3]).map(|plan| _ = plan.run(&out, &run(1), &()).unwrap());
        match largest {
            2e5 => of_narrow.unwrap(),
            _ => {
                let Err(Error::Pipeline(e)) = of_narrow else { panic!("{of_narrow:?}") };
                assert!(matches!(e, PipelineError::NotFinite { .. } | PipelineError::Codec { .. }), "{e:?}");
            }
        }
    }
    for bad in [f32::NAN, f32::INFINITY] {
        let mut values = vec![1.0; 512];
        values[300] = bad;
        let model = model_of(dir.path(), 256, &values);
        let within = budget(Limit::BitsPerWeight(40.0), &[GgmlType::Q4_0], 1);
        let error = quantize(&model, None, &QuantizeOptions::default(), &within).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("one.gguf: the tensor blk.0.attn_q.weight") && error.contains("row 1"), "{error}");
    }
}

#[test]
fn candidates_that_do_not_fit_rows_need_no_matrix() {
    let dir = tempfile::tempdir().unwrap();
    let model = model_of(dir.path(), 64, &[1.0; 128]);
    let within = budget(Limit::BitsPerWeight(40.0), &[GgmlType::Q1_0], 1);
    let error = quantize(&model, None, &QuantizeOptions::default(), &within).unwrap_err().to_string();
    assert!(error.contains("rows of 64") && error.contains("q1_0 (blocks of 128)"), "{error}");
}

fn report(
    model: &Path,
    target: &str,
    matrix: Option<&Arc<ImatrixFile>>,
    threads: usize,
    out: &Path,
) -> (Vec<TensorPlan>, Report) {
    let target = Target::parse(target).unwrap();
    let plan = quantize(model, matrix, &QuantizeOptions::default(), &target).unwrap().plan;
    let report = plan.run(out, &run(threads).measure(true), &()).unwrap().report.unwrap();
    (plan.into_draft().tensors, report)
}

/// All values of a tensor.
fn values(file: &[u8], name: &str) -> Vec<f32> {
    let gguf = Gguf::parse(file).unwrap();
    let tensor = gguf.tensor(name).unwrap();
    let range = gguf.tensor_range(&tensor).unwrap();
    let mut values = vec![0.0; tensor.n_elements().unwrap() as usize];
    let bytes = &file[range.start as usize..range.end as usize];
    codec(tensor.ty).unwrap().decode(bytes, &mut values).unwrap();
    values
}

#[test]
fn the_report_is_about_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let (model, matrix, out) = (model(dir.path()), matrix(), dir.path().join("out.gguf"));
    for (target, matrix) in [("Q4_K_M", Some(&matrix)), ("BF16", None)] {
        let (tensors, of_one) = report(&model, target, matrix, 1, &out);
        let (_, of_many) = report(&model, target, matrix, 7, &out);
        let (before, after) = (fs::read(&model).unwrap(), fs::read(&out).unwrap());
        // Tensors with an unchanged type are copied, and not reported.
        assert_eq!(
            of_one.tensors.len(),
            TENSORS.iter().filter(|(_, shape)| shape.len() > 1).count() - usize::from(target == "Q4_K_M")
        );
        assert_eq!(of_one.tensors.len(), of_many.tensors.len());
        for (one, many) in of_one.tensors.iter().zip(&of_many.tensors) {
            assert_eq!((one.index, one.error.figures()), (many.index, many.error.figures()));
            assert_eq!(one.error.weighted(), many.error.weighted());
            let TensorOrigin { name, shape, .. } = &*tensors[one.index];
            let name = std::str::from_utf8(name).unwrap();
            let (x, y) = (values(&before, name), values(&after, name));
            let error = |i: usize| f64::from(x[i]) - f64::from(y[i]);
            let weight = |i: usize| 1.0 + (i % shape[0] as usize + i / (shape[0] * 2) as usize * 256) as f64 % 7.0;
            let sum = |term: &dyn Fn(usize) -> f64| (0..x.len()).map(term).sum::<f64>();
            let figures = one.error.figures();
            let rmse = (sum(&|i| error(i).powi(2)) / x.len() as f64).sqrt();
            assert!((figures.rmse - rmse).abs() <= rmse * 1e-9, "{name} {} {rmse}", figures.rmse);
            let largest = figures.largest.unwrap();
            let at = (largest.row * shape[0] + largest.column) as usize;
            assert!((error(at).abs() - largest.error).abs() < 1e-12);
            assert!((0..x.len()).all(|i| error(i).abs() <= largest.error * (1.0 + 1e-12)));
            assert_eq!(one.error.weighted().is_some(), matrix.is_some() && name.starts_with("blk."));
            if let Some(weighted) = one.error.weighted().filter(|_| shape.len() == 3) {
                let relative = sum(&|i| weight(i) * error(i).powi(2)) / sum(&|i| weight(i) * f64::from(x[i]).powi(2));
                assert!((weighted.relative / relative.sqrt() - 1.0).abs() < 1e-9, "{name}");
            }
        }
        let n: u64 = of_one.tensors.iter().map(|t| tensors[t.index].n_elements()).sum();
        assert_eq!(of_one.total().n(), n);
    }
}
