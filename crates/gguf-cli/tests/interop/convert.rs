//! Loads and runs converted models in real llama.cpp. Requires the directory of the peers in `GGUF_PEERS` (llama.cpp's libraries and
//! bindings) and the directory of shared data and tools in `GGUF_SHARED`; otherwise the tests are ignored.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gguf_format::{Gguf, Head};
use gguf_io::Writer;
use gguf_test::peers::Peers;

fn gguf(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gguf")).args(args).output().expect("gguf runs")
}

fn example() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary").to_str().expect("UTF-8").to_owned()
}

fn the_converted_example_runs_in_llama_cpp() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let reference = peers.data("glossary-bf16.gguf");
    let reference = reference.to_str().unwrap();
    let generate = |model: &str, prompt: &str| peers.ask(&["generate", model, prompt, "-n", "24"]);
    let prompts = ["oak:", "music:", "river: a"];
    let theirs = prompts.map(|prompt| generate(reference, prompt));
    for ty in ["auto", "bf16", "f16", "f32"] {
        let out = dir.path().join(format!("{ty}.gguf"));
        let out = out.to_str().unwrap();
        let run = gguf(&["convert", &example(), "-o", out, "--type", ty]);
        assert!(run.status.success(), "{ty}: {}", String::from_utf8_lossy(&run.stderr));
        let check = gguf(&["check", out]);
        assert!(check.status.success(), "{ty}: {}", String::from_utf8_lossy(&check.stdout));
        if ["auto", "bf16"].contains(&ty) {
            assert!(
                std::fs::read(out).unwrap() == std::fs::read(reference).unwrap(),
                "{ty} differs from the reference"
            );
            continue;
        }
        for (prompt, theirs) in prompts.iter().zip(&theirs) {
            let ours = generate(out, prompt);
            assert_eq!(ours, *theirs, "{ty} {prompt}");
            assert!(ours.contains("\"text\""), "{ours}");
        }
    }
}

/// Writes a model in shards with given numbers of tensors, the last ones first.
fn split(from: &Path, prefix: &Path, sizes: &[usize]) -> PathBuf {
    let bytes = std::fs::read(from).unwrap();
    let gguf = Gguf::parse(bytes.as_slice()).unwrap();
    let mut tensors: Vec<_> = gguf.tensors().collect();
    tensors.reverse();
    let mut rest = tensors.as_slice();
    let mut path = |no: usize| {
        let (now, later) = rest.split_at(sizes[no]);
        rest = later;
        let mut head = Head { kvs: if no == 0 { Head::from_gguf(&gguf).kvs } else { Vec::new() }, ..Head::default() };
        head.set("split.no", no as u16);
        head.set("split.count", sizes.len() as u16);
        head.set("split.tensors.count", tensors.len() as i32);
        head.tensors = now.iter().map(|t| t.to_owned()).collect();
        let data = now.iter().map(|t| {
            let range = gguf.tensor_range(t).unwrap();
            &bytes[range.start as usize..range.end as usize]
        });
        let path = format!("{}-{:05}-of-{:05}.gguf", prefix.display(), no + 1, sizes.len());
        std::fs::write(&path, Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
        path
    };
    let paths: Vec<String> = (0..sizes.len()).map(&mut path).collect();
    paths[0].clone().into()
}

fn shards_that_are_kept_are_those_of_llama_cpp() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let data = peers.data("");
    let reference = |name: &str| data.join(format!("hf/ref/Tiny-Llama-150K-Instruct-v0.2-hf-split-{name}.gguf"));
    let glossary = data.join("glossary-bf16.gguf");
    let cases = [
        (split(&glossary, &dir.path().join("a"), &[10, 1, 18]), ["Q4_K_M", "15"]),
        (split(&glossary, &dir.path().join("b"), &[0, 22, 7]), ["Q3_K_M", "12"]),
        (glossary, ["Q5_K_M", "17"]),
        (reference("notensorfirst-q8_0-00001-of-00004"), ["Q4_0", "2"]),
        (reference("size100K-q8_0-00001-of-00003"), ["IQ4_NL", "25"]),
        (reference("tensors8-q8_0-00001-of-00003"), ["F16", "1"]),
        (reference("tensors8-q8_0-00001-of-00003"), ["Q8_0", "7"]),
    ];
    for (from, [name, number]) in &cases {
        let out = tempfile::tempdir().unwrap();
        let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
        let from = from.to_str().unwrap();
        let run = gguf(&["quantize", from, &path("ours"), name, "--keep-split", "--allow-requantize", "-q"]);
        assert!(run.status.success(), "{from}: {}", String::from_utf8_lossy(&run.stderr));
        peers.ask(&["llama-quantize", from, &path("theirs"), number, "keep_split=1", "allow_requantize=1"]);
        let ours = String::from_utf8(run.stdout).unwrap();
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 2 * ours.lines().count(), "{from}");
        for ours in ours.lines() {
            let theirs = ours.replace("/ours-", "/theirs-");
            assert!(std::fs::read(ours).unwrap() == std::fs::read(&theirs).unwrap(), "{from} {name}: {ours}");
        }
    }
}

fn what_llama_cpp_wrote_has_no_errors() {
    let peers = Peers::get();
    let loads = std::fs::read(peers.data("hf/loads.json")).expect("what llama.cpp loads");
    let loads: serde_json::Value = serde_json::from_slice(&loads).expect("JSON");
    // Files are named after the case and the type.
    let refused = |path: &Path| {
        let stem = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let case = stem.rsplit_once('-').map_or(stem, |(case, _)| case);
        loads[case]["runs_in_llama_cpp"] == false
    };
    let mut seen = 0;
    let mut bad = Vec::new();
    for entry in std::fs::read_dir(peers.data("hf/ref")).expect("reference files") {
        let path = entry.unwrap().path();
        // The converter does not swap the halves of packed types in big-endian files.
        if path.extension().is_none_or(|e| e != "gguf") || path.to_string_lossy().contains("bigendian") {
            continue;
        }
        seen += 1;
        let check = gguf(&["check", "--data", "--quiet", path.to_str().unwrap()]);
        // Some have fewer rows of embeddings than tokens, and llama.cpp rejects them.
        if !check.status.success() && !refused(&path) {
            bad.push(format!("{}: {}", path.display(), String::from_utf8_lossy(&check.stdout)));
        }
    }
    assert!(seen >= 50, "only {seen} reference files");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

gguf_test::tests! {
    [Peers, Shared] the_converted_example_runs_in_llama_cpp,
        shards_that_are_kept_are_those_of_llama_cpp,
        what_llama_cpp_wrote_has_no_errors;
}
