//! Comparisons with the programs of llama.cpp: splitting, hashing, swapping and decoding. Requires the directories of the peers and of the
//! shared data, and a C++ compiler for programs in source form.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Layout, write};
use gguf_edit::extract::{Format, Values, extract};
use gguf_edit::hash::{Algorithm, HashOptions, hash};
use gguf_edit::{Limit, Manifest, SplitOptions, merge, split};
use gguf_format::{Gguf, Head, Str};
use gguf_io::ModelFile;
use gguf_pipeline::RunOptions;
use gguf_test::files::{folder, names};
use gguf_test::peers::{Peers, Program};

fn command(program: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Little-endian files written by the real converter.
fn references(peers: &Peers) -> Vec<PathBuf> {
    let files = fs::read_dir(peers.data("hf/ref")).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".gguf") && !name.contains("bigendian") && !name.contains("-of-0")
    };
    let mut files: Vec<PathBuf> = files.filter(is_one).collect();
    files.sort();
    assert!(files.len() > 50, "{}", files.len());
    files.push(peers.data("glossary-bf16.gguf"));
    files.push(peers.data("glossary-imatrix.gguf"));
    files
}

fn n(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

fn shards_are_those_of_llama_gguf_split() {
    let peers = Peers::get();
    let dir = folder();
    let program = peers.build(Program::Split, dir.path());
    let cases: &[(&[&str], SplitOptions)] = &[
        (&["--split-max-tensors", "1"], SplitOptions::new(Limit::Tensors(n(1)))),
        (&["--split-max-tensors", "7"], SplitOptions::new(Limit::Tensors(n(7)))),
        (&["--split-max-tensors", "100000"], SplitOptions::new(Limit::Tensors(n(100_000)))),
        (&["--split-max-size", "1M"], SplitOptions::new(Limit::DataBytes(n(1_000_000)))),
        (&["--split-max-size", "3M"], SplitOptions::new(Limit::DataBytes(n(3_000_000)))),
        (&["--split-max-size", "1G"], SplitOptions::new(Limit::DataBytes(n(1_000_000_000)))),
    ];
    let (mut n_same, mut n_refused, mut n_ones) = (0, 0, 0);
    let mut models = references(&peers);
    // Version 2, unusual dimensions, and keys left by an earlier merge.
    models.push(write(dir.path(), "v2.gguf", &Layout { version: 2, ..Layout::default() }));
    models.push(write(dir.path(), "merged.gguf", &Layout { was_merged: true, ..Layout::default() }));
    for (i, model) in models.iter().enumerate() {
        for (j, (args, options)) in cases.iter().enumerate() {
            // Every model with one option, the first ones with all.
            if i > 3 && i < models.len() - 4 && j != i % cases.len() {
                continue;
            }
            for first in [false, true] {
                let out = folder();
                let (ours, theirs) = (out.path().join("ours"), out.path().join("theirs"));
                let [model, theirs_text] = [model, &theirs].map(|path| path.to_str().unwrap());
                let args = args.iter().copied().chain(first.then_some("--no-tensor-first-split"));
                let output = command(&program, &args.chain([model, theirs_text]).collect::<Vec<_>>());
                let split = split(model, &options.no_tensor_first(first)).unwrap();
                // Without tensors, llama-gguf-split writes a second empty shard.
                if first && split.plan.tensors().is_empty() {
                    assert_eq!(split.plan.files().len(), 1);
                    continue;
                }
                if !output.status.success() {
                    // A first tensor larger than the limit.
                    assert!(said(&output).contains("one of splits have 0 tensors"), "{model}: {}", said(&output));
                    assert!(!split.too_large.is_empty(), "{model}");
                    n_refused += 1;
                    continue;
                }
                let paths = split.plan.run(&ours, &RunOptions::default(), &()).unwrap().paths;
                assert_eq!(names(out.path()).len(), 2 * paths.len(), "{model} {options:?}: {:?}", names(out.path()));
                for (k, path) in paths.iter().enumerate() {
                    let other = path.to_str().unwrap().replace("/ours-", "/theirs-");
                    let same = same_shard(&fs::read(path).unwrap(), &fs::read(&other).unwrap(), &mut n_ones);
                    // The first shard of a file with an unusual layout records it.
                    assert!(same || split.notes_layout && k == 0, "{path:?} of {model} {options:?}");
                }
                let merged = out.path().join("merged.gguf");
                merge(&paths[0]).unwrap().plan.run(&merged, &RunOptions::default(), &()).unwrap();
                assert!(fs::read(&merged).unwrap() == fs::read(model).unwrap(), "{model}");
                // Shards from llama.cpp merge as well, to the packed form.
                let theirs = paths[0].to_str().unwrap().replace("/ours-", "/theirs-");
                let from_theirs = out.path().join("from-theirs.gguf");
                merge(&theirs).unwrap().plan.run(&from_theirs, &RunOptions::default(), &()).unwrap();
                let same = same_shard(&fs::read(model).unwrap(), &fs::read(&from_theirs).unwrap(), &mut n_ones);
                assert!(same || split.notes_layout, "{theirs} of {model}");
                n_same += 1;
            }
        }
    }
    assert!(n_same > 120 && n_refused < n_same / 3 && n_ones < n_same / 4, "{n_same} {n_refused} {n_ones}");
}

/// Whether files are equal, except for trailing dimensions of 1, which ggml drops when it reads a file.
fn same_shard(ours: &[u8], theirs: &[u8], n_ones: &mut u64) -> bool {
    if ours == theirs {
        return true;
    }
    let [a, b] = [ours, theirs].map(|bytes| Gguf::parse(bytes).unwrap());
    let without_ones = |gguf: &Gguf<'_>| {
        let mut head = Head::from(gguf);
        for shape in head.tensors.iter_mut().map(|t| &mut t.shape) {
            while shape.len() > 1 && shape.last() == Some(&1) {
                shape.pop();
            }
        }
        head.encode().unwrap()
    };
    let data = |bytes: &[u8], gguf: &Gguf<'_>| bytes.get(gguf.data_offset() as usize..).unwrap_or_default().to_vec();
    let same = without_ones(&a) == without_ones(&b) && data(ours, &a) == data(theirs, &b);
    *n_ones += u64::from(same);
    same
}

