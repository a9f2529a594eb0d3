//! Builds the memory-relevant part of llama.cpp's graph for a transformer: the shapes and the order of the operations.
//!
//! One description covers many architectures, because most differences follow from the tensors of a block: biases, fused projections, norms
//! of queries and keys, post-norms, gates, experts. [`Family`] has the rest.

use super::graph::{Graph, Id, Ty};
use super::{Cells, Hparams, Layer};

/// Properties of an architecture that do not follow from its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    /// Norms are layer norms, which need separate memory, instead of RMS norms.
    layer_norm: bool,
    /// Queries and keys are rotated.
    rope: bool,
    /// The embeddings are scaled.
    scale_embeddings: bool,
    /// The queries are scaled before attention.
    scale_queries: bool,
    /// Attention and feed-forward read the same input.
    parallel: bool,
    /// With `parallel`, the sum is written over the output of attention.
    over_attention: bool,
    /// The logits are scaled or squashed, in place.
    scale_logits: bool,
}

const PLAIN: Family = Family {
    layer_norm: false,
    rope: true,
    scale_embeddings: false,
    scale_queries: false,
    parallel: false,
    over_attention: false,
    scale_logits: false,
};

const LAYER_NORM: Family = Family { layer_norm: true, ..PLAIN };
const NO_ROPE: Family = Family { rope: false, ..PLAIN };
const BERT: Family = Family { rope: false, ..LAYER_NORM };
const GEMMA: Family = Family { scale_embeddings: true, scale_queries: true, ..PLAIN };

/// Architectures with this graph.
const FAMILIES: &[(&str, Family)] = &[
    ("llama", PLAIN),
    ("qwen2", PLAIN),
    ("qwen3", PLAIN),
    ("qwen3moe", PLAIN),
    ("qwen2moe", PLAIN),
    ("olmo", PLAIN),
    ("gpt-oss", PLAIN),
    ("olmo2", PLAIN),
    ("glm4", PLAIN),
    ("granite", Family { scale_embeddings: true, scale_logits: true, ..PLAIN }),
    ("gemma", GEMMA),
    ("gemma2", Family { scale_logits: true, ..GEMMA }),
    ("gemma3", GEMMA),
    ("phi3", Family { scale_queries: true, ..PLAIN }),
    ("phi2", Family { parallel: true, over_attention: true, scale_queries: true, ..LAYER_NORM }),
    ("falcon", Family { parallel: true, ..LAYER_NORM }),
    ("command-r", Family { parallel: true, scale_logits: true, ..LAYER_NORM }),
    ("starcoder2", LAYER_NORM),
    ("stablelm", LAYER_NORM),
    ("gpt2", Family { rope: false, ..LAYER_NORM }),
    ("starcoder", Family { rope: false, ..LAYER_NORM }),
    ("bert", BERT),
    ("jina-bert-v2", BERT),
    ("clip", BERT),
    ("nomic-bert", LAYER_NORM),
    ("modern-bert", LAYER_NORM),
    ("neo-bert", PLAIN),
    ("eurobert", PLAIN),
    ("llama-embed", PLAIN),
    ("gemma-embedding", GEMMA),
    ("dream", PLAIN),
    ("llada", PLAIN),
    ("llada-moe", PLAIN),
    ("rnd1", PLAIN),
    ("t5", NO_ROPE),
    ("t5encoder", NO_ROPE),
    ("mamba", PLAIN),
    ("mamba2", PLAIN),
    ("jamba", NO_ROPE),
    ("falcon-h1", PLAIN),
    ("granitehybrid", Family { scale_embeddings: true, scale_logits: true, ..NO_ROPE }),
    ("nemotron_h", NO_ROPE),
    ("lfm2", PLAIN),
    ("lfm2moe", PLAIN),
    ("plamo2", PLAIN),
    ("qwen3next", PLAIN),
    ("qwen35", PLAIN),
    ("qwen35moe", PLAIN),
    ("kimi-linear", NO_ROPE),
    ("minimax-01", PLAIN),
    ("rwkv6", LAYER_NORM),
    ("rwkv7", LAYER_NORM),
    ("rwkv6qwen2", PLAIN),
    ("arwkv7", PLAIN),
];

