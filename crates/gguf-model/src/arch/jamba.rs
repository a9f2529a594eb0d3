//! Jamba: Mamba in most blocks, attention in the others, experts in every second block.
//!
//! Rules: `load_arch_tensors` in `src/models/jamba.cpp` of llama.cpp, `JambaModel` in `conversion/jamba.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["jamba"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::SSM_CONV_KERNEL, keys::SSM_INNER_SIZE, keys::SSM_STATE_SIZE, keys::SSM_TIME_STEP_RANK],
    ],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["JambaForCausalLM"],
        names: &TensorNames { rename: &[(".moe.", ".feed_forward.")], ..TensorNames::TEXT },
        keys: &[KEYS],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

const KEYS: &[Key] = keys! {
    let width = "hidden_size|mamba_d_model";
    "block_count" U32 = "block_count";
    "context_length" U32 = "max_position_embeddings|n_ctx";
    "embedding_length" U32 = "width";
    "feed_forward_length" U32 = "intermediate_size";
    "attention.head_count" U32 = "num_attention_heads";
    "attention.head_count_kv" U32
        = "[num_key_value_heads if i >= attn_layer_offset and (i - attn_layer_offset) % attn_layer_period == 0 else 0 for i]";
    "ssm.conv_kernel" U32 = "mamba_d_conv or 4";
    "ssm.inner_size" U32 = "mamba_expand * width";
    "ssm.state_size" U32 = "mamba_d_state or 16";
    "ssm.time_step_rank" U32 = "mamba_dt_rank or (width + 15) // 16";
    "attention.layer_norm_rms_epsilon" F32 = "layer_norm_epsilon|rms_norm_eps or 1e-6";
    "expert_count" U32 = "num_local_experts|num_experts";
    "expert_used_count" U32 = "num_experts_per_tok|num_experts_per_token";
    "general.file_type" U32 = "@file_type";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"    [Embd Vocab]        Required Always <- "embed_tokens";
    "output_norm.weight"   [Embd]              Required Always <- "final_layernorm";
    "output.weight"        [Embd Vocab]        Optional Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"     [Embd]              Required Always <- "input_layernorm";
    "ffn_norm.weight"      [Embd]              Required Always <- "pre_ff_layernorm";
    "ssm_in.weight"        [Embd SsmGated]     Required Recurrent <- "mamba.in_proj";
    "ssm_conv1d.weight"    [SsmConv SsmInner]  Required Recurrent <- "mamba.conv1d" : "c 1 k -> c k";
    "ssm_conv1d.bias"      [SsmInner]          Required Recurrent <- "mamba.conv1d.bias";
    "ssm_x.weight"         [SsmInner SsmX]     Required Recurrent <- "mamba.x_proj";
    "ssm_dt_norm.weight"   [SsmRank]           Required Recurrent <- "mamba.dt_layernorm";
    "ssm_dt.weight"        [SsmRank SsmInner]  Required Recurrent + Required <- "mamba.dt_proj";
    "ssm_b_norm.weight"    [SsmState]          Required Recurrent <- "mamba.b_layernorm";
    "ssm_c_norm.weight"    [SsmState]          Required Recurrent <- "mamba.c_layernorm";
    "ssm_a"                [SsmState SsmInner] Required Recurrent <- "mamba.A_log", Map::NegExp;
    "ssm_d"                [SsmInner]          Required Recurrent <- "mamba.D";
    "ssm_out.weight"       [SsmInner Embd]     Required Recurrent <- "mamba.out_proj";
    "attn_qkv.weight"      [Embd EmbdQkv]          Optional Attention + Optional;
    "attn_q.weight"        [Embd Embd]            UnlessFused Attention + Optional <- "self_attn.q_proj";
    "attn_k.weight"        [Embd V]            UnlessFused Attention + Optional <- "self_attn.k_proj";
    "attn_v.weight"        [Embd V]            UnlessFused Attention + Optional <- "self_attn.v_proj";
    "attn_output.weight"   [Embd Embd]            Required Attention <- "self_attn.o_proj";
    "ffn_gate.weight"      [Embd Ff]           Optional Always <- "feed_forward.gate_proj";
    "ffn_down.weight"      [Ff Embd]           Optional Always <- "feed_forward.down_proj";
    "ffn_up.weight"        [Embd Ff]           Optional Always <- "feed_forward.up_proj";
    "ffn_gate_inp.weight"  [Embd Experts]      Optional Always <- "feed_forward.router";
    "ffn_down_exps.weight" [Ff Embd Experts]   Optional Always <- "feed_forward.experts.{x}.down_proj";
    "ffn_gate_exps.weight" [Embd Ff Experts]   Optional Always <- "feed_forward.experts.{x}.gate_proj";
    "ffn_up_exps.weight"   [Embd Ff Experts]   Optional Always <- "feed_forward.experts.{x}.up_proj";
};
