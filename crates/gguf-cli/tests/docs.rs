//! The README and the book: every command in them is run and compared with the output beside it, every link leads somewhere, and every
//! page is listed.
//!
//! A block of the language `console` holds commands, each after `$ `, and what they print. A file is one session: its commands run one
//! after the other in a folder that has `examples`. A line `...` stands for any lines, and times and rates for any others. Commands
//! in `<!-- setup: … -->` run first. Commands of other programs that are not part of every system are not run.
//!
//! Help texts are in the pages of their commands, and topics of the help are pages of the book. `UPDATE=1` writes both anew.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gguf_test::files::folder;
use gguf_test::program;

/// What a command line may begin with; others are shown only.
const RUN: &[&str] = &["gguf ", "head ", "cmp ", "for ", "cat ", "ls ", "printf ", "echo ", "EDITOR="];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    fn walk(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, pages);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    let mut pages = vec![root().join("README.md")];
    walk(&root().join("docs"), &mut pages);
    pages.sort();
    pages
}

/// A command of a page, the line it is in, and the output that the page shows.
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
}

fn commands(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let (mut is_console, mut is_in_block) = (false, false);
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(language) = content.strip_prefix("```") {
            is_console = !is_in_block && language == "console";
            is_in_block = !is_in_block;
        } else if let (true, Some(command)) = (is_console, content.strip_prefix("$ ")) {
            found.push(Shown { line, command: command.to_owned(), output: Vec::new() });
        } else if let (true, Some(last)) = (is_console, found.last_mut()) {
            last.output.push(content.to_owned());
        }
    }
    found
}

/// A line without what differs from run to run: times after `in`, and rates in brackets.
fn steady(line: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = line.trim_end().split(' ').peekable();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    while let Some(word) = rest.next() {
        words.push(word);
        if word == "in" && rest.peek().is_some_and(|next| is_number(next)) {
            rest.next();
            words.push("TIME");
        } else if word.strip_prefix('(').is_some_and(is_number) && rest.peek().is_some_and(|next| next.ends_with("/s)"))
        {
            words.pop();
            rest.next();
            words.push("RATE");
        }
    }
    // A run may be too short to have a rate.
    words.join(" ").replace(" RATE", "")
}

/// Whether an output is the one that is shown, in which `...` stands for any lines.
fn agrees(shown: &[String], found: &[String]) -> bool {
    match shown.split_first() {
        None => found.is_empty(),
        Some((first, rest)) if first == "..." => (0..=found.len()).any(|n| agrees(rest, &found[n..])),
        Some((first, rest)) => found.split_first().is_some_and(|(line, others)| line == first && agrees(rest, others)),
    }
}

