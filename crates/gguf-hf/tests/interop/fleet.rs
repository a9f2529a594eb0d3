//! Conversions that are divided among machines have the bytes of llama.cpp's converter.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use gguf_hf::plan;
use gguf_pipeline::RunOptions;
use gguf_pipeline::fleet::{FleetError, FleetOptions, FleetPlan, MemoryPlace, Place};
use gguf_test::peers;
use serde_json::Value;

use crate::convert::{DIFFERENT, hex, options};

/// Checkpoints with packed weights, or tensors that PyTorch has stored with strides.
const REFUSED: &[&str] = &["gptoss-mxfp4", "llama-fp8-block", "llama-gptq4"];

fn open(path: &Path) -> std::io::Result<Arc<dyn gguf_io::ReadAt>> {
    Ok(Arc::new(fs::File::open(path)?))
}

fn divided_conversions_have_the_bytes_of_the_reference() {
    let hf = peers::data("hf");
    let manifest: Value = serde_json::from_slice(&fs::read(hf.join("MANIFEST.json")).unwrap()).unwrap();
    let (mut n, mut failures, mut refused) = (0, Vec::new(), std::collections::BTreeSet::new());
    for job in manifest["jobs"].as_array().unwrap() {
        let (name, tag) = (job["name"].as_str().unwrap(), job["tag"].as_str().unwrap());
        let outputs = job["outputs"].as_array().unwrap();
        if job["exit"] != 0 || DIFFERENT.contains(&tag) {
            continue;
        }
        let (Some(options), [recorded]) = (options(job), outputs.as_slice()) else { continue };
        let Ok(conversion) = plan(hf.join("models").join(name), &options) else { continue };
        let bytes = conversion.plan.file_bytes();
        for part in [bytes / 9 + 1, 65_537.max(bytes / 100), 5 << 20] {
            let mut fleet = FleetOptions::default();
            fleet.part_bytes = Some(part);
            let new = match FleetPlan::divide(&conversion.plan, &["out.gguf".into()], fleet) {
                Ok(new) => new,
                Err(FleetError::Source { .. }) => {
                    refused.insert(name.to_owned());
                    break;
                }
                Err(e) => panic!("{tag}: {e}"),
            };
            let place = MemoryPlace::default();
            let places: [Box<dyn Place>; 1] = [Box::new(place.clone())];
            let divided = FleetPlan::parse(&new.begin(&places).unwrap().to_json().unwrap()).unwrap();
            let worker = divided.worker(Arc::new(open), None);
            let run = RunOptions::default().threads(NonZeroUsize::new(2));
            for index in (0..divided.n_parts()).rev() {
                worker.make(index, &places, &run, &()).unwrap();
            }
            divided.commit(&places, None, &()).unwrap();
            if hex(&place.into_output().unwrap()) != recorded["sha256"].as_str().unwrap() {
                failures.push(format!("{tag}: other bytes in parts of {part}"));
            }
            n += 1;
        }
    }
    println!("{n} divided conversions");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(refused.iter().map(String::as_str).collect::<Vec<_>>(), REFUSED);
    assert!(n >= 390, "only {n}");
}

gguf_test::tests! {
    [Shared] divided_conversions_have_the_bytes_of_the_reference;
}