fn what_was_split_runs_in_llama_cpp() {
    let peers = Peers::get();
    let dir = folder();
    let model = peers.data("glossary-bf16.gguf");
    let expected = peers.ask(&["generate", model.to_str().unwrap(), "oak:", "-n", "16"]);
    for (i, limit) in [Limit::Tensors(n(5)), Limit::FileBytes(n(1_200_000))].into_iter().enumerate() {
        for first in [false, true] {
            let prefix = dir.path().join(format!("s{i}{first}"));
            let plan = split(&model, &SplitOptions::new(limit).no_tensor_first(first)).unwrap().plan;
            let paths = plan.run(&prefix, &RunOptions::default(), &()).unwrap().paths;
            assert_eq!(peers.ask(&["generate", paths[0].to_str().unwrap(), "oak:", "-n", "16"]), expected);
        }
    }
    // With a record in the first shard.
    let odd = dir.path().join("odd.gguf");
    let mut bytes = fs::read(&model).unwrap();
    bytes.extend([0; 40]);
    fs::write(&odd, bytes).unwrap();
    let split = split(&odd, &SplitOptions::new(Limit::Tensors(n(9)))).unwrap();
    assert!(split.notes_layout);
    let paths = split.plan.run(dir.path().join("odd"), &RunOptions::default(), &()).unwrap().paths;
    assert_eq!(peers.ask(&["generate", paths[0].to_str().unwrap(), "oak:", "-n", "16"]), expected);
}

/// The lines of a manifest.
fn manifest(model: &Path, algorithms: &[Algorithm], no_tensors: bool) -> String {
    let file = ModelFile::open(model).unwrap();
    let options = HashOptions::new(algorithms).no_tensors(no_tensors);
    let hashes = hash(std::slice::from_ref(&file), &options, &()).unwrap();
    let mut lines = String::new();
    for tensor in hashes.tensors() {
        for (algorithm, hash) in &tensor.hashes {
            lines += &format!("{algorithm:8}  {hash}  {}:{}\n", model.display(), String::from_utf8_lossy(tensor.name));
        }
    }
    for (algorithm, hash) in &hashes.model {
        lines += &format!("{algorithm:8}  {hash}  {}\n", model.display());
    }
    lines
}

