//! `gguf set`, `unset`, `rename` and `edit`: changes, output and exit codes.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use gguf_format::GgmlType;
use gguf_test::files::{folder, glossary, head, names, small, text, write};
use gguf_test::program::{gguf, program};

#[test]
fn set_changes_a_file_in_place() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::metadata(&file).unwrap().len();
    let run = gguf(["set", text(&file), "general.name=Other", "llama.context_length=256"]).exits(0);
    assert_eq!(run.out, format!("{}\n", text(&file)));
    run.says(&["  general.name: Small -> Other\n", "  llama.context_length: 128 -> 256\n", "2 changes, in place; "]);
    assert_eq!(fs::metadata(&file).unwrap().len(), before);
    gguf(["get", text(&file), "llama.context_length", "--type"]).exits(0).prints(&["u32\n"]);
    let run = gguf(["set", "-q", text(&file), "general.name=Small", "llama.context_length=128"]).exits(0).silently();
    assert_eq!(run.out, format!("{}\n", text(&file)));
    assert_eq!(fs::read(&file).unwrap(), fs::read(small(dir.path(), "again.gguf")).unwrap());
    gguf(["set", text(&file), "general.name=Small"]).exits(0).says(&["nothing to change\n"]);
    assert_eq!(names(dir.path()), ["again.gguf", "m.gguf"]);
}

#[test]
fn set_says_what_it_would_do() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::read(&file).unwrap();
    let run = gguf(["set", "-n", text(&file), "general.name=Other", "own.list:[f32]=[1, 2.5]"]).exits(0).silently();
    run.prints(&[
        "NAME          BEFORE  AFTER\n",
        "general.name  Small   Other\n",
        "own.list      -       [1.0, 2.5]\n\nwould be edited ",
    ]);
    let json = gguf(["set", "-n", "--json", text(&file), "general.name=Other"]).exits(0).silently().json();
    assert_eq!((&json["dry_run"], &json["way"], &json["in_place"]), (&true.into(), &"room".into(), &true.into()));
    assert_eq!(json["changes"][0]["after"], "Other");
    assert_eq!(json["file_bytes"], before.len());
    let run = gguf(["set", "-n", "--rewrite", "--reserve", "1KiB", text(&file)]).exits(0);
    run.prints(&["would be edited as a new file of ", "because a rewrite was requested", "1,024 bytes of space"]);
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn set_types_values() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::read(&file).unwrap();
    for (value, code, said) in [
        ("llama.context_length=many", 2, "m.gguf: llama.context_length: expected a value of type u32, found many\n"),
        ("llama.contxt_length=1", 2, "did you mean llama.context_length?\n"),
        ("own.new=1", 2, "specify a type, as in KEY:u32=VALUE\n"),
        ("general.name", 2, "\"general.name\" is not KEY=VALUE or KEY:TYPE=VALUE"),
        ("a:u31=1", 2, "unknown type \"u31\""),
        ("general.alignment=64", 2, "changing general.alignment would move every tensor"),
        ("ggufkit.pad=x", 2, "--reserve enlarges it"),
    ] {
        gguf(["set", text(&file), value]).exits(code).says(&[said]);
    }
    gguf(["set", text(&file)]).exits(2).says(&["nothing to set: pass KEY=VALUE"]);
    gguf(["set", text(dir.path()), "a=b"]).exits(2).says(&["expected a GGUF file, found a folder"]);
    assert!(fs::read(&file).unwrap() == before);
    let json = dir.path().join("types.json");
    fs::write(&json, r#"{"llama.block_count": {"type": "string", "value": "many"}}"#).unwrap();
    for (args, said) in [
        (
            &["llama.context_length:string=many"][..],
            "m.gguf: llama.context_length: expected a value of type u32, found str",
        ),
        (&["general.tags:string=chat"], "m.gguf: general.tags: expected a value of type array of string, found str"),
        (&["--from", text(&json)], "m.gguf: llama.block_count: expected a value of type u32, found str"),
        (&["llama.context_length:u64=128"], "m.gguf: llama.context_length: expected a value of type u32, found u64"),
        (&["llama.rope.freq_base:f64=1e4"], "m.gguf: llama.rope.freq_base: expected a value of type f32, found f64"),
    ] {
        let args = [&["set", "-n", text(&file)], args].concat();
        gguf(args.clone()).exits(2).says(&[said, "\nhelp: use --allow-type-change to set it anyway\n"]);
        gguf([args, vec!["--allow-type-change", "--allow-invalid"]].concat()).exits(0);
    }
    assert!(fs::read(&file).unwrap() == before);
    let run = gguf(["set", "-n", text(&file), "llama.context_length:string=many", "--allow-type-change"]).exits(1);
    run.says(&[
        "gguf: warning: llama.context_length: llama.cpp expects u32; set as string\n",
        "gguf: warning: this edit makes the model unloadable: key llama.context_length: ",
    ]);
}

