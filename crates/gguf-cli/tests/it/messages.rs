//! The style of all messages of the program and the libraries. They are found in the sources: the string literals that look like a phrase.
//!
//! `MESSAGES=FILE` also writes the list of them to a file, by source, so that all texts can be read at once.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The sources of a folder, sorted by path.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A token of a source, as far as it matters here.
#[derive(Debug, PartialEq)]
enum Token {
    /// A string literal, with its escapes unchanged.
    Text(String),
    /// A word or a number.
    Word(String),
    /// Any other character except white space.
    Sign(char),
}

/// The tokens of a source, without comments.
fn tokens(source: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skip = if c.is_whitespace() {
            c.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |n| n + 2)
        } else if let Some((text, len)) = raw_string(rest) {
            found.push(Token::Text(text));
            len
        } else if c == '"' || rest.starts_with("b\"") {
            let start = if c == '"' { 1 } else { 2 };
            let len = string_len(&rest[start..]);
            found.push(Token::Text(rest[start..start + len].to_owned()));
            start + len + 1
        } else if c == '\'' {
            char_len(rest)
        } else if c.is_alphanumeric() || c == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token::Word(rest[..len].to_owned()));
            len
        } else {
            found.push(Token::Sign(c));
            c.len_utf8()
        };
        rest = &rest[skip..];
    }
    found
}

/// The raw string at the start, and the length of the literal.
fn raw_string(rest: &str) -> Option<(String, usize)> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let n_marks = after.chars().take_while(|&c| c == '#').count();
    let text = after[n_marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(n_marks));
    let len = text.find(&end)?;
    Some((text[..len].to_owned(), rest.len() - text.len() + len + end.len()))
}

/// The length of a string after its opening quotation mark.
fn string_len(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return at,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    panic!("a string does not end: {}", text.chars().take(60).collect::<String>());
}

/// The length of a character literal, or of a lifetime's apostrophe.
fn char_len(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, c))) => {
            let from = at + c.len_utf8();
            rest[from..].find('\'').map_or(from, |n| from + n + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// The end of a bracketed group that starts at `at`.
fn end_of(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// The phrases of a source, without those of tests, attributes, and panics for programming errors.
fn phrases(source: &str) -> Vec<String> {
    let tokens = tokens(source);
    let is = |i: usize, word: &str| matches!(tokens.get(i), Some(Token::Word(w)) if w == word);
    let sign = |i: usize, sign: char| tokens.get(i) == Some(&Token::Sign(sign));
    let mut found = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if sign(i, '#') && (sign(i + 1, '[') || (sign(i + 1, '!') && sign(i + 2, '['))) {
            let open = if sign(i + 1, '[') { i + 1 } else { i + 2 };
            let end = end_of(&tokens, open);
            let is_test = is(open + 1, "cfg") && is(open + 3, "test");
            i = end;
            if is_test {
                // The item of the attribute: up to its semicolon, or the end of its braces.
                while i < tokens.len() && !sign(i, ';') && !sign(i, '{') {
                    i = if sign(i, '(') || sign(i, '[') { end_of(&tokens, i) } else { i + 1 };
                }
                i = if sign(i, '{') { end_of(&tokens, i) } else { i + 1 };
            }
            continue;
        }
        let is_panic =
            ["expect", "panic", "unreachable", "assert", "assert_eq", "debug_assert"].iter().any(|w| is(i, w));
        if is_panic && (sign(i + 1, '(') || sign(i + 1, '!')) {
            let open = if sign(i + 1, '(') { i + 1 } else { i + 2 };
            i = end_of(&tokens, open);
            continue;
        }
        if let Some(Token::Text(text)) = tokens.get(i) {
            let text = in_one_line(text);
            if is_phrase(&text) {
                found.push(text);
            }
        }
        i += 1;
    }
    found
}

/// A literal without its escaped line breaks.
fn in_one_line(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start()).replace('\n', "\\n")
}

/// Whether a text has two words of letters separated by a space.
fn is_phrase(text: &str) -> bool {
    let is_word = |word: &str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
        word.len() >= 2
            && word.chars().all(|c| c.is_alphabetic() || "'-".contains(c))
            && word.contains(char::is_lowercase)
    };
    let words: Vec<&str> = text.split(' ').collect();
    words.iter().any(|word| is_word(word)) && words.len() >= 2
}

