//! `gguf imatrix merge` and `gguf imatrix convert`. Converting is merging a single matrix.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gguf_format::Str;
use gguf_pipeline::Progress;
use gguf_quantize::imatrix::{DEFAULT_CHUNK_SIZE, Format, Imatrix, ImatrixFile, Merge};

use crate::cmd::writing::{Hashing, Out, print_written};
use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::{Ui, grouped, number, shown_path};
use crate::watch::Watch;

/// Maximum number of names in a message.
const LISTED: usize = 5;

/// Counts above this value are rounded, because they are stored as single-precision floats.
const EXACT: i64 = 1 << 24;

/// Merge importance matrices of one model.
///
/// The output is byte-identical to that of llama-imatrix --in-file A --in-file B, if its --ctx-size is the chunk size
/// here. Sums and counts are added in the order of the files; entries found only in some files are kept; the datasets
/// of all files are listed. Formats may be mixed. The path of the output goes to standard output; warnings and errors
/// go to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf imatrix merge english.gguf code.gguf -o both.gguf
  gguf imatrix merge old.dat new.gguf -o both.gguf --chunk-size 512
  gguf imatrix merge a.gguf b.gguf -o both.dat        write the older format")]
pub struct MergeArgs {
    /// Importance matrices (GGUF or .dat) of the same model
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Output file
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    options: Options,
}

/// Convert an importance matrix to the other format.
///
/// Data that the other format cannot represent is reported. Conversion from .dat to GGUF keeps the weights used for
/// quantizing, exactly if the chunk size is a power of two; conversion from GGUF to .dat rounds them again.
/// Converting GGUF to GGUF adds the keys that llama-quantize requires.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf imatrix convert imatrix.dat imatrix.gguf
  gguf imatrix convert imatrix.gguf imatrix.dat
  gguf imatrix convert model.imatrix new.gguf --chunk-size 512")]
pub struct ConvertArgs {
    /// Importance matrix (GGUF or .dat)
    #[arg(value_name = "IN")]
    input: PathBuf,

    #[command(flatten)]
    out: Out,

    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Output format; by default, from the extension of the output: .gguf or .dat
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    format: Option<Format>,

    /// Tokens per chunk, both of the output and of .dat files, which do not record it; by default, the first chunk size
    /// recorded in an input, otherwise 512
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: Option<u32>,

    /// Overwrite existing output
    #[arg(short, long)]
    force: bool,

    /// Print one JSON object with the written file
    #[arg(long)]
    json: bool,

    /// Print no summary
    #[arg(short, long)]
    quiet: bool,
}

pub fn format() -> impl TypedValueParser<Value = Format> {
    let named = |name: String| if name == "dat" { Format::Legacy } else { Format::Gguf };
    PossibleValuesParser::new(["gguf", "dat"]).map(named)
}

/// The format of an output: the given one, or that of its extension.
pub fn format_of(given: Option<Format>, out: &Path) -> Result<Format, Failure> {
    let extension = out.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match (given, extension.as_str()) {
        (Some(format), _) => Ok(format),
        (None, "gguf") => Ok(Format::Gguf),
        (None, "dat") => Ok(Format::Legacy),
        (None, _) => Err(Failure::CouldNotRun(format!(
            "{}: unknown output format; use the extension .gguf or .dat, or pass --format",
            out.display()
        ))),
    }
}

impl MergeArgs {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let format = self.options.format_of(&self.output)?;
        let mut seen = HashSet::new();
        for path in &self.files {
            if path.canonicalize().is_ok_and(|real| !seen.insert(real)) {
                ui.warning(&format!("{}: listed more than once; it is added each time", shown_path(path)));
            }
        }
        let matrices: Vec<ImatrixFile> = self.files.iter().map(|path| open::matrix(path)).collect::<Result<_, _>>()?;
        self.options.write(ui, &matrices, format, &self.output)
    }
}

impl ConvertArgs {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let out = self.out.path()?;
        let format = self.options.format_of(out)?;
        self.options.write(ui, &[open::matrix(&self.input)?], format, out)
    }
}

impl Options {
    fn format_of(&self, out: &Path) -> Result<Format, Failure> {
        format_of(self.format, out)
    }

    fn write(&self, ui: &mut Ui, matrices: &[ImatrixFile], format: Format, out: &Path) -> Outcome {
        if !self.force && out.symlink_metadata().is_ok() {
            return Err(Failure::exists(out));
        }
        let watch = Watch::new(self.quiet);
        let is_old = |m: &ImatrixFile| m.format() == Format::Legacy;
        let matrix = match matrices {
            // Converting means to sums and back would only round them.
            [only] if is_old(only) && format == Format::Legacy => only.must_be_sound().and_then(|()| only.load())?,
            _ => {
                let size = self.size_of_chunks(ui, matrices);
                warn_of_uncounted(ui, matrices);
                let sum = merged(matrices, size, &watch)?;
                if format == Format::Legacy { old_format(ui, sum)? } else { sum }
            }
        };
        if format == Format::Gguf {
            warn_of_rounded(ui, &matrix);
        }
        let inputs: Vec<&Path> = matrices.iter().filter_map(ImatrixFile::path).collect();
        matrix.write_file(out, &inputs, self.force, &watch)?;
        if !self.quiet {
            ui.note(&summary(matrices.len(), &matrix));
        }
        print_written(ui, &[out.to_owned()], Hashing::default())?;
        Ok(Verdict::Good)
    }

