//! `gguf split`: splits a model into shards.

use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use gguf_edit::{Limit, Split, SplitOptions};
use gguf_format::Str;
use gguf_pipeline::Plan;
use serde::Serialize;

use super::output::{path_of, warn_too_large};
use super::set::lock;
use super::size::parse_limit;
use super::writing::{OutOption, Writing, tensors};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Column, Style, Table, Ui, grouped, shown_path, size};
use crate::watch::Watch;

/// Split a model into shards, or change the shards of a split model.
///
/// The shards are named PREFIX-00001-of-00003.gguf and so on. With --split-max-tensors and --split-max-size, they are
/// byte-identical to those of llama-gguf-split. --max-file-size limits the whole file, including metadata, and no shard
/// exceeds it. llama.cpp loads the model from the first shard. The shards appear under their final names once all of
/// them are complete and synced to disk.
///
/// `gguf merge` restores the original file byte for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf split model.gguf model --split-max-size 4GB
  gguf split model.gguf model --max-file-size 2GiB --no-tensor-first-split
  gguf split model-00001-of-00009.gguf fewer --split-max-size 20GB     change the shards
  gguf split model.gguf model --split-max-tensors 128 --dry-run        print the shards
  gguf split model.gguf model --split-max-size 4GB --delete-input      delete the model after verification")]
#[command(group = clap::ArgGroup::new("limit").required(true))]
pub struct Args {
    /// GGUF model; any shard of a split model
    input: PathBuf,

    /// Prefix of the shard names; or use --output
    #[arg(required_unless_present = "output")]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    option: OutOption,

