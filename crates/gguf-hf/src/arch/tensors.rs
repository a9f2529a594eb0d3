//! Tensors: maps a checkpoint's tensors to rows of an architecture, and plans the operations on them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, ValueRef};
use gguf_model::Hparams;
use gguf_model::arch::{Architecture, Checkpoint, Dim, Map, Need, Row, RowOp, Stack, Tensor};
use gguf_pipeline::moves::{Axis, Move};
use gguf_pipeline::plan::{BatchNorm, Elementwise, Gather, Input, Narrow, Op, Product, Resize, RoundToMean, Sum};

use super::keys::unusable;
use super::{blocks, names};
use crate::dtype::SourceTensor;
use crate::facts::Fact;
use crate::formula::{Fields, Formula, is_true};
use crate::model_plan::{ModelPlan, NextTokens, Origin, PlanError, float_input};
use crate::pattern::Pattern;

/// Adds the output tensors made from the checkpoint's tensors.
pub(super) fn add(
    architecture: &'static Architecture,
    checkpoint: &'static Checkpoint,
    sources: &[SourceTensor],
    is_whole: bool,
    plan: &mut ModelPlan,
) -> Result<(), PlanError> {
    // Sizes in rows refer to the planned keys.
    let parameters = plan.parameters.clone();
    let keys: HashMap<&str, ValueRef<'_>> =
        parameters.iter().map(|(key, value)| (key.as_str(), value.as_ref())).collect();
    let prefix = if checkpoint.sizes.is_empty() { plan.architecture } else { checkpoint.sizes };
    let of = |prefix: &str| Hparams::new(|pattern| keys.get(pattern.replace("{arch}", prefix).as_str()).copied());
    let sound = if checkpoint.takes.is_empty() { prefix } else { SOUND_SIZES };
    let n_further = plan.fields.facts.get(Fact::FurtherBlocks).and_then(serde_json::Value::as_u64);
    let sizes = Sizes { own: of(prefix), sound: of(sound), n_blocks: plan.fields.n_blocks, n_further };

    let n_main = plan.fields.n_blocks.saturating_sub(sizes.own.nextn);
    let next_tokens = NextTokens::of(&plan.fields);
    let mut renames = Vec::new();
    for (old, new, condition) in checkpoint.rename_if {
        if condition_holds(condition, old, &plan.fields)? {
            renames.push((*old, *new));
        }
    }
    let rows = Rows::new(architecture, checkpoint);
    let formulas = Formulas::default();
    let mut slots: BTreeMap<SlotKey, Slot> = BTreeMap::new();
    let (mut first_of, mut ids) = (None, None);
    let mut unmapped = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let name = match names::of_text_model(checkpoint, &renames, &source.name) {
            Ok(name) => match names::in_appended_block(checkpoint, &name, n_main) {
                Some(_) if next_tokens == NextTokens::LeftOut => {
                    plan.skip(&source.name, LEFT_OUT);
                    continue;
                }
                appended => appended.unwrap_or(name),
            },
            Err(reason) => {
                plan.skip(&source.name, reason);
                continue;
            }
        };
        let name = renumbered(checkpoint, name, &plan.fields, &formulas)?;
        if is_skipped(checkpoint, &name, &source.name, rows.block_of(&name), &plan.fields, &formulas)? {
            plan.skip(&source.name, "not used by the architecture in llama.cpp");
            continue;
        }
        if checkpoint.zero.iter().any(|pattern| names::matches(pattern, &name)) {
            plan.skip(&source.name, "zero");
            plan.zero.push(index);
            continue;
        }
        if checkpoint.first_of.contains(&name.as_str()) && first_of.replace(index).is_some() {
            plan.skip(&source.name, "the checkpoint has it under another name too");
            continue;
        }
        if !checkpoint.ids.is_empty() && name == checkpoint.ids {
            ids = Some((index, source));
            continue;
        }
        let mut matches = rows.matches(&name);
        if matches.is_empty() && names::peeked(checkpoint, &name).is_some() {
            plan.skip(&source.name, "its values are key-values");
            continue;
        }
        // Of several possible output tensors, those that exist in the block are used.
        let counts =
            |found: &Match| found.tensor.row.when.holds(sizes.of(found.tensor.row), found.key.block.unwrap_or(0));
        if matches.iter().any(counts) {
            matches.retain(counts);
        }
        let count = |found: &Match| sizes.n_blocks_of(found.tensor.row);
        let is_beyond = |found: &Match| found.key.block.is_some_and(|block| block >= count(found));
        if next_tokens == NextTokens::LeftOut && matches.iter().any(is_beyond) {
            plan.skip(&source.name, LEFT_OUT);
            continue;
        }
        let is_shared = |found: &Match| match found.key.block {
            Some(block) => block >= n_main,
            None => SHARED.contains(&found.tensor.row.name),
        };
        if next_tokens == NextTokens::Only && !matches.is_empty() && !matches.iter().any(is_shared) {
            plan.skip(&source.name, "only the blocks that predict further tokens are asked for");
            continue;
        }
        if checkpoint.drops_further_blocks && matches.iter().any(is_beyond) {
            plan.skip(&source.name, "belongs to a block that the model does not have in llama.cpp");
            continue;
        }
        if matches.is_empty() || matches.iter().any(is_beyond) {
            unmapped.push(source.name.clone());
            continue;
        }
        for found in matches {
            let slot = slots.entry(found.key).or_insert_with(|| Slot::new(&found));
            if slot.alternative != found.alternative || slot.parts.insert((found.part, found.number), index).is_some() {
                return Err(PlanError::Duplicate { name: found.key.output_name(&found.tensor) });
            }
        }
    }

    if !unmapped.is_empty() {
        return Err(PlanError::Unmapped {
            tensors: unmapped,
            architecture: plan.architecture,
            n_blocks: sizes.n_blocks,
        });
    }
    let is_next = |key: &SlotKey| key.block.is_some_and(|block| block >= n_main);
    if next_tokens == NextTokens::Only && !slots.keys().any(is_next) {
        return Err(PlanError::NoNextTokens { architecture: plan.architecture });
    }

    // A tensor is written at the position of its last source, and all experts of a block are written together.
    let mut groups: HashMap<(Option<u64>, &str), usize> = HashMap::new();
    for (key, slot) in &slots {
        if let Some(stack) = slot.stack {
            let last = groups.entry((key.block, stack.before)).or_default();
            *last = slot.last().max(*last);
        }
    }
    let mut order: Vec<(usize, &SlotKey, &Slot)> = Vec::with_capacity(slots.len());
    for (key, slot) in &slots {
        let group = slot.stack.and_then(|stack| groups.get(&(key.block, stack.before)).copied());
        order.push((group.unwrap_or_else(|| slot.last()), key, slot));
    }
    order.compact_sort_by_key(|(last, key, _)| (*last, key.row, key.is_bias));
    for (_, key, slot) in order {
        let name = key.output_name(&slot.tensor);
        let (shape, mut op) = slot.bind(key, &name, sources, sizes.of(slot.tensor.row), &plan.fields, &formulas)?;
        let halvings = key.block.unwrap_or(0).checked_div(sizes.own.rescale_every.unwrap_or(0)).unwrap_or(0);
        if halvings > 0 && checkpoint.rescaled.contains(&slot.tensor.row.name) {
            op = halved(op, halvings, &shape);
        }
        match checkpoint.keeps_types {
            true => {
                let stored =
                    op.inputs().first().and_then(|input| sources.get(input.index())).map(|source| source.dtype);
                plan.add_as_stored(name, shape, op, stored);
            }
            false => plan.add(name, shape, op),
        }
    }
    if let Some((index, source)) = ids {
        plan.add_ids(checkpoint.ids, index, source);
    }
    let is_used = |root: &&&str| sources.iter().any(|source| source.name.starts_with(**root));
    let root = checkpoint.roots.iter().find(is_used).copied().unwrap_or_default();
    let first_block = if next_tokens == NextTokens::Only { n_main } else { 0 };
    if is_whole {
        missing(architecture, checkpoint, root, &slots, &sizes, first_block, rows.place_of_sound)
    } else {
        Ok(())
    }
}

