//! The terminal: its width, its colours, and output to it.
//!
//! Text from files is already escaped when it is passed to this module ([`gguf_format::Str`] and the `shown` function of findings
//! do that). Error messages are escaped again here, because paths may come from folders that others can write to.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stderr, Stdout, Write};
use std::path::Path;

use gguf_format::Str;
use unicode_width::UnicodeWidthChar;

use crate::failure::Failure;

mod number;
mod progress;
mod table;

pub use gguf_format::check::grouped;
pub use gguf_io::shown_path;
pub use number::{bits_per_weight, count, digits, duration, number, percent, rate, rounded, share, size};
pub use progress::ProgressLine;
pub use table::{Column, Table};

/// A text style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Yellow,
    Green,
    Cyan,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "\x1b[1m",
            Style::Dim => "\x1b[2m",
            Style::Red => "\x1b[1;31m",
            Style::Yellow => "\x1b[1;33m",
            Style::Green => "\x1b[1;32m",
            Style::Cyan => "\x1b[36m",
        }
    }
}

/// Text with a style, which is applied only if colour is enabled.
struct Painted<T>(T, Style, bool);

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.1, self.2) {
            (Style::Plain, _) | (_, false) => write!(f, "{}", self.0),
            (style, true) => write!(f, "{}{}\x1b[0m", style.code(), self.0),
        }
    }
}

/// Standard output and standard error, and their capabilities.
#[derive(Debug)]
pub struct Ui {
    /// Standard output, buffered.
    pub out: BufWriter<Stdout>,
    err: Stderr,
    /// Width of standard output in columns; `None` if it is not a terminal and nothing is cut.
    pub width: Option<usize>,
    /// The name and version of the requested JSON schema; taken when the JSON is printed.
    pub schema: Option<String>,
    out_colour: bool,
    err_colour: bool,
}

impl Ui {
    /// Detects the capabilities of both streams, and reads `NO_COLOR` and `TERM`.
    pub fn new() -> Ui {
        let (out, err) = (io::stdout(), io::stderr());
        let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && !is_dumb();
        Ui {
            width: out.is_terminal().then(|| width_of(terminal_size::terminal_size_of(&out))),
            schema: None,
            out_colour: colour && out.is_terminal(),
            err_colour: colour && err.is_terminal(),
            out: BufWriter::with_capacity(64 << 10, out),
            err,
        }
    }

    /// Whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// Styles text for standard output.
    pub fn paint<T: fmt::Display>(&self, text: T, style: Style) -> impl fmt::Display + use<T> {
        Painted(text, style, self.out_colour)
    }

    /// Styles text for standard error.
    pub fn paint_err<T: fmt::Display>(&self, text: T, style: Style) -> impl fmt::Display + use<T> {
        Painted(text, style, self.err_colour)
    }

    /// Formats a number of bytes for a table: rounded on a terminal, exact otherwise.
    pub fn bytes(&self, n: u64) -> String {
        if self.is_terminal() { size(n) } else { n.to_string() }
    }

    /// Writes a path and a line break. The path is escaped on a terminal, and unchanged otherwise.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print_path(&mut self, path: &Path) -> io::Result<()> {
        if self.is_terminal() {
            return writeln!(self.out, "{}", shown_path(path));
        }
        self.out.write_all(path.as_os_str().as_encoded_bytes())?;
        writeln!(self.out)
    }

    /// Writes a hash and a path in the format of `sha256sum`: if the path contains line breaks or backslashes, they are escaped, and the line
    /// starts with a backslash.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print_hash(&mut self, hash: &str, path: &Path) -> io::Result<()> {
        let bytes = path.as_os_str().as_encoded_bytes();
        if self.is_terminal() || !bytes.iter().any(|byte| b"\\\n\r".contains(byte)) {
            write!(self.out, "{hash}  ")?;
            return self.print_path(path);
        }
        write!(self.out, "\\{hash}  ")?;
        for byte in bytes {
            match byte {
                b'\\' => self.out.write_all(b"\\\\")?,
                b'\n' => self.out.write_all(b"\\n")?,
                b'\r' => self.out.write_all(b"\\r")?,
                byte => self.out.write_all(&[*byte])?,
            }
        }
        writeln!(self.out)
    }

    /// Writes a path as a title. The middle is cut out if the path is too long.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn title(&mut self, path: &Path) -> io::Result<()> {
        let path = shown_path(path);
        let title = self.paint(cut_middle(&path, self.width.unwrap_or(usize::MAX)), Style::Bold);
        writeln!(self.out, "{title}")
    }

    /// Writes a label and its text, wrapped to as many lines as needed. The text must be escaped already.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn field(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        let indent = text_width(label);
        let columns = self.width.map_or(usize::MAX, |w| w.saturating_sub(indent));
        let mut start = self.paint(label, style).to_string();
        for line in wrap(text, columns) {
            writeln!(self.out, "{start}{line}")?;
            start = " ".repeat(indent);
        }
        Ok(())
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Prints a failure to standard error, after flushing standard output.
    pub fn error(&mut self, failure: &Failure) {
        let _ = self.out.flush();
        if !matches!(failure, Failure::PipeClosed) {
            self.say(&self.paint_err("gguf: error:", Style::Red).to_string(), &failure.to_string());
            if let Some(help) = failure.help() {
                self.say(&self.paint_err("help:", Style::Cyan).to_string(), help);
            }
        }
    }

    /// Prints a warning to standard error.
    pub fn warning(&mut self, message: &str) {
        let _ = self.out.flush();
        self.say(&self.paint_err("gguf: warning:", Style::Yellow).to_string(), message);
    }

    /// Prints a note to standard error. Write errors are ignored, because there is nowhere to report them.
    pub fn note(&mut self, message: &str) {
        let _ = self.out.flush();
        let _ = writeln!(self.err, "{}", safe(message));
    }

    /// Prints a prompt for a line of text to standard error.
    pub fn prompt(&mut self, message: &str) {
        let _ = self.out.flush();
        let _ = write!(self.err, "{}", safe(message));
        let _ = self.err.flush();
    }

    fn say(&mut self, label: &str, message: &str) {
        let _ = writeln!(self.err, "{label} {}", safe(message));
    }
}

