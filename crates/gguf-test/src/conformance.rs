//! The conformance suite: files that any reader can be tested with, each with what the documents of the format say of it.
//!
//! Its files are those of the corpus and some more. A plain reader ([`judge`](mod@judge)) names the rules that each one touches and reports its
//! content; the strictest rule gives the verdict. [`manifest`] lists them all. `docs/conformance.md` describes the manifest.

pub mod cases;
pub mod causes;
pub mod json;
pub mod judge;
pub mod page;
pub mod rules;

use std::collections::{BTreeMap, BTreeSet};

use gguf_format::{GgmlType, swap_blocks};
use sha2::{Digest, Sha256};

use crate::corpus;
use crate::corpus::bytes::draft;
use judge::{Judgement, Reading, Report, Tensor, judge};
use rules::{FAMILIES, QUESTIONS, RULES, Verdict, family_of, rule_of};

/// The version of the suite. `conformance/CHANGELOG.md` says which number changes when.
pub const VERSION: &str = "1.1.1";

/// Longer files than this are not made, because file systems have limits.
const LONGEST: u64 = 1 << 43;

/// A file of the suite.
pub struct File {
    pub name: String,
    /// The stored bytes. Zeros follow up to `len`.
    pub start: Vec<u8>,
    pub len: u64,
    pub judgement: Judgement,
    /// The content if counted NULs are removed.
    pub without_nul: Option<Report>,
}

impl File {
    fn new(name: String, start: Vec<u8>, len: u64) -> File {
        let reading = reading(&name);
        let mut judgement = judge(&start, len, reading);
        // The released version 1 has the number of the draft: bytes that it gives a meaning to are not invalid.
        if reading.draft.is_some() && is_invalid(&judgement) {
            let released = judge(&start, len, Reading::default());
            if !is_invalid(&released) {
                judgement = released;
                judgement.touches.insert(0, judge::Touch { rule: "draft", at: 4, bytes: 4 });
            }
        }
        let mut without_nul = None;
        if judgement.all_end_in_nul {
            let without = judge(&start, len, Reading { counted_nul: true, ..reading });
            // What is wrong in one reading only does not make the file invalid.
            let is_wrong_too = |rule| without.touches.iter().any(|t| t.rule == rule);
            judgement.touches.retain(|t| rule_of(t.rule).verdict != Verdict::Reject || is_wrong_too(t.rule));
            judgement.touches.push(judge::Touch { rule: "counted-nul", at: 0, bytes: 0 });
            without_nul = without.report;
        }
        File { name, start, len, judgement, without_nul }
    }

    /// The name of the file in the folder of the suite.
    pub fn path(&self) -> String {
        format!("files/{}.gguf", self.name)
    }

