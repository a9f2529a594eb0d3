//! The JSON of every command, for valid and invalid inputs: it is one object in the common envelope and matches the schema in `docs/json`,
//! and the exit code matches the table of exit codes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::checkpoint::write_llama;
use gguf_test::files::{folder, glossary, small, text};
use gguf_test::legacy;
use gguf_test::program::{gguf, program, words};
use serde_json::Value;

/// The schemas, by file name.
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    fn read() -> Schemas {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let parsed = files.map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let schema: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            assert_eq!(schema["$id"], *name, "the $id of {name}");
            (name, schema)
        });
        Schemas(parsed.collect())
    }

    /// The file of the schema named by an answer.
    fn of(&self, name: &str) -> Option<&str> {
        let names = |schema: &Value| {
            let schema = &schema["properties"]["schema"];
            schema["enum"].as_array().cloned().unwrap_or_else(|| vec![schema["const"].clone()])
        };
        self.0.iter().find(|(_, schema)| names(schema).contains(&name.into())).map(|(file, _)| file.as_str())
    }

    /// Checks an answer against the schema that it names.
    fn judge(&self, answer: &Value) -> Result<(), String> {
        let mut members = answer.as_object().ok_or("no object")?.clone();
        let name = members.remove("schema").ok_or("no schema")?;
        let name = name.as_str().ok_or("the schema is not a string")?;
        let file = self.of(name).ok_or_else(|| format!("no schema for {name}"))?;
        self.one_of(file, &self.0[file]["anyOf"], &members.into(), "")
    }

    fn one_of(&self, file: &str, forms: &Value, value: &Value, at: &str) -> Result<(), String> {
        let mut problems = Vec::new();
        for form in forms.as_array().unwrap() {
            match self.fits(file, form, value, at) {
                Ok(()) => return Ok(()),
                Err(problem) => problems.push(problem),
            }
        }
        Err(problems.join("; or "))
    }

    /// Validation by the keywords of the schemas, stricter in one point: members that a schema does not list are errors.
    fn fits(&self, file: &str, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let fail = |problem: &str| Err(format!("{at}: {problem}: {value}"));
        for (keyword, rule) in schema.as_object().unwrap() {
            match keyword.as_str() {
                "description" => {}
                "$ref" => {
                    let (other, pointer) = rule.as_str().unwrap().split_once('#').unwrap();
                    let other = if other.is_empty() { file } else { other };
                    let target =
                        self.0[other].pointer(pointer).unwrap_or_else(|| panic!("{file}: {rule} leads nowhere"));
                    self.fits(other, target, value, at)?;
                }
                "anyOf" => self.one_of(file, rule, value, at)?,
                "enum" if rule.as_array().unwrap().contains(value) => {}
                "enum" => return fail("not in the list"),
                "type" => {
                    let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                    let is = |ty: &Value| match ty.as_str().unwrap() {
                        "string" => value.is_string(),
                        "integer" => value.is_i64() || value.is_u64(),
                        "number" => value.is_number(),
                        "boolean" => value.is_boolean(),
                        "null" => value.is_null(),
                        "array" => value.is_array(),
                        "object" => value.is_object(),
                        other => panic!("{file}: type {other}"),
                    };
                    if !types.iter().any(is) {
                        return fail(&format!("not {rule}"));
                    }
                }
                "required" => {
                    for name in rule.as_array().unwrap() {
                        if value.get(name.as_str().unwrap()).is_none() {
                            return fail(&format!("no {name}"));
                        }
                    }
                }
                "properties" => {
                    for (name, member) in value.as_object().into_iter().flatten() {
                        match rule.get(name) {
                            Some(rule) => self.fits(file, rule, member, &format!("{at}/{name}"))?,
                            None => return fail(&format!("{name} is not in the schema")),
                        }
                    }
                }
                "additionalProperties" => {
                    for (name, member) in value.as_object().into_iter().flatten() {
                        self.fits(file, rule, member, &format!("{at}/{name}"))?;
                    }
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(file, rule, item, &format!("{at}/{i}"))?;
                    }
                }
                other => panic!("{file}: the keyword {other} is not in the subset"),
            }
        }
        Ok(())
    }
}