    /// Maximum number of tensors per shard
    #[arg(
        long, value_name = "N", alias = "max-tensors", group = "limit",
        value_parser = crate::cmd::at_least_one::<NonZeroU64>
    )]
    split_max_tensors: Option<NonZeroU64>,

    /// Maximum size of the tensor data per shard, such as 4GB or 500MB, without metadata, as in llama-gguf-split; a
    /// larger tensor gets its own shard
    #[arg(long, value_name = "SIZE", alias = "max-size", value_parser = parse_limit, group = "limit")]
    split_max_size: Option<NonZeroU64>,

    /// Maximum file size of a shard, such as 2GiB, including metadata
    #[arg(long, value_name = "SIZE", value_parser = parse_limit, group = "limit")]
    max_file_size: Option<NonZeroU64>,

    /// Write no tensors to the first shard
    #[arg(long)]
    no_tensor_first_split: bool,

    /// Print the plan without writing anything
    #[arg(short = 'n', long, conflicts_with = "hash")]
    dry_run: bool,

    /// Read the shards back and compare them with the input
    #[arg(long, conflicts_with = "dry_run")]
    verify: bool,

    /// Delete the input after the shards are read back and verified
    #[arg(long, conflicts_with = "dry_run")]
    delete_input: bool,

    #[command(flatten)]
    writing: Writing,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let prefix = self.option.or(self.prefix.as_deref())?.unwrap_or(Path::new(""));
        check_prefix(prefix)?;
        let limit = match (self.split_max_tensors, self.split_max_size, self.max_file_size) {
            (Some(n), ..) => Limit::Tensors(n),
            (_, Some(bytes), _) => Limit::DataBytes(bytes),
            (_, _, Some(bytes)) => Limit::FileBytes(bytes),
            // clap requires one of these options.
            _ => {
                return Err(Failure::CouldNotRun(
                    "pass --split-max-tensors, --split-max-size or --max-file-size".to_owned(),
                ));
            }
        };
        let options = SplitOptions::new(limit).no_tensor_first(self.no_tensor_first_split);
        let split = gguf_edit::split(open::model(&self.input)?, &options)?;
        self.warn(ui, &split);
        if self.dry_run {
            let shown = self.show(ui, &split.plan, &path_of(prefix, &split.plan)?)?;
            return Ok(shown.max(self.writing.check_outputs(ui, &split.plan, prefix)?));
        }
        if self.delete_input && !split.lost.is_empty() {
            return Err(not_everything(&self.input));
        }
        let n_files = split.plan.files().len() as u64;
        let done = format!("{} shard{}", grouped(n_files), if n_files == 1 { "" } else { "s" });
        let paths = self.writing.run(ui, &split.plan, prefix, &done)?;
        if let (true, Some(first)) = (self.verify || self.delete_input, paths.first()) {
            // Locks the inputs that are deleted at the end, so that no process edits them after they were verified.
            let inputs = if self.delete_input { split.inputs.as_slice() } else { &[] };
            let locks = inputs.iter().map(|path| lock(ui, path, self.writing.quiet));
            let _locks = locks.collect::<Result<Vec<_>, _>>()?;
            let watch = Watch::new(self.writing.quiet);
            let verified = gguf_edit::merge::verify(open::model(&self.input)?, first, self.writing.threads, &watch);
            watch.clear();
            verified?;
            self.writing.say(ui, &watch, split.plan.tensors().len() as u64, split.plan.file_bytes(), "verified");
            if self.delete_input {
                gguf_edit::merge::remove(&split.inputs)?;
            }
        }
        Ok(Verdict::Good)
    }

    fn warn(&self, ui: &mut Ui, split: &Split) {
        let input = shown_path(&self.input);
        warn_too_large(ui, &split.too_large);
        if let Some(first) = split.lost.first() {
            let bytes = split.lost.iter().map(|range| range.end - range.start).sum();
            ui.warning(&format!(
                "{input}: {} bytes outside all tensors are not zero, the first at byte {}; they are dropped, and merging \
                    the shards will not restore them",
                grouped(bytes),
                first.start,
            ));
        }
        if split.notes_layout && !self.writing.quiet {
            ui.note(&format!(
                "{input}: non-standard layout; it is recorded in the first shard ({}) so that merging restores the same file",
                gguf_pipeline::UNSPLIT_HEAD
            ));
        }
    }

    fn show(&self, ui: &mut Ui, plan: &Plan, prefix: &Path) -> Outcome {
        let paths = plan.output_paths(prefix);
        if self.writing.json {
            let shards = paths.iter().zip(plan.files()).map(|(path, file)| JsonShard {
                path: json::path(path),
                bytes: file.file_bytes(),
                head_bytes: file.head_bytes(),
                tensors: names(plan, file.tensors()),
            });
            let document = JsonSplit { bytes: plan.file_bytes(), shards: shards.collect() };
            json::print(ui, 3, &document)?;
            return Ok(Verdict::Good);
        }
        let mut table = Table::new([
            Column::name("SHARD").styled(Style::Cyan),
            Column::right("TENSORS"),
            Column::right("BYTES"),
            Column::name("FIRST TENSOR").styled(Style::Dim).left_out(1),
        ]);
        for (path, file) in paths.iter().zip(plan.files()) {
            let range = file.tensors();
            let first = plan.tensors().get(range.clone()).and_then(|tensors| tensors.first());
            let first = first.map_or(String::new(), gguf_pipeline::TensorPlan::shown);
            table.row([shown_path(path), grouped(range.len() as u64), ui.bytes(file.file_bytes()), first]);
        }
        table.print(ui, 0)?;
        let n_tensors = tensors(plan.tensors().len() as u64);
        writeln!(ui.out, "\n{n_tensors}, {} ({} bytes)", size(plan.file_bytes()), grouped(plan.file_bytes()))?;
        Ok(Verdict::Good)
    }
}

fn names(plan: &Plan, range: std::ops::Range<usize>) -> Vec<json::Text<'_>> {
    let tensors = plan.tensors().get(range).unwrap_or_default();
    tensors.iter().map(|tensor| json::Text(Str(&tensor.name))).collect()
}

#[derive(Serialize)]
struct JsonSplit<'a> {
    bytes: u64,
    shards: Vec<JsonShard<'a>>,
}

#[derive(Serialize)]
struct JsonShard<'a> {
    path: json::Text<'a>,
    bytes: u64,
    head_bytes: u64,
    tensors: Vec<json::Text<'a>>,
}

/// The failure reported if the input is not deleted because the output does not contain all of it.
pub fn not_everything(input: &Path) -> Failure {
    Failure::Bad(format!(
        "{}: cannot be deleted, because the output does not contain all of it; omit --delete-input",
        input.display()
    ))
}

/// Checks that a path can be a prefix of shard names.
///
/// # Errors
/// If it names a folder or standard output.
pub fn check_prefix(prefix: &Path) -> Result<(), Failure> {
    super::not_stdout("PREFIX", prefix)?;
    let text = prefix.to_string_lossy();
    let last = text.rsplit(std::path::is_separator).next();
    if matches!(last, None | Some("" | "." | "..")) || prefix.is_dir() {
        return Err(Failure::CouldNotRun(format!(
            "{text}: is a folder; expected a prefix for the shard names, such as {}",
            prefix.join("model").display()
        )));
    }
    Ok(())
}
