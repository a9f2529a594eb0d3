//! `gguf verify`: verifies that a file was made from a checkpoint.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use gguf_edit::KeyDiff;
use gguf_format::GgmlType;
use gguf_hf::{Mtp, Options};
use ggufkit::verify::{Encoding, Program, State, Verification, VerifiedTensor};

use super::writing::tensors;
use crate::failure::{Outcome, Verdict};
use crate::open;
use crate::ui::{Column, Style, Table, Ui, grouped, wrap};
use crate::watch::Watch;

mod json;

/// Verify that a GGUF file was made from a checkpoint.
///
/// Converts the checkpoint without writing it, and compares every tensor, key and token with the file. Quantized tensors are
/// encoded as llama.cpp does, with the importance matrix of --imatrix and without one, directly and from half precision. If no
/// encoding has the bytes of the file, its values must be within the error that its types explain; the book derives the
/// bounds. A tensor in which only some blocks differ from an encoding has been altered, whatever the size of the error.
///
/// The exit code is 0 if the file was made from the checkpoint, 1 if it differs and 2 if they cannot be compared. Keys that only
/// describe the file, such as general.name, do not count. With --imatrix, tensors must be encoded with that matrix; with
/// --exact, errors within the bounds count as differences without a matrix, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf verify model-Q4_K_M.gguf --against my-model/
  gguf verify model-Q4_K_M.gguf --against hf:organization/model --imatrix imatrix.gguf
  gguf verify mmproj-model.gguf --against my-model/
  gguf verify my-lora.gguf --against my-lora/ --base my-model/
  gguf verify model.gguf --against my-model/ -q && echo verified")]
pub struct Args {
    /// Model to verify; any shard of a split model
    file: PathBuf,

    /// Checkpoint folder, its folder in the Hugging Face hub cache, or a single tensor file
    #[arg(long, value_name = "CHECKPOINT")]
    against: PathBuf,

    /// Importance matrix that the file should be quantized with
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Base model folder of a LoRA adapter, of which only config.json is read; by default, the adapter's own folder
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,

    /// Target model folder of a draft model (EAGLE-3, DFlash, DSpark), which uses its tokenizer
    #[arg(long, value_name = "DIR", conflicts_with = "base")]
    target: Option<PathBuf>,

    /// Pre-tokenizer name of a BPE vocabulary; overrides detection by hash
    #[arg(long)]
    pre: Option<String>,

    /// The file has queries, keys and values as one tensor per block (attn_qkv), by `gguf convert --fuse-qkv`
    #[arg(long)]
    fuse_qkv: bool,

    /// The file has the gate and up matrices of all experts as one tensor per block, by `gguf convert --fuse-gate-up-exps`
    #[arg(long)]
    fuse_gate_up_exps: bool,

    /// The file has only the multi-token prediction (MTP) blocks
    #[arg(long, conflicts_with = "no_mtp")]
    mtp: bool,

    /// The file omits the multi-token prediction (MTP) blocks
    #[arg(long)]
    no_mtp: bool,

    /// Count errors within the bounds of the types as differences
    #[arg(long)]
    exact: bool,

    /// Also list tensors that have the data of the checkpoint, and keys that only describe the file
    #[arg(short, long)]
    all: bool,

    /// Do not truncate values
    #[arg(long)]
    full: bool,