/// A checkpoint with more blocks than its configuration says.
fn other_depth(dir: &Path) {
    fs::create_dir(dir).unwrap();
    write_llama(dir);
    let config = fs::read_to_string(dir.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["num_hidden_layers"] = 1.into();
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

/// A checkpoint whose last value is NaN.
fn not_finite(dir: &Path) {
    fs::create_dir(dir).unwrap();
    write_llama(dir);
    let path = dir.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

/// Files that commands work on.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let dir = folder();
        let path = |name: &str| dir.path().join(name);
        let model = path("model.gguf");
        gguf(["convert", text(&glossary()), "-o", text(&model), "-q"]).exits(0);
        gguf(["quantize", text(&model), text(&path("small.gguf")), "Q4_0", "-q"]).exits(0);
        gguf(["split", text(&model), text(&path("part")), "--max-tensors", "10", "-q"]).exits(0);
        fs::copy(glossary().join("../imatrix.gguf"), path("matrix.gguf")).unwrap();
        fs::write(path("old.bin"), legacy::llama(legacy::GGJT1, 2, 2).write("", "").bytes).unwrap();
        fs::write(path("html.gguf"), "<!DOCTYPE html><html>").unwrap();
        fs::write(path("empty.gguf"), "").unwrap();
        let bytes = fs::read(&model).unwrap();
        fs::write(path("head.gguf"), &bytes[..1000]).unwrap();
        fs::write(path("cut.gguf"), &bytes[..4_000_000]).unwrap();
        let hashes = gguf(["hash", text(&model), "--sha256", "--no-layer"]).exits(0).out;
        fs::write(path("manifest"), hashes).unwrap();
        let planned =
            [text(&path("planned.gguf")), "Q4_0", "-q", "--plan-only", text(&path("plan.json"))].map(str::to_owned);
        gguf(["quantize", text(&model)].map(str::to_owned).into_iter().chain(planned)).exits(0);
        small(dir.path(), "other.gguf");
        other_depth(&path("other-depth"));
        not_finite(&path("not-finite"));
        Files { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The words of a line; those that begin with `@` are files of the directory.
    fn args(&self, line: &str) -> Vec<String> {
        let file = |word: String| match word.strip_prefix('@') {
            Some("glossary") => text(&glossary()).to_owned(),
            Some(name) => text(&self.path(name)).to_owned(),
            None => word,
        };
        words(line).into_iter().map(file).collect()
    }
}

/// Valid command lines, with their exit codes. `=@` marks the input, which is replaced by others.
const LINES: &[(&str, i32)] = &[
    ("show =@model.gguf", 0),
    ("show =@small.gguf --full", 0),
    ("show =@part-00002-of-00003.gguf @matrix.gguf", 0),
    ("check =@model.gguf", 0),
    ("check =@small.gguf --data", 0),
    ("check =@part-00001-of-00003.gguf", 0),
    ("check --rules", 0),
    ("get =@model.gguf general.* llama.block_count", 0),
    ("name =@model.gguf", 1),
    ("convert --list", 0),
    ("convert @glossary --dry-run", 0),
    ("convert @glossary --dry-run --type q4_k_m", 0),
    ("convert @glossary --dry-run --type f16 -o @new.gguf --check-range", 0),
    ("convert @glossary --dry-run --type f16,q8_0 -o @new-{ftype}.gguf", 0),
    ("convert @other-depth --dry-run", 1),
    ("convert @not-finite --dry-run --check-range", 1),
    ("convert @glossary -o @c.gguf -q", 0),
    ("convert @glossary -o @q.gguf -q --type q4_k_m", 0),
    ("migrate =@old.bin -o @m.gguf --yes -q --dry-run", 0),
    ("migrate =@old.bin -o @m.gguf --yes -q", 0),
    ("quantize =@model.gguf q4_0 --dry-run", 0),
    ("quantize =@model.gguf @q2.gguf q4_0 -q", 0),
    ("quantize =@model.gguf @q3.gguf q4_0 -q --report", 0),
    ("quantize =@model.gguf @q5.gguf q4_k_m -q --report --imatrix @matrix.gguf", 0),
    ("quantize =@model.gguf --target-bpw 5 --dry-run -q", 0),
    ("quantize =@model.gguf --list", 0),
    ("quantize =@model.gguf @planned2.gguf q4_0 -q --plan-only @plan2.json", 0),
    ("commit @plan.json -q", 75),
    ("part @plan.json --index 0 -q", 0),
    ("part @model.gguf --index 0 -q", 2),
    ("commit @plan.json --status", 0),
    ("commit @plan.json -q", 0),
    ("commit @plan2.json --abort -q", 0),
    ("quantize =@model.gguf @planned3.gguf q4_0 -q --report --plan-only @plan3.json", 0),
    ("part @plan3.json --index 0 -q", 0),
    ("commit @plan3.json -q", 0),
    ("quantize =@model.gguf @two-{ftype} q4_0 q8_0 -q", 0),
    ("convert @glossary -o @both-{ftype} -q --type q4_0,f32", 0),
    ("quantize =@model.gguf q4_0 q8_0 --dry-run", 0),
    ("quantize =@model.gguf @r-{ftype} q4_0 q8_0 -q --report --hash", 0),
    ("quantize =@model.gguf @h.gguf q4_0 -q --hash", 0),
    ("convert @glossary --dry-run --type q4_0,f32", 0),
    ("recipe show =@small.gguf", 0),
    ("recipe apply @recipe =@model.gguf @r.gguf -q", 0),
    ("recipe apply @recipe =@model.gguf --dry-run", 0),
    ("imatrix show =@matrix.gguf", 0),
    ("imatrix check =@matrix.gguf", 0),
    ("imatrix check --rules", 0),
    ("imatrix check @matrix.gguf =@model.gguf q4_k_m", 0),
    ("imatrix merge =@matrix.gguf -o @mm.gguf -q", 0),
    ("imatrix convert =@matrix.gguf @mm.dat -q", 0),
    ("split =@model.gguf @s --max-tensors 20 --dry-run", 0),
    ("split =@model.gguf @s --max-tensors 20 -q", 0),
    ("merge =@part-00001-of-00003.gguf -o @merged.gguf --dry-run", 0),
    ("merge =@part-00001-of-00003.gguf -o @merged.gguf -q", 0),
    ("diff =@model.gguf @model.gguf", 0),
    ("diff =@model.gguf @small.gguf", 1),
    ("export @model.gguf -o @none --dry-run", 0),
    ("verify @model.gguf --against @none", 2),
    ("lora merge @model.gguf @none -o @out.gguf", 2),
    ("hash =@model.gguf --all", 0),
    ("hash =@model.gguf --check @manifest", 0),
    ("card =@small.gguf @part-00001-of-00003.gguf -q", 0),
    ("card =@small.gguf --no-hash -q", 0),
    ("card =@small.gguf --check @manifest -q", 1),
    ("extract =@model.gguf output_norm.weight -o @norm.npy -q", 0),
    ("cat =@model.gguf output_norm.weight", 0),
    ("reorder =@model.gguf @o1.gguf --by name -q", 0),
    ("swap =@model.gguf @o2.gguf -q", 0),
    ("upgrade =@model.gguf @o3.gguf -q", 0),
    ("rm-tensor =@model.gguf @o4.gguf output_norm.weight -q", 0),
    ("graft =@model.gguf @o6.gguf --from @small.gguf --tensors output_norm.weight --replace -q", 0),
    ("add-tensor =@model.gguf @o7.gguf own.weight @norm.npy -q", 0),
    ("set =@other.gguf general.name=X --dry-run", 0),
    ("set =@other.gguf general.name=X own.list:u8[]=[1,2] -q", 0),
    ("rename =@other.gguf general.name=general.basename -q", 0),
    ("unset =@other.gguf general.basename -q", 0),
    ("repair =@model.gguf", 0),
    ("repair =@cut.gguf", 1),
    ("repair =@cut.gguf -o @saved.gguf -q", 0),
    ("repair =@cut.gguf --from @model.gguf --dry-run -q", 1),
    ("estimate =@model.gguf", 0),
    ("estimate =@model.gguf --memory 1KiB -g 2", 1),
    // A folder without libllama; the interop tests have one.
    ("engine --llama @other-depth", 2),
    ("perplexity =@model.gguf @manifest --llama @other-depth", 2),
    ("kld =@model.gguf @small.gguf @manifest --llama @other-depth", 2),
    ("run =@model.gguf prompt --llama @other-depth", 2),
    ("imatrix compute =@model.gguf @manifest -o @computed.gguf --llama @other-depth", 2),
    ("sensitivity =@model.gguf @manifest -o @sensitivity.json --llama @other-depth", 2),
];

#[track_caller]
fn run(files: &Files, schemas: &Schemas, line: &str, code: i32) -> Value {
    let args = files.args(line);
    let run = gguf(args.iter().map(String::as_str).chain(["--json"]));
    assert_eq!(run.code, code, "{line}\n{}\n{}", run.out, run.err);
    let answer = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{line}: {e}\n{}\n{}", run.out, run.err));
    schemas.judge(&answer).unwrap_or_else(|problem| panic!("{line}: {problem}"));
    let command = words(line).into_iter().take_while(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
    let command: Vec<String> = command.take_while(|word| !word.starts_with("--")).collect();
    let name = answer["schema"].as_str().unwrap();
    assert!(command.join(".").starts_with(name.trim_start_matches("gguf.").trim_end_matches("/1")), "{line}: {name}");
    answer
}

#[test]
fn every_answer_fits_its_schema() {
    let (files, schemas) = (Files::new(), Schemas::read());
    let recipe = gguf(["recipe", "show", text(&files.path("small.gguf"))]).exits(0).out;
    fs::write(files.path("recipe"), recipe).unwrap();
    for (line, code) in LINES {
        run(&files, &schemas, &line.replace("=@", "@"), *code);
    }
}

/// The error of an answer: of the whole, or of its first file.
fn error(answer: &Value) -> &Value {
    match answer.get("error") {
        Some(error) => error,
        None => &answer["files"][0]["error"],
    }
}

#[test]
fn bad_inputs_have_the_same_code_everywhere() {
    let (files, schemas) = (Files::new(), Schemas::read());
    fs::write(files.path("recipe"), "Q4_0\n").unwrap();
    for (line, _) in LINES.iter().filter(|(line, _)| line.contains("=@")) {
        let (start, rest) = line.split_once("=@").unwrap();
        let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        for (input, code) in [("none", 2), ("html.gguf", 1), ("empty.gguf", 1), ("head.gguf", 1)] {
            let with = format!("{start}@{input} {rest}");
            // A matrix in the old format has a different head; the findings of repair are its answer.
            let answer = run(&files, &schemas, &with, code);
            if code == 2 {
                assert_eq!(error(&answer)["kind"], "not_found", "{with}: {answer}");
            }
        }
    }
    // Files given by options.
    for line in [
        "convert @glossary -o @out.gguf --metadata @none",
        "convert @none -o @out.gguf",
        "convert @glossary -o @out.gguf --type q4_0 --imatrix @none",
        "convert @none -o @out.gguf --base @glossary",
        "convert @glossary -o @out.gguf --type q4_0 --tensor-type-file @none",
        "quantize @model.gguf @out.gguf q4_0 --imatrix @none",
        "quantize @model.gguf @out.gguf q4_0 --tensor-type-file @none",
        "recipe apply @none @model.gguf @out.gguf",
        "migrate @old.bin -o @out.gguf --config @none",
        "migrate @old.bin -o @out.gguf --tokenizer @none",
        "migrate @old.bin -o @out.gguf --yes --chat-template-file @none",
        "imatrix check @matrix.gguf @none",
        "hash @model.gguf --check @none",
        "card @model.gguf --check @none",
        "diff @model.gguf @none",
        "reorder @model.gguf @out.gguf --like @none",
        "graft @model.gguf @out.gguf --from @none --tensors a",
        "add-tensor @model.gguf @out.gguf own.weight @none",
        "set @other.gguf --from @none",
        "set @other.gguf --chat-template-file @none",
        "repair @cut.gguf --from @none",
        "show @model.gguf @none",
        "engine --llama @none",
        "perplexity @model.gguf @none",
        "kld @model.gguf @small.gguf @none",
        "kld @small.gguf --base @none",
        "imatrix compute @model.gguf @none -o @out.gguf",
        "card @model.gguf --kld @none",
        "sensitivity @model.gguf @none -o @out.json",
        "sensitivity @model.gguf @manifest -o @out.json --imatrix @none",
        "quantize @model.gguf @out.gguf --target-bpw 4 --sensitivity @none",
        "imatrix compute @model.gguf @manifest -o @out.gguf --continue @none",
    ] {
        let answer = run(&files, &schemas, line, 2);
        let problem = format!("{answer} ").to_lowercase();
        // Windows has other words for the same errors.
        let missing = ["no such file", "no such folder", "(os error 2)", "(os error 3)"];
        assert!(missing.iter().any(|said| problem.contains(said)), "{line}: {answer}");
    }
    assert!(!files.path("out.gguf").exists());
}

/// An invalid command line prints no JSON; the error goes to standard error.
#[test]
fn wrong_use_has_no_answer() {
    for line in ["show --json", "show x --json --nonsense", "get x --json", "nonsense"] {
        let run = gguf(words(line)).exits(2);
        assert_eq!(run.out, "", "{line}");
        assert!(run.err.starts_with("gguf: error: "), "{line}: {}", run.err);
    }
}

/// The schemas reject invalid answers.
#[test]
fn answers_that_do_not_fit_are_found() {
    let schemas = Schemas::read();
    let right = serde_json::json!({ "schema": "gguf.get/1", "path": "a", "values": {}, "errors": [] });
    assert_eq!(schemas.judge(&right), Ok(()));
    for (member, value) in [
        ("schema", "gguf.nothing/1".into()),
        ("path", 1.into()),
        ("values", Value::Null),
        ("errors", serde_json::json!([{ "kind": "odd", "message": "" }])),
        ("errors", serde_json::json!([{ "kind": "io" }])),
        ("more", 1.into()),
    ] {
        let mut wrong = right.clone();
        wrong[member] = value;
        assert!(schemas.judge(&wrong).is_err(), "{wrong}");
    }
}

/// Every command with the option is in the table, and has a schema.
#[test]
fn no_command_is_left_out() {
    let schemas = Schemas::read();
    let help = gguf(["--help"]).exits(0).out;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let mut n = 0;
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let inner: &[&str] = match name {
            "imatrix" => &[" compute", " show", " check", " merge", " convert"],
            "recipe" => &[" show", " apply"],
            "lora" => &[" merge"],
            "help" | "completions" | "man" => continue,
            _ => &[""],
        };
        for command in inner.iter().map(|inner| format!("{name}{inner}")) {
            let help = gguf(words(&command).into_iter().chain(["--help".to_owned()])).exits(0);
            assert!(help.out.contains("--json"), "{command}");
            assert!(schemas.of(&format!("gguf.{}/1", command.replace(' ', "."))).is_some(), "{command}");
            // This command needs an editor.
            let is_there = LINES.iter().any(|(line, _)| line.starts_with(&command)) || command == "edit";
            assert!(is_there, "{command}");
            n += 1;
        }
    }
    assert!(n > 25, "{help}");
}

/// Commands that need only the head, or read the data in order, take a model on standard input.
#[test]
fn standard_input_is_a_model() {
    let files = Files::new();
    let model = fs::read(files.path("model.gguf")).unwrap();
    let shard = fs::read(files.path("part-00001-of-00003.gguf")).unwrap();
    let path = files.path("model.gguf");
    let manifest = gguf(["hash", text(&path), "--sha256"]).exits(0).out.replace(text(&path), "-");
    let sha256 = manifest.lines().last().unwrap();
    fs::write(files.path("manifest"), &manifest).unwrap();
    let check = format!("hash - --check {}", text(&files.path("manifest")));
    let cases = [
        ("show -", &model[..], 0, "Glossary"),
        ("show -", &model[..100_000], 0, "Glossary"),
        ("show - --tensors", &model[..100_000], 0, "output_norm.weight"),
        ("get - general.name", &model[..100_000], 0, "Glossary"),
        ("estimate -", &model[..100_000], 0, "weights"),
        ("check -", &model[..], 0, "good, no findings"),
        ("hash - --sha256 -j 2", &model[..], 0, sha256),
        ("hash - --sha256", &model[..100_000], 1, "truncated: 100000 of at least"),
        ("hash -", &shard[..], 2, "one of 3 shards"),
        ("hash - --lone", &shard[..], 0, "xxh64"),
        (&check, &model[..], 0, "good"),
        ("cat - output_norm.weight", &model[..], 2, "does not read standard input"),
        ("check - --structure", &model[..], 0, "good"),
        ("check -", &model[..100_000], 1, "file.truncated"),
        ("check -", &model[..1000], 1, "the file is truncated"),
        ("show -", &model[..1000], 1, "truncated"),
        ("show -", b"<html>", 1, "HTML"),
        ("check -", b"<html>", 1, "HTML"),
        ("check - --data", &model[..], 2, "omit --data"),
        ("show - --at 4", &model[..], 2, "omit --at"),
    ];
    for (line, input, code, said) in cases {
        // A pipe, not a file. The program may close it early.
        let (reader, mut writer) = std::io::pipe().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || std::io::Write::write_all(&mut writer, input));
            program().args(words(line)).stdin(reader).output().unwrap()
        });
        let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {all}");
        assert!(all.contains(said), "{line}: {all}");
    }
}
