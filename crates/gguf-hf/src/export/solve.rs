//! Formulas backwards: the fields of a configuration from the value of a formula.
//!
//! A formula has the value that a key has in the file. [`edits`] lists changes of single fields that may give it that value, the likeliest
//! first: it descends into the formula and inverts one operation after the other, and tries common values where that fails. The caller
//! applies a change and evaluates the formula again, so a wrong guess does no harm.

use gguf_model::formula::Function;
use serde_json::{Map, Value as Json, json};

use crate::formula::{Fields, Formula, Op, is_true};
use crate::number::to_f32;

/// A change of a field: its path, such as `rope.factor`, and its new value.
pub(super) type Edit = (String, Json);

/// Common kinds of layers and of other enumerations, besides the words of a formula.
const WORDS: &[&str] = &[
    "full_attention",
    "sliding_attention",
    "linear_attention",
    "chunked_attention",
    "attention",
    "conv",
    "mamba",
    "sparse",
    "dense",
    "sigmoid",
    "softmax",
];

/// The largest number that is tried without a reason.
const MAX_TRIED: i64 = 16;

/// The number of shares of a distribution that are tried.
const MAX_SHARE: u32 = 1000;

/// The relative error of a root of a number in single precision.
const NEAR: f64 = 1e-6;

/// The most blocks for which a list with an element for each is made.
const MAX_BLOCKS: u64 = 4096;

/// The longest list of which only the length is known.
const MAX_LIST: u64 = 64;

/// The number of factors in a list of them.
const N_FACTORS: usize = 5;

/// Follows the path of a list of which one element is meant.
const ELEMENT: &str = "[]";

/// The fields and the formulas that set some of them.
pub(super) struct Solver<'a> {
    pub(super) fields: &'a Fields,
    /// The fields that rows of the table set, with their formulas.
    pub(super) set: &'a [(&'static str, Formula)],
    /// The fields that the class of transformers has.
    pub(super) known: &'a Map<String, Json>,
}

