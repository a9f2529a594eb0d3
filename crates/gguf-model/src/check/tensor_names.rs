//! llama.cpp's tensor names for text models, without suffix: `LLM_TENSOR_NAMES` in `llama-arch.cpp` and `TENSOR_NAMES`
//! in gguf-py's `constants.py`. `{}` stands for a number.

use crate::arch::Stack;

/// A list of string literals in byte order.
macro_rules! words {
    ($($word:literal)*) => { &[$($word),*] };
}

/// Suffixes of names. Scales belong to tensors of types with a per-tensor scale.
const SUFFIXES: &[&str] = words! { ".weight" ".bias" ".scale" ".input_scale" };

/// Names outside the blocks.
const OUTSIDE: &[&str] = words! {
    "altup_proj" "altup_unembd_proj" "cls" "cls.norm" "cls.output" "conf_proj" "conv1d" "d2t" "dec.output_norm"
    "dense_2" "dense_3" "enc.output_norm" "fc" "hrm.z_l_init" "markov_w1" "markov_w2" "masked_embd_centroids"
    "masked_embd_ordering" "nextn.post_projection" "nextn.pre_projection" "output" "output_hc_base" "output_hc_down"
    "output_hc_fn" "output_hc_norm" "output_hc_scale" "output_hc_up" "output_norm" "output_res_score"
    "per_layer_model_proj" "per_layer_proj_norm" "per_layer_token_embd" "position_embd" "rope_factors_long"
    "rope_factors_short" "rope_freqs" "selector_hidden" "selector_predecessor" "selector_successor" "token_embd"
    "token_embd_norm" "token_types"
};

/// Names after `blk.N.`.
const BLOCK: &[&str] = words! {
    "altup_correct_coef" "altup_correct_scale" "altup_predict_coef" "altup_router" "altup_router_norm"
    "attn_compressor_ape" "attn_compressor_gate" "attn_compressor_kv" "attn_compressor_norm" "attn_conv_base"
    "attn_conv_proj" "attn_gate" "attn_k" "attn_k_b" "attn_k_norm" "attn_kv" "attn_kv_a_mqa" "attn_kv_a_norm"
    "attn_kv_b" "attn_norm" "attn_norm_2" "attn_output" "attn_output_a" "attn_output_b" "attn_output_norm" "attn_q"
    "attn_q_a" "attn_q_a_norm" "attn_q_b" "attn_q_norm" "attn_qkv" "attn_res_score" "attn_rot_embd" "attn_sinks"
    "attn_sub_norm" "attn_v" "attn_v_b" "channel_mix_key" "channel_mix_lerp_k" "channel_mix_lerp_r"
    "channel_mix_receptance" "channel_mix_value" "exp_probs_b" "exp_probs_b_vl" "ffn" "ffn.act" "ffn_conv_base"
    "ffn_conv_proj" "ffn_down" "ffn_down_chexps" "ffn_down_exps" "ffn_down_shexp" "ffn_gate"
    "ffn_gate_chexps" "ffn_gate_exps" "ffn_gate_inp" "ffn_gate_inp_shexp" "ffn_gate_shexp"
    "ffn_gate_tid2eid" "ffn_gate_up_exps" "ffn_latent_down" "ffn_latent_up" "ffn_norm" "ffn_norm_exps" "ffn_res_score"
    "ffn_routed_down" "ffn_routed_norm" "ffn_routed_up" "ffn_sub_norm" "ffn_up" "ffn_up_chexps"
    "ffn_up_exps" "ffn_up_shexp" "hc_attn_base" "hc_attn_down" "hc_attn_fn" "hc_attn_inject" "hc_attn_norm"
    "hc_attn_scale" "hc_attn_up" "hc_ffn_base" "hc_ffn_down" "hc_ffn_fn" "hc_ffn_inject" "hc_ffn_norm" "hc_ffn_scale"
    "hc_ffn_up" "indexer.attn_k" "indexer.attn_q_b" "indexer.k_norm" "indexer.k_proj" "indexer.proj" "indexer.q_norm"
    "indexer.q_proj" "indexer_compressor_ape" "indexer_compressor_gate" "indexer_compressor_kv"
    "indexer_compressor_norm" "inp_gate" "laurel_l" "laurel_post_norm" "laurel_r" "layer_output_norm"
    "layer_output_scale" "nextn.eh_proj" "nextn.embed_tokens" "nextn.enorm" "nextn.hnorm" "nextn.shared_head_head"
    "nextn.shared_head_norm" "ple_conv1d" "ple_key" "ple_norm_conv" "ple_norm_key" "ple_norm_query" "ple_value"
    "post_attention_norm" "post_ffw_norm" "post_ffw_norm_1" "post_ffw_norm_2" "post_norm" "pre_ffw_norm_2" "proj"
    "shortconv.conv" "shortconv.in_proj" "shortconv.out_proj" "ssm_a" "ssm_alpha" "ssm_b_norm" "ssm_ba" "ssm_beta"
    "ssm_c_norm" "ssm_conv1d" "ssm_conv1d_k" "ssm_conv1d_q" "ssm_conv1d_v" "ssm_d" "ssm_dt" "ssm_dt_norm" "ssm_f_a"
    "ssm_f_b" "ssm_g" "ssm_g_a" "ssm_g_b" "ssm_in" "ssm_norm" "ssm_out" "ssm_x" "time_mix_a0" "time_mix_a1"
    "time_mix_a2" "time_mix_decay" "time_mix_decay_w1" "time_mix_decay_w2" "time_mix_first" "time_mix_g1"
    "time_mix_g2" "time_mix_gate" "time_mix_k_a" "time_mix_k_k" "time_mix_key" "time_mix_lerp_fused" "time_mix_lerp_g"
    "time_mix_lerp_k" "time_mix_lerp_r" "time_mix_lerp_v" "time_mix_lerp_w" "time_mix_lerp_x" "time_mix_ln"
    "time_mix_output" "time_mix_r_k" "time_mix_receptance" "time_mix_v0" "time_mix_v1" "time_mix_v2" "time_mix_value"
    "time_mix_w0" "time_mix_w1" "time_mix_w2" "vis_attn_output" "vis_attn_qkv" "vis_down" "vis_gate" "vis_up"
};