/// The family of an architecture, and whether it is known; others are treated like llama.
pub(super) fn family(arch: &str) -> (Family, bool) {
    match FAMILIES.iter().find(|(name, _)| *name == arch) {
        Some((_, family)) => (*family, true),
        None => (PLAIN, false),
    }
}

/// The parameters of a graph besides the model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    /// Tokens to compute at once.
    pub(super) n_tokens: u64,
    /// Number of sequences.
    pub(super) n_seq: u64,
    /// Tokens with requested logits.
    pub(super) n_outputs: u64,
    pub(super) flash: bool,
    /// Cached keys or values are quantized, and rotated first to remove outliers.
    pub(super) rotates_k: bool,
    pub(super) rotates_v: bool,
}

/// The inputs of attention over one cache.
#[derive(Debug, Clone, Copy)]
struct Attention {
    /// The cells of the batch's keys and values, if they are cached.
    idxs: Option<(Id, Id)>,
    mask: Id,
    /// What is added to the scores.
    bias: Option<Id>,
    n_cells: u64,
    /// The rotation matrices of keys and values.
    k_rot: Option<Id>,
    v_rot: Option<Id>,
}

pub(super) struct Builder<'a> {
    pub(super) graph: Graph,
    family: Family,
    pub(super) hparams: &'a Hparams,
    pub(super) batch: Batch,
}

/// The graph of a model.
pub(super) fn build(hparams: &Hparams, family: Family, cells: Cells, batch: Batch) -> Graph {
    let mut builder = Builder { graph: Graph::default(), family, hparams, batch };
    builder.model(cells);
    builder.graph
}

