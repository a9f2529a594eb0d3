//! Conversions and quantizations over one source.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use gguf_hf::{Options, OutType};
use gguf_pipeline::{Plan, RunOptions, run_all};
use gguf_quantize::QuantizeOptions;
use gguf_quantize::mix::Target;
use gguf_test::files::{folder, glossary};

/// Conversions and quantizations order tensors differently, and have different rounding rules.
#[test]
fn conversions_and_quantizations_run_together() {
    let dir = folder();
    let convert = |ty| gguf_hf::plan(glossary(), &Options::default().ty(ty)).unwrap().plan;
    let mut all = vec![(convert(OutType::BF16), dir.path().join("bf16"))];
    let source = all[0].0.to_draft().source;
    for (ty, name) in [(OutType::F32, "f32"), (OutType::Q8_0, "q8_0"), (OutType::Lossless, "q4")] {
        let mut draft = convert(ty).into_draft();
        draft.source = source.clone();
        let target = Target::parse("Q4_K_M").unwrap();
        let plan = match name {
            "q4" => gguf_quantize::plan(draft, None, &QuantizeOptions::default(), &target).unwrap().plan,
            _ => draft.lay_out().unwrap(),
        };
        all.push((plan, dir.path().join(name)));
    }
    let options = RunOptions::default().threads(NonZeroUsize::new(2));
    let plans: Vec<(&Plan, &Path)> = all.iter().map(|(plan, out)| (plan, out.as_path())).collect();
    run_all(&plans, &options, &()).unwrap();
    for (plan, out) in &all {
        let own = out.with_extension("own");
        plan.run(&own, &options, &()).unwrap();
        assert!(fs::read(out).unwrap() == fs::read(own).unwrap(), "{}", out.display());
    }
}