#[test]
fn edits_that_add_errors_are_refused() {
    let dir = folder();
    let file = dir.path().join("m.gguf");
    gguf(["convert", text(&glossary()), "-q", "-o", text(&file)]).exits(0);
    let before = fs::read(&file).unwrap();
    let refused =
        "the edit would add 4 errors, and llama.cpp would reject the file; correct the edit, or use --allow-invalid";
    let run = gguf(["set", text(&file), "llama.block_count=7"]).exits(1);
    run.says(&["this edit makes the model unloadable: tensor blk.3: block 3 of 7 has no tensors", refused]);
    assert!(fs::read(&file).unwrap() == before);
    gguf(["set", "-n", text(&file), "llama.block_count=7"]).exits(1).says(&[refused]).prints(&["llama.block_count"]);
    gguf(["unset", text(&file), "llama.block_count"]).exits(1).says(&["the edit would add an error"]);
    gguf(["set", "-n", text(&file), "llama.block_count=7", "--allow-invalid"]).exits(0);
    gguf(["set", "-q", text(&file), "llama.block_count=7", "--allow-invalid"]).exits(0);
    // Errors that the file has already are no reason to refuse an edit.
    gguf(["set", "-q", text(&file), "general.name=Other"]).exits(0);
    gguf(["set", "-q", text(&file), "llama.block_count=3"]).exits(0);
    gguf(["check", "-q", text(&file)]).exits(0);
}

#[test]
fn findings_of_a_rule_are_grouped() {
    let dir = folder();
    let file = dir.path().join("m.gguf");
    gguf(["convert", text(&glossary()), "-q", "-o", text(&file)]).exits(0);
    let run = gguf(["set", "-n", text(&file), "llama.embedding_length=96", "--allow-invalid"]).exits(0);
    let n = run.err.matches("this edit makes the model unloadable: tensor ").count();
    assert_eq!(n, 3, "{}", run.err);
    run.says(&["more findings of the rule tensor.shape; --json lists all"]);
    let all =
        gguf(["set", "-n", "--json", text(&file), "llama.embedding_length=96", "--allow-invalid"]).exits(0).json();
    assert!(all["findings"].as_array().unwrap().len() > 10);
}

