//! Phrases on the quality of file types, for readers of a model card who choose among them.

use gguf_format::keys::FileType;

/// The phrase on a file type; `None` for those that llama.cpp no longer loads.
pub fn of(file_type: FileType) -> Option<&'static str> {
    let info = file_type.info().filter(|info| !info.removed)?;
    Some(match info.label() {
        "F32" | "F16" | "BF16" => "not quantized; the input of quantizations",
        "Q8_0" => "almost no loss; larger than most uses need",
        "Q6_K" => "very small loss",
        "Q5_K_M" => "small loss",
        "Q5_K_S" => "small loss; slightly smaller than Q5_K_M",
        "Q4_K_M" => "good quality for its size; the usual choice",
        "Q4_K_S" => "slightly smaller than Q4_K_M, with slightly more loss",
        "IQ4_XS" => "quality close to Q4_K_S in a smaller file",
        "IQ4_NL" => "quality and size close to Q4_K_S",
        "Q3_K_L" | "Q3_K_M" | "Q3_K_S" => "noticeable loss; for machines with little memory",
        "IQ3_M" | "IQ3_S" => "noticeable loss; with a matrix, less than that of Q3_K",
        "IQ3_XS" | "IQ3_XXS" => "noticeable loss; smaller than Q3_K",
        "Q2_K" | "Q2_K_S" => "large loss",
        "IQ2_M" | "IQ2_S" | "IQ2_XS" | "IQ2_XXS" => "large loss; for models that fit in no other way",
        "IQ1_M" | "IQ1_S" => "very large loss; rarely useful",
        "Q5_0" | "Q5_1" | "Q4_0" | "Q4_1" => "an older type; a K type of this size is better",
        "MXFP4_MOE" => "experts in MXFP4, everything else in Q8_0",
        "NVFP4" => "the 4-bit type of NVIDIA GPUs",
        "TQ1_0" | "TQ2_0" => "only for models trained with ternary weights",
        "Q1_0" | "Q2_0" => "only for models trained with weights of 1 or 2 bits",
        _ => return None,
    })
}

/// The phrase on a mixture that many publishers offer, such as `Q4_K_L`; `None` for others.
pub fn of_mixture(name: &str) -> Option<&'static str> {
    Some(match name {
        "Q6_K_L" => "Q6_K with embeddings and output in Q8_0",
        "Q5_K_L" => "Q5_K_M with embeddings and output in Q8_0",
        "Q4_K_L" => "Q4_K_M with embeddings and output in Q8_0",
        "Q3_K_XL" => "Q3_K_L with embeddings and output in Q8_0",
        "Q2_K_L" => "Q2_K with embeddings and output in Q8_0",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::keys::FILE_TYPES;

    #[test]
    fn every_current_file_type_has_a_phrase() {
        for info in FILE_TYPES {
            let phrase = of(FileType(info.id));
            assert_eq!(phrase.is_some(), !info.removed, "{}", info.name);
            assert!(phrase.is_none_or(|text| !text.ends_with('.') && text.len() < 60), "{phrase:?}");
        }
    }
}
