//! The operation that makes an output tensor from its sources.

use std::collections::BTreeMap;

use gguf_format::GgmlType;
use gguf_model::Hparams;
use gguf_model::arch::{Dim, Map, RowOp, Tensor};
use gguf_pipeline::moves::{Axis, Move};
use gguf_pipeline::plan::{BatchNorm, Elementwise, Gather, Input, Narrow, Op, Product, Resize, RoundToMean, Sum};

use super::blocks;
use super::formulas::Formulas;
use super::rows::{Match, PRODUCT, Template};
use crate::dtype::SourceTensor;
use crate::facts::Fact;
use crate::formula::Fields;
use crate::model_plan::{Origin, PlanError, float_input};
use crate::number::to_f32;
use crate::pattern::{Moved, Pattern};

/// The maximum number of values of a tensor computed by a formula.
const MAX_VALUES: u64 = 65536;

/// The maximum number of vectors along a side of a resized grid.
const MAX_SIDE: u64 = 65536;

/// The sources of an output tensor.
pub(super) struct Slot {
    pub(super) tensor: Tensor,
    pub(super) alternative: usize,
    pub(super) n_parts: usize,
    pub(super) stack: Option<Template>,
    /// Source indices by part of a concatenation and position in a stack.
    pub(super) parts: BTreeMap<(usize, u64), usize>,
}

impl Slot {
    pub(super) fn new(found: &Match) -> Slot {
        Slot {
            tensor: found.tensor,
            alternative: found.alternative,
            n_parts: found.n_parts,
            stack: found.stack,
            parts: BTreeMap::new(),
        }
    }

    /// The last source in reading order.
    pub(super) fn last(&self) -> usize {
        self.parts.values().copied().max().unwrap_or(0)
    }
}

/// An output tensor, and what its operation depends on.
pub(super) struct Binding<'a> {
    pub(super) slot: &'a Slot,
    /// The name of the output tensor.
    pub(super) name: &'a str,
    pub(super) block: Option<u64>,
    pub(super) sources: &'a [SourceTensor],
    pub(super) h: &'a Hparams<'a>,
    pub(super) fields: &'a Fields,
    pub(super) formulas: &'a Formulas,
}

/// The moves of all parts of a tensor.
struct Gathered {
    inputs: Vec<Input>,
    moves: Vec<Move>,
    /// The shape in units; the outermost dimension first.
    shape: Vec<u64>,
    /// The number of units of the last source, which are values or blocks.
    n_units: u64,
}

