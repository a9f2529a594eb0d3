//! Drafts that are laid out: offsets, shards, names of files.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{GgmlType, Gguf, Head, Layout};
use gguf_pipeline::{Draft, Error, MemorySink, Plan, RunOptions};
use gguf_test::files::folder;

use crate::common::{matrices, typed, write_model};

fn draft() -> Draft {
    let dir = folder();
    Draft::copy_of(matrices(dir.path())).unwrap()
}

fn outputs(plan: &Plan) -> Vec<Vec<u8>> {
    let mut sink = MemorySink::new();
    plan.run_to(&mut sink, &RunOptions::default(), &()).unwrap();
    sink.into_outputs()
}

/// The keys that begin with `split.`.
fn split_keys(bytes: &[u8]) -> Vec<String> {
    let gguf = Gguf::parse(bytes).unwrap();
    gguf.kvs().map(|kv| kv.key.to_string()).filter(|key| key.starts_with("split.")).collect()
}

#[test]
fn sizes_are_known_before_the_first_byte() {
    for ty in [GgmlType::F16, GgmlType::Q4_K, GgmlType::IQ4_NL] {
        let plan = typed(draft(), ty).lay_out().unwrap();
        let [file] = plan.files() else { panic!("{:?}", plan.files()) };
        let [output] = &outputs(&plan)[..] else { panic!("one output") };
        let gguf = Gguf::parse(output.as_slice()).unwrap();
        assert_eq!((plan.file_bytes(), file.file_bytes()), (output.len() as u64, output.len() as u64));
        assert_eq!((file.tensors(), file.head_bytes()), (0..10, gguf.head_bytes()));
        assert_eq!(plan.n_elements(), 10 * 256 * 9);
        let bytes: Vec<u64> = plan.tensors().iter().map(|tensor| tensor.n_bytes()).collect();
        assert_eq!(gguf.tensors().map(|tensor| tensor.n_bytes().unwrap()).collect::<Vec<_>>(), bytes);
    }
}

#[test]
fn a_vocabulary_ends_with_its_head() {
    let mut draft = draft();
    draft.tensors.clear();
    draft.head.set("general.name", "x");
    let whole = draft.clone().lay_out().unwrap();
    draft.is_vocab_only = true;
    let vocabulary = draft.lay_out().unwrap();
    let head_bytes = vocabulary.files()[0].head_bytes();
    assert!(!head_bytes.is_multiple_of(32));
    assert_eq!((vocabulary.file_bytes(), whole.file_bytes()), (head_bytes, head_bytes.next_multiple_of(32)));
    assert_eq!(outputs(&vocabulary)[0], outputs(&whole)[0][..head_bytes as usize]);
}

#[test]
fn a_given_layout_keeps_its_offsets() {
    let dir = folder();
    let path = dir.path().join("in.gguf");
    write_model(&path, &[("a.weight", &[8, 4]), ("b.weight", &[8, 4])]);
    let bytes = fs::read(&path).unwrap();
    let mut head = Head::from_gguf(&Gguf::parse(bytes.as_slice()).unwrap());
    // A gap between the tensors.
    head.tensors[1].offset = 256;
    let other = head.encode_as_read().unwrap();
    let file_bytes = other.len().next_multiple_of(32) as u64 + 256 + 64;
    let layout = || Layout::of_file(&Gguf::parse(other.as_slice()).unwrap(), file_bytes).unwrap();
    let draft = Draft::copy_of(&path).unwrap();
    let plan = draft.clone().lay_out_as(layout()).unwrap();
    assert_eq!(plan.file_bytes(), file_bytes);
    let output = outputs(&plan).remove(0);
    let gguf = Gguf::parse(output.as_slice()).unwrap();
    let data = |gguf: &Gguf<'_>, bytes: &[u8], name: &str| {
        let range = gguf.tensor_range(&gguf.tensor(name).unwrap()).unwrap();
        bytes[range.start as usize..range.end as usize].to_vec()
    };
    assert_eq!(gguf.tensors().map(|tensor| tensor.offset).collect::<Vec<_>>(), [0, 256]);
    let original = Gguf::parse(bytes.as_slice()).unwrap();
    for name in ["a.weight", "b.weight"] {
        assert_eq!(data(&gguf, &output, name), data(&original, &bytes, name));
    }
    // The layout of other tensors.
    for draft in [typed(draft.clone(), GgmlType::F32), {
        let mut fewer = draft;
        fewer.tensors.pop();
        fewer
    }] {
        let refused = draft.lay_out_as(layout());
        assert!(matches!(refused, Err(Error::OtherLayout { .. })), "{refused:?}");
    }
}

