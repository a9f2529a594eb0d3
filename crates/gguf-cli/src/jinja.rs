//! Chat templates: their syntax, and the prompt that they make of a conversation, as `apply_chat_template` of transformers does.
//!
//! transformers renders with Jinja2, with blocks trimmed, the extension of loop controls, the filter `tojson` of Python's `json.dumps`, and the
//! functions `raise_exception` and `strftime_now` (`render_jinja_template` in `utils/chat_template_utils.py`). Methods of Python's types are
//! available, too.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Maximum number of instructions of a template, far above that of long conversations: a file must not keep the program busy.
const MAX_STEPS: u64 = 50_000_000;

/// Checks the syntax of a chat template.
///
/// # Errors
/// The first error, with its line.
pub fn check(template: &str) -> Result<(), String> {
    environment().template_from_str(&without_tracking(template)).map(drop).map_err(|e| message(&e))
}

/// Renders a chat template with variables.
///
/// # Errors
/// Errors of the syntax, of the template's own, and of its work.
pub fn render(template: &str, variables: &serde_json::Map<String, serde_json::Value>) -> Result<String, String> {
    let (environment, template) = (environment(), without_tracking(template));
    let rendered =
        environment.template_from_str(&template).and_then(|template| template.render(Value::from(Serde(variables))));
    rendered.map_err(|e| message(&e))
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.set_formatter(|out, _, value| Ok(out.write_str(&printed(value))?));
    environment.add_filter("string", |value: Value| printed(&value));
    environment.add_filter("tojson", to_json);
    // In Python, none is not iterable.
    environment.add_test("iterable", |value: Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_function("raise_exception", |text: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, text))
    });
    environment.add_function("strftime_now", |format: String| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        date(now, &format)
    });
    environment
}

/// A value as Python prints it: `True`, `None`, `['a', 1]`.
fn printed(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.to_string(),
        _ => repr(value),
    }
}

/// A value within another, as Python prints it.
fn repr(value: &Value) -> String {
    let items = || value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::String => {
            let text = value.to_string();
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            let mut quoted = String::from(quote);
            for c in text.chars() {
                match c {
                    '\n' => quoted += "\\n",
                    '\r' => quoted += "\\r",
                    '\t' => quoted += "\\t",
                    '\\' => quoted += "\\\\",
                    c if c == quote => quoted.extend(['\\', c]),
                    c => quoted.push(c),
                }
            }
            quoted.push(quote);
            quoted
        }
        ValueKind::Seq | ValueKind::Iterable => {
            format!("[{}]", items().map(|item| repr(&item)).collect::<Vec<_>>().join(", "))
        }
        ValueKind::Map => {
            let item = |key: Value| format!("{}: {}", repr(&key), repr(&value.get_item(&key).unwrap_or_default()));
            format!("{{{}}}", items().map(item).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// `line 3: unexpected end of input`
fn message(e: &Error) -> String {
    let text = e.detail().map_or_else(|| e.kind().to_string(), str::to_owned);
    match e.line() {
        Some(line) => format!("line {line}: {text}"),
        None => text,
    }
}

/// The template with conditions in place of the tags `generation` and `endgeneration`, which only mark what a model has said.
fn without_tracking(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{%") {
        let Some((tag, after)) = after.split_once("%}") else { break };
        let word = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let tag = match word {
            "generation" => tag.replace("generation", "if true"),
            "endgeneration" => tag.replace("endgeneration", "endif"),
            _ => tag.to_owned(),
        };
        text.extend([before, "{%", &tag, "%}"]);
        rest = after;
    }
    text + rest
}

/// The filter `tojson`: `json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys)`.
fn to_json(value: Value, indent: Option<usize>, options: Kwargs) -> Result<Value, Error> {
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::BadSerialization, e.to_string());
    let indent = indent.or(options.get::<Option<usize>>("indent")?);
    let is_sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let is_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let separators: Option<Vec<String>> = options.get("separators")?;
    options.assert_all_used()?;
    let mut json = serde_json::to_value(&value).map_err(|e| failed(&e))?;
    if is_sorted {
        json.sort_all_objects();
    }
    let mut bytes = Vec::new();
    let written = match (indent, separators.as_deref()) {
        (Some(n), _) => {
            let spaces = vec![b' '; n.min(64)];
            json.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(&spaces)))
        }
        (None, Some([item, key])) => json.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine { item, key })),
        (None, _) => json.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine { item: ", ", key: ": " })),
    };
    written.map_err(|e| failed(&e))?;
    let text = String::from_utf8(bytes).map_err(|e| failed(&e))?;
    Ok(Value::from(if is_ascii { ascii(&text) } else { text }))
}

