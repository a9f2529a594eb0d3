//! Recipes: the tensor types of a model as a short list of rules, which can be applied to another one.
//!
//! A recipe is a file type with exceptions, or only rules that cover every tensor. As a file, it consists of words separated by white
//! space: first the optional name of the file type, then rules `REGEX=TYPE`, of which the first match is used. A `#` at the start of a word
//! begins a comment, up to the end of the line.
//!
//! ```text
//! Q4_K_M
//! ^blk\.([0-2]|29)\.ffn_down\.weight$=q6_K   # more bits for these
//! ```
//!
//! [`Recipe::of`] finds the rules: tensors that differ only in the number of their block are of one kind; kinds whose blocks have the same
//! types share a rule. The rules are verified with [`decide`](super::decide), with and without an importance matrix, so that the types do
//! not depend on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write;

use gguf_format::GgmlType;
use gguf_format::check::shown;
use gguf_format::keys::{FILE_TYPES, FileType};

use super::{
    Decision, Known, MixError, MixOptions, ModelFacts, Reason, Target, TensorFacts, TensorTypeError, TensorTypeRule,
    UnknownName, is_tensor_target,
};

/// The types of a model's tensors.
///
/// ```
/// use gguf_quantize::mix::recipe::Recipe;
///
/// let recipe = Recipe::parse("Q4_K_M\n attn_v=q6_K   # more bits for the values\n")?;
/// assert_eq!(recipe.rules.len(), 1);
/// assert_eq!(recipe.to_string(), "Q4_K_M\nattn_v=q6_K\n");
/// # Ok::<(), gguf_quantize::mix::recipe::RecipeError>(())
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recipe {
    /// The file type of tensors without a matching rule. Without one, the recipe works with any quantized file type.
    pub file_type: Option<FileType>,
    /// The first rule that matches a tensor takes precedence. Rules do not apply to tensors that are never quantized.
    pub rules: Vec<TensorTypeRule>,
}

/// Names of file types whose token embeddings and output matrix are Q8_0, and the file types of the other tensors. They are common among
/// publishers, who set the types of these tensors with two options of `llama-quantize`.
pub const LARGER: &[(&str, &str)] =
    &[("Q2_K_L", "Q2_K"), ("Q3_K_XL", "Q3_K_L"), ("Q4_K_L", "Q4_K_M"), ("Q5_K_L", "Q5_K_M"), ("Q6_K_L", "Q6_K")];

/// The rule of [`LARGER`]. Models without an output matrix use the embeddings for it.
const LARGER_RULE: &str = r"^(output|token_embd|per_layer_token_embd)\.weight$=q8_0";

/// The maximum number of verifications before every tensor gets a rule.
const MAX_ROUNDS: u32 = 16;

impl Recipe {
    /// Parses a recipe.
    ///
    /// # Errors
    /// The first word that is neither a rule nor, at the start, a file type; or rules with a plain float file type, where they would have
    /// no effect.
    pub fn parse(text: &str) -> Result<Recipe, RecipeError> {
        let mut recipe = Recipe::default();
        let words = (1..).zip(text.lines()).flat_map(|(number, line)| {
            let words = line.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
            words.map(move |word| (number, word))
        });
        for (i, (line, word)) in words.enumerate() {
            if i > 0 || word.contains('=') {
                let rule = TensorTypeRule::parse(word);
                recipe.rules.push(rule.map_err(|problem| RecipeError::Rule { line, problem })?);
                continue;
            }
            match Target::parse(word).map_err(RecipeError::FileType)? {
                Target::FileType(ty) => recipe.file_type = Some(ty),
                Target::Copy => return Err(RecipeError::Copy),
            }
        }
        match recipe.file_type {
            None if recipe.rules.is_empty() => Err(RecipeError::Empty),
            Some(ty) if !recipe.goes_with(ty) => Err(RecipeError::Float(ty)),
            _ => Ok(recipe),
        }
    }

