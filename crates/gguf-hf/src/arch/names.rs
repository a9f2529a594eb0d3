//! Names of checkpoint tensors: their equivalents in the tables, and the names to leave out.

use gguf_model::arch::Checkpoint;

use crate::dtype::SourceTensor;

/// The name of a tensor in the tables of an architecture, without the class's root prefix, or the reason to leave the tensor out
/// (`filter_tensors` of the reference: first the class, then `TextModel`, then `ModelBase`).
///
/// `renames` are the renames whose condition holds.
pub(crate) fn of_text_model(
    checkpoint: &Checkpoint,
    renames: &[(&str, &str)],
    name: &str,
) -> Result<String, &'static str> {
    if !checkpoint.names.takes.is_empty() {
        return of_tower(checkpoint, name);
    }
    let mut name = name.to_owned();
    for (old, new) in checkpoint.names.rename {
        name = name.replace(old, new);
    }
    if let Some((_, new)) = renames.iter().find(|(old, _)| *old == name) {
        name = (*new).to_owned();
    }
    if let Some(reason) = skip_reason(&name) {
        return Err(reason);
    }
    if let Some(stem) = name.strip_suffix("e_score_correction_bias") {
        name = format!("{stem}e_score_correction.bias");
    }
    name = name.replace("language_model.", "");
    let root = checkpoint.names.roots.iter().find_map(|root| name.strip_prefix(root).map(str::to_owned));
    let name = root.unwrap_or(name);
    let outside = |(before, usual): &(&str, &str)| Some(format!("{usual}{}", after(before, &name)?.1));
    Ok(checkpoint.names.outside_blocks.iter().find_map(outside).unwrap_or(name))
}

/// The tensors that remain after those of other models and modalities are left out; their formats determine the type of the output.
pub(crate) fn taken(checkpoint: &Checkpoint, sources: &[SourceTensor]) -> Vec<SourceTensor> {
    let always = checkpoint.names.skip.iter().filter(|(_, condition)| condition.is_empty());
    let patterns: Vec<&str> = always.map(|(pattern, _)| *pattern).collect();
    let is_taken = |source: &&SourceTensor| {
        of_text_model(checkpoint, &[], &source.name).is_ok_and(|name| {
            !patterns.iter().any(|pattern| match pattern.strip_prefix('^') {
                Some(pattern) => matches(pattern, &source.name),
                None => matches(pattern, &name),
            })
        })
    };
    sources.iter().filter(is_taken).cloned().collect()
}

/// Like [`of_text_model`] for an image or audio encoder (`filter_tensors` of the reference: first the class, then `MmprojModel`).
fn of_tower(checkpoint: &Checkpoint, name: &str) -> Result<String, &'static str> {
    if BUFFERS.iter().any(|buffer| name.ends_with(buffer)) {
        return Err("computed when the model runs");
    }
    if !checkpoint.names.takes.iter().any(|pattern| matches(pattern, name)) {
        return Err("belongs to the language model");
    }
    let mut name = name.to_owned();
    for (old, new) in checkpoint.names.rename {
        name = name.replace(old, new);
    }
    let root = checkpoint.names.roots.iter().find_map(|root| name.strip_prefix(root).map(str::to_owned));
    Ok(root.unwrap_or(name))
}

/// The usual name of a tensor in an appended block, whose number follows the `n_main` blocks of the model; `None` for all other tensors.
pub(super) fn in_appended_block(checkpoint: &Checkpoint, name: &str, n_main: u64) -> Option<String> {
    checkpoint.names.appended.iter().find_map(|(before, usual)| {
        let (block, rest) = after(before, name)?;
        let number = block.unwrap_or(0);
        let block = n_main.checked_add(number)?;
        let usual = usual.replace("{}", &block.to_string()).replace("{0}", &number.to_string());
        Some(format!("{usual}{rest}"))
    })
}

/// The number of appended blocks, from the names of their tensors. A name without a number belongs to the first.
pub(super) fn n_appended(checkpoint: &Checkpoint, sources: &[SourceTensor]) -> u64 {
    if checkpoint.names.appended.is_empty() {
        return 0;
    }
    let block = |source: &SourceTensor| {
        let name = of_text_model(checkpoint, &[], &source.name).ok()?;
        checkpoint.names.appended.iter().find_map(|(before, _)| Some(after(before, &name)?.0.unwrap_or(0)))
    };
    sources.iter().filter_map(block).max().map_or(0, |last| last.saturating_add(1))
}

