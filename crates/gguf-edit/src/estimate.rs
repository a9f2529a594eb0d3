//! Estimates the memory of a model in llama.cpp: weights, caches and compute buffers.
//!
//! Weights and caches are sums of sizes. The compute buffer is determined as in llama.cpp: the graph of one batch is laid out by the rules
//! of ggml's allocator, without computing anything.

use gguf_format::keys::{GENERAL_ARCHITECTURE, GENERAL_TYPE};
use gguf_format::{GgmlType, Gguf, ValueRef, align_up};
use gguf_io::{IntoModel, Model};

use crate::EditError;
use crate::edit_error::NotEstimated;

mod build;
mod graph;
mod recurrent;

use build::{Batch, build, family};
use recurrent::Recurrent;

/// The parameters of llama.cpp's context.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Setup {
    /// Context length in tokens; `None` for that of the training.
    pub n_ctx: Option<u64>,
    /// Maximum number of tokens to compute at once (`n_ubatch`).
    pub n_ubatch: u64,
    /// Maximum number of tokens of a batch (`n_batch`).
    pub n_batch: u64,
    /// Number of sequences that share the context.
    pub n_seq: u64,
    /// The type of cached keys.
    pub type_k: GgmlType,
    /// The type of cached values.
    pub type_v: GgmlType,
    /// Whether flash attention is used, as llama.cpp does where it can.
    pub flash: bool,
    /// Whether layers with a sliding window have a cache for the whole context.
    pub full_window: bool,
    /// Number of layers with weights and caches on a GPU, from the last; the output is one of them.
    pub n_gpu_layers: u64,
}

impl Default for Setup {
    /// llama.cpp's defaults, on the CPU.
    fn default() -> Setup {
        Setup {
            n_ctx: None,
            n_ubatch: 512,
            n_batch: 2048,
            n_seq: 1,
            type_k: GgmlType::F16,
            type_v: GgmlType::F16,
            flash: true,
            full_window: false,
            n_gpu_layers: 0,
        }
    }
}

/// Memory of one device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Memory {
    /// The weights.
    pub weights: u64,
    /// The key-value caches.
    pub cache: u64,
    /// The states of recurrent layers.
    pub state: u64,
    /// The compute buffer.
    pub compute: u64,
    /// The output buffer of a batch: logits.
    pub output: u64,
}

impl Memory {
    /// The sum.
    pub fn total(&self) -> u64 {
        [self.weights, self.cache, self.state, self.compute, self.output].into_iter().fold(0, u64::saturating_add)
    }
}

/// The estimated memory of a model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Estimate {
    /// The architecture.
    pub architecture: String,
    /// The context length in tokens.
    pub n_ctx: u64,
    /// The context length of the training.
    pub n_ctx_train: Option<u64>,
    /// Blocks of the model.
    pub n_layers: u64,
    /// Number of layers on the GPU; the output is one of them.
    pub n_gpu_layers: u64,
    /// Memory of the host.
    pub cpu: Memory,
    /// Memory of the GPU; all zero if no layer is on it.
    pub gpu: Memory,
    /// The assumptions behind the figures.
    pub assumptions: Vec<String>,
}

/// A block.
#[derive(Debug, Clone, Default)]
struct Layer {
    n_head: u64,
    n_head_kv: u64,
    head_k: u64,
    head_v: u64,
    is_latent: bool,
    is_windowed: bool,
    has_attn_norm: bool,
    has_attn_norm_bias: bool,
    has_second_norm: bool,
    has_fused_qkv: bool,
    has_qkv_bias: bool,
    has_q_norm: bool,
    has_k_norm: bool,
    has_attn_output_bias: bool,
    has_attn_post_norm: bool,
    /// Norms of the sums with the input, as in BERT.
    has_sum_norm: bool,
    has_output_norm: bool,
    has_ffn_norm: bool,
    has_ffn_norm_bias: bool,
    has_ffn_post_norm: bool,
    has_gate: bool,
    has_ffn_bias: bool,
    /// Rows of the up projection, and the width of its result after the gate.
    n_up: u64,
    n_ff: u64,
    experts: Option<Experts>,
    /// Whether the layer has attention, and keys and values in the cache.
    has_attention: bool,
    recurrent: Option<Recurrent>,
    /// Whether the layer also has attention to the output of an encoder.
    has_cross_attention: bool,
}

