//! Commands for publishing: several file types from one read, names of outputs, shards, lists of file types.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, glossary, names, small, text};
use gguf_test::program::{Run, gguf};

const TYPES: [&str; 8] = ["Q4_K_M", "Q5_K_M", "Q6_K", "IQ3_XXS", "Q2_K", "IQ2_XXS", "Q8_0", "IQ4_XS"];

fn matrix() -> PathBuf {
    glossary().join("../imatrix.gguf")
}

fn model(dir: &Path) -> PathBuf {
    let out = dir.join("in.gguf");
    gguf(["convert", text(&glossary()), "-o", text(&out), "-q"]).exits(0);
    out
}

fn quantize(args: &[&str]) -> Run {
    gguf([&["quantize"], args].concat())
}

/// Whether two directories have the same file names and contents.
fn assert_same(a: &Path, b: &Path) {
    assert_eq!(names(a), names(b));
    for name in names(a) {
        assert!(fs::read(a.join(&name)).unwrap() == fs::read(b.join(&name)).unwrap(), "{name}");
    }
}

#[test]
fn several_types_are_those_of_runs_of_their_own() {
    let dir = folder();
    let model = model(dir.path());
    let [own, one, converted] = ["own", "one", "converted"].map(|name| dir.path().join(name));
    for folder in [&own, &one, &converted] {
        fs::create_dir(folder).unwrap();
    }
    let matrix = matrix();
    for ty in TYPES {
        quantize(&[text(&model), text(&own), ty, "--imatrix", text(&matrix), "-q"]).exits(0);
    }
    let out = one.join("{name}-{size}-{FTYPE}.gguf");
    // Separately, or as a list.
    let args = [&[text(&model), text(&out), "Q4_K_M,Q5_K_M"], &TYPES[2..], &["--imatrix", text(&matrix)]].concat();
    let run =
        quantize(&args).exits(0).says(&["Q2_K: 1.35 MB (3.61 bits per weight)", "8 files: 29 tensors, 5.82 MB to"]);
    assert_eq!(run.out.lines().count(), 8);
    assert_same(&own, &one);

    let types = TYPES.join(",");
    let checkpoint = glossary();
    let args = ["convert", text(&checkpoint), "-o", text(&converted), "--type", &types, "--imatrix", text(&matrix)];
    gguf(args).exits(0).says(&["8 files: 29 tensors"]);
    assert_same(&own, &converted);
    // Including a type written directly by the converter.
    let both = [dir.path().join("{ftype}"), dir.path().join("alone")];
    gguf(["convert", text(&glossary()), "-o", text(&both[0]), "--type", "bf16,q8_0,q4_0", "-q"]).exits(0);
    gguf(["convert", text(&glossary()), "-o", text(&both[1]), "--type", "q8_0", "-q"]).exits(0);
    assert!(fs::read(&model).unwrap() == fs::read(dir.path().join("bf16")).unwrap());
    assert!(fs::read(&both[1]).unwrap() == fs::read(dir.path().join("q8_0")).unwrap());
}

/// A folder that ends with a separator is created, for the same names as one that exists.
#[test]
fn folders_with_a_separator_are_created() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let names = |folder: &str| gguf_test::files::names(Path::new(&at(folder)));
    gguf(["convert", text(&glossary()), "-o", &at("a/b/"), "-q"]).exits(0);
    gguf(["convert", text(&glossary()), "-o", &at("types/"), "--type", "bf16,q8_0", "-q"]).exits(0);
    let model = at("a/b/Glossary-2.9M-BF16.gguf");
    quantize(&[&model, &at("c/"), "Q4_0", "Q8_0", "-q"]).exits(0);
    gguf(["upgrade", &model, &at("d/"), "-q"]).exits(0);
    assert_eq!(names("a/b"), ["Glossary-2.9M-BF16.gguf"]);
    assert_eq!(names("types"), ["Glossary-2.9M-BF16.gguf", "Glossary-2.9M-Q8_0.gguf"]);
    assert_eq!(names("c"), ["Glossary-2.9M-Q4_0.gguf", "Glossary-2.9M-Q8_0.gguf"]);
    assert_eq!(names("d"), ["Glossary-2.9M-BF16.gguf"]);
}