impl Builder<'_> {
    fn model(&mut self, cells: Cells) {
        let (n_embd, n_tokens) = (self.hparams.n_embd, self.batch.n_tokens);
        let tokens = self.graph.input(Ty::I32, [n_tokens, 1, 1, 1]);
        let embd = self.graph.input(Ty::F32, [n_embd, n_tokens, 1, 1]);
        let table = self.graph.external();
        let mut cur = self.graph.op(Ty::F32, [n_embd, n_tokens, 1, 1], &[table, tokens]);
        // The graph contains both kinds of input, tokens and embeddings; only one is computed.
        self.graph.expand(cur);
        self.graph.expand(embd);
        if self.family.scale_embeddings {
            cur = self.graph.in_place(&[cur]);
        }
        let positions = self.graph.input(Ty::I32, [n_tokens, 1, 1, 1]);
        if self.hparams.has_token_types {
            let types = self.graph.external();
            cur = self.graph.in_place(&[cur, types]);
        }
        if self.hparams.has_positions {
            let table = self.graph.external();
            let of_positions = self.graph.op(Ty::F32, [n_embd, n_tokens, 1, 1], &[table, positions]);
            cur = self.graph.in_place(&[cur, of_positions]);
        }
        if self.hparams.has_token_norm {
            cur = self.norm(cur, true);
        }
        let full = self.attention_inputs(cells.full);
        let windowed = cells.windowed.map(|n| self.attention_inputs(n));
        let outputs = self.graph.input(Ty::I32, [self.batch.n_outputs, 1, 1, 1]);
        let n_layers = self.hparams.layers.len();
        for (il, layer) in self.hparams.layers.iter().enumerate() {
            let inputs = windowed.filter(|_| layer.is_windowed).unwrap_or(full);
            let outputs = (il + 1 == n_layers).then_some(outputs);
            cur = self.layer(layer, cur, positions, inputs, outputs);
        }
        if self.hparams.has_output_norm {
            cur = self.norm(cur, self.hparams.has_output_norm_bias);
        }
        if !self.hparams.kind.has_logits {
            self.graph.expand(cur);
            return;
        }
        let weight = self.graph.external();
        let n_outputs = self.graph.ne(cur)[1];
        cur = self.graph.op(Ty::F32, [self.hparams.n_vocab, n_outputs, 1, 1], &[weight, cur]);
        if self.hparams.has_output_bias || self.family.scale_logits {
            cur = self.graph.in_place(&[cur]);
        }
        self.graph.expand(cur);
    }

    fn attention_inputs(&mut self, n_cells: u64) -> Attention {
        let n = self.batch.n_tokens;
        let kind = self.hparams.kind;
        let n_cells = if kind.reads_cache { n_cells } else { n };
        let n_v = if self.batch.flash { n } else { n.saturating_mul(self.hparams.most_v_row()) };
        let mask = if self.batch.flash { Ty::F16 } else { Ty::F32 };
        let (k_rot, v_rot) = self.hparams.rotations();
        let k_rot = k_rot.filter(|_| self.batch.rotates_k).map(|n| self.graph.input(Ty::F32, [n, n, 1, 1]));
        let v_rot = v_rot.filter(|_| self.batch.rotates_v).map(|n| self.graph.input(Ty::F32, [n, n, 1, 1]));
        let idxs = kind
            .reads_cache
            .then(|| (self.graph.input(Ty::I64, [n, 1, 1, 1]), self.graph.input(Ty::I64, [n_v, 1, 1, 1])));
        let mask = self.graph.input(mask, [n_cells, n, 1, 1]);
        let bias = kind.has_distance_bias.then(|| self.distance_bias(n_cells));
        Attention { idxs, mask, bias, n_cells, k_rot, v_rot }
    }

    /// The bias of T5: a number for the distance of each token from each cell, for each head.
    fn distance_bias(&mut self, n_cells: u64) -> Id {
        let n = self.batch.n_tokens;
        let n_head = self.hparams.layers.first().map_or(0, |layer| layer.n_head);
        let buckets = self.graph.input(Ty::I32, [n_cells, n, 1, 1]);
        let table = self.graph.external();
        let flat = self.graph.view(buckets, [n_cells.saturating_mul(n), 1, 1, 1]);
        let rows = self.graph.op(Ty::F32, [n_head, n_cells.saturating_mul(n), 1, 1], &[table, flat]);
        self.graph.op(Ty::F32, [n_cells, n, n_head, 1], &[rows])
    }

    /// A norm with its weight, and its bias, if any.
    pub(super) fn norm(&mut self, cur: Id, has_bias: bool) -> Id {
        let normed = match self.family.layer_norm {
            true => {
                let ne = self.graph.ne(cur);
                self.graph.op(Ty::F32, ne, &[cur])
            }
            false => self.graph.in_place(&[cur]),
        };
        let weight = self.graph.external();
        let cur = self.graph.in_place(&[normed, weight]);
        self.bias(cur, has_bias)
    }

    pub(super) fn bias(&mut self, cur: Id, has_bias: bool) -> Id {
        if !has_bias {
            return cur;
        }
        let bias = self.graph.external();
        self.graph.in_place(&[cur, bias])
    }

    /// A product with a matrix of this many rows.
    pub(super) fn matrix(&mut self, cur: Id, n_rows: u64, has_bias: bool) -> Id {
        let ne = self.graph.ne(cur);
        let weight = self.graph.external();
        let cur = self.graph.op(Ty::F32, [n_rows, ne[1], ne[2], ne[3]], &[weight, cur]);
        self.bias(cur, has_bias)
    }

    /// Rotates the elements of each head, or of parts of it.
    fn rotated(&mut self, cur: Id, by: Option<Id>) -> Id {
        let Some(by) = by else { return cur };
        let (ne, n) = (self.graph.ne(cur), self.graph.ne(by)[0]);
        let rows = ne.iter().fold(1u64, |all, &ne| all.saturating_mul(ne)).checked_div(n).unwrap_or(0);
        let flat = self.graph.view(cur, [n, rows, 1, 1]);
        let rotated = self.graph.op(Ty::F32, [n, rows, 1, 1], &[by, flat]);
        self.graph.view(rotated, ne)
    }

    fn rows(&mut self, cur: Id, ids: Id) -> Id {
        let (ne, n) = (self.graph.ne(cur), self.graph.ne(ids)[0]);
        self.graph.op(Ty::F32, [ne[0], n, 1, 1], &[cur, ids])
    }

    fn layer(&mut self, layer: &Layer, input: Id, positions: Id, inputs: Attention, outputs: Option<Id>) -> Id {
        let mut residual = input;
        let mut normed = if layer.has_attn_norm { self.norm(input, layer.has_attn_norm_bias) } else { input };
        let attended = match layer.has_second_norm && layer.recurrent.is_none() {
            true => self.norm(input, layer.has_attn_norm_bias),
            false => normed,
        };
        let mut cur = attended;
        if layer.has_attention {
            cur = self.attention(layer, attended, positions, inputs);
        }
        if let Some(recurrent) = &layer.recurrent {
            let mixed = self.recurrent(recurrent, input, attended);
            cur = if layer.has_attention { self.graph.in_place(&[cur, mixed]) } else { mixed };
            if recurrent.has_feed_forward() {
                return outputs.map_or(cur, |ids| self.rows(cur, ids));
            }
        }
        if let Some(ids) = outputs {
            cur = self.rows(cur, ids);
            residual = self.rows(residual, ids);
            if self.family.parallel {
                normed = self.rows(normed, ids);
            }
        }
        if layer.has_attn_post_norm {
            cur = self.norm(cur, false);
        }
        if self.family.parallel {
            let attention = cur;
            let cur = self.feed_forward(layer, normed);
            let both = if self.family.over_attention { [attention, cur] } else { [cur, attention] };
            let cur = self.graph.in_place(&both);
            return self.graph.in_place(&[cur, residual]);
        }
        if !layer.has_feed_forward() {
            return self.graph.in_place(&[cur, residual]);
        }
        let is_bare = !layer.has_attention && layer.recurrent.is_none();
        let mut residual = if is_bare { residual } else { self.graph.in_place(&[cur, residual]) };
        if layer.has_sum_norm {
            residual = self.norm(residual, true);
        }
        if layer.has_cross_attention {
            residual = self.cross_attention(layer, residual, inputs);
        }
        let mut cur = if is_bare { cur } else { residual };
        cur = if layer.has_ffn_norm { self.norm(residual, layer.has_ffn_norm_bias) } else { cur };
        cur = if layer.experts.is_some() { self.experts(layer, cur) } else { self.feed_forward(layer, cur) };
        if layer.has_ffn_post_norm {
            cur = self.norm(cur, false);
        }
        let cur = self.graph.in_place(&[cur, residual]);
        if layer.has_output_norm { self.norm(cur, true) } else { cur }
    }

    fn attention(&mut self, layer: &Layer, cur: Id, positions: Id, inputs: Attention) -> Id {
        let n = self.graph.ne(cur)[1];
        let (head_k, head_v) = (layer.head_k, layer.head_v);
        let shapes = [[head_k, layer.n_head, n, 1], [head_k, layer.n_head_kv, n, 1], [head_v, layer.n_head_kv, n, 1]];
        let [mut q, mut k, mut v] = if layer.has_fused_qkv {
            let rows = shapes.iter().map(|shape| shape[0].saturating_mul(shape[1])).fold(0, u64::saturating_add);
            let qkv = self.matrix(cur, rows, layer.has_qkv_bias);
            shapes.map(|shape| self.graph.strided_view(qkv, shape))
        } else {
            let flat = shapes.map(|shape| self.matrix(cur, shape[0].saturating_mul(shape[1]), layer.has_qkv_bias));
            let mut views = flat;
            for (view, shape) in views.iter_mut().zip(shapes) {
                *view = self.graph.view(*view, shape);
            }
            views
        };
        if layer.has_q_norm {
            q = self.norm(q, false);
        }
        if layer.has_k_norm {
            k = self.norm(k, false);
        }
        if self.family.rope {
            q = self.graph.in_place(&[q, positions]);
            k = self.graph.in_place(&[k, positions]);
        }
        if self.family.scale_queries {
            q = self.graph.in_place(&[q]);
        }
        q = self.rotated(q, inputs.k_rot);
        k = self.rotated(k, inputs.k_rot);
        v = self.rotated(v, inputs.v_rot);
        for id in [q, v, k] {
            self.graph.expand(id);
        }
        if let Some(idxs) = inputs.idxs {
            self.cached(layer, k, v, idxs);
            (k, v) = (self.graph.external(), self.graph.external());
        }
        let cur = self.scores(layer, (q, k, v), inputs);
        self.graph.expand(cur);
        let cur = self.rotated(cur, inputs.v_rot);
        self.matrix(cur, self.hparams.n_embd, layer.has_attn_output_bias)
    }

    /// Writes keys and values of a batch into the cache.
    fn cached(&mut self, layer: &Layer, k: Id, v: Id, (k_idxs, v_idxs): (Id, Id)) {
        let n = self.batch.n_tokens;
        let (row_k, row_v) =
            (layer.head_k.saturating_mul(layer.n_head_kv), layer.head_v.saturating_mul(layer.n_head_kv));
        let (cache_k, cache_v) = (self.graph.external(), self.graph.external());
        let flat = self.graph.view(k, [row_k, n, 1, 1]);
        let stored = self.graph.write_into(cache_k, &[flat, k_idxs, cache_k]);
        self.graph.expand(stored);
        // Queries, keys and values of a fused projection are not contiguous.
        let mut flat = match layer.has_fused_qkv && !self.batch.flash {
            true => self.graph.op(Ty::F32, [row_v, n, 1, 1], &[v]),
            false => self.graph.view(v, [row_v, n, 1, 1]),
        };
        if !self.batch.flash {
            flat = self.graph.view(flat, [1, row_v.saturating_mul(n), 1, 1]);
        }
        let stored = self.graph.write_into(cache_v, &[flat, v_idxs, cache_v]);
        self.graph.expand(stored);
    }

    /// The sums of values, weighted by the scores of queries and keys.
    fn scores(&mut self, layer: &Layer, (q, mut k, mut v): (Id, Id, Id), inputs: Attention) -> Id {
        let n = self.batch.n_tokens;
        let (head_k, head_v) = (layer.head_k, layer.head_v);
        let width = head_v.saturating_mul(layer.n_head);
        let q = self.graph.view(q, [head_k, layer.n_head, n, 1]);
        let q = self.graph.permuted(q);
        let is_cached = inputs.idxs.is_some();
        if self.batch.flash && inputs.bias.is_none() {
            // Keys and values of the batch itself are 32-bit floats, which flash attention does not read.
            if !is_cached {
                k = self.graph.op(Ty::F16, [head_k, inputs.n_cells, layer.n_head_kv, 1], &[k]);
                v = self.graph.op(Ty::F16, [head_v, inputs.n_cells, layer.n_head_kv, 1], &[v]);
            }
            let cur = self.graph.op(Ty::F32, [head_v, layer.n_head, n, 1], &[q, k, v, inputs.mask]);
            return self.graph.view(cur, [width, n, 1, 1]);
        }
        let mut kq = self.graph.op(Ty::F32, [inputs.n_cells, n, layer.n_head, 1], &[k, q]);
        if self.hparams.has_attention_softcap {
            kq = self.graph.in_place(&[kq]);
        }
        if let Some(bias) = inputs.bias {
            kq = self.graph.in_place(&[kq, bias]);
        }
        let kq = self.graph.in_place(&[kq, inputs.mask]);
        if !is_cached || self.batch.flash {
            v = self.graph.op(Ty::F32, [inputs.n_cells, head_v, layer.n_head_kv, 1], &[v]);
        }
        let kqv = self.graph.op(Ty::F32, [head_v, n, layer.n_head, 1], &[v, kq]);
        let kqv = self.graph.permuted(kqv);
        self.graph.op(Ty::F32, [width, n, 1, 1], &[kqv])
    }

    /// Attention to the output of an encoder, which is as long as the batch, and the sum with its input.
    fn cross_attention(&mut self, layer: &Layer, residual: Id, inputs: Attention) -> Id {
        let n = self.batch.n_tokens;
        let cur = self.norm(residual, false);
        let (row_k, row_v) = (layer.head_k.saturating_mul(layer.n_head), layer.head_v.saturating_mul(layer.n_head));
        let encoded = self.graph.input(Ty::F32, [self.hparams.n_embd, n, 1, 1]);
        let q = self.matrix(cur, row_k, false);
        let k = self.matrix(encoded, row_k, false);
        let v = self.matrix(encoded, row_v, false);
        for id in [q, k, v] {
            self.graph.expand(id);
        }
        let cross = Attention { idxs: None, bias: None, n_cells: n, ..inputs };
        let cur = self.scores(layer, (q, k, v), cross);
        self.graph.expand(cur);
        let cur = self.matrix(cur, self.hparams.n_embd, false);
        self.graph.in_place(&[cur, residual])
    }

    fn feed_forward(&mut self, layer: &Layer, cur: Id) -> Id {
        let up = self.matrix(cur, layer.n_up, layer.has_ffn_bias);
        let ne = self.graph.ne(up);
        let hidden = if layer.has_gate {
            let gate = self.matrix(cur, layer.n_up, layer.has_ffn_bias);
            self.graph.op(Ty::F32, ne, &[gate, up])
        } else if layer.n_up == layer.n_ff.saturating_mul(2) {
            // Gate and values in one matrix.
            self.graph.op(Ty::F32, [layer.n_ff, ne[1], 1, 1], &[up])
        } else {
            self.graph.in_place(&[up])
        };
        self.matrix(hidden, self.hparams.n_embd, layer.has_ffn_bias)
    }

    fn experts(&mut self, layer: &Layer, cur: Id) -> Id {
        let Some(experts) = layer.experts else { return cur };
        let (n_embd, n) = (self.hparams.n_embd, self.graph.ne(cur)[1]);
        let used = experts.n_used;
        let logits = self.matrix(cur, experts.n, false);
        let probs = self.graph.in_place(&[logits]);
        let sorted = self.graph.op(Ty::I32, [experts.n, n, 1, 1], &[probs]);
        let chosen = self.graph.strided_view(sorted, [used, n, 1, 1]);
        let probs = self.graph.view(probs, [1, experts.n, n, 1]);
        let mut weights = self.graph.op(Ty::F32, [1, used, n, 1], &[probs, chosen]);
        if experts.normalizes {
            let flat = self.graph.view(weights, [used, n, 1, 1]);
            let sum = self.graph.op(Ty::F32, [1, n, 1, 1], &[flat]);
            let sum = self.graph.in_place(&[sum]);
            let divided = self.graph.in_place(&[flat, sum]);
            weights = self.graph.view(divided, [1, used, n, 1]);
        }
        self.graph.expand(weights);
        let input = self.graph.view(cur, [n_embd, 1, n, 1]);
        let product = |builder: &mut Self, cur: Id, rows: u64| {
            let weight = builder.graph.external();
            builder.graph.op(Ty::F32, [rows, used, n, 1], &[weight, cur, chosen])
        };
        let up = product(self, input, experts.n_ff);
        let gate = product(self, input, experts.n_ff);
        let hidden = self.graph.op(Ty::F32, [experts.n_ff, used, n, 1], &[gate, up]);
        let out = product(self, hidden, n_embd);
        let out = self.graph.in_place(&[out, weights]);
        self.graph.expand(out);
        let parts: Vec<Id> = (0..used).map(|_| self.graph.strided_view(out, [n_embd, n, 1, 1])).collect();
        for &part in &parts {
            self.graph.expand(part);
        }
        let mut parts = parts.into_iter();
        let mut sum = parts.next().unwrap_or(out);
        let mut n_added = 0;
        for part in parts {
            sum = self.graph.in_place(&[sum, part]);
            self.graph.expand(sum);
            n_added += 1;
        }
        if n_added == 0 {
            sum = self.graph.op(Ty::F32, [n_embd, n, 1, 1], &[sum]);
        }
        sum
    }
}
