//! Applies operations to a matrix that is stored as a product of two small matrices.
//!
//! An adapter stores the change of a matrix as `B · A`, with `A` of `rank × columns` and `B` of `rows × rank`. An operation that moves whole
//! rows and whole columns of the matrix moves the rows of `B` and the columns of `A`; a transposition exchanges the two. The result of any other
//! operation is not such a product, which is an error.

use gguf_pipeline::moves::{Axis, Move};
use gguf_pipeline::plan::{Elementwise, Gather, Input, Op};

/// One of the two factors: the layout of its elements by row (or column) and rank.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    /// The tensor.
    pub(super) input: Input,
    /// Stride from one row (of `B`) or column (of `A`) to the next, in elements.
    pub(super) stride: u64,
    /// Stride from one rank to the next, in elements.
    pub(super) rank_stride: u64,
}

/// A change `B · A` of a matrix.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    /// The factor of the columns, `A`.
    pub(super) columns: Factor,
    /// The factor of the rows, `B`.
    pub(super) rows: Factor,
    /// The number of columns of the matrix.
    pub(super) n_columns: u64,
    /// The rank: columns of `B`, rows of `A`.
    pub(super) rank: u64,
    /// The scale of the product.
    pub(super) scale: f32,
}

/// An output tensor: its shape in GGUF's order, and the operation that makes it.
pub(super) type Made = (Vec<u64>, Op);

/// Why an operation cannot be applied to a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It does more than move whole rows and columns of one matrix.
    Operation,
    /// The stacked matrices have different ranks.
    Ranks,
    /// The stacked matrices have different number formats.
    Formats,
}

/// The two factors of the output tensor of `shape` that `op` makes of the matrices of `pairs`: the factor of the columns (`lora_a`, rank rows)
/// and the factor of the rows (`lora_b`). With `is_embedding`, they are stored for row lookup (`build_inp_embd` in `src/llama-graph.cpp`): the
/// factor of the rows first, then the factor of the columns transposed.
pub(super) fn apply(op: &Op, shape: &[u64], pairs: &[Pair], is_embedding: bool) -> Result<(Made, Made), Obstacle> {
    let (&[n_columns, n_rows], stack) = shape.split_at_checked(2).ok_or(Obstacle::Operation)? else {
        return Err(Obstacle::Operation);
    };
    let whole;
    let (moves, maps) = match op {
        Op::Gather(gather) => (gather.moves.as_slice(), gather.maps.as_slice()),
        Op::Copy(_) => {
            let axes = vec![Axis { count: n_columns.saturating_mul(n_rows), from: 1, to: 1 }];
            whole = [Move { input: 0, from: 0, to: 0, axes }];
            (whole.as_slice(), [].as_slice())
        }
        _ => return Err(Obstacle::Operation),
    };
    if stack.iter().product::<u64>() != pairs.len() as u64 {
        return Err(Obstacle::Operation);
    }
    let rank = pairs.first().map_or(0, |pair| pair.rank);
    if pairs.iter().any(|pair| pair.rank != rank) {
        return Err(Obstacle::Ranks);
    }
    let slab = n_columns.saturating_mul(n_rows);
    let (a_slab, b_slab) = (rank.saturating_mul(n_columns), rank.saturating_mul(n_rows));
    let (mut a, mut b) = (Builder::default(), Builder::default());
    for (place, pair) in pairs.iter().enumerate() {
        let first = slab.saturating_mul(place as u64);
        let own = moves.iter().filter(|item| item.input == place);
        let parts: Option<Vec<Product>> =
            own.map(|item| Product::of(item, item.to.checked_sub(first)?, pair.n_columns, n_columns)).collect();
        let (rows, columns, is_transposed) = common(&parts.ok_or(Obstacle::Operation)?).ok_or(Obstacle::Operation)?;
        let covers = |parts: &[Part], n: u64| parts.iter().map(Part::count).sum::<u64>() == n;
        if !covers(&rows, n_rows) || !covers(&columns, n_columns) {
            return Err(Obstacle::Operation);
        }
        let (of_rows, of_columns) =
            if is_transposed { (&pair.columns, &pair.rows) } else { (&pair.rows, &pair.columns) };
        let place = place as u64;
        if is_embedding {
            a.add(of_rows, &rows, place * b_slab, rank, (rank, 1));
            b.add(of_columns, &columns, place * a_slab, rank, (rank, 1));
        } else {
            a.add(of_columns, &columns, place * a_slab, rank, (1, n_columns));
            b.add(of_rows, &rows, place * b_slab, rank, (rank, 1));
        }
    }
    // Scaling the factor of the rows scales the product.
    let of_rows = if is_embedding { &mut a } else { &mut b };
    for map in maps {
        of_rows.maps.push(match *map {
            Elementwise::Scale(factor) => Elementwise::Scale(factor),
            Elementwise::ScalePart { period, from, to, factor } => {
                let row = |n: u64| Some(exact(n, n_columns)? * rank);
                let bounds = (row(period), row(from), row(to));
                let (Some(period), Some(from), Some(to)) = bounds else { return Err(Obstacle::Operation) };
                Elementwise::ScalePart { period, from, to, factor }
            }
            _ => return Err(Obstacle::Operation),
        });
    }
    match pairs.first().map(|pair| pair.scale) {
        Some(scale) if pairs.iter().all(|pair| pair.scale == scale) => {
            of_rows.maps.extend((scale != 1.0).then_some(Elementwise::Scale(scale)));
        }
        _ => {
            let period = b_slab.saturating_mul(pairs.len() as u64);
            of_rows.maps.extend((0u64..).zip(pairs).map(|(place, pair)| {
                let from = place * b_slab;
                Elementwise::ScalePart { period, from, to: from + b_slab, factor: pair.scale }
            }));
        }
    }
    let shaped = |inner: [u64; 2]| [&inner, stack].concat();
    let (a_shape, b_shape) = match is_embedding {
        true => ([rank, n_rows], [rank, n_columns]),
        false => ([n_columns, rank], [rank, n_rows]),
    };
    Ok(((shaped(a_shape), a.finish()?), (shaped(b_shape), b.finish()?)))
}