#[test]
fn several_types_need_names_of_their_own() {
    let dir = folder();
    let model = model(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for (args, said) in [
        (vec![at("out.gguf"), "Q4_0".into(), "Q8_0".into()], "several file types need separate names; use {ftype}"),
        (vec![at("{name}.gguf"), "Q4_0".into(), "Q8_0".into()], "several file types need separate names"),
        (
            vec![at("{type}-{name}.gguf"), "Q4_0".into()],
            "unknown placeholder {type}; expected one of {ftype}, {outtype}, {FTYPE}, {OUTTYPE}, {name}, {size}",
        ),
        (vec![at("{Ftype}"), "Q4_0".into(), "Q8_0".into()], "unknown placeholder {Ftype}; expected one of {ftype}, "),
        (vec![at("{fype}/x"), "Q4_0".into(), "Q8_0".into()], "unknown placeholder {fype}"),
        (vec![at("{ftype}"), "Q4_K_L,q4_k_l".into()], "duplicate file type Q4_K_L"),
        (vec![at("x"), "Q4_K_M=in.gguf".into()], "Q4_K_M is a file type; a recipe needs a name of its own, as in UD-"),
        (vec![at("x"), "UD=none.recipe".into()], "none.recipe: cannot open"),
        (vec![at("x"), "a b=none".into()], "the name of the recipe is \"a b\"; expected letters"),
        (vec![at("{ftype}"), "Q4_K".into(), "Q4_K_M".into()], "duplicate file type Q4_K_M"),
        (vec![at("{ftype}"), "Q4_K,Q9".into()], "unknown file type `Q9`"),
        (vec![at("{ftype}"), "Q8_0,IQ1_S".into()], "needs an importance matrix"),
    ] {
        let mut all = vec![text(&model)];
        all.extend(args.iter().map(String::as_str));
        let run = quantize(&all);
        assert!(run.err.contains(said), "{args:?}: {}", run.err);
        assert_eq!(names(dir.path()), ["in.gguf"], "{args:?}");
    }
    gguf(["convert", text(&glossary()), "-o", &at("x.gguf"), "--type", "q8_0,q4_0"])
        .exits(2)
        .says(&["use {ftype} in the name"]);
}

/// Recipes are written beside plain types, each in a folder of its name, and their files name them.
#[test]
fn recipes_are_written_beside_types() {
    let dir = folder();
    let model = model(dir.path());
    let recipe = dir.path().join("UD-Q4_K_XL.recipe");
    fs::write(&recipe, "Q4_K_M\nattn_v=q6_K # more bits\n").unwrap();
    let at = |name: &str| dir.path().join(name);
    let out = at("out/{FTYPE}/");
    let types = ["Q4_K_M,Q4_K_L", text(&recipe)];
    let args = [&[text(&model), "-o", text(&out)], &types[..]].concat();
    // A dry run makes no folders.
    let planned = quantize(&[&args[..], &["-n"]].concat()).exits(0);
    assert!(
        planned.out.contains("out/UD-Q4_K_XL/Glossary-2.9M-UD-Q4_K_XL.gguf") && !at("out").exists(),
        "{}",
        planned.out
    );
    let run = quantize(&args).exits(0).says(&["Q4_K_L: 2.00 MB (5.41 bits per weight)", "UD-Q4_K_XL: 1.89 MB"]);
    assert!(!run.err.contains("warning"), "{}", run.err);
    let files: Vec<PathBuf> = run.out.lines().map(PathBuf::from).collect();
    let names: Vec<_> = files.iter().map(|file| file.strip_prefix(at("out")).unwrap().to_str().unwrap()).collect();
    let expected = ["Q4_K_M", "Q4_K_L", "UD-Q4_K_XL"].map(|ty| format!("{ty}/Glossary-2.9M-{ty}.gguf"));
    assert_eq!(names, expected);
    // The tensors are those of the options that publishers use.
    let same = |file: &Path, ty: &str, more: &[&str]| {
        let other = at("other.gguf");
        quantize(&[&[text(&model), text(&other), ty, "-fq"], more].concat()).exits(0);
        gguf(["diff", text(file), text(&other)]).prints(&["tensors: 29 the same"]).out
    };
    let options = ["--token-embedding-type", "q8_0", "--output-tensor-type", "q8_0"];
    same(&files[1], "Q4_K_M", &options).contains("ggufkit.mixture").then_some(()).unwrap();
    same(&files[2], "Q4_K_M", &["--tensor-type", "attn_v=q6_K"]);
    assert!(
        fs::read(&files[0]).unwrap()
            == fs::read({
                quantize(&[text(&model), text(&at("plain.gguf")), "Q4_K_M", "-q"]).exits(0);
                at("plain.gguf")
            })
            .unwrap()
    );
    // A checkpoint is converted to the same files.
    let converted = at("converted/{FTYPE}/");
    let types = types.join(",");
    gguf(["convert", text(&glossary()), "-o", text(&converted), "--type", &types, "-q"]).exits(0);
    for (file, name) in files.iter().zip(&expected) {
        assert!(fs::read(file).unwrap() == fs::read(at("converted").join(name)).unwrap(), "{name}");
    }
    // The names are those of the card, and of a file that is quantized again no longer.
    let files: Vec<&str> = files.iter().map(|file| text(file)).collect();
    let card = gguf([&["card", "--no-hash", "--json"], &files[..]].concat()).exits(0).json();
    let card: Vec<(&str, bool)> = card["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| (model["file_type"].as_str().unwrap(), model["quality"].is_null()))
        .collect();
    assert_eq!(card, [("Q4_K_L", false), ("UD-Q4_K_XL", true), ("Q4_K_M", false)]);
    gguf([&["name"], &files[..]].concat()).exits(0);
    let again = at("again.gguf");
    quantize(&[files[1], text(&again), "Q4_0", "--allow-requantize", "-q"]).exits(0);
    gguf(["get", text(&again), "ggufkit.mixture"]).exits(1);
    quantize(&[files[1], text(&again), "COPY", "-fq"]).exits(0);
    gguf(["get", text(&again), "ggufkit.mixture"]).exits(0).prints(&["Q4_K_L"]);
    for (name, base) in gguf_quantize::mix::recipe::LARGER {
        gguf(["set", text(&again), &format!("ggufkit.mixture={name}"), "-q"]).exits(0);
        let phrase = format!("| {base} with embeddings and output in Q8_0 |");
        gguf(["card", "--no-hash", text(&again)]).exits(0).prints(&[&phrase]);
    }
    // An output must not replace the recipe.
    let run = quantize(&[text(&model), text(&recipe), text(&recipe), "--force"]).exits(2);
    assert!(run.err.contains("input"), "{}", run.err);
}

/// Types that were chosen for a size are no file type.
#[test]
fn mixtures_for_a_size_have_no_name_of_a_file_type() {
    let dir = folder();
    let model = model(dir.path());
    let run = quantize(&[text(&model), text(dir.path()), "--target-size", "1.9MB"]).exits(0);
    assert!(run.out.ends_with("Glossary-2.9M-MIXED.gguf\n"), "{}", run.out);
    let file = run.out.trim_end();
    gguf(["card", file, "--no-hash"]).prints(&["| Glossary-2.9M-MIXED.gguf | mixed | "]);
    gguf(["show", file]).prints(&["Weights        mixed, 5"]);
    gguf(["check", file]).exits(0).prints(&["no findings"]);
}

/// The plans of several types are those of each type, and the list below them has the sizes of the files.
#[test]
fn several_types_are_planned() {
    let dir = folder();
    let model = model(dir.path());
    let checkpoint = glossary();
    let [quantized, converted] = ["q-{ftype}", "c-{ftype}"].map(|name| dir.path().join(name));
    let (model, checkpoint) = (text(&model), text(&checkpoint));
    let cases = [
        (vec!["quantize", model, text(&quantized), "Q4_K_M", "Q5_K_M"], vec!["quantize", model]),
        (
            vec!["convert", checkpoint, "-o", text(&converted), "--type", "Q4_K_M,Q5_K_M"],
            vec!["convert", checkpoint, "--type"],
        ),
    ];
    for (several, one) in cases {
        let [several_json, dry] =
            [["--dry-run", "--json"], ["--dry-run", "-q"]].map(|more| [&several[..], &more].concat());
        let plans = gguf(several_json).exits(0).json();
        let plans = plans["plans"].as_array().unwrap();
        let shown = gguf(dry).exits(0).out;
        assert_eq!(names(dir.path()), ["in.gguf"], "{several:?}");
        let files = gguf([&several[..], &["-q"]].concat()).exits(0).out;
        let list = shown.lines().skip_while(|line| !line.starts_with("FILE TYPE")).skip(1);
        // `convert` also prints the free space of the disk.
        let list: Vec<&str> = list.filter(|line| !line.contains(" bytes needed, ")).collect();
        assert_eq!((plans.len(), files.lines().count(), list.len()), (2, 2, 2), "{shown}");
        for (i, (ty, path)) in ["Q4_K_M", "Q5_K_M"].into_iter().zip(files.lines()).enumerate() {
            let mut alone = gguf([&one[..], &[ty, "--dry-run", "--json"]].concat()).exits(0).json();
            alone.as_object_mut().unwrap().remove("schema");
            assert_eq!(plans[i], alone, "{several:?} {ty}");
            let bytes = fs::metadata(path).unwrap().len();
            assert_eq!(plans[i]["file_bytes"], bytes);
            let words: Vec<&str> = list[i].split_whitespace().collect();
            assert_eq!((words[0], words[2], words[3]), (ty, bytes.to_string().as_str(), path), "{shown}");
            assert!(shown.contains(&format!("{ty}: 29 tensors")), "{shown}");
            fs::remove_file(path).unwrap();
        }
        // Without names.
        let shown = gguf(
            [
                &one[..1],
                &one[1..2],
                if one[0] == "convert" { &["--type", "Q5_0,Q4_0"] } else { &["Q5_0", "Q4_0"] },
                &["-n"],
            ]
            .concat(),
        );
        shown.exits(0).prints(&["Q5_0: 29 tensors", "Q4_0: 29 tensors", "FILE TYPE"]);
    }
}

/// The hash of each written file is that of `sha256sum`, in its format. Windows has no files with these names.
#[cfg(unix)]
#[test]
fn written_files_are_hashed() {
    let dir = folder();
    let model = model(dir.path());
    let model = text(&model).to_owned();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let odd = out.join("a\\b\nc.gguf");
    let file = out.join("m.gguf");
    let checkpoint = glossary();
    let template = out.join("{ftype}");
    let [shards, array, recipe] = ["out/s", "out/a.npy", "recipe"].map(|name| dir.path().join(name));
    let lines: &[&[&str]] = &[
        &["quantize", &model, text(&file), "Q4_0"],
        &["quantize", &model, text(&template), "Q4_0", "Q8_0"],
        &["quantize", &model, text(&template), "Q4_0", "Q8_0", "--report"],
        &["quantize", &model, text(&file), "Q4_0", "--split-max-tensors", "9"],
        &["convert", text(&checkpoint), "-o", text(&file)],
        &["convert", text(&checkpoint), "-o", text(&file), "--type", "Q4_0"],
        &["convert", text(&checkpoint), "-o", text(&template), "--type", "Q4_0,F32"],
        &["split", &model, text(&shards), "--max-tensors", "9"],
        &["swap", &model, text(&odd)],
        &["upgrade", &model, text(&file)],
        &["reorder", &model, text(&file), "--by", "name"],
        &["rm-tensor", &model, text(&file), "output_norm.weight"],
        &["extract", &model, "output_norm.weight", "-o", text(&array)],
        &["recipe", "apply", text(&recipe), &model, text(&file)],
    ];
    fs::write(dir.path().join("recipe"), "Q4_0\n").unwrap();
    for line in lines {
        let hashed = gguf([line, &["--hash", "-q"][..]].concat()).exits(0);
        let is_hash = |line: &&str| line.trim_start_matches('\\').split("  ").next().unwrap().len() == 64;
        let sums: Vec<&str> = hashed.out.lines().filter(is_hash).collect();
        assert_eq!(sums.len(), names(&out).len(), "{line:?}: {}", hashed.out);
        fs::write(dir.path().join("sums"), sums.join("\n") + "\n").unwrap();
        let check = std::process::Command::new("sha256sum").arg("--check").arg(dir.path().join("sums")).output();
        if let Ok(check) = check {
            assert!(check.status.success(), "{line:?}: {check:?}");
        }
        let json = gguf([line, &["--hash", "-q", "--json", "--force"][..]].concat()).exits(0).json();
        let reports = json["reports"].as_array().cloned().unwrap_or_else(|| vec![json]);
        let files: Vec<&serde_json::Value> = reports.iter().flat_map(|r| r["files"].as_array().unwrap()).collect();
        assert_eq!(files.len(), sums.len());
        for file in files {
            assert!(hashed.out.contains(file["sha256"].as_str().unwrap()), "{line:?}");
        }
        for name in names(&out) {
            fs::remove_file(out.join(name)).unwrap();
        }
    }
    // Without an output there is nothing to hash.
    for line in [&["quantize", &model, "Q4_0", "-n"][..], &["quantize", &model, "--list"], &["convert", "--list"]] {
        gguf([line, &["--hash"]].concat()).exits(2).says(&["--hash"]);
    }
}

#[test]
fn placeholders_work_in_every_output() {
    let dir = folder();
    let model = model(dir.path());
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let template = out.join("{name}_{size}_{ftype}");
    for (command, rest) in [
        ("swap", &[][..]),
        ("upgrade", &[]),
        ("reorder", &["--by", "name"]),
        ("rm-tensor", &["output_norm.weight"]),
        ("quantize", &["COPY"]),
    ] {
        gguf([&[command, text(&model), text(&template), "-q"], rest].concat()).exits(0);
        assert_eq!(names(&out), ["Glossary_2.9M_bf16"], "{command}");
        fs::remove_file(out.join("Glossary_2.9M_bf16")).unwrap();
        gguf([&[command, text(&model), text(&out), "-q"], rest].concat()).exits(0);
        assert_eq!(names(&out), ["Glossary-2.9M-BF16.gguf"], "{command}");
        fs::remove_file(out.join("Glossary-2.9M-BF16.gguf")).unwrap();
    }
    // The plan of shards has the names of the shards.
    let prefix = out.join("{name}-{ftype}");
    let args = ["split", text(&model), text(&prefix), "--split-max-tensors", "20", "-n"];
    gguf(args).exits(0).prints(&["Glossary-bf16-00001-of-00002.gguf"]);
    gguf([args[0], args[1], "a{foo}", args[3], args[4], "-n"])
        .exits(2)
        .says(&["unknown placeholder {foo}; expected one of"]);
    // Missing metadata leave empty cells.
    let bare = small(dir.path(), "bare.gguf");
    let run = gguf(["swap", text(&bare), text(&template)]).exits(2);
    run.says(&["cannot replace {ftype}: the model has no general.file_type"]);
    assert_eq!(names(&out), [""; 0]);
}

/// The shards of a command are those of `gguf split` for its single file, except those of a conversion without quantization, which are
/// those of llama.cpp's converter.
#[test]
fn every_command_that_writes_a_model_writes_shards() {
    let dir = folder();
    let model = model(dir.path());
    let checkpoint = glossary();
    let [whole, shards] = ["whole", "shards"].map(|name| dir.path().join(name));
    let legacy = dir.path().join("v2.gguf");
    {
        let bytes = fs::read(&model).unwrap();
        let mut head = gguf_format::Head::from_gguf(&gguf_format::Gguf::parse(bytes.as_slice()).unwrap());
        head.dialect = gguf_format::Dialect::new(gguf_format::Version::V2);
        let gguf = gguf_format::Gguf::parse(bytes.as_slice()).unwrap();
        let data: Vec<&[u8]> = gguf
            .tensors()
            .map(|t| {
                let range = gguf.tensor_range(&t).unwrap();
                &bytes[range.start as usize..range.end as usize]
            })
            .collect();
        fs::write(&legacy, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
    }
    let (model, legacy) = (text(&model), text(&legacy));
    let commands: &[&[&str]] = &[
        &["quantize", model, "OUT", "Q4_K_M"],
        &["quantize", model, "OUT", "Q4_K_M", "--target-size", "1.6MB"],
        &["convert", text(&checkpoint), "-o", "OUT", "--type", "Q5_K_M"],
        &["migrate", legacy, "-o", "OUT"],
        &["migrate", legacy, "-o", "OUT", "--type", "Q8_0"],
        &["swap", model, "OUT"],
        &["upgrade", legacy, "OUT"],
        &["reorder", model, "OUT", "--by", "name"],
        &["rm-tensor", model, "OUT", "output_norm.weight"],
        &["graft", model, "OUT", "--from", model, "--keys", "general.name"],
    ];
    for command in commands {
        let command: Vec<&str> = match command.contains(&"--target-size") {
            true => command.iter().copied().filter(|arg| *arg != "Q4_K_M").collect(),
            false => command.to_vec(),
        };
        for (limit, of_split, n) in
            [("--split-max-tensors", "--max-tensors", "9"), ("--split-max-size", "--max-size", "700KB")]
        {
            for folder in [&whole, &shards] {
                fs::create_dir(folder).unwrap();
            }
            let file = whole.join("m.gguf");
            let with = |out: &Path| -> Vec<String> {
                command.iter().map(|arg| if *arg == "OUT" { text(out).to_owned() } else { (*arg).to_owned() }).collect()
            };
            gguf(with(&file).iter().map(String::as_str).chain(["-q"])).exits(0);
            gguf(["split", text(&file), text(&whole.join("m")), of_split, n, "-q"]).exits(0);
            fs::remove_file(&file).unwrap();
            gguf(with(&shards.join("m.gguf")).iter().map(String::as_str).chain(["-q", limit, n])).exits(0);
            assert!(names(&shards).len() > 2, "{command:?}");
            assert_same(&whole, &shards);
            for folder in [&whole, &shards] {
                fs::remove_dir_all(folder).unwrap();
            }
        }
    }
}

/// A conversion without quantization is split as by llama.cpp's converter: by both limits, and not at all if one file is enough.
#[test]
fn conversions_are_split_by_the_rules_of_the_converter() {
    let dir = folder();
    let checkpoint = glossary();
    let out = dir.path().join("out");
    let convert = |options: &[&str]| {
        fs::create_dir(&out).unwrap();
        let file = out.join("m.gguf");
        gguf([&["convert", text(&checkpoint), "-o", text(&file), "-q"], options].concat()).exits(0);
        let found = names(&out);
        let first = fs::read(out.join(&found[0])).unwrap();
        let gguf = gguf_format::Gguf::parse(first.as_slice()).unwrap();
        let keys: Vec<String> =
            gguf.kvs().map(|kv| kv.key.to_string()).filter(|key| key.starts_with("split.")).collect();
        fs::remove_dir_all(&out).unwrap();
        (found, keys)
    };
    let by_number = convert(&["--split-max-tensors", "9"]);
    assert_eq!(by_number.1, ["split.no", "split.count", "split.tensors.count"]);
    let by_both = convert(&["--split-max-tensors", "9", "--split-max-size", "700KB"]);
    assert!(by_both.0.len() > by_number.0.len(), "{by_both:?} {by_number:?}");
    for options in [&["--split-max-size", "1GB"][..], &["--split-max-size", "700KB", "--vocab-only"]] {
        assert_eq!(convert(options), (vec!["m.gguf".to_owned()], Vec::new()), "{options:?}");
    }
    let both = ["--type", "Q4_0", "--split-max-tensors", "9", "--split-max-size", "700KB"];
    let file = dir.path().join("q.gguf");
    gguf([&["convert", text(&checkpoint), "-o", text(&file)], &both[..]].concat()).exits(2).says(&["use one of them"]);
}

/// The sizes in the list are those of the files.
#[test]
fn file_types_are_listed_with_their_sizes() {
    let dir = folder();
    let model = model(dir.path());
    let matrix = matrix();
    let with = ["--imatrix", text(&matrix)];
    let list = quantize(&[&[text(&model), "--list", "--json"], &with[..]].concat()).exits(0).json();
    let types = list["file_types"].as_array().unwrap();
    assert_eq!(types.len(), 36);
    for ty in types {
        let name = ty["file_type"].as_str().unwrap();
        let out = dir.path().join(name);
        quantize(&[&[text(&model), text(&out), name, "-q"], &with[..]].concat()).exits(0);
        assert_eq!(ty["file_bytes"], fs::metadata(&out).unwrap().len(), "{name}");
        // Types that need a matrix are rejected without one.
        let alone = quantize(&[text(&model), text(&out), name, "-q", "--force"]);
        assert_eq!(ty["needs_imatrix"], alone.err.contains("needs an importance matrix"), "{name}: {}", alone.err);
    }
    quantize(&[text(&model), "--list"]).exits(0).prints(&["BITS/WEIGHT", "Q4_K_M", "1870272", "required"]);
    quantize(&[text(&model), "out", "--list"]).exits(2);
    // Completions and help list the types.
    gguf(["completions", "bash"]).exits(0).prints(&["IQ3_XXS"]);
    gguf(["help", "quantize"]).exits(0).prints(&["IQ3_XXS", "iq3_xxs, 3.06 bits per weight"]);
}

/// A complete publishing workflow: a checkpoint becomes a model, eight quantizations with a matrix from one read, and shards; with hashes
/// and a card, which are correct until a file changes.
#[test]
fn a_checkpoint_is_published() {
    let dir = folder();
    let (checkpoint, matrix) = (glossary(), matrix());
    let at = |name: &str| dir.path().join(name);
    let folder = text(dir.path());
    gguf(["convert", text(&checkpoint), "-o", folder, "--type", "bf16", "-q"]).exits(0);
    let model = at("Glossary-2.9M-BF16.gguf");
    gguf(["imatrix", "check", text(&matrix), text(&model), "IQ2_XXS"]).exits(0);
    let made = quantize(&[&[text(&model), folder], &TYPES[..], &["--imatrix", text(&matrix)]].concat()).exits(0);
    assert_eq!(made.out.lines().count(), 8);
    let prefix = at("Glossary-2.9M-BF16");
    gguf(["split", text(&model), text(&prefix), "--max-size", "3MB", "--delete-input", "-q"]).exits(0);
    let files: Vec<PathBuf> = names(dir.path()).iter().map(|name| at(name)).collect();
    assert_eq!(files.len(), 11);
    gguf([vec!["check", "-q"], files.iter().map(|file| text(file)).collect()].concat()).exits(0);

    let with =
        |more: &[&str]| gguf([vec!["card"], files.iter().map(|file| text(file)).collect(), more.to_vec()].concat());
    let card = with(&["-q"]).exits(0);
    let readme = at("README.md");
    fs::write(&readme, format!("{}\nAnd more text.\n", card.out.replace("\n\n", "\n\n# Glossary\n\n"))).unwrap();
    fs::write(at("NOTICE"), "").unwrap();
    with(&["--check", text(&readme)]).exits(0).says(&["README.md: good: 9 models"]);
    // The hashes match the files.
    let document = with(&["--json", "-q"]).exits(0).json();
    let models = document["models"].as_array().unwrap();
    assert_eq!(models.len(), 9);
    for file in models.iter().flat_map(|model| model["files"].as_array().unwrap()) {
        let path = file["path"].as_str().unwrap();
        let sum = std::process::Command::new("sha256sum").arg(path).output();
        if let Ok(sum) = sum {
            assert!(sum.stdout.starts_with(file["sha256"].as_str().unwrap().as_bytes()), "{path}");
        }
        assert!(card.out.contains(file["sha256"].as_str().unwrap()));
    }
    let split = models.iter().find(|model| model["files"].as_array().unwrap().len() == 3).unwrap();
    assert_eq!((&split["file_type"], &split["imatrix"]), (&"BF16".into(), &serde_json::Value::Null));

    let q4 = at("Glossary-2.9M-Q4_K_M.gguf");
    let manifest = at("manifest");
    fs::write(&manifest, gguf(["hash", text(&q4), "--sha256", "-q"]).exits(0).out).unwrap();
    gguf(["hash", text(&q4), "--check", text(&manifest)]).exits(0);
    // One byte of one tensor.
    let mut bytes = fs::read(&q4).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    fs::write(&q4, bytes).unwrap();
    gguf(["hash", text(&q4), "--check", text(&manifest)]).exits(1);
    with(&["--check", text(&readme)]).exits(1).prints(&["Glossary-2.9M-Q4_K_M.gguf: SHA-256 is "]);
    fs::File::options().write(true).open(&q4).unwrap().set_len(last as u64).unwrap();
    gguf(["card", text(&q4)]).exits(1).says(&["Glossary-2.9M-Q4_K_M.gguf: tensor ", "5 bytes are missing"]);
    fs::remove_file(&q4).unwrap();
    let others: Vec<&str> = files.iter().filter(|file| **file != q4).map(|file| text(file)).collect();
    let run = gguf([vec!["card"], others, vec!["--check", text(&readme), "-q"]].concat()).exits(1);
    assert!(run.silently().out.contains("Glossary-2.9M-Q4_K_M.gguf is listed but was not given"));
    gguf(["card", "none.gguf"]).exits(2).says(&["none.gguf"]);
    gguf(["card", text(&model), "--check", "none.md"]).exits(2).says(&["none.md"]);
}

/// A file of this kind without weights, with further keys.
fn of_kind(path: &Path, kind: &str, arch: &str, more: &[(&str, gguf_format::Value)]) {
    let mut head = gguf_format::Head::default();
    head.set("general.type", kind);
    head.set("general.architecture", arch);
    for (key, value) in more {
        head.set(key, value.clone());
    }
    fs::write(path, head.encode().unwrap()).unwrap();
}

/// The front matter is that of the first model, and other files have tables of their own.
#[test]
fn cards_have_a_table_of_each_kind_of_file() {
    let dir = folder();
    let model = model(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    quantize(&[text(&model), &at("q4.gguf"), "Q4_K_M", "-q"]).exits(0);
    of_kind(&dir.path().join("mmproj.gguf"), "mmproj", "clip", &[("general.file_type", 1u32.into())]);
    of_kind(&dir.path().join("lora.gguf"), "adapter", "llama", &[]);
    of_kind(&dir.path().join("old-mmproj.gguf"), "model", "clip", &[]);
    let datasets = gguf_format::Value::from(vec!["/home/me/secret/wiki.txt".to_owned()]);
    let chunks = ("imatrix.chunk_count", 1u32.into());
    of_kind(&dir.path().join("imatrix.gguf"), "imatrix", "", &[("imatrix.datasets", datasets), chunks]);
    let names = ["imatrix.gguf", "lora.gguf", "mmproj.gguf", "old-mmproj.gguf", "q4.gguf", "in.gguf"];
    let files: Vec<String> = names.iter().map(|name| at(name)).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let card = gguf([&["card", "-q"], &files[..]].concat()).exits(0).silently().out;
    assert!(card.starts_with("---\nlicense: other\n"), "{card}");
    let rows: Vec<&str> = card.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()).collect();
    let expected = [
        &["File", "---", "in.gguf", "q4.gguf"][..],
        &["File", "---", "mmproj.gguf", "old-mmproj.gguf"],
        &["File", "---", "lora.gguf"],
        &["File", "---", "imatrix.gguf"],
    ];
    assert_eq!(rows, expected.concat(), "{card}");
    let headings: Vec<&str> = card.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## Image and audio encoders", "## Adapters", "## Importance matrices"]);
    assert!(card.contains("1 chunk of wiki.txt |") && !card.contains("secret"), "{card}");
    assert!(card.contains("| good quality for its size; the usual choice |"), "{card}");

    let readme = at("README.md");
    fs::write(&readme, &card).unwrap();
    fs::write(at("NOTICE"), "").unwrap();
    gguf([&["card", "--check", &readme], &files[..]].concat()).exits(0).says(&["README.md: good: 6 files"]);
    fs::write(&readme, card.replace("1 chunk of", "2 chunks of")).unwrap();
    let run = gguf([&["card", "--check", &readme], &files[..]].concat()).exits(1);
    run.prints(&["imatrix.gguf: Description is \"2 chunks of wiki.txt\", expected \"1 chunk of wiki.txt\""])
        .says(&["bad: 6 files, 1 difference\n"]);
    fs::write(&readme, card.replace("| good quality for its size; the usual choice |", "| My favorite. |")).unwrap();
    gguf([&["card", "--check", &readme], &files[..]].concat()).exits(0);

    // Without a model, the card is that of the first file.
    let matrix = gguf(["card", &at("imatrix.gguf"), "--json", "-q"]).exits(0).json();
    assert_eq!(matrix["models"][0]["kind"], "imatrix");
    assert_eq!(matrix["models"][0]["quality"], serde_json::Value::Null);
}

/// A fine-tune's base model is not that of its quantizations.
#[test]
fn the_base_model_of_a_card_is_the_quantized_model() {
    let dir = folder();
    let model = model(dir.path());
    let model = text(&model);
    let readme = dir.path().join("README.md");
    fs::write(dir.path().join("NOTICE"), "").unwrap();
    let parent = ["general.base_model.count=1", "general.base_model.0.repo_url=https://huggingface.co/Org/Parent"];
    gguf([&["set", model, "-q"], &parent[..]].concat()).exits(0);
    let card = gguf(["card", model, "--no-hash", "-q"]).exits(0);
    assert!(!card.out.contains("base_model"), "{}", card.out);
    assert!(card.err.contains("the metadata names Org/Parent") && card.err.contains("--base-model ORG/NAME"));

    let card =
        gguf(["card", model, "--no-hash", "--base-model", "https://huggingface.co/me/Tuned"]).exits(0).silently();
    assert!(card.out.contains("base_model: me/Tuned\nbase_model_relation: quantized\n"), "{}", card.out);
    let check = |text: &str, more: &[&str]| {
        fs::write(&readme, text).unwrap();
        gguf([&["card", model, "--no-hash", "-q", "--check", readme.to_str().unwrap()], more].concat())
    };
    check(&card.out, &[]).exits(0).silently();
    check(&card.out, &["--base-model", "me/Tuned"]).exits(0);
    check(&card.out, &["--base-model", "me/Other"]).exits(1).prints(&["base_model is \"me/Tuned\", expected"]);
    let wrong = card.out.replace("me/Tuned", "Org/Parent");
    check(&wrong, &[]).exits(1).prints(&["base_model is \"Org/Parent\", the base model of the quantized model"]);
    // A card of the model itself, not of its quantizations.
    check(&wrong.replace("quantized\n", "finetune\n"), &[]).exits(0);
    // The source in the metadata is the quantized model.
    gguf(["set", model, "general.source.repo_url=https://huggingface.co/me/Tuned/", "-q"]).exits(0);
    gguf(["card", model, "--no-hash"]).exits(0).silently().prints(&["base_model: me/Tuned\n"]);
    gguf(["set", model, "general.source.repo_url=https://huggingface.co/me", "-q"]).exits(0);
    gguf(["card", model, "--no-hash"]).exits(0).says(&["no base_model"]);
    for bad in ["Tuned", "me/", "a/b/c", "me/a b"] {
        gguf(["card", model, "--base-model", bad]).exits(2).says(&["expected ORG/NAME"]);
    }
}

#[test]
fn cards_link_to_the_files_in_their_repository() {
    let dir = folder();
    let model = model(dir.path());
    fs::create_dir(dir.path().join("BF16")).unwrap();
    let shards = dir.path().join("BF16/m");
    gguf(["split", text(&model), text(&shards), "--max-tensors", "15", "-q"]).exits(0);
    let odd = dir.path().join("a #1.gguf");
    fs::rename(&model, &odd).unwrap();
    let shard = dir.path().join("BF16/m-00002-of-00002.gguf");
    let args = ["card", text(&odd), text(&shard), "--no-hash", "--repo", "me/Model-GGUF"];
    let card = gguf(args).exits(0).out;
    let root = "https://huggingface.co/me/Model-GGUF/resolve/main";
    let links = format!(
        "| [m-00001-of-00002.gguf]({root}/BF16/m-00001-of-00002.gguf)<br>[m-00002-of-00002.gguf]({root}/BF16/m-00002-of-00002.gguf) |"
    );
    assert!(card.contains(&links), "{card}");
    assert!(card.contains(&format!("| [a #1.gguf]({root}/a%20%231.gguf) |")), "{card}");
    assert!(card.contains("\nquantized_by: me\n"), "{card}");
    let readme = dir.path().join("README.md");
    fs::write(&readme, &card).unwrap();
    let check = || gguf([&args[..], &["--check", text(&readme)]].concat());
    // The license is a file that must be published, too.
    check().exits(1).prints(&["license_link is \"NOTICE\", but no such file is beside the README"]);
    fs::write(dir.path().join("NOTICE"), "").unwrap();
    check().exits(0);
    gguf([&args[..4], &["--check", text(&readme), "--quantized-by", "me"]].concat()).exits(0);
    fs::write(&readme, card.replace("/BF16/m-00002", "/m-00002")).unwrap();
    check().exits(1).prints(&[&format!("m-00002-of-00002.gguf has no link to {root}/BF16/m-00002-of-00002.gguf")]);
    let json = gguf([&args[..], &["--json", "--quantized-by", "You"]].concat()).exits(0).json();
    assert_eq!(json["front_matter"]["quantized_by"], "You");
    let urls: Vec<&str> = json["models"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|model| model["files"].as_array().unwrap())
        .map(|file| file["url"].as_str().unwrap())
        .collect();
    assert_eq!(urls.len(), 3);
    assert!(urls.iter().all(|url| url.starts_with(root)), "{urls:?}");
}

#[test]
fn cards_fill_templates() {
    let dir = folder();
    let model = model(dir.path());
    let template = dir.path().join("template.md");
    let fill = |text: &str, more: &[&str]| {
        fs::write(&template, text).unwrap();
        gguf([&["card", model.to_str().unwrap(), "--no-hash", "--template", template.to_str().unwrap()], more].concat())
    };
    let run = fill("{{ front_matter }}\n# {{name}} {of} {{repo}}\n{{table}}\n}} end", &["--repo", "me/x"]).exits(0);
    let card = gguf(["card", text(&model), "--no-hash", "--repo", "me/x"]).exits(0).out;
    let (front, table) = card.split_once("\n\n").unwrap();
    assert_eq!(
        run.out,
        format!("{front}\n# Glossary {{of}} me/x\n{}\n}} end", table.trim_end()).replace("\n} end", "\n}} end")
    );
    for (text, said) in [
        ("a\n{{tabel}}", "line 2: unknown placeholder {{tabel}}, expected one of front_matter, table, name, "),
        ("{{base_model}}", "line 1: no value for {{base_model}}: use --base-model"),
        ("\n\n{{repo", "line 3: {{ without }}"),
    ] {
        let run = fill(text, &[]).exits(1);
        assert_eq!(run.out, "", "{text}");
        run.says(&[said]);
    }
    fill("", &["--table"]).exits(2);
    fill("", &["--check", "README.md"]).exits(2);
}

/// Folders are private, so only the name of the matrix is recorded, unless another text is requested.
#[test]
fn the_matrix_is_recorded_without_its_folder() {
    let dir = folder();
    let secret = dir.path().join("secret");
    fs::create_dir(&secret).unwrap();
    let matrix = secret.join("matrix.gguf");
    fs::copy(glossary().join("../imatrix.gguf"), &matrix).unwrap();
    let out = dir.path().join("out.gguf");
    for command in [["quantize", "MODEL", text(&out), "Q4_0"], ["convert", "CHECKPOINT", "--type=Q4_0", "-o"]] {
        let mut args: Vec<&str> = command.to_vec();
        let model = dir.path().join("in.gguf");
        let checkpoint = glossary();
        if args[0] == "quantize" {
            gguf(["convert", text(&checkpoint), "-o", text(&model), "-q"]).exits(0);
            args[1] = text(&model);
        } else {
            args[1] = text(&checkpoint);
            args.push(text(&out));
        }
        args.extend(["--imatrix", text(&matrix), "-fq"]);
        gguf(&args).exits(0);
        let bytes = fs::read(&out).unwrap();
        assert!(!bytes.windows(6).any(|word| word == b"secret"), "{args:?}");
        assert_eq!(gguf(["get", text(&out), "quantize.imatrix.file"]).exits(0).out, "matrix.gguf\n");
        args.extend(["--override-kv", "quantize.imatrix.file=str:mine.dat"]);
        gguf(&args).exits(0);
        assert_eq!(gguf(["get", text(&out), "quantize.imatrix.file"]).exits(0).out, "mine.dat\n");
    }
}

/// Every command that writes takes its output as an argument or as an option, and not twice.
#[test]
fn outputs_are_arguments_or_options() {
    let dir = folder();
    let model = model(dir.path());
    let matrix = matrix();
    let values = dir.path().join("v.npy");
    let donor = text(&model);
    // A NumPy file of two floats.
    let header = format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
    fs::write(&values, [b"\x93NUMPY\x01\0v\0".as_slice(), header.as_bytes(), &[0; 8]].concat()).unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&["reorder", donor], &[]),
        (&["swap", donor], &[]),
        (&["upgrade", donor], &[]),
        (&["graft", donor], &["--from", donor, "--keys", "general.*"]),
        (&["rm-tensor", donor], &["blk.0.attn_k.weight", "blk.1.*"]),
        (&["add-tensor", donor], &["new", text(&values)]),
        (&["quantize", donor], &["Q4_0"]),
        (&["imatrix", "convert", text(&matrix)], &["--format=gguf"]),
        (&["split", donor], &["--split-max-tensors", "20"]),
    ];
    for (before, after) in cases {
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let made = |out: &Path, args: &[&[&str]]| {
            let run = gguf(args.concat()).exits(0);
            let files: Vec<String> = run.out.lines().map(str::to_owned).collect();
            assert!(!files.is_empty() && files.iter().all(|file| file.starts_with(text(out))), "{before:?}: {files:?}");
            files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        let argument = made(&a, &[before, &[text(&a)], after]);
        let option = made(&b, &[before, after, &["-o", text(&b)]]);
        assert!(argument == option, "{before:?}");
        let both = gguf([*before, &[text(&a)] as &[&str], *after, &["-o", text(&b), "-f"]].concat());
        assert_ne!(both.code, 0, "{before:?}: {}", both.err);
        for file in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if file.file_name().unwrap().to_str().unwrap().starts_with(['a', 'b']) {
                fs::remove_file(file).unwrap();
            }
        }
    }
}

/// Several files: a line for each, its findings below, and the same note once.
#[test]
fn the_check_of_several_files_is_short() {
    let dir = folder();
    let good = dir.path().join("Glossary-2.9M-BF16.gguf");
    fs::copy(model(dir.path()), &good).unwrap();
    let [a, b] = ["a.gguf", "b.gguf"].map(|name| dir.path().join(name));
    for copy in [&a, &b] {
        fs::copy(&good, copy).unwrap();
    }
    let run = gguf(["check", text(&good), text(&a), text(&good), text(&b)]).exits(0);
    let lines: Vec<&str> = run.out.lines().collect();
    let name = |path: &Path| path.display().to_string();
    assert_eq!(lines[0], format!("{}: good, no findings", name(&good)));
    assert_eq!(lines[1], format!("{}: good, 1 note", name(&a)));
    assert!(lines[2].starts_with("note name."), "{}", run.out);
    assert_eq!(lines[lines.len() - 2], format!("{}: good, no findings", name(&good)));
    assert_eq!(lines[lines.len() - 1], format!("{}: good, 1 note", name(&b)));
    assert_eq!(run.out.matches("note name.").count(), 1, "{}", run.out);
}

/// Pages of results, which never replace a model, not even a shard that only its name shows.
#[test]
fn pages_replace_no_model() {
    let dir = folder();
    let whole = model(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    gguf(["split", text(&whole), &at("s"), "--max-tensors", "15", "-q"]).exits(0);
    let [first, second] = ["s-00001-of-00002.gguf", "s-00002-of-00002.gguf"].map(at);
    let before = fs::read(&second).unwrap();
    let (page, out) = (at("page.html"), at("out.gguf"));
    let lines: [&[&str]; 3] =
        [&["check", &first], &["diff", &first, text(&whole)], &["quantize", &first, &out, "Q8_0", "-q"]];
    for line in lines {
        let with = |page: &str, more: &[&str]| gguf([line, &["--html", page], more].concat());
        with(&second, &["-f"]).exits(2).says(&["would overwrite an input file"]);
        assert!(fs::read(&second).unwrap() == before, "{line:?}");
        with(&second, &[]).exits(2);
        with(&page, &[]).exits(0);
        assert!(fs::read_to_string(&page).unwrap().contains(&format!("\"schema\":\"gguf.{}/1\"", line[0])));
        let _ = fs::remove_file(&out);
        with(&page, &[]).exits(2).says(&["exists"]);
        with(&page, &["-f"]).exits(0);
        fs::remove_file(&page).unwrap();
    }
    gguf(["quantize", &first, &at("page.gguf"), "Q8_0", "--html", &at("page.gguf")]).exits(2).says(&["two outputs"]);
    for more in ["--list", "-n"] {
        gguf(["quantize", &first, &out, "Q8_0", "--html", &page, more]).exits(2);
    }
    gguf(["quantize", &first, &out, "Q8_0", "--html", &page, "--plan-only", &at("plan.json")]).exits(2);
    assert!(!Path::new(&page).exists());
}
