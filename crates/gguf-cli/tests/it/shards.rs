//! `gguf split` and `gguf merge`: output, files and errors.

use std::fs;
use std::path::Path;

use gguf_test::files::{folder, names, small, text};
use gguf_test::program::gguf;

fn three(dir: &Path) -> [String; 3] {
    let model = small(dir, "model.gguf");
    let prefix = dir.join("s");
    let run = gguf(["split", text(&model), text(&prefix), "--max-tensors", "1", "--no-tensor-first-split"]).exits(0);
    run.says(&["3 shards: 2 tensors, "]);
    [1, 2, 3].map(|no| text(&dir.join(format!("s-0000{no}-of-00003.gguf"))).to_owned())
}

#[test]
fn a_model_is_split_and_merged_again() {
    let dir = folder();
    let [first, second, third] = three(dir.path());
    let model = dir.path().join("model.gguf");
    let out = dir.path().join("out.gguf");
    for given in [vec![&second], vec![&first, &second, &third], vec![&third, &first]] {
        let mut args = vec!["merge"];
        args.extend(given.iter().map(|path| path.as_str()));
        args.extend(["-o", text(&out), "--force", "--verify"]);
        let run = gguf(&args).exits(0).says(&["3 shards merged: 2 tensors, ", "verified: 2 tensors, "]);
        assert_eq!(run.out, format!("{}\n", text(&out)));
        assert!(fs::read(&out).unwrap() == fs::read(&model).unwrap());
    }
    let run = gguf(["merge", &first, "-o", text(&out), "-fq"]).exits(0).silently();
    assert_eq!(run.out, format!("{}\n", text(&out)));
    // Other shards in one step.
    let again = dir.path().join("again");
    gguf(["split", &second, text(&again), "--max-size", "1GB", "-q"]).exits(0).silently();
    assert!(dir.path().join("again-00001-of-00001.gguf").exists());
}

#[test]
fn a_dry_run_shows_the_shards_and_writes_nothing() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let prefix = dir.path().join("s");
    let before = names(dir.path());
    let args = ["split", text(&model), text(&prefix), "--max-file-size", "64100", "-n"];
    gguf(args).exits(2).says(&["token_embd.weight alone makes a shard of ", "use a larger --max-file-size"]);
    let args = ["split", text(&model), text(&prefix), "--max-tensors", "1", "-n"];
    gguf(args).exits(0).silently().prints(&[
        "SHARD",
        "TENSORS",
        "FIRST TENSOR\n",
        "token_embd.weight\n",
        "\n2 tensors, ",
    ]);
    let json = gguf(args.iter().copied().chain(["--json"])).exits(0).silently().json();
    let shards = json["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 2);
    assert_eq!(shards[1]["tensors"], serde_json::json!(["output_norm.weight"]));
    let sum: u64 = shards.iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
    assert_eq!(json["bytes"], sum);
    assert_eq!(names(dir.path()), before);
    let [first, ..] = three(dir.path());
    let before = names(dir.path());
    let out = dir.path().join("out.gguf");
    gguf(["merge", &first, "-o", text(&out), "-n"]).exits(0).silently().prints(&["3 shards: 2 tensors, "]);
    let json = gguf(["merge", &first, "-o", text(&out), "-n", "--json"]).exits(0).json();
    assert_eq!((&json["kind"], &json["n_tensors"]), (&"shards".into(), &2.into()));
    assert_eq!(json["bytes"], fs::metadata(dir.path().join("model.gguf")).unwrap().len());
    assert_eq!(names(dir.path()), before);
}

#[test]
fn nothing_is_overwritten_and_no_input_is_an_output() {
    let dir = folder();
    let [first, second, _] = three(dir.path());
    let model = dir.path().join("model.gguf");
    let other = dir.path().join("other.gguf");
    fs::write(&other, "precious").unwrap();
    gguf(["merge", &first, "-o", text(&other)]).exits(2).says(&["other.gguf: already exists\nhelp: use --force"]);
    assert_eq!(fs::read(&other).unwrap(), b"precious");
    for force in [None, Some("--force")] {
        let args = ["merge", &first, "-o", &second].into_iter().chain(force);
        gguf(args).exits(2).says(&["would overwrite an input file"]);
        let prefix = dir.path().join("s");
        let args = ["split", &first, text(&prefix), "--max-tensors", "1", "--no-tensor-first-split"];
        gguf(args.into_iter().chain(force)).exits(2).says(&["would overwrite an input file"]);
    }
    let prefix = dir.path().join("s");
    let args = ["split", text(&model), text(&prefix), "--max-tensors", "1", "--no-tensor-first-split"];
    gguf(args).exits(2).says(&["already exists"]);
    assert_eq!(names(dir.path()).len(), 5);
    gguf(["merge", text(&model), "-o", "x"]).exits(1).says(&["is not split\nhelp: there is nothing to merge"]);
    gguf(["merge", &first, text(&model), "-o", "x"]).exits(1).says(&["is not a shard of the same model"]);
    gguf(["split", text(&model), text(dir.path()), "--max-tensors", "1"]).exits(2).says(&["is a folder", "model"]);
    gguf(["split", text(&model), "s"]).exits(2).says(&["--split-max-tensors", "--split-max-size", "--max-file-size"]);
    gguf(["split", text(&model), "s", "--max-size", "0"]).exits(2).says(&["not a valid file size"]);
    gguf(["merge", &first, "-o", "-"]).exits(2).says(&["cannot be written to standard output"]);
}