impl Layer {
    fn has_feed_forward(&self) -> bool {
        self.n_up > 0 || self.experts.is_some()
    }
}

#[derive(Debug, Clone, Copy)]
struct Experts {
    n: u64,
    n_used: u64,
    n_ff: u64,
    normalizes: bool,
}

impl Experts {
    /// Reads the experts of a layer, if it has any. `dim` is a dimension of a tensor of the layer.
    fn read(
        arch: &str,
        keys: &Keys<'_>,
        dim: &impl Fn(&str, usize) -> Option<u64>,
    ) -> Result<Option<Experts>, EditError> {
        let Some(n_ff) = dim("ffn_up_exps.weight", 1) else { return Ok(None) };
        Ok(Some(Experts {
            n: dim("ffn_up_exps.weight", 2).unwrap_or(1),
            n_used: keys.optional("expert_used_count", MOST_LAYERS)?.unwrap_or(1).max(1),
            n_ff,
            normalizes: arch != "olmoe",
        }))
    }
}

/// The properties of a model that determine the graph.
#[derive(Debug, Clone)]
struct Hparams {
    n_embd: u64,
    n_vocab: u64,
    n_ctx_train: Option<u64>,
    window: Option<u64>,
    has_positions: bool,
    has_output_bias: bool,
    has_output_norm_bias: bool,
    has_attention_softcap: bool,
    has_token_types: bool,
    has_token_norm: bool,
    has_output_norm: bool,
    /// What the model keeps and computes.
    kind: Kind,
    layers: Vec<Layer>,
}

/// What a model keeps between batches, and what it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// There is a cache of keys and values.
    has_cache: bool,
    /// Attention reads the cache; otherwise, keys and values of the batch alone.
    reads_cache: bool,
    /// The results are logits; those of encoders are embeddings.
    has_logits: bool,
    /// Attention adds a bias for each distance of two positions, which excludes flash attention (T5).
    has_distance_bias: bool,
}

impl Kind {
    /// The kind of an architecture (`llama_model::create_memory`, and the graphs in `llama.cpp/src/models`).
    fn of(arch: &str) -> Kind {
        const ENCODERS: &[&str] = &[
            "bert",
            "jina-bert-v2",
            "jina-bert-v3",
            "nomic-bert",
            "nomic-bert-moe",
            "neo-bert",
            "eurobert",
            "modern-bert",
            "gemma-embedding",
            "wavtokenizer-dec",
        ];
        // Diffusion models compute the logits of all positions at once.
        const DIFFUSION: &[&str] = &["dream", "llada", "llada-moe", "rnd1"];
        // Their caches are allocated, but not used.
        const CACHED_ENCODERS: &[&str] = &["t5encoder", "llama-embed"];
        let is = |list: &[&str]| list.contains(&arch);
        Kind {
            has_cache: !is(ENCODERS) && !is(DIFFUSION),
            reads_cache: !is(ENCODERS) && !is(DIFFUSION) && !is(CACHED_ENCODERS),
            has_logits: !is(ENCODERS) && !is(CACHED_ENCODERS),
            has_distance_bias: arch.starts_with("t5"),
        }
    }
}

impl Hparams {
    /// The sizes of the rotation matrices of quantized keys and values: for keys the largest power of two that divides a head, for values
    /// 64 (`llama_kv_cache`). `None` if head sizes differ, or are not multiples of 64.
    fn rotations(&self) -> (Option<u64>, Option<u64>) {
        let of = |head: fn(&Layer) -> u64| {
            let first = self.layers.first().map(head).filter(|n| *n > 0 && n % 64 == 0);
            first.filter(|first| self.layers.iter().all(|layer| head(layer) == *first))
        };
        (of(|layer| layer.head_k).map(|n| 1 << n.trailing_zeros()), of(|layer| layer.head_v).map(|_| 64))
    }

    /// Whether this is a decoder that reads the output of an encoder.
    fn has_cross_attention(&self) -> bool {
        self.layers.iter().any(|layer| layer.has_cross_attention)
    }

