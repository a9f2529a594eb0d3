//! Nomic BERT: BERT with rotary positions, and a gated feed-forward part, or ungated experts in every second block.
//!
//! Rules: `load_arch_tensors` in `src/models/nomic-bert.cpp` and `nomic-bert-moe.cpp` of llama.cpp, `NomicBertModel`
//! in `conversion/bert.py`, which rejects configurations that llama.cpp does not implement.

use super::bert::BERT;
use super::neo_bert::LABELS;
use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["nomic-bert"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[ATTENTION_AND_NORMS, GATED],
    checkpoints: &[Checkpoint {
        when: "not moe_every_n_layers",
        keys: &[DENSE, POSITIONS, GENERIC, NOT_CAUSAL, POOLING, LABELS],
        ..CHECKPOINT
    }],
};

pub(super) const WITH_EXPERTS: Architecture = Architecture {
    names: &["nomic-bert-moe"],
    required: &[TRANSFORMER_KEYS, LAYER_NORM_KEYS],
    optional: &[keys::MOE_EVERY_N_LAYERS],
    outside: &[OUTSIDE],
    block: &[ATTENTION_AND_NORMS, EXPERTS_AND_OTHERS],
    checkpoints: &[Checkpoint {
        when: "moe_every_n_layers",
        keys: &[SPARSE, POSITIONS, GENERIC, NOT_CAUSAL, POOLING, LABELS, EXPERT_KEYS],
        ..CHECKPOINT
    }],
};

const CHECKPOINT: Checkpoint = Checkpoint {
    classes: &["NomicBertModel"],
    names: &TensorNames {
        layers: &["encoder.layers.{}."],
        skip: &[("pooler.dense.*", ""), ("cls.predictions*", ""), ("*mlp.experts.bias*", "")],
        ..*BERT.names
    },
    tokenizer: &Tokenizer {
        vocab: Vocab::read_by(&[Reader::NomicXlmRoberta, Reader::WordPiece]),
        first_keys: &[WORD_PIECE_TYPES],
        ..*BERT.tokenizer
    },
    ..BERT
};

/// The number of token types; for a Unigram vocabulary, the tokenizer writes this key.
const WORD_PIECE_TYPES: &[Key] = keys! {
    "tokenizer.ggml.token_type_count" U32? = "(type_vocab_size|1) if @tokenizer_model == 'bert' else null";
};

/// The configurations that llama.cpp implements, with biases nowhere or everywhere.
const DENSE: &[Key] = keys! {
    let checked = "one_of(activation_function, {'swiglu': 1})";
    let checked = "one_of(str(qkv_proj_bias), {'false': 1}) + one_of(str(mlp_fc1_bias), {'false': 1})
        + one_of(str(mlp_fc2_bias), {'false': 1})";
};

const SPARSE: &[Key] = keys! {
    let checked = "one_of(activation_function, {'gelu': 1})";
    let checked = "one_of(str(qkv_proj_bias), {'true': 1}) + one_of(str(mlp_fc1_bias), {'true': 1})
        + one_of(str(mlp_fc2_bias), {'true': 1})";
};

/// The number of positions in training.
const POSITIONS: &[Key] = keys! {
    let checked = "one_of(str(causal), {'false': 1}) + one_of(str(prenorm), {'false': 1})
        + one_of(str(rotary_emb_interleaved), {'false': 1}) + one_of(str(float(rotary_emb_fraction)), {'1.0': 1})";
    let checked = "one_of(str(rotary_emb_scale_base), {}) if rotary_emb_scale_base != null else 1";
    let n_positions_of_max_trained_positions = "str(n_positions) + ' of ' + str(max_trained_positions|2048)";
    let n_positions = "one_of(n_positions_of_max_trained_positions, {'8192 of 2048': 2048, '2048 of 2048': 512})";
};

const EXPERT_KEYS: &[Key] = keys! {
    "moe_every_n_layers" U32 = "moe_every_n_layers";
    "expert_used_count" U32 = "moe_top_k";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"        [Embd Vocab]      Required Always <- "embeddings.word_embeddings";
    "token_types.weight"       [Embd TokenTypes] Optional Always <- "embeddings.token_type_embeddings";
    "token_embd_norm.weight"   [Embd]            Required Always + Required <- "emb_ln";
};

const ATTENTION_AND_NORMS: &[Row] = rows! {
    "attn_q.weight"            [Embd Embd]          UnlessFused Always + Optional;
    "attn_k.weight"            [Embd V]          UnlessFused Always + Optional;
    "attn_v.weight"            [Embd V]          UnlessFused Always + Optional;
    "attn_qkv.weight"          [Embd EmbdQkv]        Optional    Always + Optional <- "attn.Wqkv";
    "attn_output.weight"       [Embd Embd]       Required    Always + Optional <- "attn.out_proj";
    "attn_output_norm.weight"  [Embd]            Required    Always + Required <- "norm1";
    "layer_output_norm.weight" [Embd]            Required    Always + Required <- "norm2";
};

const GATED: &[Row] = rows! {
    "ffn_up.weight"            [Embd Ff]         Required    Always + Optional <- "mlp.fc11";
    "ffn_gate.weight"          [Embd Ff]         Required    Always <- "mlp.fc12";
    "ffn_down.weight"          [Ff Embd]         Required    Always + Optional <- "mlp.fc2";
};

/// The matrices of all experts of a block are concatenated.
const EXPERTS_AND_OTHERS: &[Row] = rows! {
    "ffn_gate_inp.weight"      [Embd Experts]    Required Experts <- "mlp.router.layer";
    "ffn_up_exps.weight"       [Embd Ff Experts] Required Experts <- "mlp.experts.mlp.w1" : "(x f) e -> x f e";
    "ffn_down_exps.weight"     [Ff Embd Experts] Required Experts <- "mlp.experts.mlp.w2" : "(x f) e -> x e f";
    "ffn_up.weight"            [Embd Ff]         Required Dense + Optional <- "mlp.fc1";
    "ffn_down.weight"          [Ff Embd]         Required Dense + Optional <- "mlp.fc2";
};
