//! `gguf get`: prints the values of keys, for scripts.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use gguf_format::{Gguf, KvRef, Str, ValueRef, keys};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::cmd::{offset, stdin_model, within};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::{self, Shown};
use crate::open;
use crate::stdin::is_stdin;
use crate::text;
use crate::ui::{Column, Style, Table, Ui, visible};

pub mod chat;

/// Number of indented JSON levels: each key has its own line.
const LEVELS: usize = 2;

/// Print the values of metadata keys.
///
/// Strings are printed byte for byte and arrays with one element per line. Control characters are escaped on a
/// terminal. With several keys, or a pattern, each line starts with the key and a tab, and line breaks in values are
/// escaped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf get model.gguf general.architecture
  gguf get model.gguf tokenizer.chat_template > template.jinja
  gguf get model.gguf tokenizer.ggml.tokens --index 42
  gguf get model.gguf 'llama.*' --json
  gguf get model.gguf --render-chat messages.json")]
pub struct Args {
    /// GGUF file
    file: PathBuf,

    /// Keys to print; * matches any characters and ? one character
    #[arg(required_unless_present = "render_chat", value_name = "KEY")]
    keys: Vec<String>,

    /// Print the prompt that the chat template makes of a conversation: a JSON list of messages, or an object with
    /// messages, tools and other variables of the template; - for standard input. KEY names another template,
    /// such as tool_use
    #[arg(long, value_name = "MESSAGES", conflicts_with_all = ["json", "only_type", "index"])]
    render_chat: Option<PathBuf>,

    /// With --render-chat, end the prompt with the start of the model's answer
    #[arg(long, requires = "render_chat")]
    add_generation_prompt: bool,

    /// Print JSON with an object of keys and values; 64-bit integers are exact
    #[arg(long)]
    json: bool,

    /// Print the type instead of the value, such as u32 or string[32000]
    #[arg(long = "type", conflicts_with = "json")]
    only_type: bool,

    /// Print one element of an array, counted from 0
    #[arg(short, long, value_name = "I", conflicts_with = "only_type")]
    index: Option<u64>,

    /// Byte offset at which the GGUF starts in the file (0x for hexadecimal)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true, value_parser = offset)]
    at: u64,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let file = if is_stdin(&self.file) {
            stdin_model(self.at)?
        } else {
            within(&self.file, self.at)?;
            open::file(&self.file, self.at)?
        };
        let gguf = file.gguf();
        if let Some(messages) = &self.render_chat {
            let key = match self.keys.as_slice() {
                [] => None,
                [key] => Some(key.as_str()),
                _ => return Err(Failure::CouldNotRun("--render-chat takes one template".to_owned())),
            };
            return chat::print(ui, &self.file, gguf, key, messages, self.add_generation_prompt);
        }
        let mut verdict = Verdict::Good;
        let mut found: Vec<(Str<'_>, ValueRef<'_>)> = Vec::new();
        let mut failures = Vec::new();
        for key in &self.keys {
            let before = found.len();
            found.extend(gguf.kvs().filter(|kv| matches(key, kv.key)).map(|kv: KvRef<'_>| (kv.key, kv.value)));
            if !is_pattern(key) {
                // Readers use the first of duplicate keys.
                found.truncate(before + 1);
            }
            if found.len() == before {
                failures.push(missing(&self.file, gguf, key));
            }
        }
        if let Some(index) = self.index {
            let mut elements = Vec::with_capacity(found.len());
            for (key, value) in found {
                match element(value, index) {
                    Ok(element) => elements.push((key, element)),
                    Err(problem) => failures.push(bad(&self.file, &format!("{key}: {problem}"))),
                }
            }
            found = elements;
        }
        for failure in &failures {
            ui.error(failure);
            verdict = Verdict::Bad;
        }
        let several = self.keys.len() > 1 || self.keys.iter().any(|key| is_pattern(key));
        match (several, self.json) {
            (_, true) => {
                let errors = failures.iter().map(json::Error).collect();
                json::print(ui, LEVELS, &Document { path: json::path(&self.file), values: ByKey(&found), errors })?;
            }
            (true, false) => self.lines(ui, &found)?,
            (false, false) => {
                for &(_, value) in &found {
                    self.single(ui, value)?;
                }
            }
        }
        Ok(verdict)
    }

    /// Prints the value of the single requested key.
    fn single(&self, ui: &mut Ui, value: ValueRef<'_>) -> std::io::Result<()> {
        if self.only_type {
            return writeln!(ui.out, "{}", text::type_name(value));
        }
        match value {
            ValueRef::Array(array) => array.iter().try_for_each(|v| raw(ui, v)),
            value => raw(ui, value),
        }
    }

    /// Prints keys and values side by side.
    fn lines(&self, ui: &mut Ui, found: &[(Str<'_>, ValueRef<'_>)]) -> std::io::Result<()> {
        let mut table = Table::new([Column::name("KEY").styled(Style::Cyan), Column::text("VALUE")]);
        for &(key, value) in found {
            let mut line = |shown: String| match ui.is_terminal() {
                true => {
                    table.row([key.to_string(), shown]);
                    Ok(())
                }
                false => writeln!(ui.out, "{key}\t{shown}"),
            };
            match value {
                _ if self.only_type => line(text::type_name(value))?,
                ValueRef::Array(array) => array.iter().try_for_each(|v| line(text::value(v, None)))?,
                value => line(text::value(value, None))?,
            }
        }
        if ui.is_terminal() { table.print(ui, 0) } else { Ok(()) }
    }
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    path: json::Text<'a>,
    values: ByKey<'a>,
    /// The keys without a value, and the reasons.
    errors: Vec<json::Error<'a>>,
}

/// An object of keys and values. If a key is duplicated, the first value is used, as readers do.
struct ByKey<'a>(&'a [(Str<'a>, ValueRef<'a>)]);

