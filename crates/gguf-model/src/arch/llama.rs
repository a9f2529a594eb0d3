//! Llama, Mistral, Mixtral, and models with the same tensors: rotary attention, RMS norms, a gated feed-forward part,
//! optional experts.
//!
//! Rules: `load_arch_tensors` in `src/models/llama.cpp` of llama.cpp, `LlamaModel` in `conversion/llama.py`,
//! `JanusProModel` in `conversion/januspro.py`, `Sarashina2VLTextModel` in `conversion/sarashina2.py`. A sliding
//! window is not written: llama.cpp's `llama` has none. Only the text model of multimodal models is converted.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["llama", "llama-embed"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[keys::VOCAB_SIZE],
    outside: &[EMBEDDINGS, ROPE_FACTORS, MISTRAL_OUTSIDE],
    block: &[NORMS, PERMUTED_QKV, OUTPUT_WITH_BIAS, FFN, MISTRAL_BLOCK],
    checkpoints: &[
        Checkpoint {
            classes: &["MistralForCausalLM"],
            when: MISTRAL_FORMAT,
            keys: &[GENERIC, MISTRAL_KEYS],
            ..MISTRAL
        },
        Checkpoint {
            classes: &["InternLM3ForCausalLM"],
            tokenizer: &Tokenizer {
                vocab: Vocab { readers: &[Reader::SentencePiece], quirks: &[Quirk::InternLm3] },
                ..*LLAMA.tokenizer
            },
            computed: &[],
            ..LLAMA
        },
        Checkpoint {
            classes: &[
                "LLaMAForCausalLM",
                "LlamaForCausalLM",
                "MistralForCausalLM",
                "MixtralForCausalLM",
                "LlavaForConditionalGeneration",
                "VoxtralForConditionalGeneration",
                "IQuestCoderForCausalLM",
                "LlamaModel",
            ],
            ..LLAMA
        },
        Checkpoint {
            classes: &["VLlama3ForCausalLM"],
            keys: &[VLLAMA3, PERMUTED_HEADS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD],
            ..LLAMA
        },
        Checkpoint { classes: &["LlamaBidirectionalModel"], name: "llama-embed", ..LLAMA },
        Checkpoint {
            classes: &["JanusForConditionalGeneration"],
            names: &TensorNames { skip: &[("aligner.*", ""), ("vqmodel.*", ""), ("generation_*", "")], ..*LLAMA.names },
            ..LLAMA
        },
        Checkpoint {
            classes: &["Sarashina2VisionForCausalLM"],
            names: &TensorNames { roots: &["llm.model.", "llm.", "model."], skip: &[("^norm.*", "")], ..*LLAMA.names },
            ..LLAMA
        },
    ],
};

