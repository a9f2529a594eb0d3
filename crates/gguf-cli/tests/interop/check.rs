//! The verdict of `gguf check` is that of real llama.cpp: files with one change each, to every key and every tensor of a small model of
//! every architecture, load exactly if the check finds no error.
//!
//! The models are the generated checkpoints of the reference data, converted, with a short vocabulary and without data; for architectures
//! without a checkpoint, models with the keys and tensors that their tables require. Each change has an index, so a case name and an index
//! determine a file. Differences are listed with their causes in `check_known.tsv`.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use gguf_format::check::Severity;
use gguf_format::{GgmlType, Gguf, ValueType, keys};
use gguf_hf::{Mtp, Options};
use gguf_model::Hparams;
use gguf_model::arch::Need;
use gguf_test::cases::generate;
use gguf_test::peers::{self, Peers};
use serde_json::Value;

use changes::{Mutation, mutations};

mod changes;

/// A model without data: raw values and tensor infos.
#[derive(Clone)]
struct Model {
    kvs: Vec<Kv>,
    tensors: Vec<Tensor>,
}

/// A key and its value, encoded.
#[derive(Clone, PartialEq)]
struct Kv {
    key: String,
    value: Raw,
}

/// An encoded value: a single one, or an array with the type of its elements.
#[derive(Clone, PartialEq)]
enum Raw {
    One(u32, Vec<u8>),
    Many(u32, Vec<Vec<u8>>),
}

#[derive(Clone, PartialEq)]
struct Tensor {
    name: String,
    dims: Vec<u64>,
    ty: u32,
}

const U8: u32 = 0;
const I8: u32 = 1;
const U16: u32 = 2;
const I16: u32 = 3;
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;
const I64: u32 = 11;
const F64: u32 = 12;
const SCALARS: [(u32, &str); 12] = [
    (U8, "u8"),
    (I8, "i8"),
    (U16, "u16"),
    (I16, "i16"),
    (U32, "u32"),
    (I32, "i32"),
    (F32, "f32"),
    (BOOL, "bool"),
    (STRING, "string"),
    (U64, "u64"),
    (I64, "i64"),
    (F64, "f64"),
];

fn type_name(ty: u32) -> &'static str {
    SCALARS.iter().find(|(id, _)| *id == ty).map_or("?", |(_, name)| name)
}

/// A number, encoded as a type.
fn number(ty: u32, n: f64) -> Vec<u8> {
    let int = n as i64;
    match ty {
        U8 | I8 | BOOL => vec![if ty == BOOL { u8::from(int != 0) } else { int as u8 }],
        U16 | I16 => (int as u16).to_le_bytes().to_vec(),
        U32 | I32 => (int as u32).to_le_bytes().to_vec(),
        U64 | I64 => int.to_le_bytes().to_vec(),
        F32 => (n as f32).to_le_bytes().to_vec(),
        F64 => n.to_le_bytes().to_vec(),
        STRING => text(&int.to_string()),
        _ => panic!("no number is of type {ty}"),
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The number that an encoded value holds; 1 for text.
fn decoded(ty: u32, bytes: &[u8]) -> f64 {
    let int = |n: usize, signed: bool| {
        let mut wide = [if signed && bytes[n - 1] >= 0x80 { 0xff } else { 0 }; 8];
        wide[..n].copy_from_slice(&bytes[..n]);
        i64::from_le_bytes(wide) as f64
    };
    match ty {
        U8 | BOOL => int(1, false),
        I8 => int(1, true),
        U16 => int(2, false),
        I16 => int(2, true),
        U32 => int(4, false),
        I32 => int(4, true),
        U64 | I64 => int(8, true),
        F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
        F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        _ => 1.0,
    }
}

fn plain(ty: u32, n: f64) -> Raw {
    Raw::One(ty, number(ty, n))
}

impl Raw {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Raw::One(ty, bytes) => {
                out.extend(ty.to_le_bytes());
                out.extend(bytes);
            }
            Raw::Many(ty, elements) => {
                out.extend(ARRAY.to_le_bytes());
                out.extend(ty.to_le_bytes());
                out.extend((elements.len() as u64).to_le_bytes());
                elements.iter().for_each(|bytes| out.extend(bytes));
            }
        }
    }
}

