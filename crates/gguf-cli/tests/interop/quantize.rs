//! `gguf quantize` compared with `llama_model_quantize`: equal files for every reference model, file type and option, and plausible quality
//! in real llama.cpp. Requires `GGUF_PEERS` and `GGUF_SHARED`, like `convert.rs`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use gguf_format::{GgmlType, Gguf, TensorInfo};
use gguf_quantize::imatrix::{Entry, Format, Imatrix};
use gguf_quantize::mix::Target;
use gguf_test::cases::share;
use gguf_test::files::{folder, text};
use gguf_test::parallel;
use gguf_test::peers::Peers;
use gguf_test::program::gguf;
use gguf_test::random::Random;
use serde_json::{Value, json};

/// The reference models, by name, without vocabularies and adapters.
fn reference_models(peers: &Peers) -> Vec<PathBuf> {
    let entries = fs::read_dir(peers.data("hf/ref")).expect("reference files").map(|e| e.unwrap().path());
    let mut models: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "gguf")).collect();
    models.sort();
    assert!(models.len() >= 50, "only {} reference files", models.len());
    models
}

/// A llama.cpp process that answers requests; started on demand, and again after a crash.
struct Peer<'p> {
    peers: &'p Peers,
    running: RefCell<Option<(Child, ChildStdin, BufReader<ChildStdout>)>>,
}

impl Peer<'_> {
    fn of(peers: &Peers) -> Peer<'_> {
        Peer { peers, running: RefCell::new(None) }
    }

    /// The answer; an error if llama.cpp crashed.
    fn ask(&self, question: &Value) -> Result<Value, String> {
        let mut running = self.running.borrow_mut();
        let (_, stdin, stdout) = running.get_or_insert_with(|| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/llama_peer.py");
            let mut child = self
                .peers
                .python(&script)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("the peers' Python runs");
            let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            (child, stdin, stdout)
        });
        let mut answer = String::new();
        let asked = writeln!(stdin, "{question}").and_then(|()| stdout.read_line(&mut answer));
        if !matches!(asked, Ok(n) if n > 0) {
            let (mut child, ..) = running.take().unwrap();
            return Err(format!("llama.cpp broke down: {:?}", child.wait()));
        }
        Ok(serde_json::from_str(&answer).expect("JSON"))
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        if let Some((mut child, stdin, _)) = self.running.take() {
            drop(stdin);
            let _ = child.wait();
        }
    }
}

/// A quantization for both programs.
#[derive(Debug, Clone, Default)]
struct Case {
    model: PathBuf,
    matrix: Option<PathBuf>,
    file_type: &'static str,
    /// Additional options of our command line.
    options: &'static str,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Same,
    BothRefuse { ours: String, theirs: String },
    OnlyWeRefuse(String),
    OnlyTheyRefuse(String),
    Differ(String),
}

impl Case {
    /// Runs both, in a separate directory.
    fn compare(&self, peer: &Peer<'_>, dir: &Path) -> Outcome {
        let (ours, theirs) = (dir.join("ours.gguf"), dir.join("theirs.gguf"));
        let run = gguf(self.command(&ours));
        let refused = match peer.ask(&self.question(&theirs)) {
            Ok(answer) if answer["rc"] == 0 => None,
            Ok(answer) => Some(answer["said"].as_str().unwrap_or_default().to_owned()),
            Err(e) => Some(e),
        };
        match (run.code, refused) {
            (0, None) => same(self, &fs::read(&ours).unwrap(), &fs::read(&theirs).unwrap()),
            (0, Some(theirs)) => Outcome::OnlyTheyRefuse(theirs),
            (1 | 2, None) => Outcome::OnlyWeRefuse(run.err),
            (1 | 2, Some(theirs)) => Outcome::BothRefuse { ours: run.err, theirs },
            (code, _) => Outcome::Differ(format!("exit code {code}: {}", run.err)),
        }
    }