    /// The rules that the file touches, the deciding one first.
    pub fn rules(&self) -> Vec<&'static str> {
        let mut seen = BTreeSet::new();
        let mut ids: Vec<&str> = self.judgement.touches.iter().map(|t| t.rule).filter(|id| seen.insert(*id)).collect();
        ids.sort_by_key(|id| std::cmp::Reverse(rule_of(id).verdict));
        if ids.is_empty() {
            ids.push(family_of(&self.name).permits);
        }
        ids
    }

    pub fn verdict(&self) -> Verdict {
        rule_of(self.rules()[0]).verdict
    }

    /// The content that a reader must report, unless the file must be rejected.
    pub fn report(&self) -> Option<&Report> {
        // Of two alignments, no document says which one counts, and with it where the data is.
        let alignments = |r: &Report| r.pairs.iter().filter(|p| p.key == b"general.alignment").count();
        self.judgement.report.as_ref().filter(|r| self.verdict() != Verdict::Reject && alignments(r) < 2)
    }

    /// The end of the content, if the specification fixes all bytes before it: the file is valid, its tensors follow each other in the order of the
    /// infos, and what is between and behind them is zero. A copy of the file has the same bytes.
    pub fn fixed(&self) -> Option<u64> {
        let is_whole = self.verdict() == Verdict::Accept && self.len == self.start.len() as u64;
        let report = self.report().filter(|_| is_whole)?;
        let (mut end, mut next) = (report.head_end, report.data_at);
        for tensor in &report.tensors {
            let is_next = report.data_at + tensor.offset == next && self.is_zero(end, next);
            end = next + tensor.bytes.filter(|_| is_next)?;
            next = end.next_multiple_of(report.alignment);
        }
        self.is_zero(end, self.len).then_some(end)
    }

    /// Whether the file has no byte but zeros in a range.
    fn is_zero(&self, from: u64, to: u64) -> bool {
        let at = |n: u64| (n as usize).min(self.start.len());
        self.start[at(from)..at(to)].iter().all(|byte| *byte == 0)
    }

    /// The content as JSON, with the decoded values of small tensors.
    fn expect(&self, report: &Report) -> String {
        json::report(report, |tensor| self.values(report, tensor))
    }

    /// The decoded values of a tensor, for the family of files that is about them.
    fn values(&self, report: &Report, tensor: &Tensor) -> Option<Vec<String>> {
        if family_of(&self.name).prefix != "data" || report.tensors.len() > 1 {
            return None;
        }
        let at = usize::try_from(report.data_at + tensor.offset).ok()?;
        let mut raw = self.start.get(at..at + usize::try_from(tensor.bytes?).ok()?)?.to_vec();
        let ty = GgmlType(tensor.ty);
        if report.big {
            swap_blocks(ty, &mut raw).ok()?;
        }
        cases::decoded(ty, &raw)
    }

    /// The parts of the file that matter: what each rule is about, and otherwise the last pair, and the tensors and their data.
    fn ranges(&self) -> Vec<String> {
        let range = |what: &str, at: u64, bytes: u64| {
            json::object([("what", json::text(what)), ("at", at.to_string()), ("bytes", bytes.to_string())])
        };
        let mut out: Vec<String> = self.judgement.touches.iter().map(|t| range(t.rule, t.at, t.bytes)).collect();
        if let Some(report) = &self.judgement.report {
            out.extend(report.pairs.iter().rev().take(1).map(|p| range("last pair", p.at, p.bytes)));
            for tensor in report.tensors.iter().take(2) {
                out.push(range("tensor info", tensor.at, tensor.info_bytes));
                let base = if self.name.starts_with("draft") { 0 } else { report.data_at };
                if let (Some(at), Some(bytes @ 1..)) = (base.checked_add(tensor.offset), tensor.bytes) {
                    out.push(range("tensor data", at, bytes));
                }
            }
        }
        out
    }
}

/// Whether a rule that the file touches makes it invalid.
fn is_invalid(judgement: &Judgement) -> bool {
    judgement.touches.iter().any(|t| rule_of(t.rule).verdict == Verdict::Reject)
}

/// The layouts that files do not state.
fn reading(name: &str) -> Reading {
    let is_draft = name.starts_with("draft");
    let has = |word: &str| name.contains(word);
    let form = draft(has("-inclusive"), has("-type-first"), has("-full-padding"));
    Reading { draft: form.draft.filter(|_| is_draft), counted_nul: false }
}

/// Of files that resemble each other, the suite has one in this many.
fn one_in(name: &str) -> usize {
    const LONG: [&str; 11] = [
        "arrlen",
        "arrtype",
        "counts",
        "keylen",
        "nkv",
        "ntensors",
        "strlen",
        "tname-len",
        "trunc",
        "unknown-type",
        "valuetype",
    ];
    let is_again = ["-big", "-v1-"].iter().any(|form| name.contains(form));
    let is_known_type = name.contains("type-") && !name.contains("unknown");
    match family_of(name).prefix {
        // Hundreds of version 1 that a reader could take for drafts.
        "v1" => 61,
        // The other forms of files that version 3 has, too.
        prefix if LONG.contains(&prefix) && is_again && !is_known_type => 5,
        "arrlen" if !name.contains("-u8-") && !name.contains("-string-") => 2,
        _ => 1,
    }
}