    /// The recipe of a name in [`LARGER`], in any case, with the name.
    ///
    /// ```
    /// use gguf_quantize::mix::recipe::Recipe;
    ///
    /// let (name, recipe) = Recipe::larger("q4_k_l").unwrap();
    /// assert_eq!((name, recipe.rules.len()), ("Q4_K_L", 1));
    /// assert!(recipe.to_string().starts_with("Q4_K_M\n"));
    /// ```
    pub fn larger(name: &str) -> Option<(&'static str, Recipe)> {
        let (name, base) = LARGER.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some((name, Recipe::parse(&format!("{base} {LARGER_RULE}")).ok()?))
    }

    /// The error for a name that is neither a file type nor in [`LARGER`]: similar names of both, or all of them.
    ///
    /// ```
    /// use gguf_quantize::mix::recipe::Recipe;
    ///
    /// assert_eq!(Recipe::unknown("Q4KL").to_string(), "unknown file type `Q4KL`; did you mean Q4_K_L?");
    /// ```
    pub fn unknown(name: &str) -> UnknownName {
        UnknownName::new("file type", name, Target::names().chain(LARGER.iter().map(|(name, _)| *name)))
    }

    /// Whether its rules, if any, take effect with that file type.
    pub fn goes_with(&self, file_type: FileType) -> bool {
        self.rules.is_empty() || takes_rules(file_type)
    }

