//! Image and video models: detection of their checkpoints, and rules for their tensors.
//!
//! In GGUF, such a model has no hyperparameter keys, and its tensors keep the names of the checkpoint; loaders derive
//! everything else from names and shapes. The conventions are those of ComfyUI-GGUF, shared by its loaders, InvokeAI
//! and diffusers. The tensor names for detection, and those of tensors that need more than 16 bits, are taken from its
//! `tools/convert.py`.

/// An image or video model.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageModel {
    /// GGUF's name of the architecture.
    pub name: &'static str,
    /// The model's display name.
    pub title: &'static str,
    /// Sets of tensor names; a checkpoint that contains all names of one set is such a model.
    pub detect: &'static [&'static [&'static str]],
    /// Tensors found only in the diffusers layout, if no GGUF loader reads that layout.
    pub diffusers: &'static [&'static str],
    /// Substrings of the names of tensors that stay in single precision.
    pub precise: &'static [&'static str],
    /// Substrings of the names of tensors that the model does not need.
    pub ignored: &'static [&'static str],
    /// Whether tensors whose row length is not a multiple of 256 are reshaped to rows of 256, if possible.
    pub reshapes: bool,
}

/// The prefix, before a tensor name, of the key for the original shape of a reshaped tensor: an array of i32, the
/// contiguous dimension last.
pub const ORIGINAL_SHAPE: &str = "comfy.gguf.orig_shape.";

/// Prefixes of the model's tensors in checkpoints with other parts, in order of precedence; tensors without the prefix
/// belong to the other parts.
pub const PREFIXES: &[&str] = &["model.diffusion_model.", "model."];

/// Prefix of all tensor names in checkpoints of some trainers.
pub const WHOLE_PREFIX: &str = "net.";

const fn model(
    name: &'static str,
    title: &'static str,
    detect: &'static [&'static [&'static str]],
    diffusers: &'static [&'static str],
) -> ImageModel {
    ImageModel { name, title, detect, diffusers, precise: &[], ignored: &[], reshapes: false }
}

/// The recognized models. The first match applies.
///
/// Qwen-Image is not in ComfyUI-GGUF's list. It precedes FLUX because its checkpoints contain the names of FLUX in the
/// diffusers layout.
pub const IMAGE_MODELS: &[ImageModel] = &[
    model(
        "qwen_image",
        "Qwen-Image",
        &[&[
            "txt_norm.weight",
            "transformer_blocks.0.attn.norm_q.weight",
            "transformer_blocks.0.img_mlp.net.0.proj.weight",
        ]],
        &[],
    ),
    model(
        "flux",
        "FLUX",
        &[&["transformer_blocks.0.attn.norm_added_k.weight"], &["double_blocks.0.img_attn.proj.weight"]],
        &["transformer_blocks.0.attn.norm_added_k.weight"],
    ),
    model(
        "sd3",
        "Stable Diffusion 3",
        &[&["transformer_blocks.0.attn.add_q_proj.weight"], &["joint_blocks.0.x_block.attn.qkv.weight"]],
        &["transformer_blocks.0.attn.add_q_proj.weight"],
    ),
    model(
        "aura",
        "AuraFlow",
        &[&["double_layers.3.modX.1.weight"], &["joint_transformer_blocks.3.ff_context.out_projection.weight"]],
        &["joint_transformer_blocks.3.ff_context.out_projection.weight"],
    ),
    ImageModel {
        precise: &[".ff_i.gate.weight", "img_emb.emb_pos"],
        ..model(
            "hidream",
            "HiDream",
            &[&["caption_projection.0.linear.weight", "double_stream_blocks.0.block.ff_i.shared_experts.w3.weight"]],
            &[],
        )
    },
    ImageModel {
        precise: &["pos_embedder"],
        ignored: &["_extra_state", "accum_"],
        ..model(
            "cosmos",
            "Cosmos Predict 2",
            &[&["blocks.0.mlp.layer1.weight", "blocks.0.adaln_modulation_cross_attn.1.weight"]],
            &[],
        )
    },
    ImageModel {
        precise: &["scale_shift_table"],
        ..model(
            "ltxv",
            "LTX-Video",
            &[&[
                "adaln_single.emb.timestep_embedder.linear_2.weight",
                "transformer_blocks.27.scale_shift_table",
                "caption_projection.linear_2.weight",
            ]],
            &[],
        )
    },
    model(
        "hyvid",
        "Hunyuan Video",
        &[&["double_blocks.0.img_attn_proj.weight", "txt_in.individual_token_refiner.blocks.1.self_attn_qkv.weight"]],
        &[],
    ),
    ImageModel {
        precise: &[".modulation"],
        ..model(
            "wan",
            "Wan",
            &[&["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation"]],
            &[],
        )
    },
    ImageModel {
        reshapes: true,
        ..model(
            "sdxl",
            "Stable Diffusion XL",
            &[
                &["down_blocks.0.downsamplers.0.conv.weight", "add_embedding.linear_1.weight"],
                &[
                    "input_blocks.3.0.op.weight",
                    "input_blocks.6.0.op.weight",
                    "output_blocks.2.2.conv.weight",
                    "output_blocks.5.2.conv.weight",
                ],
                &["label_emb.0.0.weight"],
            ],
            &[],
        )
    },
    ImageModel {
        reshapes: true,
        ..model(
            "sd1",
            "Stable Diffusion 1 and 2",
            &[
                &["down_blocks.0.downsamplers.0.conv.weight"],
                &[
                    "input_blocks.3.0.op.weight",
                    "input_blocks.6.0.op.weight",
                    "input_blocks.9.0.op.weight",
                    "output_blocks.2.1.conv.weight",
                    "output_blocks.5.2.conv.weight",
                    "output_blocks.8.2.conv.weight",
                ],
            ],
            &[],
        )
    },
    model("lumina2", "Lumina 2", &[&["cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight"]], &[]),
];

/// Recognizes the model in a checkpoint; `has` returns whether the checkpoint has a tensor with this name, without the
/// prefix.
///
/// ```
/// let names = ["double_blocks.0.img_attn.proj.weight", "img_in.weight"];
/// let model = gguf_model::image::recognize(|name| names.contains(&name)).expect("an image model");
/// assert_eq!((model.name, model.title), ("flux", "FLUX"));
/// ```
pub fn recognize(has: impl Fn(&str) -> bool) -> Option<&'static ImageModel> {
    IMAGE_MODELS.iter().find(|model| model.detect.iter().any(|names| names.iter().all(|name| has(name))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::keys::IMAGE_ARCHITECTURES;

    #[test]
    fn every_model_has_a_known_architecture() {
        let mut names: Vec<&str> = IMAGE_MODELS.iter().map(|model| model.name).collect();
        names.sort_unstable();
        assert_eq!(names, IMAGE_ARCHITECTURES);
    }

    #[test]
    fn every_set_of_names_is_its_own_models() {
        for model in IMAGE_MODELS {
            for names in model.detect {
                let found = recognize(|name| names.contains(&name)).map(|model| model.name);
                assert_eq!(found, Some(model.name), "{names:?}");
            }
        }
        assert_eq!(recognize(|name| name.starts_with("model.layers.")), None);
    }
}
