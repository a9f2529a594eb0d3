//! End-to-end conversions of tiny generated checkpoints.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use gguf_format::{ByteOrder, GgmlType, Gguf};
use gguf_hf::{Error, Options, OutType, Warning, convert, plan};
use gguf_pipeline::plan::Reason;
use gguf_pipeline::range::{Extent, check_range};
use gguf_pipeline::{Error as PipelineError, Event, Progress, RunOptions, RunSummary};
use gguf_quants::float::f32_to_f16;
use gguf_test::checkpoint::*;

/// Converts with two threads, and overwrites existing output.
fn run(dir: &Path, out: &Path, options: &Options) -> Result<RunSummary, Error> {
    run_on(2, dir, out, options)
}

fn run_on(threads: usize, dir: &Path, out: &Path, options: &Options) -> Result<RunSummary, Error> {
    convert(dir, out, options, &RunOptions::default().threads(NonZeroUsize::new(threads)).force(true), &())
}

/// The number of tensors in a file.
fn n_tensors(file: &Path) -> u64 {
    Gguf::parse(fs::read(file).unwrap()).unwrap().n_tensors()
}

/// The data of a tensor of the output.
fn data(file: &[u8], name: &str) -> Vec<u8> {
    let gguf = Gguf::parse(file).unwrap();
    let t = gguf.tensors().find(|t| t.name == name).unwrap();
    let start = (gguf.data_offset() + t.offset) as usize;
    file[start..start + t.n_bytes().unwrap() as usize].to_vec()
}

fn halves(f32s: &[u8]) -> Vec<u8> {
    let (words, _) = f32s.as_chunks::<4>();
    words.iter().flat_map(|w| f32_to_f16(f32::from_le_bytes(*w)).to_le_bytes()).collect()
}

#[test]
fn every_tensor_arrives_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let out = dir.path().join("out.gguf");
    run(dir.path(), &out, &Options::default()).unwrap();
    assert_eq!(n_tensors(&out), 21);
    let planned = plan(dir.path(), &Options::default()).unwrap();
    assert_eq!(planned.ty, GgmlType::F16);
    let file = fs::read(&out).unwrap();
    assert_eq!(file.len() as u64, planned.plan.file_bytes());

    let source = |name: &str| {
        let list = llama_tensors();
        let i = list.iter().position(|(n, _)| n == name).unwrap();
        llama_data(i, &list[i].1)
    };
    assert_eq!(data(&file, "output.weight"), halves(&source("lm_head.weight")));
    assert_eq!(data(&file, "blk.1.ffn_down.weight"), halves(&source("model.layers.1.mlp.down_proj.weight")));
    assert_eq!(data(&file, "blk.0.attn_norm.weight"), source("model.layers.0.input_layernorm.weight"));
    // Row 2i + j of a head is row j * d/2 + i of the checkpoint.
    let (d, row) = ((HIDDEN / HEADS) as usize, 2 * HIDDEN as usize);
    let (q, from) = (data(&file, "blk.1.attn_q.weight"), halves(&source("model.layers.1.self_attn.q_proj.weight")));
    for h in 0..HEADS as usize {
        for (i, j) in (0..d / 2).flat_map(|i| [(i, 0), (i, 1)]) {
            let (to, at) = ((h * d + 2 * i + j) * row, (h * d + j * d / 2 + i) * row);
            assert_eq!(q[to..to + row], from[at..at + row], "head {h}, pair {i}, half {j}");
        }
    }
}

#[test]
fn one_file_and_parts_give_the_same_bytes_with_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (one, parts) = (dir.path().join("one"), dir.path().join("parts"));
    for d in [&one, &parts] {
        fs::create_dir(d).unwrap();
        write_small_files(d);
    }
    write_llama(&one);
    // The parts follow name order, so the output order is the same.
    let mut list: Vec<_> = llama_tensors().into_iter().enumerate().collect();
    list.sort_by(|a, b| a.1.0.cmp(&b.1.0));
    let mut index = Vec::new();
    for (p, part) in list.chunks(9).enumerate() {
        let name = format!("model-{:05}-of-00003.safetensors", p + 1);
        let tensors: Vec<Tensor<'_>> =
            part.iter().map(|(i, (n, s))| (n.as_str(), "F32", s.as_slice(), llama_data(*i, s))).collect();
        index.extend(part.iter().map(|(_, (n, _))| format!("{n:?}:{name:?}")));
        fs::write(parts.join(name), safetensors(&tensors)).unwrap();
    }
    fs::write(parts.join("model.safetensors.index.json"), format!("{{\"weight_map\":{{{}}}}}", index.join(",")))
        .unwrap();

    let mut outputs = Vec::new();
    for (d, threads) in [(&one, 1), (&one, 2), (&one, 7), (&parts, 1), (&parts, 3)] {
        let out = dir.path().join("out.gguf");
        let options = Options::default().ty(OutType::BF16).name(Some("same".to_owned()));
        run_on(threads, d, &out, &options).unwrap();
        outputs.push(fs::read(&out).unwrap());
    }
    // Folder names affect the metadata, but not the data.
    let tail = |file: &Vec<u8>| {
        let start = Gguf::parse(file.as_slice()).unwrap().data_offset() as usize;
        file[start..].to_vec()
    };
    for other in &outputs[1..3] {
        assert!(outputs[0] == *other);
    }
    for other in &outputs[3..] {
        assert!(tail(&outputs[0]) == tail(other));
    }
}

