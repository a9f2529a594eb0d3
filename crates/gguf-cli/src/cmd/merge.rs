//! `gguf merge`: joins the shards of a model, or the pieces of a file, into one file.

use std::io::Write;
use std::path::PathBuf;

use gguf_edit::join::is_piece;
use gguf_edit::{Join, Merge};
use gguf_io::ModelFile;
use gguf_io::in_place::EditLock;
use serde::Serialize;

use super::preflight;
use super::set::lock;
use super::split::not_everything;
use super::writing::{Writing, print_written, tensors};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, grouped, shown_path, size};
use crate::watch::Watch;

/// Merge the shards of a model, or the pieces of a file, into one file.
///
/// Pass any shard; the other shards are found in the same folder. Files that were cut into pieces of bytes, as by
/// split(1), are recognized by their names (model.gguf.part1of2, model.gguf-split-a, model.gguf.partaa,
/// model.gguf.001); pieces with other names are joined in the given order.
///
/// Merging undoes `gguf split` byte for byte, and llama-gguf-split up to the padding of the file. The output appears
/// under its final name once it is complete and synced to disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf merge model-00001-of-00003.gguf -o model.gguf
  gguf merge model-*-of-00003.gguf -o model.gguf
  gguf merge model.gguf.part1of2 -o model.gguf
  gguf merge model-00001-of-00003.gguf -o model.gguf --delete-input   delete the shards after verification")]
pub struct Args {
    /// Any shard, all shards, or all pieces
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Output file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// Print the plan without writing anything
    #[arg(short = 'n', long, conflicts_with = "hash")]
    dry_run: bool,

    /// Read the output back and compare it with the input
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,

    /// Delete the input after the output is read back and verified
    #[arg(long, conflicts_with = "dry_run")]
    delete_input: bool,

    #[command(flatten)]
    writing: Writing,
}

