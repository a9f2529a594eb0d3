//! Formulas backwards: the fields of a configuration from the value of a formula.
//!
//! A formula has the value that a key has in the file. [`edits`] lists changes of single fields that may give it that value, the likeliest
//! first: it descends into the formula and inverts one operation after the other, and tries common values where that fails. The caller
//! applies a change and evaluates the formula again, so a wrong guess does no harm.

use gguf_model::formula::Function;
use serde_json::{Value as Json, json};

use crate::formula::{Fields, Formula, Op, is_true};

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

/// The fields and the formulas that set some of them.
pub(super) struct Solver<'a> {
    pub(super) fields: &'a Fields,
    /// The fields that rows of the table set, with their formulas.
    pub(super) set: &'a [(&'static str, Formula)],
}

impl Solver<'_> {
    /// Changes after which the formula may have the value `target`; `null` if it is to have none. Values are tried only if no inverted operation
    /// is taken, because that takes far longer.
    pub(super) fn edits<'e>(&'e self, formula: &'e Formula, target: &'e Json) -> impl Iterator<Item = Edit> + 'e {
        let mut inverted = Vec::new();
        self.descend(formula, target, &mut Vec::new(), &mut inverted);
        let tried = move || {
            let mut found = Vec::new();
            self.try_values(formula, target, &mut found);
            found
        };
        inverted.into_iter().chain(std::iter::once_with(tried).flatten())
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

    fn descend<'f>(&'f self, formula: &'f Formula, target: &Json, open: &mut Vec<&'f str>, found: &mut Vec<Edit>) {
        match formula {
            Formula::Name(name) => match self.set.iter().rev().find(|(set, _)| set == name) {
                Some((_, inner)) if !open.contains(&name.as_str()) => {
                    open.push(name);
                    self.descend(inner, target, open, found);
                    open.pop();
                }
                _ => found.push((name.clone(), target.clone())),
            },
            Formula::Member(object, name) => {
                if let Some(path) = self.path_of(object) {
                    found.push((format!("{path}.{name}"), target.clone()));
                }
            }
            Formula::Index(object, name) => {
                if let (Some(path), Formula::Constant(Json::String(name))) = (self.path_of(object), name.as_ref()) {
                    found.push((format!("{path}.{name}"), target.clone()));
                }
            }
            Formula::Present(options) => {
                let (present, absent): (Vec<_>, Vec<_>) = options.iter().partition(|option| self.has(option));
                for option in present.into_iter().chain(absent) {
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
            // The elements that are not those of the other branch have one value.
            Formula::Each(element, ..) => {
                if let (Formula::If(parts), Json::Array(wanted)) = (element.as_ref(), target) {
                    let [then, _, other] = parts.as_ref();
                    for (branch, other) in [(then, other), (other, then)] {
                        let other = self.value(other);
                        if let Some(value) = wanted.iter().find(|value| **value != other) {
                            self.descend(branch, value, open, found);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn descend_binary<'f>(
        &'f self,
        op: Op,
        (a, b): (&'f Formula, &'f Formula),
        target: &Json,
        open: &mut Vec<&'f str>,
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
        open: &mut Vec<&'f str>,
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
            (Function::Len, _) => {}
            (Function::ByNumber, _) => {
                if let Json::Array(list) = target {
                    let named = list.iter().enumerate().map(|(i, item)| (i.to_string(), item.clone()));
                    self.descend(first, &Json::Object(named.collect()), open, found);
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
        let numbers = (0..=MAX_TRIED).map(|n| json!(n));
        let tried: Vec<Json> = [json!(true), json!(false), target.clone()]
            .into_iter()
            .chain(words.iter().cloned())
            .chain(numbers)
            .collect();
        for name in &names {
            for value in &tried {
                if let Some(fields) = self.with(name, value.clone())
                    && fields.eval(formula).is_ok_and(|found| found.as_deref().unwrap_or(&Json::Null) == target)
                {
                    found.push((name.clone(), value.clone()));
                }
            }
            let Json::Array(wanted) = target else { continue };
            // Each element of the field for itself.
            let mut chosen: Vec<Option<Json>> = vec![None; wanted.len()];
            for value in &tried {
                let list = Json::Array(vec![value.clone(); wanted.len()]);
                let Some(fields) = self.with(name, list) else { continue };
                let Ok(Some(result)) = fields.eval(formula) else { continue };
                let Json::Array(result) = result.into_owned() else { continue };
                for ((place, wanted), result) in chosen.iter_mut().zip(wanted).zip(&result) {
                    if place.is_none() && wanted == result {
                        *place = Some(value.clone());
                    }
                }
            }
            if let Some(list) = chosen.into_iter().collect::<Option<Vec<Json>>>() {
                found.push((name.clone(), Json::Array(list)));
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

    fn first(formula: &str, fields: Json, target: Json) -> Option<Edit> {
        let Json::Object(fields) = fields else { unreachable!() };
        let fields = Fields::of(fields, 4);
        let formula = Formula::parse(formula).unwrap();
        Solver { fields: &fields, set: &[] }.edits(&formula, &target).next()
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
                _ if formula.starts_with('[') => {
                    let (name, list) = found.unwrap();
                    assert_eq!((name.as_str(), list[0] == "x", list[1] == "x"), ("l", true, false), "{list}");
                }
                _ => assert_eq!(found, expected, "{formula}"),
            }
        }
    }
}
