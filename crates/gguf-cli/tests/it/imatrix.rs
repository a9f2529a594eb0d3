//! `gguf imatrix`: output, files and errors. The test files of the library come from llama-imatrix.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, glossary, names, text};
use gguf_test::program::{Run, gguf};

fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gguf-quantize/tests/data/imatrix");
    text(&folder.join(name)).to_owned()
}

fn imatrix(args: &[&str]) -> Run {
    gguf([&["imatrix"], args].concat())
}

/// A file with one entry in the old format.
fn old(dir: &Path, name: &str, entry: &str, n_calls: i32, values: &[f32]) -> PathBuf {
    let mut out = Vec::new();
    for n in [1, entry.len() as i32] {
        out.extend(n.to_le_bytes());
    }
    out.extend(entry.as_bytes());
    for n in [n_calls, values.len() as i32] {
        out.extend(n.to_le_bytes());
    }
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    let path = dir.join(name);
    fs::write(&path, out).unwrap();
    path
}

/// For every weight of the example with 256 or 768 columns, one chunk with equal values.
fn of_the_example(dir: &Path) -> PathBuf {
    let weights = ["attn_k", "attn_output", "attn_q", "attn_v", "ffn_down", "ffn_gate", "ffn_up"];
    let names = (0..3).flat_map(|block| weights.map(|w| format!("blk.{block}.{w}.weight")));
    let mut files = Vec::new();
    for (i, name) in names.enumerate() {
        let n = if name.contains("ffn_down") { 768 } else { 256 };
        files.push(old(dir, &format!("{i}.dat"), &name, 1, &vec![1.0; n]));
    }
    let out = dir.join("example.gguf");
    let mut args = vec!["merge", "-q", "--chunk-size", "512", "-o", text(&out)];
    args.extend(files.iter().map(|path| text(path)));
    imatrix(&args).exits(0).silently();
    out
}

