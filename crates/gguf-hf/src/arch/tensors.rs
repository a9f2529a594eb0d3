//! Tensors: maps a checkpoint's tensors to rows of an architecture, and plans the operations on them.

use std::collections::{BTreeMap, HashMap, HashSet};

use gguf_format::sort::CompactSort as _;
use gguf_format::{Value, ValueRef};
use gguf_model::Hparams;
use gguf_model::arch::{Architecture, Checkpoint, Need, Row, Stack, Tensor};
use gguf_pipeline::plan::{Elementwise, Gather, Op};

use super::formulas::{Formulas, condition_holds, condition_holds_in};
use super::names;
use super::rows::{Match, Rows, SlotKey, Template, operands};
use super::slot::{Binding, Slot};
use crate::dtype::SourceTensor;
use crate::facts::Fact;
use crate::formula::Fields;
use crate::model_plan::{ModelPlan, Mtp, PlanError};

/// Adds the output tensors made from the checkpoint's tensors. `needs_all`: whether a missing tensor that the architecture needs is an error.
pub(super) fn add(
    architecture: &'static Architecture,
    checkpoint: &'static Checkpoint,
    sources: &[SourceTensor],
    needs_all: bool,
    plan: &mut ModelPlan,
) -> Result<(), PlanError> {
    // Sizes in rows refer to the planned keys.
    let parameters = plan.parameters.clone();
    let sizes = Sizes::new(&parameters, checkpoint, plan);
    let n_main = plan.fields.n_blocks.saturating_sub(sizes.own.mtp_blocks);
    let mtp = Mtp::of(&plan.fields);
    let rows = Rows::new(architecture, checkpoint);
    let formulas = Formulas::default();
    let mut assignment = Assignment::new(checkpoint, &rows, &sizes, &formulas, plan)?;
    let mut slots: BTreeMap<SlotKey, Slot> = BTreeMap::new();
    let (mut ids, mut unmapped) = (None, Vec::new());
    for (index, source) in sources.iter().enumerate() {
        match assignment.of(source, &plan.fields)? {
            Assigned::Skipped(reason) => plan.skip(&source.name, reason),
            Assigned::IfNotZero => {
                plan.skip(&source.name, "zero");
                plan.zero.push(index);
            }
            Assigned::TokenIds => ids = Some((index, source)),
            Assigned::Unmapped => unmapped.push(source.name.clone()),
            Assigned::Rows(matches) => add_part(&mut slots, matches, index)?,
        }
    }

    if !unmapped.is_empty() {
        let (architecture, n_blocks) = (plan.architecture, sizes.n_blocks);
        return Err(PlanError::Unmapped { tensors: unmapped, architecture, n_blocks });
    }
    let is_next = |key: &SlotKey| key.block.is_some_and(|block| block >= n_main);
    if mtp == Mtp::Only && !slots.keys().any(is_next) {
        return Err(PlanError::NoMtp { architecture: plan.architecture });
    }
    for (key, slot) in in_file_order(&slots) {
        let name = key.output_name(&slot.tensor);
        let (h, block, fields, formulas) = (sizes.of(slot.tensor.row), key.block, &plan.fields, &formulas);
        let (shape, mut op) = Binding { slot, name: &name, block, sources, h, fields, formulas }.bind()?;
        let halvings = key.block.unwrap_or(0).checked_div(sizes.own.rescale_every.unwrap_or(0)).unwrap_or(0);
        if halvings > 0 && checkpoint.rescaled.contains(&slot.tensor.row.name) {
            op = halved(op, halvings, &shape);
        }
        match checkpoint.types.keeps_types {
            true => {
                let stored =
                    op.inputs().first().and_then(|input| sources.get(input.index())).map(|source| source.dtype);
                plan.add_as_stored(name, shape, op, stored);
            }
            false => plan.add(name, shape, op),
        }
    }
    if let Some((index, source)) = ids {
        plan.add_ids(checkpoint.facts.ids, index, source);
    }
    if !needs_all {
        return Ok(());
    }
    let is_used = |root: &&&str| sources.iter().any(|source| source.name.starts_with(**root));
    let root = checkpoint.names.roots.iter().find(is_used).copied().unwrap_or_default();
    let first_block = if mtp == Mtp::Only { n_main } else { 0 };
    missing(architecture, checkpoint, root, &slots, &sizes, first_block, rows.place_of_sound)
}

