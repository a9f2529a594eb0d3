//! The rows of an architecture, and the tensors of a checkpoint that they match.

use gguf_model::arch::{Architecture, Checkpoint, Stack, Tensor};

use super::names;

/// The names in a source that are concatenated or multiplied, or the operands of a function.
pub(crate) fn operands(source: &'static str) -> impl Iterator<Item = &'static str> {
    source.split(" + ").flat_map(|source| source.split(PRODUCT)).flat_map(|source| source.split(", "))
}

/// The placeholder of a number that a tensor's name has in the checkpoint and in the output.
pub(crate) const KEPT: &str = "n";

/// The separator of multiplied tensor names.
pub(crate) const PRODUCT: &str = " * ";

/// A source tensor name, split at the number of an expert, a head or a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    pub(crate) before: &'static str,
    /// The placeholder's unit and the text after it.
    pub(crate) stack: Option<(&'static str, &'static str)>,
    /// Whether the numbers denote parts that are concatenated instead of stacked.
    pub(crate) joins: bool,
}

impl Template {
    pub(crate) fn new(text: &'static str) -> Template {
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
    pub(super) fn matches<'n>(&self, name: &'n str) -> Option<(u64, &'n str)> {
        let rest = name.strip_prefix(self.before)?;
        let Some((_, after)) = self.stack else { return Some((0, rest)) };
        let (number, rest) = names::number(rest)?;
        Some((number, rest.strip_prefix(after)?))
    }
}

/// A row with parsed source names: alternatives of parts.
struct ParsedRow {
    pub(super) tensor: Tensor,
    is_outside: bool,
    alternatives: Vec<Vec<Template>>,
}

/// The rows of an architecture that are used for conversion.
pub(super) struct Rows {
    rows: Vec<ParsedRow>,
    layers: &'static [&'static str],
    /// The position in `layers` of the blocks of sound, if there are any.
    pub(super) place_of_sound: Option<usize>,
}

/// A row that matches a tensor.
pub(super) struct Match {
    pub(super) key: SlotKey,
    pub(super) tensor: Tensor,
    pub(super) alternative: usize,
    pub(super) n_parts: usize,
    pub(super) part: usize,
    pub(super) number: u64,
    pub(super) stack: Option<Template>,
}

impl Rows {
    pub(super) fn new(architecture: &'static Architecture, checkpoint: &'static Checkpoint) -> Rows {
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
        let last = checkpoint.names.layers.len().saturating_sub(1);
        let place_of_sound = has(Stack::Audio).then_some(if has(Stack::Vision) { last } else { 0 });
        Rows { rows: rows.filter(is_made).collect(), layers: checkpoint.names.layers, place_of_sound }
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
    pub(super) fn block_of(&self, name: &str) -> Option<u64> {
        self.in_block(name).map(|(_, block, _)| block)
    }

    /// All rows that a tensor matches; several if it is split.
    pub(super) fn matches(&self, name: &str) -> Vec<Match> {
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
pub(super) struct SlotKey {
    pub(super) row: usize,
    pub(super) block: Option<u64>,
    kept: Option<u64>,
    pub(super) is_bias: bool,
}

impl SlotKey {
    pub(super) fn output_name(&self, tensor: &Tensor) -> String {
        let name = tensor.name_in(self.block);
        match self.kept {
            Some(number) => name.replace("{n}", &number.to_string()),
            None => name,
        }
    }
}
