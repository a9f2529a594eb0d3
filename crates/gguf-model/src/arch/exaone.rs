//! EXAONE 3: Llama under GPT-2's names, without the permutation of rotated pairs.
//!
//! Rules: `load_arch_tensors` in `src/models/exaone.cpp` of llama.cpp, `ExaoneModel` in `conversion/exaone.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["exaone"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["ExaoneForCausalLM"],
        names: &TensorNames { roots: &["transformer."], layers: &["h.{}."], ..TensorNames::TEXT },
        refuse: &[EQUAL_FREQUENCIES],
        keys: &[GENERIC, KEYS],
        computed: &[Computed::Llama3Freqs],
        ..Checkpoint::TEXT
    }],
};

const OUTSIDE: &[Row] = rows! {
    "token_embd.weight"  [Embd Vocab] Required Always <- "wte";
    "output_norm.weight" [Embd]       Required Always <- "ln_f";
    "output.weight"      [Embd Vocab] Optional Always <- "lm_head";
    "rope_freqs.weight"  [HalfRot]    Optional Always;
};

const BLOCK: &[Row] = rows! {
    "attn_norm.weight"   [Embd]       Required    Always <- "ln_1";
    "attn_qkv.weight"    [Embd Qkv]   Optional    Always + Optional;
    "attn_q.weight"      [Embd Q]     UnlessFused Always + Optional <- "attn.attention.q_proj";
    "attn_k.weight"      [Embd K]     UnlessFused Always + Optional <- "attn.attention.k_proj";
    "attn_v.weight"      [Embd V]     UnlessFused Always + Optional <- "attn.attention.v_proj";
    "attn_output.weight" [Q Embd]     Required    Always <- "attn.attention.out_proj";
    "ffn_norm.weight"    [Embd]       Required    Always <- "ln_2";
    "ffn_gate.weight"    [Embd Ff]    Required    Always <- "mlp.c_fc_0";
    "ffn_up.weight"      [Embd Ff]    Required    Always <- "mlp.c_fc_1";
    "ffn_down.weight"    [Ff Embd]    Required    Always <- "mlp.c_proj";
};

const KEYS: &[Key] = keys! {
    let activation = "one_of(activation_function, {'silu': true})";
    "rope.dimension_count" U32 = "int((rope_all.partial_rotary_factor ?? 1.0) * (hidden_size // num_attention_heads))";
};
