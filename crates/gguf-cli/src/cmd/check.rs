//! `gguf check`: everything that is wrong with files, as findings of the format's and the model's rules.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gguf_format::check::{At, Report};
use gguf_format::shard::ShardName;
use gguf_format::{Gguf, check as format};
use gguf_io::ModelFile;

use crate::cmd::{offset, within};
use crate::failure::{Failure, Outcome, Verdict};
use crate::findings::{self, Section};
use crate::ui::{ProgressLine, Ui, shown_path};

mod data;

gguf_format::rules! {
    /// Rules about what lies beside the head: the other files and the data.
    RULES:
    DATA_FINITE "data.finite" Error
        "numbers that are finite" "the weights are damaged, or were converted to a type with too small a range"
        "llama-model-loader.cpp, check_tensors";
    DATA_NOT_SCANNED "data.not_scanned" Note
        "data that can be scanned" "mend the other findings first"
        "this program";
    SPLIT_FILE "split.file" Warning
        "all shards of a model, side by side" "fetch the missing shards, or check the file with --structure"
        "llama-model-loader.cpp: shards are looked for beside the first";
}

/// Find everything that is wrong with GGUF files.
///
/// Every finding names its rule, the place, what was found, what is right and what to do. Errors make a file bad;
/// warnings are likely mistakes or what some readers refuse; notes are worth knowing. The files need not be readable as
/// GGUF: what they are instead, and how far they go, is told. Of a model in several shards, all are checked together.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf check model.gguf
  gguf check model.gguf --data             also look for NaN and infinity in the weights
  gguf check upload.bin --structure -q     is it safe to read? the exit code tells
  gguf check *.gguf --json | jq '.files[] | select(.errors > 0).path'")]
pub struct Args {
    /// Files to check
    #[arg(required_unless_present = "rules", conflicts_with = "rules", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Read the tensor data too, and look for NaN and infinity in numbers and block scales
    #[arg(short, long, conflicts_with = "rules")]
    data: bool,

    /// Judge only what any reader needs to read each file safely
    #[arg(short, long, conflicts_with_all = ["data", "rules"])]
    structure: bool,

    #[command(flatten)]
    shown: findings::Options,

    /// The GGUF starts at this byte of the file (0x for hexadecimal)
    #[arg(long, value_name = "OFFSET", default_value = "0", hide_default_value = true, value_parser = offset)]
    at: u64,
}

