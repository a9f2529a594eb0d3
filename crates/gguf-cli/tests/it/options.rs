//! The table of all options in the book, and the grammar of the options: a letter has one meaning in all commands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gguf_test::program::gguf;

/// An option of a command, as the help lists it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    /// `output`
    name: String,
    /// `o`
    letter: Option<String>,
    /// `OUT`
    value: String,
}

/// The option in a line of a help text such as `  -o, --output <OUT>  Output file`. Other lines are indented further.
fn option(line: &str) -> Option<Listed> {
    let line = line.strip_prefix("      --").map(|_| &line[6..]).or_else(|| line.strip_prefix("  "))?;
    let (letter, rest) = match line.strip_prefix("--") {
        Some(rest) => (None, rest),
        None => {
            let (letter, rest) = line.strip_prefix('-')?.split_once(", --")?;
            (Some(letter.to_owned()), rest)
        }
    };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let value = rest.split("  ").next().unwrap_or_default().trim_matches([' ', '[', ']', '=', '.']);
    Some(Listed { name: name.to_owned(), letter, value: value.trim_matches(['<', '>']).to_owned() })
}

/// The names under `Commands:` of a help text.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let lines = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The short help of a command.
fn help(command: &str) -> String {
    gguf(command.split(' ').filter(|word| !word.is_empty()).chain(["-h"])).exits(0).out
}

/// The names of all commands, such as `imatrix show`.
pub fn all_commands() -> Vec<String> {
    let mut found = Vec::new();
    for command in commands(&help("")) {
        let below: Vec<String> = commands(&help(&command)).iter().map(|name| format!("{command} {name}")).collect();
        found.extend(if below.is_empty() { vec![command] } else { below });
    }
    assert!(found.len() >= 30, "{found:?}");
    found
}

/// All commands with their options.
fn all() -> Vec<(String, Vec<Listed>)> {
    let of = |command: String| {
        let options = help(&command).lines().filter_map(option).collect();
        (command, options)
    };
    all_commands().into_iter().map(of).collect()
}

#[test]
fn a_letter_has_one_meaning() {
    let mut meanings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, options) in all() {
        for Listed { name, letter, .. } in options {
            if let Some(letter) = letter {
                meanings.entry(letter).or_default().insert(name);
            }
        }
    }
    let several: Vec<_> = meanings.iter().filter(|(_, names)| names.len() > 1).collect();
    assert!(several.is_empty(), "letters with several meanings: {several:?}");
}

/// Nor does a command accept a letter that its help does not list: those that llama.cpp's tools use for something else.
#[test]
fn a_command_has_the_letters_of_its_help() {
    let all = all();
    for (command, options) in &all {
        for letter in ["c", "m", "n", "t"] {
            if !options.iter().any(|option| option.letter.as_deref() == Some(letter)) {
                let option = format!("-{letter}");
                let run = gguf(command.split(' ').chain([option.as_str()]));
                run.exits(2).says(&[&format!("unexpected argument '{option}' found")]);
            }
        }
    }
}

#[test]
fn letters_of_llama_cpp_have_a_tip() {
    gguf(["run", "model.gguf", "Hello", "-n", "64"]).exits(2).says(&["tip: the number of tokens is --tokens"]);
    gguf(["perplexity", "-m", "model.gguf"]).exits(2).says(&["tip: the model is an argument without an option"]);
    gguf(["perplexity", "model.gguf", "text.txt", "-t", "4"])
        .exits(2)
        .says(&["tip: the number of threads is --threads, or -j"]);
    // Others mean the same.
    let args = ["perplexity", "model.gguf", "text.txt", "-ub", "64", "-c"];
    gguf([&args[..], &["4k"]].concat()).exits(2).says(&["model.gguf: cannot open"]);
    gguf([&args[..], &["2"]].concat()).exits(2).says(&["expected 4 to 16777216 tokens"]);
}

#[test]
fn every_command_that_writes_a_model_has_output() {
    for (command, options) in all() {
        let has = |name: &str| options.iter().any(|option| option.name == name);
        // `name` renames, `man` writes into a folder, `perplexity` writes probabilities, `check` and `diff` write pages.
        if has("force") && !["name", "man", "perplexity", "check", "diff"].contains(&command.as_str()) {
            assert!(has("output"), "{command} has no --output");
        }
    }
}

/// A row of the table: the values, and the commands.
type Row = (BTreeSet<String>, Vec<String>);

#[test]
fn the_book_has_a_table_of_all_options() {
    // An option with a letter in some commands only has two rows.
    let mut rows: BTreeMap<(String, Option<String>), Row> = BTreeMap::new();
    let all = all();
    for (command, options) in &all {
        for option in options {
            let (values, commands) = rows.entry((option.name.clone(), option.letter.clone())).or_default();
            values.extend((!option.value.is_empty()).then(|| option.value.clone()));
            commands.push(format!("`{command}`"));
        }
    }
    let mut table = String::from("| option | value | commands |\n|---|---|---|\n");
    for ((name, letter), (values, commands)) in rows {
        let letter = letter.map_or(String::new(), |letter| format!("`-{letter}`, "));
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        let commands = match commands.len() == all.len() {
            true => "all".to_owned(),
            false => commands.join(", "),
        };
        writeln!(table, "| {letter}`--{name}` | {} | {commands} |", values.join(" or ")).unwrap();
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once("| option |").expect("the page has a table");
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let new = format!("{before}{table}{}{after}", if after.is_empty() { "" } else { "\n" });
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &new).unwrap();
    }
    let text = fs::read_to_string(&page).unwrap();
    assert!(text == new, "{} is stale; UPDATE=1 updates it", page.display());
}