    /// Print JSON with all details
    #[arg(long)]
    json: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print nothing; set only the exit code
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        super::expect_input(&self.against, "expected a checkpoint folder that contains config.json")?;
        let file = open::model(&self.file)?;
        let options = Options::default()
            .base(self.base.as_deref().map(open::folder).transpose()?)
            .target(self.target.as_deref().map(open::model_folder).transpose()?)
            .pre(self.pre.clone())
            .fuse_qkv(self.fuse_qkv)
            .fuse_gate_up_experts(self.fuse_gate_up_exps)
            .mtp(match (self.mtp, self.no_mtp) {
                (true, _) => Mtp::Only,
                (_, true) => Mtp::LeftOut,
                _ => Mtp::Included,
            });
        let conversion = open::conversion(&self.against, &ggufkit::verify::options_for(&file, options))?;
        let matrix = self.imatrix.as_deref().map(open::matrix).transpose()?.map(Arc::new);
        let watch = Watch::new(self.quiet);
        let run = open::reading().threads(self.threads);
        let verification = ggufkit::verify::verify(file, &conversion.plan, matrix, &run, &watch);
        watch.clear();
        let verification = verification?;
        let is_same = self.is_same(&verification);
        if self.json {
            json::print(ui, &self.file, &self.against, &verification, is_same)?;
        } else if !self.quiet {
            self.print(ui, &verification, is_same)?;
        }
        Ok(if is_same { Verdict::Good } else { Verdict::Bad })
    }

    /// Whether the file is what it should be.
    fn is_same(&self, verification: &Verification) -> bool {
        verification.is_good() && (verification.n_within() == 0 || !self.exact && self.imatrix.is_none())
    }

    fn print(&self, ui: &mut Ui, verification: &Verification, is_same: bool) -> io::Result<()> {
        let is_listed = |key: &&KeyDiff| self.all || !verification.is_description(key);
        let keys = verification.keys.iter().filter(is_listed).map(|key| verification.values(key));
        if keys.clone().next().is_some() {
            super::diff::print_keys(ui, self.full, ["CHECKPOINT", "FILE"], keys)?;
            writeln!(ui.out)?;
        }
        let is_quiet = |tensor: &VerifiedTensor| match tensor.state {
            State::Within(_) => is_same,
            _ => tensor.state.is_good(),
        };
        let listed: Vec<&VerifiedTensor> =
            verification.tensors.iter().filter(|tensor| self.all || !is_quiet(tensor)).collect();
        if !listed.is_empty() {
            let columns = [
                Column::name("TENSOR").styled(Style::Cyan),
                Column::left("TYPE"),
                Column::left("STATE"),
                Column::text(""),
            ];
            let mut table = Table::new(columns);
            for tensor in listed {
                let ty = tensor.ty.map(|ty| ty.to_string()).unwrap_or_default();
                table.row([tensor.name.clone(), ty, tensor.state.name().to_owned(), tensor.details()]);
            }
            table.print(ui, 0)?;
            writeln!(ui.out)?;
        }
        for line in self.sums(verification, is_same) {
            for line in wrap(&line, ui.width.unwrap_or(usize::MAX)) {
                writeln!(ui.out, "{line}")?;
            }
        }
        Ok(())
    }

    /// A summary in a few sentences.
    fn sums(&self, verification: &Verification, is_same: bool) -> Vec<String> {
        let described = verification.keys.iter().filter(|key| verification.is_description(key)).count();
        let different = verification.keys.len() - described;
        let keys = [
            (verification.n_same_keys, "the same"),
            (different, "different"),
            (described, if described == 1 { "description that differs" } else { "descriptions that differ" }),
        ];
        let list = |parts: &[(usize, &str)]| {
            let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", grouped(*n as u64)));
            parts.collect::<Vec<_>>().join(", ")
        };
        let states: Vec<(usize, &str)> = STATES
            .iter()
            .map(|state| (verification.tensors.iter().filter(|tensor| tensor.state.name() == *state).count(), *state))
            .collect();
        let mut lines = vec![format!("keys: {}", list(&keys)), format!("tensors: {}", list(&states))];
        lines.extend(self.made(verification));
        lines.push(match (is_same, verification.n_within() as u64) {
            (true, 0) => "The file was made from the checkpoint".to_owned(),
            (true, n) => {
                format!("The file was made from the checkpoint, as far as the types of {} can show", tensors(n))
            }
            (false, n) if verification.is_good() && self.imatrix.is_some() => {
                format!("The file may have been made from the checkpoint, but {} not encoded with that matrix", are(n))
            }
            (false, n) if verification.is_good() => format!("{} not encoded as by llama.cpp", are(n)),
            _ => "The file differs from the checkpoint".to_owned(),
        });
        lines
    }

    /// `origin: Q4_K_M; keys in the order of llama-quantize or gguf quantize; the bytes of llama.cpp's encoder without a matrix`
    fn made(&self, verification: &Verification) -> Option<String> {
        let made = &verification.made;
        let mut parts = Vec::new();
        parts.extend(made.file_type.map(|ty| ty.to_string()));
        parts.extend(made.program.map(|program| match program {
            Program::Converter => "keys and tensors in the order of convert_hf_to_gguf.py or gguf convert".to_owned(),
            Program::Quantizer => "keys in the order of llama-quantize or gguf quantize".to_owned(),
            _ => String::new(),
        }));
        let mut encodings: Vec<Encoding> = Vec::new();
        for tensor in &verification.tensors {
            if let State::Encoded(encoding) = tensor.state
                && !encodings.contains(&encoding)
            {
                encodings.push(encoding);
            }
        }
        parts.extend(encodings.iter().map(|encoding| format!("the bytes of llama.cpp's encoder {encoding}")));
        parts.extend(made.imatrix.as_ref().map(|file| match self.imatrix.is_some() {
            true => format!("its metadata names the matrix {}", crate::ui::safe(file)),
            false => format!("its metadata names the matrix {}; --imatrix compares with it", crate::ui::safe(file)),
        }));
        (!parts.is_empty()).then(|| format!("origin: {}", parts.join("; ")))
    }
}

/// The states in the order of the summary.
const STATES: [&str; 7] = ["identical", "rounded", "encoded", "within", "different", "missing", "extra"];

/// `1 tensor is`, `2 tensors are`
fn are(n: u64) -> String {
    format!("{} {}", tensors(n), if n == 1 { "is" } else { "are" })
}

/// The name of a type, in JSON.
fn type_name(ty: Option<GgmlType>) -> Option<String> {
    ty.map(|ty| ty.to_string())
}
