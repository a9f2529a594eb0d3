//! The conformance suite: its manifest is current, ggufkit does what it asks for, and every difference from llama.cpp has a cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use gguf_format::check::{self, Severity};
use gguf_format::{ByteOrder, Gguf, Head, TensorInfo, ValueRef};
use gguf_test::conformance::judge::{self, Reading, Report};
use gguf_test::conformance::rules::{FAMILIES, QUESTIONS, RULES, Verdict, family_of, rule_of};
use gguf_test::conformance::{self, File, Observed, cases, causes};
use gguf_test::corpus::bytes::draft;
use serde_json::Value as Json;

/// Heads that are longer than this are read by the adapter only.
const LONGEST: u64 = 1 << 24;

/// Judged once for all tests.
static FILES: LazyLock<Vec<File>> = LazyLock::new(conformance::files);

fn manifest() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/manifest.json")).unwrap()
}

#[test]
fn the_manifest_and_the_page_are_current() {
    let before = manifest();
    let observed = Observed::of(&before);
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md")).unwrap();
    assert!(page == conformance::page::page(&page, &FILES, &observed), "run `cargo xtask conformance`");
    let now = conformance::manifest(&FILES, &observed);
    let changed = before.lines().zip(now.lines()).find(|(a, b)| a != b);
    assert!(before == now, "run `cargo xtask conformance`; the first change is {changed:?}");
}

#[test]
fn names_rules_families_and_questions_are_used() {
    let files = &*FILES;
    assert!(files.len() >= 600, "{} files", files.len());
    let names: BTreeSet<&str> = files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names.len(), files.len(), "names are unique");
    let touched: BTreeSet<&str> = files.iter().flat_map(File::rules).collect();
    // A family whose files all break a rule has a sentence that decides nothing.
    for rule in RULES.iter().filter(|r| r.verdict != Verdict::Accept) {
        assert!(touched.contains(rule.id), "no file touches {}", rule.id);
    }
    for family in FAMILIES {
        assert!(files.iter().any(|f| family_of(&f.name).prefix == family.prefix), "no file of {}", family.prefix);
    }
    for question in QUESTIONS {
        for rule in question.rules {
            assert!(RULES.iter().any(|r| r.id == *rule && r.verdict == Verdict::Either), "{}: {rule}", question.id);
        }
    }
    let asked: BTreeSet<&str> = QUESTIONS.iter().flat_map(|q| q.rules).copied().collect();
    for rule in RULES.iter().filter(|r| r.verdict == Verdict::Either) {
        assert!(asked.contains(rule.id), "no question is about {}", rule.id);
    }
}

/// Version 1 is the number of a released layout and of several drafts. What is valid in one of them is not invalid.
#[test]
fn invalid_files_of_version_1_are_invalid_in_every_layout() {
    let (mut n, mut valid) = (0, Vec::new());
    for file in FILES.iter().filter(|f| f.verdict() == Verdict::Reject) {
        if !matches!(file.start.get(4..8), Some([1, 0, 0, 0] | [0, 0, 0, 1])) {
            continue;
        }
        n += 1;
        let drafts = (0..8).map(|i| draft(i & 1 == 1, i & 2 == 2, i & 4 == 4).draft);
        for draft in drafts.chain([None]) {
            let judgement = judge::judge(&file.start, file.len, Reading { draft, counted_nul: false });
            if judgement.touches.iter().all(|t| rule_of(t.rule).verdict != Verdict::Reject) {
                valid.push(format!("{} in {draft:?}: {:?}", file.name, judgement.report));
            }
        }
    }
    assert!(valid.is_empty(), "{} of {n} files:\n{}", valid.len(), valid.join("\n"));
    assert!(n > 60, "{n} files");
}

