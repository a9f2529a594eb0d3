//! What a terminal gets to see: tables that fit, colour when it is wanted, and nothing from a file that acts on it.
//!
//! The terminal is that of `script` (util-linux); where there is none, these tests say so and pass.

mod common;

use std::process::{Command, Stdio};

use common::{folder, glossary, hostile, small, text};

/// What the program writes to a terminal of so many columns; `None` where there is no `script`.
fn on_terminal(columns: u32, environment: &[(&str, &str)], line: &str) -> Option<String> {
    if !cfg!(target_os = "linux") || Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no script (util-linux) to make a terminal with");
        return None;
    }
    let line = format!("stty cols {columns} rows 40; {} {line}", env!("CARGO_BIN_EXE_gguf"));
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The text without this program's own colours, and whether there were any.
fn strip(text: &str) -> (String, bool) {
    let mut plain = text.to_owned();
    for code in ["1;31", "1;32", "1;33", "36", "0", "1", "2"] {
        plain = plain.replace(&format!("\x1b[{code}m"), "");
    }
    let coloured = plain.len() != text.len();
    (plain, coloured)
}

#[test]
fn tables_fit() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    for columns in [60, 80, 140] {
        for line in ["show", "show --kv", "show --tensors", "check", "name", "get"] {
            let line = match line {
                "get" => format!("get {} 'general.*' 'llama.*'", text(&file)),
                line => format!("{line} {}", text(&file)),
            };
            let Some(out) = on_terminal(columns, &[], &line) else { return };
            let (plain, coloured) = strip(&out);
            assert!(coloured, "{line}");
            // The path of the temporary folder and the naming convention are single words.
            let fits = |l: &&str| !l.contains(text(dir.path())) && !l.contains("BaseName-");
            for l in plain.lines().filter(fits) {
                assert!(l.trim_end_matches('\r').chars().count() <= columns as usize, "{columns}: {l:?}");
            }
        }
    }
    let line = format!("convert --dry-run {}", text(&glossary()));
    let Some(out) = on_terminal(60, &[], &line) else { return };
    assert!(strip(&out).0.lines().all(|l| l.trim_end_matches('\r').chars().count() <= 60), "{out}");
}

#[test]
fn colour_is_only_where_it_is_wanted() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let bad = dir.path().join("bad");
    std::fs::write(&bad, "bad").unwrap();
    for line in [format!("show {}", text(&file)), format!("check {0} {0}", text(&bad)), format!("show {}", text(&bad))]
    {
        for (environment, expected) in
            [(&[][..], true), (&[("NO_COLOR", "")], true), (&[("NO_COLOR", "1")], false), (&[("TERM", "dumb")], false)]
        {
            let Some(out) = on_terminal(100, environment, &line) else { return };
            assert_eq!(out.contains('\x1b'), expected, "{environment:?} {line}\n{out}");
        }
    }
}

#[test]
fn a_hostile_file_writes_no_escapes() {
    let dir = folder();
    let file = hostile(dir.path());
    for line in ["show", "show --kv", "show --kv --full", "show --tensors", "check", "name", "get"] {
        let line = match line {
            "get" => format!("get {} general.name", text(&file)),
            line => format!("{line} {}", text(&file)),
        };
        let Some(out) = on_terminal(100, &[], &line) else { return };
        let plain = strip(&out).0;
        let acts = |c: char| (c.is_control() && c != '\n' && c != '\r') || c == '\u{202e}';
        assert!(!plain.contains(acts), "{line}: {plain:?}");
        assert!(!plain.replace("\r\n", "\n").contains('\r'), "{line}: {plain:?}");
    }
}
