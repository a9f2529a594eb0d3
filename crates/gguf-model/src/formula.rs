//! The syntax of formulas, the expressions in the tables of architectures over the fields of a configuration. It is checked when the tables
//! are compiled.
//!
//! ```text
//! conditional := logical ["if" logical "else" conditional]
//! logical     := ["not"] comparison (("and" | "or") ["not"] comparison)*
//! comparison  := arithmetic [("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") arithmetic]
//! arithmetic  := operand (("??" | "+" | "-" | "*" | "/" | "//" | "%" | "**") operand)*
//! operand     := "-"* member ("|" member)*
//! member      := atom ("." name | "[" conditional "]")*
//! atom        := number | text | name | "@" name | function "(" conditional ("," conditional)* ")" | "(" conditional ")"
//!              | "[" [conditional ("," conditional)*] "]" | "[" conditional "for" name ["in" arithmetic] "]"
//!              | "{" [text ":" conditional ("," text ":" conditional)* [","]] "}"
//! ```
//!
//! The module `formula` of `gguf-hf` documents what they mean, and evaluates them.

use core::fmt;

/// The maximum nesting of [conditional expressions](self): brackets, and branches after `else`.
pub const MAX_DEPTH: usize = 64;

macro_rules! functions {
    ($($(#[doc = $doc:literal])* $function:ident $name:literal $arity:literal)*) => {
        /// A function of formulas.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Function { $($(#[doc = $doc])* $function),* }

        impl Function {
            /// The function of the given name.
            pub const fn of(name: &[u8]) -> Option<Function> {
                match name {
                    $($name => Some(Function::$function),)*
                    _ => None,
                }
            }

            /// The number of operands.
            pub const fn arity(self) -> usize {
                match self { $(Function::$function => $arity),* }
            }
        }
    };
}

functions! {
    /// `int(x)`, as in Python.
    Int b"int" 1
    /// `float(x)`, as in Python.
    Float b"float" 1
    /// `str(x)`, as in Python.
    Str b"str" 1
    /// `len(x)`, as in Python.
    Len b"len" 1
    /// `abs(x)`, as in Python.
    Abs b"abs" 1
    /// `sqrt(x)`, the square root.
    Sqrt b"sqrt" 1
    /// `log(x)`, the natural logarithm.
    Log b"log" 1
    /// `log2(x)`, the binary logarithm.
    Log2 b"log2" 1
    /// `round(x)`, the nearest integer; of two, the even one.
    Round b"round" 1
    /// `ceil(x)`, the next integer that is not smaller.
    Ceil b"ceil" 1
    /// `min(a, b)`, the smaller number.
    Min b"min" 2
    /// `max(a, b)`, the larger number.
    Max b"max" 2
    /// `sum(list)`, as in Python.
    Sum b"sum" 1
    /// `any(list)`, as in Python.
    Any b"any" 1
    /// `all(list)`, as in Python.
    All b"all" 1
    /// `lower(text)`, the text in lower case.
    Lower b"lower" 1
    /// `required(x)`: `x`, which must be present.
    Required b"required" 1
    /// `pad(list, n, x)`: the first `n` elements of the list, padded with `x` to length `n`.
    Pad b"pad" 3
    /// `one_of(x, table)`: the table's entry for `x`, which must exist.
    OneOf b"one_of" 2
    /// `by_number(object)`: the values of an object with numeric names, in numeric order.
    ByNumber b"by_number" 1
    /// `by_name(object)`: the values of an object, ordered by name.
    ByName b"by_name" 1
    /// `template(name)`: a chat template of the module `templates` of `gguf-hf`.
    Template b"template" 1
    /// `is_list(x)`: whether `x` is a list.
    IsList b"is_list" 1
    /// `n_leading(list, x)`: the number of leading elements equal to `x`.
    NLeading b"n_leading" 2
    /// `with(object, name, x)`: the object with the field `name` set to `x`.
    With b"with" 3
    /// `numbers(text)`: the comma-separated integers in the text, sorted.
    Numbers b"numbers" 1
    /// `icdf(x)`: the quantile of the standard normal distribution at `x`, as torch computes it.
    Icdf b"icdf" 1
    /// `centered(list)`: the numbers in single precision, minus their mean.
    Centered b"centered" 1
    /// `token_id(object, text)`: the number of the first entry whose `content` is the text; entries are named by numbers.
    TokenId b"token_id" 2
    /// `merge(a, b)`: the object `a` with the fields of the object `b`, which take precedence.
    Merge b"merge" 2
    /// `range(n)`: the integers from 0 to below `n`.
    Range b"range" 1
    /// `sorted(list)`: the numbers, or the lists of numbers, in ascending order.
    Sorted b"sorted" 1
    /// `split(text, separator)`: the parts of the text.
    Split b"split" 2
    /// `join(list, separator)`: the texts of the list as one.
    Join b"join" 2
}

/// An error in the syntax of a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntaxError {
    /// The byte of the formula.
    pub at: usize,
    /// What would be valid there.
    pub expected: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at byte {} of the formula", self.expected, self.at)
    }
}

