//! Expressions over the keys of a model, for sizes and conditions: parsed when the crate is compiled, so that a mistake is an error of the
//! compiler, and evaluated without allocation.
//!
//! ```text
//! max(64, embedding_length / 16)
//! attention.key_length_swa if attention.sliding_window_pattern else attention.key_length
//! is_mtp or feed_forward_length and not expert_count
//! ```
//!
//! As in Python, and in this order: `a if c else b`, `or`, `and`, `not`, the comparisons `==`, `>=` and `<`, `+` and `-`, `*` and `/` (integers,
//! rounded down), parentheses, `max(a, b)`, and `set(a)`, which is 1 if the keys determine `a`. Names are those of [`NAMES`]. A value is `None` if it needs a
//! missing key, or does not fit 64 bits. `None` and 0 are false; `a or b` is `b` if `a` is false; a comparison with `None` is false. `a, or b`
//! are alternatives, both valid.

use core::fmt;

use super::names::NAMES;
use crate::hparams::Hparams;

/// The largest number of operations of an expression.
const MAX_OPS: usize = 16;

/// The largest number of operands that wait for an operation.
const MAX_DEPTH: usize = 6;

/// An operation of an expression, in postfix notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Number(u16),
    /// The index in [`NAMES`].
    Name(u8),
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Equal,
    AtLeast,
    Less,
    Set,
    Not,
    And,
    Or,
    /// `a if c else b`, from the operands a, c and b.
    Choose,
}

/// An expression over the keys of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expr {
    text: &'static str,
    ops: [Op; MAX_OPS],
    len: u8,
    /// Where the operations of the second alternative begin; `len` if there is none.
    second: u8,
}

impl Expr {
    /// Parses an expression.
    ///
    /// # Panics
    ///
    /// If it is invalid. In a constant, that is an error of the compiler.
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_OPS")]
    pub(super) const fn new(text: &'static str) -> Expr {
        let mut parser = Parser { text: text.as_bytes(), at: 0, ops: [Op::Not; MAX_OPS], len: 0, depth: 0 };
        parser.choice();
        let first_len = parser.len;
        let mut second = first_len;
        if parser.takes(b",") {
            assert!(parser.takes(b"or"), "expected `or` after a comma");
            parser.depth = 0;
            parser.choice();
        } else {
            second = parser.len;
        }
        assert!(parser.at == parser.text.len(), "expected an operator or the end of the expression");
        Expr { text, ops: parser.ops, len: parser.len as u8, second: second as u8 }
    }

    /// The keys in it, without the name of the architecture.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.ops().iter().filter_map(|op| match *op {
            Op::Name(index) => NAMES.get(usize::from(index))?.key,
            _ => None,
        })
    }

    fn ops(&self) -> &[Op] {
        self.ops.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The value in block `block`; `None` if the keys do not determine it, or if there are alternatives.
    pub fn of(&self, h: &Hparams<'_>, block: u64) -> Option<u64> {
        let (value, None) = self.values(h, block) else { return None };
        value
    }

    /// Whether the value is determined and not 0.
    pub fn holds(&self, h: &Hparams<'_>, block: u64) -> bool {
        is_true(self.of(h, block))
    }

    /// The value, and that of the alternative, if there is one.
    pub(super) fn values(&self, h: &Hparams<'_>, block: u64) -> (Option<u64>, Option<Option<u64>>) {
        let (first, second) = self.ops().split_at_checked(usize::from(self.second)).unwrap_or_default();
        (evaluate(first, h, block), (!second.is_empty()).then(|| evaluate(second, h, block)))
    }
}

/// The text, with `×` for `*`.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, operand) in self.text.split('*').enumerate() {
            f.write_str(if i > 0 { "×" } else { "" })?;
            f.write_str(operand)?;
        }
        Ok(())
    }
}

fn is_true(value: Option<u64>) -> bool {
    value.is_some_and(|n| n != 0)
}

/// Operands that wait for an operation.
#[derive(Default)]
struct Operands {
    values: [Option<u64>; MAX_DEPTH],
    len: usize,
}