    /// The recipe of a model, whose tensors are given in [`processing_order`](super::processing_order) with their types: a file type and
    /// the exceptions. The file type is the one in the model's metadata, if rules take effect with it, otherwise the one with the fewest
    /// exceptions.
    ///
    /// # Errors
    /// If the type of a tensor is not a valid target, or its name cannot be distinguished from others.
    pub fn of(model: &ModelFacts, tensors: &[TensorFacts<'_>], says: Option<FileType>) -> Result<Recipe, RecipeError> {
        let wanted = Wanted::of(model, tensors)?;
        let n_wrong = |ty: FileType| {
            let n = wanted.wrong(ty, &[]).ok()?.len();
            (n == 0 || takes_rules(ty)).then_some(n)
        };
        let known = FILE_TYPES.iter().map(|row| FileType(row.id)).filter(|&ty| super::target::is_target(ty));
        let chosen = match says.filter(|&ty| super::target::is_target(ty) && n_wrong(ty).is_some()) {
            Some(ty) => Some(ty),
            None => known.filter_map(|ty| Some((n_wrong(ty)?, ty))).min_by_key(|(n, _)| *n).map(|(_, ty)| ty),
        };
        let Some(file_type) = chosen else { return Recipe::of_rules(model, tensors) };
        // A rule for one tensor can change the types of others, because blocks are counted; those get a rule too, until all are correct.
        let mut named = BTreeSet::new();
        for round in 0.. {
            if round == MAX_ROUNDS {
                named.extend(wanted.open.keys());
            }
            let rules = wanted.exceptions(&named)?;
            let wrong = wanted.wrong(file_type, &rules).map_err(RecipeError::Mix)?;
            let Some(first) = wrong.first() else { return Ok(Recipe { file_type: Some(file_type), rules }) };
            if wrong.is_subset(&named) {
                return Err(wanted.alike(*first));
            }
            named.extend(wrong);
        }
        Recipe::of_rules(model, tensors)
    }

    /// The recipe of a model as rules only, which cover every tensor that can be quantized: a file for `llama-quantize` with any quantized
    /// file type.
    ///
    /// # Errors
    /// As for [`Recipe::of`].
    pub fn of_rules(model: &ModelFacts, tensors: &[TensorFacts<'_>]) -> Result<Recipe, RecipeError> {
        let wanted = Wanted::of(model, tensors)?;
        let rules = wanted.all()?;
        match wanted.wrong(FileType(7), &rules).map_err(RecipeError::Mix)?.first() {
            Some(&i) => Err(wanted.alike(i)),
            None => Ok(Recipe { file_type: None, rules }),
        }
    }
}

impl fmt::Display for Recipe {
    /// The format of [`Recipe::parse`], one word per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ty) = self.file_type {
            writeln!(f, "{ty}")?;
        }
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

/// The indexes of the rules that no tensor used.
pub fn idle_rules(n_rules: usize, decisions: &[Decision]) -> Vec<usize> {
    let used: BTreeSet<usize> = decisions
        .iter()
        .filter_map(|decision| match decision.why {
            Reason::TensorType(i) => Some(i),
            _ => None,
        })
        .collect();
    (0..n_rules).filter(|i| !used.contains(i)).collect()
}

/// Whether rules take effect with that file type.
fn takes_rules(ty: FileType) -> bool {
    ty.info().is_some_and(|row| row.tensor_type.is_quantized())
}

/// An error in a recipe, or in the model from which to derive one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecipeError {
    /// The recipe is empty.
    Empty,
    /// The first word is neither a rule nor a file type.
    FileType(UnknownName),
    /// A word that is not a rule.
    Rule {
        /// The line, from 1.
        line: usize,
        /// The error.
        problem: TensorTypeError,
    },
    /// `COPY`, which is not allowed in a recipe.
    Copy,
    /// Rules with a plain float file type.
    Float(FileType),
    /// The type of a tensor is not a valid target.
    Type {
        /// The tensor.
        tensor: String,
        /// Its type.
        ty: GgmlType,
    },
    /// No rule can match this tensor alone.
    Alike {
        /// The tensor.
        tensor: String,
    },
    /// The mixtures do not apply to the model.
    Mix(MixError),
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecipeError::Empty => f.write_str("it is empty; expected a file type or REGEX=TYPE"),
            RecipeError::FileType(e) => write!(f, "expected a file type or a rule such as ffn_down=q6_K: {e}"),
            RecipeError::Rule { line, problem } => write!(f, "line {line}: {problem}"),
            RecipeError::Copy => f.write_str("COPY keeps every type; start with another file type"),
            RecipeError::Float(ty) => write!(
                f,
                "rules have no effect with the file type {ty}, as in llama.cpp; start with a quantized type, such as \
                 Q8_0, and end with the rule `.={}`",
                ty.info().map_or("f16", |row| row.tensor_type.info().map_or("f16", |info| info.name)),
            ),
            RecipeError::Type { tensor, ty } => {
                write!(f, "the tensor {tensor} is {ty}, which cannot be quantized to")
            }
            RecipeError::Alike { tensor } => {
                write!(
                    f,
                    "the tensor {tensor} cannot be distinguished from others: rules ignore case and special characters"
                )
            }
            RecipeError::Mix(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for RecipeError {}

/// The types that a recipe should produce.
struct Wanted<'a> {
    model: &'a ModelFacts,
    tensors: &'a [TensorFacts<'a>],
    known: Known,
    /// The tensors that can be quantized, with the properties derived from their names.
    open: BTreeMap<usize, Name<'a>>,
}

/// A tensor's name: `blk.3.attn_v.weight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a> {
    kind: TensorGroup<'a>,
    /// `3`; `None` if there is no `blk.`, and the whole name is in `after`.
    block: Option<u64>,
}

/// All tensors that differ only in the number of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TensorGroup<'a> {
    /// The prefix before `blk.`, usually empty.
    before: &'a [u8],
    in_block: bool,
    /// `attn_v.weight`
    after: &'a [u8],
}

impl<'a> Name<'a> {
    fn of(name: &'a [u8]) -> Name<'a> {
        const BLK: &[u8] = b"blk.";
        let whole = Name { kind: TensorGroup { before: b"", in_block: false, after: name }, block: None };
        let Some(at) = name.windows(BLK.len()).position(|w| w == BLK) else { return whole };
        let (before, rest) = name.split_at(at);
        let rest = rest.get(BLK.len()..).unwrap_or_default();
        let n_digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, after) = rest.split_at(n_digits);
        let number = core::str::from_utf8(digits).ok().and_then(|text| text.parse::<u64>().ok());
        match (number, after.strip_prefix(b".")) {
            // A rule contains the number without leading zeros.
            (Some(n), Some(after)) if digits.first() != Some(&b'0') || n_digits == 1 => {
                Name { kind: TensorGroup { before, in_block: true, after }, block: Some(n) }
            }
            _ => whole,
        }
    }
}