fn shell(command: &str, folder: &Path) -> Vec<String> {
    let programs = program::path().parent().unwrap().to_owned();
    let path =
        std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let output = Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(folder)
        .env("PATH", path.unwrap())
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn commands_print_what_is_shown() {
    let mut n_run = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let dir = folder();
        std::os::unix::fs::symlink(root().join("examples"), dir.path().join("examples")).unwrap();
        let setups = text.lines().filter_map(|line| line.strip_prefix("<!-- setup: "));
        for setup in setups.filter_map(|line| line.strip_suffix(" -->")) {
            shell(setup, dir.path());
        }
        let mut updated: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the last to the first when lines are replaced, so that the others keep their numbers.
        let mut stale: Vec<(usize, usize, Vec<String>)> = Vec::new();
        for shown in commands(&text) {
            // A program that is not there, or that takes long.
            if !RUN.iter().any(|start| shown.command.starts_with(start)) {
                continue;
            }
            n_run += 1;
            let steady = |lines: Vec<String>| lines.iter().map(|line| steady(line)).collect::<Vec<_>>();
            let (mut expected, found) = (steady(shown.output.clone()), steady(shell(&shown.command, dir.path())));
            while expected.last().is_some_and(String::is_empty) {
                expected.pop();
            }
            let n_shown = expected.len();
            if std::env::var_os("UPDATE").is_some() && shown.command.starts_with("gguf help ") && expected != found {
                stale.push((shown.line, n_shown, found));
            } else if !agrees(&expected, &found) {
                let (page, line) = (page.strip_prefix(root()).unwrap().display().to_string(), shown.line);
                wrong.push(format!("{page}:{line}: $ {}\n{}", shown.command, found.join("\n")));
            }
        }
        for (line, n_shown, found) in stale.into_iter().rev() {
            updated.splice(line..line + n_shown, found);
            fs::write(&page, updated.join("\n") + "\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{} commands print something else:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(n_run >= 40, "only {n_run} commands");
}

/// The targets of links to files, without anchors.
fn links(text: &str) -> Vec<(String, Option<String>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.contains(' ') && !target.is_empty());
    let parted = local.map(|target| match target.split_once('#') {
        Some((file, anchor)) => (file.to_owned(), Some(anchor.to_owned())),
        None => (target.to_owned(), None),
    });
    parted.collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere_and_every_page_is_listed() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&contents).into_iter().map(|(file, _)| root().join("docs").join(file)).collect();
    let mut wrong = Vec::new();
    let mut n_links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (file, anchor) in links(&text) {
            n_links += 1;
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(&file) };
            let is_there = match anchor {
                None => target.exists(),
                Some(anchor) => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(&anchor)),
            };
            if !is_there {
                wrong.push(format!("{}: {file} leads nowhere", page.display()));
            }
        }
        let is_listed = page.ends_with("README.md") || page.ends_with("SUMMARY.md") || listed.contains(&page);
        if !is_listed {
            wrong.push(format!("{} is not in docs/SUMMARY.md", page.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_links >= 40, "only {n_links} links");
}

#[test]
fn the_readme_is_short() {
    let n_lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(n_lines <= 200, "{n_lines} lines");
}

/// The commands that a help text lists under `Commands:`.
fn listed_commands(help: &[String]) -> Vec<String> {
    let lines = help.iter().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|l| l.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_page_with_its_help() {
    let dir = folder();
    let commands = listed_commands(&shell("gguf --help", dir.path()));
    assert!(commands.len() >= 25, "{commands:?}");
    for command in commands {
        let page = root().join(format!("docs/commands/{command}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        let below = listed_commands(&shell(&format!("gguf {command} --help"), dir.path()));
        let below = below.iter().map(|below| format!("{command} {below}"));
        for help in std::iter::once(command.clone()).chain(below) {
            let shown = format!("$ gguf help {help}\n");
            assert!(text.contains(&shown), "{}: there is no {shown}", page.display());
        }
    }
}

#[test]
fn topics_of_the_help_are_pages() {
    let help = shell("gguf --help", folder().path()).join("\n");
    let topics = fs::read_dir(root().join("crates/gguf-cli/src/topics")).unwrap();
    let mut n = 0;
    for topic in topics.map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&topic).unwrap();
        let page = root().join("docs/topics").join(topic.file_name().unwrap());
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&page, &text).unwrap();
        }
        let shown = fs::read_to_string(&page).unwrap_or_default();
        assert!(shown == text, "{} is not {}; UPDATE=1 writes it anew", page.display(), topic.display());
        let name = topic.file_stem().unwrap().to_str().unwrap();
        assert!(help.contains(&format!("\n  {name} ")), "{name} is not in the help");
        program::gguf(["help", name]).exits(0).prints(&[&text]).silently();
        n += 1;
    }
    assert!(n >= 4, "{n} topics");
    program::gguf(["help", "no-topic"]).exits(2);
}

#[test]
fn all_types_are_in_the_help() {
    let words =
        |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect::<Vec<_>>();
    let text = words(&program::gguf(["help", "types"]).exits(0).out);
    let tensor_types = gguf_format::TYPES.iter().filter(|row| gguf_quantize::mix::parse_tensor_type(row.name).is_ok());
    for name in gguf_quantize::mix::Target::names().chain(tensor_types.map(|row| row.name)) {
        assert!(text.iter().any(|word| word == name), "{name} is not in gguf help types");
    }
}
