//! Generated checkpoints, compared with llama.cpp's converters: image and audio encoders, and PyTorch adapters.

use std::fs;
use std::path::Path;
use std::process::Command;

use gguf_hf::{Options, OutType, convert, plan};
use gguf_pipeline::RunOptions;
use gguf_test::peers::{self, Peers};

/// Small checkpoints of classes without a stored recipe, in three types.
fn encoders_have_the_bytes_of_the_reference() {
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/towers_peer.py");
    let mut peer = Peers::get().python(&script);
    let output = peer.arg(peers::peers().join("llama.cpp")).arg(out.path()).output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cases = String::from_utf8(output.stdout).unwrap();
    let mut failures = Vec::new();
    for case in cases.lines() {
        let (name, ty) = case.split_once(' ').unwrap();
        let ours = out.path().join("ours.gguf");
        let options = Options::default().projector(true).ty(OutType::from_name(ty).unwrap());
        let conversion = match plan(out.path().join(name), &options) {
            Ok(conversion) => conversion,
            Err(e) => {
                failures.push(format!("{case}: {e}"));
                continue;
            }
        };
        failures.extend(conversion.warnings.iter().map(|warning| format!("{case}: {warning}")));
        conversion.plan.run(&ours, &RunOptions::default().force(true), &()).unwrap();
        if fs::read(&ours).unwrap() != fs::read(out.path().join(format!("{name}-{ty}.gguf"))).unwrap() {
            failures.push(format!("{case}: other bytes"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(cases.lines().count() >= 120, "{cases}");
}

/// Writes the stored adapter named by the first argument with `torch.save` into the folder named by the second, with its factors in the
/// order B, A.
const SAVE: &str = r#"
import os, shutil, sys, torch
from safetensors.torch import load_file
stored, folder = sys.argv[1:]
os.makedirs(folder)
for name in os.listdir(stored):
    if not name.endswith(".safetensors"): shutil.copy(os.path.join(stored, name), folder)
tensors = load_file(os.path.join(stored, "adapter_model.safetensors"))
torch.save(dict(sorted(tensors.items(), reverse=True)), os.path.join(folder, "adapter_model.bin"))
"#;

fn adapters_of_pytorch_have_the_bytes_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("save.py");
    fs::write(&script, SAVE).unwrap();
    for (name, base) in [("lora-llama-f32", "llama-f32"), ("lora-mixtral", "mixtral")] {
        let (adapter, base) = (dir.path().join(name), peers::data("hf/models").join(base));
        let run = |command: &mut Command| {
            let output = command.output().expect("the peers' Python runs");
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run(Peers::get().python(&script).arg(peers::data("hf/models").join(name)).arg(&adapter));
        for ty in ["f32", "q8_0"] {
            let (ours, theirs) = (dir.path().join(format!("ours-{ty}")), dir.path().join(format!("theirs-{ty}")));
            let mut converter = Peers::get().python(&peers::peers().join("llama.cpp/convert_lora_to_gguf.py"));
            converter.args(["--outtype", ty, "--base"]).arg(&base).arg("--outfile").arg(&theirs).arg(&adapter);
            run(&mut converter);
            let options = Options::default().base(Some(base.clone())).ty(OutType::from_name(ty).unwrap());
            convert(&adapter, &ours, &options, &RunOptions::default().force(true), &()).unwrap();
            assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap(), "{name} {ty}: other bytes");
        }
    }
}

gguf_test::tests! {
    [Shared, Peers, Torch] encoders_have_the_bytes_of_the_reference, adapters_of_pytorch_have_the_bytes_of_the_reference;
}
