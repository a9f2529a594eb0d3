//! The generated parts of the page in the book.

use super::rules::{DOCUMENTS, FAMILIES, QUESTIONS, RULES, Verdict, family_of};
use super::{File, Observed, cases};

/// Names of files that are listed for a question.
const SHOWN: usize = 3;

/// Whether an outcome is what the suite asks for.
fn passes(verdict: Verdict, outcome: &str) -> bool {
    match verdict {
        Verdict::Accept => outcome == "accept",
        Verdict::Reject => outcome == "reject",
        Verdict::Either => matches!(outcome, "accept" | "reject"),
    }
}

/// A part of the page between comments with its name.
fn part(name: &str, content: &str) -> String {
    format!("<!-- {name} -->\n\n{content}\n<!-- end of {name} -->")
}

/// The parts of the page: their names and contents.
fn parts(files: &[File], observed: &Observed) -> [(&'static str, String); 6] {
    let readers = observed.list();
    let outcomes = |reader: &str, want: &dyn Fn(Verdict, &str) -> bool| {
        let is_one = |f: &&File| observed.outcome(&f.path(), reader).is_some_and(|o| want(f.verdict(), o));
        files.iter().filter(is_one).count()
    };
    let mut results = "| reader | version | date | passed | valid files rejected | other values reported | invalid files accepted | crashes | out of time | out of memory |\n\
        |---|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for [name, version, date] in &readers {
        let counts = [
            outcomes(name, &passes),
            outcomes(name, &|verdict, o| verdict == Verdict::Accept && o == "reject"),
            outcomes(name, &|verdict, o| verdict != Verdict::Reject && o == "values"),
            outcomes(name, &|verdict, o| verdict == Verdict::Reject && o == "accept"),
            outcomes(name, &|_, o| o == "crash"),
            outcomes(name, &|_, o| o == "time"),
            outcomes(name, &|_, o| o == "memory"),
        ];
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        results.push_str(&format!("| {name} | {version} | {date} | {} |\n", counts.join(" | ")));
    }

    let names: Vec<&str> = readers.iter().map(|[name, ..]| name.as_str()).collect();
    let mut failures = format!(
        "| files | what they exercise | number | {} |\n|---|---|--:|{}\n",
        names.join(" | "),
        "--:|".repeat(names.len())
    );
    for family in FAMILIES {
        let of: Vec<&File> = files.iter().filter(|f| family_of(&f.name).prefix == family.prefix).collect();
        let failed = names.iter().map(|name| {
            let is_failed = |f: &&&File| observed.outcome(&f.path(), name).is_some_and(|o| !passes(f.verdict(), o));
            of.iter().filter(is_failed).count().to_string()
        });
        let failed: Vec<String> = failed.collect();
        failures.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            family.prefix,
            family.exercises,
            of.len(),
            failed.join(" | ")
        ));
    }

    let mut questions = "| question | ggufkit | files |\n|---|---|---|\n".to_owned();
    for question in QUESTIONS {
        let shown: Vec<&File> = files.iter().filter(|f| f.rules().iter().any(|r| question.rules.contains(r))).collect();
        let listed: Vec<String> = shown.iter().take(SHOWN).map(|f| format!("`{}`", f.name)).collect();
        let rules: Vec<String> = question.rules.iter().map(|rule| format!("`{rule}`")).collect();
        questions.push_str(&format!(
            "| {} | {} | {} with {}: {}{} |\n",
            question.question,
            question.answer,
            shown.len(),
            rules.join(", "),
            listed.join(", "),
            if shown.len() > SHOWN { ", …" } else { "" }
        ));
    }
    let written = written(files, observed);
    [
        ("documents", documents()),
        ("checks", checks(files)),
        ("results", results),
        ("failures", failures),
        ("written", written),
        ("questions", questions),
    ]
}

/// The table of the documents.
fn documents() -> String {
    let mut out = "| document | what it is | version |\n|---|---|---|\n".to_owned();
    for d in DOCUMENTS {
        out.push_str(&format!("| `{}` | [{}]({}) | {} |\n", d.id, d.title, d.address, d.version));
    }
    out
}

/// The table of what a reader must reject.
fn checks(files: &[File]) -> String {
    let mut out = "| rule | sentence | files |\n|---|---|--:|\n".to_owned();
    for rule in RULES.iter().filter(|rule| rule.verdict == Verdict::Reject) {
        let n = files.iter().filter(|f| f.rules().contains(&rule.id)).count();
        let note = if rule.note.is_empty() { String::new() } else { format!(" {}", rule.note) };
        out.push_str(&format!(
            "| `{}` | {}, {}: “{}”{note} | {n} |\n",
            rule.id, rule.document, rule.section, rule.sentence
        ));
    }
    out
}

/// The table of the writers.
fn written(files: &[File], observed: &Observed) -> String {
    let (models, copies) = (cases::models().len(), files.iter().filter(|f| f.fixed().is_some()).count());
    let mut out = format!(
        "| writer | version | date | models written, of {models} | models refused | other bytes | files copied, of {copies} | files refused | other bytes | crashes |\n\
        |---|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    for row in &observed.written {
        let row: serde_json::Value = serde_json::from_str(row).expect("the line of a writer is JSON");
        let text = |field: &str| row[field].as_str().unwrap_or_default();
        let count = |kind: &str, outcome: &str| {
            let count = &row[kind][outcome];
            count.as_u64().unwrap_or(count.as_array().map_or(0, |names| names.len() as u64))
        };
        // A program may only write, or only copy.
        let of = |kind: &str, outcome: &str| match row[kind].is_null() {
            true => "–".to_owned(),
            false => count(kind, outcome).to_string(),
        };
        let crashes: u64 =
            ["models", "copies"].iter().flat_map(|k| ["crash", "time", "memory"].map(|o| count(k, o))).sum();
        let mut cells = vec![text("writer").to_owned(), text("version").to_owned(), text("date").to_owned()];
        for kind in ["models", "copies"] {
            cells.extend([of(kind, "same"), of(kind, "reject"), of(kind, "differs")]);
        }
        out.push_str(&format!("| {} | {crashes} |\n", cells.join(" | ")));
    }
    out
}

/// The page with its generated parts made anew.
pub fn page(before: &str, files: &[File], observed: &Observed) -> String {
    let mut out = before.to_owned();
    for (name, content) in parts(files, observed) {
        let (start, end) = (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"));
        let Some((head, rest)) = out.split_once(&start) else { panic!("the page has no {start}") };
        let Some((_, tail)) = rest.split_once(&end) else { panic!("the page has no {end}") };
        out = format!("{head}{}{tail}", part(name, &content));
    }
    out
}
