//! Regular expressions of pre-tokenizers: the leftmost match, and the first alternative that matches, as in ECMAScript.
//!
//! The syntax: characters, `\r` `\n` `\t`, `\s` and `\S` (white space), `\d` (ASCII digits), `\p{L}` `\p{N}` `\p{P}` `\p{S}` `\p{M}` (categories),
//! `\p{Han}`; classes in brackets, of which `--` takes away what follows; groups, alternatives, `?` `*` `+` `{n}` `{n,m}`, `(?=` and `(?!`.
//! Patterns are constants of this crate, so everything else stands for itself.

use super::unicode::{self, Category};

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    ops: Vec<Op>,
    sets: Vec<Set>,
}

#[derive(Debug, Clone)]
enum Op {
    /// From `min` to `max` characters of a set, as many as possible.
    Run { set: usize, min: u32, max: u32 },
    /// Tries what follows, then the other place.
    Split { other: usize },
    /// Tries the other place, then what follows.
    Jump { to: usize },
    /// Whether what follows up to `end` matches here, or does not.
    Look { not: bool, end: usize },
    /// The end of the pattern or of a look-ahead.
    Match,
}

/// A set of characters.
#[derive(Debug, Clone, Default)]
struct Set {
    ascii: u128,
    negated: bool,
    items: Vec<Item>,
    without: Vec<Item>,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    Range(char, char),
    Category(Category),
    Space,
    NotSpace,
    Han,
}

impl Item {
    fn contains(self, c: char) -> bool {
        match self {
            Item::Range(from, to) => (from..=to).contains(&c),
            Item::Category(category) => unicode::category(c) == category,
            Item::Space => c.is_whitespace(),
            Item::NotSpace => !c.is_whitespace(),
            Item::Han => unicode::is_han(c),
        }
    }
}

impl Set {
    fn finish(mut self) -> Set {
        for b in 0u8..128 {
            self.ascii |= u128::from(self.contains_item(char::from(b))) << b;
        }
        self
    }

    fn contains_item(&self, c: char) -> bool {
        let any = |items: &[Item]| items.iter().any(|item| item.contains(c));
        (any(&self.items) && !any(&self.without)) != self.negated
    }

    fn contains(&self, c: char) -> bool {
        match u32::from(c) {
            n @ 0..128 => self.ascii >> n & 1 == 1,
            // White space beyond ASCII is like a vertical tab to the reference: it is in no range.
            _ if c.is_whitespace() => self.contains_item('\u{b}'),
            _ => self.contains_item(c),
        }
    }
}

/// What a search needs to go back: a place in the pattern, and positions in the text from `least` to `at`.
#[derive(Debug, Clone, Copy)]
struct Back {
    op: usize,
    at: usize,
    least: usize,
}

/// Memory of a search, to be used again.
#[derive(Debug, Default)]
pub(super) struct Memory {
    backs: Vec<Back>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Pattern {
        let mut parser = Parser { chars: text.chars().collect(), at: 0, ops: Vec::new(), sets: Vec::new() };
        parser.alternatives();
        parser.ops.push(Op::Match);
        Pattern { ops: parser.ops, sets: parser.sets }
    }

    /// The end of the match at a position.
    pub(super) fn match_at(&self, text: &str, at: usize, memory: &mut Memory) -> Option<usize> {
        self.run(text, 0, at, memory)
    }

    fn run(&self, text: &str, first: usize, start: usize, memory: &mut Memory) -> Option<usize> {
        let base = memory.backs.len();
        let (mut op, mut at) = (first, start);
        loop {
            let goes_on = match self.ops.get(op)? {
                Op::Match => {
                    memory.backs.truncate(base);
                    return Some(at);
                }
                Op::Run { set, min, max } => match self.take(text, at, *set, *min, *max) {
                    Some((least, end)) => {
                        if least < end {
                            memory.backs.push(Back { op: op + 1, at: end, least });
                        }
                        at = end;
                        op += 1;
                        true
                    }
                    None => false,
                },
                Op::Split { other } => {
                    memory.backs.push(Back { op: *other, at, least: at });
                    op += 1;
                    true
                }
                Op::Jump { to } => {
                    op = *to;
                    true
                }
                Op::Look { not, end } => {
                    let matches = self.run(text, op + 1, at, memory).is_some();
                    op = *end;
                    matches != *not
                }
            };
            if !goes_on {
                if memory.backs.len() == base {
                    return None;
                }
                let back = memory.backs.pop()?;
                op = back.op;
                at = back.at;
                if back.least < back.at {
                    // One character less.
                    at = text.get(..back.at)?.char_indices().next_back()?.0;
                    if back.least < at {
                        memory.backs.push(Back { at, ..back });
                    }
                }
            }
        }
    }