impl core::error::Error for SyntaxError {}

/// Checks the syntax of a formula.
///
/// ```
/// use gguf_model::formula;
/// assert!(formula::check("head_dim|hidden_size // num_attention_heads").is_ok());
/// assert_eq!(formula::check("len(layer_types").unwrap_err().to_string(), "expected ) at byte 15 of the formula");
/// ```
///
/// # Errors
/// The first error.
pub const fn check(formula: &str) -> Result<(), SyntaxError> {
    let mut scan = Scan { rest: &[], depth: 0, expected: "" };
    scan.go_to(formula.as_bytes());
    if scan.conditional() {
        if scan.rest.is_empty() {
            return Ok(());
        }
        scan.expected = "the end";
    }
    Err(SyntaxError { at: formula.len() - scan.rest.len(), expected: scan.expected })
}

/// The rest of a formula, from a token on. Functions consume an expression, and return whether its syntax is correct; if not, `expected` is set.
struct Scan<'a> {
    rest: &'a [u8],
    depth: usize,
    expected: &'static str,
}

impl<'a> Scan<'a> {
    const fn wrong(&mut self, expected: &'static str) -> bool {
        self.expected = expected;
        false
    }

    /// Continues with the next token.
    const fn go_to(&mut self, rest: &'a [u8]) {
        let mut rest = rest;
        while let [b' ' | b'\t' | b'\n' | b'\x0C' | b'\r', more @ ..] = rest {
            rest = more;
        }
        self.rest = rest;
    }

