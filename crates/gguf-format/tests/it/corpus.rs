//! Every file of the corpus gives the expected results of reading, checking and all accessors.

use std::collections::BTreeSet;

use gguf_format::check;
use gguf_format::{Error, Gguf, Problem};
use gguf_test::corpus;
use gguf_test::corpus::{Case, Reading, accessors};

fn reading(result: Result<Gguf<'_>, Error>) -> Reading {
    let error = match result {
        Ok(_) => return Reading::Sound,
        Err(e) => e,
    };
    match error.problem {
        Problem::PastEnd { .. } => Reading::PastEnd,
        Problem::NotGguf(_) => Reading::NotGguf,
        Problem::UnknownVersion(_) => Reading::UnknownVersion,
        Problem::UnknownValueType(_) => Reading::UnknownValueType,
        Problem::TooDeep => Reading::TooDeep,
        Problem::Alignment(_) => Reading::Alignment,
        Problem::DraftLength { .. } => Reading::DraftLength,
        Problem::DraftElements { .. } => Reading::DraftElements,
        Problem::DraftPadding => Reading::DraftPadding,
        Problem::Truncated { .. } => Reading::PastEnd,
        problem => panic!("a problem without a reading: {problem}"),
    }
}

/// The deviations of a case from its expected results.
fn judge(case: &Case) -> Vec<String> {
    let mut wrong = vec![];
    let result = Gguf::parse_within(&case.bytes, Some(case.file_bytes));
    if let Ok(gguf) = &result {
        accessors::exercise(gguf);
        accessors::round_trip(gguf);
    }
    let said = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    assert!(result.as_ref().err().is_none_or(|e| e.need().is_none()), "{}: the length is known, and {said}", case.name);
    let got = reading(result);
    if got != case.reading {
        wrong.push(format!("reading gave {got:?} ({said}), not {:?}", case.reading));
    }
    // Without the file's length the same head is read, and missing bytes may be requested.
    match (Gguf::parse(&case.bytes), case.reading) {
        (Ok(gguf), Reading::Sound) => accessors::exercise(&gguf),
        // After a wrong length, the following fields may fail in another way.
        (Err(e), Reading::PastEnd | Reading::NotGguf) => {
            assert!(e.need().is_none_or(|need| need > case.bytes.len() as u64), "{}: {e}", case.name);
        }
        (result, expected) => {
            let got = reading(result);
            if got != expected {
                wrong.push(format!("reading without the file's length gave {got:?}, not {expected:?}"));
            }
        }
    }
    let report = check::structure(&case.bytes, case.file_bytes);
    let codes: Vec<_> = report.codes().collect();
    if codes != case.codes {
        let found: Vec<String> = report.findings().map(|f| f.to_string()).collect();
        wrong.push(format!("found {codes:?}, not {:?}: {}", case.codes, found.join("; ")));
    }
    // Sharing data is safe if the reader expects it, so it is reported.
    if report.is_safe() != case.codes.iter().all(|code| *code == "tensor.shared") {
        wrong.push(format!("safe: {}", report.is_safe()));
    }
    for finding in report.findings() {
        let may_warn = finding.code == "tensor.shared";
        assert!(
            finding.structural && (may_warn || finding.severity == check::Severity::Error),
            "{}: {finding}",
            case.name
        );
        assert!(!finding.to_string().contains(char::is_control), "{}: {finding:?}", case.name);
    }
    // The full check has at least the same findings, and possibly more.
    let all = check::format(&case.bytes, case.file_bytes);
    if let Some(code) = case.codes.iter().find(|code| report.count_of(code) != all.count_of(code)) {
        wrong.push(format!("the full check counts {} {code}, not {}", all.count_of(code), report.count_of(code)));
    }
    wrong
}

#[test]
fn every_case_is_read_and_judged_as_expected() {
    let cases = corpus::all();
    assert!(cases.len() >= 300, "{} cases", cases.len());
    let names: BTreeSet<&str> = cases.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "names are unique");
    let mut wrong = 0;
    for case in &cases {
        let problems = std::panic::catch_unwind(|| judge(case)).unwrap_or_else(|_| vec!["panics".into()]);
        wrong += usize::from(!problems.is_empty());
        for problem in problems {
            println!("{}: {problem}", case.name);
        }
    }
    assert!(wrong == 0, "{wrong} of {} cases are not as expected", cases.len());
}

#[test]
fn every_structural_rule_is_met_by_a_case() {
    let found: BTreeSet<&str> = corpus::all().into_iter().flat_map(|c| c.codes).collect();
    for rule in check::RULES.iter().filter(|r| r.structural && r.code != "input.short") {
        assert!(found.contains(rule.code), "no case has {}", rule.code);
    }
}