#[test]
fn big_endian_swaps_every_value() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    for ty in [OutType::F16, OutType::BF16, OutType::F32] {
        let file = |order: ByteOrder| {
            let out = dir.path().join("out.gguf");
            run(dir.path(), &out, &Options::default().order(order).ty(ty)).unwrap();
            fs::read(&out).unwrap()
        };
        let (little, big) = (file(ByteOrder::Little), file(ByteOrder::Big));
        assert_eq!(Gguf::parse(big.as_slice()).unwrap().dialect().order, ByteOrder::Big);
        for (name, width) in [("output_norm.weight", 4), ("output.weight", if ty == OutType::F32 { 4 } else { 2 })] {
            let mut swapped = data(&big, name);
            swapped.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            assert_eq!(swapped, data(&little, name), "{name} {ty:?}");
        }
    }
}

#[test]
fn values_that_become_infinite_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let list = llama_tensors();
    let mut tensors: Vec<Tensor<'_>> =
        list.iter().enumerate().map(|(i, (n, s))| (n.as_str(), "F32", s.as_slice(), llama_data(i, s))).collect();
    for at in [0, 5] {
        tensors[0].3[at * 4..at * 4 + 4].copy_from_slice(&1e6f32.to_le_bytes());
    }
    fs::write(dir.path().join("model.safetensors"), safetensors(&tensors)).unwrap();
    let overflows = |ty| {
        let out = dir.path().join("out.gguf");
        let summary = run(dir.path(), &out, &Options::default().ty(ty)).unwrap();
        summary.overflows.into_iter().map(|o| (o.tensor, o.values)).collect::<Vec<_>>()
    };
    assert_eq!(overflows(OutType::F16), [("token_embd.weight".to_owned(), 2)]);
    assert_eq!(overflows(OutType::BF16), []);
}

