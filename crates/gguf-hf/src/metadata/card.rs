//! The model card: the YAML front matter of `README.md`, as `Metadata.load_model_card` of gguf-py reads it.
//!
//! That reader resolves plain scalars by YAML 1.1, in which `no` is a boolean and `1.10` a number. The same rules decide here whether a scalar
//! is a string, but its text is always kept as written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, LazyLock};

use fancy_regex::Regex;
use saphyr_parser::{Event, Parser, ScalarStyle};

/// The maximum size of front matter in bytes, number of nodes and nesting depth.
const MAX_BYTES: usize = 1 << 20;
const MAX_NODES: usize = 100_000;
const MAX_DEPTH: usize = 32;

/// The maximum number of base models or datasets. Cards in use name some dozens.
pub(super) const MAX_ORIGINS: usize = 1000;

/// The maximum number of bytes read from a README.
pub(super) const MAX_README: usize = MAX_BYTES + 16;

/// A value of the card.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Scalar(Scalar),
    List(Vec<Node>),
    /// In file order; for duplicate keys, the last value takes precedence.
    Map(Vec<(String, Node)>),
}

/// A scalar, as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Unquoted, so it may resolve to a type other than string.
    plain: bool,
}

/// Plain scalars that PyYAML's `SafeLoader` does not resolve to strings (resolver.py).
static NO_TEXT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\A(?:~|null|Null|NULL||<<|=|",
        r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF|",
        r"[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+|",
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|",
        r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}|",
        r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?",
        r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)\z"
    ))
    .ok()
});

impl Scalar {
    /// Whether it is a string and not a number, boolean, date or null.
    pub(crate) fn is_text(&self) -> bool {
        !self.plain || !NO_TEXT.as_ref().is_some_and(|r| r.is_match(&self.text).unwrap_or(false))
    }

    fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// The text for a string key; `None` for null. Numbers and other types are returned as written. The reference fails on them, except on false
    /// and zero, which it omits like an empty string.
    pub(crate) fn written(&self) -> Option<&str> {
        let falsy = ["no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", "0", "0.0"];
        match self {
            s if s.is_null() => None,
            s if s.plain && falsy.contains(&s.text.as_str()) => Some(""),
            s => Some(&s.text),
        }
    }
}

impl Node {
    /// The text of a scalar, as written; `None` for null and for non-scalars.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Node::Scalar(s) if !s.is_null() => Some(&s.text),
            _ => None,
        }
    }
}

/// The entries of the front matter.
#[derive(Debug, Default)]
pub(crate) struct Card(Vec<(String, Node)>);