/// Every file of the suite, in the order of the manifest.
pub fn files() -> Vec<File> {
    let mut out = Vec::new();
    for (i, case) in corpus::all().into_iter().enumerate() {
        if case.file_bytes <= LONGEST && i % one_in(&case.name) == 0 {
            out.push(File::new(case.name, case.bytes, case.file_bytes));
        }
    }
    for file in cases::files().into_iter().chain(cases::growth()) {
        out.push(File::new(file.name, file.start, file.len));
    }
    for model in cases::models() {
        let (bytes, _) = model.file();
        let len = bytes.len() as u64;
        out.push(File::new(model.name.to_owned(), bytes, len));
    }
    out
}

/// What readers did with the files, as an earlier manifest has it.
#[derive(Default)]
pub struct Observed {
    /// The JSON object of the readers.
    pub readers: String,
    /// For each file, the JSON object of outcomes by reader.
    pub outcomes: BTreeMap<String, String>,
    /// For each writer, the JSON object of its outcomes.
    pub written: Vec<String>,
}

impl Observed {
    /// Takes the observations from a manifest.
    pub fn of(manifest: &str) -> Observed {
        let mut observed = Observed { readers: "{}".to_owned(), ..Observed::default() };
        for line in manifest.lines() {
            if let Some(readers) = line.strip_prefix("\"readers\":") {
                observed.readers = readers.trim_end_matches(',').to_owned();
            }
            if line.starts_with("{\"writer\":") {
                observed.written.push(line.trim_end_matches(',').to_owned());
            }
            let name = line.strip_prefix("{\"file\":\"").and_then(|rest| rest.split('"').next());
            if let (Some(name), Some((_, outcomes))) = (name, line.split_once(",\"observed\":")) {
                let outcomes = outcomes.trim_end_matches(',');
                observed.outcomes.insert(name.to_owned(), outcomes[..outcomes.len() - 1].to_owned());
            }
        }
        observed
    }

    /// The readers: name, version and date of each.
    pub fn list(&self) -> Vec<[String; 3]> {
        let readers = self.readers.trim_start_matches('{').split("},");
        let fields = readers.map(|reader| reader.split('"').map(str::to_owned).collect::<Vec<_>>());
        fields.filter_map(|f| Some([f.get(1)?.clone(), f.get(5)?.clone(), f.get(9)?.clone()])).collect()
    }