    /// The longest row of cached values.
    fn most_v_row(&self) -> u64 {
        self.layers.iter().map(|layer| layer.head_v.saturating_mul(layer.n_head_kv)).max().unwrap_or(0)
    }
}

/// Numbers of cells in the caches.
#[derive(Debug, Clone, Copy)]
struct Cells {
    full: u64,
    /// In the cache of the layers with a sliding window, if any.
    windowed: Option<u64>,
}

/// The maximum plausible number of heads or elements.
const MOST: u64 = 1 << 24;

/// The limits of llama.cpp for layers and experts.
const MOST_LAYERS: u64 = 512;

/// The longest context.
const MOST_CTX: u64 = 1 << 32;

/// Estimates the memory of a model.
///
/// ```no_run
/// use gguf_edit::estimate::{Setup, estimate};
///
/// let mut setup = Setup::default();
/// setup.n_ctx = Some(32_768);
/// let estimate = estimate("model.gguf", &setup)?;
/// println!("{} bytes", estimate.cpu.total());
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
///
/// # Errors
/// If the model cannot be read or lacks a key that determines its shape, or if the setup is invalid.
pub fn estimate(model: impl IntoModel, setup: &Setup) -> Result<Estimate, EditError> {
    let model = model.into_model()?;
    of_model(&model, setup).map_err(|e| e.at(model.path()))
}

fn of_model(model: &Model, setup: &Setup) -> Result<Estimate, EditError> {
    let gguf = model.gguf();
    match gguf.get_as::<&str>(GENERAL_TYPE) {
        Ok("imatrix") => return Err(EditError::NotEstimated { what: NotEstimated::Matrix }),
        Ok("adapter") => return Err(EditError::NotEstimated { what: NotEstimated::Adapter }),
        _ => (),
    }
    let architecture: String = gguf
        .get_as(GENERAL_ARCHITECTURE)
        .map_err(|_| EditError::MissingKey { key: GENERAL_ARCHITECTURE.to_owned() })?;
    check(setup)?;
    let (family, is_known) = family(&architecture);
    let tower = tower(gguf, &architecture);
    let hparams = read(model, &architecture, tower.as_ref())?;
    let n_ctx = match setup.n_ctx.filter(|_| tower.is_none()) {
        Some(n) => n,
        None => hparams
            .n_ctx_train
            .ok_or_else(|| EditError::MissingKey { key: format!("{architecture}.context_length") })?,
    };
    if !(1..=MOST_CTX).contains(&n_ctx) {
        return Err(asked(format!("a context of {n_ctx} tokens")));
    }
    // Each sequence has a separate part, in multiples of 256 (`llama-context.cpp`).
    let n_ctx_seq = align_up(n_ctx / setup.n_seq, 256).unwrap_or(n_ctx).max(256);
    // Batches of decoders are at most as long as the context (`llama-context.cpp`).
    let n_batch = match hparams.kind.reads_cache {
        true => setup.n_batch.min(n_ctx_seq.saturating_mul(setup.n_seq)),
        false => setup.n_batch,
    };
    let n_ubatch = setup.n_ubatch.min(n_batch);
    let cells = Cells { full: n_ctx_seq, windowed: windowed_cells(&hparams, n_ctx_seq, n_ubatch, setup.full_window) };
    let n_layers = hparams.layers.len() as u64;
    let n_gpu = setup.n_gpu_layers.min(n_layers + 1);
    let first_gpu = (n_layers + 1 - n_gpu).min(n_layers + 1);
    let (mut cpu, mut gpu) = weights(model, first_gpu, n_layers)?;
    for (il, layer) in hparams.layers.iter().enumerate() {
        let memory = if il as u64 >= first_gpu { &mut gpu } else { &mut cpu };
        let state = layer.recurrent.map_or(0, |recurrent| recurrent.state_bytes()).saturating_mul(setup.n_seq);
        memory.state = memory.state.saturating_add(state);
        if !hparams.kind.has_cache || !layer.has_attention {
            continue;
        }
        let n = cells.windowed.filter(|_| layer.is_windowed).unwrap_or(cells.full).saturating_mul(setup.n_seq);
        let bytes = cache_bytes(layer, n, setup)?;
        memory.cache = memory.cache.saturating_add(bytes);
    }
    let n_tokens = match tower {
        Some(_) => n_ctx,
        None => n_ubatch.min(n_ctx_seq.saturating_mul(setup.n_seq)),
    };
    let is_quantized = |ty: GgmlType| ty.info().is_some_and(|info| info.is_quantized());
    let batch = Batch {
        n_tokens,
        n_outputs: n_tokens.min(n_batch),
        n_seq: setup.n_seq,
        flash: setup.flash,
        rotates_k: is_quantized(setup.type_k),
        rotates_v: is_quantized(setup.type_v),
    };
    let compute = build(&hparams, family, cells, batch).buffer_bytes();
    // The buffer holds a row of logits even if a model has none, and that of T5 an embedding besides.
    let embedding = if hparams.has_cross_attention() { hparams.n_embd } else { 0 };
    cpu.output = hparams.n_vocab.saturating_add(embedding).saturating_mul(4).saturating_mul(setup.n_seq);
    let mut assumptions = vec![
        match tower {
            Some(_) => format!("an input of {n_tokens} positions; preprocessing and the projector are not counted"),
            None => format!("batch {n_batch}, micro-batch {n_tokens}; no pipeline parallelism"),
        },
        match setup.flash {
            true => "flash attention is used".to_owned(),
            false => "flash attention is not used, so all scores of a layer are in memory at once".to_owned(),
        },
        "repacked weights are not counted; weights that llama.cpp repacks for the CPU are in memory twice".to_owned(),
    ];
    if n_gpu == 0 {
        cpu.compute = compute;
    } else {
        gpu.compute = compute;
        // Tokens, embeddings and masks are created on the host.
        let inputs = hparams.n_embd.saturating_mul(4).saturating_add(cells.full.saturating_mul(2));
        cpu.compute = inputs.saturating_mul(n_tokens);
        assumptions.push(
            "the compute buffer of the GPU is assumed to equal that of the CPU; memory of the backend itself is not \
             counted"
                .to_owned(),
        );
    }
    if !is_known && tower.is_none() {
        assumptions.push(format!(
            "the graph of {architecture} is not known; the compute buffer is estimated as for {} with the same \
             dimensions",
            if hparams.kind.has_logits { "llama" } else { "bert" }
        ));
    }
    let n_ctx_train = hparams.n_ctx_train;
    Ok(Estimate { architecture, n_ctx, n_ctx_train, n_layers, n_gpu_layers: n_gpu, cpu, gpu, assumptions })
}