    fn command(&self, out: &Path) -> Vec<String> {
        let mut args = vec!["quantize", text(&self.model), text(out), self.file_type, "-fq", "-j1"];
        if let Some(matrix) = &self.matrix {
            args.extend(["--imatrix", text(matrix)]);
        }
        args.into_iter().chain(self.options.split_whitespace()).map(str::to_owned).collect()
    }

    /// The request to the library that corresponds to llama-quantize's.
    fn question(&self, out: &Path) -> Value {
        let mut params = json!({});
        let mut question = json!({"in": self.model, "out": out});
        match Target::parse(self.file_type).unwrap() {
            Target::Copy => params["only_copy"] = true.into(),
            Target::FileType(ty) => params["ftype"] = ty.0.into(),
        }
        if let Some(matrix) = &self.matrix {
            question["imatrix"] = text(matrix).into();
        }
        let mut push = |list: &str, value: Value| match &mut question[list] {
            Value::Array(values) => values.push(value),
            none => *none = json!([value]),
        };
        let type_id = |name: &str| GgmlType::from_name(name).unwrap().0;
        let mut words = self.options.split_whitespace();
        while let Some(option) = words.next() {
            let mut value = || words.next().unwrap();
            match option {
                "--pure" => params["pure"] = true.into(),
                "--leave-output-tensor" => params["quantize_output_tensor"] = false.into(),
                "--allow-requantize" => params["allow_requantize"] = true.into(),
                "--output-tensor-type" => params["output_tensor_type"] = type_id(value()).into(),
                "--token-embedding-type" => params["token_embedding_type"] = type_id(value()).into(),
                "--tensor-type" => {
                    let (pattern, ty) = value().rsplit_once('=').unwrap();
                    push("tensor_types", json!([pattern.to_lowercase(), type_id(ty)]));
                }
                "--include-weights" => push("include", value().into()),
                "--prune-layers" => {
                    for block in value().split(',') {
                        push("prune_layers", block.parse::<u32>().unwrap().into());
                    }
                }
                "--exclude-weights" => push("exclude", value().into()),
                "--override-kv" => {
                    let (key, value) = value().split_once('=').unwrap();
                    let (ty, value) = value.split_once(':').unwrap();
                    let parsed: Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                    push("overrides", json!([key, ty, parsed]));
                }
                other => panic!("{other}"),
            }
        }
        question["params"] = params;
        json!({"quantize": question})
    }
}

/// Compares two files. Documented differences are ignored:
/// * With a matrix, ours has the keys that `llama-quantize` writes about it, but the library function does not.
/// * Our copies keep the keys of the model; llama.cpp sets the file type, guessing it if necessary, and the quantization version.
/// * Our copies keep trailing dimensions of 1; llama.cpp drops them.
fn same(case: &Case, ours: &[u8], theirs: &[u8]) -> Outcome {
    if ours == theirs {
        return Outcome::Same;
    }
    let (a, b) = (Gguf::parse(ours).unwrap(), Gguf::parse(theirs).unwrap());
    let noted = |key: &[u8]| case.matrix.is_some() && key.starts_with(b"quantize.imatrix.");
    let set = |key: &[u8]| {
        case.file_type == "COPY" && [b"general.file_type".as_slice(), b"general.quantization_version"].contains(&key)
    };
    let kvs = |gguf: &Gguf<'_>| -> Vec<(Vec<u8>, gguf_format::Value)> {
        let kept = gguf.kvs().filter(|kv| !noted(kv.key.as_bytes()) && !set(kv.key.as_bytes()));
        kept.map(|kv| (kv.key.as_bytes().to_vec(), kv.value.to_owned())).collect()
    };
    let (a_kvs, b_kvs) = (kvs(&a), kvs(&b));
    if let Some((x, y)) = a_kvs.iter().zip(&b_kvs).find(|(x, y)| x != y) {
        return Outcome::Differ(format!("keys: {x:?} and {y:?}"));
    }
    let tensors = |gguf: &Gguf<'_>| -> Vec<TensorInfo> {
        let infos = gguf.tensors().map(|t| t.to_owned());
        let without_ones = |mut info: TensorInfo| {
            while case.file_type == "COPY" && info.shape.len() > 1 && info.shape.last() == Some(&1) {
                info.shape.pop();
            }
            info
        };
        infos.map(without_ones).collect()
    };
    let (a_tensors, b_tensors) = (tensors(&a), tensors(&b));
    if let Some((x, y)) = a_tensors.iter().zip(&b_tensors).find(|(x, y)| x != y) {
        return Outcome::Differ(format!("tensors: {x:?} and {y:?}"));
    }
    if (a_kvs.len(), a_tensors.len()) != (b_kvs.len(), b_tensors.len()) {
        return Outcome::Differ("numbers of keys or tensors".to_owned());
    }
    let data = |bytes: &[u8], head: &Gguf<'_>| bytes[head.data_offset() as usize..].to_vec();
    if data(ours, &a) == data(theirs, &b) { Outcome::Same } else { Outcome::Differ("data".to_owned()) }
}