/// What a manifest lacks: a sentence for a verdict, an address of a document, a cause of a difference from llama.cpp, or a file that ggufkit passes.
fn lacks(manifest: &Json) -> Vec<String> {
    let mut out = Vec::new();
    let list = |name: &str| manifest[name].as_array().cloned().unwrap_or_default();
    let by_id = |name: &str| -> BTreeMap<String, Json> {
        list(name).into_iter().map(|row| (row["id"].as_str().unwrap_or_default().to_owned(), row)).collect()
    };
    let (documents, rules, causes) = (by_id("documents"), by_id("rules"), by_id("causes"));
    let has = |row: &Json, field: &str| row[field].as_str().is_some_and(|text| !text.trim().is_empty());
    for (id, document) in &documents {
        if !has(document, "version") || !document["address"].as_str().unwrap_or_default().starts_with("https://") {
            out.push(format!("{id} has no version or address"));
        }
    }
    for file in list("files") {
        let name = file["file"].as_str().unwrap_or_default();
        let id = file["rules"][0].as_str().unwrap_or_default();
        match rules.get(id) {
            Some(rule) if rule["verdict"] != file["verdict"] => out.push(format!("{name}: {id} has another verdict")),
            Some(rule) if !has(rule, "sentence") || !has(rule, "section") => out.push(format!("{id} has no sentence")),
            Some(rule) if !documents.contains_key(rule["document"].as_str().unwrap_or_default()) => {
                out.push(format!("{id} has no document"));
            }
            Some(_) => {}
            None => out.push(format!("{name} names no rule")),
        }
        let (ours, theirs) = (&file["observed"]["ggufkit"], &file["observed"]["llama.cpp"]);
        match (file["verdict"].as_str(), ours.as_str()) {
            (Some("accept" | "either"), Some("accept")) | (Some("reject" | "either"), Some("reject")) => {}
            (verdict, ours) => out.push(format!("{name}: {verdict:?} is asked for, and ggufkit does {ours:?}")),
        }
        if theirs.is_null() || ours != theirs && !causes.contains_key(file["cause"].as_str().unwrap_or_default()) {
            out.push(format!("{name}: ggufkit does {ours}, llama.cpp {theirs}, without a cause"));
        }
    }
    out
}

#[test]
fn verdicts_have_sentences_and_differences_have_causes() {
    let manifest: Json = serde_json::from_str(&manifest()).unwrap();
    assert_eq!(lacks(&manifest), Vec::<String>::new());
    assert!(manifest["files"].as_array().unwrap().len() >= 600);
    let others = manifest["readers"].as_object().unwrap().keys().filter(|name| *name != "ggufkit").count();
    assert!(others >= 4, "{others} other readers");

    // The check finds what is taken away.
    let files = manifest["files"].as_array().unwrap();
    let caused = files.iter().position(|f| f["cause"].is_string()).unwrap();
    let first = manifest["rules"].as_array().unwrap().iter().position(|r| r["id"] == files[0]["rules"][0]).unwrap();
    for (path, value) in [
        ("/documents/0/address".to_owned(), Json::from("")),
        ("/documents/0/version".to_owned(), Json::from("")),
        ("/files/0/rules".to_owned(), Json::from(Vec::<String>::new())),
        ("/files/0/verdict".to_owned(), Json::from("neither")),
        (format!("/rules/{first}/sentence"), Json::from("")),
        (format!("/rules/{first}/document"), Json::from("hearsay")),
        (format!("/files/{caused}/cause"), Json::Null),
        (format!("/files/{caused}/observed/ggufkit"), Json::from("crash")),
        (format!("/files/{caused}/observed/llama.cpp"), Json::Null),
    ] {
        let mut broken = manifest.clone();
        *broken.pointer_mut(&path).unwrap_or_else(|| panic!("no {path}")) = value;
        assert!(!lacks(&broken).is_empty(), "{path}");
    }
}

/// A value as the plain reader has it.
fn value(v: ValueRef<'_>) -> judge::Value {
    let number = |n: u64| judge::Value::Number(v.value_type().0, n);
    match v {
        ValueRef::U8(n) => number(n.into()),
        ValueRef::I8(n) => number(u64::from(n as u8)),
        ValueRef::U16(n) => number(n.into()),
        ValueRef::I16(n) => number(u64::from(n as u16)),
        ValueRef::U32(n) => number(n.into()),
        ValueRef::I32(n) => number(u64::from(n as u32)),
        ValueRef::F32(x) => number(x.to_bits().into()),
        ValueRef::Bool(b) => number(b.into()),
        ValueRef::U64(n) => number(n),
        ValueRef::I64(n) => number(n as u64),
        ValueRef::F64(x) => number(x.to_bits()),
        ValueRef::String(s) => judge::Value::Text(s.as_bytes().to_vec()),
        ValueRef::Array(a) => judge::Value::List(a.elem_type().0, a.iter().map(value).collect()),
    }
}