impl Model {
    fn of(head: &[u8]) -> Model {
        let gguf = Gguf::parse(head).unwrap();
        let raw = |value: gguf_format::ValueRef<'_>| -> (u32, Vec<u8>) {
            use gguf_format::ValueRef as V;
            let ty = value.value_type();
            let bytes = match value {
                V::U8(n) => n.to_le_bytes().to_vec(),
                V::I8(n) => n.to_le_bytes().to_vec(),
                V::U16(n) => n.to_le_bytes().to_vec(),
                V::I16(n) => n.to_le_bytes().to_vec(),
                V::U32(n) => n.to_le_bytes().to_vec(),
                V::I32(n) => n.to_le_bytes().to_vec(),
                V::U64(n) => n.to_le_bytes().to_vec(),
                V::I64(n) => n.to_le_bytes().to_vec(),
                V::F32(n) => n.to_le_bytes().to_vec(),
                V::F64(n) => n.to_le_bytes().to_vec(),
                V::Bool(b) => vec![b],
                V::String(s) => [&(s.as_bytes().len() as u64).to_le_bytes()[..], s.as_bytes()].concat(),
                other => panic!("unexpected value {other:?}"),
            };
            (ty.0, bytes)
        };
        let value = |value: gguf_format::ValueRef<'_>| match value.as_array() {
            Some(array) => Raw::Many(array.elem_type().0, array.iter().map(|element| raw(element).1).collect()),
            None => {
                let (ty, bytes) = raw(value);
                Raw::One(ty, bytes)
            }
        };
        let kvs = gguf.kvs().map(|kv| Kv { key: kv.key.to_str().unwrap().to_owned(), value: value(kv.value) });
        let tensors = gguf.tensors().map(|t| Tensor {
            name: t.name.to_str().unwrap().to_owned(),
            dims: t.dims.collect(),
            ty: t.ty.0,
        });
        Model { kvs: kvs.collect(), tensors: tensors.collect() }
    }

    fn get(&self, key: &str) -> Option<&Raw> {
        self.kvs.iter().find(|kv| kv.key == key).map(|kv| &kv.value)
    }

    fn count(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Raw::One(ty, bytes) => Some(decoded(*ty, bytes) as u64),
            Raw::Many(..) => None,
        }
    }

    fn arch(&self) -> String {
        match self.get(keys::GENERAL_ARCHITECTURE) {
            Some(Raw::One(_, bytes)) => String::from_utf8_lossy(&bytes[8..]).into_owned(),
            _ => panic!("no architecture"),
        }
    }

    /// Encodes the head, and returns the length of the data.
    fn encode(&self, head: &mut Vec<u8>) -> u64 {
        head.extend(b"GGUF\x03\0\0\0");
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.kvs.len() as u64).to_le_bytes());
        for kv in &self.kvs {
            head.extend(text(&kv.key));
            kv.value.encode(head);
        }
        let mut offset = 0u64;
        for t in &self.tensors {
            head.extend(text(&t.name));
            head.extend((t.dims.len() as u32).to_le_bytes());
            t.dims.iter().for_each(|n| head.extend(n.to_le_bytes()));
            head.extend(t.ty.to_le_bytes());
            head.extend(offset.to_le_bytes());
            let n = t.dims.iter().fold(1u64, |n, dim| n.saturating_mul(*dim));
            let bytes = GgmlType(t.ty)
                .info()
                .map_or(n, |info| n.div_ceil(u64::from(info.block_len)).saturating_mul(u64::from(info.block_bytes)));
            offset = offset.saturating_add(bytes).checked_next_multiple_of(32).unwrap_or(0);
        }
        offset
    }

    /// Writes the file; its data are holes.
    fn write(&self, path: &Path) {
        let mut head = Vec::new();
        let offset = self.encode(&mut head);
        let start = (head.len() as u64).next_multiple_of(32);
        let mut file = File::create(path).unwrap();
        file.write_all(&head).unwrap();
        file.set_len((start + offset).min(1 << 33)).unwrap();
    }

    /// The same model with at most `n` tokens.
    fn with_tokens(&self, n: usize) -> Model {
        let mut model = self.clone();
        let Some(Raw::Many(_, tokens)) = self.get(keys::TOKENIZER_GGML_TOKENS) else { return model };
        let old = tokens.len();
        if old <= n {
            return model;
        }
        for kv in &mut model.kvs {
            match &mut kv.value {
                Raw::Many(_, list) if kv.key.starts_with("tokenizer.") => {
                    if list.len() == old {
                        list.truncate(n);
                    } else {
                        list.truncate(64);
                    }
                }
                Raw::One(ty, bytes)
                    if kv.key.starts_with("tokenizer.")
                        && kv.key.ends_with("_id")
                        && decoded(*ty, bytes) >= n as f64 =>
                {
                    *bytes = number(*ty, n as f64 - 1.0);
                }
                Raw::One(ty, bytes) if kv.key.ends_with(".vocab_size") => *bytes = number(*ty, n as f64),
                _ => {}
            }
        }
        for t in &mut model.tensors {
            t.dims.iter_mut().filter(|dim| **dim == old as u64).for_each(|dim| *dim = n as u64);
        }
        model
    }
}