/// The effect of a move on rows or on columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    from: u64,
    to: u64,
    axes: Vec<Axis>,
}

impl Part {
    /// The number of rows or columns.
    fn count(&self) -> u64 {
        self.axes.iter().map(|axis| axis.count).product()
    }
}

/// Splits a move into one of whole rows and one of whole columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Product {
    /// Whether the output's rows come from rows or columns of the source.
    rows: Part,
    columns: Part,
    is_transposed: bool,
}

impl Product {
    /// Splits a move that writes from `to` on. Rows have `from_columns` elements in the source and `to_columns` in the output.
    fn of(item: &Move, to: u64, from_columns: u64, to_columns: u64) -> Option<Product> {
        let mut pieces = Vec::new();
        for axis in item.axes.iter().copied().filter(|axis| axis.count != 1) {
            let is_row = axis.from >= from_columns;
            if is_row || axis.count.checked_sub(1)?.checked_mul(axis.from)? < from_columns {
                pieces.push((is_row, axis));
            } else if axis.from == 1 && axis.count.checked_rem(from_columns)? == 0 {
                let (count, step) = (axis.count / from_columns, axis.to.checked_mul(from_columns)?);
                pieces.push((false, Axis { count: from_columns, ..axis }));
                pieces.push((true, Axis { count, from: from_columns, to: step }));
            } else {
                return None;
            }
        }
        let mut is_transposed = None;
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for (is_row, axis) in pieces.into_iter().filter(|(_, axis)| axis.count != 1) {
            let becomes_row = axis.to >= to_columns;
            if axis.from == 0
                || axis.to == 0
                || *is_transposed.get_or_insert(is_row != becomes_row) != (is_row != becomes_row)
            {
                return None;
            }
            let from = if is_row { exact(axis.from, from_columns)? } else { axis.from };
            if becomes_row {
                rows.push(Axis { count: axis.count, from, to: exact(axis.to, to_columns)? });
            } else if axis.count.checked_sub(1)?.checked_mul(axis.to)? < to_columns {
                columns.push(Axis { count: axis.count, from, to: axis.to });
            } else {
                return None;
            }
        }
        let is_transposed = is_transposed.unwrap_or(false);
        let (from_row, from_column) = (item.from.checked_div(from_columns)?, item.from.checked_rem(from_columns)?);
        let (to_row, to_column) = (to.checked_div(to_columns)?, to.checked_rem(to_columns)?);
        let (of_rows, of_columns) = if is_transposed { (from_column, from_row) } else { (from_row, from_column) };
        Some(Product {
            rows: Part { from: of_rows, to: to_row, axes: rows },
            columns: Part { from: of_columns, to: to_column, axes: columns },
            is_transposed,
        })
    }
}