#[test]
fn merged_and_converted_files_are_those_of_llama_imatrix() {
    let dir = folder();
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("one-two.gguf", &["merge", "one.gguf", "two.gguf"], &[]),
        ("one-two.dat", &["merge", "one.gguf", "two.gguf"], &[]),
        ("two-one.gguf", &["merge", "two.gguf", "one.gguf"], &["--chunk-size", "100"]),
        ("old-one-old.gguf", &["merge", "old.dat", "one.gguf", "old.dat"], &[]),
        ("one-old-96.dat", &["merge", "one.gguf", "old.dat"], &["--chunk-size", "96"]),
        ("old.gguf", &["convert", "old.dat"], &[]),
        ("old.dat", &["convert", "old.dat"], &[]),
        ("one.gguf", &["convert", "one.gguf"], &[]),
        ("one-two.dat", &["convert", "one-two.gguf"], &[]),
    ];
    for (expected, inputs, options) in cases {
        let out = dir.path().join("out");
        let format = expected.rsplit('.').next().unwrap();
        let mut args = vec![inputs[0].to_owned()];
        args.extend(inputs[1..].iter().map(|name| data(name)));
        args.extend(["--format", format, "-f"].map(str::to_owned));
        args.extend((inputs[0] == "merge").then(|| "-o".to_owned()));
        args.push(text(&out).to_owned());
        args.extend(options.iter().map(|o| (*o).to_owned()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let run = imatrix(&args).exits(0);
        assert_eq!(run.out.trim_end(), text(&out));
        assert!(fs::read(&out).unwrap() == fs::read(data(expected)).unwrap(), "{expected} {inputs:?}");
    }
}

#[test]
fn what_is_lost_is_said() {
    let dir = folder();
    let out = dir.path().join("x.dat");
    imatrix(&["convert", &data("two-one.gguf"), text(&out)]).exits(0).says(&[
        "omitted, because they have no measurements: blk.1.attn_q.weight\n",
        "token counts per expert are lost in 1 entry; 1 expert was never used: all its columns become 1",
        "only the last dataset name is kept, ",
        "the chunk size is not stored; pass --chunk-size 100",
    ]);
    let run = imatrix(&["merge", &data("one-two.gguf"), &data("one-two.gguf"), "-o", text(&out), "-f"]).exits(0);
    run.says(&["only the last dataset name is kept, c.txt; lost: a.txt, b.txt\n"]);
    let run = imatrix(&["merge", &data("old.dat"), &data("old.dat"), "-o", text(&out), "-f"]).exits(0);
    assert!(!run.err.contains("only the last dataset name is kept"), "{}", run.err);
    imatrix(&["convert", &data("two-one.gguf"), text(&out), "-f", "-q"]).exits(0);
    let back = dir.path().join("x.gguf");
    imatrix(&["convert", text(&out), text(&back)])
        .exits(0)
        .says(&["x.dat: chunk size not recorded; assuming 512 tokens"]);
    imatrix(&["convert", text(&out), text(&back), "-f", "-q", "--chunk-size", "100"]).exits(0).silently();

    let none = old(dir.path(), "none.dat", "a", 0, &[1.0]);
    imatrix(&["convert", text(&none), text(&back), "-f"])
        .exits(0)
        .says(&["chunk count 0; the output marks these entries as not measured: a\n"]);
    let two = old(dir.path(), "two.dat", "a", 1, &[1.0]);
    imatrix(&["merge", text(&two), text(&two), "-o", text(&back), "-f"]).exits(0).says(&[
        "two.dat: listed more than once",
        "two.dat: chunk size not recorded",
        "gguf: 1 entry of 2 files, 2 chunks",
    ]);
    let many = old(dir.path(), "many.dat", "a", i32::MAX, &[1.0]);
    imatrix(&["convert", text(&many), text(&back), "-f"]).exits(0).says(&["counts of 1 entry exceed 16,777,216"]);
}

#[test]
fn what_cannot_be_merged_or_written_is_refused() {
    let dir = folder();
    let dir = dir.path();
    let one = dir.join("one.gguf");
    fs::copy(data("one.gguf"), &one).unwrap();
    let other = old(dir, "other.dat", "blk.0.attn_q.weight", 1, &[1.0; 6]);
    let infinite = old(dir, "infinite.dat", "a", 1, &[1.0, f32::INFINITY]);
    let negative = old(dir, "negative.dat", "a", 1, &[1.0, -2.0]);
    let (none, unseen) = (old(dir, "none.dat", "a", 0, &[1.0]), dir.join("unseen.gguf"));
    imatrix(&["convert", text(&none), text(&unseen), "-q"]).exits(0);
    fs::write(dir.join("text.gguf"), "no matrix, but long enough to be one").unwrap();
    let path = |name: &str| text(&dir.join(name)).to_owned();
    let (one, out) = (text(&one), path("out.gguf"));
    let before = names(dir);
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["merge", one, text(&other), "-o", &out], 1, &["other.dat: the entry blk.0.attn_q.weight: 6 sums", "8 in"]),
        (&["merge", one, text(&infinite), "-o", &out], 1, &["infinite.dat: the entry a: value 1 is inf"]),
        (&["merge", one, &path("text.gguf"), "-o", &out], 1, &["text.gguf: not an importance matrix"]),
        (
            &["merge", one, text(&negative), "-o", &out],
            1,
            &["negative.dat: the entry a: value 1 is -2; sums of squares"],
        ),
        (&["convert", text(&negative), &path("out.dat")], 1, &["negative.dat: the entry a: value 1 is -2;"]),
        (&["convert", text(&unseen), &path("out.dat")], 1, &["none of its entries has measurements"]),
        (&["merge", one, &path("nowhere"), "-o", &out], 2, &["nowhere"]),
        (&["convert", one, &path("out")], 2, &["unknown output format", "--format"]),
        (&["convert", one, one, "-f"], 2, &["choose another name"]),
        (&["convert", one, text(&other)], 2, &["other.dat: already exists", "--force"]),
        (&["convert", one, &out, "--chunk-size", "0"], 2, &["--chunk-size"]),
        (&["convert", one, &path("no/out.gguf")], 2, &["out.gguf: cannot create a file there"]),
        (&["show", &path("text.gguf")], 1, &["text.gguf: not an importance matrix"]),
        (&["check", &path("nowhere")], 2, &["nowhere"]),
        (&["check", one, one, "Q4"], 2, &["unknown file type `Q4`", "did you mean"]),
        (&["check", one, one], 1, &["one.gguf: general.architecture is missing; expected a model"]),
        (&["check", one, &path("text.gguf")], 1, &["text.gguf"]),
    ];
    for (args, code, texts) in cases {
        imatrix(args).exits(*code).says(texts);
    }
    assert_eq!(names(dir), before);
    assert!(fs::read(one).unwrap() == fs::read(data("one.gguf")).unwrap());
}

