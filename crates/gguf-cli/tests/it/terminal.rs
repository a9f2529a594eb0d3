//! Output on a terminal: table widths, colours, and escaped control sequences from files.
//!
//! The terminal is that of `script` (util-linux); without it, these tests print a message and pass.

use std::process::{Command, Stdio};

use gguf_format::GgmlType;
use gguf_test::files::{folder, glossary, head, hostile, small, text, write};
use gguf_test::program::gguf;

/// The output of the program on a terminal with a number of columns; `None` without `script`.
fn on_terminal(columns: u32, environment: &[(&str, &str)], line: &str) -> Option<String> {
    on_terminal_with(columns, environment, &format!("{} {line}", env!("CARGO_BIN_EXE_gguf")))
}

/// The output of a line of shell commands on a terminal of that width.
fn on_terminal_with(columns: u32, environment: &[(&str, &str)], line: &str) -> Option<String> {
    if !cfg!(target_os = "linux") || Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no script (util-linux) to make a terminal with");
        return None;
    }
    let line = format!("stty cols {columns} rows 40; {line}");
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
            // The verdict contains the whole path.
            for l in plain.lines().filter(|l| !(line.starts_with("check") && l.contains(text(dir.path())))) {
                assert!(l.trim_end_matches('\r').chars().count() <= columns as usize, "{columns}: {l:?}");
            }
        }
    }
    let line = format!("convert --dry-run {}", text(&glossary()));
    let Some(out) = on_terminal(60, &[], &line) else { return };
    assert!(strip(&out).0.lines().all(|l| l.trim_end_matches('\r').chars().count() <= 60), "{out}");
}

#[test]
fn narrow_terminals_cut_and_wrap() {
    let dir = folder();
    let path = dir.path().join(format!("{}-7B-v1.0.gguf", "Averylongnamewithoutanyspaces".repeat(3)));
    let mut head = head(&[("blk.0.attn_q.weight", &[1_000, 100], gguf_format::GgmlType::Q4_0)]);
    head.set("general.name", "Anothernamewithoutspaces".repeat(2).as_str());
    head.set("tokenizer.chat_template", "{{ something }} ".repeat(20).as_str());
    head.tensors[0].shape = vec![32, 100_000];
    write(&path, &head, &[]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1000]).unwrap();
    for columns in [40, 50, 60] {
        for line in ["show", "show --kv", "show --tensors", "name", "check --rules"] {
            let file = if line.ends_with("rules") { "" } else { text(&path) };
            let Some(out) = on_terminal(columns, &[], &format!("{line} {file}")) else { return };
            let plain = strip(&out).0;
            assert!(plain.lines().count() > 1, "{line}: {plain}");
            // Messages contain whole paths.
            let lines = plain.lines().filter(|l| !l.starts_with("gguf: error: "));
            for l in lines.map(|l| l.trim_end_matches('\r')) {
                assert!(l.chars().count() <= columns as usize, "{line} at {columns}: {l:?}");
            }
        }
    }
    // Requested values are complete.
    let Some(out) = on_terminal(40, &[], &format!("show --kv --full {}", text(&path))) else { return };
    assert!(strip(&out).0.contains(&"{{ something }} ".repeat(20)), "{out}");
}