/// The prefix of an audio encoder's keys of sizes.
const SOUND_SIZES: &str = "clip.audio";

/// The hyperparameters that dimensions of rows refer to.
struct Sizes<'g> {
    own: Hparams<'g>,
    /// Those of the audio encoder, which may be in one file with an image encoder.
    sound: Hparams<'g>,
    /// The number of blocks of the model.
    n_blocks: u64,
    /// The number of blocks in the second run of an encoder of images or sound, if it has one.
    n_further: Option<u64>,
}

impl<'g> Sizes<'g> {
    /// The hyperparameters for a row.
    fn of(&self, row: &Row) -> &Hparams<'g> {
        if row.is_of_sound() { &self.sound } else { &self.own }
    }

    /// The number of blocks in the run of blocks of a row.
    fn n_blocks_of(&self, row: &Row) -> u64 {
        let h = self.of(row);
        match row.stack() {
            Stack::Only | Stack::Encoder => self.n_blocks,
            Stack::Decoder => h.decoder_blocks.unwrap_or(self.n_blocks),
            Stack::ConvNext => h.convnext_blocks.unwrap_or(0),
            Stack::Vision | Stack::DeepStack | Stack::Audio => h.blocks.unwrap_or(self.n_blocks),
            Stack::Sam | Stack::ImageProjector | Stack::AudioProjector => self.n_further.unwrap_or(0),
        }
    }
}

