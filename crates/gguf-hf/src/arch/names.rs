//! Names of checkpoints' tensors: what they are for, and which are left out.

use gguf_model::role::{self, Role, TensorName};

/// A row of an architecture's name table: a checkpoint's name without suffix, `{}` for the number of the block, and what
/// that tensor is for.
pub(super) type NameRow = (&'static str, Role);

/// Looks a checkpoint's name up; `None` when no row matches or the block is not below `n_blocks`.
pub(super) fn map_name<'a>(table: &[NameRow], name: &'a str, n_blocks: u32) -> Option<TensorName<'a>> {
    let (stem, suffix) = role::split_suffix(name);
    table.iter().find_map(|&(template, role)| {
        let block = role::match_template(template, stem)?;
        block.is_none_or(|b| b < n_blocks).then_some(TensorName { role, block, suffix })
    })
}

/// Why a tensor that checkpoints carry is never written: buffers that are computed when the model runs, and the parts of
/// multimodal models that go into a file of their own (`ModelBase.prepare_tensors` and `TextModel.filter_tensors`).
pub(super) fn skip_reason(name: &str) -> Option<&'static str> {
    const BUFFERS: &[&str] = &[".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq"];
    const PREFIXES: &[&str] = &[
        "mlp",
        "vit.",
        "vpm.",
        "siglip2.",
        "conformer.",
        "merger.",
        "resampler.",
        "sound_encoder.",
        "sound_projection.",
        "speech_embeddings.",
    ];
    const PARTS: &[&str] = &[
        "visual.",
        "vision.",
        "audio.",
        "talker.",
        "vision_",
        "audio_",
        "token2wav.",
        "code2wav.",
        "projector.",
        "pre_mm_projector_norm",
        "image_newline",
        "view_seperator",
        "patch_embed",
        "patch_merger.",
        "patch_merge_mlp.",
        "model.connector.",
    ];
    if BUFFERS.iter().any(|b| name.ends_with(b)) {
        Some("computed when the model runs")
    } else if PREFIXES.iter().any(|p| name.starts_with(p)) || PARTS.iter().any(|p| name.contains(p)) {
        Some("belongs to another modality")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_map_by_table_suffix_and_block() {
        let table: &[NameRow] = &[("model.norm", Role::OutputNorm), ("layers.{}.q", Role::AttnQ)];
        let name = |n| map_name(table, n, 2).map(|t| t.to_string());
        assert_eq!(name("model.norm.weight").as_deref(), Some("output_norm.weight"));
        assert_eq!(name("model.norm").as_deref(), Some("output_norm"));
        assert_eq!(name("layers.1.q.bias").as_deref(), Some("blk.1.attn_q.bias"));
        for unknown in
            ["layers.2.q.bias", "layers.01.q.bias", "layers.1.q.scale", "layers.1.k.weight", "xmodel.norm.weight"]
        {
            assert_eq!(name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn buffers_and_other_modalities_are_skipped() {
        for name in
            ["model.layers.0.self_attn.rotary_emb.inv_freq", "h.0.attention.bias", "vision_tower.x", "mlp1.0.weight"]
        {
            assert!(skip_reason(name).is_some(), "{name}");
        }
        for name in ["model.layers.0.mlp.up_proj.weight", "lm_head.weight", "model.layers.0.self_attn.q_proj.bias"] {
            assert!(skip_reason(name).is_none(), "{name}");
        }
    }
}