    /// The outcome of a reader for a file.
    pub fn outcome(&self, path: &str, reader: &str) -> Option<&str> {
        let outcomes = self.outcomes.get(path)?;
        let (_, rest) = outcomes.split_once(&format!("\"{reader}\":\""))?;
        rest.split('"').next()
    }
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(raw: &[u8]) -> String {
    json::hex(&Sha256::digest(raw))
}

/// The text of `manifest.json`: one line for each rule, question, file and model.
pub fn manifest(files: &[File], observed: &Observed) -> String {
    let text = json::text;
    let documents = rules::DOCUMENTS.iter().map(|d| {
        json::object([
            ("id", text(d.id)),
            ("title", text(d.title)),
            ("version", text(d.version)),
            ("address", text(d.address)),
        ])
    });
    let rules = RULES.iter().map(|r| {
        json::object([
            ("id", text(r.id)),
            ("verdict", text(r.verdict.name())),
            ("document", text(r.document)),
            ("section", text(r.section)),
            ("sentence", text(r.sentence)),
            ("note", text(r.note)),
        ])
    });
    let families =
        FAMILIES.iter().map(|f| json::object([("prefix", text(f.prefix)), ("exercises", text(f.exercises))]));
    let questions = QUESTIONS.iter().map(|q| {
        let shown = files.iter().filter(|f| f.rules().iter().any(|rule| q.rules.contains(rule)));
        json::object([
            ("id", text(q.id)),
            ("question", text(q.question)),
            ("ggufkit", text(q.answer)),
            ("rules", json::list(q.rules.iter().map(|id| text(id)))),
            ("files", shown.count().to_string()),
        ])
    });
    let causes = causes::CAUSES.iter().map(|c| json::object([("id", text(c.id)), ("cause", text(c.text))]));
    let rows = files.iter().map(|file| {
        let path = file.path();
        let rules = file.rules();
        let mut fields = vec![
            ("file", text(&path)),
            ("bytes", file.start.len().to_string()),
            ("sha256", text(&sha256(&file.start))),
        ];
        if file.len > file.start.len() as u64 {
            fields.push(("length", file.len.to_string()));
        }
        fields.push(("exercises", text(family_of(&file.name).prefix)));
        fields.push(("section", text(rule_of(rules[0]).section)));
        fields.push(("verdict", text(file.verdict().name())));
        fields.push(("rules", json::list(rules.iter().map(|id| text(id)))));
        fields.extend(file.report().map(|report| ("expect", file.expect(report))));
        let also = file.without_nul.as_ref().filter(|_| file.report().is_some());
        fields.extend(also.map(|report| ("also", file.expect(report))));
        fields.extend(file.fixed().map(|end| ("fixed", end.to_string())));
        fields.push(("ranges", json::list(file.ranges())));
        fields.extend(causes::cause(file, observed).map(|c| ("cause", text(c.id))));
        fields.push(("observed", observed.outcomes.get(&path).cloned().unwrap_or_else(|| "{}".to_owned())));
        json::object(fields)
    });
    let models = cases::models().into_iter().map(|model| {
        let (bytes, end) = model.file();
        let pair = |(key, value): &(&str, judge::Value)| {
            let (ty, _) = cases::encode(model.form, value);
            json::object([("key", text(key)), ("type", text(json::type_name(ty))), ("value", json::value(value))])
        };
        let tensor = |t: &cases::Data| {
            json::object([
                ("name", text(&t.name)),
                ("type", t.ty.to_string()),
                ("shape", json::list(t.shape.iter().map(u64::to_string))),
                ("data", text(&json::hex(&t.bytes))),
            ])
        };
        json::object([
            ("file", text(&format!("files/{}.gguf", model.name))),
            ("sha256", text(&sha256(&bytes))),
            ("bytes", bytes.len().to_string()),
            ("end", end.to_string()),
            ("version", model.form.version.to_string()),
            ("byte_order", text(if model.form.big { "big" } else { "little" })),
            ("kv", json::list(model.pairs.iter().map(pair))),
            ("tensors", json::list(model.tensors.iter().map(tensor))),
        ])
    });
    let types = corpus::tensors::TYPES.iter().map(|(id, len, size)| {
        let name = GgmlType(*id).info().map_or_else(String::new, |info| info.name.to_owned());
        json::object([
            ("id", id.to_string()),
            ("name", text(&name)),
            ("elements", len.to_string()),
            ("bytes", size.to_string()),
        ])
    });
    let section = |name: &str, rows: Vec<String>| format!("\"{name}\":[\n{}\n]", rows.join(",\n"));
    let parts = [
        format!("\"name\":\"GGUF conformance suite\",\n\"version\":\"{VERSION}\",\n\"licence\":\"CC0-1.0\""),
        section("documents", documents.collect()),
        section("rules", rules.collect()),
        section("families", families.collect()),
        section("types", types.collect()),
        section("questions", questions.collect()),
        section("causes", causes.collect()),
        format!("\"readers\":{}", observed.readers),
        section("files", rows.collect()),
        section("writers", models.collect()),
        section("written", observed.written.clone()),
    ];
    format!("{{\n{}\n}}\n", parts.join(",\n"))
}