    /// The number of tokens per chunk. Prints a warning if it is assumed, or if the files have different sizes.
    fn size_of_chunks(&self, ui: &mut Ui, matrices: &[ImatrixFile]) -> u32 {
        let mut told = matrices.iter().map(ImatrixFile::chunk_size).filter(|&size| size > 0);
        let size = self.chunk_size.or_else(|| told.next()).unwrap_or(DEFAULT_CHUNK_SIZE);
        if self.chunk_size.is_none() {
            let silent = matrices.iter().filter(|m| m.chunk_size() == 0).filter_map(ImatrixFile::path);
            let mut silent: Vec<String> = silent.map(shown_path).collect();
            silent.dedup();
            if !silent.is_empty() {
                ui.warning(&format!(
                    "{}: chunk size not recorded; assuming {size} tokens (override with --chunk-size)",
                    list(&silent),
                ));
            }
            if let Some(other) = told.find(|&other| other != size) {
                ui.warning(&format!("the files have chunk sizes of {size} and {other} tokens; the output uses {size}"));
            }
        }
        size
    }
}

fn merged(matrices: &[ImatrixFile], chunk_size: u32, watch: &Watch) -> Result<Imatrix, Failure> {
    let mut merge = Merge::new(chunk_size)?;
    for matrix in matrices {
        if watch.is_cancelled() {
            return Err(gguf_pipeline::Error::Cancelled.into());
        }
        merge.add(matrix)?;
    }
    Ok(merge.finish())
}

/// Converts the matrix to the old format and reports what is lost.
pub fn old_format(ui: &mut Ui, matrix: Imatrix) -> Result<Imatrix, Failure> {
    let lost = lost(&matrix);
    let (old, left_out) = matrix.into_legacy()?;
    if !left_out.is_empty() {
        let names = list(&shown(&left_out));
        ui.warning(&format!("omitted, because they have no measurements: {names}"));
    }
    lost.iter().for_each(|what| ui.warning(what));
    Ok(old)
}

/// The parts of a matrix that the old format cannot represent.
fn lost(matrix: &Imatrix) -> Vec<String> {
    let mut all = Vec::new();
    let experts = matrix.entries.values().filter(|e| e.counts.len() > 1 && e.counts.iter().any(|&n| n > 0));
    let (mut n_entries, mut n_unseen) = (0, 0);
    for entry in experts {
        n_entries += 1;
        n_unseen += entry.counts.iter().filter(|&&n| n == 0).count() as u64;
    }
    if n_entries > 0 {
        let entries = number(n_entries, "entry", "entries");
        let unseen = match n_unseen {
            0 => String::new(),
            1 => "; 1 expert was never used: all its columns become 1".to_owned(),
            n => format!("; {} experts were never used: all their columns become 1", grouped(n)),
        };
        all.push(format!("token counts per expert are lost in {entries}{unseen}"));
    }
    if let Some(kept) = matrix.datasets.last() {
        let mut lost: Vec<Vec<u8>> = Vec::new();
        for text in matrix.datasets.iter().filter(|text| *text != kept) {
            if !lost.contains(text) {
                lost.push(text.clone());
            }
        }
        if !lost.is_empty() {
            let (lost, kept) = (list(&shown(&lost)), gguf_format::check::shown(Str(kept)));
            all.push(format!("only the last dataset name is kept, {kept}; lost: {lost}"));
        }
    }
    if matrix.chunk_size != DEFAULT_CHUNK_SIZE {
        let size = matrix.chunk_size;
        all.push(format!("the chunk size is not stored; pass --chunk-size {size} when the file is converted back"));
    }
    all
}

/// Warns about entries of the old format without a chunk count. There, the values are used as weights directly; sums without a count are
/// treated as unmeasured.
fn warn_of_uncounted(ui: &mut Ui, matrices: &[ImatrixFile]) {
    let old = matrices.iter().filter(|m| m.format() == Format::Legacy).flat_map(ImatrixFile::entries);
    let names: Vec<Vec<u8>> = old.filter(|e| e.max_count() == 0).map(|e| e.name.to_vec()).collect();
    if !names.is_empty() {
        let names = list(&shown(&names));
        ui.warning(&format!("chunk count 0; the output marks these entries as not measured: {names}"));
    }
}

fn warn_of_rounded(ui: &mut Ui, matrix: &Imatrix) {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "counts are stored in single precision, in which large ones are whole numbers"
    )]
    let is_rounded = |n: i64| n > EXACT && (n as f32) as i64 != n;
    let n = matrix.entries.values().filter(|e| e.counts.iter().any(|&n| is_rounded(n))).count() as u64;
    if n > 0 {
        let entries = number(n, "entry", "entries");
        let exact = grouped(EXACT.unsigned_abs());
        ui.warning(&format!("counts of {entries} exceed {exact} and are rounded to single precision"));
    }
}

/// The first names of a list, and the number of the remaining ones.
fn list(names: &[String]) -> String {
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    };
    names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ") + &more
}

/// Texts from a file, escaped for printing.
fn shown(texts: &[Vec<u8>]) -> Vec<String> {
    texts.iter().map(|text| gguf_format::check::shown(Str(text))).collect()
}

fn summary(n_files: usize, matrix: &Imatrix) -> String {
    let chunks = number(matrix.chunk_count.into(), "chunk", "chunks");
    let size = match matrix.chunk_size {
        0 => String::new(),
        size => format!(" of {size} tokens"),
    };
    format!(
        "{}: {} of {}, {chunks}{size}",
        matrix.format,
        number(matrix.entries.len() as u64, "entry", "entries"),
        number(n_files as u64, "file", "files"),
    )
}
