//! Small files of every container and architecture: recognised, whole or cut short, and migrated.

use std::path::Path;

use gguf_format::Gguf;
use gguf_legacy::{Answers, Error, Input, LegacyFile, Options, recognise_source};
use gguf_test::legacy::{self, Legacy};

fn open(file: &Legacy) -> Result<LegacyFile, Error> {
    LegacyFile::from_source(Path::new("model.bin"), Box::new(file.bytes.clone()), None, none)
}

fn none(path: &Path) -> Result<gguf_legacy::Bytes, Error> {
    panic!("{} was looked for", path.display())
}

fn accept() -> Answers {
    let mut answers = Answers::default();
    answers.accept = true;
    answers
}

/// The migrated file.
fn migrate(file: &Legacy) -> Vec<u8> {
    let input = Input::Legacy(Box::new(open(file).unwrap_or_else(|e| panic!("{}: {e}", file.name))));
    let options = Options::default();
    let migration = gguf_legacy::plan(input, &accept(), &options, &()).unwrap_or_else(|e| panic!("{}: {e}", file.name));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.gguf");
    migration.plan.run(&out, &Default::default(), &()).unwrap_or_else(|e| panic!("{}: {e}", file.name));
    std::fs::read(out).unwrap()
}

#[test]
fn every_kind_is_recognised_by_its_bytes() {
    for file in legacy::all() {
        let found = recognise_source(&file.bytes).unwrap().unwrap_or_else(|| panic!("{}", file.name));
        assert_eq!(found.problem, None, "{}", file.name);
        let names: Vec<&str> = found.families.iter().map(|family| family.name()).collect();
        assert_eq!(names, [file.family], "{}: {found}", file.name);
        assert_eq!(open(&file).unwrap().family().name(), file.family);
    }
}

#[test]
fn what_is_cut_short_is_recognised_as_far_as_it_goes() {
    for file in legacy::all() {
        let start = file.tensors[0];
        // Behind the first tensor's head nothing else is possible; StarCoder shows by its tokens.
        let first_end = *file.tensors.get(1).unwrap();
        // In the head of each tensor, and here and there in the data.
        let cuts = (4..start.min(600)).step_by(7).chain((start..file.bytes.len()).step_by(file.bytes.len() / 97));
        for n in cuts.chain(file.tensors.iter().flat_map(|&at| [at + 3, at + 9, at + 20])) {
            if file.tensors.contains(&n) {
                continue;
            }
            let cut = file.bytes[..n].to_vec();
            let Some(found) = recognise_source(&cut).unwrap() else {
                // Not even the version is there.
                assert!(n < 8, "{} {n}", file.name);
                continue;
            };
            let problem = found.problem.clone().unwrap_or_else(|| panic!("{} {n}: {found}", file.name));
            assert!(problem.is_truncated(), "{} {n}: {found}", file.name);
            let names: Vec<&str> = found.families.iter().map(|family| family.name()).collect();
            if n >= first_end {
                assert_eq!(names, [file.family], "{} {n}", file.name);
                assert!(found.n_tensors >= 1, "{} {n}", file.name);
            } else if n >= start {
                assert!(names.contains(&file.family), "{} {n}: {names:?}", file.name);
            }
            let error = open(&Legacy { bytes: cut, ..file.clone() }).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("byte "), "{} {n}: {error}", file.name);
        }
    }
}

#[test]
fn every_kind_migrates_to_a_sound_file() {
    for file in legacy::all() {
        let bytes = migrate(&file);
        let gguf = Gguf::parse(&bytes).unwrap();
        let report = gguf_format::check::structure(&bytes, bytes.len() as u64);
        assert!(report.is_safe(), "{}: {:?}", file.name, report.codes().collect::<Vec<_>>());
        let report = gguf_model::check::model(&[&gguf], None);
        let errors: Vec<String> = report
            .findings()
            .filter(|f| f.severity == gguf_format::check::Severity::Error)
            .map(|f| f.to_string())
            .collect();
        // rwkv.cpp has its vocabulary apart.
        let expected = usize::from(file.family == "rwkv");
        assert_eq!(errors.len(), expected, "{}: {errors:?}", file.name);
    }
}
