//! Pixtral, the encoder of LLaVA with Mistral models and of Mistral Small 3.1: rotary positions in two dimensions,
//! gated feed-forward parts. The embedding of the token between patch rows is a tensor that llama.cpp requires.

use super::prelude::*;

pub(super) const PIXTRAL: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE, BREAK],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["LlavaForConditionalGeneration", "Mistral3ForConditionalGeneration"],
        when: "vision_config.model_type == 'pixtral'",
        names: &TensorNames {
            takes: &[
                "*embed_tokens.weight",
                "multi_modal_projector.*",
                "vision_tower.*",
                "model.multi_modal_projector.*",
                "model.vision_tower.*",
            ],
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        refuse: &[
            OTHER_ACTIVATION,
            ("token_id(@added_tokens, '[IMG_BREAK]') == null", "a tokenizer without the token [IMG_BREAK]"),
        ],
        keys: &[IMAGE, HEAD, VISION, PIXTRAL_KEYS, KEYS],
        ..TOWER
    }],
};

/// Pixtral without a token between patch rows.
pub(super) const LIGHTONOCR: Architecture = Architecture {
    names: &["clip"],
    required: &[],
    optional: &[],
    outside: &[OUTSIDE],
    block: &[BLOCK],
    checkpoints: &[Checkpoint {
        classes: &["LightOnOCRForConditionalGeneration"],
        when: "vision_config.model_type == 'pixtral'",
        names: &TensorNames {
            takes: &["model.vision_encoder.*", "model.vision_projection.*"],
            rename: &[
                ("model.vision_encoder.", "vision_tower."),
                ("model.vision_projection.", "multi_modal_projector."),
            ],
            roots: ROOTS,
            layers: LAYERS,
            ..*TOWER.names
        },
        refuse: &[OTHER_ACTIVATION],
        keys: &[HEAD, VISION, LIGHTONOCR_KEYS, KEYS],
        ..TOWER
    }],
};

const ROOTS: &[&str] = &["model.vision_tower.", "vision_tower.", "model."];

const LAYERS: &[&str] = &["transformer.layers.{}."];

const OTHER_ACTIVATION: (&str, &str) =
    ("not (vision_config.hidden_act in ['gelu', 'silu'])", "another activation than gelu and silu");

/// The token between patch rows.
const IMAGE: &[Key] = keys! {
    let image = "{'break': token_id(@added_tokens, '[IMG_BREAK]')}";
};

const PIXTRAL_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'pixtral'";
};

const LIGHTONOCR_KEYS: &[Key] = keys! {
    "clip.projector_type" Str = "'lightonocr'";
};

const KEYS: &[Key] = keys! {
    "clip.vision.attention.layer_norm_epsilon" F32 = "vision_config.layer_norm_eps|1e-5";
    "clip.use_silu" Bool? = "true if vision_config.hidden_act == 'silu' else null";
    "clip.use_gelu" Bool? = "true if vision_config.hidden_act == 'gelu' else null";
    "clip.vision.spatial_merge_size" U32? = "spatial_merge_size";
};

const OUTSIDE: &[Row] = rows! {
    "mm.1.weight"            []     Required Always + Optional <- "multi_modal_projector.linear_1";
    "mm.2.weight"            []     Required Always + Optional <- "multi_modal_projector.linear_2";
    "mm.input_norm.weight"   []     Optional Always <- "multi_modal_projector.norm";
    "mm.patch_merger.weight" []     Optional Always <- "multi_modal_projector.patch_merger.merging_layer";
    "v.pre_ln.weight"        [Embd] Required Always <- "ln_pre";
    "v.patch_embd.weight"    []     Required Always <- "patch_conv";
};

const BREAK: &[Row] = rows! {
    "v.token_embd.img_break" []     Required Always <- "language_model.model.embed_tokens | language_model.embed_tokens | embed_tokens"
        : "r[image.break] e -> e";
};

const BLOCK: &[Row] = rows! {
    "v.blk.{}.attn_k.weight"   [Embd Embd] Required Always <- "attention.k_proj" : "(h two i) ... -> (h i two) ...";
    "v.blk.{}.attn_out.weight" [Embd Embd] Required Always <- "attention.o_proj";
    "v.blk.{}.attn_q.weight"   [Embd Embd] Required Always <- "attention.q_proj" : "(h two i) ... -> (h i two) ...";
    "v.blk.{}.attn_v.weight"   [Embd Embd] Required Always <- "attention.v_proj";
    "v.blk.{}.ln1.weight"      [Embd]      Required Always <- "attention_norm";
    "v.blk.{}.ffn_down.weight" [Ff Embd]   Required Always <- "feed_forward.down_proj";
    "v.blk.{}.ffn_gate.weight" [Embd Ff]   Required Always <- "feed_forward.gate_proj";
    "v.blk.{}.ffn_up.weight"   [Embd Ff]   Required Always <- "feed_forward.up_proj";
    "v.blk.{}.ln2.weight"      [Embd]      Required Always <- "ffn_norm";
};