/// JSON with escapes for all characters outside of ASCII.
fn ascii(json: &str) -> String {
    let mut text = String::new();
    for c in json.chars() {
        match c.is_ascii() {
            true => text.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}")),
        }
    }
    text
}

/// JSON on one line, with these separators.
struct OneLine<'a> {
    item: &'a str,
    key: &'a str,
}

impl OneLine<'_> {
    fn before_item<W: io::Write + ?Sized>(&self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(self.item.as_bytes()) }
    }
}

impl Formatter for OneLine<'_> {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.before_item(writer, is_first)
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.before_item(writer, is_first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A time in seconds since 1970, as `strftime` writes it in UTC. Codes for other than days and times are written as they are.
fn date(seconds: u64, format: &str) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let weekday = DAYS.get((days % 7) as usize).copied().unwrap_or_default();
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let day_of_year = days + 1;
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while let Some(&length) = lengths.get(month).filter(|length| days >= **length) {
        days -= length;
        month += 1;
    }
    let (day, name) = (days + 1, MONTHS.get(month).copied().unwrap_or_default());
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        text += &match rest.next() {
            Some('Y') => year.to_string(),
            Some('y') => format!("{:02}", year % 100),
            Some('m') => format!("{:02}", month + 1),
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('j') => format!("{day_of_year:03}"),
            Some('B') => name.to_owned(),
            Some('b') => name.chars().take(3).collect(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday.chars().take(3).collect(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, expected) in [
            (0, "Thu Thursday 01 January 1970 00:00:00 001 70"),
            (951_827_696, "Tue Tuesday 29 February 2000 12:34:56 060 00"),
            (1_735_689_599, "Tue Tuesday 31 December 2024 23:59:59 366 24"),
        ] {
            assert_eq!(date(seconds, "%a %A %d %B %Y %H:%M:%S %j %y"), expected);
        }
        assert_eq!(date(951_827_696, "%I%p %e %m %b %% %Q %"), "12PM 29 02 Feb % %Q %");
    }

    #[test]
    fn templates_are_rendered_as_by_transformers() {
        let variables = serde_json::json!({"messages": [{"role": "user", "content": " a\n"}], "b": {"z": 1, "a": [true, null, "<é>"]}});
        let variables = variables.as_object().unwrap();
        for (template, expected) in [
            ("{% for m in messages %}\n{{ m.role }}: {{ m['content'].strip() }}\n{% endfor %}\n", "user: a\n"),
            ("{{ b | tojson }}", r#"{"z": 1, "a": [true, null, "<é>"]}"#),
            ("{{ b | tojson(sort_keys=true, separators=(',', ':')) }}", r#"{"a":[true,null,"<é>"],"z":1}"#),
            (r"{{ ['é😀'] | tojson(ensure_ascii=true) }}{{ none is iterable }}", "[\"\\u00e9\\ud83d\\ude00\"]False"),
            ("{{ b.a | tojson(indent=1) }}", "[\n true,\n null,\n \"<é>\"\n]"),
            ("{%- generation -%} x {%- endgeneration -%}", "x"),
            ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
            ("{% set n = namespace(x=1) %}{% set n.x = n.x + 1 %}{{ n.x }}{{ none_such }}", "2"),
            (
                "{{ true }} {{ none }} {{ ['a', 1.5, \"it's\", {'k': false}] }}",
                "True None ['a', 1.5, \"it's\", {'k': False}]",
            ),
            ("{{ 'a,b'.split(',') | join('-') }}{{ 'ab'.startswith('a') }}", "a-bTrue"),
        ] {
            assert_eq!(render(template, variables).as_deref(), Ok(expected), "{template}");
            assert_eq!(check(template), Ok(()));
        }
        assert_eq!(render("\n{{ raise_exception('No!') }}", variables), Err("line 2: No!".to_owned()));
        assert!(check("a\n{% if %}").unwrap_err().starts_with("line 2: "));
        assert!(
            render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", variables)
                .is_err()
        );
    }
}