/// Real llama.cpp in a process of its own.
struct Loader {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Loader {
    fn start() -> Loader {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check_peer.py");
        let mut command = Peers::get().python(&script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the peers' Python runs");
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Loader { child, to, from }
    }

    /// "ok", or what llama.cpp said.
    fn load(&mut self, path: &Path) -> String {
        writeln!(self.to, "{}", path.display()).unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "llama.cpp's process ended at {}", path.display());
        line.trim_end().replace(&*path.to_string_lossy(), "FILE")
    }

    fn stop(self) {
        let Loader { mut child, to, .. } = self;
        drop(to);
        child.wait().unwrap();
    }
}

/// Options of a conversion on the command line of the reference.
fn options(folder: &Path, args: &[Value]) -> Options {
    let mut options = Options::default();
    let mut args = args.iter().filter_map(Value::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--mtp" => options.mtp = Mtp::Only,
            "--no-mtp" => options.mtp = Mtp::LeftOut,
            "--target-model-dir" => options.target = args.next().map(|target| Arc::new(folder.join(target)) as _),
            _ => {}
        }
    }
    options
}

/// The model that a generated checkpoint becomes.
fn converted(name: &str, case: &Value, dir: &Path) -> Result<Model, String> {
    let folder = dir.join("cases");
    generate(name, &folder);
    let args = case["args"].as_array().cloned().unwrap_or_default();
    let conversion = gguf_hf::plan(folder.join(name), &options(&folder, &args)).map_err(|e| e.to_string());
    let model = conversion.map(|conversion| Model::of(conversion.plan.heads().unwrap()[0].bytes()));
    fs::remove_dir_all(&folder).unwrap();
    model
}

/// The prefix of the names of models that are made from the tables of architectures.
const TABLE: &str = "table-";

/// The checkpoint whose vocabulary these models have.
const VOCABULARY: &str = "internlm2";

/// Sizes of these models.
const SIZES: &[(&str, f64)] = &[
    (keys::CONTEXT_LENGTH, 64.0),
    (keys::EMBEDDING_LENGTH, 64.0),
    (keys::ATTENTION_HEAD_COUNT, 4.0),
    (keys::FEED_FORWARD_LENGTH, 96.0),
    (keys::EXPERT_FEED_FORWARD_LENGTH, 32.0),
    (keys::ATTENTION_Q_LORA_RANK, 24.0),
    (keys::ATTENTION_KV_LORA_RANK, 16.0),
    (keys::ATTENTION_SLIDING_WINDOW, 8.0),
    (keys::HRM_LAYERS_PER_STACK, 1.0),
    (keys::ATTENTION_LAYER_NORM_EPSILON, 1e-5),
    (keys::ATTENTION_LAYER_NORM_RMS_EPSILON, 1e-5),
    (keys::ROPE_DIMENSION_COUNT, 16.0),
];

