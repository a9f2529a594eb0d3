//! Operations on tensors of several chunks: each chunk has the values of its place in the whole tensor.

use std::path::PathBuf;
use std::sync::Arc;

use gguf_format::{ByteOrder, GgmlType, Gguf, Head};
use gguf_pipeline::moves::{Axis, Move};
use gguf_pipeline::plan::{
    BatchNorm, Elementwise, Gather, Input, LowRank, Narrow, Op, Product, Reason, Resize, RoundToMean, Rounding, Sum,
    Term,
};
use gguf_pipeline::{Draft, Error, MemorySink, Source, Stage, TensorPlan};
use gguf_quants::float::{decode_f16, encode_f16};

use crate::common::{floats, threads};

/// Rows and columns of the tensors: more than a chunk in single precision.
const ROWS: u64 = 1100;
const COLUMNS: u64 = 1200;
const N: usize = (ROWS * COLUMNS) as usize;

/// Tensors in memory.
#[derive(Debug)]
struct Memory(Vec<Vec<u8>>);

impl Source for Memory {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let out_of = || Error::OutOfTensor { tensor: format!("number {index}"), bytes: 0 };
        let tensor = self.0.get(index).ok_or_else(out_of)?;
        let found = tensor.get(offset as usize..).and_then(|rest| rest.get(..buffer.len())).ok_or_else(out_of)?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

/// A number that half precision has, different for neighbours.
fn value(i: usize) -> f32 {
    (i * 7 % 2039) as f32 / 8.0 - 100.0
}

fn f32s(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(|value| value.to_le_bytes()).collect()
}

fn f16s(values: impl Iterator<Item = f32>) -> Vec<u8> {
    let values: Vec<f32> = values.collect();
    let mut halves = vec![0; values.len() * 2];
    encode_f16(&values, &mut halves);
    halves
}

fn input(index: usize, ty: GgmlType) -> Input {
    Input::new(index, "", ty)
}

/// All elements of a tensor in their order.
fn whole(inputs: Vec<Input>, n: u64, maps: Vec<Elementwise>) -> Gather {
    let moves = vec![Move { input: 0, from: 0, to: 0, axes: vec![Axis { count: n, from: 1, to: 1 }] }];
    Gather { inputs, moves, maps }
}

/// Runs an operation; returns the bytes of its tensor.
fn run(op: Op, shape: &[u64], ty: GgmlType, sources: Vec<Vec<u8>>, n_threads: usize, order: ByteOrder) -> Vec<u8> {
    let mut head = Head::default();
    head.dialect.order = order;
    let draft = Draft {
        path: PathBuf::from("memory"),
        head,
        tensors: vec![TensorPlan::new("t", shape.to_vec(), ty, Reason::Float, op)],
        source: Arc::new(Memory(sources)),
        rounding: Rounding::Converter,
        importance: None,
        inputs: Vec::new(),
        input_bytes: None,
        is_split: false,
        is_vocab_only: false,
    };
    let mut sink = MemorySink::new();
    draft.lay_out().unwrap().run_to(&mut sink, &threads(n_threads), &()).unwrap();
    let output = sink.into_outputs().remove(0);
    let gguf = Gguf::parse(output.as_slice()).unwrap();
    let range = gguf.tensor_range(&gguf.tensor("t").unwrap()).unwrap();
    output[range.start as usize..range.end as usize].to_vec()
}

/// Checks the values of a tensor of `ROWS` by `COLUMNS`.
#[track_caller]
fn check(op: &Op, sources: &[Vec<u8>], expected: impl Fn(usize) -> f32) {
    for n_threads in [1, 3] {
        let bytes = run(op.clone(), &[COLUMNS, ROWS], GgmlType::F32, sources.to_vec(), n_threads, ByteOrder::Little);
        let found = floats(&bytes);
        assert_eq!(found.len(), N);
        if let Some(i) = (0..N).find(|&i| found[i].to_bits() != expected(i).to_bits()) {
            panic!("value {i}: {}, expected {}", found[i], expected(i));
        }
    }
}

#[test]
fn copies_and_computed_values() {
    check(&Op::Copy(input(0, GgmlType::F16)), &[f16s((0..N).map(value))], value);
    check(&Op::Computed((0..N).map(value).collect()), &[], value);
}

#[test]
fn transposed_matrices_and_functions_of_places() {
    let axes = vec![Axis { count: COLUMNS, from: ROWS, to: 1 }, Axis { count: ROWS, from: 1, to: COLUMNS }];
    let period = COLUMNS * 2;
    let maps = vec![
        Elementwise::Add(1.5),
        Elementwise::ScalePart { period, from: 5, to: 9, factor: -2.0 },
        Elementwise::ZeroFrom(N as u64 - 3),
        Elementwise::ZeroBefore(2),
    ];
    let moves = vec![Move { input: 0, from: 0, to: 0, axes }];
    let op = Op::Gather(Box::new(Gather { inputs: vec![input(0, GgmlType::F32)], moves, maps }));
    check(&op, &[f32s((0..N).map(value))], |i| {
        if !(2..N - 3).contains(&i) {
            return 0.0;
        }
        let (row, column) = (i / COLUMNS as usize, i % COLUMNS as usize);
        let moved = value(column * ROWS as usize + row) + 1.5;
        if (5..9).contains(&(i as u64 % period)) { moved * -2.0 } else { moved }
    });
}

#[test]
fn products_and_sums() {
    let sources = [f32s((0..N).map(value)), f16s((0..N).map(|i| value(i + 11)))];
    let inputs = [input(0, GgmlType::F32), input(1, GgmlType::F16)].into();
    check(&Op::Product(Product { inputs }), &sources, |i| value(i) * value(i + 11));

    let parts = whole(vec![input(0, GgmlType::F32)], 3 * N as u64, Vec::new());
    let sum = Op::Sum(Box::new(Sum { parts, n_parts: 3 }));
    check(&sum, &[f32s((0..3 * N).map(value))], |i| 0.0 + value(i) + value(i + N) + value(i + 2 * N));
}

#[test]
fn values_are_rounded_with_one_level() {
    let values = whole(vec![input(0, GgmlType::F32)], N as u64, Vec::new());
    let op = Op::RoundToMean(Box::new(RoundToMean { values }));
    let source = f32s((0..N).map(value));
    let mean = (0..N).map(|i| f64::from(value(i).abs())).sum::<f64>() / N as f64;
    for n_threads in [1, 3] {
        let bytes =
            run(op.clone(), &[COLUMNS, ROWS], GgmlType::F32, vec![source.clone()], n_threads, ByteOrder::Little);
        let found = floats(&bytes);
        let level = found.iter().fold(0f32, |most, value| most.max(*value));
        assert!((f64::from(level) - mean).abs() < 1e-4 * mean, "{level} {mean}");
        for (i, found) in found.iter().enumerate() {
            let expected = (value(i) / level).round_ties_even().clamp(-1.0, 1.0) * level;
            // Near the half of the level, the last bit decides.
            let is_near = ((value(i) / level).abs() - 0.5).abs() < 1e-5;
            assert!(is_near || (found - expected).abs() <= level * 1e-6, "{i}: {found} {expected}");
        }
    }
}

#[test]
fn grids_of_equal_vectors_stay_equal() {
    // A grid of equal vectors: interpolation between them gives the same vector, in every chunk.
    let (from, to) = ([10, 10], [40, 55]);
    let vector_len = 600;
    let grid = Op::Resize(Box::new(Resize { input: input(0, GgmlType::F32), from, to, vector_len }));
    let source = f32s((0..100 * 600).map(|i| (i % 600) as f32));
    let bytes = run(grid, &[600, 40 * 55], GgmlType::F32, vec![source], 2, ByteOrder::Little);
    let found = floats(&bytes);
    assert_eq!(found.len(), 600 * 40 * 55);
    for (i, value) in found.iter().enumerate() {
        assert!((value - (i % 600) as f32).abs() < 1e-3, "{i}: {value}");
    }
}

#[test]
fn vectors_and_integers() {
    let n = 1_200_000u64;
    let parts: Vec<Vec<u8>> = (0..2).map(|part| f32s((0..n as usize).map(|i| value(i + part).abs() + 1.0))).collect();
    let inputs = vec![input(0, GgmlType::F32), input(1, GgmlType::F32)];
    let op = Op::BatchNorm(Box::new(BatchNorm { inputs, eps: 0.5 }));
    let found = floats(&run(op, &[n], GgmlType::F32, parts, 2, ByteOrder::Little));
    for (i, found) in found.iter().enumerate() {
        let expected = (value(i).abs() + 1.0) / (value(i + 1).abs() + 1.0 + 0.5).sqrt();
        assert_eq!(*found, expected, "{i}");
    }

    let wide: Vec<u8> = (0..n as i64).flat_map(|i| (i * 3 - 7).to_le_bytes()).collect();
    let op = Op::Narrow(Narrow { input: input(0, GgmlType::I64) });
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let bytes = run(op.clone(), &[n], GgmlType::I32, vec![wide.clone()], 2, order);
        for (i, bytes) in bytes.as_chunks::<4>().0.iter().enumerate() {
            let found = if order == ByteOrder::Big { i32::from_be_bytes(*bytes) } else { i32::from_le_bytes(*bytes) };
            assert_eq!(found, i as i32 * 3 - 7);
        }
    }
}

