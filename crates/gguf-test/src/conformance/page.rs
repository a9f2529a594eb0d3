//! The generated parts of the page in the book.

use super::rules::{FAMILIES, QUESTIONS, Verdict, family_of};
use super::{File, Observed};

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
fn parts(files: &[File], observed: &Observed) -> [(&'static str, String); 3] {
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
    [("results", results), ("failures", failures), ("questions", questions)]
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