impl Binding<'_> {
    /// The shape in GGUF's order, and the operation.
    pub(super) fn bind(&self) -> Result<(Vec<u64>, Op), PlanError> {
        let n_stack = self.n_stack()?;
        let n_parts = self.slot.parts.len() as u64;
        if n_parts != n_stack.saturating_mul(self.slot.n_parts as u64)
            || self.slot.parts.keys().any(|(_, number)| *number >= n_stack)
        {
            return Err(self.incomplete(n_stack));
        }
        let row = self.slot.tensor.row;
        match row.op {
            RowOp::Values(formula) => {
                let value = self.formulas.needed(formula, row.name, self.fields)?;
                self.values(formula, &value)
            }
            RowOp::Integers => self.integers(),
            RowOp::ResizeGrid(formula) => {
                let side = self.formulas.needed(formula, row.name, self.fields)?;
                self.resized(formula, &side)
            }
            RowOp::BatchNorm(eps) => {
                let (shape, inputs) = self.vectors()?;
                Ok((shape, Op::BatchNorm(Box::new(BatchNorm { inputs, eps }))))
            }
            RowOp::Map(_) | RowOp::RoundToMean | RowOp::SumParts if row.source.contains(PRODUCT) => {
                let (shape, inputs) = self.vectors()?;
                Ok((shape, Op::Product(Product { inputs: inputs.into() })))
            }
            RowOp::Map(_) | RowOp::RoundToMean | RowOp::SumParts => self.moved(n_stack),
        }
    }

    /// The block of the tensor; 0 outside of blocks.
    fn block(&self) -> u64 {
        self.block.unwrap_or(0)
    }

    /// The length of a named axis.
    fn length(&self, axis: &str) -> Option<u64> {
        // A class may permute rows by other numbers of heads than it writes.
        let permuted = self.fields.number(&format!("@{}.{axis}", Fact::Permuted.name()));
        permuted.or_else(|| length(axis, self.h, self.block())).or_else(|| self.fields.number(axis))
    }

    /// What the numbers in the names of the parts count, and whether the parts are concatenated.
    fn unit(&self) -> Option<(&'static str, bool)> {
        self.slot.stack.and_then(|template| Some((template.stack?.0, template.joins)))
    }

    /// The number of tensors that are stacked or concatenated.
    fn n_stack(&self) -> Result<u64, PlanError> {
        match self.unit() {
            Some((field, true)) => {
                let missing = || PlanError::from(crate::config::Error::Missing(vec![field.to_owned()]));
                self.fields.fields.get(field).and_then(serde_json::Value::as_u64).ok_or_else(missing)
            }
            Some((axis, false)) => Ok(self.length(axis).unwrap_or(self.slot.parts.len() as u64)),
            None => Ok(1),
        }
    }

    /// The error for missing or superfluous parts.
    fn incomplete(&self, n_stack: u64) -> PlanError {
        PlanError::Incomplete {
            name: self.name.to_owned(),
            found: self.slot.parts.len() as u64,
            expected: n_stack.saturating_mul(self.slot.n_parts as u64),
            origin: Box::new(match self.unit() {
                Some((field, true)) => Origin::of_key(field),
                Some((axis, false)) => axis_of(axis).map(Origin::of_size).unwrap_or_default(),
                None => Origin::default(),
            }),
            tensor: self.first_wrong_part(n_stack),
        }
    }

    /// A tensor whose elements are copied or moved.
    fn moved(&self, n_stack: u64) -> Result<(Vec<u64>, Op), PlanError> {
        let row = self.slot.tensor.row;
        let Gathered { mut inputs, mut moves, mut shape, n_units } = self.gather(n_stack)?;
        if self.slot.stack.is_some_and(|template| !template.joins) {
            shape.insert(0, n_stack);
        }
        let mut maps = Vec::new();
        if let RowOp::Map(functions) = row.op {
            for map in functions {
                resolve(*map, row.name, (self.fields, self.formulas), &mut shape, &mut moves, &mut maps)?;
            }
        }
        let n_parts = (row.op == RowOp::SumParts && !shape.is_empty()).then(|| shape.remove(0));
        if let Some(input) = inputs.first()
            && let Some(row_len) = shape.last_mut()
        {
            *row_len = row_len.saturating_mul(blocks::len(input.ty));
        }
        shape.reverse();
        self.check_shape(&shape)?;
        let is_copy = match (inputs.as_slice(), moves.as_slice()) {
            ([_], [only]) => {
                only.from == 0 && only.axes.iter().all(|axis| axis.from == axis.to) && only.n_elements() == n_units
            }
            _ => false,
        };
        let op = match inputs.pop() {
            Some(input) if is_copy && row.op != RowOp::RoundToMean && maps.is_empty() => Op::Copy(input),
            Some(input) => {
                inputs.push(input);
                let gather = Gather { inputs, moves, maps };
                match n_parts {
                    Some(n_parts) => Op::Sum(Box::new(Sum { parts: gather, n_parts })),
                    None if row.op == RowOp::RoundToMean => Op::RoundToMean(Box::new(RoundToMean { values: gather })),
                    None => Op::Gather(Box::new(gather)),
                }
            }
            None => return Err(self.incomplete(n_stack)),
        };
        Ok((shape, op))
    }

    /// Gathers the parts: those of a stack have the same shape, those of a concatenation may differ in the outermost dimension.
    fn gather(&self, n_stack: u64) -> Result<Gathered, PlanError> {
        let row = self.slot.tensor.row;
        let pattern = match row.pattern {
            "" => None,
            text => Some(Pattern::parse(text).map_err(|e| PlanError::Table { key: row.name, problem: e.to_string() })?),
        };
        let joins = self.slot.n_parts > 1 || self.slot.stack.is_some_and(|template| template.joins);
        let mut inputs: Vec<Input> = Vec::with_capacity(self.slot.parts.len());
        let (mut moves, mut shape, mut to, mut n_units) = (Vec::new(), Vec::new(), 0, 0);
        for (&place, &index) in &self.slot.parts {
            let source = self.sources.get(index).ok_or_else(|| self.incomplete(n_stack))?;
            let input = float_input(index, source)?;
            let is_mixed = inputs.first().is_some_and(|first| first.ty != input.ty);
            if is_mixed && (input.ty.is_quantized() || inputs.iter().any(|input| input.ty.is_quantized())) {
                return Err(PlanError::Mixed { name: self.name.to_owned(), tensor: source.name.clone() });
            }
            let moved = self.part_moves(source, &input, pattern.as_ref(), joins)?;
            n_units = blocks::n_units(source, input.ty);
            let mut n = 0;
            for item in moved.moves {
                n += item.n_elements();
                moves.push(Move { input: inputs.len(), to: item.to + to, ..item });
            }
            to += n;
            inputs.push(input);
            if place == (0, 0) {
                shape = moved.shape;
            } else if !joins && shape == moved.shape {
                // The part lies behind the others in a stack.
            } else if let (true, Some((first, rest))) = (joins, shape.split_first_mut())
                && moved.shape.get(1..) == Some(rest)
            {
                // Concatenated along the outermost dimension.
                *first += moved.shape.first().copied().unwrap_or(1);
            } else {
                let (tensor, found) = (source.name.clone(), source.shape.clone());
                return Err(PlanError::Shapes { name: self.name.to_owned(), tensor, found });
            }
        }
        Ok(Gathered { inputs, moves, shape, n_units })
    }

    /// The moves of one part.
    fn part_moves(
        &self,
        source: &SourceTensor,
        input: &Input,
        pattern: Option<&Pattern>,
        joins: bool,
    ) -> Result<Moved, PlanError> {
        let wrong =
            |problem: String| PlanError::Pattern { tensor: source.name.clone(), shape: source.shape.clone(), problem };
        let bind = |shape: &[u64]| match pattern {
            Some(pattern) => {
                pattern.bind(shape, &|axis| self.length(axis)).map_err(|problem| wrong(problem.to_string()))
            }
            None => Ok(crate::pattern::whole(shape)),
        };
        let moved = match input.ty.is_quantized() {
            true => blocks::moved(source, bind)?.filter(|_| self.slot.tensor.row.op == RowOp::Map(&[]) && !joins),
            false => Some(bind(&source.shape)?),
        };
        moved.ok_or_else(|| wrong("its blocks cannot be moved as the architecture asks".to_owned()))
    }

    /// All parts as the inputs of an elementwise function to a vector, and the shape of that vector.
    fn vectors(&self) -> Result<(Vec<u64>, Vec<Input>), PlanError> {
        let (mut inputs, mut lengths) = (Vec::new(), Vec::new());
        for (source, &index) in self.slot.parts.values().filter_map(|index| Some((self.sources.get(*index)?, index))) {
            let length: u64 = source.shape.iter().product();
            inputs.push(float_input(index, source)?);
            lengths.push(length);
            if lengths.first() != Some(&length) {
                let (tensor, found) = (source.name.clone(), source.shape.clone());
                return Err(PlanError::Shapes { name: self.name.to_owned(), tensor, found });
            }
        }
        lengths.truncate(1);
        self.check_shape(&lengths)?;
        Ok((lengths, inputs))
    }

    /// A tensor of integers.
    fn integers(&self) -> Result<(Vec<u64>, Op), PlanError> {
        let (index, source) = self.only()?;
        let shape: Vec<u64> = source.shape.iter().rev().copied().collect();
        self.check_shape(&shape)?;
        let input = |ty| Input::new(index, &source.name, ty);
        match source.dtype.ggml {
            Some(ty @ GgmlType::I64) => Ok((shape, Op::Narrow(Narrow { input: input(ty) }))),
            Some(ty @ GgmlType::I32) => Ok((shape, Op::Copy(input(ty)))),
            _ => Err(PlanError::Packed {
                tensor: source.name.clone(),
                problem: format!("has the format {}, expected I64 or I32", source.dtype),
            }),
        }
    }

    /// The only source, and its index.
    fn only(&self) -> Result<(usize, &SourceTensor), PlanError> {
        let found = self.slot.parts.values().find_map(|index| Some((*index, self.sources.get(*index)?)));
        found.ok_or_else(|| PlanError::Table {
            key: self.slot.tensor.row.name,
            problem: "expected the name of one tensor".to_owned(),
        })
    }

    /// A square grid of vectors, with as many along each side as a formula gives.
    fn resized(&self, formula: &'static str, found: &serde_json::Value) -> Result<(Vec<u64>, Op), PlanError> {
        let (index, source) = self.only()?;
        let input = float_input(index, source)?;
        let wrong =
            |problem: String| PlanError::Pattern { tensor: source.name.clone(), shape: source.shape.clone(), problem };
        if input.ty.is_quantized() {
            return Err(PlanError::Dtype { tensor: source.name.clone(), dtype: source.dtype });
        }
        let mut shape: Vec<u64> = source.shape.iter().rev().copied().collect();
        let [vector_len, n_vectors, ones @ ..] = shape.as_mut_slice() else {
            return Err(wrong("expected 2 dimensions".to_owned()));
        };
        let side = n_vectors.isqrt();
        if side == 0 || side * side != *n_vectors || *vector_len == 0 || ones.iter().any(|n| *n != 1) {
            return Err(wrong(format!("expected a square number of vectors, found {n_vectors}")));
        }
        let to = found.as_u64().filter(|to| (1..=MAX_SIDE).contains(to));
        let to = to.ok_or_else(|| crate::config::Error::invalid(formula, found, "a number of vectors up to 65536"))?;
        let vector_len = *vector_len;
        *n_vectors = to * to;
        self.check_shape(&shape)?;
        let op = match side == to {
            true => Op::Copy(input),
            false => Op::Resize(Box::new(Resize { input, from: [side; 2], to: [to; 2], vector_len })),
        };
        Ok((shape, op))
    }

    /// A tensor with the values of a formula.
    fn values(&self, formula: &'static str, value: &serde_json::Value) -> Result<(Vec<u64>, Op), PlanError> {
        let invalid =
            || PlanError::from(crate::config::Error::invalid(formula, value, "as many numbers as the tensor has"));
        let dims = self.slot.tensor.shape().iter().map(|dim| dim.of(self.h, self.block()));
        let shape: Vec<u64> = dims.collect::<Option<_>>().ok_or_else(invalid)?;
        let n = shape.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim)).filter(|n| *n <= MAX_VALUES);
        let n = n.and_then(|n| usize::try_from(n).ok()).ok_or_else(invalid)?;
        let of_block =
            self.block.and_then(|block| value.get(usize::try_from(block).ok()?)).filter(|list| list.is_array());
        let number = |value: &serde_json::Value| value.as_f64().map(to_f32);
        let values: Option<Vec<f32>> = match of_block.unwrap_or(value) {
            serde_json::Value::Array(items) => items.iter().map(number).collect(),
            single => number(single).map(|x| vec![x; n]),
        };
        let values = values.filter(|values| values.len() == n).ok_or_else(invalid)?;
        Ok((shape, Op::Computed(values)))
    }

    /// The checkpoint's name of the first missing tensor of a stack, or of the first superfluous one.
    fn first_wrong_part(&self, n_stack: u64) -> String {
        let source = |index: &usize| self.sources.get(*index).map_or("", |source| source.name.as_str());
        if let Some((_, index)) = self.slot.parts.iter().find(|((_, number), _)| *number >= n_stack) {
            return source(index).to_owned();
        }
        let missing = (0..n_stack).find(|number| !self.slot.parts.contains_key(&(0, *number)));
        let (Some(missing), Some(((_, number), index))) = (missing, self.slot.parts.first_key_value()) else {
            return self.slot.tensor.row.source.to_owned();
        };
        // The name of a tensor of the stack that exists, with its number replaced by the missing one.
        match self.slot.stack.and_then(|template| Some((template.before, template.stack?.1))) {
            Some((before, after)) => {
                let number_of = |number: u64| format!("{before}{number}{after}");
                source(index).replacen(&number_of(*number), &number_of(missing), 1)
            }
            None => self.slot.tensor.row.source.to_owned(),
        }
    }

    /// Compares a shape, in GGUF's order, with the shape implied by the planned keys. The number of tokens is checked on the output instead,
    /// because checkpoints pad their embeddings.
    fn check_shape(&self, shape: &[u64]) -> Result<(), PlanError> {
        let dims = self.slot.tensor.shape();
        if dims.is_empty() {
            return Ok(());
        }
        for axis in 0..shape.len().max(dims.len()) {
            let found = shape.get(axis).copied().unwrap_or(1);
            let expected = match dims.get(axis) {
                Some(Dim::Vocab) => continue,
                Some(dim) => match dim.of(self.h, self.block()) {
                    Some(expected) => expected,
                    None => continue,
                },
                None => 1,
            };
            if found != expected {
                let source = self.slot.parts.values().next().and_then(|index| self.sources.get(*index));
                return Err(PlanError::Shape {
                    tensor: source.map(|source| source.name.clone()).unwrap_or_default(),
                    shape: source.map(|source| source.shape.clone()).unwrap_or_default(),
                    axis,
                    found,
                    expected,
                    origin: Box::new(
                        dims.get(axis).map_or_else(Origin::of_fewer_dimensions, |dim| Origin::of_size(*dim)),
                    ),
                });
            }
        }
        Ok(())
    }
}

