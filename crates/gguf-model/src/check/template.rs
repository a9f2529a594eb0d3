//! The syntax of chat templates: the tags of Jinja, and the brackets and strings inside them. Expressions are not parsed any further, so a
//! template without a problem here may still have one.

/// A problem of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// The statements that enclose others, and their ends.
const BLOCKS: &[(&str, &str)] = &[
    ("if", "endif"),
    ("for", "endfor"),
    ("macro", "endmacro"),
    ("call", "endcall"),
    ("filter", "endfilter"),
    ("generation", "endgeneration"),
    ("set", "endset"),
];

/// Statements of Jinja that are neither the start nor the end of a block that is checked.
const OTHERS: &[&str] = &[
    "autoescape",
    "block",
    "break",
    "continue",
    "do",
    "endautoescape",
    "endblock",
    "endwith",
    "extends",
    "from",
    "import",
    "include",
    "with",
];

/// Finds the first problem of a template.
pub(super) fn problem(template: &str) -> Option<Problem> {
    let mut rest = Rest { template, at: 0 };
    let mut open: Vec<(&str, usize)> = Vec::new();
    while let Some(start) = rest.next_tag() {
        let problem = |text: String| Some(Problem { line: line(template, start), text });
        let kind = template.as_bytes().get(start + 1).copied().unwrap_or_default();
        rest.at = start + 2;
        if kind == b'#' {
            match template.get(rest.at..).and_then(|text| text.find("#}")) {
                Some(end) => rest.at += end + 2,
                None => return problem("the comment has no end".to_owned()),
            }
            continue;
        }
        let inside = match rest.inside(if kind == b'{' { "}}" } else { "%}" }) {
            Ok(inside) => inside,
            Err(text) => return problem(text),
        };
        if kind == b'{' {
            if inside.is_empty() {
                return problem("the expression is empty".to_owned());
            }
            continue;
        }
        let name_end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
        let (name, arguments) = inside.split_at(name_end);
        if name == "raw" {
            match rest.skip_raw() {
                true => continue,
                false => return problem("raw has no endraw".to_owned()),
            }
        }
        let ends = BLOCKS.iter().find(|(_, end)| *end == name);
        if let Some((begin, _)) = ends {
            match open.pop() {
                Some((last, _)) if last == *begin => {}
                Some((last, at)) => {
                    let begun = line(template, at);
                    return problem(format!("{name} without {begin}; the {last} in line {begun} is still open"));
                }
                None => return problem(format!("{name} without {begin}")),
            }
        } else if matches!(name, "elif" | "else") {
            let is_inside = open.last().is_some_and(|(last, _)| *last == "if" || (*last == "for" && name == "else"));
            if !is_inside {
                return problem(format!("{name} outside an if"));
            }
        } else if let Some((begin, _)) = BLOCKS.iter().find(|(begin, _)| *begin == name) {
            // A `set` with a value has no end tag.
            if name != "set" || !has_value(arguments) {
                open.push((begin, start));
            }
        } else if !OTHERS.contains(&name) {
            return problem(format!("unknown statement {name}"));
        }
    }
    let (name, at) = open.pop()?;
    let (_, end) = BLOCKS.iter().find(|(begin, _)| *begin == name)?;
    Some(Problem { line: line(template, at), text: format!("{name} has no {end}") })
}

/// Whether the arguments of a `set` include an equals sign outside of strings and brackets.
fn has_value(arguments: &str) -> bool {
    let (mut depth, mut quote, mut escaped) = (0i32, None, false);
    arguments.chars().any(|c| {
        if let Some(q) = quote {
            (escaped, quote) = (c == '\\' && !escaped, if c == q && !escaped { None } else { quote });
            return false;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == '=' && depth == 0
    })
}

fn line(template: &str, at: usize) -> usize {
    template.bytes().take(at).filter(|&b| b == b'\n').count() + 1
}

/// The part of a template that is not read yet.
struct Rest<'t> {
    template: &'t str,
    at: usize,
}