/// A model of an architecture with the keys and tensors that its table requires.
fn tabled(arch: &str, like: &Model) -> Model {
    let family = gguf_model::arch::of(arch).unwrap();
    let is_common = |kv: &&Kv| kv.key.starts_with("general.") || kv.key.starts_with("tokenizer.");
    let mut model = Model { kvs: like.kvs.iter().filter(is_common).cloned().collect(), tensors: Vec::new() };
    let mut set = |pattern: &str, value: Raw| {
        let key = keys::for_arch(pattern, arch);
        model.kvs.retain(|kv| kv.key != key);
        model.kvs.push(Kv { key, value });
    };
    set(keys::GENERAL_ARCHITECTURE, Raw::One(STRING, text(arch)));
    set(keys::TOKENIZER_GGML_TOKEN_TYPE_COUNT, plain(U32, 2.0));
    let mut rows: Vec<&keys::KeyInfo> = gguf_model::arch::required_keys(arch).collect();
    rows.extend(keys::info(keys::ROPE_DIMENSION_COUNT));
    if family.block().any(|tensor| tensor.name().contains("_exps")) {
        rows.extend([keys::EXPERT_COUNT, keys::EXPERT_USED_COUNT].iter().filter_map(|key| keys::info(key)));
    }
    for row in rows {
        let n = SIZES.iter().find(|(pattern, _)| *pattern == row.pattern).map_or(2.0, |(_, n)| *n);
        let array = row.kinds.iter().find(|kind| matches!(kind, keys::KeyType::Array(_)));
        let is_pattern = row.pattern == keys::ATTENTION_SLIDING_WINDOW_PATTERN;
        match *array.filter(|_| is_pattern).unwrap_or(&row.kinds[0]) {
            keys::KeyType::Scalar(ty) => set(row.pattern, plain(ty.0, n)),
            keys::KeyType::Array(ty) => set(row.pattern, Raw::Many(ty.0, vec![number(ty.0, n); 2])),
        }
    }
    let mut head = Vec::new();
    model.encode(&mut head);
    let gguf = Gguf::parse(head.as_slice()).unwrap();
    let h = Hparams::new(|pattern| gguf.get(&keys::for_arch(pattern, arch)));
    let outside = family.outside().map(|tensor| (tensor, None));
    let blocks = (0..2).flat_map(|block| family.block().map(move |tensor| (tensor, Some(block))));
    for (tensor, block) in outside.chain(blocks) {
        let is_due = tensor.need() != Need::Optional && tensor.row.when.holds(&h, block.unwrap_or(0));
        let dims: Option<Vec<u64>> = tensor.shape().iter().map(|dim| dim.of(&h, block.unwrap_or(0))).collect();
        let name = tensor.name_in(block);
        if let Some(dims) = dims.filter(|_| is_due && model.tensors.iter().all(|t| t.name != name)) {
            model.tensors.push(Tensor { name, dims, ty: 0 });
        }
    }
    model
}

/// A difference, without the numbers that vary.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    arch: String,
    item: String,
    class: String,
    /// The errors found by the check; none if the file is good.
    ours: String,
    /// llama.cpp's answer.
    theirs: String,
}

#[derive(Default)]
struct Results {
    files: u64,
    bases: BTreeMap<String, String>,
    /// The number of files, and the first one.
    differences: BTreeMap<Difference, (u64, String)>,
}

/// Runs the selected changes of a case.
struct Run {
    seed: u64,
    every: u64,
    /// A part of the kinds of changes or of what is changed; empty for all.
    changes: String,
    dir: PathBuf,
    known: Vec<Known>,
    /// The file that `GGUF_REPORT` names: a line for each difference.
    report: Option<Mutex<File>>,
}

/// A row of the table of known differences: patterns, in which a trailing `*` stands for any text, and the cause.
struct Known {
    fields: [String; 5],
}

fn matches(pattern: &str, text: &str) -> bool {
    pattern.split_once('*').map_or(pattern == text, |(start, rest)| {
        let Some(text) = text.strip_prefix(start) else { return false };
        if rest.is_empty() {
            return true;
        }
        text.char_indices().map(|(i, _)| i).chain([text.len()]).any(|i| matches(rest, &text[i..]))
    })
}