/// Our reading of a file differs from the expected one.
fn difference(gguf: &Gguf<'_>, expected: &Report) -> Option<String> {
    let dialect = gguf.dialect();
    let got = (dialect.version.number(), dialect.order == ByteOrder::Big, gguf.alignment());
    let want = (expected.version, expected.big, expected.alignment);
    if got != want {
        return Some(format!("version, byte order and alignment are {got:?}, expected {want:?}"));
    }
    let is_draft = dialect.version == gguf_format::Version::Draft;
    if !expected.tensors.is_empty() && !is_draft && gguf.data_offset() != expected.data_at {
        return Some(format!("data at {}, expected {}", gguf.data_offset(), expected.data_at));
    }
    if gguf.n_kv() != expected.pairs.len() as u64 || gguf.n_tensors() != expected.tensors.len() as u64 {
        return Some(format!("{} pairs and {} tensors", gguf.n_kv(), gguf.n_tensors()));
    }
    for (got, want) in gguf.kvs().zip(&expected.pairs) {
        let is_kept = !matches!(want.value, judge::Value::Long(_));
        if got.key.as_bytes() != want.key || is_kept && value(got.value) != want.value {
            return Some(format!("{:?} is {:?}, expected {:?}", got.key, got.value, want.value));
        }
    }
    for (got, want) in gguf.tensors().zip(&expected.tensors) {
        let shape: Vec<u64> = got.dims.collect();
        let same =
            got.name.as_bytes() == want.name && shape == want.shape && got.ty.0 == want.ty && got.offset == want.offset;
        if !same || want.bytes.is_some() && got.n_bytes().ok() != want.bytes {
            return Some(format!("{got:?}, expected {want:?}"));
        }
    }
    None
}

#[test]
fn ggufkit_does_what_the_suite_asks_for() {
    let (mut wrong, mut n) = (Vec::new(), 0);
    for file in &*FILES {
        let mut bytes = file.start.clone();
        let is_whole = file.judgement.report.as_ref().is_some_and(|r| r.data_at <= bytes.len() as u64);
        if !is_whole && file.len > LONGEST {
            continue;
        }
        n += 1;
        if !is_whole {
            bytes.resize(file.len as usize, 0);
        }
        let accepts = check::structure(&bytes, file.len).findings().all(|f| f.severity != Severity::Error);
        match (file.verdict(), accepts) {
            (Verdict::Accept, false) => wrong.push(format!("{} is rejected", file.name)),
            (Verdict::Reject, true) => wrong.push(format!("{} is accepted", file.name)),
            (_, false) => {}
            (_, true) => {
                let gguf = Gguf::parse_within(&bytes, Some(file.len)).unwrap();
                let expected = file.report().into_iter().chain(&file.without_nul);
                let differences: Vec<String> = expected.map_while(|report| difference(&gguf, report)).collect();
                if differences.len() == 1 + usize::from(file.without_nul.is_some()) && file.report().is_some() {
                    wrong.push(format!("{}: {}", file.name, differences.join("; or ")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {n} files:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n >= 1400, "{n} files");
}

#[test]
fn every_difference_from_llama_cpp_has_a_cause() {
    let observed = Observed::of(&manifest());
    let files = &*FILES;
    let (mut used, mut without) = (BTreeSet::new(), Vec::new());
    let mut n = 0;
    for file in files {
        let path = file.path();
        let outcome =
            |reader| observed.outcome(&path, reader).unwrap_or_else(|| panic!("no outcome of {reader} for {path}"));
        let (ours, theirs) = (outcome("ggufkit"), outcome("llama.cpp"));
        n += usize::from(ours != theirs);
        match causes::cause(file, &observed) {
            Some(cause) => drop(used.insert(cause.id)),
            None if ours != theirs => without.push(format!("{}: {ours}, {theirs} ({:?})", file.name, file.rules())),
            None => {}
        }
    }
    assert!(without.is_empty(), "{} of {n} without a cause:\n{}", without.len(), without.join("\n"));
    for cause in causes::CAUSES {
        assert!(used.contains(cause.id), "nothing has the cause {}", cause.id);
    }
}

/// The models for writers, written by ggufkit.
#[test]
fn ggufkit_writes_the_fixed_bytes() {
    for model in cases::models() {
        let (bytes, _) = model.file();
        let gguf = Gguf::parse(&bytes).unwrap();
        let mut head = Head { dialect: gguf.dialect(), ..Head::default() };
        for kv in gguf.kvs() {
            head.set(kv.key.to_str().unwrap(), kv.value.to_owned());
        }
        head.tensors = model
            .tensors
            .iter()
            .map(|t| TensorInfo::new(t.name.as_str(), t.shape.clone(), gguf_format::GgmlType(t.ty)))
            .collect();
        let layout = head.layout().unwrap();
        let mut out = layout.padded_head().unwrap();
        if !model.tensors.is_empty() {
            out.resize(layout.file_bytes() as usize, 0);
        }
        for (i, tensor) in model.tensors.iter().enumerate() {
            let range = layout.tensor_range(i).unwrap();
            out[range.start as usize..range.end as usize].copy_from_slice(&tensor.bytes);
        }
        out.truncate(out.len().min(bytes.len()));
        assert!(out == bytes, "{}", model.name);
    }
}
