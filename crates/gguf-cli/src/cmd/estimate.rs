//! `gguf estimate`: estimates the memory that a model needs.

use std::io::Write;
use std::path::PathBuf;

use gguf_edit::estimate::{Estimate, Memory, Setup, estimate};
use gguf_format::GgmlType;
use gguf_io::Model;
use serde_json::{Value, json};

use crate::cmd::size::parse_size;
use crate::failure::{Outcome, Verdict};
use crate::findings;
use crate::json;
use crate::open;
use crate::stdin;
use crate::ui::{Column, Style, Table, Ui, grouped, shown_path, size, wrap};

/// The least bits per weight for which quantization is advised; IQ1_S, the smallest type of llama.cpp, has 1.56 beside embeddings in larger types.
const LEAST_BITS: u64 = 2;

/// The weights of a model's files.
struct Weights {
    file_bytes: u64,
    n: u64,
    is_quantized: bool,
}

impl Weights {
    fn of(model: &Model) -> Weights {
        let n = model.tensors().filter_map(|tensor| tensor.info().n_elements()).fold(0, u64::saturating_add);
        Weights {
            file_bytes: model.files().iter().map(|file| file.file_bytes()).fold(0, u64::saturating_add),
            n,
            is_quantized: model.tensors().any(|tensor| tensor.ty().is_quantized()),
        }
    }
}

/// Number of indented JSON levels.
const LEVELS: usize = 2;

/// Estimate the memory that llama.cpp needs for a model: weights, caches, compute buffers and output.
///
/// Weights, KV caches and states of recurrent layers are sums of tensor sizes. The compute buffer is computed as in
/// llama.cpp, by allocating the graph of one batch; if the graph of an architecture is not known, that of llama or BERT is
/// used, and the output says so. With --memory, the exit code is 1 if the model does not fit. An mmproj file is estimated
/// for one image of the size that it states.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf estimate model.gguf
  gguf estimate model.gguf --ctx 32768 --kv q8_0
  gguf estimate model.gguf --ctx 16k --gpu-layers 20 --memory 8GiB
  gguf estimate model.gguf -c 8k -ngl all
  gguf estimate model.gguf --json")]
pub struct Args {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// Context length in tokens, such as 8192 or 8k; by default or with 0, the training context length
    #[arg(short, long, value_name = "N", alias = "ctx-size", value_parser = tokens)]
    ctx: Option<u64>,

    /// Maximum number of tokens per batch
    #[arg(short, long, value_name = "N", alias = "batch-size", default_value_t = Setup::default().n_batch)]
    batch: u64,

    /// Maximum number of tokens per compute step (physical batch)
    #[arg(short, long, value_name = "N", alias = "ubatch-size", default_value_t = Setup::default().n_ubatch)]
    ubatch: u64,

    /// Number of parallel sequences that share the context
    #[arg(short, long, value_name = "N", default_value_t = Setup::default().n_seq)]
    parallel: u64,

    /// Type of the KV cache
    #[arg(long, value_name = "TYPE", value_parser = cache_type, default_value = "f16")]
    kv: GgmlType,

    /// Type of cached keys; overrides --kv
    #[arg(long, alias = "cache-type-k", value_name = "TYPE", value_parser = cache_type)]
    kv_k: Option<GgmlType>,

    /// Type of cached values; overrides --kv
    #[arg(long, alias = "cache-type-v", value_name = "TYPE", value_parser = cache_type)]
    kv_v: Option<GgmlType>,

    /// Number of layers on the GPU, counted from the last, or all; the output layer is one of them
    #[arg(
        short = 'g', long, value_name = "N", alias = "n-gpu-layers", default_value = "0", allow_negative_numbers = true,
        value_parser = layers
    )]
    gpu_layers: u64,

    /// Estimate without flash attention
    #[arg(long)]
    no_flash: bool,

    /// Use full-size KV caches in sliding-window layers
    #[arg(long)]
    swa_full: bool,

    /// Available memory, such as 8GiB: of the GPU if layers are on it, otherwise of the host
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,

    /// Print JSON; sizes are in bytes
    #[arg(long)]
    json: bool,
}