#[test]
fn values_that_exceed_the_type_become_infinite() {
    let op = Op::Computed(vec![1.0, 7e4, f32::INFINITY, -8e4]);
    let mut halves = [0f32; 4];
    decode_f16(&run(op, &[4], GgmlType::F16, Vec::new(), 1, ByteOrder::Little), &mut halves);
    assert_eq!(halves, [1.0, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY]);
}

#[test]
fn low_rank_changes_of_a_stack_of_matrices_and_of_long_rows() {
    // Two matrices in one chunk and across chunks; then rows that span several chunks.
    let (rank, rows) = (3, ROWS / 2);
    let factor = |seed: usize, n: u64| -> Vec<f32> { (0..n as usize).map(|i| value(i + seed) / 128.0).collect() };
    let (a, b) = (factor(1, 2 * rank * COLUMNS), factor(9, 2 * rank * rows));
    let term = Term { rank, scale: 0.25, is_transposed: false };
    let low_rank = |inputs: &[Input], terms: &[Term], n_columns, n_rows| {
        Op::LowRank(Box::new(LowRank { inputs: inputs.into(), terms: terms.into(), n_columns, n_rows }))
    };
    let inputs = [input(0, GgmlType::F16), input(1, GgmlType::F32), input(2, GgmlType::F32)];
    let sources = [f16s((0..N).map(value)), f32s(a.iter().copied()), f32s(b.iter().copied())];
    let product = |a: &[f32], b: &[f32], (rank, columns): (u64, u64), i: usize, at: &dyn Fn(usize, usize) -> usize| {
        let (row, column) = (i / columns as usize, i % columns as usize);
        (0..rank as usize).fold(0f32, |sum, k| sum + b[row * rank as usize + k] * a[at(k, column)])
    };
    let stacked = |i: usize| {
        let matrix = i / (rows * COLUMNS) as usize;
        let at = |k: usize, column: usize| (matrix * rank as usize + k) * COLUMNS as usize + column;
        value(i) + product(&a, &b, (rank, COLUMNS), i, &at) * 0.25
    };
    check(&low_rank(&inputs, &[term], COLUMNS, rows), &sources, stacked);

    // Two terms, of which the second has a transposed factor; with one row, which is longer than a part.
    let (columns, rank) = (N as u64, 2);
    let (a, b) = (factor(5, columns * rank), factor(3, rank));
    let inputs = [0, 1, 2, 1, 2].map(|i| input(i, GgmlType::F32));
    let terms =
        [false, true].map(|is_transposed| Term { rank, scale: if is_transposed { -2.0 } else { 0.5 }, is_transposed });
    let sources = vec![f32s((0..N).map(value)), f32s(a.iter().copied()), f32s(b.iter().copied())];
    for n_threads in [1, 3] {
        let op = low_rank(&inputs, &terms, columns, 1);
        let found = floats(&run(op, &[columns, 1], GgmlType::F32, sources.clone(), n_threads, ByteOrder::Little));
        for (i, found) in found.iter().enumerate() {
            let plain = product(&a, &b, (rank, columns), i, &|k, column| k * columns as usize + column);
            let transposed = product(&a, &b, (rank, columns), i, &|k, column| column * rank as usize + k);
            assert_eq!(*found, value(i) + plain * 0.5 + transposed * -2.0, "{i}");
        }
    }
}

