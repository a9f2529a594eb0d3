//! Tensors that are never quantized (`tensor_allows_quantization` in `llama-quant.cpp`; for image models, `tools/lcpp.patch` of
//! ComfyUI-GGUF).

use gguf_format::keys::is_image_architecture;
use gguf_pipeline::plan::Keep;

/// A kind of tensors that are kept.
#[non_exhaustive]
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    /// The architecture, or empty for all.
    pub arch: &'static str,
    /// Parts of names, any of which matches.
    pub parts: &'static [&'static str],
    /// Whole names, any of which matches.
    pub names: &'static [&'static str],
    /// The reason.
    pub why: &'static str,
}

macro_rules! kept {
    ($($why:literal $(in $arch:literal)? : $($part:literal)* $(= $($name:literal)*)?;)*) => {
        /// The kinds of tensors that are never quantized.
        pub static KEPT: &[Kept] = &[$(Kept {
            arch: concat!($($arch)?), parts: &[$($part),*], names: &[$($($name),*)?], why: $why,
        }),*];
    };
}

kept! {
    "a norm": "_norm.weight";
    "chooses the experts": "ffn_gate_inp.weight";
    "table of experts by token": "ffn_gate_tid2eid.weight";
    "very small (AltUp, LAuReL)": "altup" "laurel";
    "small (projection of the per-layer embeddings)": "per_layer_model_proj";
    "positions or token types": = "position_embd.weight" "token_types.weight";
    "small (convolution)": "ssm_conv1d" "shortconv.conv.weight";
    "small (indexer)": "indexer.k_proj.weight" "indexer.q_proj.weight";
    "small (GLM5-Next: connections, indexer, state space, latent attention)" in "glm5-next":
        "hc_" "indexer.attn_q_b" "indexer.attn_k" "indexer.proj" "indexer_compressor_gate" "indexer_compressor_ape"
        "ssm_f_a.weight" "ssm_f_b.weight" "ssm_g_a.weight" "ssm_g_b.weight" "ssm_beta.weight" "attn_kv_a_mqa.weight"
        "attn_k_b.weight" "attn_v_b.weight";
    "small (RWKV)":
        "time_mix_first.weight" "time_mix_w0.weight" "time_mix_w1.weight" "time_mix_w2.weight" "time_mix_v0.weight"
        "time_mix_v1.weight" "time_mix_v2.weight" "time_mix_a0.weight" "time_mix_a1.weight" "time_mix_a2.weight"
        "time_mix_g1.weight" "time_mix_g2.weight" "time_mix_decay_w1.weight" "time_mix_decay_w2.weight"
        "time_mix_lerp_fused.weight";
    "relative positions": "attn_rel_b.weight" ".rel_pos";
    "patches and positions of \
     images": ".position_embd" "sam.pos_embd" "sam.neck." "sam.net_" ".patch_embd" ".patch_merger";
    "first and last layers, times and prompts (FLUX)" in "flux":
        "txt_in." "img_in." "time_in." "vector_in." "guidance_in." "final_layer.";
    "first and last layers, times and classes (Stable Diffusion)" in "sd1":
        "class_embedding." "time_embedding." "add_embedding." "time_embed." "label_emb." "conv_in." "conv_out."
        = "input_blocks.0.0.weight" "out.2.weight";
    "first and last layers, times and classes (Stable Diffusion XL)" in "sdxl":
        "class_embedding." "time_embedding." "add_embedding." "time_embed." "label_emb." "conv_in." "conv_out."
        = "input_blocks.0.0.weight" "out.2.weight";
    "first and last layers, times and prompts (Stable Diffusion 3)" in "sd3":
        "final_layer." "time_text_embed." "context_embedder." "t_embedder." "y_embedder." "x_embedder."
        = "proj_out.weight" "pos_embed";
    "first and last layers, times and prompts (AuraFlow)" in "aura":
        "t_embedder." "init_x_linear."
        = "modF.1.weight" "cond_seq_linear.weight" "final_linear.weight" "positional_encoding" "register_tokens";
    "first and last layers, times and prompts (LTX-Video)" in "ltxv":
        "adaln_single." "caption_projection." "patchify_proj." "proj_out." "scale_shift_table";
    "first and last layers, times and prompts (Hunyuan Video)" in "hyvid":
        "txt_in." "img_in." "time_in." "vector_in." "guidance_in." "final_layer.";
    "first and last layers, times and prompts (Wan)" in "wan":
        "modulation." "patch_embedding." "text_embedding." "time_projection." "time_embedding." "img_emb." "head.";
    "first and last layers, times, prompts and choice of experts (HiDream)" in "hidream":
        "p_embedder." "t_embedder." "x_embedder." "final_layer." ".ff_i.gate.weight" "caption_projection.";
    "first and last layers, times and positions (Cosmos)" in "cosmos":
        "p_embedder." "t_embedder." "t_embedding_norm." "x_embedder." "pos_embedder." "final_layer.";
    "first and last layers, times and prompts (Lumina 2)" in "lumina2":
        "t_embedder." "x_embedder." "final_layer." "cap_embedder." "context_refiner." "noise_refiner.";
    "first and last layers, times and prompts (Qwen-Image)" in "qwen_image":
        "txt_in." "img_in." "time_text_embed." "norm_out." "proj_out.";
    "codebook of sounds": "a.rvq.codebook" "mm.a.code_embd";
}

/// The reason why a tensor with that name and shape is kept; `None` if it is quantized.
pub(super) fn keep(arch: &str, name: &[u8], shape: &[u64], leave_output: bool) -> Option<Keep> {
    // The number of dimensions is that of `ggml_n_dims`: up to the last one larger than 1.
    if !shape.iter().skip(1).any(|&dim| dim > 1) {
        return Some(Keep::Vector);
    }
    if !name.ends_with(b"weight") {
        return Some(Keep::NotAWeight);
    }
    // In image models, only matrices are quantized.
    if is_image_architecture(arch) && shape.iter().skip(2).any(|&dim| dim > 1) {
        return Some(Keep::Vector);
    }
    if leave_output && name == b"output.weight" {
        return Some(Keep::LeaveOutput);
    }
    let fits = |kept: &&Kept| {
        (kept.arch.is_empty() || kept.arch == arch)
            && (kept.names.iter().any(|n| n.as_bytes() == name) || kept.parts.iter().any(|p| contains(name, p)))
    };
    KEPT.iter().find(fits).map(|kept| Keep::Kind(&kept.why))
}

/// Whether `name` contains `part`.
pub(super) fn contains(name: &[u8], part: &str) -> bool {
    match core::str::from_utf8(name) {
        Ok(name) => name.contains(part),
        Err(_) => name.windows(part.len().max(1)).any(|w| w == part.as_bytes()),
    }
}