impl<'t> Rest<'t> {
    /// The offset of the next tag.
    fn next_tag(&self) -> Option<usize> {
        let bytes = self.template.as_bytes().get(self.at..)?;
        let found = bytes.windows(2).position(|pair| matches!(pair, b"{{" | b"{%" | b"{#"))?;
        Some(self.at + found)
    }

    /// Reads to the end of a tag, and returns the text inside, without signs for whitespace.
    fn inside(&mut self, end: &str) -> Result<&'t str, String> {
        let start = self.at;
        let bytes = self.template.as_bytes();
        let mut open: Vec<u8> = Vec::new();
        let mut at = start;
        while let Some(&byte) = bytes.get(at) {
            let closes = bytes.get(at..).is_some_and(|rest| rest.starts_with(end.as_bytes()));
            if closes && open.is_empty() {
                self.at = at + 2;
                let inside = self.template.get(start..at).unwrap_or_default();
                let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
                return Ok(inside.strip_suffix(['-', '+']).unwrap_or(inside).trim());
            }
            match byte {
                b'\'' | b'"' => at = end_of_string(bytes, at).ok_or("a string has no end")?,
                b'(' | b'[' | b'{' => open.push(byte),
                b')' | b']' | b'}' => {
                    let begin = match byte {
                        b')' => b'(',
                        b']' => b'[',
                        _ => b'{',
                    };
                    match open.pop() {
                        Some(last) if last == begin => {}
                        Some(last) => return Err(format!("{} is not closed", char::from(last))),
                        None => return Err(format!("{} closes no {}", char::from(byte), char::from(begin))),
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Err(match open.pop() {
            Some(begin) => format!("{} is not closed", char::from(begin)),
            None => format!("there is no {end}"),
        })
    }

    /// Skips to the end of a raw part; false if it has none.
    fn skip_raw(&mut self) -> bool {
        while let Some(start) = self.next_tag() {
            self.at = start + 2;
            let inside = self.template.get(self.at..).unwrap_or_default();
            if let Some((name, _)) = inside.split_once("%}")
                && name.trim_matches(['-', '+', ' ', '\n', '\t']) == "endraw"
            {
                self.at += name.len() + 2;
                return true;
            }
        }
        false
    }
}

/// The offset of the quote that ends the string at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes.get(start)?;
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let cases: &[(&str, Option<(usize, &str)>)] = &[
            ("", None),
            ("{% for m in messages %}{{ m.content }}{% endfor %}", None),
            ("{%- if a == '%}' -%}{{- {'a': {'b': \"}}\"}} -}}{%- elif b %}{% else %}{% endif %}", None),
            ("{% set a = 1 %}{% set b %}text{% endset %}{% set ns.x = '{' %}", None),
            ("{# {% if %} #}{% raw %}{% if {{ %}{% endraw %}{% generation %}x{% endgeneration %}", None),
            ("{% for m in x %}{% else %}{% break %}{% endfor %}", None),
            ("{{ 'it\\'s' }} 100% { }", None),
            ("a\n{% for m in messages %}\n{{ m }}", Some((2, "for has no endfor"))),
            ("{% if a %}\n{% endfor %}", Some((2, "endfor without for; the if in line 1 is still open"))),
            ("{% endif %}", Some((1, "endif without if"))),
            ("{% else %}", Some((1, "else outside an if"))),
            ("\n\n{{ messages[0 }}", Some((3, "[ is not closed"))),
            ("{{ a", Some((1, "there is no }}"))),
            ("{{ 'a }}", Some((1, "a string has no end"))),
            ("{{ a) }}", Some((1, ") closes no ("))),
            ("{{ }}", Some((1, "the expression is empty"))),
            ("{% fro m in x %}", Some((1, "unknown statement fro"))),
            ("{# a", Some((1, "the comment has no end"))),
            ("{% raw %}{{ a }}", Some((1, "raw has no endraw"))),
            ("{% set a %}", Some((1, "set has no endset"))),
        ];
        for (template, expected) in cases {
            let expected = expected.map(|(line, text)| Problem { line, text: text.to_owned() });
            assert_eq!(problem(template), expected, "{template}");
        }
    }
}