impl Solver<'_> {
    /// Changes after which the formula may have the value `target`; `null` if it is to have none. Values are tried only if no inverted operation
    /// is taken, because that takes far longer.
    pub(super) fn edits<'e>(&'e self, formula: &'e Formula, target: &'e Json) -> impl Iterator<Item = Edit> + 'e {
        let tried = move || {
            let mut found = Vec::new();
            self.try_values(formula, target, &mut found);
            found
        };
        self.inverted(formula, target).into_iter().chain(std::iter::once_with(tried).flatten())
    }

    /// The changes that follow from the formula.
    pub(super) fn inverted(&self, formula: &Formula, target: &Json) -> Vec<Edit> {
        let mut found = Vec::new();
        self.descend(formula, target, &mut Vec::new(), &mut found);
        found
    }

    /// Changes after which a formula may have a value that has none, because a field is missing or has no known value.
    /// `usual` gives names their values in other formulas.
    pub(super) fn completions(&self, formula: &Formula, usual: &[(String, Json)]) -> Vec<Vec<Edit>> {
        let (mut found, mut words, mut tables): (Vec<Edit>, _, _) = (Vec::new(), Vec::new(), Vec::new());
        let mut of_tables = Vec::new();
        tables_of(formula, &mut tables);
        for (operand, names) in tables {
            of_tables.extend(names.first().and_then(|name| self.inverted(operand, &json!(name)).into_iter().next()));
            for name in names {
                self.descend(operand, &json!(name), &mut Vec::new(), &mut found);
            }
        }
        constants(formula, &mut words);
        // Factors that are not known of are in the tensors already.
        let tried = [json!(1.0), json!(vec![1.0; N_FACTORS]), json!(true)].into_iter().chain(words);
        let tried: Vec<Json> = tried.chain([1, 0].map(|n| json!(n))).chain([json!([])]).collect();
        let is_missing = |name: &String| !name.starts_with('@') && !self.fields.fields.contains_key(name);
        let missing: Vec<String> = formula.names().into_iter().filter(is_missing).collect();
        for name in &missing {
            found.extend(tried.iter().map(|value| (name.clone(), value.clone())));
        }
        let mut indexed = Vec::new();
        lists_of(formula, &mut indexed);
        let usual_of = |name: &String| match usual.iter().find(|(known, _)| known == name) {
            Some((_, value)) => value.clone(),
            None if indexed.contains(name) => json!(vec![1.0; N_FACTORS]),
            None => json!(1),
        };
        let all: Vec<Edit> = missing.iter().map(|name| (name.clone(), usual_of(name))).collect();
        found.into_iter().map(|edit| vec![edit]).chain([of_tables, all]).collect()
    }

    fn value(&self, formula: &Formula) -> Json {
        match self.fields.eval(formula) {
            Ok(Some(value)) => value.into_owned(),
            _ => Json::Null,
        }
    }

    fn has(&self, formula: &Formula) -> bool {
        matches!(self.fields.eval(formula), Ok(Some(_)))
    }

    fn descend<'f>(&'f self, formula: &'f Formula, target: &Json, open: &mut Vec<usize>, found: &mut Vec<Edit>) {
        match formula {
            // A formula reads the names as the rows before its own have set them.
            Formula::Name(name) => {
                let before = self.set.get(..open.last().copied().unwrap_or(self.set.len())).unwrap_or_default();
                match before.iter().rposition(|(set, _)| set == name) {
                    Some(place) => {
                        open.push(place);
                        if let Some((_, inner)) = before.get(place) {
                            self.descend(inner, target, open, found);
                        }
                        open.pop();
                    }
                    None => found.push((name.clone(), target.clone())),
                }
            }
            Formula::Member(object, name) => {
                if let Some(path) = self.path_of(object) {
                    found.push((format!("{path}.{name}"), target.clone()));
                }
            }
            Formula::Index(object, name) => match (self.path_of(object), name.as_ref()) {
                (_, Formula::Constant(Json::Number(_))) => {
                    let n = usize::try_from(self.fields.n_blocks.min(MAX_BLOCKS)).unwrap_or(0);
                    self.descend(object, &Json::Array(vec![target.clone(); n]), open, found);
                }
                (Some(path), Formula::Constant(Json::String(name))) => {
                    found.push((format!("{path}.{name}"), target.clone()));
                }
                (Some(path), Formula::Name(_)) => found.push((format!("{path}{ELEMENT}"), target.clone())),
                _ => {}
            },
            Formula::Present(options) => {
                let is_known =
                    |option: &&Formula| matches!(option, Formula::Name(name) if self.known.contains_key(name));
                let (present, absent): (Vec<_>, Vec<_>) = options.iter().partition(|option| self.has(option));
                let (known, unknown): (Vec<_>, Vec<_>) = absent.into_iter().partition(is_known);
                for option in present.into_iter().chain(known).chain(unknown) {
                    self.descend(option, target, open, found);
                }
            }
            Formula::Binary(op, a, b) => self.descend_binary(*op, (a, b), target, open, found),
            Formula::Not(a) => self.descend(a, &Json::Bool(!is_true(Some(target))), open, found),
            Formula::Negative(a) => {
                if let Some(number) = target.as_f64() {
                    self.descend(a, &number_like(target, -number), open, found);
                }
            }
            Formula::If(parts) => {
                let [then, condition, other] = parts.as_ref();
                let holds = is_true(Some(&self.value(condition)));
                let (taken, left) = if holds { (then, other) } else { (other, then) };
                // A branch that has the value, or may have it, is the reason to change the condition.
                let flips = self.value(left) == *target;
                if flips {
                    self.descend(condition, &Json::Bool(!holds), open, found);
                }
                self.descend(taken, target, open, found);
                if !flips {
                    self.descend(condition, &Json::Bool(!holds), open, found);
                    self.descend(left, target, open, found);
                }
            }
            Formula::Call(function, operands) => self.descend_call(*function, operands, target, open, found),
            Formula::Each(element, name, list) => {
                if let Json::Array(wanted) = target {
                    self.descend_each(element, (name, list.as_deref()), wanted, open, found);
                }
            }
            _ => {}
        }
    }

    fn descend_each<'f>(
        &'f self,
        element: &'f Formula,
        (name, list): (&'f str, Option<&'f Formula>),
        wanted: &[Json],
        open: &mut Vec<usize>,
        found: &mut Vec<Edit>,
    ) {
        // The elements that are not those of the other branch have one value.
        if let Formula::If(parts) = element {
            let [then, condition, other] = parts.as_ref();
            self.descend_members((then, condition), (name, list), wanted, open, found);
            // Where it is known for which elements the condition holds, these have the value of the branch.
            let own = list.cloned().map(Box::new);
            let flags = self.value(&Formula::Each(Box::new(condition.clone()), name.to_owned(), own));
            if let Some(flags) = flags.as_array().filter(|flags| flags.len() == wanted.len()) {
                for (branch, holds) in [(then, true), (other, false)] {
                    let place = flags.iter().position(|flag| is_true(Some(flag)) == holds);
                    if let Some(value) = place.and_then(|place| wanted.get(place)) {
                        self.descend(branch, value, open, found);
                    }
                }
            }
            for (branch, other) in [(then, other), (other, then)] {
                let other = self.value(other);
                if let Some(value) = wanted.iter().find(|value| **value != other) {
                    self.descend(branch, value, open, found);
                }
            }
            if let Some(list) = list {
                self.descend_conditions((then, condition, other), (name, list), wanted, open, found);
            }
            return;
        }
        // Words for elements that are not those of a comparison.
        let mut words = Vec::new();
        list.iter().for_each(|list| constants(list, &mut words));
        words.retain(Json::is_string);
        words.extend(["full_attention", "sliding_attention"].map(|word| json!(word)));
        // Each element is made of one of another list.
        let (mut elements, mut path): (Vec<Json>, Option<String>) = Default::default();
        for value in wanted {
            let mut edits = Vec::new();
            self.descend(element, value, open, &mut edits);
            let is_element = |(path, _): &Edit| path == name || path.ends_with(ELEMENT);
            if let Some((of, value)) = edits.into_iter().find(is_element) {
                elements.push(value);
                path = Some(of);
            }
        }
        let other = words.into_iter().find(|word| !elements.contains(word));
        for element in elements.iter_mut().filter(|element| element.is_null()) {
            *element = other.clone().unwrap_or_default();
        }
        if let (Some(path), true) = (path, elements.len() == wanted.len()) {
            match (list, path.strip_suffix(ELEMENT)) {
                (_, Some(path)) => found.push((path.to_owned(), Json::Array(elements))),
                (Some(list), None) => self.descend(list, &Json::Array(elements), open, found),
                (None, None) => {}
            }
        } else if let [first, rest @ ..] = wanted
            && rest.iter().all(|value| value == first)
        {
            self.descend(element, first, open, found);
        }
    }

    /// The list for whose elements a condition holds or not, as the elements that it chooses show.
    fn descend_conditions<'f>(
        &'f self,
        (then, condition, other): (&Formula, &Formula, &Formula),
        (name, list): (&str, &'f Formula),
        wanted: &[Json],
        open: &mut Vec<usize>,
        found: &mut Vec<Edit>,
    ) {
        let mut words = Vec::new();
        constants(condition, &mut words);
        words.extend(WORDS.iter().map(|word| json!(word)));
        let holds = |word: &Json| {
            let list = Formula::List(vec![Formula::Constant(word.clone())]);
            let flags = Formula::Each(Box::new(condition.clone()), name.to_owned(), Some(Box::new(list)));
            self.value(&flags).get(0).is_some_and(|flag| is_true(Some(flag)))
        };
        let (with, without): (Vec<Json>, Vec<Json>) = words.into_iter().partition(holds);
        let (Some(with), Some(without)) = (with.first(), without.first()) else { return };
        for (branch, is_then) in [(other, false), (then, true)] {
            let value = self.value(branch);
            if wanted.contains(&value) {
                let element =
                    |wanted: &Json| if (*wanted == value) == is_then { with.clone() } else { without.clone() };
                self.descend(list, &wanted.iter().map(element).collect(), open, found);
            }
        }
    }

    /// The list of the numbers that `i in list` holds for, from the elements for which it does.
    fn descend_members<'f>(
        &'f self,
        (then, condition): (&Formula, &'f Formula),
        (name, list): (&str, Option<&Formula>),
        wanted: &[Json],
        open: &mut Vec<usize>,
        found: &mut Vec<Edit>,
    ) {
        let (Formula::Binary(Op::In, number, members), None) = (condition, list) else { return };
        let first = match number.as_ref() {
            Formula::Name(variable) if variable == name => 0,
            Formula::Binary(Op::Add, variable, more) if **variable == Formula::Name(name.to_owned()) => {
                self.value(more).as_u64().unwrap_or(0)
            }
            _ => return,
        };
        let then = self.value(then);
        let numbers = (first..).zip(wanted).filter(|(_, value)| **value == then).map(|(number, _)| json!(number));
        let numbers: Vec<Json> = numbers.collect();
        self.descend(members, &Json::Array(numbers), open, found);
    }

    fn descend_binary<'f>(
        &'f self,
        op: Op,
        (a, b): (&'f Formula, &'f Formula),
        target: &Json,
        open: &mut Vec<usize>,
        found: &mut Vec<Edit>,
    ) {
        match op {
            Op::Or | Op::Else => {
                self.descend(a, target, open, found);
                self.descend(b, target, open, found);
            }
            Op::And => {
                for part in [a, b] {
                    if is_true(Some(&self.value(part))) != is_true(Some(target)) {
                        self.descend(part, target, open, found);
                    }
                }
            }
            Op::Equal | Op::Unequal => {
                let equal = is_true(Some(target)) == (op == Op::Equal);
                for (part, other) in [(a, b), (b, a)] {
                    let value = self.value(other);
                    match (equal, &value) {
                        (true, _) => self.descend(part, &value, open, found),
                        (false, Json::Bool(flag)) => self.descend(part, &Json::Bool(!flag), open, found),
                        (false, Json::Null) => {}
                        (false, _) => self.descend(part, &Json::Null, open, found),
                    }
                }
            }
            Op::In if is_true(Some(target)) => {
                if let Json::Array(list) = self.value(b)
                    && let Some(last) = list.last()
                {
                    self.descend(a, last, open, found);
                }
            }
            Op::Power => {
                if let (Some(t), Some(exponent)) = (target.as_f64(), self.value(b).as_f64().filter(|x| *x != 0.0)) {
                    let base = t.powf(exponent.recip());
                    // A root of a single-precision number.
                    let whole = base.round();
                    let base = if (base - whole).abs() < whole * NEAR { json_number(whole) } else { json!(base) };
                    self.descend(a, &base, open, found);
                }
            }
            Op::Add if target.is_string() => {
                let text = target.as_str().unwrap_or_default();
                if let Some(start) = self.value(b).as_str().and_then(|end| text.strip_suffix(end)) {
                    self.descend(a, &json!(start), open, found);
                }
                if let Some(end) = self.value(a).as_str().and_then(|start| text.strip_prefix(start)) {
                    self.descend(b, &json!(end), open, found);
                }
            }
            Op::Add if target.is_array() => {
                let Json::Array(wanted) = target else { return };
                if let Json::Array(end) = self.value(b)
                    && let Some(start) = wanted.strip_suffix(end.as_slice())
                {
                    self.descend(a, &Json::Array(start.to_vec()), open, found);
                }
                if let Json::Array(start) = self.value(a)
                    && let Some(end) = wanted.strip_prefix(start.as_slice())
                {
                    self.descend(b, &Json::Array(end.to_vec()), open, found);
                }
            }
            Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::DivideDown => {
                let Some(t) = target.as_f64() else { return };
                for (part, other, is_first) in [(a, b, true), (b, a, false)] {
                    let Some(y) = self.value(other).as_f64() else { continue };
                    let x = match (op, is_first) {
                        (Op::Add, _) => t - y,
                        (Op::Subtract, true) => t + y,
                        (Op::Subtract, false) => y - t,
                        (Op::Multiply, _) => t / y,
                        (_, true) => t * y,
                        (_, false) => y / t,
                    };
                    let is_constant = matches!(part, Formula::Constant(_));
                    if x.is_finite() && !is_constant {
                        self.descend(part, &number_like(target, x), open, found);
                    }
                }
            }
            _ => {}
        }
    }

    fn descend_call<'f>(
        &'f self,
        function: Function,
        operands: &'f [Formula],
        target: &Json,
        open: &mut Vec<usize>,
        found: &mut Vec<Edit>,
    ) {
        let Some(first) = operands.first() else { return };
        match (function, operands.get(1)) {
            (Function::OneOf, Some(Formula::Object(entries))) => {
                let names = entries.iter().filter(|(_, value)| self.value(value) == *target);
                for (name, _) in names {
                    self.descend(first, &json!(name), open, found);
                }
            }
            (Function::Pad, _) => {
                if let (Json::Array(list), Some(fill)) = (target, operands.get(2)) {
                    let fill = self.value(fill);
                    let n = list.iter().rposition(|x| *x != fill).map_or(0, |last| last + 1);
                    self.descend(first, &Json::Array(list.iter().take(n).cloned().collect()), open, found);
                }
            }
            (Function::Str, _) => {
                let text = target.as_str().unwrap_or_default();
                let parsed =
                    serde_json::from_str::<Json>(text).ok().filter(|value| value.is_boolean() || value.is_number());
                self.descend(first, &parsed.unwrap_or_else(|| target.clone()), open, found);
            }
            (Function::Len, _) => {
                if let Some(n) = target.as_u64().filter(|n| *n <= MAX_LIST) {
                    self.descend(first, &(0..n).map(|i| json!(i)).collect(), open, found);
                }
            }
            (Function::NLeading, Some(kind)) => {
                let n_blocks = self.fields.n_blocks.min(MAX_BLOCKS);
                if let (Some(n), kind) = (target.as_u64().filter(|n| *n <= n_blocks), self.value(kind)) {
                    let other = if kind.is_number() { json!(1) } else { json!("sparse") };
                    let list = (0..n_blocks).map(|i| if i < n { kind.clone() } else { other.clone() });
                    self.descend(first, &list.collect(), open, found);
                }
            }
            (Function::All, _) if is_true(Some(target)) => {
                if let Json::Array(list) = self.value(first) {
                    let wanted = Json::Array(vec![json!(true); list.len()]);
                    self.descend(first, &wanted, open, found);
                    self.try_values(first, &wanted, found);
                }
            }
            (Function::Icdf, _) => {
                let of = |share: f64| self.value(&Formula::Call(function, vec![Formula::Constant(json!(share))]));
                let single = |value: &Json| value.as_f64().map(|x| to_f32(x).to_bits());
                let mut shares = (0..=MAX_SHARE).map(|n| f64::from(n) / f64::from(MAX_SHARE));
                if let Some(share) = shares.find(|share| of(*share) == *target || single(&of(*share)) == single(target))
                {
                    self.descend(first, &json!(share), open, found);
                }
            }
            (Function::ByNumber, _) => {
                if let Json::Array(list) = target {
                    let named = list.iter().enumerate().map(|(i, item)| (i.to_string(), item.clone()));
                    self.descend(first, &Json::Object(named.collect()), open, found);
                }
            }
            (Function::ByName, _) => {
                if let Json::Array(list) = target {
                    let mut names: Vec<String> = (0..list.len()).map(|i| i.to_string()).collect();
                    names.sort();
                    self.descend(
                        first,
                        &Json::Object(names.into_iter().zip(list.iter().cloned()).collect()),
                        open,
                        found,
                    );
                }
            }
            (Function::Sqrt, _) => {
                if let Some(t) = target.as_f64() {
                    self.descend(first, &number_like(target, t * t), open, found);
                }
            }
            _ => self.descend(first, target, open, found),
        }
    }

    /// The path of a field in objects.
    fn path_of(&self, formula: &Formula) -> Option<String> {
        match formula {
            Formula::Name(name) => match self.set.iter().rev().find(|(set, _)| set == name) {
                // A field that is set from itself is one of the configuration.
                Some((_, inner)) if !inner.names().contains(name) => self.path_of(inner),
                _ => Some(name.clone()),
            },
            Formula::Fact(name) => Some(format!("@{name}")),
            Formula::Member(object, name) => Some(format!("{}.{name}", self.path_of(object)?)),
            Formula::Binary(Op::Else, a, _) => self.path_of(a),
            Formula::Present(options) => self.path_of(options.first()?),
            Formula::If(parts) => {
                let [then, condition, other] = parts.as_ref();
                self.path_of(if is_true(Some(&self.value(condition))) { then } else { other })
            }
            _ => None,
        }
    }

    /// Tries common values for the fields of a formula, and for the elements of lists.
    fn try_values(&self, formula: &Formula, target: &Json, found: &mut Vec<Edit>) {
        let mut words: Vec<Json> = WORDS.iter().map(|word| json!(word)).collect();
        constants(formula, &mut words);
        let mut names = Vec::new();
        let mut expanded: Vec<String> = Vec::new();
        let mut left = formula.names();
        while let Some(name) = left.pop() {
            match self.set.iter().find(|(set, _)| *set == name) {
                Some((_, inner)) if !expanded.contains(&name) => {
                    expanded.push(name);
                    constants(inner, &mut words);
                    left.extend(inner.names());
                }
                _ if name.starts_with('@') || names.contains(&name) => {}
                _ => names.push(name),
            }
        }
        let numbers: Vec<Json> = (0..=MAX_TRIED).map(|n| json!(n)).collect();
        let flags = [json!(true), json!(false), target.clone()];
        let of_one: Vec<&Json> = flags.iter().chain(&words).chain(&numbers).collect();
        // The words of a formula are the likeliest elements, then those of other enumerations, then numbers.
        let (usual, own) = words.split_at(WORDS.len());
        let (own, own_numbers): (Vec<&Json>, Vec<&Json>) = own.iter().partition(|word| word.is_string());
        let of_lists: Vec<&Json> =
            own.into_iter().chain(usual).chain(own_numbers).chain(&flags).chain(&numbers).collect();
        for name in &names {
            for &value in &of_one {
                if let Some(fields) = self.with(name, value.clone())
                    && fields.eval(formula).is_ok_and(|found| found.as_deref().unwrap_or(&Json::Null) == target)
                {
                    found.push((name.clone(), value.clone()));
                }
            }
            let Json::Array(wanted) = target else { continue };
            // Each element of the field for itself: the elements that each value gives as they are wanted.
            let mut fitting: Vec<(&Json, Vec<bool>)> = Vec::new();
            for &value in &of_lists {
                let list = Json::Array(vec![value.clone(); wanted.len()]);
                let Some(fields) = self.with(name, list) else { continue };
                let Ok(Some(result)) = fields.eval(formula) else { continue };
                let Json::Array(result) = result.into_owned() else { continue };
                let fits: Vec<bool> = wanted.iter().zip(&result).map(|(wanted, result)| wanted == result).collect();
                if fits.contains(&true) {
                    fitting.push((value, fits));
                }
            }
            // A class may know only some of the values, so each is preferred once.
            for preferred in 0..fitting.len() {
                let choose = |i: usize| {
                    let of_all = fitting.get(preferred).into_iter().chain(&fitting);
                    of_all.into_iter().find(|(_, fits)| fits.get(i) == Some(&true)).map(|(value, _)| (*value).clone())
                };
                let list: Option<Vec<Json>> = (0..wanted.len()).map(choose).collect();
                let edit = list.map(|list| (name.clone(), Json::Array(list)));
                found.extend(edit.filter(|edit| !found.contains(edit)));
            }
        }
    }

    /// The fields with another value of one of them, and of those that are set from it.
    fn with(&self, name: &str, value: Json) -> Option<Fields> {
        let mut fields = self.fields.clone();
        match name.split_once('.') {
            None => fields.set(name, value),
            Some((object, member)) => {
                let mut inner = fields.fields.get(object).cloned().unwrap_or_else(|| json!({}));
                inner.as_object_mut()?.insert(member.to_owned(), value);
                fields.set(object, inner);
            }
        }
        for (set, formula) in self.set {
            let value = fields.eval(formula).ok().flatten().map(std::borrow::Cow::into_owned);
            fields.set(set, value.unwrap_or(Json::Null));
        }
        Some(fields)
    }
}