/// What becomes of a checkpoint tensor.
enum Assigned {
    /// It is left out, for this reason.
    Skipped(&'static str),
    /// It is an error, unless all its elements are zero.
    IfNotZero,
    /// It has the ids of a draft model's tokens.
    TokenIds,
    /// The architecture has no place for it.
    Unmapped,
    /// It becomes the tensors of these rows, or parts of them.
    Rows(Vec<Match>),
}

/// The rules that assign the tensors of a checkpoint to rows.
struct Assignment<'a> {
    checkpoint: &'static Checkpoint,
    rows: &'a Rows,
    sizes: &'a Sizes<'a>,
    formulas: &'a Formulas,
    renames: Vec<(&'static str, &'static str)>,
    mtp: Mtp,
    /// The number of blocks before the MTP blocks.
    n_main: u64,
    /// Whether one of the tensors of which only the first is used was found.
    has_first: bool,
}

impl<'a> Assignment<'a> {
    fn new(
        checkpoint: &'static Checkpoint,
        rows: &'a Rows,
        sizes: &'a Sizes<'a>,
        formulas: &'a Formulas,
        plan: &ModelPlan,
    ) -> Result<Assignment<'a>, PlanError> {
        let mut renames = Vec::new();
        for (old, new, condition) in checkpoint.names.rename_if {
            if condition_holds(condition, old, &plan.fields)? {
                renames.push((*old, *new));
            }
        }
        let n_main = plan.fields.n_blocks.saturating_sub(sizes.own.mtp_blocks);
        let mtp = Mtp::of(&plan.fields);
        Ok(Assignment { checkpoint, rows, sizes, formulas, renames, mtp, n_main, has_first: false })
    }

    /// What becomes of the next tensor.
    fn of(&mut self, source: &SourceTensor, fields: &Fields) -> Result<Assigned, PlanError> {
        let (checkpoint, mtp) = (self.checkpoint, self.mtp);
        let name = match names::of_text_model(checkpoint, &self.renames, &source.name) {
            Ok(name) => match names::in_appended_block(checkpoint, &name, self.n_main) {
                Some(_) if mtp == Mtp::LeftOut => return Ok(Assigned::Skipped(LEFT_OUT)),
                appended => appended.unwrap_or(name),
            },
            Err(reason) => return Ok(Assigned::Skipped(reason)),
        };
        let name = renumbered(checkpoint, name, fields, self.formulas)?;
        if is_skipped(checkpoint, &name, &source.name, self.rows.block_of(&name), fields, self.formulas)? {
            return Ok(Assigned::Skipped("not used by the architecture in llama.cpp"));
        }
        if checkpoint.names.zero.iter().any(|pattern| names::matches(pattern, &name)) {
            return Ok(Assigned::IfNotZero);
        }
        if checkpoint.names.first_of.contains(&name.as_str()) && std::mem::replace(&mut self.has_first, true) {
            return Ok(Assigned::Skipped("the checkpoint has it under another name too"));
        }
        if !checkpoint.facts.ids.is_empty() && name == checkpoint.facts.ids {
            return Ok(Assigned::TokenIds);
        }
        let matches = self.rows.matches(&name);
        if matches.is_empty() && names::peeked(checkpoint, &name).is_some() {
            return Ok(Assigned::Skipped("its values are key-values"));
        }
        Ok(self.in_blocks(matches))
    }

    /// Leaves out the rows that do not exist in the tensor's block, and the blocks that are not written.
    fn in_blocks(&self, mut matches: Vec<Match>) -> Assigned {
        let (sizes, n_main) = (self.sizes, self.n_main);
        // Of several possible output tensors, those that exist in the block are used.
        let counts =
            |found: &Match| found.tensor.row.when.holds(sizes.of(found.tensor.row), found.key.block.unwrap_or(0));
        if matches.iter().any(counts) {
            matches.retain(counts);
        }
        let count = |found: &Match| sizes.n_blocks_of(found.tensor.row);
        let is_beyond = |found: &Match| found.key.block.is_some_and(|block| block >= count(found));
        if self.mtp == Mtp::LeftOut && matches.iter().any(is_beyond) {
            return Assigned::Skipped(LEFT_OUT);
        }
        let is_shared = |found: &Match| match found.key.block {
            Some(block) => block >= n_main,
            None => SHARED.contains(&found.tensor.row.name),
        };
        if self.mtp == Mtp::Only && !matches.is_empty() && !matches.iter().any(is_shared) {
            return Assigned::Skipped("only the MTP blocks are asked for");
        }
        if self.checkpoint.drops_further_blocks && matches.iter().any(is_beyond) {
            return Assigned::Skipped("belongs to a block that the model does not have in llama.cpp");
        }
        match matches.is_empty() || matches.iter().any(is_beyond) {
            true => Assigned::Unmapped,
            false => Assigned::Rows(matches),
        }
    }
}