#[test]
fn set_reads_json_and_templates() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let json = dir.path().join("m.json");
    fs::write(&json, r#"{"general.name": "J", "llama.big": null, "own.f": {"type": "f64", "value": 0.1}}"#).unwrap();
    let template = dir.path().join("t.jinja");
    fs::write(&template, "{% for m in messages %}\n{{ m }}\n{% endfor %}").unwrap();
    gguf(["set", "-q", text(&file), "--from", text(&json), "--chat-template-file", text(&template)]).exits(0);
    gguf(["get", text(&file), "general.name"]).exits(0).prints(&["J\n"]);
    gguf(["get", text(&file), "own.f", "--type"]).exits(0).prints(&["f64\n"]);
    gguf(["get", text(&file), "llama.big"]).exits(1);
    let run = gguf(["get", text(&file), "tokenizer.chat_template"]).exits(0);
    assert_eq!(run.out.trim_end(), fs::read_to_string(&template).unwrap());
    // The metadata printed by `show` can be applied to another file.
    let shown = gguf(["show", "--json", "--full", text(&file)]).exits(0).json();
    let other = dir.path().join("other.gguf");
    write(&other, &head(&[("a", &[32], GgmlType::F32)]), &[]);
    let mut command = program();
    command.args(["set", "-q", text(&other), "--from", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(shown["files"][0]["metadata"].to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let kv = |file| gguf(["get", file, "*"]).exits(0).out;
    let lines = |file| kv(file).lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let own = |lines: std::collections::BTreeSet<String>| -> Vec<String> {
        lines.into_iter().filter(|line| !line.starts_with("ggufkit.") && !line.starts_with("llama.big")).collect()
    };
    assert_eq!(own(lines(text(&other))), own(lines(text(&file))));

    fs::write(&json, "{").unwrap();
    gguf(["set", text(&file), "--from", text(&json)]).exits(2).says(&["m.json: not JSON: "]);
    fs::write(&json, "[1]").unwrap();
    gguf(["set", text(&file), "--from", text(&json)]).exits(2).says(&["expected an object of keys and values"]);
    gguf(["set", text(&file), "--from", "-", "--chat-template-file", "-"]).exits(2).says(&["can be read only once"]);
}

/// One element of an array is set, and changes of arrays are shown by their elements, named by the tokens.
#[test]
fn elements_of_arrays_are_set_and_shown() {
    let dir = folder();
    let file = dir.path().join("m.gguf");
    gguf(["convert", text(&glossary()), "-q", "-o", text(&file)]).exits(0);
    let file = text(&file);
    let token = gguf(["get", file, "tokenizer.ggml.tokens", "-i", "275"]).exits(0).out.trim_end().to_owned();
    let control = format!("{token}=control");
    let run = gguf(["set", file, "--token-type", &control, "tokenizer.ggml.tokens[5]=<|im_end|>"]).exits(0);
    assert!(
        run.err.contains(&format!("tokenizer.ggml.token_type: token 275 {token}: normal -> control\n")),
        "{}",
        run.err
    );
    assert!(run.err.contains("tokenizer.ggml.tokens: token 5: <0x02> -> <|im_end|>\n"), "{}", run.err);
    assert_eq!(gguf(["get", file, "tokenizer.ggml.tokens", "-i", "5"]).exits(0).out, "<|im_end|>\n");
    gguf(["get", file, "tokenizer.ggml.tokens", "--type"]).exits(0).prints(&["string[2048]\n"]);
    // Several elements of one array, in order.
    let two = ["tokenizer.ggml.scores[7]=-1.5", "tokenizer.ggml.scores[8]=2", "tokenizer.ggml.scores[7]=3"];
    gguf([&["set", file, "-q"], &two[..]].concat()).exits(0);
    assert_eq!(gguf(["get", file, "tokenizer.ggml.scores", "-i", "7"]).exits(0).out, "3.0\n");
    assert_eq!(gguf(["get", file, "tokenizer.ggml.scores", "-i", "8"]).exits(0).out, "2.0\n");
    let run = gguf(["set", file, "-n", "general.tags[1]=other"]).exits(0).silently();
    run.prints(&["general.tags, element 1  example  other\n"]);
    // Many elements are counted.
    let all: Vec<String> = (0..13).map(|i| format!("tokenizer.ggml.scores[{i}]=9")).collect();
    let all = gguf(["set", file, "-n", "--json"].into_iter().chain(all.iter().map(String::as_str))).exits(0).json();
    assert_eq!(all["changes"][0]["elements"][0]["index"], 0);
    let json = dir.path().join("scores.json");
    let mut scores: Vec<String> =
        gguf(["get", file, "tokenizer.ggml.scores"]).exits(0).out.lines().map(str::to_owned).collect();
    scores[..12].fill("77".to_owned());
    fs::write(&json, format!("{{\"tokenizer.ggml.scores\": [{}]}}", scores.join(","))).unwrap();
    gguf(["set", file, "-n", "--from", text(&json)]).exits(0).prints(&["tokenizer.ggml.scores, 2 more elements"]);
    for (wrong, said) in [
        ("tokenizer.ggml.tokens[2048]=x", "index 2048 is out of range; the array has 2048 elements"),
        ("general.name[0]=x", "general.name: expected an array, found string"),
        ("general.nam[0]=x", "general.nam"),
        ("tokenizer.ggml.scores[0]=x", "tokenizer.ggml.scores[0]"),
        ("tokenizer.ggml.scores[0]:u32=1", "expected a value of type f32, found u32"),
    ] {
        let run = gguf(["set", file, wrong]);
        assert!(run.code != 0 && run.err.contains(said), "{wrong}: {}", run.err);
    }
}

/// The old values that are saved before an edit undo it.
#[test]
fn edits_are_undone_with_their_backup() {
    let dir = folder();
    let file = dir.path().join("m.gguf");
    gguf(["convert", text(&glossary()), "-q", "-o", text(&file)]).exits(0);
    let path = text(&file).to_owned();
    let backup = dir.path().join("my undo.json");
    let backup = text(&backup);
    let kvs = || {
        let mut lines: Vec<String> = gguf(["get", &path, "*"]).exits(0).out.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.starts_with("ggufkit.pad"));
        lines.sort();
        lines
    };
    let before = kvs();
    let edits: &[&[&str]] = &[
        &[
            "set",
            &path,
            "general.name=New",
            "own.new:f32=1",
            "tokenizer.ggml.tokens[5]=x",
            "tokenizer.ggml.tokens[6]=y",
        ],
        &["unset", &path, "general.*"],
        &["edit", &path],
    ];
    for edit in edits {
        let mut command = program();
        command
            .args(*edit)
            .args(["--backup", backup, "--allow-invalid"])
            .env("EDITOR", "sed -i 's/Glossary/Words/; /license/d'");
        let run = command.env_remove("VISUAL").output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert!(run.status.success(), "{edit:?}: {said}");
        assert!(said.ends_with(&format!("to undo: gguf set {path} --from '{backup}'\n")), "{said}");
        assert_ne!(kvs(), before, "{edit:?}");
        // A backup is not replaced.
        gguf(["set", &path, "general.name=Newer", "--backup", backup]).exits(2).says(&["my undo.json: already exists"]);
        gguf(["set", &path, "--from", backup, "-q"]).exits(0);
        assert_eq!(kvs(), before, "{edit:?}");
        fs::remove_file(backup).unwrap();
    }
    // Without a change there is nothing to save.
    gguf(["set", &path, "general.name=Glossary", "--backup", backup]).exits(0);
    assert!(!std::path::Path::new(backup).exists());
    gguf(["set", &path, "general.name=N", "--backup", backup, "--dry-run"]).exits(2);
    gguf(["set", &path, "general.name=N", "--backup", "none/undo.json"])
        .exits(2)
        .says(&["none/undo.json: cannot write"]);
    assert_eq!(kvs(), before);
}

/// Every command that writes the metadata of a model sets chat templates, with and without names.
#[test]
fn chat_templates_are_set_by_every_command() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (main, tools) = (at("main.jinja"), at("a=b.jinja"));
    fs::write(&main, "{{ main }}\n").unwrap();
    fs::write(&tools, "{{ tools }}").unwrap();
    let named = format!("tool-use={tools}");
    let model = at("m.gguf");
    let checkpoint = glossary();
    gguf(["convert", text(&checkpoint), "-q", "-o", &model]).exits(0);
    let copy = at("copy.gguf");
    fs::copy(&model, &copy).unwrap();
    let big = at("big.gguf");
    gguf(["swap", &model, &big, "-q"]).exits(0);
    let out = at("out.gguf");
    let list = at("{ftype}.gguf");
    let recipe = at("recipe");
    fs::write(&recipe, "Q4_0\n").unwrap();
    let commands: &[(&[&str], &[&str])] = &[
        (&["set", &copy, "-q"], &[&copy]),
        (&["convert", text(&checkpoint), "-qo", &out], &[&out]),
        (&["convert", text(&checkpoint), "-qo", &list, "--type", "bf16,Q4_0"], &[&at("bf16.gguf"), &at("q4_0.gguf")]),
        (&["quantize", &model, &out, "Q4_0", "-qf"], &[&out]),
        (&["quantize", &model, &list, "Q8_0", "Q5_0", "-q"], &[&at("q8_0.gguf"), &at("q5_0.gguf")]),
        (&["recipe", "apply", &recipe, &model, &out, "-qf"], &[&out]),
        (&["migrate", &big, "-o", &out, "-qf"], &[&out]),
        (&["migrate", &big, "-o", &out, "-qf", "--type", "Q4_0"], &[&out]),
    ];
    for (command, outputs) in commands {
        gguf([command, &["--chat-template-file", &main, "--chat-template-file", &named][..]].concat()).exits(0);
        for out in *outputs {
            let get = |key: &str| gguf(["get", out, key]).exits(0).out;
            assert_eq!(get("tokenizer.chat_template"), "{{ main }}\n\n", "{command:?}");
            assert_eq!(get("tokenizer.chat_template.tool_use"), "{{ tools }}\n", "{command:?}");
            assert_eq!(get("tokenizer.chat_templates"), "tool_use\n", "{command:?}");
            gguf(["check", out]).exits(0);
        }
    }
    // The default name is the main template, a path with another character before the = has no name, and templates are not overwritten.
    let default = format!("default={tools}");
    gguf(["set", &copy, "-q", "--chat-template-file", &default]).exits(0);
    gguf(["get", &copy, "tokenizer.chat_template"]).exits(0).prints(&["{{ tools }}\n"]);
    gguf(["set", &copy, "-q", "--chat-template-file", &tools]).exits(0);
    assert_eq!(gguf(["get", &copy, "tokenizer.chat_templates"]).exits(0).out, "tool_use\n");
    gguf(["quantize", &model, &main, "Q4_0", "-f", "--chat-template-file", &main]).exits(2);
    assert_eq!(fs::read(&main).unwrap(), b"{{ main }}\n");
    gguf(["set", &copy, "--chat-template-file", &model]).exits(2).says(&["expected a chat template, found a model"]);
    gguf(["set", &copy, "--chat-template-file", "x=none"]).exits(2).says(&["none: cannot"]);
    gguf(["convert", text(&checkpoint), "--list", "--chat-template-file", &main]).exits(2);
}

#[test]
fn set_repairs_tokens() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    gguf(["set", "-q", text(&file), "--special-token", "eos=token 7", "--special-token-id", "bos=3"]).exits(0);
    gguf(["get", text(&file), "tokenizer.ggml.eos_token_id"]).exits(0).prints(&["7\n"]);
    gguf(["get", text(&file), "tokenizer.ggml.bos_token_id"]).exits(0).prints(&["3\n"]);
    gguf(["set", "-q", text(&file), "--token-type", "token 7=control", "--token-type-id", "9=byte"]).exits(0);
    for (id, ty) in [("7", "3\n"), ("8", "1\n"), ("9", "6\n")] {
        assert_eq!(gguf(["get", text(&file), "tokenizer.ggml.token_type", "--index", id]).exits(0).out, ty);
    }
    for (option, value, code, said) in [
        ("--special-token", "eos=nope", 1, "m.gguf: no token has the text \"nope\"\n"),
        ("--special-token", "end=token 7", 2, "unknown role end; expected one of bos, eos, "),
        ("--special-token-id", "eos=1000", 2, "token id 1000 is out of range; the vocabulary has 1000 tokens\n"),
        ("--special-token-id", "eos=x", 2, "invalid token id \"x\"\n"),
        ("--token-type", "token 7=odd", 2, "unknown token type \"odd\"; expected normal, "),
    ] {
        gguf(["set", text(&file), option, value]).exits(code).says(&[said]);
    }
}