/// Runs all cases, and returns the differences.
fn compare_all(peers: &Peers, cases: &[Case]) -> Vec<(Case, Outcome)> {
    let state = || (Peer::of(peers), folder());
    let outcomes = parallel::map_with(cases, state, |(peer, dir), case| case.compare(peer, dir.path()));
    let different = cases.iter().cloned().zip(outcomes).filter(|(_, outcome)| *outcome != Outcome::Same);
    different.collect()
}

/// All file types except aliases and NVFP4, which llama.cpp does not make.
fn file_types() -> Vec<&'static str> {
    let alias = |name: &str| gguf_quantize::mix::ALIASES.iter().any(|(alias, _)| *alias == name);
    let names: Vec<_> = Target::names().filter(|&name| name != "NVFP4" && !alias(name)).collect();
    assert_eq!(names.len(), 36, "{names:?}");
    names
}

/// A reproducible importance matrix for every weight of a model: squares of numbers between 0 and 4, and occasionally an unused expert.
fn write_matrix(model: &Path, path: &Path) {
    let bytes = fs::read(model).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let mut random = Random::new("matrix", 0);
    let mut matrix = Imatrix {
        format: Format::Gguf,
        entries: Default::default(),
        datasets: vec![b"numbers".to_vec()],
        chunk_count: 3,
        chunk_size: 512,
    };
    for tensor in gguf.tensors() {
        let shape: Vec<u64> = tensor.dims.collect();
        if shape.len() < 2 || !tensor.name.as_bytes().ends_with(b"weight") {
            continue;
        }
        let n_experts = shape.get(2).copied().unwrap_or(1);
        let counts: Vec<i64> = (0..n_experts).map(|i| if n_experts > 1 && i % 4 == 1 { 0 } else { 1536 }).collect();
        let sums = (0..shape[0] * n_experts).map(|_| (4.0 * random.unit()).powi(2) * 1536.0);
        matrix.entries.insert(tensor.name.as_bytes().to_vec(), Entry { sums: sums.collect(), counts });
    }
    matrix.write(fs::File::create(path).unwrap()).unwrap();
}

/// Whether a file has weights, and one with rows of a multiple of 256.
fn weights(model: &Path) -> (bool, bool) {
    let bytes = fs::read(model).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let is_weight = |t: &TensorInfo| t.shape.len() > 1 && t.name.ends_with(b"weight");
    let weights: Vec<TensorInfo> = gguf.tensors().map(|t| t.to_owned()).filter(is_weight).collect();
    (!weights.is_empty(), weights.iter().any(|t| t.shape[0] % 256 == 0))
}

/// Cases that only llama.cpp rejects, with the reason.
const ONLY_THEY_REFUSE: &[(&str, &str)] = &[
    ("model endianness?", "big-endian models"),
    ("must be loaded with the first split", "any shard but the first"),
    ("key not found in model: llama.context_length", "adapters, which are not models of their own"),
    (
        "key not found in model: deepseek2.attention.q_lora_rank",
        "models without a key that the quantizer does not need",
    ),
];

