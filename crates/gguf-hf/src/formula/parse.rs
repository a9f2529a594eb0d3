//! The parser of formulas: a function for each level of precedence, from the lowest to the highest. The tables hold no formula that it
//! rejects: `gguf_model::formula` checks them when they are compiled.

use gguf_model::formula::{Function, MAX_DEPTH};
use serde_json::{Value, json};

use super::error::Error;
use super::syntax::{Formula, Op};

impl Formula {
    /// Parses a formula.
    ///
    /// # Errors
    /// [`Error::Syntax`].
    pub(crate) fn parse(text: &str) -> Result<Formula, Error> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let formula = parser.conditional()?;
        parser.space();
        if parser.at < text.len() { parser.wrong("the end") } else { Ok(formula) }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self, expected: &'static str) -> Result<T, Error> {
        Err(Error::Syntax { at: self.at, expected })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_ascii_start().len();
    }

    /// Consumes a punctuation token.
    fn sign(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    /// Consumes a word.
    fn word(&mut self, word: &str) -> bool {
        self.space();
        let found = self.peek_name() == Some(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn peek_name(&self) -> Option<&'a str> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.get(..end).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    }

    fn name(&mut self) -> Result<String, Error> {
        self.space();
        match self.peek_name() {
            Some(name) => {
                self.at += name.len();
                Ok(name.to_owned())
            }
            None => self.wrong("a name"),
        }
    }

    fn conditional(&mut self) -> Result<Formula, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.wrong("less nesting");
        }
        let then = self.either()?;
        let formula = if self.word("if") {
            let condition = self.either()?;
            if !self.word("else") {
                return self.wrong("else");
            }
            Formula::If(Box::new([then, condition, self.conditional()?]))
        } else {
            then
        };
        self.depth -= 1;
        Ok(formula)
    }

    fn either(&mut self) -> Result<Formula, Error> {
        let mut a = self.both()?;
        while self.word("or") {
            a = Formula::Binary(Op::Or, a.into(), self.both()?.into());
        }
        Ok(a)
    }

    fn both(&mut self) -> Result<Formula, Error> {
        let mut a = self.negation()?;
        while self.word("and") {
            a = Formula::Binary(Op::And, a.into(), self.negation()?.into());
        }
        Ok(a)
    }

    fn negation(&mut self) -> Result<Formula, Error> {
        if self.word("not") { Ok(Formula::Not(self.comparison()?.into())) } else { self.comparison() }
    }

    fn comparison(&mut self) -> Result<Formula, Error> {
        let a = self.fallback()?;
        const SIGNS: [(&str, Op); 6] = [
            ("==", Op::Equal),
            ("!=", Op::Unequal),
            ("<=", Op::LessOrEqual),
            (">=", Op::GreaterOrEqual),
            ("<", Op::Less),
            (">", Op::Greater),
        ];
        for (sign, op) in SIGNS {
            if self.sign(sign) {
                return Ok(Formula::Binary(op, a.into(), self.fallback()?.into()));
            }
        }
        if self.word("in") {
            return Ok(Formula::Binary(Op::In, a.into(), self.fallback()?.into()));
        }
        Ok(a)
    }

    fn fallback(&mut self) -> Result<Formula, Error> {
        let mut a = self.sum()?;
        while self.sign("??") {
            a = Formula::Binary(Op::Else, a.into(), self.sum()?.into());
        }
        Ok(a)
    }

    fn sum(&mut self) -> Result<Formula, Error> {
        let mut a = self.product()?;
        loop {
            let op = if self.sign("+") {
                Op::Add
            } else if self.sign("-") {
                Op::Subtract
            } else {
                return Ok(a);
            };
            a = Formula::Binary(op, a.into(), self.product()?.into());
        }
    }

    fn product(&mut self) -> Result<Formula, Error> {
        let mut a = self.signed()?;
        loop {
            let op = if self.sign("//") {
                Op::DivideDown
            } else if self.sign("/") {
                Op::Divide
            } else if self.sign("%") {
                Op::Remainder
            } else if !self.rest().trim_ascii_start().starts_with("**") && self.sign("*") {
                Op::Multiply
            } else {
                return Ok(a);
            };
            a = Formula::Binary(op, a.into(), self.signed()?.into());
        }
    }

    fn signed(&mut self) -> Result<Formula, Error> {
        if self.sign("-") {
            return Ok(match self.signed()? {
                Formula::Constant(Value::Number(n)) if n.is_i64() => Formula::Constant(json!(-n.as_i64().unwrap_or(0))),
                Formula::Constant(Value::Number(n)) => Formula::Constant(json!(-n.as_f64().unwrap_or(0.0))),
                other => Formula::Negative(other.into()),
            });
        }
        let base = self.present()?;
        if self.sign("**") {
            return Ok(Formula::Binary(Op::Power, base.into(), self.signed()?.into()));
        }
        Ok(base)
    }

    fn present(&mut self) -> Result<Formula, Error> {
        let first = self.member()?;
        let mut options = vec![first];
        while self.sign("|") {
            options.push(self.member()?);
        }
        match options.len() {
            1 => options.pop().map_or_else(|| self.wrong("a value"), Ok),
            _ => Ok(Formula::Present(options)),
        }
    }

    fn member(&mut self) -> Result<Formula, Error> {
        let mut a = self.atom()?;
        loop {
            if self.sign(".") {
                a = Formula::Member(a.into(), self.name()?);
            } else if self.sign("[") {
                let index = self.conditional()?;
                self.close("]")?;
                a = Formula::Index(a.into(), index.into());
            } else {
                return Ok(a);
            }
        }
    }

    fn close(&mut self, sign: &'static str) -> Result<(), Error> {
        if self.sign(sign) { Ok(()) } else { self.wrong(sign) }
    }

    fn atom(&mut self) -> Result<Formula, Error> {
        self.space();
        if self.sign("(") {
            let inner = self.conditional()?;
            self.close(")")?;
            return Ok(inner);
        }
        if self.sign("[") {
            return self.list();
        }
        if self.sign("{") {
            return self.object();
        }
        if self.rest().starts_with(['\'', '"']) {
            return Ok(Formula::Constant(Value::String(self.text()?)));
        }
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        if self.sign("@") {
            return Ok(Formula::Fact(self.name()?));
        }
        let name = self.name()?;
        Ok(match (name.as_str(), Function::of(name.as_bytes())) {
            ("true" | "True", _) => Formula::Constant(Value::Bool(true)),
            ("false" | "False", _) => Formula::Constant(Value::Bool(false)),
            ("null" | "None", _) => Formula::Constant(Value::Null),
            (_, Some(function)) if self.sign("(") => {
                let mut operands = vec![self.conditional()?];
                while self.sign(",") {
                    operands.push(self.conditional()?);
                }
                self.close(")")?;
                if operands.len() != function.arity() {
                    return self.wrong("another number of operands");
                }
                Formula::Call(function, operands)
            }
            _ => Formula::Name(name),
        })
    }

    fn text(&mut self) -> Result<String, Error> {
        let quote = self.rest().chars().next().unwrap_or('\'');
        let rest = self.rest().get(1..).unwrap_or_default();
        match rest.find(quote) {
            Some(end) => {
                self.at += end + 2;
                Ok(rest.get(..end).unwrap_or_default().to_owned())
            }
            None => self.wrong("a closing quotation mark"),
        }
    }

    fn number(&mut self) -> Result<Formula, Error> {
        let rest = self.rest();
        let mut end = 0;
        for (i, c) in rest.char_indices() {
            let sign_of_exponent = matches!(c, '-' | '+') && rest.get(..i).is_some_and(|t| t.ends_with(['e', 'E']));
            if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || sign_of_exponent) {
                break;
            }
            end = i + 1;
        }
        let text = rest.get(..end).unwrap_or_default();
        let value = match text.parse::<i64>() {
            Ok(n) => json!(n),
            Err(_) => match text.parse::<f64>() {
                Ok(x) => json!(x),
                Err(_) => return self.wrong("a number"),
            },
        };
        self.at += end;
        Ok(Formula::Constant(value))
    }

    fn list(&mut self) -> Result<Formula, Error> {
        if self.sign("]") {
            return Ok(Formula::List(Vec::new()));
        }
        let first = self.conditional()?;
        if self.word("for") {
            let name = self.name()?;
            let list = if self.word("in") { Some(Box::new(self.fallback()?)) } else { None };
            self.close("]")?;
            return Ok(Formula::Each(first.into(), name, list));
        }
        let mut items = vec![first];
        while self.sign(",") {
            items.push(self.conditional()?);
        }
        self.close("]")?;
        Ok(Formula::List(items))
    }

    fn object(&mut self) -> Result<Formula, Error> {
        let mut items = Vec::new();
        while !self.sign("}") {
            self.space();
            let name =
                if self.rest().starts_with('\'') { self.text()? } else { return self.wrong("a name in quotes") };
            self.close(":")?;
            items.push((name, self.conditional()?));
            if !self.sign(",") {
                self.close("}")?;
                break;
            }
        }
        Ok(Formula::Object(items))
    }
}
