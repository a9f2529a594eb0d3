//! The report of a quantization, from a checkpoint and from its conversion.

use std::path::Path;

use gguf_hf::OutType;
use gguf_pipeline::plan::TensorPlan;
use gguf_pipeline::report::{Report, TensorReport};
use gguf_pipeline::{Draft, RunOptions};
use gguf_quantize::QuantizeOptions;
use gguf_quantize::mix::Target;

/// A conversion permutes rows; the report uses their positions in the output.
#[test]
fn the_report_is_the_same_from_a_checkpoint_and_from_its_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    let (model, out) = (dir.path().join("model.gguf"), dir.path().join("out.gguf"));
    gguf_hf::convert(&example, &model, &Default::default(), &RunOptions::default(), &()).unwrap();
    let report = |draft: Draft| {
        let target = Target::parse("Q8_0").unwrap();
        let plan = gguf_quantize::plan(draft, None, &QuantizeOptions::default(), &target).unwrap().plan;
        let options = RunOptions::default().force(true).measure(true);
        let report = plan.run(&out, &options, &()).unwrap().report.unwrap();
        (plan.into_draft().tensors, report)
    };
    let expected = report(Draft::copy_of(&model).unwrap());
    let lossless = gguf_hf::Options::default().ty(OutType::Lossless);
    let found = report(gguf_hf::plan(&example, &lossless).unwrap().plan.into_draft());
    let all = |(tensors, report): &(Vec<TensorPlan>, Report)| {
        let of = |t: &TensorReport| (tensors[t.index].name.clone(), tensors[t.index].from, t.error.figures());
        report.tensors.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(all(&found), all(&expected));
    assert_eq!(found.1.tensors.len(), 22);
}