/// Short options of llama.cpp's tools with several letters, and the options of this command.
pub const SHORT: &[(&str, &str)] =
    &[("-ngl", "--gpu-layers"), ("-ub", "--ubatch"), ("-np", "--parallel"), ("-ctk", "--kv-k"), ("-ctv", "--kv-v")];

/// Parses a number of tokens, with `k` for 1024.
pub fn tokens(text: &str) -> Result<u64, String> {
    let (number, unit) = text.strip_suffix(['k', 'K']).map_or((text, 1), |number| (number, 1024));
    let n = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    n.ok_or_else(|| "expected a number of tokens, such as 8192 or 8k".to_owned())
}

/// Parses a number of layers. As for llama.cpp's tools, -1 means all.
fn layers(text: &str) -> Result<u64, String> {
    match text {
        "all" | "-1" => Ok(u64::MAX),
        n => n.parse().map_err(|_| "expected a number of layers, or all".to_owned()),
    }
}

/// The cache types that llama.cpp supports (`kv_cache_types` in `common/arg.cpp`).
const CACHE_TYPES: &[GgmlType] = &[
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
    GgmlType::Q8_0,
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::IQ4_NL,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
];

fn cache_type(text: &str) -> Result<GgmlType, String> {
    let found = CACHE_TYPES.iter().find(|ty| ty.to_string().eq_ignore_ascii_case(text));
    let all = || CACHE_TYPES.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
    found.copied().ok_or_else(|| format!("expected one of the cache types {}", all()))
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let mut setup = Setup::default();
        setup.n_ctx = self.ctx.filter(|n| *n > 0);
        (setup.n_batch, setup.n_ubatch, setup.n_seq) = (self.batch, self.ubatch, self.parallel);
        setup.type_k = self.kv_k.unwrap_or(self.kv);
        setup.type_v = self.kv_v.unwrap_or(self.kv);
        setup.flash = !self.no_flash;
        setup.full_window = self.swa_full;
        setup.n_gpu_layers = self.gpu_layers;
        let model = match stdin::is_stdin(&self.model) {
            true => Model::from_files(vec![stdin::open()?])?,
            false => open::model(&self.model)?,
        };
        let warning = findings::warning_of_errors(&self.model, &model);
        let weights = Weights::of(&model);
        let estimate = estimate(model, &setup)?;
        warning.iter().for_each(|warning| ui.warning(warning));
        let needed = if estimate.n_gpu_layers > 0 { estimate.gpu.total() } else { estimate.cpu.total() };
        let fits = self.memory.map(|memory| needed <= memory);
        match self.json {
            true => json::print(ui, LEVELS, &self.as_json(&estimate, &setup, fits))?,
            false => self.print(ui, &estimate, &setup, needed, &weights)?,
        }
        Ok(if fits == Some(false) { Verdict::Bad } else { Verdict::Good })
    }

    fn print(
        &self,
        ui: &mut Ui,
        estimate: &Estimate,
        setup: &Setup,
        needed: u64,
        weights: &Weights,
    ) -> std::io::Result<()> {
        ui.title(&self.model)?;
        let trained = match estimate.n_ctx_train {
            Some(n) if n < estimate.n_ctx => format!(" (trained on {}; longer texts need RoPE scaling)", grouped(n)),
            Some(n) if n != estimate.n_ctx => format!(" (trained on {})", grouped(n)),
            _ => String::new(),
        };
        let is_tower = estimate.architecture == "clip";
        if is_tower {
            ui.field("  Positions ", Style::Cyan, &grouped(estimate.n_ctx))?;
        } else {
            ui.field("  Context  ", Style::Cyan, &format!("{} tokens{trained}", grouped(estimate.n_ctx)))?;
        }
        let has_cache = estimate.cpu.cache > 0 || estimate.gpu.cache > 0;
        if has_cache {
            let cache = match setup.type_k == setup.type_v {
                true => setup.type_k.to_string(),
                false => format!("keys {}, values {}", setup.type_k, setup.type_v),
            };
            ui.field("  KV cache ", Style::Cyan, &cache)?;
        }
        let layers = format!("{} of {} on the GPU", estimate.n_gpu_layers, estimate.n_layers + 1);
        ui.field("  Layers   ", Style::Cyan, &layers)?;
        writeln!(ui.out)?;
        let mut columns = vec![Column::left("MEMORY").styled(Style::Cyan), Column::right("HOST")];
        let on_gpu = estimate.n_gpu_layers > 0;
        if on_gpu {
            columns.push(Column::right("GPU"));
        }
        let mut table = Table::new(columns);
        type Part = fn(&Memory) -> u64;
        let parts: [(&str, Part); 6] = [
            ("weights", |m| m.weights),
            ("KV cache", |m| m.cache),
            ("states", |m| m.state),
            ("compute", |m| m.compute),
            ("output", |m| m.output),
            ("total", Memory::total),
        ];
        for (name, part) in parts {
            let is_absent = ["KV cache", "states", "output"].contains(&name)
                && part(&estimate.cpu) == 0
                && part(&estimate.gpu) == 0;
            if is_absent {
                continue;
            }
            let mut row = vec![name.to_owned(), size(part(&estimate.cpu))];
            if on_gpu {
                row.push(size(part(&estimate.gpu)));
            }
            table.row(row);
        }
        table.print(ui, 2)?;
        writeln!(ui.out)?;
        if let Some(memory) = self.memory {
            let text = match memory.checked_sub(needed) {
                Some(left) => format!("fits in {}; {} left", size(memory), size(left)),
                None => format!("does not fit in {}; {} missing", size(memory), size(needed - memory)),
            };
            writeln!(ui.out, "{text}")?;
            if let Some(advice) = self.advice(estimate, needed, memory, weights) {
                writeln!(ui.out, "{advice}")?;
            }
        }
        for assumption in &estimate.assumptions {
            let columns = ui.width.map_or(usize::MAX, |width| width.saturating_sub(2));
            for (i, line) in wrap(assumption, columns).iter().enumerate() {
                writeln!(ui.out, "{} {line}", if i == 0 { "*" } else { " " })?;
            }
        }
        Ok(())
    }

    /// How a model that does not fit can be made to: the size of a file whose weights fit beside the rest, unless layers are on a GPU.
    fn advice(&self, estimate: &Estimate, needed: u64, memory: u64, weights: &Weights) -> Option<String> {
        if needed <= memory || estimate.n_gpu_layers > 0 {
            return None;
        }
        let present = estimate.cpu.weights;
        let rest = needed.saturating_sub(present);
        let Some(left) = memory.checked_sub(rest).filter(|left| *left > weights.n / 8 * LEAST_BITS) else {
            let rest = size(rest);
            return Some(format!("without weights, {rest} are needed: use a smaller --ctx or --ubatch, or --kv q8_0"));
        };
        let bytes = left.saturating_add(weights.file_bytes.saturating_sub(present));
        Some(match weights.is_quantized {
            true => format!("to fit: quantize the original in f16, bf16 or f32 with --target-size {bytes}"),
            false => format!("to fit: gguf quantize {} OUT --target-size {bytes}", shown_path(&self.model)),
        })
    }

    fn as_json(&self, estimate: &Estimate, setup: &Setup, fits: Option<bool>) -> Value {
        let memory = |m: &Memory| json!({ "weights": m.weights, "kv_cache": m.cache, "states": m.state, "compute": m.compute, "output": m.output, "total": m.total() });
        json!({
            "path": json::path(&self.model),
            "architecture": estimate.architecture,
            "n_ctx": estimate.n_ctx,
            "n_ctx_train": estimate.n_ctx_train,
            "n_batch": setup.n_batch,
            "n_ubatch": setup.n_ubatch,
            "n_seq": setup.n_seq,
            "type_k": setup.type_k.to_string(),
            "type_v": setup.type_v.to_string(),
            "flash_attention": setup.flash,
            "n_layers": estimate.n_layers,
            "n_gpu_layers": estimate.n_gpu_layers,
            "host": memory(&estimate.cpu),
            "gpu": memory(&estimate.gpu),
            "fits": fits,
            "assumptions": estimate.assumptions,
        })
    }
}
