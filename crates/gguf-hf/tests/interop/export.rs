//! Exports compared with their originals: conversions of both have the same bytes, and transformers gives the same logits and tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{FieldKind, GgmlType, Gguf, Head, TensorInfo};
use gguf_hf::export::{self, ExportOptions, Fidelity};
use gguf_hf::{Options, OutType, convert, plan};
use gguf_model::arch::TOWERS;
use gguf_pipeline::RunOptions;
use gguf_test::cases::{generate, share};
use gguf_test::parallel;
use gguf_test::peers::{self, Peers};
use gguf_test::random::Random;
use serde_json::Value;

/// Recorded checkpoints that do not come back, and the reasons.
const OTHER: &[(&str, &str)] = &[
    ("gptoss-mxfp4", "packed weights become plain"),
    ("lora-llama-f32", "an adapter, which has a test of its own"),
    ("lora-mixtral", "an adapter, which has a test of its own"),
    ("mamba2", "the checkpoint has other sizes than its configuration"),
    ("whisper", "not a text model"),
];

/// Converts a checkpoint, exports the file to a folder of the same name, and returns the file and the folder.
fn exported(model: &Path, ty: OutType, out: &Path) -> Result<(PathBuf, PathBuf), String> {
    let name = model.file_name().unwrap().to_str().unwrap();
    let (file, folder) = (out.join(format!("{name}.gguf")), out.join(name));
    let run = RunOptions::default().force(true);
    convert(model, &file, &Options::default().ty(ty), &run, &()).map_err(|e| format!("{name}: {e}"))?;
    let export = export::plan(&file, &ExportOptions::default().folder(name)).map_err(|e| format!("{name}: {e}"))?;
    export.run(&folder, &run, &()).map_err(|e| format!("{name}: {e}"))?;
    Ok((file, folder))
}