/// Asserts that all cases give equal files, or errors in both, or a known difference. Returns the reasons of those.
#[track_caller]
fn assert_same(peers: &Peers, cases: &[Case]) -> BTreeSet<&'static str> {
    let (mut seen, mut bad, mut n_refused) = (BTreeSet::new(), Vec::new(), 0);
    for (case, outcome) in compare_all(peers, cases) {
        match &outcome {
            Outcome::BothRefuse { .. } => n_refused += 1,
            Outcome::OnlyTheyRefuse(said) => match ONLY_THEY_REFUSE.iter().find(|(part, _)| said.contains(part)) {
                Some((_, why)) => _ = seen.insert(*why),
                None => bad.push((case, outcome)),
            },
            _ => bad.push((case, outcome)),
        }
    }
    let said: Vec<String> = bad.iter().map(|(case, outcome)| format!("{case:?}: {outcome:?}")).collect();
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), cases.len(), said.join("\n"));
    eprintln!("{} cases, {n_refused} refused by both", cases.len());
    seen
}

/// The trained model with its own matrix, and every reference model with wide rows with a generated one. A share of them has every file type, too.
fn every_file_type_of_models_with_wide_rows() {
    let peers = Peers::get();
    let dir = folder();
    let mut models = vec![(peers.data("glossary-bf16.gguf"), peers.data("glossary-imatrix.gguf"))];
    for model in reference_models(&peers).into_iter().filter(|model| weights(model).1) {
        let matrix = dir.path().join(model.file_name().unwrap()).with_extension("imatrix");
        write_matrix(&model, &matrix);
        models.push((model, matrix));
    }
    assert!(models.len() >= 18, "{}", models.len());
    let cases = models.into_iter().flat_map(|(model, matrix)| {
        let matrices = [None, Some(matrix)].into_iter();
        matrices.flat_map(move |matrix| {
            let (model, options) = (model.clone(), "");
            file_types().into_iter().map(move |file_type| Case {
                model: model.clone(),
                matrix: matrix.clone(),
                file_type,
                options,
            })
        })
    });
    let seen = assert_same(&peers, &share(6, cases));
    assert!(seen.is_empty(), "{seen:?}");
}

/// All other files: rows of 64 and 32, experts, shards, quantized sources, adapters, vocabularies. The file types exercise every fallback.
fn some_file_types_of_all_other_files() {
    const WITHOUT: &[&str] = &["Q2_K", "Q3_K_M", "Q5_K_M", "MXFP4_MOE", "Q2_0", "COPY"];
    const WITH: &[&str] = &["IQ2_M", "Q4_0"];
    let peers = Peers::get();
    let dir = folder();
    let mut cases = Vec::new();
    for model in reference_models(&peers) {
        let (has_weights, wide) = weights(&model);
        if wide {
            continue;
        }
        let name = model.to_string_lossy().into_owned();
        // Only some of the sources have their matrices in F32, F16 or BF16.
        let options = if name.contains("q8_0") || name.contains("mxfp4") { "--allow-requantize" } else { "" };
        let case = |matrix, file_type| Case { model: model.clone(), matrix, file_type, options };
        // A vocabulary has no tensors to quantize; llama.cpp copies it with another label.
        let is_vocabulary = name.contains("vocab-only");
        let types = WITHOUT.iter().filter(|ty| !is_vocabulary || **ty == "COPY");
        cases.extend(types.map(|ty| case(None, ty)));
        if has_weights && !name.contains("lora") {
            let matrix = dir.path().join(model.file_name().unwrap()).with_extension("imatrix");
            write_matrix(&model, &matrix);
            cases.extend(WITH.iter().map(|ty| case(Some(matrix.clone()), ty)));
        }
    }
    let seen = assert_same(&peers, &cases);
    assert_eq!(seen.len(), ONLY_THEY_REFUSE.len(), "{seen:?}");
}

