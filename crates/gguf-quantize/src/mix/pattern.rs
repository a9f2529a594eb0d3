//! Regular expressions on tensor names: `std::regex_search` with the ECMAScript grammar, as in `llama-quantize`.
//!
//! Only whether a pattern matches is needed, so captures are not kept, and the time is bounded by the length of the pattern times that of
//! the name. Back-references, which are incompatible with that bound, are rejected; lookaheads are supported.

use core::fmt;

/// The maximum nesting depth of groups.
const MAX_DEPTH: usize = 64;

/// The maximum number of steps of a pattern; counted repetitions are expanded.
const MAX_STEPS: usize = 4096;

/// The error for a pattern with more steps.
const TOO_LONG: &str = "the pattern is too long, with its repetitions written out";

/// A regular expression, in lower case.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    steps: Vec<Step>,
    /// Whether there are lookaheads.
    looks: bool,
}

/// One step of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Matches one byte of this set.
    Byte(Box<Set>),
    /// Continues at both steps.
    Fork(usize, usize),
    Go(usize),
    Start,
    End,
    /// At a word boundary, or not at one.
    Edge(bool),
    /// A lookahead, positive or negative, up to the step at `end`, where the search continues.
    Look {
        found: bool,
        end: usize,
    },
    Found,
}

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Set([u64; 4]);

impl Set {
    fn add(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte / 64)) {
            *word |= 1 << (byte % 64);
        }
    }

    fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte / 64)).is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    fn of(holds: impl Fn(u8) -> bool) -> Set {
        let mut set = Set::default();
        (0..=u8::MAX).filter(|&b| holds(b)).for_each(|b| set.add(b));
        set
    }

    fn join(&mut self, other: Set) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    fn others(&self) -> Set {
        Set(self.0.map(|word| !word))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The sets of `\d`, `\s` and `\w`, and their complements for capital letters.
fn named_set(letter: u8) -> Option<Set> {
    let set = match letter.to_ascii_lowercase() {
        b'd' => Set::of(|b| b.is_ascii_digit()),
        b's' => Set::of(|b| b.is_ascii_whitespace() || b == 0x0b),
        b'w' => Set::of(is_word),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { set.others() } else { set })
}

/// An error in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// The byte offset.
    pub at: usize,
    /// A description.
    pub what: &'static str,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid pattern `{}` at byte {}: {}", self.pattern.escape_debug(), self.at, self.what)
    }
}

impl core::error::Error for PatternError {}

impl PatternError {
    /// Whether the length is the only error.
    pub fn is_too_long(&self) -> bool {
        self.what == TOO_LONG
    }
}

impl Pattern {
    /// Parses a pattern. Capital letters are converted to lower case, except in character classes with a backslash.
    ///
    /// # Errors
    /// The first error in the pattern.
    pub fn new(text: &str) -> Result<Pattern, PatternError> {
        let mut reader = Reader { text: text.as_bytes(), at: 0, steps: Vec::new() };
        let read = reader.alternatives(0).and_then(|()| match reader.peek() {
            None => reader.push(Step::Found),
            Some(_) => Err("unmatched `)`"),
        });
        match read {
            Ok(()) => {
                let looks = reader.steps.iter().any(|step| matches!(step, Step::Look { .. }));
                Ok(Pattern { text: text.to_owned(), steps: reader.steps, looks })
            }
            Err(what) => Err(PatternError { pattern: super::cut(text), at: reader.at, what }),
        }
    }

    /// Whether the pattern matches anywhere in the name.
    pub fn finds(&self, name: &[u8]) -> bool {
        let width = name.len() + 1;
        let size = self.steps.len() * width;
        let looks = if self.looks { vec![None; size] } else { Vec::new() };
        let mut search = Search { steps: &self.steps, name, width, looks, been: vec![0; size] };
        // A pattern anchored to the start of the name is only tried there.
        let n_starts = if matches!(self.steps.first(), Some(Step::Start)) { 1 } else { width };
        (0..n_starts).any(|start| search.run(0, start, 1, 0))
    }