/// Replaces the number in a name, which is an index into a list, with the element of the list.
fn renumbered(
    checkpoint: &Checkpoint,
    name: String,
    fields: &Fields,
    formulas: &Formulas,
) -> Result<String, PlanError> {
    for (before, list) in checkpoint.renumbered {
        let Some((place, rest)) = name.strip_prefix(before).and_then(names::number) else { continue };
        let list = formulas.value(list, before, fields)?;
        let element = usize::try_from(place).ok().and_then(|place| list.get(place)?.as_u64());
        // Without an element, the name matches no row.
        return Ok(element.map_or_else(|| format!("{before}?{rest}"), |number| format!("{before}{number}{rest}")));
    }
    Ok(name)
}

/// The operation followed by the given number of divisions by 2.
fn halved(op: Op, halvings: u64, shape: &[u64]) -> Op {
    let scale = Elementwise::Scale((0..halvings).fold(1.0, |scale, _| scale / 2.0));
    match op {
        Op::Copy(input) => {
            let moves = crate::pattern::whole(shape).moves;
            Op::Gather(Box::new(Gather { inputs: vec![input], moves, maps: vec![scale] }))
        }
        Op::Gather(mut gather) => {
            gather.maps.push(scale);
            Op::Gather(gather)
        }
        other => other,
    }
}

/// The maximum number of values of a tensor computed by a formula.
const MAX_VALUES: u64 = 65536;

/// The maximum number of vectors along a side of a resized grid.
const MAX_SIDE: u64 = 65536;

/// Why tensors of multi-token prediction blocks are left out.
const LEFT_OUT: &str = "predicts further tokens";

/// Tensors that multi-token prediction blocks share with the model.
const SHARED: &[&str] = &["token_embd.weight", "output_norm.weight", "output.weight"];