/// Rows of queries are permuted: the reported index of a value is its index in the output.
#[test]
fn values_out_of_range_are_found_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let list = llama_tensors();
    let mut tensors: Vec<Tensor<'_>> =
        list.iter().enumerate().map(|(i, (n, s))| (n.as_str(), "F32", s.as_slice(), llama_data(i, s))).collect();
    let queries = tensors.iter_mut().find(|t| t.0 == "model.layers.1.self_attn.q_proj.weight").unwrap();
    for (at, value) in [(4 * HIDDEN + 3, -1e6f32), (7 * HIDDEN, f32::NAN), (7 * HIDDEN + 1, 2e5)] {
        queries.3[at as usize * 4..at as usize * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    fs::write(dir.path().join("model.safetensors"), safetensors(&tensors)).unwrap();
    let plans = [OutType::F16, OutType::F32].map(|ty| plan(dir.path(), &Options::default().ty(ty)).unwrap().plan);
    let (half, single) = (&plans[0], &plans[1]);
    for (extent, threads) in [(Extent::Sample, 1), (Extent::All, 1), (Extent::All, 3)] {
        let found = check_range(&[half], extent, NonZeroUsize::new(threads), &()).unwrap();
        let [tensor] = found[0].as_slice() else { panic!("{found:?}") };
        assert_eq!(tensor.tensor, "blk.1.attn_q.weight");
        // The rows of the two halves of a head, 4 rows each, are interleaved: row 4 becomes row 1, and row 7 stays.
        let (overflow, not_finite) = (tensor.overflow.unwrap(), tensor.not_finite.unwrap());
        assert_eq!((overflow.count, overflow.index, overflow.value), (2, HIDDEN + 3, -1e6));
        assert_eq!((not_finite.count, not_finite.index), (1, 7 * HIDDEN));
        assert_eq!(tensor.n_checked, tensor.n_values);
        let run = run(dir.path(), &dir.path().join("out.gguf"), &Options::default().ty(OutType::F16)).unwrap();
        assert_eq!(run.overflows.iter().map(|o| o.values).collect::<Vec<_>>(), [overflow.count]);
    }
    let found = check_range(&[single], Extent::Sample, None, &()).unwrap();
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
    let found = check_range(&[single], Extent::All, None, &()).unwrap();
    assert!(found[0].iter().all(|tensor| tensor.overflow.is_none()) && found[0].len() == 1, "{found:?}");
    // The plans have different sources.
    assert!(matches!(check_range(&[half, single], Extent::All, None, &()), Err(PipelineError::Apart { .. })));
}

#[test]
fn nothing_is_replaced_unasked_and_failures_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let out = dir.path().join("out.gguf");
    fs::write(&out, "old").unwrap();
    let refused = convert(dir.path(), &out, &Options::default(), &RunOptions::default(), &());
    let Err(Error::Pipeline(PipelineError::Output(e))) = refused else { panic!("{refused:?}") };
    assert!(matches!(*e, gguf_io::Error::Exists(_)));
    assert_eq!(fs::read(&out).unwrap(), b"old");

    // The file shrinks after planning.
    let planned = plan(dir.path(), &Options::default()).unwrap().plan;
    fs::OpenOptions::new().write(true).open(dir.path().join("model.safetensors")).unwrap().set_len(4000).unwrap();
    let result = planned.run(&out, &RunOptions::default().force(true), &());
    assert!(matches!(result, Err(PipelineError::Io { action: "read", .. })));
    assert_eq!(fs::read(&out).unwrap(), b"old");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    /// Cancels after the first bytes are written.
    struct Cancel(AtomicBool);
    impl Progress for Cancel {
        fn event(&self, event: Event<'_>) {
            if let Event::Advanced { .. } = event {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let out = dir.path().join("out.gguf");
    let cancel = Cancel(AtomicBool::new(false));
    let result = convert(dir.path(), &out, &Options::default(), &RunOptions::default(), &cancel);
    assert!(matches!(result, Err(Error::Pipeline(PipelineError::Cancelled))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn events_add_up() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let seen = Mutex::new((Vec::new(), 0, 0, 0));
    let progress = |event: Event<'_>| {
        let mut seen = seen.lock().unwrap();
        match event {
            Event::Started { bytes, n_tensors } => (seen.1, seen.3) = (bytes, n_tensors),
            Event::Tensor { name, .. } => seen.0.push(name.to_owned()),
            Event::Advanced { bytes } => seen.2 += bytes,
            Event::Finished => assert_eq!(seen.2, seen.1),
            _ => {}
        }
    };
    convert(dir.path(), dir.path().join("out.gguf"), &Options::default(), &RunOptions::default(), &progress).unwrap();
    let (names, bytes, done, n_tensors) = seen.into_inner().unwrap();
    assert_eq!((names.len(), n_tensors), (21, 21));
    assert!(bytes > 0 && done == bytes);
}

#[test]
fn a_plan_tells_everything_beforehand() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let planned = plan(dir.path(), &Options::default()).unwrap();
    let tensors = planned.plan.tensors();
    let rows: Vec<_> = tensors.iter().map(|t| (&*t.name, t.shape.to_vec(), t.ty, t.reason)).collect();
    assert_eq!(rows[0], (&b"output.weight"[..], vec![HIDDEN, VOCAB], GgmlType::F16, Reason::Asked));
    assert_eq!(rows.last().unwrap(), &(&b"output_norm.weight"[..], vec![HIDDEN], GgmlType::F32, Reason::Vector));
    assert_eq!(planned.plan.head().get("general.architecture").and_then(|v| v.as_str()).unwrap(), "llama");

    // A template, a folder and a plain name.
    let path = |out: &str| planned.output_path(dir.path().join(out)).file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(path("m-{ftype}-{FTYPE}.gguf"), "m-f16-F16.gguf");
    assert_eq!(path("m.gguf"), "m.gguf");
    assert!(path("").ends_with("-F16.gguf"), "{}", path(""));
}

#[test]
fn a_vocabulary_needs_no_weights() {
    let dir = tempfile::tempdir().unwrap();
    write_small_files(dir.path());
    let out = dir.path().join("vocab.gguf");
    assert!(matches!(run(dir.path(), &out, &Options::default()), Err(Error::NoWeights { .. })));
    let vocab_only = Options::default().vocab_only(true);
    run(dir.path(), &out, &vocab_only).unwrap();
    let file = fs::read(&out).unwrap();
    assert_eq!(plan(dir.path(), &vocab_only).unwrap().plan.file_bytes(), file.len() as u64);
    let gguf = Gguf::parse(file.as_slice()).unwrap();
    assert_eq!(gguf.tensors().count(), 0);
    let tokens = gguf.get("tokenizer.ggml.tokens").and_then(|v| v.as_array()).unwrap();
    assert_eq!(tokens.len(), VOCAB);

    // Nor is it affected by weights that contradict the configuration.
    write_llama(dir.path());
    let config = fs::read_to_string(dir.path().join("config.json")).unwrap();
    let other = config.replace(&format!("\"intermediate_size\":{WIDE}"), "\"intermediate_size\":7");
    fs::write(dir.path().join("config.json"), other).unwrap();
    assert!(run(dir.path(), &out, &Options::default()).is_err());
    run(dir.path(), &out, &vocab_only).unwrap();
    assert_eq!(n_tensors(&out), 0);
}

#[test]
fn a_folder_without_configuration_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = run(dir.path(), Path::new("unused.gguf"), &Options::default()).unwrap_err().to_string();
    assert!(message.contains("no config.json in the folder"), "{message}");
    write_llama(dir.path());
    fs::write(dir.path().join("config.json"), r#"{"architectures":["ElseForCausalLM"]}"#).unwrap();
    let message = run(dir.path(), Path::new("unused.gguf"), &Options::default()).unwrap_err().to_string();
    assert!(message.contains("\"ElseForCausalLM\" is not supported; the nearest supported are "), "{message}");
}

#[test]
fn any_number_of_threads_can_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    let out = dir.path().join("out.gguf");
    for threads in [100_000, usize::MAX] {
        run_on(threads, dir.path(), &out, &Options::default()).unwrap();
        assert_eq!(n_tensors(&out), 21, "{threads}");
    }
}

#[test]
fn the_checkpoint_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    fs::write(dir.path().join("metadata"), "{}").unwrap();
    fs::write(dir.path().join("chat_template.jinja"), "x").unwrap();
    fs::create_dir(dir.path().join("additional_chat_templates")).unwrap();
    fs::write(dir.path().join("additional_chat_templates/tool.jinja"), "x").unwrap();
    let options = Options::default().metadata(Some(dir.path().join("additional_chat_templates/../metadata")));
    for name in [
        "model.safetensors",
        "config.json",
        "tokenizer.model",
        "chat_template.jinja",
        "additional_chat_templates/tool.jinja",
        "additional_chat_templates/../config.json",
        "metadata",
    ] {
        let before = fs::read(dir.path().join(name)).unwrap();
        let refused = run(dir.path(), &dir.path().join(name), &options);
        let expected = matches!(refused, Err(Error::Pipeline(PipelineError::OverwritesInput { .. })));
        assert!(expected, "{name}: {refused:?}");
        assert_eq!(fs::read(dir.path().join(name)).unwrap(), before);
    }
    // Another file in the folder may be overwritten.
    fs::write(dir.path().join("old.gguf"), "old").unwrap();
    run(dir.path(), &dir.path().join("old.gguf"), &options).unwrap();
}

#[test]
fn what_the_check_says_of_the_plan_is_a_warning() {
    let cases: &[(&str, &str, &str)] = &[
        ("", "", ""),
        ("\"vocab_size\":8", "\"vocab_size\":9", "tensor.shape"),
        ("\"vocab_size\":8", "\"rms_norm_eps\":null,\"vocab_size\":8", "key.missing"),
        ("\"vocab_size\":8", "\"rms_norm_eps\":-1e-6,\"vocab_size\":8", "value.unusual"),
    ];
    for (from, to, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        write_llama(dir.path());
        let file = dir.path().join("config.json");
        let config = fs::read_to_string(&file).unwrap();
        assert!(config.contains(from), "{from}");
        fs::write(&file, config.replace(from, to)).unwrap();
        let planned = plan(dir.path(), &Options::default()).unwrap();
        let warnings = &planned.warnings;
        let is_expected = |w: &Warning| matches!(w, Warning::Output(finding) if finding.code == *expected);
        match expected.is_empty() {
            true => assert!(warnings.is_empty(), "{to}: {warnings:?}"),
            false => assert!(warnings.iter().any(is_expected), "{to}: {warnings:?}"),
        }
        assert!(warnings.len() <= 11, "{to}: {warnings:?}");
    }
}

#[test]
fn what_does_not_fit_the_configuration_is_an_error_before_any_output() {
    let refused = |from: &str, to: &str, without: &str| {
        let dir = tempfile::tempdir().unwrap();
        write_llama(dir.path());
        let file = dir.path().join("config.json");
        let config = fs::read_to_string(&file).unwrap();
        assert!(config.contains(from), "{from}");
        fs::write(&file, config.replace(from, to)).unwrap();
        let list = llama_tensors();
        let tensors: Vec<Tensor<'_>> = list
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| name != without)
            .map(|(i, (n, s))| (n.as_str(), "F32", s.as_slice(), llama_data(i, s)))
            .collect();
        fs::write(dir.path().join("model.safetensors"), safetensors(&tensors)).unwrap();
        plan(dir.path(), &Options::default()).map(|_| ()).unwrap_err().to_string()
    };
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (
            "",
            "",
            "model.layers.1.mlp.up_proj.weight",
            &["\"model.layers.1.mlp.up_proj.weight\", which becomes blk.1.ffn_up.weight, is missing"],
        ),
        (
            "\"num_hidden_layers\":2",
            "\"num_hidden_layers\":3",
            "",
            &["\"model.layers.2.input_layernorm.weight\", which becomes blk.2.attn_norm.weight"],
        ),
        (
            "\"num_hidden_layers\":2",
            "\"num_hidden_layers\":1",
            "",
            &["/model.safetensors: ", "model.layers.1.", "no place", "1 blocks"],
        ),
        (
            "\"hidden_size\":16",
            "\"hidden_size\":32",
            "",
            &[
                "/model.safetensors: ",
                "dimension 0 of the output 16, expected 32 (embedding_length, from hidden_size of config.json)",
            ],
        ),
        (
            "\"intermediate_size\":24",
            "\"intermediate_size\":25",
            "",
            &["mlp.", "expected 25 (feed_forward_length, from intermediate_size of config.json)"],
        ),
        ("\"vocab_size\":8", "\"vocab_size\":null", "", &["config.json", "vocab_size"]),
        ("\"num_hidden_layers\":2", "\"num_hidden_layers\":4000000000", "", &["num_hidden_layers", "at most 65536"]),
    ];
    for (from, to, without, expected) in cases {
        let message = refused(from, to, without);
        assert!(expected.iter().all(|part| message.contains(part)), "{to} {without}: {message}");
    }
}