impl Card {
    /// Reads the front matter of a README; empty if it has none.
    ///
    /// # Errors
    /// If the front matter is not a YAML mapping.
    pub(crate) fn parse(readme: &str) -> Result<Card, CardProblem> {
        let Some(yaml) = front_matter(readme) else { return Ok(Card::default()) };
        if yaml.len() > MAX_BYTES {
            return Err(CardProblem::TooLong { bytes: yaml.len(), max: MAX_BYTES });
        }
        match tree(&yaml)? {
            Some(Node::Map(map)) => Ok(Card(map)),
            _ => Err(CardProblem::NotAMapping),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The value of the first key that exists.
    pub(crate) fn first(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().find_map(|key| self.get(key))
    }
}

/// Why a model card cannot be read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CardProblem {
    /// The README is not UTF-8.
    NotUtf8 {
        /// The offset of the first invalid byte.
        at: usize,
    },
    /// The front matter is too large.
    TooLong {
        /// The size of the front matter in bytes.
        bytes: usize,
        /// The maximum size in bytes.
        max: usize,
    },
    /// The front matter is not a mapping.
    NotAMapping,
    /// The front matter is not valid YAML; contains the parser's message.
    Yaml(Arc<dyn StdError + Send + Sync>),
    /// An alias of a list or mapping.
    Alias {
        /// The line of the front matter, from 1.
        line: usize,
    },
    /// The end of a list or mapping without a start.
    EndWithoutStart {
        /// The line of the front matter, from 1.
        line: usize,
    },
    /// Lists and mappings are nested too deeply.
    TooDeep {
        /// The line of the front matter, from 1.
        line: usize,
        /// The maximum depth.
        max: usize,
    },
    /// A list of base models or datasets is too long.
    TooManyOrigins {
        /// The key.
        key: &'static str,
        /// The number of entries.
        found: usize,
        /// The maximum number of entries.
        max: usize,
    },
    /// There are too many values.
    TooManyValues {
        /// The line of the front matter, from 1.
        line: usize,
        /// The maximum number of values.
        max: usize,
    },
}

impl fmt::Display for CardProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardProblem::NotUtf8 { at } => write!(f, "not UTF-8 from byte {at} on"),
            CardProblem::TooLong { bytes, max } => {
                write!(f, "the front matter has {bytes} bytes; at most {max} are read")
            }
            CardProblem::NotAMapping => f.write_str("the front matter is not a mapping"),
            CardProblem::Yaml(e) => write!(f, "front matter: {e}"),
            CardProblem::Alias { line } => {
                write!(f, "front matter line {line}: only single values may be repeated by an alias")
            }
            CardProblem::EndWithoutStart { line } => write!(f, "front matter line {line}: an end without a start"),
            CardProblem::TooDeep { line, max } => {
                write!(f, "front matter line {line}: nested more than {max} levels deep")
            }
            CardProblem::TooManyOrigins { key, found, max } => {
                write!(f, "{key} lists {found} entries; at most {max} are read")
            }
            CardProblem::TooManyValues { line, max } => write!(f, "front matter line {line}: more than {max} values"),
        }
    }
}

impl StdError for CardProblem {}

/// The fields of a README's front matter whose values are scalars or lists of scalars, as written; empty without front matter.
///
/// ```
/// use gguf_hf::metadata::front_matter_fields;
///
/// let readme = "---\nlicense: mit\ntags:\n- text\n- small\n---\n# My Model\n";
/// let fields = front_matter_fields(readme)?;
/// assert_eq!(fields[0], ("license".into(), vec!["mit".into()]));
/// assert_eq!(fields[1], ("tags".into(), vec!["text".into(), "small".into()]));
/// # Ok::<(), gguf_hf::metadata::CardProblem>(())
/// ```
///
/// # Errors
/// If the front matter is not a YAML mapping.
pub fn front_matter_fields(readme: &str) -> Result<Vec<(String, Vec<String>)>, CardProblem> {
    let Some(yaml) = front_matter(readme) else { return Ok(Vec::new()) };
    if yaml.len() > MAX_BYTES {
        return Err(CardProblem::TooLong { bytes: yaml.len(), max: MAX_BYTES });
    }
    let fields = match tree(&yaml)? {
        Some(Node::Map(fields)) => fields,
        None => Vec::new(),
        Some(_) => return Err(CardProblem::NotAMapping),
    };
    let text = |node: Node| match node {
        Node::Scalar(scalar) => Some(scalar.text),
        _ => None,
    };
    let texts = |node| match node {
        Node::List(nodes) => nodes.into_iter().filter_map(text).collect(),
        node => text(node).into_iter().collect(),
    };
    Ok(fields.into_iter().map(|(key, node)| (key, texts(node))).collect())
}

/// The lines between a first line `---` and the next `---`, with the reference's two repairs: an unquoted `no` in a list is Norwegian and not a
/// boolean, and tabs become two spaces. `None` if the text does not start with such a line.
fn front_matter(readme: &str) -> Option<String> {
    let mut lines = split_lines(readme);
    if lines.next()? != "---" {
        return None;
    }
    let mut yaml = String::new();
    for line in lines.take_while(|line| *line != "---") {
        yaml.push_str(line);
        yaml.push('\n');
    }
    Some(yaml.replace("- no\n", "- \"no\"\n").replace('\t', "  "))
}

