//! Edited files in real llama.cpp. Needs the folder of the peers in `GGUF_PEERS` and the folder of shared data and tools in
//! `GGUF_SHARED`; without them the tests are ignored.

use std::fs;
use std::path::Path;

use gguf_edit::{Edit, EditOptions, EditPlan, Way};
use gguf_format::{Head, TensorInfo};
use gguf_io::ModelFile;
use gguf_io::in_place::space;
use gguf_test::peers::Peers;

fn set(key: &str, value: &str) -> Edit {
    Edit::Set { key: key.into(), value: value.into() }
}

/// The example model with feed-forward matrices so wide that it has 10 GB: a sparse file.
fn write_large(from: &Path, to: &Path) {
    const FFN: u64 = 2_200_000;
    let model = ModelFile::open(from).unwrap();
    let mut head = Head::from_gguf(model.gguf());
    let ffn = head.get("llama.feed_forward_length").unwrap().as_integer().unwrap() as u64;
    head.set("llama.feed_forward_length", FFN as u32);
    for tensor in &mut head.tensors {
        let shape = tensor.shape.iter().map(|&n| if n == ffn { FFN } else { n }).collect::<Vec<u64>>();
        *tensor = TensorInfo::new(tensor.name.clone(), shape, tensor.ty);
    }
    let layout = head.layout().unwrap();
    fs::write(to, layout.padded_head().unwrap()).unwrap();
    assert!(layout.file_bytes() > 10_000_000_000);
    fs::File::options().write(true).open(to).unwrap().set_len(layout.file_bytes()).unwrap();
}

#[cfg(unix)]
fn blocks(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap())
}

#[cfg(not(unix))]
fn blocks(_: &Path) -> u64 {
    0
}

fn a_file_of_10_gb_is_edited_in_place_and_loads() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.gguf");
    write_large(&peers.data("glossary-bf16.gguf"), &path);
    let options = EditOptions::default().only_in_place(true);
    let edits: &[(&str, fn(Way) -> bool)] = &[
        ("Gloss", |way| way == Way::Room),
        ("A name that is longer than there is room for, so that bytes are inserted", |way| {
            matches!(way, Way::Insert { .. })
        }),
        ("And once more, into the room that is left of the inserted bytes, which is enough for this", |way| {
            way == Way::Room
        }),
    ];
    for (name, is_way) in edits {
        if is_way(Way::Insert { bytes: 0 }) && !space::can_insert(&path) {
            continue;
        }
        let plan = EditPlan::new(&path, &[set("general.name", name)], &options).unwrap();
        assert!(is_way(plan.way()), "{:?}", plan.way());
        plan.run(&()).unwrap();
        assert_eq!(ModelFile::open(&path).unwrap().gguf().get_as::<&str>("general.name"), Ok(*name));
        assert!(blocks(&path) * 512 < 1 << 20, "data was written");
    }
    // Once, for it reads all 10 GB: after an edit in room, one with bytes inserted, and another in the room of those.
    assert!(peers.ask(&["load", path.to_str().unwrap()]).contains("\"loaded\": true"));
}

/// Every way gives a model that computes what it did.
fn edited_models_compute_the_same() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let reference = peers.data("glossary-bf16.gguf");
    let ask = |path: &Path| peers.ask(&["generate", path.to_str().unwrap(), "oak:", "-n", "16"]);
    let expected = ask(&reference);
    let copy = dir.path().join("m.gguf");
    fs::write(&copy, fs::read(&reference).unwrap()).unwrap();
    let long = "x".repeat(9000);
    let edits: Vec<(Vec<Edit>, EditOptions)> = vec![
        (vec![set("general.name", "a")], EditOptions::default()),
        (vec![set("general.description", &long)], EditOptions::default()),
        (vec![Edit::Unset { key: "general.description".into() }], EditOptions::default()),
        (vec![set("general.description", &long), set("general.name", "b")], EditOptions::default().reserve(70_000)),
        (vec![], EditOptions::default().rewrite(true)),
        (vec![Edit::RenameKey { from: "general.name".into(), to: "general.basename".into() }], EditOptions::default()),
    ];
    for (edits, options) in edits {
        let way = EditPlan::new(&copy, &edits, &options).unwrap().run(&()).unwrap();
        assert_eq!(ask(&copy), expected, "{way:?}");
    }
}

gguf_test::tests! {
    [Peers, Shared] a_file_of_10_gb_is_edited_in_place_and_loads,
        edited_models_compute_the_same;
}