    /// Consumes a punctuation character.
    const fn sign(&mut self, sign: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == sign => {
                self.go_to(rest);
                true
            }
            _ => false,
        }
    }

    /// Consumes a word.
    const fn word(&mut self, word: &str) -> bool {
        let (mut rest, mut word) = (self.rest, word.as_bytes());
        while let ([a, more @ ..], [b, more_of_word @ ..]) = (rest, word) {
            if *a != *b {
                return false;
            }
            (rest, word) = (more, more_of_word);
        }
        let ends = word.is_empty() && after_name(rest).len() == rest.len();
        if ends {
            self.go_to(rest);
        }
        ends
    }

    const fn name(&mut self) -> bool {
        let [b'a'..=b'z' | b'A'..=b'Z' | b'_', rest @ ..] = self.rest else { return self.wrong("a name") };
        self.go_to(after_name(rest));
        true
    }

    const fn close(&mut self, sign: u8, expected: &'static str) -> bool {
        self.sign(sign) || self.wrong(expected)
    }

    const fn conditional(&mut self) -> bool {
        let around = self.depth;
        loop {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return self.wrong("less nesting");
            }
            if !self.logical() {
                return false;
            }
            if !self.word("if") {
                self.depth = around;
                return true;
            }
            if !self.logical() {
                return false;
            }
            if !self.word("else") {
                return self.wrong("else");
            }
        }
    }

    const fn logical(&mut self) -> bool {
        self.word("not");
        let mut may_compare = true;
        while self.arithmetic() {
            if may_compare && self.comparison_sign() {
                may_compare = false;
            } else if self.word("and") || self.word("or") {
                may_compare = true;
                self.word("not");
            } else {
                return true;
            }
        }
        false
    }

    const fn comparison_sign(&mut self) -> bool {
        match self.rest {
            [b'=' | b'!' | b'<' | b'>', b'=', rest @ ..] | [b'<' | b'>', rest @ ..] => self.go_to(rest),
            _ => return self.word("in"),
        }
        true
    }

    const fn arithmetic(&mut self) -> bool {
        while self.operand() {
            match self.rest {
                [b'?', b'?', rest @ ..]
                | [b'*', b'*', rest @ ..]
                | [b'/', b'/', rest @ ..]
                | [b'+' | b'-' | b'*' | b'/' | b'%', rest @ ..] => self.go_to(rest),
                _ => return true,
            }
        }
        false
    }

    const fn operand(&mut self) -> bool {
        while let [b'-', rest @ ..] = self.rest {
            self.go_to(rest);
        }
        let mut is_valid = self.atom();
        while is_valid {
            is_valid = match self.rest {
                [b'|', rest @ ..] => {
                    self.go_to(rest);
                    self.atom()
                }
                [b'.', rest @ ..] => {
                    self.go_to(rest);
                    self.name()
                }
                [b'[', rest @ ..] => {
                    self.go_to(rest);
                    self.conditional() && self.close(b']', "]")
                }
                _ => return true,
            };
        }
        false
    }

    const fn atom(&mut self) -> bool {
        match self.rest {
            [b'(', rest @ ..] => {
                self.go_to(rest);
                self.conditional() && self.close(b')', ")")
            }
            [b'[', rest @ ..] => {
                self.go_to(rest);
                self.list()
            }
            [b'{', rest @ ..] => {
                self.go_to(rest);
                self.object()
            }
            [b'@', rest @ ..] => {
                self.go_to(rest);
                self.name()
            }
            [b'\'' | b'"', ..] => self.text(),
            [b'0'..=b'9', ..] => self.number(),
            _ => {
                let start = self.rest;
                if !self.name() {
                    return false;
                }
                let [b'(', rest @ ..] = self.rest else { return true };
                let (name, _) = start.split_at(start.len() - after_name(start).len());
                let Some(function) = Function::of(name) else { return true };
                self.go_to(rest);
                self.operands(function.arity())
            }
        }
    }

    /// Operands of a function, after the opening parenthesis.
    const fn operands(&mut self, arity: usize) -> bool {
        let mut n = 1;
        while self.conditional() {
            if !self.sign(b',') {
                return self.close(b')', ")") && (n == arity || self.wrong("another number of operands"));
            }
            n += 1;
        }
        false
    }

    /// A text in quotation marks.
    const fn text(&mut self) -> bool {
        let [quote, rest @ ..] = self.rest else { return self.wrong("a text") };
        let mut rest = rest;
        while let [c, more @ ..] = rest {
            rest = more;
            if *c == *quote {
                self.go_to(rest);
                return true;
            }
        }
        self.wrong("a closing quotation mark")
    }

    const fn number(&mut self) -> bool {
        let (_, mut rest) = digits(self.rest);
        if let [b'.', more @ ..] = rest {
            (_, rest) = digits(more);
        }
        let mut is_whole = true;
        if let [b'e' | b'E', b'+' | b'-', more @ ..] | [b'e' | b'E', more @ ..] = rest {
            (is_whole, rest) = digits(more);
        }
        if !is_whole || matches!(rest, [b'.' | b'e' | b'E', ..]) {
            return self.wrong("a number");
        }
        self.go_to(rest);
        true
    }

    /// A list, after the opening bracket.
    const fn list(&mut self) -> bool {
        if self.sign(b']') {
            return true;
        }
        if !self.conditional() {
            return false;
        }
        if self.word("for") {
            return self.name() && (!self.word("in") || self.arithmetic()) && self.close(b']', "]");
        }
        while self.sign(b',') {
            if !self.conditional() {
                return false;
            }
        }
        self.close(b']', "]")
    }

    /// An object, after the opening brace.
    const fn object(&mut self) -> bool {
        while !self.sign(b'}') {
            let [b'\'', ..] = self.rest else { return self.wrong("a name in quotes") };
            if !self.text() || !self.close(b':', ":") || !self.conditional() {
                return false;
            }
            if !self.sign(b',') {
                return self.close(b'}', "}");
            }
        }
        true
    }
}

/// What follows the letters, digits and underscores at the start.
const fn after_name(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let [b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_', more @ ..] = rest {
        rest = more;
    }
    rest
}

/// Whether the text starts with digits, and what follows them.
const fn digits(text: &[u8]) -> (bool, &[u8]) {
    let mut rest = text;
    while let [b'0'..=b'9', more @ ..] = rest {
        rest = more;
    }
    (rest.len() < text.len(), rest)
}

/// The formula itself. One with a syntax error does not compile.
pub(crate) const fn checked(formula: &'static str) -> &'static str {
    if let Err(error) = check(formula) {
        let (_, rest) = formula.as_bytes().split_at(error.at);
        let mut message = Message { text: [0; 160], len: 0 };
        message.push(b"expected ");
        message.push(error.expected.as_bytes());
        message.push(b" in a formula, found: ");
        message.push(if rest.is_empty() { b"the end of " } else { rest });
        message.push(if rest.is_empty() { formula.as_bytes() } else { b"" });
        message.stop();
    }
    formula
}

/// The message of an error at compile time.
struct Message {
    text: [u8; 160],
    len: usize,
}

impl Message {
    /// Appends as much of the text as there is room for.
    const fn push(&mut self, text: &[u8]) {
        let (_, free) = self.text.split_at_mut(self.len);
        let n = if text.len() < free.len() { text.len() } else { free.len() };
        free.split_at_mut(n).0.copy_from_slice(text.split_at(n).0);
        self.len += n;
    }

    const fn stop(&self) -> ! {
        match core::str::from_utf8(self.text.split_at(self.len).0) {
            Ok(text) => panic!("{}", text),
            Err(_) => panic!("a formula has a syntax error"),
        }
    }
}
