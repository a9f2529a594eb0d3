//! Mamba 2: a state space with groups of heads that share projections.
//!
//! Rules: `load_arch_tensors` in `src/models/mamba2.cpp` of llama.cpp, `Mamba2Model` in `conversion/mamba.py`, which
//! reads `config.json` without the defaults of its class, and writes the output matrix even if it is tied to the
//! embeddings.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["mamba2"],
    required: &[
        RECURRENT_KEYS,
        RMS_NORM_KEYS,
        &[
            keys::SSM_CONV_KERNEL,
            keys::SSM_INNER_SIZE,
            keys::SSM_STATE_SIZE,
            keys::SSM_TIME_STEP_RANK,
            keys::SSM_GROUP_COUNT,
        ],
    ],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["Mamba2ForCausalLM"],
        names: &TensorNames { roots: &["model.backbone.", "backbone.", "model."], ..TensorNames::TEXT },
        refuse: &[
            (
                "(mamba_d_ssm|intermediate_size|d_inner or (mamba_expand|expand or 2) * (hidden_size|d_model|dim))
                    != (mamba_expand|expand or 2) * (hidden_size|d_model|dim)",
                "a state space (intermediate_size) that is not expand times as wide as hidden_size",
            ),
            (
                "(mamba_expand|expand or 2) * (hidden_size|d_model|dim) % (mamba_d_head|head_dim or 64) != 0",
                "a state space that is not a multiple of head_dim elements",
            ),
        ],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        is_raw: true,
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let width = "hidden_size|d_model|dim";
    let padding = "pad_vocab_size_multiple|16";
    let vocab_size = "(vocab_size + padding - 1) // padding * padding";
    let inner = "mamba_d_ssm|intermediate_size|d_inner or (mamba_expand|expand or 2) * width";
    "context_length" U32 = "2 ** 20";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "0";
    "attention.head_count" U32 = "0";
    "block_count" U32 = "block_count";
    "ssm.conv_kernel" U32 = "conv_kernel|d_conv or 4";
    "ssm.inner_size" U32 = "inner";
    "ssm.state_size" U32 = "state_size|d_state or 128";
    "ssm.time_step_rank" U32 = "inner // (mamba_d_head|head_dim or 64)";
    "ssm.group_count" U32 = "n_groups or 1";
    "attention.layer_norm_rms_epsilon" F32 = "layer_norm_epsilon|rms_norm_eps or 1e-5";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]         Required Always <- "embeddings | embedding";
    "output_norm.weight" [Embd]               Required Always <- "norm_f";
    "output.weight"      [Embd Vocab]         Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]               Required Always <- "norm";
    "ssm_in.weight"      [Embd SsmIn]         Required Always <- "mixer.in_proj";
    "ssm_conv1d.weight"  [SsmConv SsmConvIn]  Required Always <- "mixer.conv1d" : "c 1 k -> c k";
    "ssm_conv1d.bias"    [SsmConvIn]          Required Always <- "mixer.conv1d.bias";
    "ssm_dt.bias"        [SsmRank]            Required Always <- "mixer.dt_bias | mixer.dt_proj.bias";
    "ssm_a"              ["1" SsmRank]        Required Always <- "mixer.A_log" : "r -> r 1", Map::NegExp;
    "ssm_d"              ["1" SsmRank]        Required Always <- "mixer.D" : "r -> r 1";
    "ssm_norm.weight"    [SsmGroup SsmGroups] Required Always <- "mixer.norm" : "(SsmGroups i) -> SsmGroups i";
    "ssm_out.weight"     [SsmInner Embd]      Required Always <- "mixer.out_proj";
};