impl Known {
    fn table() -> Vec<Known> {
        let table = include_str!("../check_known.tsv").lines().skip(1);
        let row = |line: &str| {
            let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let [arch, item, class, ours, theirs, cause] =
                fields.try_into().unwrap_or_else(|_| panic!("six fields: {line}"));
            assert!(!cause.is_empty(), "a cause: {line}");
            Known { fields: [arch, item, class, ours, theirs] }
        };
        table.map(row).collect()
    }

    fn covers(&self, d: &Difference) -> bool {
        let found = [&d.arch, &d.item, &d.class, &d.ours, &d.theirs];
        self.fields.iter().zip(found).all(|(pattern, text)| matches(pattern, text))
    }
}

/// Text without its numbers, except in names such as `u32`.
fn numberless(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' if !out.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') => out.push('#'),
            '\t' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The codes of the errors in a file.
fn verdict(path: &Path) -> String {
    let check = ggufkit::check(path).unwrap();
    let errors: BTreeSet<&str> =
        check.findings().filter(|(_, f)| f.severity == Severity::Error).map(|(_, f)| f.code).collect();
    errors.into_iter().collect::<Vec<_>>().join(" ")
}

impl Run {
    fn case(&self, name: &str, case: &Value, number: usize, loader: &mut Loader, results: &Mutex<Results>) {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        let path = dir.join("model.gguf");
        let base = |text: String| drop(results.lock().unwrap().bases.insert(name.to_owned(), text));
        let of_table = name.strip_prefix(TABLE);
        let whole = match converted(of_table.map_or(name, |_| VOCABULARY), case, &dir) {
            Ok(model) => of_table.map_or(model.clone(), |arch| tabled(arch, &model)),
            Err(e) => return base(format!("not converted: {e}")),
        };
        let short = whole.with_tokens(300);
        let mut said = Vec::new();
        let found = [&short, &whole].into_iter().find(|model| {
            model.write(&path);
            said.push(loader.load(&path));
            said.last().is_some_and(|said| said == "ok")
        });
        let Some(model) = found else { return base(format!("does not load: {}", said.join("; "))) };
        model.write(&path);
        let ours = verdict(&path);
        base(format!("{} {} tokens {ours}", model.arch(), if said.len() == 1 { "few" } else { "all" }));
        let arch = model.arch();
        let mutations = mutations(model);
        let unchanged = Difference {
            arch: arch.clone(),
            item: String::new(),
            class: "no change".into(),
            ours: ours.clone(),
            theirs: "ok".into(),
        };
        if !ours.is_empty() {
            self.report(&unchanged, name);
            results.lock().unwrap().differences.insert(unchanged, (1, name.to_owned()));
        }
        let start = (self.seed + number as u64) % self.every;
        let is_chosen = |m: &Mutation| m.class.contains(&self.changes) || m.item.contains(&self.changes);
        let chosen = mutations.iter().enumerate().filter(|(_, mutation)| is_chosen(mutation));
        for (i, mutation) in chosen.skip(start as usize).step_by(self.every as usize) {
            mutation.edit.apply(model).write(&path);
            let ours = verdict(&path);
            let theirs = loader.load(&path);
            let mut results = results.lock().unwrap();
            results.files += 1;
            if ours.is_empty() != (theirs == "ok") {
                let difference = Difference {
                    arch: arch.clone(),
                    item: mutation.item.clone(),
                    class: mutation.class.clone(),
                    ours,
                    theirs: numberless(&theirs),
                };
                let entry = results.differences.entry(difference.clone()).or_insert((0, format!("{name} {i}")));
                entry.0 += 1;
                self.report(&difference, &format!("{name} {i}"));
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    fn is_known(&self, difference: &Difference) -> bool {
        self.known.iter().any(|row| row.covers(difference))
    }

    fn report(&self, d: &Difference, place: &str) {
        if let Some(report) = &self.report {
            let known = if self.is_known(d) { "known" } else { "new" };
            let line = format!("{known}\t{}\t{}\t{}\t{}\t{}\t1\t{place}", d.arch, d.item, d.class, d.ours, d.theirs);
            writeln!(report.lock().unwrap(), "{line}").unwrap();
        }
    }

    fn all(&self, cases: &[(&str, &Value)], n_threads: usize) -> Results {
        let results = Mutex::new(Results::default());
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..n_threads {
                scope.spawn(|| {
                    let mut loader = Loader::start();
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some((name, case)) = cases.get(i) else { break };
                        self.case(name, case, i, &mut loader, &results);
                    }
                    loader.stop();
                });
            }
        });
        results.into_inner().unwrap()
    }
}