fn asked(problem: String) -> EditError {
    EditError::Asked { problem: format!("invalid setup: {problem}") }
}

fn check(setup: &Setup) -> Result<(), EditError> {
    let range = |what: &str, n: u64, most: u64| match (1..=most).contains(&n) {
        true => Ok(()),
        false => Err(asked(format!("{what} of {n}"))),
    };
    range("a batch", setup.n_batch, MOST)?;
    range("a physical batch", setup.n_ubatch, MOST)?;
    range("a number of sequences", setup.n_seq, 256)?;
    if !setup.flash && setup.type_v.info().is_none_or(|info| info.is_quantized()) {
        let problem = "quantized values in the cache need flash attention".to_owned();
        return Err(EditError::Asked { problem });
    }
    Ok(())
}

/// Cells of the cache for a sliding window: the window plus a batch, rounded up to a multiple of 256 (`llama-kv-cache-iswa.cpp`).
fn windowed_cells(hparams: &Hparams, full: u64, n_ubatch: u64, full_window: bool) -> Option<u64> {
    let window = hparams.window.filter(|_| hparams.layers.iter().any(|layer| layer.is_windowed))?;
    if full_window {
        return Some(full);
    }
    align_up(full.min(window.saturating_add(n_ubatch)), 256)
}

/// The size of the keys and values of a layer.
fn cache_bytes(layer: &Layer, n_cells: u64, setup: &Setup) -> Result<u64, EditError> {
    let bytes = |ty: GgmlType, row: u64| {
        let bytes = ty.tensor_bytes([row, n_cells]);
        bytes.map_err(|e| EditError::Asked { problem: format!("a cache of type {ty}: {e}") })
    };
    let k = bytes(setup.type_k, layer.head_k.saturating_mul(layer.n_head_kv))?;
    if layer.is_latent {
        return Ok(k);
    }
    let v = bytes(setup.type_v, layer.head_v.saturating_mul(layer.n_head_kv))?;
    Ok(k.saturating_add(v))
}