/// A number of the same kind as `like`, where it is one.
fn number_like(like: &Json, number: f64) -> Json {
    const EXACT: f64 = 9e15;
    #[expect(clippy::cast_possible_truncation, reason = "the number is whole and small")]
    match like.is_f64() || number.fract() != 0.0 || number.abs() > EXACT {
        true => json!(number),
        false => json!(number as i64),
    }
}

/// Whether a formula has a table (`one_of`).
pub(super) fn has_table(formula: &Formula) -> bool {
    let mut tables = Vec::new();
    tables_of(formula, &mut tables);
    !tables.is_empty()
}

/// The texts of the tokens whose ids a formula looks up.
pub(super) fn named_tokens(formula: &Formula) -> Vec<String> {
    match formula {
        Formula::Call(Function::TokenId, operands) => match operands.get(1) {
            Some(Formula::Constant(Json::String(text))) => vec![text.clone()],
            _ => Vec::new(),
        },
        Formula::Object(entries) => entries.iter().flat_map(|(_, value)| named_tokens(value)).collect(),
        _ => Vec::new(),
    }
}

/// The operands of `one_of` in a formula, with the entries of its tables.
fn tables_of<'f>(formula: &'f Formula, out: &mut Vec<(&'f Formula, Vec<&'f str>)>) {
    match formula {
        Formula::Call(Function::OneOf, operands) => {
            if let [operand, Formula::Object(entries)] = operands.as_slice() {
                out.push((operand, entries.iter().map(|(name, _)| name.as_str()).collect()));
            }
        }
        Formula::Binary(_, a, b) => {
            tables_of(a, out);
            tables_of(b, out);
        }
        Formula::If(of) => of.iter().for_each(|of| tables_of(of, out)),
        Formula::Present(of) | Formula::List(of) | Formula::Call(_, of) => of.iter().for_each(|of| tables_of(of, out)),
        _ => {}
    }
}