/// Adds a value function to an operation, with the values of its formula. Functions that append rows also change the shape and moves.
fn resolve(
    map: Map,
    row: &'static str,
    (fields, formulas): (&Fields, &Formulas),
    shape: &mut [u64],
    moves: &mut Vec<Move>,
    maps: &mut Vec<Elementwise>,
) -> Result<(), PlanError> {
    let value = |formula| formulas.needed(formula, row, fields);
    let wrong = |formula: &str, found: &serde_json::Value, expected| {
        PlanError::from(crate::config::Error::invalid(formula, found, expected))
    };
    let row_len: u64 = shape.iter().skip(1).product();
    match map {
        Map::ScaleBy(formula) => {
            let found = value(formula)?;
            let factor = found.as_f64().ok_or_else(|| wrong(formula, &found, "a number"))?;
            maps.push(Elementwise::Scale(to_f32(factor)));
        }
        Map::ScaleRowsBy(formula) => {
            let found = value(formula)?;
            let pair = |pair: &serde_json::Value| Some((pair.get(0)?.as_u64()?, to_f32(pair.get(1)?.as_f64()?)));
            let pairs: Option<Vec<(u64, f32)>> = found.as_array().and_then(|pairs| pairs.iter().map(pair).collect());
            let pairs = pairs.ok_or_else(|| wrong(formula, &found, "pairs of rows and numbers"))?;
            let rows = pairs.iter().fold(0u64, |sum, (n, _)| sum.saturating_add(*n));
            let period = rows.saturating_mul(row_len);
            if rows == 0 || shape.first().is_none_or(|n| n % rows != 0) {
                return Err(wrong(formula, &found, "rows that fill the tensor"));
            }
            let mut first = 0;
            for (n, factor) in pairs {
                let (from, to) = (first * row_len, (first + n) * row_len);
                maps.push(Elementwise::ScalePart { period, from, to, factor });
                first += n;
            }
        }
        Map::PadRowsTo(formula) => {
            let found = value(formula)?;
            let n = found.as_u64().ok_or_else(|| wrong(formula, &found, "a whole number"))?;
            if let Some(rows) = shape.first_mut()
                && *rows < n
            {
                let (from, missing) = (rows.saturating_mul(row_len), (n - *rows).saturating_mul(row_len));
                let axes = vec![Axis { count: missing, from: 0, to: 1 }];
                moves.push(Move { input: 0, from: 0, to: from, axes });
                maps.push(Elementwise::ZeroFrom(from));
                *rows = n;
            }
        }
        Map::ZeroRows(n) => maps.push(Elementwise::ZeroBefore(n.saturating_mul(row_len))),
        Map::Add(addend) => maps.push(Elementwise::Add(addend)),
        Map::Scale(factor) => maps.push(Elementwise::Scale(factor)),
        Map::NegExp => maps.push(Elementwise::NegExp),
        Map::Softplus => maps.push(Elementwise::Softplus),
    }
    Ok(())
}

/// The length of a named axis: a short name or the name of a table dimension. Patterns may also name configuration fields, with a dot.
pub(crate) fn length(axis: &str, h: &Hparams<'_>, block: u64) -> Option<u64> {
    axis_of(axis)?.of(h, block)
}

/// The dimension of a named axis.
fn axis_of(name: &str) -> Option<Dim> {
    match name {
        "h" => Some(Dim::Heads),
        "kv" => Some(Dim::HeadsKv),
        "d" => Some(Dim::HeadK),
        "x" => Some(Dim::Experts),
        name => Dim::from_name(name),
    }
}