/// The weights on the host and on the GPU. Embedding tables are always on the host.
fn weights(model: &Model, first_gpu: u64, n_layers: u64) -> Result<(Memory, Memory), EditError> {
    let (mut cpu, mut gpu) = (Memory::default(), Memory::default());
    let (mut embeddings, mut has_output) = (0, false);
    for tensor in model.tensors() {
        let bytes = tensor.n_bytes()?;
        let name = tensor.name().to_string();
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')?.0.parse::<u64>().ok());
        let is_output = name.starts_with("output");
        has_output |= name == "output.weight";
        if name == "token_embd.weight" {
            embeddings = bytes;
        }
        let on_gpu = match layer {
            Some(layer) => layer >= first_gpu,
            None => is_output && first_gpu <= n_layers,
        };
        let memory = if on_gpu { &mut gpu } else { &mut cpu };
        memory.weights = memory.weights.saturating_add(bytes);
    }
    // Embeddings that are also the output matrix are on both.
    if !has_output && first_gpu <= n_layers {
        gpu.weights = gpu.weights.saturating_add(embeddings);
    }
    Ok((cpu, gpu))
}

/// An encoder of images or sound: the prefixes of its keys and blocks, and the number of positions that it computes at once.
#[derive(Debug)]
struct Tower {
    keys: &'static str,
    blocks: &'static str,
    position_embd: &'static str,
}

const VISION: Tower = Tower { keys: "clip.vision", blocks: "v.blk.", position_embd: "v.position_embd.weight" };
const AUDIO: Tower = Tower { keys: "clip.audio", blocks: "a.blk.", position_embd: "a.position_embd.weight" };

/// The encoder of a file for llama.cpp's multimodal library; if it has two, that of images.
fn tower(gguf: &Gguf<'_>, arch: &str) -> Option<Tower> {
    let is_vision = gguf.get("clip.vision.block_count").is_some();
    (arch == "clip").then_some(if is_vision { VISION } else { AUDIO })
}

/// The number of positions of a tower: the patches of an image of the size that the file states, or the rows of the position embeddings.
fn positions(keys: &Keys<'_>, rows: Option<u64>) -> Result<u64, EditError> {
    let side = |key: &str| keys.optional(key, MOST_LAYERS * MOST_LAYERS);
    let (image, patch) = (side("image_size")?, side("patch_size")?);
    let patches = image.zip(patch).and_then(|(image, patch)| image.checked_div(patch)).and_then(|n| n.checked_mul(n));
    patches.or(rows).filter(|n| *n > 0).ok_or_else(|| keys.missing("image_size"))
}

/// The prefix of the names of blocks. Of a T5, the decoder is computed with a cache.
fn blocks(shapes: &std::collections::HashMap<String, Vec<u64>>, tower: Option<&Tower>) -> &'static str {
    let has = |prefix: &str| shapes.contains_key(&format!("{prefix}0.attn_q.weight"));
    match tower {
        Some(tower) => tower.blocks,
        None => ["dec.blk.", "enc.blk."].into_iter().find(|prefix| has(prefix)).unwrap_or("blk."),
    }
}