#[test]
fn a_copy_is_written_and_not_over_another_file() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::read(&file).unwrap();
    let out = dir.path().join("out.gguf");
    let set =
        |more: &[&str]| gguf([&["set", text(&file), "general.name=Copied", "--output", text(&out)], more].concat());
    assert_eq!(set(&[]).exits(0).says(&["1 change, in a copy"]).out, format!("{}\n", text(&out)));
    set(&[]).exits(2).says(&["out.gguf: already exists\nhelp: use --force to overwrite it"]);
    set(&["--force", "-q"]).exits(0).silently();
    gguf(["get", text(&out), "general.name"]).exits(0).prints(&["Copied\n"]);
    gguf(["set", text(&file), "a:u8=1", "--output", text(&file), "-f"])
        .exits(2)
        .says(&["is the damaged file itself\nhelp: pass another file"]);
    gguf(["set", text(&file), "a:u8=1", "--output", "-"]).exits(2).says(&["cannot be written to standard output"]);
    gguf(["set", text(&file), "a:u8=1", "--force"]).exits(2);
    assert!(fs::read(&file).unwrap() == before);
    assert_eq!(names(dir.path()), ["m.gguf", "out.gguf"]);
}

#[test]
fn unset_removes_keys() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::read(&file).unwrap();
    gguf(["unset", text(&file), "general.name", "no.such"]).exits(1).says(&["m.gguf: there is no key no.such"]);
    gguf(["unset", text(&file), "no.*"]).exits(1).says(&["no key matches no.*"]);
    gguf(["unset", text(&file)]).exits(2);
    assert!(fs::read(&file).unwrap() == before);
    let run = gguf(["unset", text(&file), "tokenizer.*", "general.name", "--allow-invalid"]).exits(0);
    run.says(&["  tokenizer.ggml.model: llama (removed)\n", "3 changes, in place\n"]);
    assert_eq!(fs::metadata(&file).unwrap().len(), before.len() as u64);
    assert_eq!(gguf(["get", text(&file), "general.*"]).exits(0).out, "general.architecture\tllama\n");
    gguf(["check", "--structure", text(&file)]).exits(0);
}