impl Operands {
    fn push(&mut self, value: Option<u64>) {
        if let Some(place) = self.values.get_mut(self.len) {
            *place = value;
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.saturating_sub(1);
        self.values.get(self.len).copied().flatten()
    }
}

fn evaluate(ops: &[Op], h: &Hparams<'_>, block: u64) -> Option<u64> {
    let mut operands = Operands::default();
    for op in ops {
        let value = match *op {
            Op::Number(n) => Some(u64::from(n)),
            Op::Name(index) => NAMES.get(usize::from(index)).and_then(|name| (name.of)(h, block)),
            Op::Not => Some(u64::from(!is_true(operands.pop()))),
            Op::Set => Some(u64::from(operands.pop().is_some())),
            Op::Choose => {
                let (otherwise, condition, value) = (operands.pop(), operands.pop(), operands.pop());
                condition.and_then(|c| if c != 0 { value } else { otherwise })
            }
            op => {
                let (b, a) = (operands.pop(), operands.pop());
                binary(op, a, b)
            }
        };
        operands.push(value);
    }
    operands.pop()
}

fn binary(op: Op, a: Option<u64>, b: Option<u64>) -> Option<u64> {
    let compared = |holds: fn(&u64, &u64) -> bool| Some(u64::from(a.zip(b).is_some_and(|(a, b)| holds(&a, &b))));
    match op {
        Op::And => Some(u64::from(is_true(a) && is_true(b))),
        Op::Or => a.filter(|n| *n != 0).or(b),
        Op::Equal => compared(u64::eq),
        Op::AtLeast => compared(u64::ge),
        Op::Less => compared(u64::lt),
        Op::Add => a?.checked_add(b?),
        Op::Subtract => a?.checked_sub(b?),
        Op::Multiply => a?.checked_mul(b?),
        Op::Divide => a?.checked_div(b?),
        Op::Max => Some(a?.max(b?)),
        Op::Number(_) | Op::Name(_) | Op::Not | Op::Set | Op::Choose => None,
    }
}

/// A recursive-descent parser, one function for each precedence, lowest first.
struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    ops: [Op; MAX_OPS],
    len: usize,
    /// Operands that wait for an operation.
    depth: usize,
}

#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and reports a panic as an error")]
impl Parser<'_> {
    const fn choice(&mut self) {
        self.or();
        if self.takes(b"if") {
            self.or();
            assert!(self.takes(b"else"), "expected `else`");
            self.choice();
            self.push(Op::Choose, 3);
        }
    }

    const fn or(&mut self) {
        self.and();
        while self.takes(b"or") {
            self.and();
            self.push(Op::Or, 2);
        }
    }

    const fn and(&mut self) {
        self.not();
        while self.takes(b"and") {
            self.not();
            self.push(Op::And, 2);
        }
    }

    const fn not(&mut self) {
        if self.takes(b"not") {
            self.not();
            self.push(Op::Not, 1);
        } else {
            self.comparison();
        }
    }

    const fn comparison(&mut self) {
        self.sum();
        let op = if self.takes(b"==") {
            Op::Equal
        } else if self.takes(b">=") {
            Op::AtLeast
        } else if self.takes(b"<") {
            Op::Less
        } else {
            return;
        };
        self.sum();
        self.push(op, 2);
    }

    const fn sum(&mut self) {
        self.product();
        loop {
            let op = if self.takes(b"+") {
                Op::Add
            } else if self.takes(b"-") {
                Op::Subtract
            } else {
                return;
            };
            self.product();
            self.push(op, 2);
        }
    }

    const fn product(&mut self) {
        self.operand();
        loop {
            let op = if self.takes(b"*") {
                Op::Multiply
            } else if self.takes(b"/") {
                Op::Divide
            } else {
                return;
            };
            self.operand();
            self.push(op, 2);
        }
    }

    const fn operand(&mut self) {
        if self.takes(b"(") {
            self.choice();
            assert!(self.takes(b")"), "expected a closing parenthesis");
        } else if self.takes(b"max") {
            assert!(self.takes(b"("), "expected a parenthesis after `max`");
            self.choice();
            assert!(self.takes(b","), "expected a comma between the operands of `max`");
            self.choice();
            assert!(self.takes(b")"), "expected a closing parenthesis");
            self.push(Op::Max, 2);
        } else if self.takes(b"set") {
            assert!(self.takes(b"("), "expected a parenthesis after `set`");
            self.choice();
            assert!(self.takes(b")"), "expected a closing parenthesis");
            self.push(Op::Set, 1);
        } else if self.at < self.text.len() && self.text[self.at].is_ascii_digit() {
            self.number();
        } else {
            self.name();
        }
    }

    const fn number(&mut self) {
        let mut n = 0;
        while self.at < self.text.len() && self.text[self.at].is_ascii_digit() {
            n = n * 10 + (self.text[self.at] - b'0') as u16;
            self.at += 1;
        }
        self.push(Op::Number(n), 0);
        self.skip_spaces();
    }

    /// The longest name that the text continues with; some consist of several words.
    const fn name(&mut self) {
        assert!(NAMES.len() < 256, "a place in NAMES has eight bits");
        let (mut i, mut found, mut longest) = (0u8, 0, 0);
        while (i as usize) < NAMES.len() {
            let name = NAMES[i as usize].text.as_bytes();
            if name.len() > longest && self.continues_with(name) {
                (found, longest) = (i, name.len());
            }
            i += 1;
        }
        assert!(longest > 0, "expected a number or a name in NAMES");
        self.at += longest;
        self.push(Op::Name(found), 0);
        self.skip_spaces();
    }

    /// Takes a word or operator, and the spaces after it, if the text continues with it.
    const fn takes(&mut self, word: &[u8]) -> bool {
        let takes = self.continues_with(word);
        if takes {
            self.at += word.len();
            self.skip_spaces();
        }
        takes
    }

    /// Whether the text continues with these bytes, and they do not end within a name.
    const fn continues_with(&self, word: &[u8]) -> bool {
        let mut i = 0;
        while i < word.len() {
            if self.at + i >= self.text.len() || self.text[self.at + i] != word[i] {
                return false;
            }
            i += 1;
        }
        let after = self.at + i;
        !is_of_name(word[i - 1]) || after >= self.text.len() || !is_of_name(self.text[after])
    }

    const fn skip_spaces(&mut self) {
        while self.at < self.text.len() && self.text[self.at] == b' ' {
            self.at += 1;
        }
    }

    /// Appends an operation with this number of operands.
    const fn push(&mut self, op: Op, n_operands: usize) {
        assert!(self.len < MAX_OPS, "the expression has too many operations");
        self.ops[self.len] = op;
        self.len += 1;
        self.depth = self.depth + 1 - n_operands;
        assert!(self.depth <= MAX_DEPTH, "the expression has too many levels");
    }
}