fn exact(n: u64, by: u64) -> Option<u64> {
    (n.checked_rem(by)? == 0).then(|| n / by)
}

/// The rows and columns of several moves from one matrix into one matrix: all have the same columns, or the same rows.
fn common(parts: &[Product]) -> Option<(Vec<Part>, Vec<Part>, bool)> {
    let first = parts.first()?;
    let all = |same: &dyn Fn(&Product) -> bool| parts.iter().all(same);
    let of = |part: &dyn Fn(&Product) -> Part| parts.iter().map(part).collect::<Vec<_>>();
    if !all(&|part| part.is_transposed == first.is_transposed) {
        None
    } else if all(&|part| part.columns == first.columns) {
        Some((of(&|part| part.rows.clone()), vec![first.columns.clone()], first.is_transposed))
    } else if all(&|part| part.rows == first.rows) {
        Some((vec![first.rows.clone()], of(&|part| part.columns.clone()), first.is_transposed))
    } else {
        None
    }
}

/// One factor of an output tensor under construction.
#[derive(Debug, Default)]
struct Builder {
    inputs: Vec<Input>,
    moves: Vec<Move>,
    maps: Vec<Elementwise>,
}

impl Builder {
    /// Adds parts of a factor, from output position `first` on. `steps` are the strides from one row (or column) to the next and from one rank
    /// to the next.
    fn add(&mut self, factor: &Factor, parts: &[Part], first: u64, rank: u64, steps: (u64, u64)) {
        let (step, rank_step) = steps;
        for part in parts {
            let axes = part.axes.iter().map(|axis| Axis {
                count: axis.count,
                from: axis.from * factor.stride,
                to: axis.to * step,
            });
            let rank = Axis { count: rank, from: factor.rank_stride, to: rank_step };
            self.moves.push(Move {
                input: self.inputs.len(),
                from: part.from * factor.stride,
                to: first + part.to * step,
                axes: axes.chain([rank]).filter(|axis| axis.count != 1).collect(),
            });
        }
        self.inputs.push(factor.input.clone());
    }

