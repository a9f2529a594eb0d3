//! Tests of the README and the book: console blocks are run and their output is compared, code blocks are checked, links resolve, and
//! every page is listed in the table of contents.
//!
//! A `console` block contains commands, each after `$ `, and their output. The commands of all pages run in one folder after those
//! of the README, because a reader may follow any of them in the folder of the sources. It contains `examples` and is also the home folder. A
//! line `...` matches any lines; times and rates match any others. Commands in `<!-- setup: … -->` create files of the reader's own;
//! `<!-- legacy: NAME -->` creates a legacy model. Pipes to `jq` are skipped where it is not installed.
//!
//! Commands that cannot be run in a test, such as an installation, are in `sh` and `text` blocks. Their syntax is checked, and so are the
//! options of `gguf` in them.
//!
//! The pages of commands contain the help texts, and the topics of the help are pages of the book. `UPDATE=1` updates both.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use gguf_test::files::folder;
use gguf_test::{legacy, program};
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Adds the files of a folder with an extension.
fn add_files(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_files(&path, extension, files);
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
}

/// The README and all pages of the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    add_files(&root().join("docs"), "md", &mut pages);
    pages.sort();
    pages
}

/// A fenced code block: its first line in the page, its language, and its lines.
struct Block {
    line: usize,
    language: String,
    lines: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(language) = content.strip_prefix("```") {
            if !is_open {
                found.push(Block { line: line + 1, language: language.to_owned(), lines: Vec::new() });
            }
            is_open = !is_open;
        } else if let (true, Some(last)) = (is_open, found.last_mut()) {
            last.lines.push(content.to_owned());
        }
    }
    assert!(!is_open, "a code block without an end");
    found
}

/// A command of a page, its line, and the output that the page shows.
struct Shown {
    line: usize,
    command: String,
    output: Vec<String>,
}

fn commands(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for block in blocks(text).into_iter().filter(|block| block.language == "console") {
        for (line, content) in (block.line..).zip(block.lines) {
            if let Some(command) = content.strip_prefix("$ ") {
                // The program is built.
                let command = command.replace("cargo run --release -- ", "gguf ");
                found.push(Shown { line, command, output: Vec::new() });
            } else {
                let last = found.last_mut().expect("a console block starts with a command");
                last.output.push(content);
            }
        }
    }
    found
}

/// A line without times after `in` and rates in parentheses, which differ between runs.
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

/// Returns whether an output matches the one in the page, in which `...` matches any lines.
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
        .env("HOME", folder)
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // Long runs print their progress, such as `gguf: 88 %  116 MB of 132 MB`.
    let is_progress = |line: &&str| {
        line.strip_prefix("gguf: ")
            .is_some_and(|rest| rest.trim_start().split_once(" %").is_some_and(|(n, _)| n.parse::<u8>().is_ok()))
    };
    text.lines().filter(|line| !is_progress(line)).map(str::to_owned).collect()
}

/// The contents of the comments `<!-- NAME: … -->`.
fn directives<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!("<!-- {name}: ");
    text.lines().filter_map(move |line| line.strip_prefix(start.as_str())?.strip_suffix(" -->"))
}

/// The pages with the folders in which their commands run. The README runs first and makes the example models; after it, all pages share its
/// folder, so that none overwrites or depends on a file of another. The introduction makes the example models in the README's place.
fn pages_with_folders() -> Vec<(PathBuf, Rc<TempDir>)> {
    let with_examples = || {
        let dir = folder();
        std::os::unix::fs::symlink(root().join("examples"), dir.path().join("examples")).unwrap();
        Rc::new(dir)
    };
    let shared = with_examples();
    let (readme, introduction) = (root().join("README.md"), root().join("docs/introduction.md"));
    let others = pages().into_iter().filter(|page| *page != readme && *page != introduction);
    let others: Vec<_> = others.map(|page| (page, shared.clone())).collect();
    [vec![(readme, shared), (introduction, with_examples())], others].concat()
}