/// Whether the terminal supports only plain lines.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Width of a terminal in columns; 80 if it is unknown.
fn width_of(size: Option<(terminal_size::Width, terminal_size::Height)>) -> usize {
    size.map(|(width, _)| usize::from(width.0)).filter(|&w| w > 0).unwrap_or(80)
}

/// Whether a character controls a terminal, or hides or reorders the surrounding text. [`Str`] escapes these characters.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let mut shown = [0; 16];
    let written = write!(&mut shown[..], "{}", Str(c.encode_utf8(&mut [0; 4]).as_bytes()));
    written.is_err() || shown.starts_with(b"\\")
}

/// Escapes control characters and invisible characters in a message. Line breaks are kept.
pub fn safe(message: &str) -> String {
    let hidden = |c: char| c != '\n' && !c.is_ascii_graphic() && c != ' ' && c.is_ascii();
    let needs = message.chars().any(|c| hidden(c) || !c.is_ascii() && c.width().unwrap_or(0) == 0);
    if !needs {
        return message.to_owned();
    }
    let lines: Vec<String> = message.split('\n').map(escape_invisible).collect();
    lines.join("\n")
}

/// Escapes invisible characters but not backslashes, because messages are already escaped once.
fn escape_invisible(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c.width() {
            Some(1..) => out.push(c),
            _ => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Text of a file with control characters, invisible characters and invalid UTF-8 escaped. Line breaks and tabs are kept.
pub fn visible(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for line in chunk.valid().split_inclusive(['\n', '\t']) {
            match line.strip_suffix(['\n', '\t']) {
                Some(text) => {
                    out += &escape_invisible(text);
                    out.extend(line.chars().last());
                }
                None => out += &escape_invisible(line),
            }
        }
        out.extend(chunk.invalid().iter().map(|b| format!("\\x{b:02x}")));
    }
    out
}

/// Width of a text on a terminal, in columns.
pub fn text_width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Cuts off the end of a text so that it takes at most `width` columns.
pub fn cut_end(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut out = start_of(text.chars(), width.saturating_sub(1));
    out.push('…');
    out
}

/// Cuts out the middle of a text so that it takes at most `width` columns. Both ends of a name are significant.
pub fn cut_middle(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let columns = width.saturating_sub(1);
    let tail = start_of(text.chars().rev(), columns / 2);
    let mut out = start_of(text.chars(), columns - columns / 2);
    out.push('…');
    out.extend(tail.chars().rev());
    out
}

/// The longest prefix that fits into `width` columns.
fn start_of(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut left = width;
    chars
        .take_while(|c| match left.checked_sub(c.width().unwrap_or(0)) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        })
        .collect()
}

/// Breaks a text into lines of at most `width` columns, at spaces. A wider word is broken at the end of the line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').flat_map(|word| pieces(word, width)) {
        let w = text_width(word);
        if used > 0 && used + 1 + w > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += w;
        }
    }
    lines
}

/// Splits a word into pieces of at most `width` columns.
fn pieces(word: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while text_width(rest) > width {
        let fitting = start_of(rest.chars(), width).len();
        // At least one character, so that the loop ends.
        let at = fitting.max(rest.chars().next().map_or(0, char::len_utf8));
        let (piece, after) = rest.split_at(at);
        if after.is_empty() {
            break;
        }
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_counts_columns() {
        for (text, width, end, middle) in [
            ("blk.12.attn_q.weight", 20, "blk.12.attn_q.weight", "blk.12.attn_q.weight"),
            ("blk.12.attn_q.weight", 11, "blk.12.att…", "blk.1…eight"),
            ("日本語日本語", 7, "日本語…", "日…語"),
            ("", 0, "", ""),
            ("ab", 1, "…", "…"),
        ] {
            assert_eq!(cut_end(text, width), end);
            assert_eq!(cut_middle(text, width), middle);
        }
    }

    #[test]
    fn messages_hold_nothing_a_terminal_acts_on() {
        assert_eq!(safe("a\x1b[31m\u{202e}b\nc\\n é"), "a\\u{1b}[31m\\u{202e}b\nc\\n é");
        assert_eq!(safe("plain"), "plain");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("unbreakable x", 4), ["unbr", "eaka", "ble", "x"]);
        assert_eq!(wrap("日本語 x", 3), ["日", "本", "語", "x"]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