fn hashes_are_those_of_llama_gguf_hash() {
    let peers = Peers::get();
    let dir = folder();
    let program = peers.build(Program::Hash, dir.path());
    use Algorithm::{Sha1, Sha256, Uuid, Xxh64};
    let cases: &[(&[&str], &[Algorithm], bool)] = &[
        (&["--all", "--uuid"], &[Xxh64, Sha1, Sha256, Uuid], false),
        (&[], &[Xxh64], false),
        (&["--sha256", "--no-layer"], &[Sha256], true),
    ];
    for (i, model) in references(&peers).iter().enumerate() {
        for (args, algorithms, no_tensors) in cases.iter().take(if i < 3 { 3 } else { 1 }) {
            let args: Vec<&str> = args.iter().copied().chain([model.to_str().unwrap()]).collect();
            let output = command(&program, &args);
            assert!(output.status.success(), "{}", said(&output));
            let ours = manifest(model, algorithms, *no_tensors);
            assert!(ours.as_bytes() == output.stdout, "{}", model.display());
            // Each program reads the other's manifest.
            Manifest::parse(&ours, model).unwrap();
        }
    }
    let model = peers.data("glossary-bf16.gguf");
    let path = dir.path().join("manifest");
    fs::write(&path, manifest(&model, &[Sha256], false)).unwrap();
    let check = command(&program, &["--check", path.to_str().unwrap(), model.to_str().unwrap()]);
    assert!(check.status.success() && said(&check).contains("Success"), "{}", said(&check));
}

/// gguf-py's script changes the byte order of its supported types, in place.
fn byte_orders_are_those_of_gguf_py() {
    let peers = Peers::get();
    let dir = folder();
    let script = gguf_test::peers::peers().join("llama.cpp/gguf-py/gguf/scripts/gguf_convert_endian.py");
    let data = peers.data("hf/ref");
    let mut seen = 0;
    for entry in fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let small = fs::metadata(&path).unwrap().len() < 1_500_000;
        let types = ["f32", "f16", "bf16", "q8_0"].iter().any(|ty| name.ends_with(&format!("-{ty}.gguf")));
        if !small || !types || name.contains("bigendian") || seen == 12 {
            continue;
        }
        let theirs = dir.path().join("theirs.gguf");
        let _ = fs::remove_file(&theirs);
        fs::write(&theirs, fs::read(&path).unwrap()).unwrap();
        let mut python = peers.python(&script);
        python.args([theirs.to_str().unwrap(), "big"]).stdin(std::process::Stdio::piped());
        python.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = python.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"YES\n").unwrap();
        if !child.wait().unwrap().success() {
            continue;
        }
        let ours = dir.path().join(format!("ours-{seen}.gguf"));
        gguf_edit::rewrite::swap(&path, None).unwrap().run(&ours, &RunOptions::default(), &()).unwrap();
        assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap(), "{name}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

const NUMPY: &str = r#"
import sys, numpy as np
from gguf import GGUFReader, dequantize
tensor = {t.name: t for t in GGUFReader(sys.argv[1]).tensors}[sys.argv[2]]
array = np.load(sys.argv[3])
expected = dequantize(tensor.data, tensor.tensor_type) if tensor.tensor_type.name not in ("F16", "I32") else tensor.data
assert array.shape == expected.shape and array.dtype == expected.dtype, (array.shape, array.dtype, expected.shape, expected.dtype)
assert (array.view(np.uint8) == expected.view(np.uint8)).all()
"#;

fn arrays_are_read_by_numpy() {
    let peers = Peers::get();
    let dir = folder();
    let script = dir.path().join("compare.py");
    fs::write(&script, NUMPY).unwrap();
    let exactly = |pattern: &str, name: Str<'_>| name == *pattern;
    let mut seen = std::collections::BTreeSet::new();
    for model in references(&peers) {
        let file = ModelFile::open(&model).unwrap();
        for tensor in file.tensors() {
            let ty = tensor.ty();
            if seen.contains(&ty) || tensor.n_bytes().unwrap() > 4 << 20 {
                continue;
            }
            seen.insert(ty);
            let name = tensor.name().to_string();
            let npy = dir.path().join(format!("{ty}.npy"));
            let chosen = extract(&model, std::slice::from_ref(&name), exactly, Format::Npy, Values::AsStored).unwrap();
            chosen.run(&npy, false, None, &()).unwrap();
            let output = peers.python(&script).args([model.as_path(), Path::new(&name), &npy]).output().unwrap();
            assert!(output.status.success(), "{ty} {}: {}", model.display(), said(&output));
        }
    }
    assert!(seen.len() >= 5, "{seen:?}");
}

gguf_test::tests! {
    [Peers, Shared] shards_are_those_of_llama_gguf_split,
        what_was_split_runs_in_llama_cpp,
        hashes_are_those_of_llama_gguf_hash,
        byte_orders_are_those_of_gguf_py,
        arrays_are_read_by_numpy;
}