#[test]
fn the_example_has_no_findings() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glossary");
    for options in [Options::default(), Options::default().vocab_only(true).order(ByteOrder::Big)] {
        let planned = plan(&dir, &options).unwrap();
        assert!(!planned.warnings.iter().any(|w| matches!(w, Warning::Output(_))), "{:?}", planned.warnings);
    }
}

#[test]
fn a_reranker_needs_the_tokens_of_its_answers() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("Qwen3-Reranker-0.6B");
    fs::create_dir(&folder).unwrap();
    write_small_files(&folder);
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    fs::write(folder.join("config.json"), config.replace("LlamaForCausalLM", "Qwen3ForCausalLM")).unwrap();
    fs::write(folder.join("tokenizer.json"), r#"{"model": {"type": "BPE", "vocab": {"yes": 0}, "merges": []}}"#)
        .unwrap();
    let failure = plan(&folder, &Options::default().vocab_only(true)).unwrap_err().to_string();
    assert!(failure.contains("tokenizer.json") && failure.contains(r#"no token "no""#), "{failure}");
}

/// Each unsupported checkpoint class is listed once and has no table, and the tables cover many other classes.
#[test]
fn classes_are_supported_or_listed_as_unsupported() {
    use gguf_model::arch::{ARCHITECTURES, UNSUPPORTED, of_class};
    let supported: std::collections::BTreeSet<&str> = ARCHITECTURES
        .iter()
        .flat_map(|arch| arch.checkpoints)
        .flat_map(|checkpoint| checkpoint.classes)
        .copied()
        .collect();
    assert!(supported.len() >= 257, "{}", supported.len());
    assert!(UNSUPPORTED.is_sorted_by_key(|(name, _)| *name));
    for (name, reason) in UNSUPPORTED {
        assert!(of_class(name).is_none() && !reason.is_empty(), "{name}");
    }
}
