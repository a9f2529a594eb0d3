//! `gguf quantize`: a GGUF of another file type.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use gguf_arch::mix::{MixOptions, Target, TensorTypeRule, parse_tensor_type};
use gguf_convert::imatrix::{self, ImatrixFile};
use gguf_convert::quantize::{self, QuantizeOptions, QuantizePlan};
use gguf_format::{GgmlType, Str, Value};
use serde::Serialize;

use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::text::shape;
use crate::ui::{Column, Style, Table, Ui, bits_per_weight, count, duration, grouped, rate, size, wrap};
use crate::watch::Watch;

/// Write a model with its tensors in other types, smaller ones as a rule.
///
/// Tensors get the types that llama.cpp's quantizer gives them, and the same bytes. Nothing stands under the output's name
/// until the file is whole and on the disk. The path of the output goes to standard output, everything else to standard
/// error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf quantize model-f16.gguf model-q4.gguf Q4_K_M
  gguf quantize model-f16.gguf Q4_K_M --dry-run     which tensor becomes what, and why
  gguf quantize in.gguf out.gguf Q5_K_M --tensor-type 'ffn_down=q6_K' --token-embedding-type q8_0
  gguf quantize in.gguf out.gguf IQ3_XXS --imatrix imatrix.gguf
  gguf quantize in.gguf out.gguf Q4_0 --pure")]
pub struct Args {
    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write, and the file type: a name such as Q4_K_M, or llama.cpp's number; with --dry-run the type alone will do
    #[arg(required = true, num_args = 1..=2, value_names = ["OUT", "TYPE"])]
    rest: Vec<String>,

    /// Give every tensor the file type's own type, without the mixture
    #[arg(long)]
    pure: bool,

    /// Leave output.weight as it is
    #[arg(long)]
    leave_output_tensor: bool,

    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = parse_tensor_type)]
    output_tensor_type: Option<GgmlType>,

    /// Type of the token embeddings
    #[arg(long, value_name = "TYPE", value_parser = parse_tensor_type)]
    token_embedding_type: Option<GgmlType>,

    /// Type of the tensors whose names the regular expression is found in; the first that fits is taken
    #[arg(long, value_name = "REGEX=TYPE", value_parser = TensorTypeRule::parse)]
    tensor_type: Vec<TensorTypeRule>,

    /// A file of such pairs, set apart by white space
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,

    /// An importance matrix, in GGUF or .dat form: what the errors of each column count
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Of the matrix, use only the entries whose names contain this
    #[arg(long, value_name = "TEXT", requires = "imatrix")]
    include_weights: Vec<String>,

    /// Of the matrix, leave out the entries whose names contain this
    #[arg(long, value_name = "TEXT", requires = "imatrix", conflicts_with = "include_weights")]
    exclude_weights: Vec<String>,

    /// Take tensors that are quantized already
    #[arg(long)]
    allow_requantize: bool,

    /// Set a key of the output: KEY=int:N, KEY=float:X, KEY=bool:true or KEY=str:TEXT
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = override_kv)]
    override_kv: Vec<(String, Value)>,

    /// Threads to work with; as many as there are processors if not given
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Show what would be written and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// With --dry-run: as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,

    /// Replace the output if it is there already
    #[arg(short, long)]
    force: bool,

    /// No progress and no summary
    #[arg(short, long)]
    quiet: bool,
}