    /// Takes characters of a set: the position after the fewest and the most.
    fn take(&self, text: &str, at: usize, set: usize, min: u32, max: u32) -> Option<(usize, usize)> {
        let set = self.sets.get(set)?;
        let (mut n, mut end, mut least) = (0, at, at);
        for c in text.get(at..)?.chars() {
            if n == max || !set.contains(c) {
                break;
            }
            n += 1;
            end += c.len_utf8();
            if n <= min {
                least = end;
            }
        }
        (n >= min).then_some((least, end))
    }

    /// Cuts a text at the matches: gives the length of every match and of every text between them.
    pub(super) fn cut(&self, text: &str, memory: &mut Memory, mut piece: impl FnMut(usize)) {
        let (mut done, mut at) = (0, 0);
        while at < text.len() {
            match self.match_at(text, at, memory).filter(|end| *end > at) {
                Some(end) => {
                    if at > done {
                        piece(at - done);
                    }
                    piece(end - at);
                    (done, at) = (end, end);
                }
                None => at += text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8),
            }
        }
        if done < text.len() {
            piece(text.len() - done);
        }
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    ops: Vec<Op>,
    sets: Vec<Set>,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        let n = text.chars().count();
        let is_next = rest.len() >= n && text.chars().eq(rest.iter().take(n).copied());
        if is_next {
            self.at += n;
        }
        is_next
    }

    fn alternatives(&mut self) {
        let start = self.ops.len();
        self.sequence();
        if self.eat("|") {
            // split A; jump end; A's place is `start`.
            self.ops.insert(start, Op::Split { other: self.ops.len() + 2 });
            self.moved(start + 1, self.ops.len(), 1);
            let jump = self.ops.len();
            self.ops.push(Op::Match);
            self.alternatives();
            let end = self.ops.len();
            if let Some(op) = self.ops.get_mut(jump) {
                *op = Op::Jump { to: end };
            }
        }
    }

    /// Corrects the places in operations that moved.
    fn moved(&mut self, from: usize, to: usize, by: usize) {
        for op in self.ops.get_mut(from..to).unwrap_or_default() {
            match op {
                Op::Split { other: place } | Op::Jump { to: place } | Op::Look { end: place, .. } => *place += by,
                Op::Run { .. } | Op::Match => {}
            }
        }
    }

    fn sequence(&mut self) {
        while let Some(c) = self.peek().filter(|c| !matches!(c, '|' | ')')) {
            let start = self.ops.len();
            if c == '(' {
                self.group(start);
            } else {
                let set = self.set(c);
                self.sets.push(set.finish());
                let (min, max) = self.count().unwrap_or((1, 1));
                self.ops.push(Op::Run { set: self.sets.len() - 1, min, max });
            }
        }
    }

    fn group(&mut self, start: usize) {
        let look = match () {
            () if self.eat("(?=") => Some(false),
            () if self.eat("(?!") => Some(true),
            () if self.eat("(?:") => None,
            () => {
                self.at += 1;
                None
            }
        };
        if look.is_some() {
            self.ops.push(Op::Match);
        }
        self.alternatives();
        self.eat(")");
        if let Some(not) = look {
            self.ops.push(Op::Match);
            let end = self.ops.len();
            if let Some(op) = self.ops.get_mut(start) {
                *op = Op::Look { not, end };
            }
            return;
        }
        match self.count() {
            None => {}
            // split end; A
            Some((0, 1)) => {
                self.ops.insert(start, Op::Split { other: self.ops.len() + 1 });
                self.moved(start + 1, self.ops.len(), 1);
            }
            // split end; A; jump start
            Some(_) => {
                self.ops.insert(start, Op::Split { other: self.ops.len() + 2 });
                self.moved(start + 1, self.ops.len(), 1);
                self.ops.push(Op::Jump { to: start });
            }
        }
    }

    /// How often what precedes may occur. Groups have only `?` and `*`.
    fn count(&mut self) -> Option<(u32, u32)> {
        if self.eat("?") {
            return Some((0, 1));
        } else if self.eat("*") {
            return Some((0, u32::MAX));
        } else if self.eat("+") {
            return Some((1, u32::MAX));
        } else if !self.eat("{") {
            return None;
        }
        let min = self.number();
        let max = if self.eat(",") { self.number() } else { min };
        self.eat("}");
        Some((min, max))
    }

    fn number(&mut self) -> u32 {
        let mut n = 0u32;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            n = n.saturating_mul(10).saturating_add(digit);
            self.at += 1;
        }
        n
    }

    fn set(&mut self, c: char) -> Set {
        let mut set = Set::default();
        if c != '[' {
            set.items.push(self.item());
            return set;
        }
        self.at += 1;
        set.negated = self.eat("^");
        let mut is_without = false;
        while self.peek().is_some_and(|c| c != ']') {
            if self.eat("--") {
                is_without = true;
                continue;
            }
            let mut item = self.item();
            let is_range =
                self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']' && *c != '-');
            if let (Item::Range(from, _), true) = (item, is_range) {
                self.at += 1;
                if let Item::Range(to, _) = self.item() {
                    item = Item::Range(from, to);
                }
            }
            if is_without { set.without.push(item) } else { set.items.push(item) }
        }
        self.at += 1;
        set
    }

    fn item(&mut self) -> Item {
        const NAMES: [(&str, Item); 6] = [
            ("\\p{L}", Item::Category(Category::Letter)),
            ("\\p{N}", Item::Category(Category::Number)),
            ("\\p{P}", Item::Category(Category::Punctuation)),
            ("\\p{S}", Item::Category(Category::Symbol)),
            ("\\p{M}", Item::Category(Category::Mark)),
            ("\\p{Han}", Item::Han),
        ];
        if let Some((_, item)) = NAMES.iter().find(|(name, _)| self.eat(name)) {
            return *item;
        }
        let c = self.next();
        match (c, if c == '\\' { self.next() } else { c }) {
            ('\\', 's') => Item::Space,
            ('\\', 'S') => Item::NotSpace,
            ('\\', 'd') => Item::Range('0', '9'),
            ('\\', 'r') => Item::Range('\r', '\r'),
            ('\\', 'n') => Item::Range('\n', '\n'),
            ('\\', 't') => Item::Range('\t', '\t'),
            (_, c) => Item::Range(c, c),
        }
    }

    fn next(&mut self) -> char {
        let c = self.peek().unwrap_or('\0');
        self.at += 1;
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
        let (mut pieces, mut from) = (Vec::new(), 0);
        Pattern::new(pattern).cut(text, &mut Memory::default(), |len| {
            pieces.push(&text[from..from + len]);
            from += len;
        });
        pieces
    }

    #[test]
    fn patterns_match_as_in_ecmascript() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("a", "", &[]),
            ("ab|a", "aabb", &["a", "ab", "b"]),
            ("a|ab", "ab", &["a", "b"]),
            ("a|ab|c", "abc", &["a", "b", "c"]),
            ("(?:a|b)*c", "abacbb", &["abac", "bb"]),
            ("(?:ab)?a", "abaab", &["aba", "a", "b"]),
            ("x(?:a(?:b|c)?)*y", "xabaacyxy", &["xabaacy", "xy"]),
            ("a{2}", "aaa", &["aa", "a"]),
            ("a{1,2}b", "aaab", &["a", "aab"]),
            ("[a-c]+c", "abcab", &["abc", "ab"]),
            ("[^a-c\\n]", "ax\n", &["a", "x", "\n"]),
            ("[\\p{L}--a-z]+", "aÄZßz", &["a", "ÄZß", "z"]),
            ("\\s+(?!\\S)|\\s+", "a   b \u{a0}", &["a", "  ", " ", "b", " \u{a0}"]),
            ("[\t-\r]", "\u{3000}", &["\u{3000}"]),
            ("[　-。]", "　。", &["　", "。"]),
            ("(?=a)[ab]+", "bab", &["b", "ab"]),
            ("[\\[\\]\\-]+", "a[-]", &["a", "[-]"]),
            ("\\p{Han}+", "a漢字か", &["a", "漢字", "か"]),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(cut(pattern, text), *expected, "{pattern} {text}");
        }
    }

    #[test]
    fn long_texts_take_linear_time_and_no_stack() {
        let text = "ab ".repeat(1 << 18);
        assert_eq!(cut("\\p{L}\\p{M}*(?: ?\\p{L}\\p{M}*)*", &text).len(), 2);
        let spaces = " ".repeat(1 << 18) + "a";
        assert_eq!(cut("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", &spaces).len(), 3);
    }
}