/// Windows has no files with these names.
#[cfg(unix)]
#[test]
fn paths_stay_on_their_line() {
    let dir = folder();
    let file = small(dir.path(), "small.gguf");
    let odd = dir.path().join("a\nb\u{202e}");
    std::fs::create_dir(&odd).unwrap();
    let to = odd.join("Small.gguf");
    std::fs::rename(&file, &to).unwrap();
    for line in ["show", "name", "name --rename", "check", "convert"] {
        let line = match line {
            "convert" => format!("convert {} -q -o '{}'", text(&glossary()), text(&odd.join("out.gguf"))),
            line => format!("{line} '{}'", text(&to)),
        };
        let Some(out) = on_terminal(200, &[], &line) else { return };
        let plain = strip(&out).0;
        assert!(plain.contains("a\\nb\\u{202e}/"), "{line}: {plain:?}");
        assert!(!plain.contains("\nb"), "{line}: {plain:?}");
        if line.contains("rename") {
            std::fs::rename(odd.join("Small-32K.gguf"), &to).unwrap();
        }
    }
    // Without a terminal, output is unchanged.
    let run = gguf(["convert", text(&glossary()), "-q", "-f", "-o", text(&odd.join("out.gguf"))]).exits(0);
    assert_eq!(run.out, format!("{}\n", text(&odd.join("out.gguf"))));
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

#[test]
fn no_table_cuts_a_name() {
    let dir = folder();
    let name = "blk.10.attn_of_a_name_with_48_characters.weight";
    let mut head = head(&[(name, &[256, 64], gguf_format::GgmlType::F16)]);
    head.set("llama.a_key_with_a_name_that_is_not_short_either", "a text that may be cut");
    let file = dir.path().join("long.gguf");
    write(&file, &head, &[]);
    let (file, glossary, out) = (text(&file), text(&glossary()).to_owned(), dir.path().join("out.gguf"));
    let matrix = glossary.replace("glossary", "imatrix.gguf");
    let key = "llama.a_key_with_a_name_that_is_not_short_either";
    let cases = [
        (format!("show --kv {file}"), key),
        (format!("get {file} 'llama.*' general.name"), key),
        (format!("show --tensors {file}"), name),
        (format!("quantize {file} Q8_0 --dry-run"), name),
        (format!("quantize {file} {} Q8_0 --report --force", text(&out)), name),
        (format!("convert {glossary} --dry-run"), "blk.0.attn_output.weight"),
        (format!("imatrix show {matrix}"), "blk.0.attn_output.weight"),
        ("convert --list".to_owned(), "smallthinker"),
        ("check --rules".to_owned(), "tensor.type.unknown"),
    ];
    for columns in [60, 80, 200] {
        for (line, name) in &cases {
            let Some(out) = on_terminal(columns, &[], line) else { return };
            assert!(strip(&out).0.contains(name), "{line} at {columns}: {out}");
        }
    }
}

#[test]
fn comparisons_and_values_fit() {
    let dir = folder();
    let (a, b) = (small(dir.path(), "a.gguf"), dir.path().join("b.gguf"));
    let tensors: [(&str, &[u64], gguf_format::GgmlType); 2] = [
        ("token_embd.weight", &[32, 1000], gguf_format::GgmlType::Q8_0),
        ("output_norm.weight", &[32], gguf_format::GgmlType::F32),
    ];
    let mut other = head(&tensors);
    other.set("general.description", "words ".repeat(40));
    other.set("llama.a.key.with.a.longer.name", 1u32);
    write(&b, &other, &[&[0, 60, 1]]);
    let prefix = dir.path().join("s");
    let lines = [
        format!("diff {} {}", text(&a), text(&b)),
        format!("cat {} token_embd.weight", text(&b)),
        format!("split {} {} --max-tensors 1 -n", text(&a), text(&prefix)),
    ];
    for columns in [60, 80, 140] {
        for line in &lines {
            let Some(out) = on_terminal(columns, &[], line) else { return };
            let (plain, coloured) = strip(&out);
            assert!(coloured, "{line}");
            for l in plain.lines() {
                assert!(l.trim_end_matches('\r').chars().count() <= columns as usize, "{columns}: {l:?}");
            }
        }
    }
}

/// Every table of every command, at three widths: the names in it are complete, regardless of their length.
#[test]
fn names_are_whole_in_every_table() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    let expert = "blk.0.attn_some_very_long_name_of_a_projection_of_expert.weight";
    let key = "llama.some_group_of_keys.attention.some_very_long_name_of_a_key";
    let tensors: [(&str, &[u64], GgmlType); 3] = [
        (expert, &[256, 128], GgmlType::F32),
        ("token_embd.weight", &[256, 1000], GgmlType::F32),
        ("output_norm.weight", &[256], GgmlType::F32),
    ];
    let mut one = head(&tensors);
    one.set(key, "a value that is as long as values are that do not fit beside the name of their key");
    write(&at("one-with-a-name-of-some-length-7B-v1.0-F32.gguf"), &one, &[]);
    one.set(key, "another");
    write(&at("two.gguf"), &one, &[&[0, 0, 0, 0, 0, 0, 0x80, 0x3f]]);
    let bytes = std::fs::read(at("two.gguf")).unwrap();
    std::fs::write(at("cut.gguf"), &bytes[..bytes.len() - 1_020_000]).unwrap();
    let entry = "blk.0.attn_some_very_long_name_of_a_projection_of_expert";
    let mut matrix = vec![1, 0, 0, 0];
    matrix.extend((entry.len() as u32).to_le_bytes());
    matrix.extend(entry.as_bytes());
    matrix.extend([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x80, 0x3f]);
    std::fs::write(at("matrix.dat"), matrix).unwrap();
    let legacy = gguf_test::legacy::llama(gguf_test::legacy::GGJT1, 2, 2).write("", "").bytes;
    std::fs::write(at("old.bin"), legacy).unwrap();
    let tensor = expert;
    let file = "one-with-a-name-of-some-length-7B-v1.0-F32.gguf";
    let lines: &[(&str, &[&str])] = &[
        ("show {one} --tensors", &[tensor, "token_embd.weight"]),
        ("show {one} --tensors --sort size", &[tensor, "token_embd.weight"]),
        ("show {one} --kv", &[key, "general.architecture"]),
        ("show {one}", &["f32"]),
        ("show {one} two.gguf", &[file, "two.gguf"]),
        ("get {one} llama.*", &[key]),
        ("check --rules", &["tokenizer.duplicate", "quantization_version.missing"]),
        ("imatrix check --rules", &["imatrix.uncovered.output"]),
        ("imatrix show matrix.dat", &[entry]),
        ("quantize {one} q4_0 --dry-run", &[tensor, "token_embd.weight"]),
        ("quantize {one} out.gguf q4_0 --report -qf", &[tensor, "token_embd.weight"]),
        ("quantize {one} --target-bpw 6 --dry-run -q", &[tensor, "token_embd.weight"]),
        ("recipe apply recipe {one} --dry-run", &[tensor]),
        ("convert --list", &["LlamaForCausalLM", "Qwen3NextForCausalLM", "llama", "deepseek2"]),
        ("convert {glossary} --dry-run", &["blk.0.attn_output.weight"]),
        ("migrate old.bin --yes --dry-run", &["blk.0.attn_norm.weight"]),
        ("split {one} part --max-tensors 1 --dry-run", &["part-00003-of-00003.gguf"]),
        ("diff {one} two.gguf", &[key, tensor]),
        ("diff {one} two.gguf --all", &[tensor, "token_embd.weight"]),
        ("set {one} llama.some_group_of_keys.attention.some_very_long_name_of_a_key=b --dry-run", &[key]),
        (
            "rename {one} token_embd.weight=own.weight_with_a_name_that_is_long_enough_for_this --dry-run",
            &["token_embd.weight", "own.weight_with_a_name_that_is_long_enough_for_this"],
        ),
        ("repair cut.gguf", &["output_norm.weight", "token_embd.weight"]),
        ("repair cut.gguf --from two.gguf --dry-run", &["token_embd.weight"]),
        ("estimate {glossary.gguf}", &["weights", "KV cache", "compute"]),
        ("quantize {one} --list", &["Q4_K_M", "IQ3_XXS", "IQ2_XXS"]),
        ("quantize {one} many-{ftype}-{size}.gguf q4_0 q8_0 --dry-run", &[tensor, "Q4_0", "many-q8_0-7B.gguf"]),
        ("convert {glossary} -o many-{ftype}-{size}.gguf --type q4_0,bf16 --dry-run", &["many-bf16-2.9M.gguf"]),
        ("card {one} -q --no-hash", &["f32", file]),
        ("hash {one}", &[&format!("{file}:{tensor}")]),
        ("merge part-00001-of-00003.gguf -o merged-with-a-name-of-some-length.gguf -n", &["part-00003-of-00003.gguf"]),
        ("show {one} --tensors --markdown", &["`token_embd.weight`", &format!("`{tensor}`")]),
        ("imatrix check matrix.dat {one} q4_0", &["imatrix.uncovered"]),
        ("check cut.gguf", &["file.truncated"]),
        ("name {one}", &[file]),
        ("cat {one} output_norm.weight", &["output_norm.weight"]),
        ("export {glossary.gguf} -o exported --dry-run", &["model.layers.0.post_attention_layernorm.weight"]),
        ("verify {glossary.gguf} --against {glossary} --all", &["blk.0.attn_output.weight"]),
    ];
    std::fs::write(at("recipe"), "Q4_0\n").unwrap();
    gguf(["convert", text(&glossary()), "-o", text(&at("glossary.gguf")), "-q"]).exits(0);
    gguf(["split", text(&at(file)), text(&at("part")), "--max-tensors", "1", "-q"]).exits(0);
    // Every command with a table is tested.
    let help = gguf(["--help"]).exits(0).out;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands =
        commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let without = [
        "unset",
        "part",
        "commit",
        "edit",
        "extract",
        "reorder",
        "swap",
        "upgrade",
        "rm-tensor",
        "add-tensor",
        "graft",
        "lora",
        // The interop tests have the library that these need.
        "engine",
        "perplexity",
        "kld",
        "run",
        "sensitivity",
        "help",
        "completions",
        "man",
    ];
    for command in commands {
        let is_there = lines.iter().any(|(line, _)| line.split(' ').next() == Some(command));
        assert!(is_there != without.contains(&command), "{command}");
    }
    for columns in [60, 80, 200] {
        for (line, names) in lines {
            let words = line.split(' ').map(|word| match word {
                "{one}" => file,
                "{glossary.gguf}" => "glossary.gguf",
                word => word,
            });
            let line = words.collect::<Vec<_>>().join(" ").replace("{glossary}", text(&glossary()));
            let line = line.replace("llama.*", "'llama.*'");
            let Some(out) = in_folder(dir.path(), columns, &line) else { return };
            let plain = strip(&out).0;
            for name in *names {
                let is_whole = plain.lines().any(|l| {
                    l.split([' ', ',', '\r']).any(|word| word == *name) || name.contains(' ') && l.contains(name)
                });
                assert!(is_whole, "{columns} columns, {line}: no {name} in\n{plain}");
            }
        }
    }
}

/// As [`on_terminal`], in a directory.
fn in_folder(folder: &std::path::Path, columns: u32, line: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_gguf");
    on_terminal_with(columns, &[], &format!("cd {}; {program} {line}", text(folder)))
}