const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hparams::PerBlock;

    #[test]
    fn values() {
        let h = Hparams { embd: Some(32), heads: Some(PerBlock::Same(4)), experts: 0, ..Hparams::default() };
        let of = |text| Expr::new(text).of(&h, 3);
        let cases = [
            ("2 + 3 * 4", Some(14)),
            ("(2 + 3) * 4", Some(20)),
            ("7 - 2 - 1", Some(4)),
            ("embedding_length / attention.head_count", Some(8)),
            ("embedding_length / 0", None),
            ("2 - embedding_length", None),
            ("65535 * 65535 * 65535 * 65535 * 65535", None),
            ("max(64, embedding_length / 16)", Some(64)),
            ("max(64, feed_forward_length)", None),
            ("feed_forward_length", None),
            ("feed_forward_length or embedding_length", Some(32)),
            ("expert_count or embedding_length", Some(32)),
            ("5 if embedding_length else 6", Some(5)),
            ("5 if expert_count else 6", Some(6)),
            ("5 if feed_forward_length else 6", None),
            ("block == 3", Some(1)),
            ("block >= 4 or block < 3", Some(0)),
            ("feed_forward_length < 3", Some(0)),
            ("not feed_forward_length < 3", Some(1)),
            ("not expert_count and embedding_length", Some(1)),
            ("set(feed_forward_length)", Some(0)),
            ("set(expert_count)", Some(1)),
            ("embedding_length, or 2 * embedding_length", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected, "{text}");
        }
        let either = Expr::new("embedding_length, or 2 * embedding_length");
        assert_eq!(either.values(&h, 0), (Some(32), Some(Some(64))));
        assert_eq!(either.to_string(), "embedding_length, or 2 × embedding_length");
        let keys: Vec<_> = Expr::new("2 * (the number of target_layers + block_count) + has_ngrams").keys().collect();
        assert_eq!(keys, ["target_layers", "block_count"]);
    }

    #[test]
    fn mistakes() {
        let invalid = [
            "",
            "embedding",
            "embedding_length2",
            "2 +",
            "2 3",
            "(2",
            "max(2)",
            "max 2",
            "set(2",
            "2 if 3",
            "2, 3",
            "2 ** 3",
            "2 = 3",
            "2)",
            "65536",
        ];
        for text in invalid {
            assert!(std::panic::catch_unwind(|| Expr::new(text)).is_err(), "{text:?}");
        }
    }
}