#[test]
fn shards_have_the_keys_of_a_split() {
    let mut draft = draft();
    draft.tensors.iter_mut().enumerate().for_each(|(i, tensor)| tensor.file = u32::from(i >= 4) * 2);
    draft.is_split = true;
    // As the quantizer and as the splitter of llama.cpp order them.
    let quantized = outputs(&draft.clone().lay_out().unwrap());
    let split = outputs(&draft.clone().lay_out_as_shards().unwrap());
    assert_eq!((quantized.len(), split.len()), (3, 3));
    for (shard, n_tensors) in quantized.iter().zip([4, 0, 6]) {
        assert_eq!(split_keys(shard), ["split.no", "split.count", "split.tensors.count"]);
        assert_eq!(Gguf::parse(shard.as_slice()).unwrap().n_tensors(), n_tensors);
    }
    for shard in &split {
        assert_eq!(split_keys(shard), ["split.no", "split.tensors.count", "split.count"]);
    }
    // A single file has the keys only as a shard.
    draft.tensors.iter_mut().for_each(|tensor| tensor.file = 0);
    assert_eq!(split_keys(&outputs(&draft.clone().lay_out().unwrap())[0]), <[&str; 0]>::default());
    assert_eq!(split_keys(&outputs(&draft.clone().lay_out_as_shards().unwrap())[0]).len(), 3);
    // The count is a number of 16 bits.
    draft.tensors.last_mut().unwrap().file = 70_000;
    let refused = draft.lay_out();
    assert!(matches!(refused, Err(Error::TooManyShards { n_shards: 70_001 })), "{refused:?}");
}

#[test]
fn files_are_named_after_the_output() {
    let mut draft = draft();
    let plan = draft.clone().lay_out().unwrap();
    assert_eq!(plan.output_paths("dir/x"), [Path::new("dir/x")]);
    draft.tensors.last_mut().unwrap().file = 1;
    let shards = draft.lay_out_as_shards().unwrap();
    for (out, prefix) in [
        ("dir/x.gguf", "dir/x"),
        ("dir/x", "dir/x"),
        ("dir/x.y", "dir/x.y"),
        ("dir/x-00003-of-00005.gguf", "dir/x"),
        ("dir/x-00003-of-00002.gguf", "dir/x-00003-of-00002"),
    ] {
        let expected = ["1", "2"].map(|no| PathBuf::from(format!("{prefix}-0000{no}-of-00002.gguf")));
        assert_eq!(shards.output_paths(out), expected, "{out}");
    }
}

#[test]
fn a_draft_of_a_plan_compares_with_the_first_size() {
    let draft = draft();
    let input_bytes = draft.input_bytes.unwrap();
    let smaller = typed(draft.clone(), GgmlType::Q8_0).lay_out().unwrap();
    assert_eq!((smaller.input_bytes(), smaller.to_draft().input_bytes), (input_bytes, Some(input_bytes)));
    assert!(smaller.file_bytes() < input_bytes);
    // Inputs of another format have the size of the first output.
    let plan = Draft { input_bytes: None, ..draft }.lay_out().unwrap();
    let first = plan.file_bytes();
    assert_eq!(typed(plan.into_draft(), GgmlType::Q8_0).lay_out().unwrap().input_bytes(), first);
}