/// Options, for the trained model (`glossary`) or a reference model, optionally with the matrix.
const OPTIONS: &[(&str, &str, bool, &str)] = &[
    ("glossary-bf16", "Q4_K_M", false, "--pure"),
    ("glossary-bf16", "Q4_K_M", true, "--pure"),
    ("glossary-bf16", "IQ2_XS", true, "--pure"),
    ("glossary-bf16", "MXFP4_MOE", false, "--pure"),
    ("glossary-bf16", "Q1_0", false, "--pure --output-tensor-type q6_K"),
    ("glossary-bf16", "Q4_K_M", false, "--output-tensor-type q8_0"),
    ("glossary-bf16", "Q4_K_M", false, "--token-embedding-type q4_0"),
    ("glossary-bf16", "Q4_K_M", false, "--token-embedding-type q4_0 --output-tensor-type q8_0"),
    ("glossary-bf16", "Q4_K_M", false, "--leave-output-tensor"),
    ("glossary-bf16", "F16", false, "--output-tensor-type q8_0 --token-embedding-type q4_K --tensor-type ffn=q4_0"),
    ("glossary-bf16", "Q4_K_M", false, "--tensor-type ffn_down=q8_0"),
    (
        "glossary-bf16",
        "Q4_K_M",
        false,
        "--tensor-type blk.[02].ffn=q5_K --tensor-type ffn_UP=iq4_xs --tensor-type attn_[kv]=f16",
    ),
    ("glossary-bf16", "Q3_K_S", true, "--tensor-type \\.(0|2)\\.attn=iq3_s --tensor-type token_embd=q4_1"),
    ("glossary-bf16", "Q4_0", false, "--tensor-type .*=q5_1 --pure"),
    ("glossary-bf16", "Q2_K", true, "--include-weights ffn_down"),
    ("glossary-bf16", "IQ4_XS", true, "--exclude-weights attn_v --exclude-weights ffn_up"),
    ("glossary-bf16", "IQ2_XXS", true, "--exclude-weights blk.1."),
    ("glossary-bf16", "IQ1_S", true, "--include-weights attn --include-weights ffn"),
    (
        "glossary-bf16",
        "Q4_K_S",
        false,
        "--override-kv general.name=str:Other --override-kv a.b=bool:true --override-kv a.c=float:0.1",
    ),
    ("hf/ref/mixtral-f16", "IQ3_M", false, "--override-kv llama.expert_count=int:8"),
    ("glossary-bf16", "Q4_K_M", false, "--override-kv llama.block_count=int:24"),
    ("glossary-bf16", "Q2_K", false, "--override-kv llama.attention.head_count_kv=int:2"),
    ("glossary-bf16", "Q2_K", false, "--override-kv general.file_type=int:7"),
    ("glossary-bf16", "Q4_K_M", false, "--prune-layers 1"),
    ("glossary-bf16", "IQ3_XXS", true, "--prune-layers 0,2"),
    ("hf/ref/llama-many-layers-f16", "Q5_K_M", false, "--prune-layers 3,4,7"),
    ("hf/ref/llama-f32-f16", "Q4_K_M", false, "--leave-output-tensor"),
    ("hf/ref/llama-f32-f16", "Q4_K_M", false, "--output-tensor-type q4_0 --token-embedding-type q5_0"),
    ("hf/ref/llama-f32-f16", "IQ4_XS", false, "--pure --output-tensor-type bf16"),
    ("hf/ref/llama-f32-f16", "Q5_K_M", false, "--pure --leave-output-tensor"),
    ("hf/ref/llama-f32-f16", "TQ2_0", false, "--tensor-type output=q4_K --tensor-type token=q3_K"),
    ("hf/ref/llama-fp8-block-asq8-f16", "Q4_K_M", false, "--allow-requantize"),
    ("hf/ref/llama-fp8-block-asq8-f16", "IQ4_NL", false, "--allow-requantize --pure"),
    ("hf/ref/llama-fp8-block-asq8-f16", "F16", false, "--allow-requantize"),
    ("hf/ref/llama-fp8-block-asq8-f16", "Q8_0", false, ""),
    ("hf/ref/mixtral-f16", "Q4_K_M", false, "--pure"),
    ("hf/ref/mixtral-f16", "Q4_0", false, "--tensor-type ffn_down_exps=q8_0"),
    ("hf/ref/mixtral-f16", "Q4_0", false, "--tensor-type attn_k=q6_K"),
    ("hf/ref/gptoss-mxfp4-auto", "MXFP4_MOE", false, ""),
    ("hf/ref/gptoss-mxfp4-auto", "Q8_0", false, "--allow-requantize --tensor-type exps=f32"),
    ("hf/ref/gemma2-auto", "IQ3_XS", false, "--tensor-type attn=q4_0 --tensor-type ffn=q4_1"),
    ("hf/ref/gemma2-auto", "Q6_K", false, "--token-embedding-type f32"),
];