/// A number in an environment variable.
fn variable(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs every `every`th change of the chosen cases.
fn compare(every: u64, cases: impl Fn(usize, &str) -> bool) -> Results {
    let file = peers::data("hf-cases").join("MANIFEST.json");
    let manifest: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let chosen = env::var("GGUF_CASES").ok();
    let mut list: Vec<(&str, &Value)> =
        manifest["cases"].as_object().unwrap().iter().map(|(name, case)| (name.as_str(), case)).collect();
    // Architectures without a checkpoint.
    let families = gguf_model::arch::ARCHITECTURES.iter().flat_map(|family| family.names);
    let is_of = |arch: &str, case: &Value| case["architecture"] == *arch;
    let others = families.filter(|arch| list.iter().all(|(_, case)| !is_of(arch, case)));
    let others: Vec<String> = others.map(|arch| format!("{TABLE}{arch}")).collect();
    let vocabulary = &manifest["cases"][VOCABULARY];
    list.extend(others.iter().map(|name| (name.as_str(), vocabulary)));
    let is_text = |case: &Value| case["architecture"].as_str().is_some_and(|arch| arch != "clip");
    let is_chosen = |i: usize, name: &str| match &chosen {
        Some(list) => list.split(',').any(|chosen| chosen == name),
        None => cases(i, name),
    };
    let list: Vec<_> = list.into_iter().filter(|(_, case)| is_text(case)).enumerate().collect();
    let list: Vec<_> = list.into_iter().filter(|(i, (name, _))| is_chosen(*i, name)).map(|(_, case)| case).collect();
    // Files in memory, where that is possible.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let run = Run {
        seed: variable("GGUF_SEED").unwrap_or(1),
        every: variable("GGUF_EVERY").unwrap_or(every).max(1),
        changes: env::var("GGUF_CHANGES").unwrap_or_default(),
        dir: dir.path().to_owned(),
        known: Known::table(),
        report: env::var_os("GGUF_REPORT").map(|path| Mutex::new(File::create(path).unwrap())),
    };
    let results = run.all(&list, 2);
    let not_loaded = results.bases.iter().filter(|(_, base)| base.contains(':'));
    not_loaded.for_each(|(name, base)| println!("{name}: {base}"));
    let mut unknown = Vec::new();
    for (d, (n, first)) in results.differences.iter().filter(|(d, _)| !run.is_known(d)) {
        unknown.push(format!("{}\t{}\t{}\t{}\t{}\t{n}\t{first}", d.arch, d.item, d.class, d.ours, d.theirs));
    }
    let n_unknown: usize = unknown.len();
    println!(
        "{} files of {} models, {} kinds of differences, {n_unknown} of them unknown",
        results.files,
        results.bases.len(),
        results.differences.len()
    );
    unknown.truncate(100);
    assert!(unknown.is_empty(), "{n_unknown} unknown kinds of differences:\n{}", unknown.join("\n"));
    results
}

fn a_share_of_the_changes_has_the_verdict_of_llama_cpp() {
    compare(97, |i, _| i % 8 == 0);
}

/// One change in 20 of every model, unless the environment asks for others.
fn every_change_has_the_verdict_of_llama_cpp() {
    let results = compare(20, |_, _| true);
    assert!(
        ["GGUF_CASES", "GGUF_CHANGES", "GGUF_EVERY"].iter().any(|name| env::var_os(name).is_some())
            || results.files >= 50_000,
        "only {} files",
        results.files
    );
}

gguf_test::tests! {
    [Shared, Peers] a_share_of_the_changes_has_the_verdict_of_llama_cpp;
    [Shared, Peers, Asking("takes long")] every_change_has_the_verdict_of_llama_cpp;
}