/// The names of lists of which a formula takes elements by their numbers.
fn lists_of(formula: &Formula, out: &mut Vec<String>) {
    match formula {
        Formula::Index(list, index) => {
            if let (Formula::Name(name), Formula::Constant(_)) = (list.as_ref(), index.as_ref()) {
                out.push(name.clone());
            }
        }
        Formula::List(of) | Formula::Call(_, of) | Formula::Present(of) => of.iter().for_each(|of| lists_of(of, out)),
        Formula::Binary(_, a, b) => [a, b].into_iter().for_each(|of| lists_of(of, out)),
        _ => {}
    }
}

/// A whole number.
fn json_number(number: f64) -> Json {
    number_like(&json!(0), number)
}

/// The texts and numbers in a formula.
fn constants(formula: &Formula, out: &mut Vec<Json>) {
    match formula {
        Formula::Constant(value @ (Json::String(_) | Json::Number(_))) if !out.contains(value) => {
            out.push(value.clone());
        }
        Formula::Member(a, _) | Formula::Not(a) | Formula::Negative(a) => constants(a, out),
        Formula::Index(a, b) | Formula::Binary(_, a, b) => {
            constants(a, out);
            constants(b, out);
        }
        Formula::If(of) => of.iter().for_each(|of| constants(of, out)),
        Formula::Present(of) | Formula::List(of) | Formula::Call(_, of) => of.iter().for_each(|of| constants(of, out)),
        Formula::Object(of) => of.iter().for_each(|(_, of)| constants(of, out)),
        Formula::Each(element, _, list) => {
            constants(element, out);
            list.iter().for_each(|list| constants(list, out));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_get_values() {
        let Json::Object(fields) = json!({"hidden_size": 8}) else { unreachable!() };
        let fields = Fields::of(fields, 2);
        let completions = |formula: &str| {
            let formula = Formula::parse(formula).unwrap();
            Solver { fields: &fields, set: &[], known: &Map::new() }.completions(&formula, &[])
        };
        let first = completions("one_of(activation, {'silu': true})").swap_remove(0);
        assert_eq!(first, [("activation".to_owned(), json!("silu"))]);
        assert_eq!(completions("hidden_size * factor").swap_remove(0), [("factor".to_owned(), json!(1.0))]);
        let all = completions("[[rows, factors[0]], [rows, factors[1]]]").pop().unwrap();
        assert!(all.contains(&("rows".to_owned(), json!(1))), "{all:?}");
        assert!(all.contains(&("factors".to_owned(), json!(vec![1.0; N_FACTORS]))), "{all:?}");
    }

    fn first(formula: &str, fields: Json, target: Json) -> Option<Edit> {
        let Json::Object(fields) = fields else { unreachable!() };
        let fields = Fields::of(fields, 4);
        let formula = Formula::parse(formula).unwrap();
        Solver { fields: &fields, set: &[], known: &Map::new() }.edits(&formula, &target).next()
    }

    #[test]
    fn conditions_of_elements_choose_their_values() {
        let Json::Object(fields) = json!({"kinds": ["a", "b", "b"]}) else { unreachable!() };
        let edits = |formula: &str, fields: Map<String, Json>, target: Json| {
            let fields = Fields::of(fields, 3);
            let formula = Formula::parse(formula).unwrap();
            let solver = Solver { fields: &fields, set: &[], known: &Map::new() };
            solver.edits(&formula, &target).collect::<Vec<Edit>>()
        };
        // The elements of each branch show its value.
        let found = edits("[wide if k == 'b' else narrow for k in kinds]", fields, json!([2, 4, 4]));
        assert_eq!(found[..2], [("wide".to_owned(), json!(4)), ("narrow".to_owned(), json!(2))]);
        // A known value shows for which elements the condition holds.
        let Json::Object(fields) = json!({"n": 2, "kinds": ["x", "x", "x"]}) else { unreachable!() };
        let found = edits("[n if k != 'conv' else 0 for k in kinds]", fields, json!([0, 2, 0]));
        assert!(found.contains(&("kinds".to_owned(), json!(["conv", "full_attention", "conv"]))), "{found:?}");
    }

    #[test]
    fn operations_are_inverted() {
        let edit = |name: &str, value: Json| Some((name.to_owned(), value));
        for (formula, fields, target, expected) in [
            ("hidden_size|n_embd", json!({}), json!(8), edit("hidden_size", json!(8))),
            ("hidden_size|n_embd", json!({"n_embd": 1}), json!(8), edit("n_embd", json!(8))),
            ("head_dim ?? 64", json!({}), json!(32), edit("head_dim", json!(32))),
            ("4 * n_embd", json!({}), json!(32), edit("n_embd", json!(8))),
            ("a + b", json!({"b": 3}), json!(7), edit("a", json!(4))),
            ("hidden_size // heads", json!({"heads": 4}), json!(16), edit("hidden_size", json!(64))),
            ("rope.factor if kind == 'yarn' else null", json!({}), json!(2.5), edit("kind", json!("yarn"))),
            ("false if is_causal == false else null", json!({}), json!(false), edit("is_causal", json!(false))),
            ("one_of(f, {'softmax': 1, 'sigmoid': 2})", json!({}), json!(2), edit("f", json!("sigmoid"))),
            ("[2 * x for x in list]", json!({}), json!([2, 6]), edit("list", json!([1, 3]))),
            ("[float(limit) for i]", json!({}), json!([7.0, 7.0]), edit("limit", json!(7.0))),
            ("pattern + [1] * n", json!({"n": 2}), json!([0, 1, 1, 1]), edit("pattern", json!([0, 1]))),
            ("widths[0]", json!({}), json!(6), edit("widths", json!([6, 6, 6, 6]))),
            (
                "n_leading(kinds, 'dense')",
                json!({}),
                json!(1),
                edit("kinds", json!(["dense", "sparse", "sparse", "sparse"])),
            ),
            ("len(ids)", json!({}), json!(2), edit("ids", json!([0, 1]))),
            ("by_name(labels)", json!({}), json!(["no", "yes"]), edit("labels", json!({"0": "no", "1": "yes"}))),
            ("[icdf(share) for share in shares]", json!({}), json!([1.6448536]), edit("shares", json!([0.95]))),
            ("length ** -0.5", json!({}), json!(0.08838835), edit("length", json!(128))),
            (
                "[l[i] == 'x' for i]",
                json!({}),
                json!([true, false, true, true]),
                edit("l", json!(["x", "full_attention", "x", "x"])),
            ),
        ] {
            let found = first(formula, fields, target);
            match formula {
                "rope.factor if kind == 'yarn' else null" => assert!(found.is_some(), "{formula}"),
                "[l[i] == 'x' for i]" => {
                    let (name, list) = found.unwrap();
                    assert_eq!((name.as_str(), list[0] == "x", list[1] == "x"), ("l", true, false), "{list}");
                }
                _ => assert_eq!(found, expected, "{formula}"),
            }
        }
    }
}