#[test]
fn the_input_goes_when_the_output_is_verified() {
    let dir = folder();
    let [first, ..] = three(dir.path());
    let model = dir.path().join("model.gguf");
    let bytes = fs::read(&model).unwrap();
    fs::remove_file(&model).unwrap();
    gguf(["merge", &first, "-o", text(&model), "--delete-input"]).exits(0).says(&["verified: 2 tensors"]);
    assert_eq!(names(dir.path()), ["model.gguf"]);
    assert!(fs::read(&model).unwrap() == bytes);
    let prefix = dir.path().join("t");
    gguf(["split", text(&model), text(&prefix), "--max-tensors", "1", "--delete-input"]).exits(0);
    assert_eq!(names(dir.path()), ["t-00001-of-00002.gguf", "t-00002-of-00002.gguf"]);
    // Nothing is removed if the output cannot be written.
    fs::write(&model, "precious").unwrap();
    let first = dir.path().join("t-00001-of-00002.gguf");
    gguf(["merge", text(&first), "-o", text(&model), "--delete-input"]).exits(2);
    assert_eq!(names(dir.path()).len(), 3);
}

#[test]
fn what_an_output_would_not_hold_is_not_deleted() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let mut bytes = fs::read(&model).unwrap();
    bytes.extend([0, 0, 7]);
    fs::write(&model, &bytes).unwrap();
    let prefix = dir.path().join("s");
    let args = ["split", text(&model), text(&prefix), "--max-tensors", "1"];
    let run = gguf(args.into_iter().chain(["--delete-input"])).exits(1);
    run.says(&["model.gguf: 3 bytes outside all tensors are not zero", "omit --delete-input"]);
    assert_eq!(names(dir.path()), ["model.gguf"]);
    gguf(args).exits(0).says(&["they are dropped", "non-standard layout; it is recorded in the first shard"]);
    let second = dir.path().join("s-00002-of-00002.gguf");
    let mut bytes = fs::read(&second).unwrap();
    bytes.extend([5; 32]);
    fs::write(&second, &bytes).unwrap();
    let out = dir.path().join("out.gguf");
    let args = ["merge", text(&second), "-o", text(&out)];
    let run = gguf(args.into_iter().chain(["--delete-input"])).exits(1);
    run.says(&["s-00002-of-00002.gguf: 32 bytes outside all tensors", "omit --delete-input"]);
    assert!(!out.exists() && second.exists());
    gguf(args).exits(0).says(&["they are dropped"]);
}

#[test]
fn pieces_are_joined() {
    let dir = folder();
    let model = small(dir.path(), "model.gguf");
    let bytes = fs::read(&model).unwrap();
    let piece = |i: usize| dir.path().join(format!("m.gguf.part{i}of2"));
    fs::write(piece(1), &bytes[..20_000]).unwrap();
    let out = dir.path().join("m.gguf");
    let args = ["merge", text(&piece(1)), "-o", text(&out)].map(str::to_owned);
    gguf(&args).exits(1).says(&["m.gguf.part1of2: the piece ", "m.gguf.part2of2 is missing"]);
    fs::write(piece(2), &bytes[20_000..40_000]).unwrap();
    gguf(&args).exits(1).says(&["all pieces together have 40,000 bytes", "a piece is missing or truncated"]);
    fs::write(piece(2), &bytes[20_000..]).unwrap();
    gguf(args.iter().map(String::as_str).chain(["-n"])).exits(0).prints(&["2 pieces: 2 tensors"]);
    assert!(!out.exists());
    gguf(args.iter().map(String::as_str).chain(["--delete-input"]))
        .exits(0)
        .says(&["2 pieces joined: 2 tensors", "verified"]);
    assert!(fs::read(&out).unwrap() == bytes);
    assert_eq!(names(dir.path()), ["m.gguf", "model.gguf"]);
}

/// A sparse file of ten gigabytes: memory and time do not depend on its size.
#[cfg(target_os = "linux")]
#[test]
fn large_models_take_little_memory() {
    use gguf_format::{GgmlType, TensorInfo};
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;

    let dir = folder();
    let mut head = gguf_test::files::head(&[]);
    head.tensors = (0..10).map(|i| TensorInfo::new(format!("blk.{i}.w"), [1 << 14, 1 << 15], GgmlType::F16)).collect();
    let layout = head.layout().unwrap();
    let path = dir.path().join("large.gguf");
    fs::write(&path, layout.head()).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(layout.file_bytes()).unwrap();
    let is_sparse = |path: &Path| fs::metadata(path).is_ok_and(|m| m.blocks() * 512 < m.len() / 2);
    if !is_sparse(&path) {
        eprintln!("skipped: the file system has no holes");
        return;
    }
    assert!(layout.file_bytes() > 10_000_000_000);
    let run = |line: &str| {
        let script = format!("ulimit -v 200000; cd \"$0\"; \"$1\" {line}");
        let output =
            Command::new("sh").args(["-c", &script]).arg(dir.path()).arg(env!("CARGO_BIN_EXE_gguf")).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("split large.gguf s --max-size 3GB -j2");
    run("merge s-00001-of-00005.gguf -o merged.gguf -j2");
    run("reorder large.gguf reordered.gguf --by size -j2");
    run("rm-tensor merged.gguf less.gguf blk.0.w -j2");
    for name in ["s-00003-of-00005.gguf", "merged.gguf", "reordered.gguf", "less.gguf"] {
        assert!(is_sparse(&dir.path().join(name)), "{name}");
    }
    assert_eq!(fs::metadata(dir.path().join("merged.gguf")).unwrap().len(), layout.file_bytes());
}

/// A read-only directory, except for root.
#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_to_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder();
    let [first, ..] = three(dir.path());
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(closed.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write everywhere");
        return;
    }
    let before = names(dir.path());
    let out = closed.join("out.gguf");
    gguf(["merge", &first, "-o", text(&out), "--delete-input"]).exits(2).says(&["cannot create a file there"]);
    assert_eq!(names(dir.path()), before);
    assert!(names(&closed).is_empty());
}
