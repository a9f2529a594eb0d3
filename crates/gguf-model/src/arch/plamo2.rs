//! PLaMo 2: alternating blocks with a state space and with attention; norms before and after each part.
//!
//! Rules: `load_arch_tensors` in `src/models/plamo2.cpp` of llama.cpp, `Plamo2Model` in `conversion/plamo.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["plamo2"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        FEED_FORWARD_KEYS,
        &[
            keys::SSM_CONV_KERNEL,
            keys::SSM_INNER_SIZE,
            keys::SSM_STATE_SIZE,
            keys::SSM_TIME_STEP_RANK,
            keys::SSM_GROUP_COUNT,
        ],
    ],
    optional: &[keys::ATTENTION_KEY_LENGTH, keys::ATTENTION_VALUE_LENGTH],
    outside: &[PLAMO_EMBEDDINGS],
    block: &[PLAMO_NORMS_AND_FFN, STATE_SPACE, ATTENTION_OF_SOME],
    checkpoints: &[Checkpoint {
        classes: &["Plamo2ForCausalLM", "PLaMo2ForCausalLM"],
        names: &TensorNames { layers: &["layers.layers.{}."], ..TensorNames::TEXT },
        keys: &[VOCAB_SIZE, KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::read_by(&[Reader::Plamo { has_template: false }]), ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

/// Tensors of PLaMo 2 and 3 outside the blocks. Norm weights are stored as offsets from 1.
pub(super) const PLAMO_EMBEDDINGS: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]       Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]             Required Always <- "norm", Map::Add(1.0);
    "output.weight"        [Embd Vocab]       Optional Always <- "lm_head";
};

/// Norms and feed-forward parts of PLaMo 2 and 3. Norm weights are stored as offsets: from 1 before a part, from 1/5
/// and 5^-1.5 after it.
pub(super) const PLAMO_NORMS_AND_FFN: &[Row] = rows! {
    "attn_norm.weight"     [Embd]             Required Always <- "pre_mixer_norm", Map::Add(1.0);
    "post_attention_norm"  [Embd]             Required Always <- "post_mixer_norm", Map::Add(0.2);
    "ffn_norm.weight"      [Embd]             Required Always <- "pre_mlp_norm", Map::Add(1.0);
    "post_ffw_norm"        [Embd]             Required Always <- "post_mlp_norm", Map::Add(0.089_442_72);
    "ffn_up.weight"        [Embd TwiceFf]     Required Always <- "mlp.gate_up_proj";
    "ffn_down.weight"      [Ff Embd]          Required Always <- "mlp.down_proj";
};

const STATE_SPACE: &[Row] = rows! {
    "ssm_in.weight"        [Embd SsmGated]    Required Recurrent <- "mixer.in_proj";
    "ssm_conv1d.weight"    [SsmConv SsmInner] Required Recurrent <- "mixer.conv1d" : "c 1 k -> c k";
    "ssm_x.weight"         [SsmInner "max(64, embedding_length / 16) + 2 * ssm.state_size"]  Required Recurrent <- "mixer.bcdt_proj";
    "ssm_dt.weight"        ["max(64, embedding_length / 16)" SsmRank]    Required Recurrent <- "mixer.dt_proj";
    "ssm_dt.bias"          [SsmRank]          Required Recurrent <- "mixer.dt_bias";
    "ssm_a"                [SsmRank]          Required Recurrent <- "mixer.A_log", Map::NegExp;
    "ssm_d"                [SsmRank]          Required Recurrent <- "mixer.D";
    "ssm_out.weight"       [SsmInner Embd]    Required Recurrent <- "mixer.out_proj";
    "ssm_dt_norm"          ["max(64, embedding_length / 16)"]            Required Recurrent <- "mixer.dt_norm_weight";
    "ssm_b_norm"           [SsmState]         Required Recurrent <- "mixer.B_norm_weight";
    "ssm_c_norm"           [SsmState]         Required Recurrent <- "mixer.C_norm_weight";
};

const ATTENTION_OF_SOME: &[Row] = rows! {
    "attn_qkv.weight"      [Embd Qkv]         Required Attention <- "mixer.qkv_proj";
    "attn_q_norm.weight"   [HeadK Heads]      Required Attention <- "mixer.q_weight";
    "attn_k_norm.weight"   [HeadK HeadsKv]    Required Attention <- "mixer.k_weight";
    "attn_output.weight"   [HeadsV Embd]      Required Attention <- "mixer.o_proj";
};

const KEYS: &[Key] = keys! {
    let step = "mamba_step|2";
    let mixes = "[i != block_count - 1 if block_count <= step // 2 else i % step != step // 2 for i]";
    let has_mamba = "mamba_enabled|true";
    let width = "hidden_size_per_head|128";
    let heads = "mamba_num_heads|64";
    "attention.head_count_kv" U32? = "[0 if mixes[i] else num_key_value_heads|4 for i] if has_mamba else null";
    "attention.head_count" U32? = "[0 if mixes[i] else num_attention_heads|32 for i] if has_mamba else null";
    "context_length" U32 = "max_position_embeddings|2048";
    "embedding_length" U32 = "hidden_size|4096";
    "attention.key_length" U32 = "width";
    "attention.value_length" U32 = "width";
    "block_count" U32 = "block_count";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps|1e-6";
    "rope.freq_base" F32 = "rope_all.rope_theta|10000";
    "ssm.state_size" U32 = "mamba_d_state|64";
    "ssm.conv_kernel" U32 = "mamba_d_conv|4";
    "ssm.time_step_rank" U32 = "heads";
    "ssm.inner_size" U32 = "heads * width";
    "ssm.group_count" U32 = "0";
    "feed_forward_length" U32 = "intermediate_size|13312";
    "general.file_type" U32 = "@file_type";
};
