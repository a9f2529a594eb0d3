//! The mixtures of image and video models, whose tensors have the names of their checkpoints: those of the quantizer of ComfyUI-GGUF
//! (`img_tensor_get_type` in its `tools/lcpp.patch`). [`KEPT`](super::KEPT) lists the tensors that are never quantized.
//!
//! They differ from those of language models in three ways: tensors are processed in the order of the file, block numbers are ignored, and
//! rows that are not whole blocks become half precision.

use std::sync::LazyLock;

use gguf_format::GgmlType;
use gguf_format::keys::FileType;
use gguf_pipeline::plan::MixtureRow;

use super::keep::contains;
use super::rules::{Category, ft};

/// A row: the type of a place for some file types.
#[non_exhaustive]
#[derive(Debug, PartialEq, Eq)]
pub struct ImageRule {
    /// The place: values, fused queries, keys and values, or the down projection.
    pub place: Category,
    /// The file types.
    pub file_types: &'static [FileType],
    /// The row only applies while fewer tensors with values have been processed.
    pub before: Option<u64>,
    /// The type.
    pub ty: GgmlType,
    /// The condition, in a few words.
    pub when: &'static str,
}

macro_rules! rows {
    ($($place:ident [$($ft:ident)*] $(< $n:literal)? $ty:ident $when:literal;)*) => {
        /// The rows, in order: the first matching one is used.
        pub static IMAGE_RULES: &[ImageRule] = &[$(ImageRule {
            place: Category::$place, file_types: &[$(ft::$ft),*], before: rows!(@ $($n)?), ty: GgmlType::$ty, when: $when,
        }),*];
    };
    (@) => { None };
    (@ $n:literal) => { Some($n) };
}

rows! {
    AttnV   [Q2_K] Q3_K "values";
    AttnV   [Q3_K_M] < 2 Q5_K "values: first 2";
    AttnV   [Q3_K_M] Q4_K "values";
    AttnV   [Q3_K_L] Q5_K "values";
    AttnV   [Q4_K_M Q5_K_M] Q6_K "values";
    AttnV   [Q4_K_S] < 4 Q5_K "values: first 4";
    AttnQkv [Q3_K_M Q3_K_L] Q4_K "queries, keys and values";
    AttnQkv [Q4_K_M] Q5_K "queries, keys and values";
    AttnQkv [Q5_K_M] Q6_K "queries, keys and values";
    FfnDown [Q3_K_M] Q4_K "down projection";
    FfnDown [Q3_K_L Q4_K_S] Q5_K "down projection";
    FfnDown [Q4_K_M Q5_K_M] Q6_K "down projection";
    FfnDown [Q4_0] Q4_1 "down projection";
    FfnDown [Q5_0] Q5_1 "down projection";
}

/// Parts of names that must all occur in a name, and its category; the first matching row is used.
const PARTS: &[(&[&str], Category)] = &[
    (&["attn_v.weight"], Category::AttnV),
    (&[".to_v.weight"], Category::AttnV),
    (&[".v.weight"], Category::AttnV),
    (&[".attn.w1v.weight"], Category::AttnV),
    (&[".attn.w2v.weight"], Category::AttnV),
    (&["_attn.v_proj.weight"], Category::AttnV),
    (&["attn_qkv.weight"], Category::AttnQkv),
    (&["attn.qkv.weight"], Category::AttnQkv),
    (&["attention.qkv.weight"], Category::AttnQkv),
    (&["ffn_down"], Category::FfnDown),
    (&["experts.", ".w2.weight"], Category::FfnDown),
    (&[".ffn.2.weight"], Category::FfnDown),
    (&[".ff.net.2.weight"], Category::FfnDown),
    (&[".mlp.layer2.weight"], Category::FfnDown),
    (&[".adaln_modulation_mlp.2.weight"], Category::FfnDown),
    (&[".feed_forward.w2.weight"], Category::FfnDown),
];