#[test]
fn rename_gives_keys_and_tensors_other_names() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    gguf(["rename", text(&file), "general.name=general.basename", "output_norm.weight=norm.weight", "--allow-invalid"])
        .exits(0)
        .says(&["  general.name is now general.basename\n", "  tensor output_norm.weight is now norm.weight\n"]);
    gguf(["show", "--tensors", text(&file)]).exits(0).prints(&["norm.weight"]);
    gguf(["rename", text(&file), "nothing=x"]).exits(1).says(&["there is neither a key nor a tensor nothing\n"]);
    gguf(["rename", text(&file), "norm.weight=token_embd.weight"])
        .exits(2)
        .says(&["the name token_embd.weight is taken"]);
    // A name shared by a key and a tensor.
    gguf(["set", "-q", text(&file), "norm.weight:u8=1"]).exits(0);
    gguf(["rename", text(&file), "norm.weight=x"])
        .exits(2)
        .says(&["norm.weight is both a key and a tensor\nhelp: choose with --keys or --tensors\n"]);
    gguf(["rename", "--tensors", text(&file), "norm.weight=x", "--allow-invalid"])
        .exits(0)
        .says(&["tensor norm.weight is now x"]);
    gguf(["rename", "--keys", text(&file), "x=y"]).exits(1).says(&["there is no key x"]);
    // Swapped names.
    gguf(["rename", "-q", "--allow-invalid", text(&file), "x=t", "token_embd.weight=x", "t=token_embd.weight"])
        .exits(0);
}

