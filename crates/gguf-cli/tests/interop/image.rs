//! Image models: the same bytes as ComfyUI-GGUF's converter, and loading in ComfyUI-GGUF, InvokeAI and diffusers.
//!
//! Requires the sources of all three in the directory `image-loaders` of `GGUF_PEERS`, and PyTorch; see CONTRIBUTING.md.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::text;
use gguf_test::peers::{self, Peers};
use gguf_test::program::gguf;

/// Runs the peer; returns its output.
fn peer(mode: &str, args: &[String]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image_peer.py");
    let mut peer = Peers::get().python(&script);
    peer.arg(peers::image_loaders().expect("the loaders")).arg(mode).args(args);
    let output = peer.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `gguf` with the last path as output.
fn run(command: &str, paths: [&Path; 2], options: &[&str]) {
    let mut args = vec![command, text(paths[0])];
    if command == "convert" {
        args.push("-o");
    }
    args.push(text(paths[1]));
    args.extend(options);
    gguf(&args).exits(0);
}

fn conversions_have_the_same_bytes_and_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let cases = peer("make", &[dir.path().display().to_string()]);
    let (mut failures, mut pairs, mut n_same) = (Vec::new(), Vec::new(), 0);
    for line in cases.lines() {
        let name = line.split(' ').next().unwrap();
        let file = |end: &str| dir.path().join(format!("{name}{end}"));
        let (source, ours) = (file(".safetensors"), file("-ours.gguf"));
        run("convert", [&source, &ours], &[]);
        if !line.ends_with(" own") {
            n_same += 1;
            if fs::read(&ours).unwrap() != fs::read(file(".gguf")).unwrap() {
                failures.push(format!("{name}: other bytes"));
            }
        }
        // Prefixed names, omitted tensors, and a model that ComfyUI-GGUF cannot load.
        if ["flux-prefix", "flux-net", "cosmos", "scalar"].contains(&name) {
            continue;
        }
        let mut files = vec![ours];
        for ty in ["f32", "f16", "bf16"] {
            files.push(file(&format!("-as-{ty}.gguf")));
            run("convert", [&source, &files[files.len() - 1]], &["--type", ty]);
        }
        pairs.extend(files.iter().map(|file| format!("{}={}", source.display(), file.display())));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_same >= 20, "{cases}");
    let n_tensors: usize = peer("check", &pairs).trim().parse().unwrap();
    assert!(n_tensors > 1000, "{n_tensors}");
}

/// Quantized in one pass or two, with the same bytes; loaded with the shapes of the checkpoint, and values close to the original.
fn quantized_models_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    peer("make", &[dir.path().display().to_string()]);
    let mut pairs = Vec::new();
    for name in ["flux", "sdxl", "wan", "wan-5d", "hyvid", "qwen_image"] {
        let file = |end: &str| -> PathBuf { dir.path().join(format!("{name}{end}")) };
        let (source, float) = (file(".safetensors"), file("-float.gguf"));
        run("convert", [&source, &float], &[]);
        for ty in ["Q8_0", "Q4_0", "Q5_0", "Q2_K", "Q3_K_M", "Q4_K_S", "Q4_K_M", "Q5_K_M", "Q6_K"] {
            let (one, two) = (file(&format!("-{ty}.gguf")), file("-two.gguf"));
            run("convert", [&source, &one], &["--type", ty]);
            run("quantize", [&float, &two], &[ty, "--force"]);
            assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap(), "{name} {ty}");
            pairs.push(format!("{}={}", source.display(), one.display()));
        }
    }
    let n_tensors: usize = peer("check", &pairs).trim().parse().unwrap();
    assert!(n_tensors > 500, "{n_tensors}");
}

gguf_test::tests! {
    [Shared, Peers, Torch, ImageLoaders] conversions_have_the_same_bytes_and_are_loaded, quantized_models_are_loaded;
}