/// Whether the class leaves a tensor of a block out, by its name in the tables or in the checkpoint.
fn is_skipped(
    checkpoint: &Checkpoint,
    name: &str,
    source: &str,
    block: Option<u64>,
    fields: &Fields,
    formulas: &Formulas,
) -> Result<bool, PlanError> {
    for (pattern, condition) in checkpoint.skip {
        let matches = match pattern.strip_prefix('^') {
            Some(pattern) => names::matches(pattern, source),
            None => names::matches(pattern, name),
        };
        if matches && condition_holds_in(condition, pattern, block, fields, formulas)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Like [`condition_holds`]; for a list, tests the element of the block.
fn condition_holds_in(
    condition: &'static str,
    row: &'static str,
    block: Option<u64>,
    fields: &Fields,
    formulas: &Formulas,
) -> Result<bool, PlanError> {
    if condition.is_empty() {
        return Ok(true);
    }
    let value = formulas.value(condition, row, fields)?;
    if condition.starts_with('[') {
        let place = block.and_then(|block| usize::try_from(block).ok());
        return Ok(place.and_then(|place| value.get(place)).is_some_and(|holds| *holds == true));
    }
    Ok(is_true(Some(&value)))
}

/// The values of formulas of rows that apply to many tensors; each is evaluated once.
#[derive(Default)]
struct Formulas {
    values: RefCell<HashMap<&'static str, Rc<serde_json::Value>>>,
}

impl Formulas {
    /// The value of a formula, `null` if it has none. The fields must be the same in all calls.
    fn value(
        &self,
        formula: &'static str,
        row: &'static str,
        fields: &Fields,
    ) -> Result<Rc<serde_json::Value>, PlanError> {
        if let Some(value) = self.values.borrow().get(formula) {
            return Ok(Rc::clone(value));
        }
        let parsed = Formula::parse(formula).map_err(|e| unusable(row, e))?;
        let value = fields.eval(&parsed).map_err(|e| unusable(row, e))?;
        let value = Rc::new(value.map_or(serde_json::Value::Null, Cow::into_owned));
        self.values.borrow_mut().insert(formula, Rc::clone(&value));
        Ok(value)
    }

    /// The value of a formula that must have one.
    fn needed(
        &self,
        formula: &'static str,
        row: &'static str,
        fields: &Fields,
    ) -> Result<Rc<serde_json::Value>, PlanError> {
        let value = self.value(formula, row, fields)?;
        let missing = || crate::config::Error::Missing(vec![formula.to_owned()]).into();
        if value.is_null() { Err(missing()) } else { Ok(value) }
    }
}

/// Whether the condition of a row holds; an empty condition always does.
pub(super) fn condition_holds(condition: &str, row: &'static str, fields: &Fields) -> Result<bool, PlanError> {
    let wrong = |e| unusable(row, e);
    match condition {
        "" => Ok(true),
        text => fields.holds(&Formula::parse(text).map_err(wrong)?).map_err(wrong),
    }
}

/// The names in a source that are concatenated or multiplied, or the operands of a function.
fn operands(source: &'static str) -> impl Iterator<Item = &'static str> {
    source.split(" + ").flat_map(|source| source.split(PRODUCT)).flat_map(|source| source.split(", "))
}

/// The placeholder of a number that a tensor's name has in the checkpoint and in the output.
const KEPT: &str = "n";

/// The separator of multiplied tensor names.
const PRODUCT: &str = " * ";

/// A source tensor name, split at the number of an expert, a head or a part.
#[derive(Debug, Clone, Copy)]
struct Template {
    before: &'static str,
    /// The placeholder's unit and the text after it.
    stack: Option<(&'static str, &'static str)>,
    /// Whether the numbers denote parts that are concatenated instead of stacked.
    joins: bool,
}

impl Template {
    fn new(text: &'static str) -> Template {
        let text = text.trim();
        let taken_apart = text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        match taken_apart {
            Some((before, (unit, after))) => {
                let part = unit.strip_prefix('+');
                Template { before, stack: Some((part.unwrap_or(unit), after)), joins: part.is_some() }
            }
            None => Template { before: text, stack: None, joins: false },
        }
    }

    /// The number in a name (0 if the template has none), and the rest of the name.
    fn matches<'n>(&self, name: &'n str) -> Option<(u64, &'n str)> {
        let rest = name.strip_prefix(self.before)?;
        let Some((_, after)) = self.stack else { return Some((0, rest)) };
        let (number, rest) = names::number(rest)?;
        Some((number, rest.strip_prefix(after)?))
    }
}

/// A row with parsed source names: alternatives of parts.
struct ParsedRow {
    tensor: Tensor,
    is_outside: bool,
    alternatives: Vec<Vec<Template>>,
}

/// The rows of an architecture that are used for conversion.
struct Rows {
    rows: Vec<ParsedRow>,
    layers: &'static [&'static str],
    /// The position in `layers` of the blocks of sound, if there are any.
    place_of_sound: Option<usize>,
}

/// A row that matches a tensor.
struct Match {
    key: SlotKey,
    tensor: Tensor,
    alternative: usize,
    n_parts: usize,
    part: usize,
    number: u64,
    stack: Option<Template>,
}

impl Rows {
    fn new(architecture: &'static Architecture, checkpoint: &'static Checkpoint) -> Rows {
        let parse = |is_outside| {
            move |tensor: Tensor| {
                let parts = |text: &'static str| operands(text).map(Template::new).collect();
                let alternatives = tensor.row.source.split('|').map(parts).collect();
                ParsedRow { tensor, is_outside, alternatives }
            }
        };
        let outside = architecture.outside().map(parse(true));
        let rows = outside.chain(architecture.block().map(parse(false)));
        let is_made = |row: &ParsedRow| !row.tensor.row.source.is_empty() && !row.tensor.is_bias;
        let has = |stack: Stack| architecture.block().any(|tensor| tensor.row.stack() == stack);
        let last = checkpoint.layers.len().saturating_sub(1);
        let place_of_sound = has(Stack::Audio).then_some(if has(Stack::Vision) { last } else { 0 });
        Rows { rows: rows.filter(is_made).collect(), layers: checkpoint.layers, place_of_sound }
    }

    /// Whether the prefix of a run of blocks is at this position in the checkpoint.
    fn is_at(&self, stack: Stack, place: usize) -> bool {
        match stack {
            Stack::Only => true,
            Stack::Audio => Some(place) == self.place_of_sound,
            _ => stack.place() == place.min(1) && (place == 0 || Some(place) != self.place_of_sound),
        }
    }

    /// The run of blocks that contains a tensor, the block's number and the rest of the tensor's name.
    fn in_block<'n>(&self, name: &'n str) -> Option<(usize, u64, &'n str)> {
        self.layers.iter().enumerate().find_map(|(place, layers)| {
            let (before, after) = layers.split_once("{}")?;
            let (block, rest) = names::number(name.strip_prefix(before)?)?;
            Some((place, block, rest.strip_prefix(after)?))
        })
    }

    /// The block of a tensor.
    fn block_of(&self, name: &str) -> Option<u64> {
        self.in_block(name).map(|(_, block, _)| block)
    }

    /// All rows that a tensor matches; several if it is split.
    fn matches(&self, name: &str) -> Vec<Match> {
        let in_block = self.in_block(name);
        let mut found = Vec::new();
        for (number_of_row, row) in self.rows.iter().enumerate() {
            let (block, rest) = match (row.is_outside, in_block) {
                (true, _) => (None, name),
                (false, Some((place, block, rest))) if self.is_at(row.tensor.row.stack(), place) => (Some(block), rest),
                (false, _) => continue,
            };
            for (alternative, parts) in row.alternatives.iter().enumerate() {
                for (part, template) in parts.iter().enumerate() {
                    let Some((number, suffix)) = template.matches(rest) else { continue };
                    let is_bias = match suffix {
                        "" | ".weight" => false,
                        ".bias" if row.tensor.row.bias.is_some() => true,
                        _ => continue,
                    };
                    let is_kept = template.stack.is_some_and(|(unit, _)| unit == KEPT);
                    let (kept, number) = if is_kept { (Some(number), 0) } else { (None, number) };
                    let key = SlotKey { row: number_of_row, block, kept, is_bias };
                    let tensor = Tensor { is_bias, ..row.tensor };
                    let stack = template.stack.filter(|_| !is_kept).map(|_| *template);
                    found.push(Match { key, tensor, alternative, n_parts: parts.len(), part, number, stack });
                }
            }
        }
        found
    }
}