/// The category of a tensor name.
pub(super) fn category(name: &[u8]) -> Category {
    let fits = |(parts, _): &&(&[&str], Category)| parts.iter().all(|part| contains(name, part));
    PARTS.iter().find(fits).map_or(Category::Other, |(_, category)| *category)
}

/// The row for a place, after `seen` tensors with values, and its description.
pub(super) fn rule(
    category: Category,
    file_type: FileType,
    seen: u64,
) -> Option<(&'static ImageRule, &'static MixtureRow)> {
    static ROWS: LazyLock<Vec<MixtureRow>> = LazyLock::new(|| {
        IMAGE_RULES.iter().enumerate().map(|(index, rule)| MixtureRow { index, when: rule.when.to_owned() }).collect()
    });
    IMAGE_RULES.iter().zip(&*ROWS).find(|(rule, _)| {
        rule.place == category && rule.file_types.contains(&file_type) && rule.before.is_none_or(|before| seen < before)
    })
}

#[cfg(test)]
mod tests {
    use gguf_format::Str;

    use super::super::{Decision, Keep, MixOptions, ModelFacts, Reason, Target, TensorFacts, decide};
    use super::*;

    fn types(architecture: &str, target: &str, tensors: &[(&str, &[u64])]) -> Vec<String> {
        let model = ModelFacts { architecture: architecture.to_owned(), ..ModelFacts::default() };
        let facts: Vec<_> = tensors
            .iter()
            .map(|(name, shape)| TensorFacts { name: Str(name.as_bytes()), shape, ty: GgmlType::BF16 })
            .collect();
        let decisions = decide(&model, &facts, Target::parse(target).unwrap(), &MixOptions::default()).unwrap();
        decisions.iter().map(|d: &Decision| d.ty.to_string().to_uppercase()).collect()
    }

    #[test]
    fn places_by_the_names_of_checkpoints() {
        let cases = [
            ("double_blocks.0.img_attn.qkv.weight", Category::AttnQkv),
            ("context_refiner.0.attention.qkv.weight", Category::AttnQkv),
            ("double_blocks.0.img_attn.proj.weight", Category::Other),
            ("joint_blocks.0.x_block.attn.qkv.weight", Category::AttnQkv),
            ("blocks.0.self_attn.v.weight", Category::AttnV),
            ("transformer_blocks.0.attn1.to_v.weight", Category::AttnV),
            ("blocks.3.self_attn.v_proj.weight", Category::AttnV),
            ("blocks.0.ffn.2.weight", Category::FfnDown),
            ("blocks.0.ffn.0.weight", Category::Other),
            ("double_stream_blocks.0.block.ff_i.shared_experts.w2.weight", Category::FfnDown),
            ("double_stream_blocks.0.block.ff_i.shared_experts.w1.weight", Category::Other),
            ("layers.0.feed_forward.w2.weight", Category::FfnDown),
        ];
        for (name, category) in cases {
            assert_eq!(super::category(name.as_bytes()), category, "{name}");
        }
    }