#[cfg(unix)]
#[test]
fn edit_runs_an_editor() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::read(&file).unwrap();
    let edit = |editor: &str, more: &[&str]| {
        let mut command = program();
        command.args([&["edit", text(&file)], more].concat()).env("EDITOR", editor).env_remove("VISUAL");
        command.env("TMPDIR", dir.path());
        let output = command.output().unwrap();
        let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), utf8(&output.stdout), utf8(&output.stderr))
    };
    let (code, _, err) = edit("true", &[]);
    assert_eq!((code, err.as_str()), (0, "nothing to change\n"));
    let (code, out, err) = edit("cat", &["--dry-run"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for line in [
        "\ngeneral.name: string = \"Small\"\n",
        "\nllama.big: u64 = 18446744073709551615\n",
        "\nllama.rope.freq_base: f32 = 1e-5\n",
        "\ntokenizer.ggml.tokens: [string] = … 1000 elements\n",
        "nothing would change\n",
    ] {
        assert!(out.contains(line), "{line} in {out}");
    }
    let (code, _, err) = edit("sed -i -e 's/\"Small\"/\"Edited\"/' -e '/llama.big/d'", &[]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("  llama.big: 18446744073709551615 (removed)\n  general.name: Small -> Edited\n"), "{err}");
    gguf(["get", text(&file), "general.name"]).exits(0).prints(&["Edited\n"]);
    fs::write(&file, &before).unwrap();

    let (code, _, err) = edit("false", &[]);
    assert_eq!(code, 2);
    assert!(err.contains("the editor false failed (exit status: 1); nothing was changed"), "{err}");
    let (code, _, err) = edit("sed -i 's/\"Small\"/Small/'", &[]);
    assert_eq!(code, 2);
    let (message, help) = err.trim_end().split_once("\nhelp: ").unwrap();
    assert!(
        message.contains("general.name: expected a value of type string, found Small; the text is kept in "),
        "{err}"
    );
    assert_eq!(help, "write strings in quotes: \"text\"");
    fs::remove_file(message.rsplit(' ').next().unwrap()).unwrap();
    let (code, _, err) = edit("sed -i 's/: u64 = .*/: u64 = x/'", &[]);
    assert_eq!(code, 2);
    let kept = err.trim_end().rsplit(' ').next().unwrap();
    assert!(err.contains("llama.big: expected a value of type u64, found x; the text is kept in "), "{err}");
    assert!(fs::read_to_string(kept).unwrap().contains("llama.big: u64 = x\n"));
    assert!(fs::read(&file).unwrap() == before);
    fs::remove_file(kept).unwrap();
    assert_eq!(names(dir.path()), ["m.gguf"]);
}

/// A journal beside a file, as left by a killed edit.
#[test]
fn an_interrupted_edit_is_finished_by_whatever_opens_the_file() {
    use gguf_io::in_place::{EditStep, journal_path, replace_start};
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let old = fs::read(&file).unwrap();
    let at = old.windows(5).position(|w| w == b"Small").unwrap();
    let mut new = old.clone();
    new[at..at + 5].copy_from_slice(b"After");
    let interrupt = || {
        fs::write(&file, &old).unwrap();
        let journal = std::cell::RefCell::new(Vec::new());
        let keep = |step| {
            if step == EditStep::Durable {
                *journal.borrow_mut() = fs::read(journal_path(&file)).unwrap();
            }
        };
        replace_start(&file, &old[..1000], &new[..1000], &keep).unwrap();
        fs::write(&file, &old).unwrap();
        fs::write(journal_path(&file), journal.into_inner()).unwrap();
    };
    for args in [&["show"][..], &["get", "general.name"], &["check"], &["set", "-n", "general.name=x"]] {
        interrupt();
        let mut args = args.to_vec();
        args.insert(1, text(&file));
        let run = gguf(&args);
        assert!(run.code < 2, "{}", run.err);
        assert!(fs::read(&file).unwrap() == new, "{args:?}");
        assert_eq!(names(dir.path()), ["m.gguf"]);
    }
    interrupt();
    gguf(["set", text(&file), "general.name=Small"]).exits(0).says(&["m.gguf: completed an interrupted edit\n"]);
    // If the file has been replaced since, nothing is touched.
    interrupt();
    let other = dir.path().join("other.gguf");
    write(&other, &head(&[]), &[]);
    fs::copy(&other, &file).unwrap();
    gguf(["show", text(&file)]).exits(2).says(&["m.gguf.edit belongs to other contents", "remove the journal"]);
    assert!(fs::read(&file).unwrap() == fs::read(&other).unwrap());
}

#[test]
fn writers_leave_room() {
    let dir = folder();
    let (plain, roomy, quantized) = (dir.path().join("p.gguf"), dir.path().join("r.gguf"), dir.path().join("q.gguf"));
    let glossary = glossary();
    gguf(["convert", text(&glossary), "-q", "-o", text(&plain)]).exits(0);
    gguf(["convert", text(&glossary), "-q", "-o", text(&roomy), "--reserve", "8KiB"]).exits(0);
    let grown = fs::metadata(&roomy).unwrap().len() - fs::metadata(&plain).unwrap().len();
    assert!((8192..8192 + 64).contains(&grown), "{grown}");
    gguf(["quantize", text(&plain), text(&quantized), "Q8_0", "-q", "--reserve", "8KiB"]).exits(0);
    for file in [&roomy, &quantized] {
        let description = format!("general.description={}", "d".repeat(8000));
        gguf(["set", text(file), "--in-place", &description]).exits(0).says(&["in place"]);
        gguf(["check", "-q", text(file)]).exits(0);
        // The padding key cannot be edited.
        gguf(["set", "-n", text(file), "ggufkit.pad=x"]).exits(2).says(&["only reserves space"]);
    }
    // A requested file size includes the reserved space.
    let sized = dir.path().join("s.gguf");
    gguf(["quantize", text(&plain), text(&sized), "--target-size", "2MB", "-q", "--reserve", "64KiB"]).exits(0);
    let bytes = fs::metadata(&sized).unwrap().len();
    assert!(bytes <= 2_000_000 && bytes > 1_900_000, "{bytes}");
    gguf(["set", text(&roomy), "--reserve", "1GiB"]).exits(2).says(&["at most 67.1 MB can be reserved"]);
}

/// Undoing the removal of keys restores the file, with the keys in their places.
#[test]
fn removed_keys_come_back_to_their_places() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let before = fs::read(&file).unwrap();
    let undo = dir.path().join("undo.json");
    let keys = |path: &std::path::Path| {
        let json = gguf(["show", text(path), "--json", "--full"]).exits(0).json();
        json["files"][0]["metadata"].as_array().unwrap().iter().map(|kv| kv["key"].clone()).collect::<Vec<_>>()
    };
    let old = keys(&file);
    gguf(["unset", text(&file), "llama.*", "general.name", "--backup", text(&undo), "--allow-invalid", "-q"]).exits(0);
    assert!(keys(&file).len() + 2 < old.len());
    gguf(["set", text(&file), "--from", text(&undo), "-q"]).exits(0);
    let known = |keys: Vec<serde_json::Value>| keys.into_iter().filter(|key| key != "ggufkit.pad").collect::<Vec<_>>();
    assert_eq!(known(keys(&file)), old);
    // Without reserved space, the bytes are those of the original.
    let copy = dir.path().join("copy.gguf");
    gguf(["set", text(&file), "--rewrite", "-q"]).exits(0);
    gguf(["set", text(&file), "general.name=x", "-o", text(&copy), "-q"]).exits(0);
    assert!(fs::read(&file).unwrap() == before);
}