impl Serialize for ByKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        let mut seen = HashSet::new();
        for &(key, value) in self.0 {
            if seen.insert(key) {
                object.serialize_entry(&key.to_string_lossy(), &Shown { value, full: true })?;
            }
        }
        object.end()
    }
}

/// Prints a value and a line break. Control characters are escaped only on a terminal.
fn raw(ui: &mut Ui, value: ValueRef<'_>) -> std::io::Result<()> {
    match value {
        ValueRef::String(s) if ui.is_terminal() => writeln!(ui.out, "{}", visible(s.as_bytes())),
        ValueRef::String(s) => {
            ui.out.write_all(s.as_bytes())?;
            writeln!(ui.out)
        }
        value => writeln!(ui.out, "{}", text::value(value, None)),
    }
}

/// An element of an array.
fn element(value: ValueRef<'_>, index: u64) -> Result<ValueRef<'_>, String> {
    match value {
        ValueRef::Array(array) => array
            .get(index)
            .ok_or_else(|| format!("index {index} is out of range; the array has {} elements", array.len())),
        value => Err(format!("expected an array for --index, found {}", value.value_type())),
    }
}

fn is_pattern(key: &str) -> bool {
    key.contains(['*', '?'])
}

/// Whether a key matches a pattern, in which `*` stands for any bytes and `?` for one byte. Backtracks only to the last `*`, so the time is
/// bounded by the product of the lengths.
///
/// Keys with bytes that are not printed as they are, such as those outside UTF-8, also match as they are printed: `\x8d`.
pub fn matches(pattern: &str, key: Str<'_>) -> bool {
    matches_bytes(pattern.as_bytes(), key.as_bytes())
        || pattern.contains('\\') && matches_bytes(pattern.as_bytes(), key.to_string().as_bytes())
}

fn matches_bytes(pattern: &[u8], key: &[u8]) -> bool {
    let (mut p, mut k) = (0, 0);
    let mut star = None;
    while let Some(&byte) = key.get(k) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, k));
                p += 1;
            }
            Some(&c) if c == byte || c == b'?' => {
                p += 1;
                k += 1;
            }
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, k) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|&c| c == b'*'))
}

fn bad(path: &std::path::Path, message: &str) -> Failure {
    Failure::Bad(format!("{}: {message}", path.display()))
}

/// The failure for a missing key, with a similar key as a suggestion.
fn missing(path: &std::path::Path, gguf: &Gguf<'_>, key: &str) -> Failure {
    if is_pattern(key) {
        return bad(path, &format!("no key matches {key}; `gguf show --kv` lists all keys"));
    }
    let near = gguf_io::nearest(key, gguf.kvs().map(|kv| kv.key));
    let shard = gguf.get_as::<u64>(keys::SPLIT_NO).unwrap_or(0);
    let hint = match (near.is_empty(), shard) {
        (_, 1..) => format!("; this is shard {} of a split model, whose metadata is in the first shard", shard + 1),
        (false, _) => format!("; did you mean {}?", near.join(" or ")),
        (true, _) => "; `gguf show --kv` lists all keys".to_owned(),
    };
    bad(path, &format!("there is no key {key}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, key, expected) in [
            ("llama.*", "llama.block_count", true),
            ("*", "", true),
            ("*.ggml.*", "tokenizer.ggml.tokens", true),
            ("*a*b", "xaab", true),
            ("*a*b", "xaabc", false),
            ("a?c", "abc", true),
            ("a?", "a", false),
            ("abc", "abcd", false),
            ("", "a", false),
            (r"a\n?", "a\nb", true),
        ] {
            assert_eq!(matches(pattern, Str(key.as_bytes())), expected, "{pattern} {key}");
        }
        assert!(matches(r"a\x8d*", Str(b"a\x8db")) && !matches(r"a\x8e*", Str(b"a\x8db")));
    }

    #[test]
    fn elements() {
        let array: gguf_format::Array = (5u32..8).collect();
        let v = ValueRef::Array(array.as_ref());
        assert_eq!(element(v, 2), Ok(ValueRef::U32(7)));
        assert!(element(v, 3).unwrap_err().contains("3 elements"));
        assert!(element(ValueRef::U8(1), 0).unwrap_err().contains("u8"));
    }
}