    /// Number of steps, each taken at most once for each byte of a name.
    pub(super) fn n_steps(&self) -> u64 {
        self.steps.len() as u64
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A search in one name.
struct Search<'p> {
    steps: &'p [Step],
    name: &'p [u8],
    width: usize,
    /// The results of lookaheads, by step and position.
    looks: Vec<Option<bool>>,
    /// The last run in which each step was tried at each position.
    been: Vec<u32>,
}

impl Search<'_> {
    /// Whether the search that starts at a step and a position succeeds. Runs with the same number share their visited states.
    fn run(&mut self, step: usize, place: usize, number: u32, depth: u32) -> bool {
        let mut open = vec![(step, place)];
        while let Some((step, place)) = open.pop() {
            let Some(been) = self.been.get_mut(step * self.width + place) else { continue };
            if std::mem::replace(been, number) == number {
                continue;
            }
            let before = place.checked_sub(1).and_then(|i| self.name.get(i));
            let here = self.name.get(place);
            match self.steps.get(step) {
                Some(Step::Byte(set)) => {
                    if here.is_some_and(|&b| set.has(b)) {
                        open.push((step + 1, place + 1));
                    }
                }
                Some(&Step::Fork(a, b)) => open.extend([(b, place), (a, place)]),
                Some(&Step::Go(a)) => open.push((a, place)),
                Some(Step::Start) if before.is_none() => open.push((step + 1, place)),
                Some(Step::End) if here.is_none() => open.push((step + 1, place)),
                Some(&Step::Edge(edge)) => {
                    let word = |b: Option<&u8>| b.is_some_and(|&b| is_word(b));
                    if (word(before) != word(here)) == edge {
                        open.push((step + 1, place));
                    }
                }
                Some(&Step::Look { found, end }) => {
                    if self.look(step, place, depth) == found {
                        open.push((end, place));
                    }
                }
                Some(Step::Found) => return true,
                Some(Step::Start | Step::End) | None => {}
            }
        }
        false
    }

    /// The result of a lookahead, computed once for each position.
    fn look(&mut self, step: usize, place: usize, depth: u32) -> bool {
        let at = step * self.width + place;
        if let Some(Some(known)) = self.looks.get(at) {
            return *known;
        }
        // The steps of a lookahead are only visited by its own runs, each of which starts at another position.
        let number = u32::try_from(place).unwrap_or(u32::MAX - 2) + 2;
        let found = self.run(step + 1, place, number, depth + 1);
        if let Some(look) = self.looks.get_mut(at) {
            *look = Some(found);
        }
        found
    }
}