/// What is wrong with the style of a message, if anything.
fn fault(text: &str) -> Option<&'static str> {
    let words = |text: &str| -> Vec<String> {
        let is_of_word = |c: char| c.is_alphanumeric() || c == '\'';
        text.split(|c: char| !is_of_word(c)).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    let text = text.trim_end();
    let words = words(text);
    let has = |phrase: &[&str]| words.windows(phrase.len()).any(|window| window == phrase);
    let is_one_sentence = !text.trim_end_matches('.').contains(". ") && !text.contains(":\\n");
    if text.ends_with('.') && !text.ends_with("..") && is_one_sentence {
        return Some("a period at the end of one sentence");
    }
    if text.ends_with('!') {
        return Some("an exclamation mark");
    }
    if words.iter().any(|word| ["n't", "'re", "'ll", "'ve"].iter().any(|end| word.ends_with(end))) {
        return Some("a contraction");
    }
    if words.iter().any(|word| ["please", "sorry", "successfully", "oops", "unfortunately"].contains(&word.as_str())) {
        return Some("a word that says nothing");
    }
    let unidiomatic: [&[&str]; 7] = [
        &["is", "none"],
        &["are", "others"],
        &["so", "many"],
        &["goes", "by"],
        &["is", "told"],
        &["of", "no", "use"],
        &["by", "whatever"],
    ];
    unidiomatic.iter().any(|phrase| has(phrase)).then_some("an unidiomatic phrase")
}

/// Sources with texts that are not messages: tokens, patterns, and documentation that a macro takes.
const NOT_MESSAGES: [&str; 3] =
    ["gguf-hf/src/tokenizer/bpe.rs", "gguf-hf/src/tokenizer/pre/hashes.rs", "ggufkit/src/error.rs"];

#[test]
fn all_messages_have_the_style() {
    let (mut list, mut faults) = (String::new(), Vec::new());
    let root = crates();
    let mut n = 0;
    for folder in fs::read_dir(&root).unwrap().map(|e| e.unwrap().path()).collect::<std::collections::BTreeSet<_>>() {
        // Test support has no messages for users.
        if folder.ends_with("gguf-test") || !folder.join("src").is_dir() {
            continue;
        }
        for path in sources(&folder.join("src")) {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            // Tables of names, without sentences except for sizes; and tests in a separate file.
            if (name.contains("/arch/") && !name.ends_with("/arch/dim.rs"))
                || name.ends_with("/tests.rs")
                || name.contains("/tests/")
                || NOT_MESSAGES.contains(&name.as_str())
            {
                continue;
            }
            let phrases = phrases(&fs::read_to_string(&path).unwrap());
            n += phrases.len();
            faults.extend(phrases.iter().filter_map(|text| Some(format!("{name}: {}: {text}", fault(text)?))));
            writeln!(list, "\n{name}\n{}", phrases.join("\n")).unwrap();
        }
    }
    assert!(n > 500, "only {n} messages");
    if let Some(path) = std::env::var_os("MESSAGES") {
        fs::write(path, list).unwrap();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn faults_of_style() {
    for (text, is_wrong) in [
        ("cannot read the file", false),
        ("cannot read the file.", true),
        ("cannot read it. Try again.", false),
        ("names end in ...", false),
        ("done!", true),
        ("the file can't be read", true),
        ("the file's tensors", false),
        ("please try again", true),
        ("there is none: the file is none", true),
        ("so many tensors", true),
        ("converted successfully", true),
    ] {
        assert_eq!(fault(text).is_some(), is_wrong, "{text}: {:?}", fault(text));
    }
}

#[test]
fn phrases_are_found_where_they_are() {
    let source = r##"
        //! "not a comment"
        #[command(about = "not an attribute")]
        fn f<'a>(x: &'a str) -> char {
            let c = '"';
            say("a \"quoted\" phrase, \
                in two lines");
            say(r#"a raw "phrase""#);
            say("word");
            say("{}: {}");
            x.expect("not a panic");
            '\''
        }
        #[cfg(test)]
        mod tests { fn t() { say("not of a test"); } }
        fn g() { say("after the tests"); }
    "##;
    let expected = ["a \\\"quoted\\\" phrase, in two lines", "a raw \"phrase\"", "after the tests"];
    assert_eq!(phrases(source), expected);
}