/// The fact that holds the values of a tensor, and the tensor's block.
pub(crate) fn peeked(checkpoint: &Checkpoint, name: &str) -> Option<(&'static str, Option<u64>)> {
    checkpoint.facts.peeked.iter().find_map(|(fact, tensor)| match after(tensor, name)? {
        (block, "") => Some((*fact, block)),
        _ => None,
    })
}

/// The number in place of `{}`, and the rest of the name after the pattern.
fn after<'n>(pattern: &str, name: &'n str) -> Option<(Option<u64>, &'n str)> {
    let Some((before, behind)) = pattern.split_once("{}") else {
        return Some((None, name.strip_prefix(pattern)?));
    };
    let (number, rest) = number(name.strip_prefix(before)?)?;
    Some((Some(number), rest.strip_prefix(behind)?))
}

/// The decimal number at the start of a text, and the rest.
pub(super) fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    let is_plain = digits == "0" || !digits.starts_with('0');
    is_plain.then(|| digits.parse().ok()).flatten().map(|n| (n, rest))
}

/// Whether a name matches a pattern with `*` as wildcard.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            let starts = rest.char_indices().map(|(i, _)| i).chain([rest.len()]);
            starts.into_iter().any(|i| rest.get(i..).is_some_and(|rest| matches(after, rest)))
        }),
    }
}

/// Buffers that the model recomputes at run time.
const BUFFERS: &[&str] = &[".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq"];

/// Why a tensor is never written: buffers that the model recomputes at run time, and the parts of multimodal models that belong in a separate
/// file (`ModelBase.prepare_tensors` and `TextModel.filter_tensors`).
pub(super) fn skip_reason(name: &str) -> Option<&'static str> {
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
        "patch_embedding",
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
    use gguf_model::arch::{TensorFacts, TensorNames};

    use super::*;

    #[test]
    fn patterns_of_names() {
        for (pattern, name, expected) in [
            ("lm_head.weight", "lm_head.weight", true),
            ("*.attn.bias", "h.0.attn.bias", true),
            ("*.attn.bias", "h.0.attn.bias.x", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        for (text, expected) in [("17.x", Some((17, ".x"))), ("017", None), ("x", None), ("0", Some((0, "")))] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn tensors_of_the_other_part_are_not_taken() {
        let source =
            |name: &str| SourceTensor { name: name.to_owned(), dtype: crate::dtype::Dtype::BF16, shape: vec![2, 2] };
        let names =
            ["model.layers.0.mlp.up_proj.weight", "vision_tower.x.weight", "multi_modal_projector.linear_1.weight"];
        let sources = names.map(source);
        let taken = |table: &Checkpoint| -> Vec<String> {
            taken(table, &sources).into_iter().map(|source| source.name).collect()
        };
        assert_eq!(taken(gguf_model::arch::of_class("LlavaForConditionalGeneration").unwrap().1), names[..1]);
        let towers = gguf_model::arch::towers_of_class("Lfm2VlForConditionalGeneration");
        let (_, tower) = towers.into_iter().next().unwrap();
        assert!(!taken(tower).contains(&names[0].to_owned()));
    }

    #[test]
    fn blocks_behind_those_of_the_model() {
        let llama = *gguf_model::arch::of_class("LlamaForCausalLM").unwrap().1;
        let table = Checkpoint {
            names: Box::leak(Box::new(TensorNames {
                appended: &[
                    ("mtp.layers.{}.", "layers.{}."),
                    ("mtp.fc.", "layers.{}.eh_proj."),
                    ("draft.{}.", "layers.{0}."),
                ],
                ..*llama.names
            })),
            facts: Box::leak(Box::new(TensorFacts {
                peeked: &[("gains", "layers.{}.gain"), ("gain", "head_gain")],
                ..*llama.facts
            })),
            ..llama
        };
        let named = |name| in_appended_block(&table, name, 40);
        assert_eq!(named("mtp.layers.1.norm.weight").as_deref(), Some("layers.41.norm.weight"));
        assert_eq!(named("mtp.fc.weight").as_deref(), Some("layers.40.eh_proj.weight"));
        assert_eq!(named("draft.1.norm.weight").as_deref(), Some("layers.1.norm.weight"));
        assert_eq!(named("layers.1.norm.weight"), None);
        assert_eq!(peeked(&table, "layers.3.gain"), Some(("gains", Some(3))));
        assert_eq!(peeked(&table, "head_gain"), Some(("gain", None)));
        assert_eq!(peeked(&table, "layers.3.gain.weight"), None);
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