#[test]
fn entries_are_shown_with_their_statistics() {
    let file = data("one-two.gguf");
    imatrix(&["show", &file]).exits(0).silently().prints(&[
        "  Texts     a.txt, b.txt, c.txt\n",
        "  Chunks    245 of 512 tokens\n",
        "  Contents  4 entries, 53 columns, 212 B\n",
        "  Unseen    1 entry, experts of 1 entry\n",
        "ENTRY                     COLUMNS  EXPERTS  UNSEEN     TOKENS      SUM",
        "blk.0.attn_q.weight             8        1       0    125,697    10.26  0.004877   5.498   1.283   1.887  \
         100.0 %   54.8 %  25.0 %       -\n",
        "blk.0.ffn_up_exps.weight        8        4       1  0..91,538   658580",
        "blk.1.attn_q.weight             8        1       1          0        -",
    ]);
    let run = imatrix(&["show", &file, "output.*", "blk.0.attn_?.weight"]).exits(0);
    assert_eq!(run.out.matches(".weight").count(), 2);
    imatrix(&["show", &file, "blk.7.*"]).exits(1).says(&["there is no entry blk.7.*"]);
    imatrix(&["show", &data("old.dat")]).exits(0).prints(&["CHUNKS", "7, of unknown size"]);

    let shown = imatrix(&["show", &file, "--json"]).exits(0).json();
    assert_eq!((&shown["format"], &shown["chunk_count"]), (&"gguf".into(), &245.into()));
    let entries = shown["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[2]["n_unseen"]), (4, &1.into()));
    assert_eq!(entries[2]["counts"].as_array().unwrap().len(), 4);
    assert!((entries[1]["statistics"]["entropy"].as_f64().unwrap() - 1.6446).abs() < 1e-4);
    assert!(entries[3]["statistics"].is_null());

    let dir = folder();
    let bad = old(dir.path(), "bad.dat", "blk.0.\u{1b}[31ma", 1, &[1.0, f32::NAN]);
    let run = imatrix(&["show", text(&bad)]).exits(1).says(&["value 1 is NaN"]);
    assert!(!run.out.contains('\u{1b}') && !run.err.contains('\u{1b}'));
    let shown = imatrix(&["show", text(&bad), "--json"]).exits(1).json();
    assert!(shown["entries"][0]["error"].as_str().unwrap().contains("value 1 is NaN"));
}

#[test]
fn a_matrix_is_checked_alone_and_with_a_model() {
    let dir = folder();
    imatrix(&["check", &data("one-two.gguf")]).exits(0).prints(&[
        "warning imatrix.experts\n",
        "1 of 4 experts were never used",
        "one-two.gguf: good, 2 warnings\n",
    ]);
    imatrix(&["check", &data("one-two.gguf"), "--strict", "-q"]).exits(1).silently();
    let negative = old(dir.path(), "negative.dat", "a", 1, &[1.0, -2.0]);
    imatrix(&["check", text(&negative)]).exits(1).prints(&["error imatrix.negative\n", "tensor a: value 1 is -2"]);

    let (matrix, model) = (of_the_example(dir.path()), dir.path().join("model.gguf"));
    gguf([Path::new("convert"), &glossary(), Path::new("-o"), &model, Path::new("-q")]).exits(0);
    let small = dir.path().join("small.gguf");
    gguf(["quantize", text(&model), text(&small), "Q4_K_M", "-q"]).exits(0);
    // A quantized model is checked like the original.
    for model in [&model, &small, &glossary()] {
        for ty in ["Q4_K_M", "IQ2_XS", "24"] {
            let run = imatrix(&["check", text(&matrix), text(model), ty]);
            run.exits(0).prints(&["21 of 21 tensors covered: good, no findings\n"]);
        }
    }
    let part = dir.path().join("3.dat");
    imatrix(&["check", text(&part), text(&model)]).exits(0).prints(&[
        "warning imatrix.uncovered\n",
        "blk.0.attn_k.weight: it gets q4_K and has no entry\n",
        "as Q4_K_M, 1 of 21 tensors covered: good, 20 warnings\n",
    ]);
    let run = imatrix(&["check", text(&part), text(&model), "iq2_xs", "--json"]).exits(1).json();
    assert_eq!(run["good"], false);
    assert_eq!((&run["coverage"]["covered"], &run["coverage"]["tensors"]), (&1.into(), &21.into()));
    assert_eq!(run["files"][0]["findings"][0]["code"], "imatrix.needed");
    imatrix(&["check", &data("one.gguf"), text(&model)]).exits(1).prints(&[
        "the matrix has 8 values, the tensor has 256 columns",
        "error imatrix.size\n",
        "warning imatrix.unmatched\n",
        "blk.0.ffn_up_exps.weight: the model has no such tensor",
    ]);
    fs::write(dir.path().join("none.dat"), "").unwrap();
    let run =
        imatrix(&["check", text(&dir.path().join("none.dat")), "--json"]).exits(1).says(&["not an importance matrix"]);
    assert_eq!(run.json()["error"]["kind"], "bad_input");
    imatrix(&["check", "--rules"]).exits(0).prints(&["imatrix.needed", "imatrix.zero"]);
}

#[test]
fn a_matrix_that_cannot_be_used_is_named_with_what_to_do() {
    let dir = folder();
    let (model, out) = (dir.path().join("model.gguf"), dir.path().join("out.gguf"));
    gguf([Path::new("convert"), &glossary(), Path::new("-o"), &model, Path::new("-q")]).exits(0);
    let mut values = [1.0; 256];
    values[7] = f32::NAN;
    let nan = old(dir.path(), "nan.dat", "blk.0.attn_q.weight", 1, &values);
    let small = old(dir.path(), "small.dat", "blk.0.attn_q.weight", 1, &[1.0, f32::NAN]);
    let other = old(dir.path(), "other.dat", "blk.9.attn_q.weight", 1, &[1.0]);
    let part = old(dir.path(), "part.dat", "blk.0.attn_q.weight", 1, &[1.0; 256]);
    let cases: &[(&Path, &[&str], &[&str])] = &[
        (&nan, &[], &["nan.dat: tensor blk.0.attn_q.weight: value 7 is NaN", "--exclude-weights"]),
        (&small, &[], &["and 1 more\nhelp: `gguf imatrix check ", "small.dat ", "model.gguf` lists all problems"]),
        (&other, &[], &["other.dat: its only entry is for no tensor of the model"]),
        (&part, &["--include-weights", "nosuch"], &["part.dat: it has no entries to use"]),
    ];
    for (matrix, more, texts) in cases {
        let args = ["quantize", text(&model), text(&out), "Q4_K_M", "--imatrix", text(matrix)];
        let run = gguf([&args[..], more].concat()).exits(1).says(texts);
        assert_eq!(run.err.lines().filter(|line| !line.starts_with("help: ")).count(), 1, "{}", run.err);
        assert!(!out.exists());
    }
    let shown = ["quantize", text(&model), "Q4_K_M", "--dry-run", "--imatrix", text(&part)];
    let run = gguf(shown).exits(0);
    assert!(!run.err.contains("file: "), "{}", run.err);
}

/// Their sums would be mixed. No library is needed to say so.
#[test]
fn matrices_of_another_model_are_not_continued() {
    let dir = folder();
    let [model, texts, out] = ["model.gguf", "text.txt", "out.gguf"].map(|name| dir.path().join(name));
    gguf([Path::new("convert"), &glossary(), Path::new("-o"), &model, Path::new("-q")]).exits(0);
    fs::write(&texts, "text").unwrap();
    let narrow = old(dir.path(), "narrow.dat", "blk.0.attn_q.weight", 1, &[1.0; 64]);
    let other = old(dir.path(), "other.dat", "blk.9.attn_q.weight", 1, &[1.0; 256]);
    let cases = [
        (&narrow, "tensor blk.0.attn_q.weight: the matrix has 64 values, the tensor has 256 columns; expected "),
        (&other, "its only entry is for no tensor of the model; expected "),
    ];
    for (matrix, said) in cases {
        let args = ["imatrix", "compute", text(&model), text(&texts), "-o", text(&out), "--continue", text(matrix)];
        gguf(args).exits(1).says(&[said, "help: `gguf imatrix check ", "lists all problems"]);
        assert!(!out.exists());
    }
}

#[test]
fn every_subcommand_has_its_help_and_manual_page() {
    imatrix(&[]).exits(2).says(&["Usage: gguf imatrix [OPTIONS] <COMMAND>"]);
    for command in ["show", "check", "merge", "convert"] {
        let help = imatrix(&[command, "--help"]).exits(0).silently();
        help.prints(&["Examples:\n", "Exit codes:\n", "Usage: gguf imatrix "]);
    }
    let dir = folder();
    gguf(["man", text(dir.path())]).exits(0);
    let pages = names(dir.path());
    for page in ["gguf-imatrix.1", "gguf-imatrix-show.1", "gguf-imatrix-convert.1"] {
        assert!(pages.iter().any(|p| p == page), "{page} of {pages:?}");
    }
    gguf(["completions", "bash"]).exits(0).prints(&["gguf__subcmd__imatrix__subcmd__merge"]);
}
