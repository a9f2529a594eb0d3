//! Step 3.5: different numbers of heads in blocks with a sliding window, gates after the attention, experts stacked in
//! the checkpoint.
//!
//! Rules: `load_arch_tensors` in `src/models/step35.cpp` of llama.cpp, `Step35Model` in `conversion/step3.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["step35"],
    required: &[
        TRANSFORMER_KEYS,
        RMS_NORM_KEYS,
        &[keys::EXPERT_FEED_FORWARD_LENGTH, keys::ATTENTION_SLIDING_WINDOW, keys::ATTENTION_SLIDING_WINDOW_PATTERN],
    ],
    optional: &[
        keys::EXPERT_GATING_FUNC,
        keys::EXPERT_SHARED_FEED_FORWARD_LENGTH,
        keys::EXPERT_WEIGHTS_NORM,
        keys::EXPERT_WEIGHTS_SCALE,
        keys::ROPE_FREQ_BASE_SWA,
        keys::SWIGLU_CLAMP_EXP,
        keys::SWIGLU_CLAMP_SHEXP,
    ],
    outside: &[OUTSIDE, ROPE_FREQS],
    block: &[BLOCK, QKV, EXPERTS_OF_BLOCKS, MTP_PLUS_ONE],
    checkpoints: &[Checkpoint {
        classes: &["Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"],
        separates_mtp: true,
        names: &TensorNames {
            rename: &[(".transformer.", "."), ("shared_head.output", "shared_head.head")],
            ..TensorNames::TEXT
        },
        keys: &[MTP_FIELDS, FIELDS, GENERIC, KEYS],
        refuse: &[(
            "not all([pad(partial_rotary_factors ?? [], i + 1, 0.5)[i]
                == (1.0 if pad(layer_types ?? [], i + 1, 'full_attention')[i] == 'sliding_attention' else 0.5)
                for i in range(num_hidden_layers + (0 if @mtp == 'left_out' else num_nextn_predict_layers or 0))])",
            "partial_rotary_factors other than 1 in blocks with a sliding window and 0.5 in all others",
        )],
        computed: &[Computed::Llama3FreqsOfPart],
        ..Checkpoint::TEXT
    }],
};

/// A list of rotary bases holds the base for full attention, then the base for sliding-window blocks.
const FIELDS: &[Key] = keys! {
    let bases = "rope_theta if is_list(rope_theta ?? 0) else null";
    let rope = "rope if bases == null else with(rope, 'rope_theta', float(bases[0]))";
    let rope_all = "rope_all if bases == null else with(rope_all, 'sliding_attention', {'rope_theta': float(bases[1])})";
    let layers = "pad(layer_types ?? [], block_count, 'full_attention')";
    let windowed = "attention_other_setting ?? {}";
    let rotated = "int((head_dim ?? hidden_size // num_attention_heads)
        * ((partial_rotary_factors ?? [0.5])[0] if layers[0] == 'full_attention' else 0.5))";
};

const KEYS: &[Key] = keys! {
    "attention.head_count" U32
        = "[(windowed.num_attention_heads|num_attention_heads) if t == 'sliding_attention' else num_attention_heads for t in layers]";
    "attention.head_count_kv" U32 = "[(windowed.num_attention_groups|num_attention_groups) if t == 'sliding_attention'
        else num_attention_groups for t in layers]";
    "attention.sliding_window" U32 = "sliding_window";
    "attention.sliding_window_pattern" Bool = "[t == 'sliding_attention' for t in layers]";
    "attention.value_length" U32 = "head_dim";
    "expert_count" U32 = "moe_num_experts";
    "expert_used_count" U32 = "moe_top_k";
    "expert_feed_forward_length" U32 = "moe_intermediate_size";
    "expert_shared_feed_forward_length" U32 = "share_expert_dim";
    "expert_weights_scale" F32? = "moe_router_scaling_factor";
    "expert_weights_norm" Bool? = "norm_expert_weight";
    "leading_dense_block_count" U32 = "max(0, numbers(moe_layers_enum)[0]) if moe_layers_enum else 0";
    "moe_every_n_layers" U32 = "int(moe_every_n_layer|1)";
    "attention.layer_norm_rms_epsilon" F32 = "rms_norm_eps|1e-5";
    "swiglu_clamp_exp" F32? = "null if swiglu_limits == null else pad([float(v ?? 0.0) for v in swiglu_limits], block_count, 0.0)";
    "swiglu_clamp_shexp" F32? = "null if swiglu_limits_shared == null
        else pad([float(v ?? 0.0) for v in swiglu_limits_shared], block_count, 0.0)";
    "nextn_predict_layers" U32? = "num_nextn_predict_layers or null";
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"     [Embd Vocab]            Required Always <- "embed_tokens";
    "output_norm.weight"    [Embd]                  Required Always <- "norm", Map::Add(1.0);
    "output.weight"         [Embd Vocab]            Required Always <- "lm_head";
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"      [Embd]                  Required Always <- "input_layernorm", Map::Add(1.0);
    "ffn_norm.weight"       [Embd]                  Required Always <- "post_attention_layernorm", Map::Add(1.0);
    "attn_q_norm.weight"    [HeadK]                 Optional Always <- "self_attn.q_norm", Map::Add(1.0);
    "attn_k_norm.weight"    [HeadK]                 Optional Always <- "self_attn.k_norm", Map::Add(1.0);
    "attn_output.weight"    [HeadsV Embd]           Required Always <- "self_attn.o_proj";
    "attn_gate.weight"      [Embd Heads]            Optional Always <- "self_attn.g_proj";
};

/// Blocks without experts are detected by their tensors in the checkpoint.
const EXPERTS_OF_BLOCKS: &[Row] = rows! {
    "ffn_gate.weight"       [Embd Ff]               Optional Always <- "mlp.gate_proj";
    "ffn_up.weight"         [Embd Ff]               Optional Always <- "mlp.up_proj";
    "ffn_down.weight"       [Ff Embd]               Optional Always <- "mlp.down_proj";
    "ffn_gate_inp.weight"   [Embd Experts]          Optional Always <- "moe.gate";
    "exp_probs_b.bias"      [Experts]               Optional Always <- "moe.router_bias";
    "ffn_gate_exps.weight"  [Embd ExpertFf Experts] Optional Always <- "moe.gate_proj";
    "ffn_up_exps.weight"    [Embd ExpertFf Experts] Optional Always <- "moe.up_proj";
    "ffn_down_exps.weight"  [ExpertFf Embd Experts] Optional Always <- "moe.down_proj";
    "ffn_gate_shexp.weight" [Embd SharedFf]         Optional Always <- "share_expert.gate_proj";
    "ffn_up_shexp.weight"   [Embd SharedFf]         Optional Always <- "share_expert.up_proj";
    "ffn_down_shexp.weight" [SharedFf Embd]         Optional Always <- "share_expert.down_proj";
};

const MTP_PLUS_ONE: &[Row] = rows! {
    "nextn.eh_proj.weight"          [TwiceEmbd Embd] Optional Mtp <- "eh_proj";
    "nextn.enorm.weight"            [Embd]           Optional Mtp <- "enorm", Map::Add(1.0);
    "nextn.hnorm.weight"            [Embd]           Optional Mtp <- "hnorm", Map::Add(1.0);
    "nextn.embed_tokens.weight"     [Embd Vocab]     Optional Mtp <- "embed_tokens";
    "nextn.shared_head_head.weight" [Embd Vocab]     Optional Mtp <- "shared_head.head";
    "nextn.shared_head_norm.weight" [Embd]           Optional Mtp <- "shared_head.norm", Map::Add(1.0);
};