#[test]
fn commands_print_what_is_shown() {
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    let mut n_run = 0;
    let mut wrong = Vec::new();
    for (page, dir) in pages_with_folders() {
        let text = fs::read_to_string(&page).unwrap();
        for name in directives(&text, "legacy") {
            fs::write(dir.path().join(name), legacy::llama(legacy::GGJT1, 2, 2).write("", "").bytes).unwrap();
        }
        for setup in directives(&text, "setup") {
            shell(setup, dir.path());
        }
        let mut updated: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the last to the first when lines are replaced, so that the others keep their numbers.
        let mut stale: Vec<(usize, usize, Vec<String>)> = Vec::new();
        for shown in commands(&text) {
            if shown.command.contains("| jq") && !has_jq {
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
    assert!(wrong.is_empty(), "{} commands with different output:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(n_run >= 40, "only {n_run} commands");
}

/// The commands of `gguf` in an `sh` or `text` block, up to a redirection, a pipe, a second command or a comment.
fn shown_commands(block: &Block) -> Vec<String> {
    let lines = block.lines.iter().map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let commands = lines.filter(|line| line.starts_with("gguf ") && !line.contains("..."));
    commands.map(|line| line.split([';', '#', '>', '<', '|', '&']).next().unwrap().trim().to_owned()).collect()
}

#[test]
fn code_blocks_are_checked() {
    let doctests = fs::read_to_string(root().join("crates/ggufkit/src/lib.rs")).unwrap();
    let python = fs::read_to_string(root().join("crates/gguf-python/tests/pages.py")).unwrap();
    let arch = root().join("crates/gguf-model/src/arch");
    let files = fs::read_dir(&arch).unwrap().map(|entry| entry.unwrap().path()).chain([arch.with_extension("rs")]);
    let tables: String = files.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: std::collections::HashSet<String> = tables.lines().map(words).collect();
    let mut n = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        for block in blocks(&text) {
            let dir = folder();
            let place = format!("{name}:{}", block.line);
            let content = block.lines.join("\n") + "\n";
            match block.language.split(',').next().unwrap() {
                "console" => continue,
                "sh" | "text" => {
                    for command in shown_commands(&block) {
                        // A proxy that the program refuses: nothing is sent, and no connection is tried again.
                        let said =
                            shell(&format!("export https_proxy=socks5://localhost\n{command} < /dev/null"), dir.path())
                                .join("\n");
                        assert!(!said.contains("try '--help'"), "{place}: {command}: {said}");
                    }
                    if block.language == "sh" {
                        let script = dir.path().join("block.sh");
                        fs::write(&script, &content).unwrap();
                        let said = shell("sh -n block.sh", dir.path());
                        assert!(said.is_empty(), "{place}: {said:?}");
                    }
                }
                "rust" if name == "docs/adding-an-architecture.md" => {
                    for line in block.lines.iter().filter(|line| !line.trim_start().starts_with("//")) {
                        assert!(rows.contains(&words(line)), "{place}: in no table of an architecture: {line}");
                    }
                }
                // The tests of the Python module run these pages.
                "python" => assert!(python.contains(&format!("\"{name}\"")), "{place}"),
                // Rust is compiled by the doc tests of the facade.
                "rust" => assert!(doctests.contains(&format!("include_str!(\"../../../{name}\")")), "{place}"),
                "c" => {
                    let include = root().join("crates/gguf-capi/include");
                    fs::write(dir.path().join("program.c"), &content).unwrap();
                    let options = "-std=c11 -Wall -Wextra -Werror -fsyntax-only";
                    let said = shell(&format!("cc {options} -I'{}' program.c", include.display()), dir.path());
                    assert!(said.is_empty(), "{place}: {}", said.join("\n"));
                }
                "json" => assert!(serde_json::from_str::<serde_json::Value>(&content).is_ok(), "{place}"),
                // The CMake package is tested with the C library.
                "cmake" | "toml" => {}
                language => panic!("{place}: a block of the language {language:?}, which no test checks"),
            }
            n += 1;
        }
    }
    assert!(n >= 15, "only {n} blocks");
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
fn links_resolve_and_every_page_is_listed() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = links(&contents).into_iter().map(|(file, _)| root().join("docs").join(file)).collect();
    let mut wrong = Vec::new();
    let mut n_links = 0;
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(|name| root().join(name));
    for page in pages().into_iter().chain(others) {
        let text = fs::read_to_string(&page).unwrap();
        for (file, anchor) in links(&text) {
            n_links += 1;
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(&file) };
            let is_there = match anchor {
                None => target.exists(),
                Some(anchor) => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(&anchor)),
            };
            if !is_there {
                wrong.push(format!("{}: the link to {file} does not resolve", page.display()));
            }
        }
        let is_in_book = page.starts_with(root().join("docs")) && !page.ends_with("SUMMARY.md");
        if is_in_book && !listed.contains(&page) {
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
    shell("gguf man man1", dir.path());
    for command in commands {
        let page = root().join(format!("docs/commands/{command}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        let below = listed_commands(&shell(&format!("gguf {command} --help"), dir.path()));
        let below = below.iter().map(|below| format!("{command} {below}"));
        for help in std::iter::once(command.clone()).chain(below) {
            let shown = format!("$ gguf help {help}\n");
            assert!(text.contains(&shown), "{}: missing {shown}", page.display());
            // The manual page comes from the same definition, with another layout: compare the words of the first line.
            let first = shell(&format!("gguf help {help}"), dir.path()).swap_remove(0);
            let manual = dir.path().join(format!("man1/gguf-{}.1", help.replace(' ', "-")));
            let manual = fs::read_to_string(&manual).unwrap_or_else(|e| panic!("{}: {e}", manual.display()));
            let manual = manual.replace('\\', "");
            assert!(manual.contains(first.trim_end_matches('.')), "{help}: {first} is not in its manual page");
        }
    }
}

/// The names of variables that a source file reads, by the functions that read them.
fn variables(source: &str) -> impl Iterator<Item = &str> {
    let read = ["var(\"", "var_os(\"", "text(\"", "set(\""];
    let names = read.into_iter().flat_map(|function| source.split(function).skip(1));
    let names = names.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name);
    names.filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
}

#[test]
fn every_variable_is_documented() {
    let page = fs::read_to_string(root().join("crates/gguf-cli/src/topics/environment.md")).unwrap();
    let mut n = 0;
    let mut sources = Vec::new();
    add_files(&root().join("crates/gguf-cli/src"), "rs", &mut sources);
    for path in sources {
        let source = fs::read_to_string(&path).unwrap();
        for name in variables(&source).filter(|_| source.contains("env::var")) {
            n += 1;
            assert!(page.contains(&format!("`{name}`")), "{name} of {}", path.display());
        }
    }
    assert!(n > 10, "{n}");
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
        assert!(shown == text, "{} differs from {}; UPDATE=1 updates it", page.display(), topic.display());
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