/// Reads `KEY=TYPE:VALUE`; integers become u32, as in llama.cpp.
fn override_kv(text: &str) -> Result<(String, Value), String> {
    let (key, rest) = text.split_once('=').ok_or("expected KEY=TYPE:VALUE")?;
    let (ty, value) = rest.split_once(':').ok_or("expected KEY=TYPE:VALUE")?;
    let wrong = |what: &str| format!("{value:?} is no {what}");
    let value: Value = match ty {
        "int" => value.parse::<u32>().map_err(|_| wrong("whole number of 32 bits"))?.into(),
        "float" => value.parse::<f32>().map_err(|_| wrong("number"))?.into(),
        "bool" => value.parse::<bool>().map_err(|_| wrong("`true` or `false`"))?.into(),
        "str" => value.into(),
        _ => return Err(format!("{ty:?} is no type here; there are int, float, bool and str")),
    };
    Ok((key.to_owned(), value))
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let (out, ty) = match self.rest.as_slice() {
            [out, ty] => (Some(Path::new(out)), ty),
            [ty] if self.dry_run => (None, ty),
            _ => {
                let problem =
                    "give the file to write and then the file type, as in `gguf quantize in.gguf out.gguf Q4_K_M`";
                return Err(Failure::CouldNotRun(problem.to_owned()));
            }
        };
        let target = Target::parse(ty).map_err(|e| Failure::CouldNotRun(e.to_string()))?;
        let mut tensor_types = self.tensor_type.clone();
        if let Some(path) = &self.tensor_type_file {
            let fail = |e: String| Failure::CouldNotRun(format!("{}: {e}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|e| fail(format!("cannot read: {e}")))?;
            tensor_types.extend(TensorTypeRule::parse_list(&text).map_err(|e| fail(e.to_string()))?);
        }
        let mut matrix = self.imatrix.as_ref().map(ImatrixFile::open).transpose().map_err(gguf_convert::Error::from)?;
        if let Some(matrix) = &mut matrix {
            matrix.select(&self.include_weights, &self.exclude_weights);
        }
        let noted = matrix.as_ref().zip(self.imatrix.as_ref());
        let options = QuantizeOptions {
            target,
            mix: MixOptions {
                pure: self.pure,
                leave_output_tensor: self.leave_output_tensor,
                output_tensor_type: self.output_tensor_type,
                token_embedding_type: self.token_embedding_type,
                tensor_types,
                ..MixOptions::default()
            },
            allow_requantize: self.allow_requantize,
            overrides: self.override_kv.clone(),
            provenance: noted.map_or(Vec::new(), |(matrix, path)| imatrix::provenance(&path.to_string_lossy(), matrix)),
            threads: self.threads,
            force: self.force,
        };
        let plan = quantize::plan(&self.input, matrix.as_ref(), &options)?;
        for warning in plan.warnings() {
            ui.warning(warning);
        }
        match out {
            Some(out) if !self.dry_run => self.write(ui, &plan, target, out),
            _ if self.json => print_json(ui, &plan, target),
            _ => print_plan(ui, &plan, target),
        }
    }

    fn write(&self, ui: &mut Ui, plan: &QuantizePlan<'_>, target: Target, out: &Path) -> Outcome {
        let watch = Watch::new(self.quiet);
        let result = plan.run(out, &watch);
        watch.clear();
        result?;
        if !self.quiet {
            let (time, bytes) = (watch.elapsed(), plan.layout().file_bytes);
            let sizes = Sizes::of(plan);
            ui.note(&format!(
                "{target}: {} tensors, {} to {} ({} bits per weight) in {} ({})",
                grouped(plan.head().tensors.len() as u64),
                size(sizes.from),
                size(bytes),
                bits_per_weight(sizes.bits_per_weight()),
                duration(time),
                rate(sizes.from, time),
            ));
        }
        ui.print_path(out)?;
        Ok(Verdict::Good)
    }
}

/// Sums over all tensors.
struct Sizes {
    from: u64,
    to: u64,
    weights: u64,
}

impl Sizes {
    fn bits_per_weight(&self) -> f64 {
        self.to as f64 * 8.0 / self.weights.max(1) as f64
    }

    fn of(plan: &QuantizePlan<'_>) -> Sizes {
        let mut sizes = Sizes { from: 0, to: 0, weights: 0 };
        for (tensor, from, _) in plan.tensors() {
            sizes.from += from.tensor_bytes(tensor.shape.iter().copied()).unwrap_or(0);
            sizes.to += tensor.n_bytes().unwrap_or(0);
            sizes.weights += gguf_format::n_elements(tensor.shape.iter().copied()).unwrap_or(0);
        }
        sizes
    }
}

/// Prints what would be written.
fn print_plan(ui: &mut Ui, plan: &QuantizePlan<'_>, target: Target) -> Outcome {
    let columns = [
        Column::name("TENSOR").styled(Style::Cyan),
        Column::left("SHAPE"),
        Column::left("FROM"),
        Column::left("TO"),
        Column::right("BYTES"),
        Column::text("REASON").styled(Style::Dim),
    ];
    let mut table = Table::new(columns);
    for (tensor, from, decision) in plan.tensors() {
        let bytes = ui.bytes(tensor.n_bytes().unwrap_or(0));
        let name = Str(&tensor.name).to_string();
        let shape = shape(tensor.shape.iter().copied());
        table.row([name, shape, from.to_string(), tensor.ty.to_string(), bytes, decision.why.to_string()]);
    }
    table.print(ui, 0)?;
    let sizes = Sizes::of(plan);
    let said = format!(
        "{target}: {} tensors, {} weights, {} ({} bytes), {} bits per weight",
        grouped(plan.head().tensors.len() as u64),
        count(sizes.weights),
        size(plan.layout().file_bytes),
        grouped(plan.layout().file_bytes),
        bits_per_weight(sizes.bits_per_weight()),
    );
    writeln!(ui.out)?;
    for line in wrap(&said, ui.width.unwrap_or(usize::MAX)) {
        writeln!(ui.out, "{line}")?;
    }
    Ok(Verdict::Good)
}

#[derive(Serialize)]
struct JsonPlan {
    file_type: String,
    file_bytes: u64,
    tensor_bytes: u64,
    n_weights: u64,
    tensors: Vec<JsonTensor>,
}

#[derive(Serialize)]
struct JsonTensor {
    name: String,
    shape: Vec<u64>,
    from: String,
    to: String,
    bytes: u64,
    reason: String,
    needs_imatrix: bool,
}

fn print_json(ui: &mut Ui, plan: &QuantizePlan<'_>, target: Target) -> Outcome {
    let sizes = Sizes::of(plan);
    let tensors = plan.tensors().map(|(tensor, from, decision)| JsonTensor {
        name: String::from_utf8_lossy(&tensor.name).into_owned(),
        shape: tensor.shape.clone(),
        from: from.to_string(),
        to: tensor.ty.to_string(),
        bytes: tensor.n_bytes().unwrap_or(0),
        reason: decision.why.to_string(),
        needs_imatrix: decision.needs_imatrix,
    });
    let document = JsonPlan {
        file_type: target.to_string(),
        file_bytes: plan.layout().file_bytes,
        tensor_bytes: sizes.to,
        n_weights: sizes.weights,
        tensors: tensors.collect(),
    };
    json::print(&mut ui.out, 3, &document)?;
    Ok(Verdict::Good)
}