/// Parses a pattern and emits its steps. The grammar, including repeated quantifiers, is that of GNU's `std::regex`.
struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    steps: Vec<Step>,
}

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).map(u8::to_ascii_lowercase)
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(what.as_bytes()));
        self.at += if found { what.len() } else { 0 };
        found
    }

    fn push(&mut self, step: Step) -> Read<()> {
        if self.steps.len() >= MAX_STEPS {
            return Err(TOO_LONG);
        }
        self.steps.push(step);
        Ok(())
    }

    /// Emits a copy of steps that started at `from`.
    fn copy(&mut self, steps: &[Step], from: usize) -> Read<()> {
        let to = self.steps.len();
        for step in steps {
            let moved = |target: usize| target - from + to;
            self.push(match step {
                Step::Fork(a, b) => Step::Fork(moved(*a), moved(*b)),
                Step::Go(a) => Step::Go(moved(*a)),
                Step::Look { found, end } => Step::Look { found: *found, end: moved(*end) },
                other => other.clone(),
            })?;
        }
        Ok(())
    }

    fn alternatives(&mut self, depth: usize) -> Read<()> {
        if depth > MAX_DEPTH {
            return Err("groups are nested too deep");
        }
        let start = self.steps.len();
        self.sequence(depth)?;
        if !self.eat("|") {
            return Ok(());
        }
        let first = self.steps.split_off(start);
        let second = start + 1 + first.len() + 1;
        self.push(Step::Fork(start + 1, second))?;
        self.copy(&first, start)?;
        self.push(Step::Go(0))?;
        // Alternatives of one group are chained, not nested.
        self.alternatives_after(second - 1, depth)
    }

    /// The alternatives after the first; each ends in a jump to the common end.
    fn alternatives_after(&mut self, mut jump: usize, depth: usize) -> Read<()> {
        let mut jumps = vec![jump];
        loop {
            let start = self.steps.len();
            self.sequence(depth)?;
            if !self.eat("|") {
                break;
            }
            let alternative = self.steps.split_off(start);
            self.push(Step::Fork(start + 1, start + alternative.len() + 2))?;
            self.copy(&alternative, start)?;
            jump = self.steps.len();
            self.push(Step::Go(0))?;
            jumps.push(jump);
        }
        let end = self.steps.len();
        for jump in jumps {
            if let Some(step) = self.steps.get_mut(jump) {
                *step = Step::Go(end);
            }
        }
        Ok(())
    }

    fn sequence(&mut self, depth: usize) -> Read<()> {
        while !matches!(self.peek(), None | Some(b'|' | b')')) {
            if self.assertion(depth)? {
                continue;
            }
            let start = self.steps.len();
            self.atom(depth)?;
            while let Some((least, most)) = self.quantifier()? {
                self.repeat(start, least, most)?;
            }
        }
        Ok(())
    }

    /// Parses a zero-width assertion, if there is one here.
    fn assertion(&mut self, depth: usize) -> Read<bool> {
        let step = match () {
            () if self.eat("^") => Step::Start,
            () if self.eat("$") => Step::End,
            () if self.eat("\\b") => Step::Edge(true),
            () if self.eat("\\B") => Step::Edge(false),
            () => {
                let found = self.eat("(?=");
                if !found && !self.eat("(?!") {
                    return Ok(false);
                }
                let look = self.steps.len();
                self.push(Step::Look { found, end: 0 })?;
                self.alternatives(depth + 1)?;
                self.close()?;
                self.push(Step::Found)?;
                let behind = self.steps.len();
                if let Some(Step::Look { end, .. }) = self.steps.get_mut(look) {
                    *end = behind;
                }
                return Ok(true);
            }
        };
        self.push(step)?;
        Ok(true)
    }

    fn close(&mut self) -> Read<()> {
        if self.eat(")") { Ok(()) } else { Err("unmatched `(`") }
    }

    fn atom(&mut self, depth: usize) -> Read<()> {
        let set = match self.peek() {
            Some(b'(') => {
                if !self.eat("(?:") {
                    if self.eat("(?") {
                        return Err("`(?` must be followed by `:`, `=` or `!`");
                    }
                    self.at += 1;
                }
                self.alternatives(depth + 1)?;
                return self.close();
            }
            Some(b'*' | b'+' | b'?' | b'{') => {
                return Err("there is nothing to repeat; escape it with `\\` to match it literally");
            }
            Some(b'.') => {
                self.at += 1;
                Set::of(|b| b != b'\n' && b != b'\r')
            }
            Some(b'[') => {
                self.at += 1;
                self.bracket()?
            }
            Some(b'\\') => {
                self.at += 1;
                match self.escape(false)? {
                    Item::Set(set) => set,
                    Item::Byte(byte) => Set::of(|b| b == byte),
                }
            }
            Some(byte) => {
                self.at += 1;
                Set::of(|b| b == byte)
            }
            None => return Ok(()),
        };
        self.push(Step::Byte(Box::new(set)))
    }

    /// Parses an escape sequence after its backslash.
    fn escape(&mut self, in_bracket: bool) -> Read<Item> {
        let written = self.text.get(self.at).copied().unwrap_or(0);
        let Some(letter) = self.next() else { return Err("nothing follows the `\\`") };
        if let Some(set) = named_set(written) {
            return Ok(Item::Set(set));
        }
        Ok(Item::Byte(match letter {
            b'0' => 0,
            b'b' if in_bracket => 8,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'x' => self.hex(2)?,
            b'u' => self.hex(4)?,
            b'c' => return Err("tensor names have no control characters"),
            b'1'..=b'9' => return Err("references to groups are not supported"),
            other => other,
        }))
    }

    fn hex(&mut self, n: usize) -> Read<u8> {
        const WRONG: &str = "two digits must follow `\\x`, four `\\u`, of a number up to 255";
        let mut number = 0u32;
        for _ in 0..n {
            let digit = self.next().and_then(|b| char::from(b).to_digit(16)).ok_or(WRONG)?;
            number = number * 16 + digit;
        }
        u8::try_from(number).map_err(|_| WRONG)
    }

    /// Parses a bracket expression after its `[`.
    fn bracket(&mut self) -> Read<Set> {
        const OPEN: &str = "unmatched `[`";
        let negated = self.eat("^");
        let mut set = Set::default();
        // The last byte, which a dash may turn into the start of a range.
        let mut last: Option<u8> = None;
        loop {
            let item = match self.next() {
                None => return Err(OPEN),
                Some(b']') => break,
                Some(b'-') if !matches!(self.peek(), Some(b']')) && last.is_some() => {
                    let first = last.take().unwrap_or_default();
                    let end = match self.next() {
                        None => return Err(OPEN),
                        Some(b'\\') => self.escape(true)?,
                        Some(b'[') => self.class()?,
                        Some(byte) => Item::Byte(byte),
                    };
                    let Item::Byte(end) = end else { return Err("a range must end in a character") };
                    if end < first {
                        return Err("the range is reversed");
                    }
                    set.join(Set::of(|b| (first..=end).contains(&b)));
                    continue;
                }
                Some(b'\\') => self.escape(true)?,
                Some(b'[') => self.class()?,
                Some(byte) => Item::Byte(byte),
            };
            match item {
                Item::Set(class) => {
                    if self.peek() == Some(b'-') && self.text.get(self.at + 1) != Some(&b']') {
                        return Err("a range must start with a character");
                    }
                    set.join(class);
                    last = None;
                }
                Item::Byte(byte) => {
                    set.add(byte);
                    last = Some(byte);
                }
            }
        }
        Ok(if negated { set.others() } else { set })
    }

    /// Parses a named class such as `[:digit:]` after its `[`; otherwise the `[` is literal.
    fn class(&mut self) -> Read<Item> {
        match self.peek() {
            Some(b':') => {}
            Some(b'.' | b'=') => return Err("only classes such as `[:digit:]` are supported here"),
            _ => return Ok(Item::Byte(b'[')),
        }
        self.at += 1;
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphabetic()) {
            self.at += 1;
        }
        let name = self.text.get(start..self.at).unwrap_or_default().to_ascii_lowercase();
        let holds: fn(u8) -> bool = match name.as_slice() {
            b"alnum" => |b| b.is_ascii_alphanumeric(),
            b"alpha" => |b| b.is_ascii_alphabetic(),
            b"blank" => |b| b == b' ' || b == b'\t',
            b"cntrl" => |b| b.is_ascii_control(),
            b"d" | b"digit" => |b| b.is_ascii_digit(),
            b"graph" => |b| b.is_ascii_graphic(),
            b"lower" => |b| b.is_ascii_lowercase(),
            b"print" => |b| b.is_ascii_graphic() || b == b' ',
            b"punct" => |b| b.is_ascii_punctuation(),
            b"s" | b"space" => |b| b.is_ascii_whitespace() || b == 0x0b,
            b"upper" => |b| b.is_ascii_uppercase(),
            b"w" => is_word,
            b"xdigit" => |b| b.is_ascii_hexdigit(),
            _ => {
                return Err(
                    "unknown class; expected alnum, alpha, digit, lower, punct, space, upper, xdigit and others",
                );
            }
        };
        if !self.eat(":]") {
            return Err("unmatched `[:`");
        }
        Ok(Item::Set(Set::of(holds)))
    }

    /// Parses the quantifier of the previous atom, if any; unlimited if the maximum is `None`.
    fn quantifier(&mut self) -> Read<Option<(usize, Option<usize>)>> {
        let bounds = match self.peek() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => {
                self.at += 1;
                let bounds = self.braces()?;
                self.eat("?");
                return Ok(Some(bounds));
            }
            _ => return Ok(None),
        };
        self.at += 1;
        // Greedy or lazy: both match.
        self.eat("?");
        Ok(Some(bounds))
    }

    fn braces(&mut self) -> Read<(usize, Option<usize>)> {
        const WRONG: &str = "expected `{2}`, `{2,}` or `{2,5}`";
        let least = self.number()?.ok_or(WRONG)?;
        let most = match self.eat(",") {
            true => self.number()?,
            false => Some(least),
        };
        match (self.eat("}"), most) {
            (false, _) => Err(WRONG),
            (true, Some(most)) if most < least => Err("the larger count must come last"),
            (true, most) => Ok((least, most)),
        }
    }

    fn number(&mut self) -> Read<Option<usize>> {
        let mut number = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            self.at += 1;
            let value = number.unwrap_or(0usize) * 10 + usize::from(digit - b'0');
            if value > 1000 {
                return Err("more than 1000 repetitions");
            }
            number = Some(value);
        }
        Ok(number)
    }

    /// Repeats the steps starting at `start`.
    fn repeat(&mut self, start: usize, least: usize, most: Option<usize>) -> Read<()> {
        let atom = self.steps.split_off(start);
        for _ in 0..least {
            self.copy(&atom, start)?;
        }
        match most {
            None => {
                let fork = self.steps.len();
                self.push(Step::Fork(fork + 1, fork + atom.len() + 2))?;
                self.copy(&atom, start)?;
                self.push(Step::Go(fork))?;
            }
            Some(most) => {
                let optional = most.saturating_sub(least);
                let end = self.steps.len() + optional.saturating_mul(atom.len() + 1);
                for _ in 0..optional {
                    let fork = self.steps.len();
                    self.push(Step::Fork(fork + 1, end))?;
                    self.copy(&atom, start)?;
                }
            }
        }
        Ok(())
    }
}

/// An element of a set.
enum Item {
    Byte(u8),
    Set(Set),
}
