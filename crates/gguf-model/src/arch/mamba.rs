//! Mamba and FalconMamba: a state space instead of attention and feed-forward part.
//!
//! Rules: `load_arch_tensors` in `src/models/mamba.cpp` of llama.cpp, `MambaModel` in `conversion/mamba.py`, which
//! reads `config.json` without the defaults of its class. The reference omits the output matrix if it equals the
//! embeddings; here it is omitted if the configuration ties them.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["mamba"],
    required: &[
        RECURRENT_KEYS,
        RMS_NORM_KEYS,
        &[keys::SSM_CONV_KERNEL, keys::SSM_INNER_SIZE, keys::SSM_STATE_SIZE, keys::SSM_TIME_STEP_RANK],
    ],
    optional: &[keys::SSM_DT_B_C_RMS],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["MambaForCausalLM", "MambaLMHeadModel", "FalconMambaForCausalLM"],
        names: &TensorNames {
            roots: &["backbone."],
            skip: &[("lm_head.weight", "tie_word_embeddings|tie_embeddings|true")],
            ..TensorNames::TEXT
        },
        refuse: &[(
            "(intermediate_size|d_inner or 2 * (hidden_size|d_model)) != 2 * (hidden_size|d_model)",
            "a state space (intermediate_size) that is not twice as wide as hidden_size",
        )],
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::BPE_OR_SENTENCE_PIECE, ..Tokenizer::BPE },
        is_raw: true,
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let width = "hidden_size|d_model";
    let padding = "pad_vocab_size_multiple|8";
    let vocab_size = "(vocab_size + padding - 1) // padding * padding";
    "context_length" U32 = "2 ** 20";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "0";
    "attention.head_count" U32 = "0";
    "block_count" U32 = "block_count";
    "ssm.conv_kernel" U32 = "conv_kernel|d_conv or 4";
    "ssm.inner_size" U32 = "intermediate_size|d_inner or 2 * width";
    "ssm.state_size" U32 = "state_size|d_state or 16";
    "ssm.time_step_rank" U32 = "time_step_rank|dt_rank or (width + 15) // 16";
    "attention.layer_norm_rms_epsilon" F32 = "layer_norm_epsilon|rms_norm_eps or 1e-5";
    "ssm.dt_b_c_rms" Bool = "model_type == 'falcon_mamba'";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab]        Required Always <- "embeddings | embedding";
    "output_norm.weight" [Embd]              Required Always <- "norm_f";
    "output.weight"      [Embd Vocab]        Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]              Required Always <- "norm";
    "ssm_in.weight"      [Embd SsmGated]     Required Always <- "mixer.in_proj";
    "ssm_conv1d.weight"  [SsmConv SsmInner]  Required Always <- "mixer.conv1d" : "c 1 k -> c k";
    "ssm_conv1d.bias"    [SsmInner]          Required Always <- "mixer.conv1d.bias";
    "ssm_x.weight"       [SsmInner SsmX]     Required Always <- "mixer.x_proj";
    "ssm_dt.weight"      [SsmRank SsmInner]  Required Always + Required <- "mixer.dt_proj";
    "ssm_a"              [SsmState SsmInner] Required Always <- "mixer.A_log", Map::NegExp;
    "ssm_d"              [SsmInner]          Required Always <- "mixer.D";
    "ssm_out.weight"     [SsmInner Embd]     Required Always <- "mixer.out_proj";
};