fn exported_checkpoints_convert_to_the_same_bytes() {
    let mut models: Vec<PathBuf> =
        fs::read_dir(peers::data("hf/models")).unwrap().map(|entry| entry.unwrap().path()).collect();
    models.retain(|model| OTHER.iter().all(|(other, _)| !model.ends_with(other)));
    models.sort();
    assert!(models.len() >= 55, "{}", models.len());
    let results = parallel::map(&share(3, models), |model| {
        let out = tempfile::tempdir().unwrap();
        let (file, folder) = exported(model, OutType::Auto, out.path())?;
        let again = out.path().join("again.gguf");
        convert(&folder, &again, &Options::default(), &RunOptions::default(), &())
            .map_err(|e| format!("{}: {e}", folder.display()))?;
        let is_same = fs::read(&file).unwrap() == fs::read(&again).unwrap();
        is_same.then_some(()).ok_or(format!("{}: other bytes", model.display()))
    });
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Writes the checkpoint named by the first argument in single precision into the folder named by the second.
const WIDEN: &str = r#"
import os, shutil, sys
from safetensors.torch import load_file, save_file
stored, folder = sys.argv[1:]
os.makedirs(folder)
for name in os.listdir(stored):
    if not name.endswith(".safetensors"): shutil.copyfile(os.path.join(stored, name), os.path.join(folder, name))
tensors = {name: tensor.float() for name, tensor in load_file(os.path.join(stored, "model.safetensors")).items()}
save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
"#;

/// The originals have single precision or bfloat16, and the files single precision, so that nothing is rounded. The recorded Gemma has half
/// precision, in which the converter adds 1 to its norms.
fn transformers_gives_the_logits_and_tokens_of_the_originals() {
    const MODELS: &[&str] =
        &["llama-f32", "mistral", "qwen2", "qwen3", "gemma", "phi3", "gpt2", "falcon-7b-style", "mamba", "bert"];
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_peer.py");
    let mut peer = Peers::get().python(&script);
    peer.arg("all");
    for name in MODELS {
        let mut original = peers::data("hf/models").join(name);
        if *name == "gemma" {
            let (widen, stored) = (out.path().join("widen.py"), original);
            original = out.path().join("originals").join(name);
            fs::write(&widen, WIDEN).unwrap();
            let output =
                Peers::get().python(&widen).arg(stored).arg(&original).output().expect("the peers' Python runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let (_, folder) = exported(&original, OutType::F32, out.path()).unwrap();
        peer.arg(original).arg(folder);
    }
    let output = peer.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    // The original says with a null, of which GGUF has no trace, that no space precedes a text.
    let is_known = |line: &&str| line.starts_with("mistral: tokens of");
    let differences: Vec<&str> = lines.lines().filter(|line| !line.ends_with(": ") && !is_known(line)).collect();
    assert_eq!((differences.as_slice(), lines.lines().count()), (&[][..], MODELS.len()), "{lines}");
}

/// Tokenizers of checkpoints: BPE of several pre-tokenizers, Unigram with ids of its own and with those of its SentencePiece model, and WordPiece.
/// Those of SentencePiece are compared with the logits.
const TOKENIZERS: [&str; 13] = [
    "bert",
    "bloom",
    "cohere",
    "falcon-full-vocab",
    "glm4",
    "gpt2-full-vocab",
    "llama-hf-tokenizer",
    "llama3-full-vocab",
    "mpt-full-vocab",
    "qwen2-full-vocab",
    "starcoder2-full-vocab",
    "t5",
    "xlm-roberta",
];

fn transformers_gives_the_tokens_of_every_kind_of_tokenizer() {
    let out = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export_peer.py");
    let mut peer = Peers::get().python(&script);
    peer.arg("tokens");
    for name in TOKENIZERS {
        let mut original = peers::data("hf/models").join(name);
        if !original.is_dir() {
            generate(name, &out.path().join("originals"));
            original = out.path().join("originals").join(name);
        }
        let (_, folder) = exported(&original, OutType::F16, out.path()).unwrap();
        peer.arg(original).arg(folder);
    }
    let output = peer.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let differences: Vec<&str> = lines.lines().filter(|line| !line.ends_with(": ")).collect();
    assert_eq!((differences.as_slice(), lines.lines().count()), (&[][..], TOKENIZERS.len()), "{lines}");
}

/// The base model is given as a checkpoint and as a file.
fn adapters_come_back_as_folders_of_peft() {
    let out = tempfile::tempdir().unwrap();
    let models = peers::data("hf/models");
    let run = RunOptions::default().force(true);
    for (name, base) in [("lora-llama-f32", "llama-f32"), ("lora-mixtral", "mixtral")] {
        let [file, again, base_file] = ["file", "again", "base"].map(|stem| out.path().join(format!("{stem}.gguf")));
        let options = Options::default().base(Some(models.join(base)));
        convert(models.join(name), &file, &options, &run, &()).unwrap();
        convert(models.join(base), &base_file, &Options::default(), &run, &()).unwrap();
        let of_file = export::folder(&base_file, &ExportOptions::default()).unwrap();
        for base in [of_file, Box::new(models.join(base))] {
            let folder = out.path().join(name);
            let export = export::plan(&file, &ExportOptions::default().folder(name).base(Some(base))).unwrap();
            assert_eq!(export.warnings, [], "{name}");
            export.run(&folder, &run, &()).unwrap();
            convert(&folder, &again, &options, &run, &()).unwrap();
            assert!(fs::read(&again).unwrap() == fs::read(&file).unwrap(), "{name}");
            fs::remove_dir_all(&folder).unwrap();
        }
    }
}

/// PEFT loads the exported folders, and gives the logits of the original adapters.
fn peft_loads_exported_adapters() {
    let out = tempfile::tempdir().unwrap();
    let models = peers::data("hf/models");
    let run = RunOptions::default();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peft_peer.py");
    let mut peer = Peers::get().python(&script);
    peer.arg(peers::packages().unwrap());
    let pairs = [("lora-llama-f32", "llama-f32"), ("lora-mixtral", "mixtral")];
    for (name, base) in pairs {
        let (file, folder) = (out.path().join(format!("{name}.gguf")), out.path().join(name));
        let base = models.join(base);
        let options = Options::default().ty(OutType::F32).base(Some(base.clone()));
        convert(models.join(name), &file, &options, &run, &()).unwrap();
        let options = ExportOptions::default().folder(name).base(Some(base.clone()));
        export::plan(&file, &options).unwrap().run(&folder, &run, &()).unwrap();
        peer.args([base, models.join(name), folder]);
    }
    let output = peer.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let expected: String = pairs.iter().map(|(name, _)| format!("{name}: \n")).collect();
    assert_eq!(lines, expected);
}

/// Generated checkpoints that do not come back byte for byte: the name, and why, after a tab.
const NOT_THE_SAME: &str = include_str!("../exports.tsv");

/// Classes that are listed with exceptions, which no generated checkpoint is.
const LISTED: [&str; 2] = ["JAISLMHeadModel", "SarvamMoEForCausalLM"];

/// The smallest number of classes whose checkpoints are exported.
const MIN_CLASSES: usize = 245;

/// What became of a checkpoint of a class.
struct Outcome {
    case: String,
    class: String,
    /// The architecture of the file; an empty string if the checkpoint was not converted.
    architecture: &'static str,
    /// Whether the conversion of the export has the same bytes; why there is no export.
    is_same: Result<bool, String>,
    /// Warnings of the export.
    notes: String,
}

impl Outcome {
    fn is_same(&self) -> bool {
        self.is_same == Ok(true)
    }

    /// What `gguf convert --list --all` says of the class.
    fn fidelity(&self) -> Fidelity {
        let towers = TOWERS.iter().flat_map(|arch| arch.checkpoints.iter().map(move |checkpoint| (arch, checkpoint)));
        let mut all = gguf_hf::arch::supported().chain(towers);
        // Others are models inside of listed ones.
        let listed = all.find_map(|(architecture, checkpoint)| {
            let is_own = checkpoint.architecture(architecture) == self.architecture;
            (is_own && checkpoint.classes.contains(&self.class.as_str()))
                .then(|| export::fidelity(architecture, checkpoint, &self.class))
        });
        listed.unwrap_or(Fidelity::Exact)
    }
}

/// Whether what is listed for a class is true of its checkpoints.
fn is_true(fidelity: Fidelity, of_class: &[&Outcome]) -> bool {
    let all = |is: fn(&Outcome) -> bool| of_class.iter().all(|outcome| is(outcome));
    let is_in = |list: &[&str]| of_class.iter().any(|outcome| list.contains(&outcome.class.as_str()));
    match fidelity {
        Fidelity::Exact => all(Outcome::is_same),
        Fidelity::Except(_) => {
            is_in(&LISTED) == all(Outcome::is_same) && of_class.iter().any(|outcome| outcome.is_same())
        }
        Fidelity::Lossy(_) => all(|outcome| outcome.is_same == Ok(false)),
        Fidelity::None(_) => all(|outcome| outcome.is_same.is_err()),
        _ => false,
    }
}

/// Converts a checkpoint, exports the file, and converts the folder; returns the architecture, whether the bytes are the same, and warnings.
fn round_trip(model: &Path, options: &Options) -> (&'static str, Result<bool, String>, String) {
    let out = tempfile::tempdir().unwrap();
    let run = RunOptions::default();
    let name = model.file_name().unwrap();
    let [file, again] = ["file.gguf", "again.gguf"].map(|name| out.path().join(name));
    let planned = plan(model, options).and_then(|conversion| {
        conversion.plan.run(&file, &run, &())?;
        Ok((conversion.ty, conversion.architecture))
    });
    let (ty, architecture) = match planned {
        Err(e) => return ("", Err(format!("no conversion: {e}")), String::new()),
        Ok(planned) => planned,
    };
    let options = options.clone().ty(OutType::from_name(&ty.to_string()).unwrap());
    let export = match export::plan(&file, &ExportOptions::default().folder(name)) {
        Ok(export) => export,
        Err(e) => return (architecture, Err(e.to_string()), String::new()),
    };
    let notes: Vec<String> = export.warnings.iter().map(ToString::to_string).collect();
    let notes = notes.join("; ");
    let folder = out.path().join(name);
    if let Err(e) = export.run(&folder, &run, &()) {
        return (architecture, Err(e.to_string()), notes);
    }
    match convert(&folder, &again, &options, &run, &()) {
        Err(e) => (architecture, Ok(false), format!("{notes}; no conversion: {e}")),
        Ok(_) => (architecture, Ok(fs::read(&file).unwrap() == fs::read(&again).unwrap()), notes),
    }
}

/// The round trips of a generated checkpoint: of its class, and of the others of the table that have no checkpoint of their own.
fn outcomes(name: &str, case: &Value, with_own: &BTreeSet<String>) -> Vec<Outcome> {
    let dir = tempfile::tempdir().unwrap();
    generate(name, dir.path());
    let model = dir.path().join(name);
    let Some(mut options) = super::convert::options(case) else { return Vec::new() };
    let target = options.target.take().map(|target| dir.path().join(target.path()));
    options = options.target(target);
    let path = model.join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    let Some(own) = class_of(&text).map(str::to_owned) else { return Vec::new() };
    let table = match options.projector {
        true => gguf_model::arch::towers_of_class(&own).next(),
        false => gguf_model::arch::of_class(&own),
    };
    let outcome = |class: String| {
        let (architecture, is_same, notes) = round_trip(&model, &options);
        Outcome { case: name.to_owned(), class, architecture, is_same, notes }
    };
    let mut found = vec![outcome(own.clone())];
    let others = table.map_or(&[][..], |(_, table)| table.classes).iter().filter(|class| !with_own.contains(**class));
    for class in others.filter(|_| found[0].is_same.is_ok()).collect::<Vec<_>>() {
        fs::write(&path, text.replace(&format!("{own:?}"), &format!("{class:?}"))).unwrap();
        found.push(outcome((*class).to_owned()));
    }
    found
}

/// The class in a configuration. Some have numbers that are not JSON.
fn class_of(config: &str) -> Option<&str> {
    config.split_once("\"architectures\"")?.1.split('"').nth(1)
}

/// `GGUF_CASES` restricts the test to some checkpoints, and `GGUF_REPORT` names a file for the outcomes of all.
fn generated_checkpoints_come_back() {
    let cases = peers::data("hf-cases");
    let manifest: Value = serde_json::from_slice(&fs::read(cases.join("MANIFEST.json")).unwrap()).unwrap();
    let chosen = std::env::var("GGUF_CASES").ok();
    let is_chosen = |name: &str| chosen.as_ref().is_none_or(|list| list.split(',').any(|chosen| chosen == name));
    let names: Vec<&String> = manifest["cases"].as_object().unwrap().keys().filter(|name| is_chosen(name)).collect();
    let text = |name: &String| fs::read_to_string(cases.join(format!("{name}.json"))).unwrap();
    let with_own: BTreeSet<String> = names.iter().filter_map(|name| Some(class_of(&text(name))?.to_owned())).collect();
    let found = parallel::map(&names, |name| outcomes(name, &manifest["cases"][name.as_str()], &with_own));
    let mut found: Vec<Outcome> = found.into_iter().flatten().collect();
    found.sort_by(|a, b| (&a.case, &a.class).cmp(&(&b.case, &b.class)));
    if let Some(report) = std::env::var_os("GGUF_REPORT") {
        let line = |o: &Outcome| format!("{}\t{}\t{:?}\t{}\n", o.case, o.class, o.is_same, o.notes);
        fs::write(report, found.iter().map(line).collect::<String>()).unwrap();
    }
    let is_own = |o: &&Outcome| with_own.contains(&o.class);
    let is_same = |o: &&Outcome| o.is_same();
    let was_converted = |o: &&Outcome| !matches!(&o.is_same, Err(e) if e.starts_with("no conversion"));
    let own = || found.iter().filter(is_own).filter(was_converted);
    let others: BTreeSet<&str> = own().filter(|o| !is_same(o)).map(|o| o.case.as_str()).collect();
    let known: BTreeSet<&str> = NOT_THE_SAME.lines().filter_map(|line| Some(line.split_once('\t')?.0)).collect();
    let known: BTreeSet<&str> = known.into_iter().filter(|name| is_chosen(name)).collect();
    let classes: BTreeSet<&str> = found.iter().filter(|o| o.is_same.is_ok()).map(|o| o.class.as_str()).collect();
    let n_same = own().filter(is_same).count();
    println!(
        "{n_same} of {} checkpoints come back byte for byte; {} classes are exported",
        own().count(),
        classes.len()
    );
    assert_eq!(others, known, "checkpoints that do not come back byte for byte");
    // The list of the program says so.
    let mut of_classes: BTreeMap<(&str, &str), Vec<&Outcome>> = BTreeMap::new();
    for outcome in own() {
        of_classes.entry((&outcome.class, outcome.architecture)).or_default().push(outcome);
    }
    let mut wrong = Vec::new();
    for (class, of_class) in &of_classes {
        let fidelity = of_class[0].fidelity();
        if !is_true(fidelity, of_class) {
            let outcomes: Vec<_> = of_class.iter().map(|outcome| (&outcome.case, &outcome.is_same)).collect();
            wrong.push(format!("{class:?}: {fidelity:?}, but {outcomes:?}"));
        }
    }
    assert!(chosen.is_some() || wrong.is_empty(), "what is listed is wrong:\n{}", wrong.join("\n"));
    assert!(chosen.is_some() || classes.len() >= MIN_CLASSES, "{} classes: {classes:?}", classes.len());
}

/// The types that hold blocks, and plain ones.
const TYPES: [GgmlType; 28] = [
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::F32,
    GgmlType::Q1_0,
    GgmlType::Q2_0,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q8_0,
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::IQ1_S,
    GgmlType::IQ1_M,
    GgmlType::IQ2_XXS,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::IQ3_XXS,
    GgmlType::IQ3_S,
    GgmlType::IQ4_NL,
    GgmlType::IQ4_XS,
    GgmlType::TQ1_0,
    GgmlType::TQ2_0,
    GgmlType::MXFP4,
    GgmlType::NVFP4,
];

/// Every type of block, of arbitrary bytes, in each of the three types of a checkpoint.
fn exported_values_have_the_bits_of_ggml() {
    let dir = tempfile::tempdir().unwrap();
    let model = fs::read(peers::data("glossary-bf16.gguf")).unwrap();
    let gguf = Gguf::parse(model).unwrap();
    let number = |key: &str| gguf.get(key).and_then(|value| value.as_integer()).unwrap().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exact_peer.py");
    let mut peer = Peers::get().python(&script);
    peer.arg(peers::peers().join("lib/libggml-base.so"));
    peer.args([number("llama.attention.head_count"), number("llama.attention.head_count_kv")]);
    let mut random = Random::new("blocks", 1);
    for ty in TYPES {
        let file = dir.path().join(format!("{ty}.gguf"));
        let mut head = Head::from_gguf(&gguf);
        for tensor in head.tensors.iter_mut().filter(|tensor| tensor.shape.len() > 1) {
            tensor.ty = ty;
        }
        let data: Vec<Vec<u8>> = head.tensors.iter().map(|tensor| blocks(tensor, &mut random)).collect();
        fs::write(&file, gguf_io::Writer::write(Vec::new(), &head, data).unwrap()).unwrap();
        for (name, float) in [("f32", GgmlType::F32), ("f16", GgmlType::F16), ("bf16", GgmlType::BF16)] {
            let folder = dir.path().join(format!("{ty}-{name}"));
            let export = export::plan(&file, &ExportOptions::default().ty(Some(float))).unwrap();
            export.run(&folder, &RunOptions::default(), &()).unwrap();
            peer.arg(&file).arg(name).arg(&folder);
        }
    }
    let output = peer.output().expect("the peers' Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let is_equal = |line: &&str| line.split(' ').count() == 3 && !line.ends_with(" 0");
    let other: Vec<&str> = lines.lines().filter(|line| !is_equal(line)).collect();
    assert_eq!((other.as_slice(), lines.lines().count()), (&[][..], 3 * TYPES.len()), "{lines}");
}

/// Blocks of arbitrary bytes, of which the scales and the plain values are below 2, so that half precision has all values.
fn blocks(tensor: &TensorInfo, random: &mut Random) -> Vec<u8> {
    let n = tensor.n_bytes().unwrap() as usize;
    let mut data: Vec<u8> = (0..n.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
    data.truncate(n);
    let info = tensor.ty.info().unwrap();
    for block in data.chunks_mut(info.block_bytes as usize) {
        for field in info.fields {
            let width = field.kind.width();
            for i in 0..field.count as usize {
                let last = &mut block[field.offset as usize + width * (i + 1) - 1];
                match field.kind {
                    FieldKind::E8M0 => *last = 120 + *last % 8,
                    FieldKind::UE4M3 => *last &= 0x3f,
                    FieldKind::F16 | FieldKind::BF16 | FieldKind::F32 | FieldKind::SplitF16 => *last &= 0xbf,
                    _ => {}
                }
            }
        }
    }
    data
}

gguf_test::tests! {
    [Shared] exported_checkpoints_convert_to_the_same_bytes, adapters_come_back_as_folders_of_peft;
    [Shared, Peers, Asking("takes minutes")] generated_checkpoints_come_back;
    [Shared, Peers, Torch] exported_values_have_the_bits_of_ggml;
    [Shared, Peers, Torch, Packages] peft_loads_exported_adapters;
    [Shared, Torch] transformers_gives_the_logits_and_tokens_of_the_originals,
        transformers_gives_the_tokens_of_every_kind_of_tokenizer;
}