    fn finish(mut self) -> Result<Op, Obstacle> {
        if self.inputs.iter().any(|input| self.inputs.first().is_some_and(|first| first.ty != input.ty)) {
            return Err(Obstacle::Formats);
        }
        let is_copy = match self.moves.as_slice() {
            [only] => only.from == 0 && only.to == 0 && only.axes.iter().all(|axis| axis.from == axis.to),
            _ => false,
        };
        match self.inputs.pop() {
            Some(input) if is_copy && self.inputs.is_empty() && self.maps.is_empty() => Ok(Op::Copy(input)),
            Some(input) => {
                self.inputs.push(input);
                Ok(Op::Gather(Box::new(Gather { inputs: self.inputs, moves: self.moves, maps: self.maps })))
            }
            None => Err(Obstacle::Operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use gguf_format::GgmlType;

    use super::*;
    use crate::pattern::Pattern;

    /// A matrix of small integers, for which products are exact.
    fn numbers(seed: u64, n: u64) -> Vec<f64> {
        (0..n).map(|i| ((seed + i * 7 + i * i * 3) % 11) as f64 - 5.0).collect()
    }

    /// `left · right`, of `rows × inner` and `inner × columns`.
    fn product(left: &[f64], right: &[f64], inner: u64) -> Vec<f64> {
        let inner = inner as usize;
        let columns = right.len() / inner;
        let row = |row: &[f64]| -> Vec<f64> {
            (0..columns).map(|c| (0..inner).map(|k| row[k] * right[k * columns + c]).sum()).collect()
        };
        left.chunks(inner).flat_map(row).collect()
    }

    fn transposed(matrix: &[f64], columns: u64) -> Vec<f64> {
        let columns = columns as usize;
        let rows = matrix.len() / columns;
        (0..matrix.len()).map(|i| matrix[i % rows * columns + i / rows]).collect()
    }

    /// Executes an operation.
    fn run(op: &Op, sources: &[Vec<f64>], n: u64) -> Vec<f64> {
        let Op::Gather(gather) = op else { return sources[op.inputs()[0].index()].clone() };
        let mut out = vec![f64::NAN; n as usize];
        for item in &gather.moves {
            let mut places = vec![(item.from, item.to)];
            for axis in &item.axes {
                let step = |i: u64, (from, to): (u64, u64)| (from + i * axis.from, to + i * axis.to);
                places = (0..axis.count).flat_map(|i| places.iter().map(move |place| step(i, *place))).collect();
            }
            for (from, to) in places {
                out[to as usize] = sources[gather.inputs[item.input].index()][from as usize];
            }
        }
        for map in &gather.maps {
            for (i, value) in out.iter_mut().enumerate() {
                *value *= match *map {
                    Elementwise::Scale(factor) => f64::from(factor),
                    Elementwise::ScalePart { period, from, to, factor } => {
                        if (from..to).contains(&(i as u64 % period)) { f64::from(factor) } else { 1.0 }
                    }
                    _ => panic!("{map:?}"),
                };
            }
        }
        out
    }

    fn input(index: usize) -> Input {
        Input::new(index, "", GgmlType::F32)
    }

    /// A pair of inputs `index` and `index + 1`, optionally stored for the transposed matrix.
    fn pair(
        index: usize,
        [rows, columns]: [u64; 2],
        rank: u64,
        is_transposed: bool,
        scale: f32,
    ) -> (Pair, [Vec<f64>; 3]) {
        let (a, b) = (numbers(index as u64, rank * columns), numbers(index as u64 + 5, rows * rank));
        let whole: Vec<f64> = product(&b, &a, rank).iter().map(|x| x * f64::from(scale)).collect();
        let (a, b, strides) = match is_transposed {
            // The file's A is the factor of the rows.
            true => (transposed(&b, rank), transposed(&a, columns), [(rank, 1), (1, rows)]),
            false => (a, b, [(1, columns), (rank, 1)]),
        };
        let (of_columns, of_rows) = if is_transposed { (index + 1, index) } else { (index, index + 1) };
        let [(columns_step, columns_rank), (rows_step, rows_rank)] = strides;
        let pair = Pair {
            columns: Factor { input: input(of_columns), stride: columns_step, rank_stride: columns_rank },
            rows: Factor { input: input(of_rows), stride: rows_step, rank_stride: rows_rank },
            n_columns: columns,
            rank,
            scale,
        };
        (pair, [a, b, whole])
    }

    fn sizes(name: &str) -> Option<u64> {
        match name {
            "h" => Some(4),
            "kv" => Some(2),
            "d" => Some(2),
            _ => None,
        }
    }

    #[test]
    fn factors_of_moved_matrices_are_moved_factors() {
        let scale = &[Elementwise::Scale(0.5)][..];
        let parts = &[
            Elementwise::ScalePart { period: 24, from: 0, to: 6, factor: 2.0 },
            Elementwise::ScalePart { period: 24, from: 6, to: 24, factor: 4.0 },
        ][..];
        let cases: &[(&str, [u64; 2], &[Elementwise])] = &[
            ("", [8, 6], &[]),
            ("", [8, 6], scale),
            ("", [8, 6], parts),
            ("", [1, 6], &[]),
            ("(h two i) ... -> (h i two) ...", [16, 6], &[]),
            ("i o -> o i", [8, 6], &[]),
            ("i (h two f) -> i (h f two)", [3, 16], &[]),
            ("(kv g d) ... -> (kv g[:-2] d) ... + (kv g[-2] d) ... + (kv g[-1] d) ...", [16, 5], &[]),
            ("r[2:5] ... -> r ...", [8, 6], &[]),
            ("e r[2:5] -> e r", [4, 6], &[]),
            ("r[:2] ... -> r ... & (2: a two) ... -> (two a) ...", [8, 3], &[]),
        ];
        for (pattern, shape @ [rows, columns], maps) in cases {
            for (is_transposed, is_embedding) in [(false, false), (true, false), (false, true)] {
                let (pair, [a, b, whole]) = pair(0, *shape, 2, is_transposed, 4.0);
                let moved = match *pattern {
                    "" => crate::pattern::whole(shape),
                    text => Pattern::parse(text).unwrap().bind(shape, &sizes).unwrap(),
                };
                let op =
                    Op::Gather(Box::new(Gather { inputs: vec![input(0)], moves: moved.moves, maps: maps.to_vec() }));
                let out_shape: Vec<u64> = moved.shape.iter().rev().copied().collect();
                let expected = run(&op, &[whole], out_shape.iter().product());
                let case = format!("{pattern} {rows} {columns} {is_transposed} {is_embedding}");
                let (first, second) = apply(&op, &out_shape, &[pair], is_embedding).expect(&case);
                assert_eq!(recomposed(&first, &second, &[a, b], 1, is_embedding), expected, "{case}");
            }
        }
    }

    /// The products of the factors of each matrix in a stack.
    fn recomposed(first: &Made, second: &Made, sources: &[Vec<f64>], n_stack: u64, is_embedding: bool) -> Vec<f64> {
        let [first, second] = [first, second].map(|(shape, op)| (shape[0], run(op, sources, shape.iter().product())));
        let slabs = |values: &[f64]| -> Vec<Vec<f64>> {
            values.chunks(values.len() / n_stack as usize).map(<[f64]>::to_vec).collect()
        };
        let (firsts, seconds) = (slabs(&first.1), slabs(&second.1));
        let pairs = firsts.iter().zip(&seconds);
        pairs
            .flat_map(|(a, b)| match is_embedding {
                true => product(a, &transposed(b, second.0), first.0),
                false => product(b, a, second.0),
            })
            .collect()
    }

    #[test]
    fn factors_of_stacked_matrices_are_stacked() {
        for scales in [[1.0, 1.0], [2.0, 2.0], [2.0, 0.5]] {
            for pattern in ["r c -> r c", "r c -> c r"] {
                let (first, [a0, b0, whole0]) = pair(0, [6, 4], 3, false, scales[0]);
                let (second, [a1, b1, whole1]) = pair(2, [6, 4], 3, false, scales[1]);
                let bound = Pattern::parse(pattern).unwrap().bind(&[6, 4], &sizes).unwrap();
                let moves = (0..2).flat_map(|input| {
                    bound.moves.iter().map(move |item| Move { input, to: item.to + 24 * input as u64, ..item.clone() })
                });
                let op = Op::Gather(Box::new(Gather {
                    inputs: vec![input(0), input(1)],
                    moves: moves.collect(),
                    maps: Vec::new(),
                }));
                let shape = [bound.shape[1], bound.shape[0], 2];
                let expected = run(&op, &[whole0, whole1], 48);
                let (a, b) = apply(&op, &shape, &[first, second], false).unwrap();
                assert_eq!((a.0.as_slice(), b.0.as_slice()), (&[shape[0], 3, 2][..], &[3, shape[1], 2][..]));
                assert_eq!(recomposed(&a, &b, &[a0, b0, a1, b1], 2, false), expected, "{pattern} {scales:?}");
            }
        }
    }

    #[test]
    fn what_is_no_product_is_refused() {
        let one = |pattern: &str, maps: &[Elementwise]| {
            let moved = Pattern::parse(pattern).unwrap().bind(&[8, 6], &sizes).unwrap();
            let shape: Vec<u64> = moved.shape.iter().rev().copied().collect();
            let op = Op::Gather(Box::new(Gather { inputs: vec![input(0)], moves: moved.moves, maps: maps.to_vec() }));
            apply(&op, &shape, &[pair(0, [8, 6], 2, false, 1.0).0], false).err()
        };
        assert_eq!(one("r c -> r c", &[]), None);
        for pattern in ["(a two) (c three) -> (a three) (c two)", "(h s) e -> h s e", "r c -> (r c)", "r c -> c r 1"] {
            assert_eq!(one(pattern, &[]), Some(Obstacle::Operation), "{pattern}");
        }
        for map in [Elementwise::Add(1.0), Elementwise::ScalePart { period: 12, from: 0, to: 3, factor: 2.0 }] {
            assert_eq!(one("r c -> r c", &[map]), Some(Obstacle::Operation), "{map:?}");
        }
        let stack = |second: Pair| {
            let moves = crate::pattern::whole(&[6, 4]).moves;
            let moves = [0, 1].map(|input| Move { input, to: 24 * input as u64, ..moves[0].clone() });
            let op = Op::Gather(Box::new(Gather {
                inputs: vec![input(0), input(1)],
                moves: moves.to_vec(),
                maps: Vec::new(),
            }));
            let first = pair(0, [6, 4], 2, false, 1.0).0;
            [&[4, 6, 2][..], &[4, 12]].map(|shape| apply(&op, shape, &[first.clone(), second.clone()], false).err())
        };
        assert_eq!(stack(pair(2, [6, 4], 2, false, 1.0).0), [None, Some(Obstacle::Operation)]);
        assert_eq!(stack(pair(2, [6, 4], 3, false, 1.0).0)[0], Some(Obstacle::Ranks));
        let mut other = pair(2, [6, 4], 2, false, 1.0).0;
        other.rows.input.ty = GgmlType::F16;
        assert_eq!(stack(other)[0], Some(Obstacle::Formats));
    }
}