/// Keys outside UTF-8 are named as they are printed, also in patterns.
#[test]
fn keys_are_named_as_they_are_printed() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    gguf(["set", text(&file), "own.odd:u32=7", "own.also:u32=8", "-q"]).exits(0);
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(7).position(|word| word == b"own.odd").unwrap();
    bytes[at + 5] = 0x8d;
    fs::write(&file, bytes).unwrap();
    let printed = r"own.o\x8dd";
    gguf(["show", text(&file), "--kv"]).exits(0).prints(&[printed]);
    assert_eq!(gguf(["get", text(&file), printed]).exits(0).out, "7\n");
    gguf(["get", text(&file), r"own.?\x8d*"]).exits(0).prints(&["7"]);
    gguf(["unset", text(&file), printed, "-n"]).exits(0).prints(&[r"own.o\x8dd  7"]);
    // They can be set, and a backup restores them.
    let [before, set, unset] = ["before", "set.json", "unset.json"].map(|name| dir.path().join(name));
    fs::copy(&file, &before).unwrap();
    let change = format!("{printed}=9");
    gguf(["set", text(&file), &change, "--backup", text(&set)]).exits(0).says(&[r"  own.o\x8dd: 7 -> 9"]);
    assert_eq!(gguf(["get", text(&file), printed]).exits(0).out, "9\n");
    gguf(["set", text(&file), "--from", text(&set)]).exits(0);
    assert!(fs::read(&file).unwrap() == fs::read(&before).unwrap());
    gguf(["unset", text(&file), printed, "--backup", text(&unset)]).exits(0);
    gguf(["set", text(&file), "--from", text(&unset)]).exits(0).says(&[r"  own.o\x8dd: 7 (new)"]);
    assert_eq!(gguf(["get", text(&file), printed]).exits(0).out, "7\n");
    gguf(["unset", text(&file), r"own.\x8f*"]).exits(1).says(&[r"no key matches own.\x8f*;"]);
    gguf(["unset", text(&file), r"own.\x8f"]).exits(1).says(&[r"there is no key own.\x8f"]);
    gguf(["rename", text(&file), &format!("{printed}=own.new")]).exits(0).says(&[r"  own.o\x8dd is now own.new"]);
    assert_eq!(gguf(["get", text(&file), "own.new"]).exits(0).out, "7\n");
    gguf(["unset", text(&file), "own.*", "-q"]).exits(0);
}

/// A truncated file is not copied, and an edit that fails leaves no backup.
#[test]
#[cfg(unix)]
fn failed_edits_leave_nothing() {
    let dir = folder();
    let file = small(dir.path(), "m.gguf");
    let bytes = fs::read(&file).unwrap();
    let cut = dir.path().join("cut.gguf");
    fs::write(&cut, &bytes[..bytes.len() - 64]).unwrap();
    let copy = dir.path().join("copy.gguf");
    let run = gguf(["set", text(&cut), "general.name=x", "-o", text(&copy)]).exits(1);
    assert!(run.err.contains("missing") && !copy.exists(), "{}", run.err);
    let undo = dir.path().join("undo.json");
    // The limit of one block suffices for the backup only.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_gguf"), "set", text(&file), "--rewrite"]);
    let output = command.args(["general.name=x", "--backup", text(&undo)]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("too large"), "{err}");
    assert!(!undo.exists() && fs::read(&file).unwrap() == bytes);
}