/// Reads the properties that determine the graph.
fn read(model: &Model, arch: &str, tower: Option<&Tower>) -> Result<Hparams, EditError> {
    let gguf = model.gguf();
    let keys = Keys { gguf, arch: tower.map_or(arch, |tower| tower.keys) };
    let shapes: std::collections::HashMap<String, Vec<u64>> =
        model.tensors().map(|t| (t.name().to_string(), t.shape().collect())).collect();
    let n_layers = keys.number("block_count", MOST_LAYERS)?;
    let n_embd = keys.number("embedding_length", MOST)?;
    let rows = |name: &str| shapes.get(name).and_then(|shape| shape.get(1)).copied();
    let n_vocab = rows("output.weight")
        .or_else(|| rows("token_embd.weight"))
        .or_else(|| gguf.get("tokenizer.ggml.tokens").and_then(|tokens| tokens.as_array()).map(|tokens| tokens.len()));
    let n_vocab = n_vocab.or(tower.map(|_| 0));
    let n_vocab = n_vocab
        .filter(|n| *n <= MOST)
        .ok_or_else(|| EditError::MissingKey { key: "tokenizer.ggml.tokens".to_owned() })?;
    let n_ctx_train = match tower {
        Some(tower) => Some(positions(&keys, rows(tower.position_embd))?),
        None => keys.optional("context_length", MOST_CTX)?,
    };
    let blocks = blocks(&shapes, tower);
    let mut kind = Kind::of(arch);
    if tower.is_some() {
        kind = Kind { has_cache: false, reads_cache: false, has_logits: false, has_distance_bias: false };
    }
    let window = keys.optional("attention.sliding_window", MOST_CTX)?.filter(|n| *n > 0);
    let pattern = pattern(arch, &keys)?;
    let mut hparams = Hparams {
        n_embd,
        n_vocab,
        n_ctx_train,
        window: window.filter(|_| pattern.is_some()),
        has_positions: shapes.contains_key("position_embd.weight"),
        has_output_bias: shapes.contains_key("output.bias"),
        has_output_norm_bias: shapes.contains_key("output_norm.bias"),
        has_attention_softcap: keys.get("attn_logit_softcapping").is_some(),
        has_token_types: shapes.contains_key("token_types.weight"),
        has_token_norm: shapes.contains_key("token_embd_norm.weight"),
        has_output_norm: shapes.contains_key("output_norm.weight")
            || shapes.contains_key("dec.output_norm.weight")
            || shapes.contains_key("enc.output_norm.weight"),
        kind,
        layers: Vec::new(),
    };
    // Blocks that predict further tokens are loaded, but not computed.
    let n_more = keys.optional("nextn_predict_layers", MOST_LAYERS)?.unwrap_or(0);
    for il in 0..n_layers.saturating_sub(n_more) {
        let of_layer = |name: &str| shapes.get(&format!("{blocks}{il}.{name}"));
        let has = |name: &str| of_layer(name).is_some();
        let dim = |name: &str, i: usize| of_layer(name).and_then(|shape| shape.get(i)).copied();
        let n_head = keys.per_layer("attention.head_count", il)?;
        let recurrent = Recurrent::read(arch, &keys, n_embd, n_head.unwrap_or(0), &dim)?;
        let n_head = n_head.or(recurrent.map(|_| 0)).ok_or_else(|| keys.missing("attention.head_count"))?;
        let n_head_kv = keys.per_layer("attention.head_count_kv", il)?.unwrap_or(n_head);
        let per_head = n_embd.checked_div(n_head).unwrap_or(0);
        let head_k = keys.optional("attention.key_length", MOST)?.unwrap_or(per_head);
        let head_v = keys.optional("attention.value_length", MOST)?.unwrap_or(per_head);
        // In latent attention, the values are part of the keys.
        let is_latent = keys.optional("attention.key_length_mla", MOST)?.is_some_and(|n| n > 0);
        let experts = Experts::read(arch, &keys, &dim)?;
        let is_windowed = pattern.as_ref().is_some_and(|pattern| pattern.is_windowed(il));
        hparams.layers.push(Layer {
            n_head,
            n_head_kv,
            head_k,
            head_v,
            is_latent,
            is_windowed: is_windowed && hparams.window.is_some(),
            has_attn_norm: has("attn_norm.weight") || has("ln1.weight"),
            has_attn_norm_bias: has("attn_norm.bias") || has("ln1.bias"),
            has_second_norm: has("attn_norm_2.weight"),
            has_fused_qkv: has("attn_qkv.weight"),
            has_qkv_bias: has("attn_qkv.bias") || has("attn_q.bias"),
            has_q_norm: has("attn_q_norm.weight"),
            has_k_norm: has("attn_k_norm.weight"),
            has_attn_output_bias: has("attn_output.bias") || has("attn_out.bias"),
            has_attn_post_norm: has("post_attention_norm.weight"),
            has_sum_norm: has("attn_output_norm.weight"),
            has_output_norm: has("layer_output_norm.weight"),
            has_ffn_norm: has("ffn_norm.weight") || has("ln2.weight"),
            has_ffn_norm_bias: has("ffn_norm.bias") || has("ln2.bias"),
            has_ffn_post_norm: has("post_ffw_norm.weight"),
            has_gate: has("ffn_gate.weight"),
            has_ffn_bias: has("ffn_up.bias"),
            n_up: dim("ffn_up.weight", 1).unwrap_or(0),
            n_ff: dim("ffn_down.weight", 0).unwrap_or(0),
            experts,
            // In a hybrid model, a block has one of the two; in Falcon-H1, each has both.
            has_attention: n_head_kv > 0 && (recurrent.is_none() || arch == "falcon-h1"),
            recurrent,
            has_cross_attention: has("cross_attn_q.weight"),
        });
    }
    Ok(hparams)
}