#[derive(Serialize)]
struct JsonMerge<'a> {
    inputs: Vec<json::Text<'a>>,
    kind: &'static str,
    output: json::Text<'a>,
    bytes: u64,
    n_tensors: u64,
    restores_layout: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::not_stdout("-o", &self.output)?;
        if let Some(join) = self.pieces()? {
            return self.join(ui, &join);
        }
        let Some(input) = self.inputs.first() else { return Ok(Verdict::CouldNotRun) };
        let model = open::model(input)?;
        gguf_edit::merge::belong_together(&model, &self.inputs)?;
        let merge = gguf_edit::merge(model)?;
        self.warn(ui, &merge);
        if self.dry_run {
            let Merge { plan, shards, restores_layout, .. } = &merge;
            let n_tensors = plan.tensors().len() as u64;
            let shown = self.show(ui, "shards", shards, plan.file_bytes(), n_tensors, *restores_layout)?;
            return Ok(shown.max(self.writing.check_outputs(ui, plan, &self.output)?));
        }
        if self.delete_input && !(merge.lost.is_empty() && merge.lost_keys.is_empty()) {
            return Err(not_everything(input));
        }
        let done = format!("{} shards merged", grouped(merge.shards.len() as u64));
        self.writing.run(ui, &merge.plan, &self.output, &done)?;
        if self.verify || self.delete_input {
            let _locks = self.lock(ui, &merge.shards)?;
            let watch = Watch::new(self.writing.quiet);
            let verified = gguf_edit::merge::verify(open::model(input)?, &self.output, self.writing.threads, &watch);
            watch.clear();
            verified?;
            self.writing.say(ui, &watch, merge.plan.tensors().len() as u64, merge.plan.file_bytes(), "verified");
            self.delete(&merge.shards)?;
        }
        Ok(Verdict::Good)
    }

    fn warn(&self, ui: &mut Ui, merge: &Merge) {
        if let Some((path, key)) = merge.lost_keys.first() {
            let path = shown_path(path);
            let more = match merge.lost_keys.len() - 1 {
                0 => String::new(),
                n => format!(" and {} more", grouped(n as u64)),
            };
            ui.warning(&format!("{path}: only the keys of the first shard are kept; dropped: {key}{more}"));
        }
        if let Some((path, range)) = merge.lost.first() {
            let bytes = merge.lost.iter().map(|(_, range)| range.end - range.start).sum();
            ui.warning(&format!(
                "{}: {} bytes outside all tensors are not zero, the first at byte {}; they are dropped",
                shown_path(path),
                grouped(bytes),
                range.start,
            ));
        }
    }

    /// Plans a join if the inputs are pieces of one file: either all have names of pieces, or there are several and none after the first
    /// is a GGUF file.
    fn pieces(&self) -> Result<Option<Join>, Failure> {
        if self.inputs.iter().any(|path| open::is_url(path)) {
            return Ok(None);
        }
        if self.inputs.iter().all(|path| is_piece(path)) {
            return Ok(Some(gguf_edit::join(&self.inputs)?));
        }
        let [_, others @ ..] = self.inputs.as_slice() else { return Ok(None) };
        let is_gguf = |path: &PathBuf| !matches!(ModelFile::open(path), Err(gguf_io::Error::Head { .. }));
        match others.is_empty() || others.iter().any(is_gguf) {
            true => Ok(None),
            false => Ok(Some(gguf_edit::join(&self.inputs)?)),
        }
    }

    fn join(&self, ui: &mut Ui, join: &Join) -> Outcome {
        if self.dry_run {
            let shown = self.show(ui, "pieces", &join.pieces, join.file_bytes, join.n_tensors, false)?;
            let rooms = gguf_io::disk_space([(self.output.as_path(), join.file_bytes)].into_iter());
            return Ok(match join.check_output(&self.output, self.writing.force) {
                Ok(()) => shown.max(preflight::check_disk_space(ui, &rooms)),
                Err(e) => {
                    let failure = Failure::from(e);
                    ui.error(&failure);
                    shown.max(failure.verdict())
                }
            });
        }
        let watch = Watch::new(self.writing.quiet);
        let result = join.run(&self.output, self.writing.force, self.writing.threads, &watch);
        watch.clear();
        result?;
        let done = format!("{} pieces joined", grouped(join.pieces.len() as u64));
        self.writing.say(ui, &watch, join.n_tensors, join.file_bytes, &done);
        print_written(ui, std::slice::from_ref(&self.output), self.writing.hashing())?;
        if self.verify || self.delete_input {
            let _locks = self.lock(ui, &join.pieces)?;
            let watch = Watch::new(self.writing.quiet);
            let verified = join.verify(&self.output, self.writing.threads, &watch);
            watch.clear();
            verified?;
            self.writing.say(ui, &watch, join.n_tensors, join.file_bytes, "verified");
            self.delete(&join.pieces)?;
        }
        Ok(Verdict::Good)
    }

    /// Locks the inputs that are deleted at the end, so that no process edits them after they were verified.
    fn lock(&self, ui: &mut Ui, inputs: &[PathBuf]) -> Result<Vec<EditLock>, Failure> {
        let inputs = if self.delete_input { inputs } else { &[] };
        Ok(inputs.iter().map(|path| lock(ui, path, self.writing.quiet)).collect::<Result<_, _>>()?)
    }

    fn delete(&self, inputs: &[PathBuf]) -> Result<(), Failure> {
        if self.delete_input {
            gguf_edit::merge::remove(inputs)?;
        }
        Ok(())
    }

    fn show(
        &self,
        ui: &mut Ui,
        kind: &'static str,
        inputs: &[PathBuf],
        bytes: u64,
        n_tensors: u64,
        restores_layout: bool,
    ) -> Outcome {
        if self.writing.json {
            let document = JsonMerge {
                inputs: inputs.iter().map(|path| json::path(path)).collect(),
                kind,
                output: json::path(&self.output),
                bytes,
                n_tensors,
                restores_layout,
            };
            json::print(ui, 2, &document)?;
            return Ok(Verdict::Good);
        }
        for input in inputs {
            ui.print_path(input)?;
        }
        let (n, n_tensors) = (grouped(inputs.len() as u64), tensors(n_tensors));
        writeln!(ui.out, "\n{n} {kind}: {n_tensors}, {} ({} bytes)", size(bytes), grouped(bytes))?;
        Ok(Verdict::Good)
    }
}
