//! Quantizations that are divided among machines: the bytes are those of one, for every file type.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_format::keys::FILE_TYPES;
use gguf_pipeline::fleet::{FleetOptions, FleetPlan, MemoryPlace, Place};
use gguf_pipeline::plan::Plan;
use gguf_pipeline::{Draft, Importance, MemorySink, RunOptions};
use gguf_quantize::imatrix::ImatrixFile;
use gguf_quantize::mix::Target;
use gguf_quantize::{QuantizeOptions, plan};
use gguf_test::peers;

/// Part sizes and numbers of workers.
const PARTS: [(u64, usize); 6] =
    [(5 << 20, 1), ((8 << 20) + 1, 2), (256 << 20, 3), (100_003, 16), (65_536, 3), (999_999, 2)];

fn divided(plan: &Plan, importance: Option<&Arc<dyn Importance>>, part: u64, n_workers: usize) -> Vec<u8> {
    let place = MemoryPlace::default();
    let places: [Box<dyn Place>; 1] = [Box::new(place.clone())];
    let mut options = FleetOptions::default();
    options.part_bytes = Some(part);
    let new = FleetPlan::divide(plan, &["out.gguf".into()], options).unwrap();
    let plan = FleetPlan::parse(&new.begin(&places).unwrap().to_json().unwrap()).unwrap();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..n_workers {
            scope.spawn(|| {
                let open = |path: &Path| Ok(Arc::new(std::fs::File::open(path)?) as _);
                let worker = plan.worker(Arc::new(open), importance.cloned());
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= plan.n_parts() {
                        break;
                    }
                    let options = RunOptions::default().threads(NonZeroUsize::new(1));
                    worker.make(index, &places, &options, &()).unwrap();
                }
            });
        }
    });
    plan.commit(&places, None, &()).unwrap();
    place.into_output().unwrap()
}

/// Without and with a matrix.
fn divided_file_types_have_the_bytes_of_one_machine() {
    let draft = Draft::copy_of(peers::data("glossary-bf16.gguf")).unwrap();
    let matrix = Arc::new(ImatrixFile::open(peers::data("glossary-imatrix.gguf")).unwrap());
    let mut n = 0;
    for (i, row) in FILE_TYPES.iter().filter(|row| !row.removed).enumerate() {
        let Ok(target) = Target::parse(row.name) else { continue };
        for matrix in [None, Some(Arc::clone(&matrix))] {
            let importance = matrix.clone().map(|matrix| matrix as Arc<dyn Importance>);
            // Some types need a matrix.
            let Ok(planned) = plan(draft.clone(), matrix, &QuantizeOptions::default(), &target) else { continue };
            let mut sink = MemorySink::new();
            planned.plan.run_to(&mut sink, &RunOptions::default(), &()).unwrap();
            let expected = sink.into_outputs().remove(0);
            for k in 0..3 {
                let (part, n_workers) = PARTS[(i + 2 * k) % PARTS.len()];
                let found = divided(&planned.plan, importance.as_ref(), part, n_workers);
                assert!(found == expected, "{}, parts of {part} bytes, {n_workers} workers", row.name);
                n += 1;
            }
        }
    }
    println!("{n} divided quantizations");
    assert!(n >= 180, "only {n}");
}

gguf_test::tests! {
    [Shared] divided_file_types_have_the_bytes_of_one_machine;
}