/// Names after `enc.blk.N.`.
const ENCODER: &[&str] = words! {
    "attn_k" "attn_norm" "attn_o" "attn_q" "attn_rel_b" "attn_v" "ffn_down" "ffn_gate" "ffn_norm" "ffn_up"
};

/// Names after `dec.blk.N.`.
const DECODER: &[&str] = words! {
    "attn_k" "attn_norm" "attn_o" "attn_q" "attn_rel_b" "attn_v" "cross_attn_k" "cross_attn_norm" "cross_attn_o"
    "cross_attn_q" "cross_attn_rel_b" "cross_attn_v" "ffn_down" "ffn_gate" "ffn_norm" "ffn_up"
};

/// Names after `convnext.N.`.
const CONVNEXT: &[&str] = words! { "dw" "gamma" "norm" "pw1" "pw2" };

/// Names of other numbered parts of WavTokenizer.
const OTHER: &[&str] = words! {
    "posnet.{}.attn_k" "posnet.{}.attn_norm" "posnet.{}.attn_output" "posnet.{}.attn_q" "posnet.{}.attn_v" "posnet.{}.conv1"
    "posnet.{}.conv2" "posnet.{}.norm" "posnet.{}.norm1" "posnet.{}.norm2"
};

/// The parts of a tensor name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// The run of blocks, and the number of the block.
    pub(super) block: Option<(Stack, u64)>,
    /// The remainder after the number of the block, or the whole name outside the blocks; includes the suffix.
    pub(super) rest: &'a str,
}

/// Splits a tensor name. Non-canonical numbers (`blk.01.`) and numbers that overflow are not recognized.
pub(super) fn parts(name: &str) -> Parts<'_> {
    let block = Stack::ALL.into_iter().find_map(|stack| {
        let (digits, rest) = name.strip_prefix(stack.prefix())?.split_once('.')?;
        let plain = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
        Some(((stack, digits.parse().ok().filter(|_| plain)?), rest))
    });
    match block {
        Some((block, rest)) => Parts { block: Some(block), rest },
        None => Parts { block: None, rest: name },
    }
}

/// Whether llama.cpp knows a tensor with this name.
pub(super) fn is_known(name: Parts<'_>) -> bool {
    let rest = name.rest;
    let stem = SUFFIXES.iter().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest);
    let table = match name.block {
        Some((Stack::Only, _)) => BLOCK,
        Some((Stack::Encoder, _)) => ENCODER,
        Some((Stack::Decoder, _)) => DECODER,
        Some((Stack::ConvNext, _)) => CONVNEXT,
        // Language models have no such blocks.
        Some((
            Stack::Vision
            | Stack::DeepStack
            | Stack::Audio
            | Stack::Sam
            | Stack::ImageProjector
            | Stack::AudioProjector,
            _,
        )) => &[],
        None if OTHER.iter().any(|other| matches_template(other, stem)) => return true,
        None => OUTSIDE,
    };
    // Early mixture-of-experts files have one tensor per expert: `ffn_gate.3`.
    let stem = match stem.rsplit_once('.') {
        Some((before, number)) if is_number(number) && matches!(before, "ffn_gate" | "ffn_down" | "ffn_up") => before,
        _ => stem,
    };
    table.binary_search(&stem).is_ok()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Compares part by part; `{}` stands for digits.
fn matches_template(template: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    let fits = template.split('.').all(|t| parts.next().is_some_and(|p| if t == "{}" { is_number(p) } else { p == t }));
    fits && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        for table in [OUTSIDE, BLOCK, ENCODER, DECODER] {
            assert!(table.is_sorted(), "{table:?}");
        }
    }

    #[test]
    fn names() {
        let cases = [
            ("token_embd.weight", true),
            ("token_embd", true),
            ("token_embd.wait", false),
            ("blk.0.attn_q.weight", true),
            ("blk.511.ffn_up_exps.scale", true),
            ("blk.10.attn_q.weight", true),
            ("blk.0.ssm_a", true),
            ("blk.00.attn_q.weight", false),
            ("blk..attn_q.weight", false),
            ("blk.99999999999999999999.attn_q.weight", false),
            ("blk.0.attn_qq.weight", false),
            ("blk.0.ffn_gate.3.weight", true),
            ("blk.0.attn_q.3.weight", false),
            ("enc.blk.1.attn_q.weight", true),
            ("enc.blk.1.cross_attn_q.weight", false),
            ("dec.blk.1.cross_attn_q.weight", true),
            ("posnet.1.norm1.weight", true),
            ("convnext.12.dw.bias", true),
            ("convnext.x.dw.bias", false),
            ("", false),
        ];
        for (name, known) in cases {
            assert_eq!(is_known(parts(name)), known, "{name}");
        }
        assert_eq!(parts("dec.blk.7.x.y"), Parts { block: Some((Stack::Decoder, 7)), rest: "x.y" });
    }
}