/// Mistral 3, with Llama's tensors.
pub(super) const MISTRAL3: Architecture = Architecture {
    names: &["mistral3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS],
    optional: &[
        keys::ATTENTION_TEMPERATURE_SCALE,
        keys::ROPE_SCALING_YARN_BETA_FAST,
        keys::ROPE_SCALING_YARN_BETA_SLOW,
        keys::ROPE_SCALING_YARN_LOG_MULTIPLIER,
    ],
    checkpoints: &[
        Checkpoint {
            classes: &["Ministral3ForCausalLM"],
            when: MISTRAL_FORMAT,
            keys: &[GENERIC, MISTRAL_KEYS],
            ..MISTRAL
        },
        Checkpoint {
            classes: &["Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"],
            refuse: &[(
                "model_type == 'ministral3' and rope_all.rope_type != 'yarn'",
                "a rope_type other than yarn in Ministral 3",
            )],
            keys: &[PERMUTED_HEADS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD, MINISTRAL3],
            ..LLAMA
        },
    ],
    ..ARCHITECTURE
};

/// Defaults of Llama-like models.
pub(super) const LLAMA: Checkpoint = Checkpoint {
    names: &TensorNames { rename: &[("text_model.", "")], ..TensorNames::TEXT },
    keys: &[PERMUTED_HEADS, GENERIC, VOCAB_SIZE, ROPE_WHOLE_HEAD],
    tokenizer: &Tokenizer { vocab: Vocab::LLAMA, ..Tokenizer::BPE },
    computed: &[Computed::Llama3Freqs],
    ..Checkpoint::TEXT
};

/// Whether the configuration is Mistral's `params.json`.
const MISTRAL_FORMAT: &str = "mistral_params";

/// Mistral's original layout (`MistralModel` in `conversion/mistral.py`).
const MISTRAL: Checkpoint = Checkpoint {
    is_raw: true,
    tokenizer: &Tokenizer {
        vocab: Vocab::read_by(&[Reader::Tekken { is_native: true }, Reader::SentencePiece, Reader::Bpe]),
        ..*LLAMA.tokenizer
    },
    computed: &[],
    ..LLAMA
};

const MISTRAL_KEYS: &[Key] = keys! {
    "rope.dimension_count" U32 = "head_dim ?? dim // n_heads";
    "rope.scaling.type" Str? = "'yarn' if yarn_params else null";
    "rope.scaling.factor" F32? = "required(yarn_params.factor) if yarn_params else null";
    "rope.scaling.yarn_beta_fast" F32? = "required(yarn_params.beta) if yarn_params else null";
    "rope.scaling.yarn_beta_slow" F32? = "required(yarn_params.alpha) if yarn_params else null";
    "rope.scaling.yarn_log_multiplier" F32?
        = "null if not yarn_params else 0.0 if yarn_params.apply_scale else 1.0";
    "rope.scaling.original_context_length" U32?
        = "required(yarn_params.original_max_position_embeddings) if yarn_params else null";
    "attention.temperature_scale" F32? = "required(llama_4_scaling.beta) if llama_4_scaling else null";
};

/// Mistral's names.
const MISTRAL_OUTSIDE: &[Row] = rows! {
    "token_embd.weight" [Embd Vocab] Required Always <- "tok_embeddings";
    "output.weight"     [Embd Vocab] Optional Always <- "output";
};

/// Mistral's names in blocks. Rotated pairs are adjacent, as in llama.cpp.
const MISTRAL_BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]    Required    Always <- "attention_norm";
    "ffn_norm.weight"    [Embd]    Required    Always <- "ffn_norm";
    "attn_q.weight"      [Embd Q]  UnlessFused Always <- "attention.wq";
    "attn_k.weight"      [Embd K]  UnlessFused Always <- "attention.wk";
    "attn_v.weight"      [Embd V]  UnlessFused Always <- "attention.wv";
    "attn_output.weight" [Q Embd]  Required    Always <- "attention.wo";
    "ffn_gate.weight"    [Embd Ff] Required    Dense <- "feed_forward.w1";
    "ffn_down.weight"    [Ff Embd] Required    Dense <- "feed_forward.w2";
    "ffn_up.weight"      [Embd Ff] Required    Dense <- "feed_forward.w3";
};

/// Rotary scaling of Ministral 3 (`Mistral3Model.Ministral3Model` in `conversion/mistral3.py`).
const MINISTRAL3: &[Key] = keys! {
    "rope.scaling.yarn_log_multiplier" F32? = "required(rope_all.mscale_all_dim) if model_type == 'ministral3' else null";
    "attention.temperature_scale" F32? = "required(rope_all.llama_4_scaling_beta) if model_type == 'ministral3' else null";
};

const VLLAMA3: &[Key] = keys! {
    let num_attention_heads = "num_attention_heads|32";
};

/// With or without experts, or with Granite's shared expert.
pub(super) const FFN: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]         Required Dense + Optional <- "mlp.gate_proj";
    "ffn_up.weight"         [Embd Ff]         Required Dense + Optional <- "mlp.up_proj";
    "ffn_down.weight"       [Ff Embd]         Required Dense + Optional <- "mlp.down_proj";
    "ffn_gate_inp.weight"   [Embd Experts]    Required Experts <- "block_sparse_moe.gate";
    "ffn_gate_exps.weight"  [Embd Ff Experts] Optional Experts <- "block_sparse_moe.experts.{x}.w1";
    "ffn_down_exps.weight"  [Ff Embd Experts] Required Experts <- "block_sparse_moe.experts.{x}.w2";
    "ffn_up_exps.weight"    [Embd Ff Experts] Required Experts <- "block_sparse_moe.experts.{x}.w3";
    "ffn_gate_shexp.weight" [Embd SharedFf]   Required SharedExpert;
    "ffn_up_shexp.weight"   [Embd SharedFf]   Required SharedExpert;
    "ffn_down_shexp.weight" [SharedFf Embd]   Required SharedExpert;
};