fn options() {
    let peers = Peers::get();
    let cases = OPTIONS.iter().map(|&(model, file_type, with_matrix, options)| Case {
        model: peers.data(&format!("{model}.gguf")),
        matrix: with_matrix.then(|| peers.data("glossary-imatrix.gguf")),
        file_type,
        options,
    });
    let seen = assert_same(&peers, &cases.collect::<Vec<_>>());
    assert!(seen.is_empty(), "{seen:?}");
}

/// llama.cpp cannot read big-endian models. Their results are those of their little-endian counterparts.
fn big_endian_models_become_what_little_endian_ones_do() {
    let peers = Peers::get();
    let dir = folder();
    let out = |name: &str| dir.path().join(name);
    for ty in ["Q4_K_M", "F32"] {
        for (name, order) in [("big", "-bigendian"), ("little", "")] {
            let model = peers.data(&format!("hf/ref/Tiny-Llama-150K-Instruct-v0.2-hf{order}-f16.gguf"));
            gguf(["quantize", text(&model), text(&out(name)), ty, "-fq"]).exits(0);
        }
        assert!(fs::read(out("big")).unwrap() == fs::read(out("little")).unwrap(), "{ty}");
    }
}

/// The perplexity of the trained model on held-out text, computed by real llama.cpp.
fn perplexity(peers: &Peers, peer: &Peer<'_>, model: &Path, n_lines: u32) -> f64 {
    let mut question = json!({"model": model, "text": peers.data("glossary/validation.txt")});
    if n_lines > 0 {
        question["lines"] = n_lines.into();
    }
    let answer = peer.ask(&json!({"perplexity": question})).unwrap();
    answer["perplexity"].as_f64().unwrap_or_else(|| panic!("{}: {answer}", model.display()))
}

/// File types from best to worst, with or without the matrix, and the maximum increase of perplexity over the original, in percent.
const PERPLEXITIES: &[(&str, bool, f64)] = &[
    ("Q8_0", false, 0.3),
    ("Q5_K_M", true, 0.9),
    ("Q4_K_M", false, 1.8),
    ("Q3_K_M", false, 3.5),
    ("Q2_K", true, 12.0),
    ("IQ2_XXS", true, 35.0),
    ("IQ1_S", true, 70.0),
];

/// A part of the text suffices: the file types are far enough apart.
fn perplexity_rises_as_it_should() {
    let peers = Peers::get();
    let (model, matrix) = (peers.data("glossary-bf16.gguf"), peers.data("glossary-imatrix.gguf"));
    let measured: Vec<_> = [None].into_iter().chain(PERPLEXITIES.iter().map(Some)).collect();
    let found = parallel::map_with(
        &measured,
        || (Peer::of(&peers), folder()),
        |(peer, dir), file_type| {
            let Some(&&(file_type, with_matrix, _)) = file_type.as_ref() else {
                return perplexity(&peers, peer, &model, 100);
            };
            let out = dir.path().join("out.gguf");
            let matrix = with_matrix.then(|| matrix.clone());
            let case = Case { model: model.clone(), matrix, file_type, options: "" };
            gguf(case.command(&out)).exits(0);
            perplexity(&peers, peer, &out, 100)
        },
    );
    let original = found[0];
    assert!((15.0..30.0).contains(&original), "{original}");
    let mut before = 0.998 * original;
    for (&(name, _, most), &perplexity) in PERPLEXITIES.iter().zip(&found[1..]) {
        let worse = (perplexity / original - 1.0) * 100.0;
        eprintln!("{name}: {perplexity:.3}, {worse:+.2} %");
        assert!(
            perplexity > before && worse < most,
            "{name}: {perplexity} is {worse:+.2} % over {original}; before {before}"
        );
        before = perplexity;
    }
}

