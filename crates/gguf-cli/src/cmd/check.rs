//! `gguf check`: validates files by the rules of the format and of the models.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gguf_format::check::Report;
use gguf_format::shard::ShardName;
use gguf_pipeline::Progress;
use ggufkit::{Check, CheckOptions};

use crate::cmd::html::HtmlOptions;
use crate::cmd::{offset, within};
use crate::failure::{Failure, Outcome, Verdict};
use crate::findings::{self, Judged, Section};
use crate::hints;
use crate::open;
use crate::stdin;
use crate::ui::{Ui, shown_path};
use crate::watch::Watch;

/// Validate GGUF files and report every problem.
///
/// Each finding names the rule, the place, the value found, the value expected and a remedy. Errors make a file bad;
/// warnings are likely mistakes, or content that some readers reject; notes are for information. Files that are not
/// GGUF are identified where possible, and truncated files are checked as far as they go. All shards of a split model
/// are checked together.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf check model.gguf
  gguf check model.gguf --data             also search the weights for NaN and infinity
  gguf check model.gguf --html check.html  the findings as a page
  gguf check upload.bin --structure -q     exit code 0 if the file is safe to read
  gguf check *.gguf --json | jq '.files[] | select(.errors > 0).path'")]
pub struct Args {
    /// Files to check; - for standard input, whose data is only counted
    #[arg(required_unless_present = "rules", conflicts_with = "rules", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Also read the tensor data: search numbers and block scales for NaN and infinity, and matrices for zeros
    #[arg(short, long, conflicts_with = "rules")]
    data: bool,

    /// Check only the structure: whether any reader can read the file safely
    #[arg(short, long, conflicts_with_all = ["data", "rules"])]
    structure: bool,

    #[command(flatten)]
    shown: findings::Options,

    #[command(flatten)]
    html: HtmlOptions,

    /// Byte offset at which the GGUF starts in the file (0x for hexadecimal)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true, value_parser = offset)]
    at: u64,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if self.shown.rules {
            return findings::print_rules(ui, Check::RULES, self.shown.json);
        }
        if self.files.iter().filter(|path| stdin::is_stdin(path)).count() > 1 {
            return Err(Failure::CouldNotRun("-: standard input is read once; pass - once".to_owned()));
        }
        self.html.check(&self.files)?;
        let watch = self.data.then(|| Watch::new(self.shown.quiet));
        let mut verdict = Verdict::Good;
        let (mut all, mut inputs) = (Vec::new(), self.files.clone());
        let mut seen: Vec<(PathBuf, u32)> = Vec::new();
        let mut noted = HashSet::new();
        for path in &self.files {
            // If the shards of a set are passed one by one, the first one represents the set.
            if let Some(set) = self.shard_name(path).map(|n| (path.with_file_name(n.prefix), n.number.count())) {
                if seen.contains(&set) {
                    continue;
                }
                seen.push(set);
            }
            match self.check(path, watch.as_ref()) {
                Ok(check) => {
                    let sections = sections(&check);
                    inputs.extend(check.files().iter().map(|(path, _)| path.clone()));
                    let is_other = |section: &Section| section.report.codes().any(|code| code == "file.kind");
                    if !self.shown.quiet
                        && self.at == 0
                        && sections.iter().any(is_other)
                        && let Some(found) = hints::legacy(path)
                    {
                        ui.note(&format!("{}: {}; {}", shown_path(path), found.what, found.remedy));
                    }
                    let found_verdict = findings::verdict(&sections, self.shown.strict);
                    verdict = verdict.max(found_verdict);
                    if !self.shown.quiet && !self.shown.json {
                        let shards = match sections.len() {
                            0 | 1 => String::new(),
                            n => format!(" ({} shards)", n - 1),
                        };
                        let subject = format!("{}{shards}", shown_path(path));
                        let printed = match self.files.len() {
                            1 => findings::print(ui, &subject, &sections, found_verdict),
                            _ => findings::print_of_several(ui, &subject, &sections, found_verdict, &mut noted),
                        };
                        match printed {
                            // The exit code is the same even if nobody reads the findings.
                            Ok(()) | Err(Failure::PipeClosed) => {}
                            Err(failure) => return Err(failure),
                        }
                    }
                    if self.shown.json || self.html.is_requested() {
                        all.extend(sections.into_iter().map(Judged::Section));
                    }
                }
                Err(_) if watch.as_ref().is_some_and(Watch::is_cancelled) => {
                    return Err(Failure::CouldNotRun("interrupted".to_owned()));
                }
                Err(failure) => {
                    ui.error(&failure);
                    verdict = verdict.max(failure.verdict());
                    all.push(Judged::Unopened(path.clone(), failure));
                }
            }
        }
        self.html.write(&inputs, "gguf.check/1", &findings::document(verdict, &all))?;
        if self.shown.json {
            match findings::print_json(ui, verdict, &all, &[]) {
                Ok(()) | Err(Failure::PipeClosed) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(verdict)
    }

    /// The parsed shard name of a file; `None` if the file is not a shard, or if files are checked individually.
    fn shard_name<'p>(&self, path: &'p Path) -> Option<ShardName<'p>> {
        let name = ShardName::parse(path.file_name()?.to_str()?)?;
        (name.number.count() > 1 && !self.structure && self.at == 0).then_some(name)
    }

    fn check(&self, path: &Path, watch: Option<&Watch>) -> Result<Check, Failure> {
        if stdin::is_stdin(path) {
            return self.check_stdin();
        }
        within(path, self.at)?;
        let options = CheckOptions::default().structure(self.structure).start(self.at);
        let check = match (watch, open::opener(path)?) {
            (None, None) => ggufkit::check_with(path, &options),
            (None, Some((path, open))) => ggufkit::check_by(path, &*open, &options),
            (Some(watch), None) => ggufkit::check_data(path, &options, watch),
            (Some(watch), Some((path, open))) => ggufkit::check_data_by(path, &*open, &options, watch),
        };
        if let Some(watch) = watch {
            watch.clear();
        }
        Ok(check?)
    }
}

impl Args {
    /// Checks the model on standard input. The head is kept in memory and the data is only counted.
    fn check_stdin(&self) -> Result<Check, Failure> {
        if self.data || self.at > 0 {
            let option = if self.data { "--data" } else { "--at" };
            return Err(Failure::CouldNotRun(format!("-: standard input is read once, from its start; omit {option}")));
        }
        let options = CheckOptions::default().structure(self.structure);
        Ok(ggufkit::check_stream(&mut std::io::stdin().lock(), stdin::NAME, &options)?)
    }
}

/// The findings of each file, followed by those that concern all shards. A model in one file has one section.
fn sections(check: &Check) -> Vec<Section> {
    let of_file = |(path, report): &(PathBuf, Report)| Section { paths: vec![path.clone()], report: report.clone() };
    let mut sections: Vec<Section> = check.files().iter().map(of_file).collect();
    match sections.as_mut_slice() {
        [only] => only.report.append(check.model().clone()),
        _ => {
            let paths = check.files().iter().map(|(path, _)| path.clone()).collect();
            sections.push(Section { paths, report: check.model().clone() });
        }
    }
    sections
}