/// The key of an output tensor: the index of its row among the rows used for conversion, its block, and the number in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SlotKey {
    row: usize,
    block: Option<u64>,
    kept: Option<u64>,
    is_bias: bool,
}

impl SlotKey {
    fn output_name(&self, tensor: &Tensor) -> String {
        let name = tensor.name_in(self.block);
        match self.kept {
            Some(number) => name.replace("{n}", &number.to_string()),
            None => name,
        }
    }
}

/// The sources of an output tensor.
struct Slot {
    tensor: Tensor,
    alternative: usize,
    n_parts: usize,
    stack: Option<Template>,
    /// Source indices by part of a concatenation and position in a stack.
    parts: BTreeMap<(usize, u64), usize>,
}

impl Slot {
    fn new(found: &Match) -> Slot {
        Slot {
            tensor: found.tensor,
            alternative: found.alternative,
            n_parts: found.n_parts,
            stack: found.stack,
            parts: BTreeMap::new(),
        }
    }

    /// The last source in reading order.
    fn last(&self) -> usize {
        self.parts.values().copied().max().unwrap_or(0)
    }

    /// The shape in GGUF's order, and the operation.
    fn bind(
        &self,
        key: &SlotKey,
        name: &str,
        sources: &[SourceTensor],
        h: &Hparams<'_>,
        fields: &Fields,
        formulas: &Formulas,
    ) -> Result<(Vec<u64>, Op), PlanError> {
        let block = key.block.unwrap_or(0);
        let length = |axis: &str, h, block| {
            // A class may permute rows by other numbers of heads than it writes.
            let permuted = fields.number(&format!("@{}.{axis}", Fact::Permuted.name()));
            permuted.or_else(|| length(axis, h, block)).or_else(|| fields.number(axis))
        };
        let unit = self.stack.and_then(|template| Some((template.stack?.0, template.joins)));
        let n_stack = match unit {
            Some((field, true)) => {
                let missing = || PlanError::from(crate::config::Error::Missing(vec![field.to_owned()]));
                fields.fields.get(field).and_then(serde_json::Value::as_u64).ok_or_else(missing)?
            }
            Some((axis, false)) => length(axis, h, block).unwrap_or(self.parts.len() as u64),
            None => 1,
        };
        let incomplete = || PlanError::Incomplete {
            name: name.to_owned(),
            found: self.parts.len() as u64,
            expected: n_stack.saturating_mul(self.n_parts as u64),
            origin: Origin::of(match unit {
                Some((field, true)) => field,
                Some((axis, false)) => axis_of(axis).map_or("", Dim::keys),
                None => "",
            }),
            tensor: self.odd_one(n_stack, sources),
        };
        if self.parts.len() as u64 != n_stack.saturating_mul(self.n_parts as u64)
            || self.parts.keys().any(|(_, number)| *number >= n_stack)
        {
            return Err(incomplete());
        }
        let row = self.tensor.row;
        match row.op {
            RowOp::Values(formula) => {
                let value = formulas.needed(formula, row.name, fields)?;
                return self.values(formula, &value, h, key.block);
            }
            RowOp::Integers => return self.whole_numbers(sources, h, block),
            RowOp::ResizeGrid(formula) => {
                let side = formulas.needed(formula, row.name, fields)?;
                return self.resized(formula, &side, sources, h, block);
            }
            RowOp::BatchNorm(eps) => {
                let (shape, inputs) = self.vectors(name, sources, h, block)?;
                return Ok((shape, Op::BatchNorm(Box::new(BatchNorm { inputs, eps }))));
            }
            RowOp::Map(_) | RowOp::RoundToMean | RowOp::SumParts => {}
        }
        if row.source.contains(PRODUCT) {
            let (shape, inputs) = self.vectors(name, sources, h, block)?;
            return Ok((shape, Op::Product(Product { inputs: inputs.into() })));
        }
        let pattern = match row.pattern {
            "" => None,
            text => Some(Pattern::parse(text).map_err(|e| PlanError::Table { key: row.name, problem: e.to_string() })?),
        };
        let joins = self.n_parts > 1 || self.stack.is_some_and(|template| template.joins);
        let mut inputs: Vec<Input> = Vec::with_capacity(self.parts.len());
        let mut moves = Vec::new();
        let (mut shape, mut to) = (Vec::new(), 0);
        let mut n_units = 0;
        for (&(part, number), &index) in &self.parts {
            let source = sources.get(index).ok_or_else(incomplete)?;
            let input = float_input(index, source)?;
            let is_mixed = inputs.first().is_some_and(|first| first.ty != input.ty);
            if is_mixed && (input.ty.is_quantized() || inputs.iter().any(|input| input.ty.is_quantized())) {
                return Err(PlanError::Mixed { name: name.to_owned(), tensor: source.name.clone() });
            }
            let wrong = |problem: String| PlanError::Pattern {
                tensor: source.name.clone(),
                shape: source.shape.clone(),
                problem,
            };
            let bind = |shape: &[u64]| match &pattern {
                Some(pattern) => {
                    pattern.bind(shape, &|axis| length(axis, h, block)).map_err(|problem| wrong(problem.to_string()))
                }
                None => Ok(crate::pattern::whole(shape)),
            };
            let moved = match input.ty.is_quantized() {
                true => blocks::moved(source, bind)?.filter(|_| row.op == RowOp::Map(&[]) && !joins),
                false => Some(bind(&source.shape)?),
            };
            let moved = moved.ok_or_else(|| wrong("its blocks cannot be moved as the architecture asks".to_owned()))?;
            n_units = blocks::n_units(source, input.ty);
            let place = inputs.len();
            let mut n = 0;
            for item in moved.moves {
                n += item.n_elements();
                moves.push(Move { input: place, to: item.to + to, ..item });
            }
            to += n;
            inputs.push(input);
            if (part, number) == (0, 0) {
                shape = moved.shape;
            } else if !joins && shape == moved.shape {
                // Stacked.
            } else if let (true, Some((first, rest))) = (joins, shape.split_first_mut())
                && moved.shape.get(1..) == Some(rest)
            {
                // Concatenated along the outermost dimension.
                *first += moved.shape.first().copied().unwrap_or(1);
            } else {
                let (tensor, found) = (source.name.clone(), source.shape.clone());
                return Err(PlanError::Shapes { name: name.to_owned(), tensor, found });
            }
        }
        if self.stack.is_some_and(|template| !template.joins) {
            shape.insert(0, n_stack);
        }
        let mut maps = Vec::new();
        if let RowOp::Map(functions) = row.op {
            for map in functions {
                resolve(*map, row.name, (fields, formulas), &mut shape, &mut moves, &mut maps)?;
            }
        }
        let n_parts = (row.op == RowOp::SumParts && !shape.is_empty()).then(|| shape.remove(0));
        if let Some(input) = inputs.first()
            && let Some(row_len) = shape.last_mut()
        {
            *row_len = row_len.saturating_mul(blocks::len(input.ty));
        }
        shape.reverse();
        self.check_shape(&shape, sources, h, block)?;
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
            None => return Err(incomplete()),
        };
        Ok((shape, op))
    }

    /// All parts as the inputs of an elementwise function to a vector, and the shape of that vector.
    fn vectors(
        &self,
        name: &str,
        sources: &[SourceTensor],
        h: &Hparams<'_>,
        block: u64,
    ) -> Result<(Vec<u64>, Vec<Input>), PlanError> {
        let (mut inputs, mut lengths) = (Vec::new(), Vec::new());
        for (source, &index) in self.parts.values().filter_map(|index| Some((sources.get(*index)?, index))) {
            let length: u64 = source.shape.iter().product();
            inputs.push(float_input(index, source)?);
            lengths.push(length);
            if lengths.first() != Some(&length) {
                let (tensor, found) = (source.name.clone(), source.shape.clone());
                return Err(PlanError::Shapes { name: name.to_owned(), tensor, found });
            }
        }
        lengths.truncate(1);
        self.check_shape(&lengths, sources, h, block)?;
        Ok((lengths, inputs))
    }

    /// A tensor of integers.
    fn whole_numbers(
        &self,
        sources: &[SourceTensor],
        h: &Hparams<'_>,
        block: u64,
    ) -> Result<(Vec<u64>, Op), PlanError> {
        let (index, source) = self.only(sources)?;
        let shape: Vec<u64> = source.shape.iter().rev().copied().collect();
        self.check_shape(&shape, sources, h, block)?;
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
    fn only<'s>(&self, sources: &'s [SourceTensor]) -> Result<(usize, &'s SourceTensor), PlanError> {
        let found = self.parts.values().find_map(|index| Some((*index, sources.get(*index)?)));
        found.ok_or_else(|| PlanError::Table {
            key: self.tensor.row.name,
            problem: "expected the name of one tensor".to_owned(),
        })
    }

    /// A square grid of vectors, with as many along each side as a formula gives.
    fn resized(
        &self,
        formula: &'static str,
        found: &serde_json::Value,
        sources: &[SourceTensor],
        h: &Hparams<'_>,
        block: u64,
    ) -> Result<(Vec<u64>, Op), PlanError> {
        let (index, source) = self.only(sources)?;
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
        self.check_shape(&shape, sources, h, block)?;
        let op = match side == to {
            true => Op::Copy(input),
            false => Op::Resize(Box::new(Resize { input, from: [side; 2], to: [to; 2], vector_len })),
        };
        Ok((shape, op))
    }

    /// A tensor with the values of a formula.
    fn values(
        &self,
        formula: &'static str,
        value: &serde_json::Value,
        h: &Hparams<'_>,
        block: Option<u64>,
    ) -> Result<(Vec<u64>, Op), PlanError> {
        let invalid =
            || PlanError::from(crate::config::Error::invalid(formula, value, "as many numbers as the tensor has"));
        let dims = self.tensor.shape().iter().map(|dim| dim.of(h, block.unwrap_or(0)));
        let shape: Vec<u64> = dims.collect::<Option<_>>().ok_or_else(invalid)?;
        let n = shape.iter().try_fold(1u64, |n, dim| n.checked_mul(*dim)).filter(|n| *n <= MAX_VALUES);
        let n = n.and_then(|n| usize::try_from(n).ok()).ok_or_else(invalid)?;
        let of_block = block.and_then(|block| value.get(usize::try_from(block).ok()?)).filter(|list| list.is_array());
        let number = |value: &serde_json::Value| value.as_f64().map(|x| x as f32);
        let values: Option<Vec<f32>> = match of_block.unwrap_or(value) {
            serde_json::Value::Array(items) => items.iter().map(number).collect(),
            single => number(single).map(|x| vec![x; n]),
        };
        let values = values.filter(|values| values.len() == n).ok_or_else(invalid)?;
        Ok((shape, Op::Computed(values)))
    }

    /// The checkpoint's name of the first missing tensor of a stack, or of the first superfluous one.
    fn odd_one(&self, n_stack: u64, sources: &[SourceTensor]) -> String {
        let source = |index: &usize| sources.get(*index).map_or("", |source| source.name.as_str());
        if let Some((_, index)) = self.parts.iter().find(|((_, number), _)| *number >= n_stack) {
            return source(index).to_owned();
        }
        let missing = (0..n_stack).find(|number| !self.parts.contains_key(&(0, *number)));
        let (Some(missing), Some(((_, number), index))) = (missing, self.parts.first_key_value()) else {
            return self.tensor.row.source.to_owned();
        };
        // Another tensor of the stack, with the missing number.
        match self.stack.and_then(|template| Some((template.before, template.stack?.1))) {
            Some((before, after)) => {
                let number_of = |number: u64| format!("{before}{number}{after}");
                source(index).replacen(&number_of(*number), &number_of(missing), 1)
            }
            None => self.tensor.row.source.to_owned(),
        }
    }

    /// Compares a shape, in GGUF's order, with the shape implied by the planned keys. The number of tokens is checked on the output instead,
    /// because checkpoints pad their embeddings.
    fn check_shape(
        &self,
        shape: &[u64],
        sources: &[SourceTensor],
        h: &Hparams<'_>,
        block: u64,
    ) -> Result<(), PlanError> {
        let dims = self.tensor.shape();
        if dims.is_empty() {
            return Ok(());
        }
        for axis in 0..shape.len().max(dims.len()) {
            let found = shape.get(axis).copied().unwrap_or(1);
            let (expected, keys) = match dims.get(axis) {
                Some(Dim::Vocab) => continue,
                Some(dim) => match dim.of(h, block) {
                    Some(expected) => (expected, dim.keys()),
                    None => continue,
                },
                None => (1, "one dimension less"),
            };
            if found != expected {
                let source = self.parts.values().next().and_then(|index| sources.get(*index));
                return Err(PlanError::Shape {
                    tensor: source.map(|source| source.name.clone()).unwrap_or_default(),
                    shape: source.map(|source| source.shape.clone()).unwrap_or_default(),
                    axis,
                    found,
                    expected,
                    origin: Origin::of(keys),
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
            maps.push(Elementwise::Scale(factor as f32));
        }
        Map::ScaleRowsBy(formula) => {
            let found = value(formula)?;
            let pair = |pair: &serde_json::Value| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_f64()? as f32));
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
fn length(axis: &str, h: &Hparams<'_>, block: u64) -> Option<u64> {
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

/// The first tensor in the blocks from `first_block` on that the architecture requires and the checkpoint lacks. `root` is the name prefix
/// in the checkpoint.
fn missing(
    architecture: &'static Architecture,
    checkpoint: &Checkpoint,
    root: &str,
    slots: &BTreeMap<SlotKey, Slot>,
    sizes: &Sizes<'_>,
    first_block: u64,
    place_of_sound: Option<usize>,
) -> Result<(), PlanError> {
    let made: HashSet<String> = slots.iter().map(|(key, slot)| key.output_name(&slot.tensor)).collect();
    let is_made = |tensor: &Tensor| !tensor.row.source.is_empty();
    let look = |tensors: Vec<Tensor>, block: Option<u64>| {
        for &tensor in &tensors {
            // If conversion makes no separate queries, they are in one matrix with keys and values.
            let fused = tensor.row.fused();
            let whole = tensors.iter().copied().find(|tensor| tensor.is_named(fused) && is_made(tensor));
            let stack = tensor.row.stack();
            if block.is_some_and(|block| block >= sizes.n_blocks_of(tensor.row)) {
                continue;
            }
            let due = match tensor.need() {
                Need::Required => true,
                Need::UnlessFused => !block.is_some_and(|block| made.contains(&format!("blk.{block}.{fused}"))),
                _ => false,
            };
            let counts = tensor.row.when.holds(sizes.of(tensor.row), block.unwrap_or(0));
            let tensor = match whole.filter(|_| tensor.need() == Need::UnlessFused && !is_made(&tensor)) {
                Some(whole) => whole,
                None => tensor,
            };
            if due && counts && is_made(&tensor) && !made.contains(&tensor.name_in(block)) {
                let first = tensor.row.source.split('|').next().unwrap_or_default();
                let Template { before, stack: number, .. } =
                    Template::new(operands(first).next().unwrap_or_default().trim());
                let source = number.map_or(before.to_owned(), |(_, after)| format!("{before}0{after}"));
                let suffix = if tensor.is_bias { ".bias" } else { ".weight" };
                let place = if stack == Stack::Audio { place_of_sound.unwrap_or(0) } else { stack.place() };
                let prefix = block.map(|block| {
                    checkpoint.layers.get(place).copied().unwrap_or_default().replace("{}", &block.to_string())
                });
                let root = if source == "lm_head" { "" } else { root };
                let name = tensor.name_in(block);
                let tensor = format!("{root}{}{source}{suffix}", prefix.unwrap_or_default());
                return Err(PlanError::Missing { tensor, name });
            }
        }
        Ok(())
    };
    look(architecture.outside().collect(), None)?;
    let n = architecture.block().map(|tensor| sizes.n_blocks_of(tensor.row)).max().unwrap_or(0);
    (first_block..n).try_for_each(|block| look(architecture.block().collect(), Some(block)))
}