/// With types that are fast to try, at the size of Q5_0.
fn types_chosen_for_a_size_are_as_good_as_a_mixture() {
    let peers = Peers::get();
    let (peer, dir) = (Peer::of(&peers), folder());
    let (model, mixed, chosen) =
        (peers.data("glossary-bf16.gguf"), dir.path().join("mixed"), dir.path().join("chosen"));
    gguf(["quantize", text(&model), text(&mixed), "Q5_0", "-q"]).exits(0);
    let size = fs::metadata(&mixed).unwrap().len();
    let (limit, candidates) = (size.to_string(), "q4_0,q5_0,q6_K,q8_0");
    let line = ["quantize", text(&model), text(&chosen), "--target-size", &limit, "--candidates", candidates, "-q"];
    gguf(line).exits(0);
    assert!(fs::metadata(&chosen).unwrap().len() <= size);
    let [mixed, chosen] = [&mixed, &chosen].map(|model| perplexity(&peers, &peer, model, 200));
    assert!(chosen < mixed * 1.003, "{chosen}, and the mixture has {mixed}");
}

/// Prints every file type as a row of `docs/file-types.md`.
fn table_of_perplexity() {
    let peers = Peers::get();
    let (model, matrix) = (peers.data("glossary-bf16.gguf"), peers.data("glossary-imatrix.gguf"));
    let types: Vec<_> = file_types().into_iter().filter(|&ty| ty != "COPY").collect();
    let state = || (Peer::of(&peers), folder());
    let mut rows = parallel::map_with(&types, state, |(peer, dir), &file_type| {
        let out = dir.path().join("out.gguf");
        let measure = |matrix: Option<&PathBuf>| {
            let case = Case { model: model.clone(), matrix: matrix.cloned(), file_type, options: "" };
            let made = gguf(case.command(&out)).code == 0;
            made.then(|| (perplexity(&peers, peer, &out, 0), fs::read(&out).unwrap()))
        };
        let (without, with) = (measure(None), measure(Some(&matrix)));
        let bytes = &without.as_ref().or(with.as_ref()).unwrap().1;
        let (mut data, mut n_weights) = (0, 0);
        for tensor in Gguf::parse(bytes).unwrap().tensors().map(|t| t.to_owned()) {
            data += tensor.n_bytes().unwrap();
            n_weights += tensor.shape.iter().product::<u64>();
        }
        let bits = data as f64 * 8.0 / n_weights as f64;
        (bits, file_type, bytes.len(), [without.as_ref().map(|x| x.0), with.as_ref().map(|x| x.0)])
    });
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let original = rows.iter().find(|row| row.1 == "BF16").unwrap().3[0].unwrap();
    println!("| file type | bits per weight | bytes | perplexity | | with the matrix | |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (bits, name, bytes, figures) in rows {
        let cells = figures.map(|figure| match figure {
            Some(x) => format!("{x:.3} | {:+.2} %", (x / original - 1.0) * 100.0),
            None => "|".to_owned(),
        });
        println!("| {name} | {bits:.2} | {bytes} | {} | {} |", cells[0], cells[1]);
    }
}

gguf_test::tests! {
    [Peers, Shared] every_file_type_of_models_with_wide_rows,
        some_file_types_of_all_other_files,
        options,
        big_endian_models_become_what_little_endian_ones_do,
        perplexity_rises_as_it_should,
        types_chosen_for_a_size_are_as_good_as_a_mixture;
    [Peers, Shared, Asking("makes a table, in some minutes")] table_of_perplexity;
}