/// The lines of a text, split as by Python's `str.splitlines`.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    let is_end =
        |c: char| matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut rest = Some(text).filter(|t| !t.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let Some((at, end)) = text.char_indices().find(|(_, c)| is_end(*c)) else { return rest.take() };
        let (line, tail) = text.split_at_checked(at)?;
        let tail = tail.strip_prefix("\r\n").or_else(|| tail.strip_prefix(end)).unwrap_or("");
        rest = Some(tail).filter(|t| !t.is_empty());
        Some(line)
    })
}

/// A list or mapping that is not yet closed.
enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<Option<String>>),
}

/// Parses the first document of a YAML text, without recursion; `None` for an empty text.
fn tree(yaml: &str) -> Result<Option<Node>, CardProblem> {
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: HashMap<usize, Scalar> = HashMap::new();
    let mut nodes = 0usize;
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|e| CardProblem::Yaml(Arc::new(e)))?;
        let line = span.start.line() + 1;
        let node = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none_or(|t| t.suffix != "str");
                let scalar = Scalar { text: Cow::into_owned(text), plain };
                if anchor != 0 {
                    anchors.insert(anchor, scalar.clone());
                }
                Node::Scalar(scalar)
            }
            // An alias of a list could expand a short card without bound.
            Event::Alias(id) => match anchors.get(&id) {
                Some(scalar) => Node::Scalar(scalar.clone()),
                None => return Err(CardProblem::Alias { line }),
            },
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if open.len() > MAX_DEPTH {
                    return Err(CardProblem::TooDeep { line, max: MAX_DEPTH });
                }
                open.push(match event {
                    Event::SequenceStart(..) => Open::List(Vec::new()),
                    _ => Open::Map(Vec::new(), None),
                });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(list)) => Node::List(list),
                Some(Open::Map(map, _)) => Node::Map(map),
                None => return Err(CardProblem::EndWithoutStart { line }),
            },
            Event::DocumentEnd | Event::StreamEnd => break,
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
        };
        nodes += 1;
        if nodes > MAX_NODES {
            return Err(CardProblem::TooManyValues { line, max: MAX_NODES });
        }
        match open.last_mut() {
            None => return Ok(Some(node)),
            Some(Open::List(list)) => list.push(node),
            Some(Open::Map(map, key)) => match key.take() {
                None => *key = Some(node.text().map(str::to_owned)),
                // Non-string keys are never looked up.
                Some(None) => {}
                Some(Some(key)) => map.push((key, node)),
            },
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(yaml: &str) -> Card {
        Card::parse(&format!("---\n{yaml}\n---\n# Title\nkey: not this one\n")).unwrap()
    }

    fn texts(node: Option<&Node>) -> Vec<&str> {
        match node {
            Some(Node::List(list)) => list.iter().filter_map(Node::text).collect(),
            Some(node) => node.text().into_iter().collect(),
            None => Vec::new(),
        }
    }

    #[test]
    fn reads_what_model_cards_contain() {
        let card = card(
            "license: apache-2.0\nlanguage:\n- en\n- no\nlist: [a, 'b', \"c\"]\ntabbed:\tyes\ntext: |\n  two\n  lines\n\
             folded: >-\n  one\n  line\nbase: {name: X, n: 1}\nmodel-index:\n- name: a\n  results:\n  - task:\n      type: t\n\
             twice: 1\ntwice: 2",
        );
        assert_eq!(texts(card.get("license")), ["apache-2.0"]);
        assert_eq!(texts(card.get("language")), ["en", "no"]);
        assert_eq!(texts(card.get("list")), ["a", "b", "c"]);
        assert_eq!(texts(card.get("text")), ["two\nlines\n"]);
        assert_eq!(texts(card.get("folded")), ["one line"]);
        assert_eq!(texts(card.get("twice")), ["2"]);
        assert!(matches!(card.get("base"), Some(Node::Map(m)) if m.len() == 2));
        assert!(card.get("key").is_none());
    }
}