/// The layers with a sliding window.
#[derive(Debug)]
enum Pattern {
    /// All layers except every n-th.
    Every(u64),
    /// The layers whose element is true.
    Listed(Vec<bool>),
}

impl Pattern {
    fn is_windowed(&self, il: u64) -> bool {
        match self {
            Pattern::Every(n) => *n == 0 || il % n < n - 1,
            Pattern::Listed(flags) => usize::try_from(il).ok().and_then(|il| flags.get(il)).copied().unwrap_or(false),
        }
    }
}

/// The defaults of the architectures with two caches, unless a key overrides them (`llama.cpp/src/models`).
const PATTERNS: &[(&str, u64)] =
    &[("gemma2", 2), ("gemma3", 6), ("cohere2", 4), ("olmo2", 4), ("gpt-oss", 2), ("exaone4", 4), ("modern-bert", 3)];

fn pattern(arch: &str, keys: &Keys<'_>) -> Result<Option<Pattern>, EditError> {
    let Some((_, every)) = PATTERNS.iter().find(|(name, _)| *name == arch) else { return Ok(None) };
    if let Some(ValueRef::Array(array)) = keys.get("attention.sliding_window_pattern")
        && let Ok(flags) = array.to_vec::<bool>()
    {
        return Ok(Some(Pattern::Listed(flags)));
    }
    let stated = keys.optional("attention.sliding_window_pattern", MOST_LAYERS)?;
    Ok(Some(Pattern::Every(stated.unwrap_or(*every))))
}

/// Reads keys of a model's architecture.
struct Keys<'a> {
    gguf: &'a Gguf<'static>,
    arch: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    fn missing(&self, key: &str) -> EditError {
        EditError::MissingKey { key: self.name(key) }
    }

    fn get(&self, key: &str) -> Option<ValueRef<'_>> {
        self.gguf.get(&self.name(key))
    }

    fn in_range(&self, key: &str, n: i128, most: u64) -> Result<u64, EditError> {
        u64::try_from(n).ok().filter(|n| *n <= most).ok_or_else(|| EditError::Hyperparameter {
            key: self.name(key),
            problem: format!("is {n}, and no model has more than {most}"),
        })
    }

    fn optional(&self, key: &str, most: u64) -> Result<Option<u64>, EditError> {
        match self.get(key).and_then(|value| value.as_integer()) {
            Some(n) => self.in_range(key, n, most).map(Some),
            None => Ok(None),
        }
    }

    fn number(&self, key: &str, most: u64) -> Result<u64, EditError> {
        let n = self.optional(key, most)?.ok_or_else(|| self.missing(key))?;
        if n == 0 {
            return Err(EditError::Hyperparameter { key: self.name(key), problem: "is 0".to_owned() });
        }
        Ok(n)
    }

    /// A number, or the element of a layer in an array.
    fn per_layer(&self, key: &str, il: u64) -> Result<Option<u64>, EditError> {
        let value = match self.get(key) {
            Some(ValueRef::Array(array)) => array.get(il),
            value => value,
        };
        match value.and_then(|value| value.as_integer()) {
            Some(n) => self.in_range(key, n, MOST).map(Some),
            None => Ok(None),
        }
    }
}