/// A file that was looked at, and its head as far as it can be used.
struct Checked {
    path: PathBuf,
    report: Report,
    file: Option<ModelFile>,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if self.shown.rules {
            return findings::print_rules(ui, &[format::RULES, gguf_model::check::RULES, RULES], self.shown.json);
        }
        let mut verdict = Verdict::Good;
        let mut all = Vec::new();
        let mut seen: Vec<(PathBuf, u32)> = Vec::new();
        let mut is_first = true;
        for path in &self.files {
            // Of a set of shards that is given as a whole, the first one stands for all.
            if let Some(set) = self.shard_name(path).map(|n| (path.with_file_name(n.prefix), n.number.count())) {
                if seen.contains(&set) {
                    continue;
                }
                seen.push(set);
            }
            match self.check(path) {
                Ok(sections) => {
                    let judged = findings::judge(&sections, self.shown.strict);
                    verdict = verdict.max(judged);
                    if self.shown.json {
                        all.extend(sections);
                    } else if !self.shown.quiet {
                        let printed = if is_first { Ok(()) } else { writeln!(ui.out).map_err(Failure::from) };
                        is_first = false;
                        let shards = match sections.len() {
                            0 | 1 => String::new(),
                            n => format!(" ({} shards)", n - 1),
                        };
                        let subject = format!("{}{shards}", shown_path(path));
                        match printed.and_then(|()| findings::print(ui, &subject, &sections, judged)) {
                            // The verdict counts even if nobody reads the reasons.
                            Ok(()) | Err(Failure::PipeClosed) => {}
                            Err(failure) => return Err(failure),
                        }
                    }
                }
                Err(failure) => {
                    ui.error(&failure);
                    verdict = verdict.max(failure.verdict());
                }
            }
        }
        if self.shown.json {
            match findings::print_json(ui, verdict, &all, &[]) {
                Ok(()) | Err(Failure::PipeClosed) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(verdict)
    }

    /// The name of a file that is a shard of several, unless files are judged one by one.
    fn shard_name<'p>(&self, path: &'p Path) -> Option<ShardName<'p>> {
        let name = ShardName::parse(path.file_name()?.to_str()?)?;
        (name.number.count() > 1 && !self.structure && self.at == 0).then_some(name)
    }

    fn check(&self, path: &Path) -> Result<Vec<Section>, Failure> {
        let mut missing = Report::new();
        let mut paths = vec![path.to_owned()];
        if let Some(name) = self.shard_name(path) {
            let siblings = name.siblings().map(|sibling| path.with_file_name(sibling));
            let (there, lacking): (Vec<_>, Vec<_>) = siblings.partition(|p| p.exists());
            // The file itself may be the only one that is not there, and that is for opening it to say.
            if there.iter().any(|p| p == path) {
                paths = there;
                for path in lacking {
                    missing.add(&SPLIT_FILE, At::File, format_args!("there is no {}", shown_path(&path)));
                }
            }
        }
        let mut checked = paths.into_iter().map(|path| self.head(path)).collect::<Result<Vec<_>, _>>()?;
        if self.data {
            data::scan(&mut checked, &ProgressLine::new(self.shown.quiet))?;
        }
        let mut model = Report::new();
        if !self.structure {
            let heads: Vec<&Gguf<'_>> = checked.iter().filter_map(|c| c.file.as_ref()).map(ModelFile::gguf).collect();
            // What a set of shards lacks cannot be told when one of them cannot be read.
            if heads.len() == checked.len() {
                let first = checked.first().map_or(path, |c| c.path.as_path());
                let name = first.file_name().and_then(|name| name.to_str());
                model = gguf_model::check::model(&heads, name);
            }
            model.append(missing);
        }
        if let [only] = checked.as_mut_slice() {
            only.report.append(std::mem::take(&mut model));
        }
        let mut sections: Vec<Section> =
            checked.into_iter().map(|c| Section { path: Some(c.path), report: c.report }).collect();
        if sections.len() > 1 {
            sections.push(Section { path: None, report: model });
        }
        Ok(sections)
    }

    /// Judges what one file says of itself. What is not GGUF, or not a whole file, is judged as far as it goes.
    fn head(&self, path: PathBuf) -> Result<Checked, Failure> {
        within(&path, self.at)?;
        let judge = if self.structure { format::structure } else { format::format };
        let file = match ModelFile::open_at(&path, self.at) {
            Ok(file) => file,
            Err(gguf_io::Error::Head { .. }) => {
                let report = broken_head(&path, self.at, judge)
                    .map_err(|e| Failure::CouldNotRun(format!("{}: cannot read: {e}", path.display())))?;
                return Ok(Checked { path, report, file: None });
            }
            Err(e) => return Err(e.into()),
        };
        let mut report = judge(file.gguf().bytes(), file.file_bytes());
        if !self.structure {
            let read = |at, buf: &mut [u8]| file.read_at(at, buf).is_ok();
            report.append(format::padding(file.gguf(), file.file_bytes(), read));
        }
        Ok(Checked { path, report, file: Some(file) })
    }
}

/// Judges a file whose head cannot be parsed.
fn broken_head(path: &Path, at: u64, judge: fn(&[u8], u64) -> Report) -> std::io::Result<Report> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len().saturating_sub(at);
    file.seek(SeekFrom::Start(at))?;
    let head = gguf_io::read_head(&mut file, Some(file_bytes))?;
    Ok(judge(head.bytes(), file_bytes))
}