    /// Results of the patch's conditions, derived by hand.
    #[test]
    fn mixtures() {
        const MATRIX: &[u64] = &[256, 512];
        let wan: &[(&str, &[u64])] = &[
            ("blocks.0.self_attn.q.weight", MATRIX),
            ("blocks.0.self_attn.v.weight", MATRIX),
            ("blocks.0.ffn.2.weight", MATRIX),
            ("blocks.0.cross_attn.v.weight", MATRIX),
            ("blocks.1.self_attn.v.weight", MATRIX),
            ("blocks.1.cross_attn.v.weight", MATRIX),
            ("blocks.2.self_attn.v.weight", MATRIX),
            ("head.head.weight", MATRIX),
            ("patch_embedding.weight", &[2, 2, 1, 4]),
            ("blocks.0.modulation", &[256, 6, 1]),
            ("blocks.3.self_attn.q.weight", &[96, 512]),
        ];
        let cases = [
            ("Q2_K", ["Q2_K", "Q3_K", "Q2_K", "Q3_K", "Q3_K", "Q3_K", "Q3_K"]),
            ("Q3_K_M", ["Q3_K", "Q5_K", "Q4_K", "Q5_K", "Q4_K", "Q4_K", "Q4_K"]),
            ("Q3_K_L", ["Q3_K", "Q5_K", "Q5_K", "Q5_K", "Q5_K", "Q5_K", "Q5_K"]),
            ("Q4_K_S", ["Q4_K", "Q5_K", "Q5_K", "Q5_K", "Q5_K", "Q5_K", "Q4_K"]),
            ("Q4_K_M", ["Q4_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K"]),
            ("Q5_K_M", ["Q5_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K", "Q6_K"]),
            ("Q4_0", ["Q4_0", "Q4_0", "Q4_1", "Q4_0", "Q4_0", "Q4_0", "Q4_0"]),
            ("Q5_0", ["Q5_0", "Q5_0", "Q5_1", "Q5_0", "Q5_0", "Q5_0", "Q5_0"]),
            ("Q6_K", ["Q6_K"; 7]),
            ("Q8_0", ["Q8_0"; 7]),
        ];
        for (target, first) in cases {
            // The K types need whole blocks of 256; their fallback is half precision.
            let last = if target.contains("_K") { "F16" } else { first[0] };
            let rest = ["BF16", "BF16", "BF16", last];
            assert_eq!(types("wan", target, wan), [&first[..], &rest].concat(), "{target}");
        }
    }

    #[test]
    fn every_model_keeps_its_first_and_last_layers() {
        let cases = [
            ("flux", "double_blocks.0.img_attn.proj.weight", "img_in.weight"),
            ("flux", "single_blocks.0.linear1.weight", "final_layer.linear.weight"),
            ("sd3", "joint_blocks.0.x_block.attn.qkv.weight", "context_embedder.weight"),
            ("sdxl", "input_blocks.4.1.proj_in.weight", "label_emb.0.0.weight"),
            ("sd1", "input_blocks.4.1.proj_in.weight", "input_blocks.0.0.weight"),
            ("aura", "double_layers.0.attn.w1q.weight", "modF.1.weight"),
            ("ltxv", "transformer_blocks.0.attn1.to_q.weight", "patchify_proj.weight"),
            ("hyvid", "double_blocks.0.img_attn_proj.weight", "txt_in.input_embedder.weight"),
            ("wan", "blocks.0.self_attn.q.weight", "time_projection.1.weight"),
            (
                "hidream",
                "double_stream_blocks.0.block.attn1.to_q.weight",
                "double_stream_blocks.0.block.ff_i.gate.weight",
            ),
            ("cosmos", "blocks.0.self_attn.q_proj.weight", "x_embedder.proj.1.weight"),
            ("lumina2", "layers.0.attention.out.weight", "noise_refiner.0.attention.out.weight"),
            ("qwen_image", "transformer_blocks.0.attn.to_q.weight", "img_in.weight"),
        ];
        for (architecture, quantized, kept) in cases {
            let shape: &[u64] = &[256, 512];
            let found = types(architecture, "Q8_0", &[(quantized, shape), (kept, shape)]);
            assert_eq!(found, ["Q8_0", "BF16"], "{architecture}");
        }
        let stack = [TensorFacts { name: Str(b"a.conv.weight"), shape: &[256, 2, 2], ty: GgmlType::F16 }];
        let model = ModelFacts { architecture: "flux".to_owned(), ..ModelFacts::default() };
        let decisions = decide(&model, &stack, Target::parse("Q8_0").unwrap(), &MixOptions::default()).unwrap();
        assert_eq!(decisions[0].why, Reason::Kept(Keep::Vector));
    }
}