#[test]
fn stages_make_the_tensors_of_drafts_in_their_types() {
    let draft = |ops: Vec<(Op, GgmlType)>, source: Arc<dyn Source>| Draft {
        path: PathBuf::from("memory"),
        head: Head::default(),
        tensors: ops
            .into_iter()
            .map(|(op, ty)| TensorPlan::new("t", vec![COLUMNS, ROWS], ty, Reason::Float, op))
            .collect(),
        source,
        rounding: Rounding::Converter,
        importance: None,
        inputs: Vec::new(),
        input_bytes: None,
        is_split: false,
        is_vocab_only: false,
    };
    let values: Vec<f32> = (0..N).map(|i| value(i) + 1e-4).collect();
    let source: Arc<dyn Source> = Arc::new(Memory(vec![f32s(values.iter().copied()), f16s((0..N).map(value))]));
    let added = whole(vec![input(0, GgmlType::F32)], N as u64, vec![Elementwise::Add(1.0)]);
    let first = draft(vec![(Op::Copy(input(0, GgmlType::F32)), GgmlType::F16)], Arc::clone(&source));
    let second = draft(
        vec![(Op::Copy(input(1, GgmlType::F16)), GgmlType::F16), (Op::Gather(Box::new(added)), GgmlType::F32)],
        source,
    );
    let stage = Stage::new([first, second]);
    assert_eq!([stage.first_of(0), stage.first_of(1), stage.first_of(2)], [Some(0), Some(1), None]);
    let read = |index, range: std::ops::Range<usize>, width: usize| {
        let mut bytes = vec![0; (range.end - range.start) * width];
        stage.read(index, (range.start * width) as u64, &mut bytes).map(|()| bytes)
    };
    let part = 1_000_000..1_000_777;
    assert_eq!(read(0, part.clone(), 2).unwrap(), f16s(values[part.clone()].iter().copied()));
    assert_eq!(read(1, part.clone(), 2).unwrap(), f16s(part.clone().map(value)));
    assert_eq!(read(2, part.clone(), 4).unwrap(), f32s(values[part].iter().map(|value| value + 1.0)));
    for (index, range) in [(2, N - 1..N + 1), (3, 0..1)] {
        assert!(matches!(read(index, range, 4), Err(Error::OutOfTensor { .. })), "{index}");
    }
}