/// Adds a source to the output tensors of which it is a part.
fn add_part(slots: &mut BTreeMap<SlotKey, Slot>, matches: Vec<Match>, index: usize) -> Result<(), PlanError> {
    for found in matches {
        let slot = slots.entry(found.key).or_insert_with(|| Slot::new(&found));
        if slot.alternative != found.alternative || slot.parts.insert((found.part, found.number), index).is_some() {
            return Err(PlanError::Duplicate { name: found.key.output_name(&found.tensor) });
        }
    }
    Ok(())
}

/// The output tensors in file order: a tensor is written at the position of its last source, and all experts of a block are written together.
fn in_file_order(slots: &BTreeMap<SlotKey, Slot>) -> impl Iterator<Item = (&SlotKey, &Slot)> {
    let mut groups: HashMap<(Option<u64>, &str), usize> = HashMap::new();
    for (key, slot) in slots {
        if let Some(stack) = slot.stack {
            let last = groups.entry((key.block, stack.before)).or_default();
            *last = slot.last().max(*last);
        }
    }
    let mut order: Vec<(usize, &SlotKey, &Slot)> = Vec::with_capacity(slots.len());
    for (key, slot) in slots {
        let group = slot.stack.and_then(|stack| groups.get(&(key.block, stack.before)).copied());
        order.push((group.unwrap_or_else(|| slot.last()), key, slot));
    }
    order.compact_sort_by_key(|(last, key, _)| (*last, key.row, key.is_bias));
    order.into_iter().map(|(_, key, slot)| (key, slot))
}

/// The prefix of an audio encoder's keys of sizes.
const SOUND_SIZES: &str = "clip.audio";

/// The hyperparameters that dimensions of rows refer to.
struct Sizes<'g> {
    own: Hparams<'g>,
    /// The hyperparameters of the audio encoder, which may be in one file with an image encoder.
    sound: Hparams<'g>,
    /// The number of blocks of the model.
    n_blocks: u64,
    /// The number of blocks in the second run of an encoder of images or sound, if it has one.
    n_further: Option<u64>,
}

impl<'g> Sizes<'g> {
    /// The sizes in the planned keys `parameters`.
    fn new(parameters: &'g [(String, Value)], checkpoint: &Checkpoint, plan: &ModelPlan) -> Sizes<'g> {
        let keys: HashMap<&str, ValueRef<'g>> =
            parameters.iter().map(|(key, value)| (key.as_str(), value.as_ref())).collect();
        let of = |prefix: &str| Hparams::new(|pattern| keys.get(pattern.replace("{arch}", prefix).as_str()).copied());
        let prefix = if checkpoint.sizes.is_empty() { plan.architecture } else { checkpoint.sizes };
        let sound = if checkpoint.names.takes.is_empty() { prefix } else { SOUND_SIZES };
        let n_further = plan.fields.facts.get(Fact::FurtherBlocks).and_then(serde_json::Value::as_u64);
        Sizes { own: of(prefix), sound: of(sound), n_blocks: plan.fields.n_blocks, n_further }
    }

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
    for (before, list) in checkpoint.names.renumbered {
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

/// Why tensors of multi-token prediction blocks are left out.
const LEFT_OUT: &str = "belongs to an MTP block";

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
    for (pattern, condition) in checkpoint.names.skip {
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
                    checkpoint.names.layers.get(place).copied().unwrap_or_default().replace("{}", &block.to_string())
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