/// The blocks of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Blocks {
    These(BTreeSet<u64>),
    /// All blocks, including those of larger models; or the tensor is in none.
    All,
}

/// A future rule: kinds with the same blocks and type.
struct Group<'a> {
    blocks: Blocks,
    ty: GgmlType,
    before: &'a [u8],
    in_block: bool,
    /// The part after the block, for each kind.
    after: Vec<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    fn of(model: &'a ModelFacts, tensors: &'a [TensorFacts<'a>]) -> Result<Wanted<'a>, RecipeError> {
        let can_be =
            |t: &TensorFacts<'_>| super::keep::keep(&model.architecture, t.name.as_bytes(), t.shape, false).is_none();
        let open: BTreeMap<usize, Name<'a>> = tensors
            .iter()
            .enumerate()
            .filter(|(_, t)| can_be(t))
            .map(|(i, t)| (i, Name::of(t.name.as_bytes())))
            .collect();
        let other = open.keys().filter_map(|&i| tensors.get(i)).find(|t| !is_tensor_target(t.ty));
        match other {
            Some(t) => Err(RecipeError::Type { tensor: shown(t.name), ty: t.ty }),
            None => {
                let known = Known::of(model, tensors.iter().copied(), false).map_err(RecipeError::Mix)?;
                Ok(Wanted { model, tensors, known, open })
            }
        }
    }

    fn ty(&self, i: usize) -> GgmlType {
        self.tensors.get(i).map_or(GgmlType::F32, |t| t.ty)
    }

    fn alike(&self, i: usize) -> RecipeError {
        RecipeError::Alike { tensor: self.tensors.get(i).map_or(String::new(), |t| shown(t.name)) }
    }

    /// The tensors that would get another type, with or without an importance matrix.
    fn wrong(&self, file_type: FileType, rules: &[TensorTypeRule]) -> Result<BTreeSet<usize>, MixError> {
        let mut wrong = BTreeSet::new();
        let found = self.known.find_rules(self.tensors.iter().copied(), rules)?;
        let mut options = MixOptions { tensor_types: rules.to_vec(), ..MixOptions::default() };
        for has_imatrix in [false, true] {
            options.has_imatrix = has_imatrix;
            let tensors = self.tensors.iter().copied();
            let decisions = self.known.decide(self.model, tensors, file_type, &options, &found)?;
            let differs =
                decisions.iter().zip(self.tensors).enumerate().filter(|(_, (decision, t))| decision.ty != t.ty);
            wrong.extend(differs.map(|(i, _)| i));
        }
        Ok(wrong)
    }

    /// Tensors by kind, in the order of the model.
    fn kinds(&self) -> Vec<(TensorGroup<'a>, Vec<(u64, usize)>)> {
        let mut places: BTreeMap<TensorGroup<'a>, usize> = BTreeMap::new();
        let mut kinds: Vec<(TensorGroup<'a>, Vec<(u64, usize)>)> = Vec::new();
        for (&i, name) in &self.open {
            let place = *places.entry(name.kind).or_insert_with(|| {
                kinds.push((name.kind, Vec::new()));
                kinds.len() - 1
            });
            if let Some((_, members)) = kinds.get_mut(place) {
                members.push((name.block.unwrap_or(0), i));
            }
        }
        kinds
    }

    /// Rules for these tensors. A kind with the same type in all blocks gets one rule.
    fn exceptions(&self, named: &BTreeSet<usize>) -> Result<Vec<TensorTypeRule>, RecipeError> {
        let mut groups = Groups::default();
        for (kind, members) in self.kinds() {
            let types: BTreeSet<GgmlType> = members.iter().map(|&(_, i)| self.ty(i)).collect();
            for &ty in &types {
                let these = members.iter().filter(|&&(_, i)| self.ty(i) == ty && named.contains(&i));
                let these: BTreeSet<u64> = these.map(|&(block, _)| block).collect();
                if !these.is_empty() {
                    let blocks = if types.len() == 1 { Blocks::All } else { Blocks::These(these) };
                    groups.add(blocks, ty, kind);
                }
            }
        }
        groups.rules()
    }

    /// Rules for all tensors: the exceptional blocks of each kind, then the kinds, then one for everything else.
    fn all(&self) -> Result<Vec<TensorTypeRule>, RecipeError> {
        let kinds = self.kinds();
        let mut usual = Vec::new();
        let mut first = Groups::default();
        for (kind, members) in &kinds {
            let types: Vec<GgmlType> = members.iter().map(|&(_, i)| self.ty(i)).collect();
            let most = most_frequent(&types);
            for ty in types.iter().copied().filter(|&ty| ty != most).collect::<BTreeSet<_>>() {
                let these = members.iter().filter(|&&(_, i)| self.ty(i) == ty).map(|&(block, _)| block);
                first.add(Blocks::These(these.collect()), ty, *kind);
            }
            usual.push(most);
        }
        let rest = most_frequent(&usual);
        let mut groups = Groups::default();
        for ((kind, _), &ty) in kinds.iter().zip(&usual).filter(|(_, ty)| **ty != rest) {
            groups.add(Blocks::All, ty, *kind);
        }
        let mut rules = first.rules()?;
        rules.extend(groups.rules()?);
        if !usual.is_empty() {
            rules.push(parse(&format!("weight$={rest}"))?);
        }
        Ok(rules)
    }
}

/// The most frequent type, the first of equally frequent ones.
fn most_frequent(types: &[GgmlType]) -> GgmlType {
    let mut counts: BTreeMap<GgmlType, usize> = BTreeMap::new();
    types.iter().for_each(|&ty| *counts.entry(ty).or_insert(0) += 1);
    let count = |ty: GgmlType| counts.get(&ty).copied().unwrap_or(0);
    let first = |best: GgmlType, &ty: &GgmlType| if count(ty) > count(best) { ty } else { best };
    types.iter().fold(types.first().copied().unwrap_or(GgmlType::F32), first)
}

/// Future rules, in order.
#[derive(Default)]
struct Groups<'a> {
    groups: Vec<Group<'a>>,
    places: BTreeMap<(Blocks, GgmlType, &'a [u8], bool), usize>,
}

impl<'a> Groups<'a> {
    /// Adds a kind to a matching group, or to a new one.
    fn add(&mut self, blocks: Blocks, ty: GgmlType, kind: TensorGroup<'a>) {
        let TensorGroup { before, in_block, after } = kind;
        let place = self.places.entry((blocks.clone(), ty, before, in_block));
        let place = *place.or_insert_with(|| {
            self.groups.push(Group { blocks, ty, before, in_block, after: Vec::new() });
            self.groups.len() - 1
        });
        if let Some(group) = self.groups.get_mut(place) {
            group.after.push(after);
        }
    }

    fn rules(&self) -> Result<Vec<TensorTypeRule>, RecipeError> {
        let mut rules = Vec::new();
        self.groups.iter().try_for_each(|group| group.rules(&mut rules))?;
        Ok(rules)
    }
}

fn parse(text: &str) -> Result<TensorTypeRule, RecipeError> {
    TensorTypeRule::parse(text).map_err(|problem| RecipeError::Rule { line: 1, problem })
}

impl<'a> Group<'a> {
    /// The rule, or several if one would exceed the maximum length of a pattern.
    fn rules(&self, to: &mut Vec<TensorTypeRule>) -> Result<(), RecipeError> {
        let error = match self.rule() {
            Ok(rule) => {
                to.push(rule);
                return Ok(());
            }
            Err(error) => error,
        };
        let is_too_long = |e: &RecipeError| match e {
            RecipeError::Rule { problem: TensorTypeError::Pattern(e), .. } => e.is_too_long(),
            _ => false,
        };
        match self.halves().filter(|_| is_too_long(&error)) {
            Some(halves) => halves.iter().try_for_each(|half| half.rules(to)),
            None => Err(error),
        }
    }

    /// Splits the group in two; `None` for one kind in one block, or in all.
    fn halves(&self) -> Option<[Group<'a>; 2]> {
        let Group { ty, before, in_block, .. } = *self;
        let group = |blocks, after: &[&'a [u8]]| Group { blocks, ty, before, in_block, after: after.to_vec() };
        if let (first, second @ [_, ..]) = self.after.split_at(self.after.len().div_ceil(2)) {
            return Some([first, second].map(|after| group(self.blocks.clone(), after)));
        }
        let Blocks::These(numbers) = &self.blocks else { return None };
        let middle = *numbers.iter().nth(numbers.len() / 2).filter(|_| numbers.len() > 1)?;
        let (first, second) = numbers.iter().partition(|&&n| n < middle);
        Some([first, second].map(|numbers| group(Blocks::These(numbers), &self.after)))
    }

    /// `^blk\.([0-2]|29)\.(attn_v|ffn_down)\.weight$=q6_K`
    fn rule(&self) -> Result<TensorTypeRule, RecipeError> {
        const WEIGHT: &[u8] = b".weight";
        let mut text = format!("^{}", literal(self.before));
        if self.in_block {
            let numbers = match &self.blocks {
                Blocks::All => "\\d+".to_owned(),
                Blocks::These(numbers) => alternatives(numbers),
            };
            let _ = write!(text, "blk\\.{numbers}\\.");
        }
        let stems: Option<Vec<&[u8]>> = self.after.iter().map(|after| after.strip_suffix(WEIGHT)).collect();
        let (names, end) = match stems {
            Some(stems) => (stems, literal(WEIGHT)),
            None => (self.after.clone(), String::new()),
        };
        let names: Vec<String> = names.into_iter().map(literal).collect();
        text += &one_of(&names);
        parse(&format!("{text}{end}$={}", self.ty))
    }
}

/// A pattern that matches any of the patterns.
fn one_of(patterns: &[String]) -> String {
    match patterns {
        [one] => one.clone(),
        patterns => format!("({})", patterns.join("|")),
    }
}

/// A pattern for that text. Characters that a rule cannot contain, or match literally, match any character.
fn literal(text: &[u8]) -> String {
    let mut pattern = String::new();
    for &byte in text {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'/' | b':' => pattern.push(char::from(byte)),
            b'.' | b'^' | b'$' | b'\\' | b'|' | b'?' | b'*' | b'+' | b'(' | b')' | b'[' | b']' | b'{' | b'}' => {
                pattern.push('\\');
                pattern.push(char::from(byte));
            }
            _ => pattern.push('.'),
        }
    }
    pattern
}

/// A pattern for those numbers, grouped by tens: `([0-2]|1\d|29)`.
fn alternatives(numbers: &BTreeSet<u64>) -> String {
    let mut tens: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for n in numbers {
        tens.entry(n / 10).or_default().push(n % 10);
    }
    let pieces: Vec<String> = tens
        .iter()
        .map(|(&ten, digits)| {
            let before = if ten == 0 { String::new() } else { ten.to_string() };
            before + &digit_set(digits)
        })
        .collect();
    one_of(&pieces)
}

/// A pattern for one of those digits, in ascending order: `3`, `[0-2]`, `[15-9]`, `\d`.
fn digit_set(digits: &[u64]) -> String {
    match digits {
        [one] => return one.to_string(),
        all if all.len() == 10 => return "\\d".to_owned(),
        _ => {}
    }
    let mut set = String::from("[");
    for run in digits.chunk_by(|a, b| a + 1 == *b) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let _ = match run.len() {
            1 => write!(set, "{first}"),
            2 => write!(set, "{first}{last}"),
            _ => write!(set, "{first}-{last}"),
        };
    }
    set + "]"
}
