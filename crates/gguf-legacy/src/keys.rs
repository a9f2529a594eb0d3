//! The key-values of a migrated model.

use std::path::Path;

use gguf_format::keys::FileType;
use gguf_format::name::size_label;
use gguf_format::{Dialect, FromValue, GgmlType, Head, Value, Version, n_elements};

use crate::arrange::Arrangement;
use crate::error::Error;
use crate::file::LegacyFile;
use crate::infer::{Inferred, get};
use crate::layout::{Family, Hparam};
use crate::question::Answers;
use crate::vocab::Vocabulary;

/// `general.quantization_version`: the generation of ggml's quantized types (`GGML_QNT_VERSION` in `ggml.h`).
const QUANTIZATION_VERSION: u32 = 2;

/// The epsilon hard-coded in all legacy programs except Llama's (`ggml_norm` in `ggml.c`).
const NORM_EPSILON: f32 = 1e-5;

/// The inputs from which key-values are derived.
pub(crate) struct Known<'a> {
    pub(crate) file: &'a LegacyFile,
    pub(crate) arrangement: &'a Arrangement<'a>,
    pub(crate) inferred: &'a Inferred,
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) answers: &'a Answers,
    /// The type of most weights.
    pub(crate) main_type: GgmlType,
}

/// The head of the output, without tensors.
///
/// # Errors
/// [`Error::Contradiction`] if the given key-values of the original model belong to another one.
pub(crate) fn head(known: &Known<'_>) -> Result<Head, Error> {
    let architecture = known.file.family.architecture();
    let mut head = Head { dialect: Dialect::new(Version::V3), ..Head::default() };
    head.set("general.architecture", architecture);
    head.set("general.type", if known.file.is_adapter() { "adapter" } else { "model" });
    let name = known.answers.name.clone().or_else(|| get(reference(known), "general.name"));
    head.set("general.name", name.unwrap_or_else(|| model_name(known.file.path())));
    for (key, value) in reference(known).iter().filter(|(key, _)| is_about_origin(key)) {
        head.set(key, value.clone());
    }
    let total = known.arrangement.tensors.iter().filter_map(|item| n_elements(item.shape.iter().copied())).sum();
    if total > 0 && !known.file.is_adapter() {
        head.set("general.size_label", size_label(total, total, 0, 0));
    }
    if let Some((_, alpha)) = known.file.lora {
        head.set("adapter.type", "lora");
        head.set("adapter.lora.alpha", alpha as f32);
        return Ok(head);
    }
    let mut set = |key: &str, value: Value| head.set(&format!("{architecture}.{key}"), value);
    for (key, value) in sizes(known) {
        set(key, value);
    }
    compare(known, &head)?;
    add_reference(known, &mut head);
    head.set("general.file_type", file_type(known.file.hparams.file_type().0, known.main_type).0);
    head.set("general.quantization_version", QUANTIZATION_VERSION);
    let tokenizer = known.answers.tokenizer.as_deref().unwrap_or_else(|| reference_tokenizer(known));
    let own = if tokenizer.is_empty() { known.vocabulary.kvs.as_slice() } else { tokenizer };
    for (key, value) in own.iter().filter(|(key, _)| key.starts_with("tokenizer.")) {
        head.set(key, value.clone());
    }
    if let Some(template) = &known.answers.chat_template {
        head.set("tokenizer.chat_template", template);
    }
    check_vocabulary(known, &head)?;
    Ok(head)
}

fn reference<'a>(known: &Known<'a>) -> &'a [(String, Value)] {
    known.answers.reference.as_deref().unwrap_or_default()
}

/// All key-values of the original, if they include a tokenizer.
fn reference_tokenizer<'a>(known: &Known<'a>) -> &'a [(String, Value)] {
    let has_tokens = reference(known).iter().any(|(key, _)| key == "tokenizer.ggml.tokens");
    if has_tokens { reference(known) } else { &[] }
}

/// Whether a key describes the origin of a model, as opposed to its file.
fn is_about_origin(key: &str) -> bool {
    const OF_THE_FILE: [&str; 7] = [
        "general.architecture",
        "general.type",
        "general.name",
        "general.file_type",
        "general.quantization_version",
        "general.alignment",
        "general.quantized_by",
    ];
    key.starts_with("general.") && !OF_THE_FILE.contains(&key)
}

/// The sizes of the network and the other keys required by its architecture, without the name of the architecture, in the order of
/// llama.cpp's converter.
fn sizes(known: &Known<'_>) -> Vec<(&'static str, Value)> {
    let Known { file, arrangement, inferred, .. } = known;
    let int = |hparam| file.hparams.int(hparam);
    let u32 = |n: u32| Value::from(n);
    let n_head_kv = arrangement.n_head_kv.unwrap_or(int(Hparam::Head));
    let context = inferred.context_length.or(file.hparams.get(Hparam::Ctx)).unwrap_or(0);
    let n_ff = arrangement.n_ff.and_then(|n| u32::try_from(n).ok());
    if file.family == Family::Whisper {
        return vec![
            ("encoder.context_length", u32(int(Hparam::AudioCtx))),
            ("encoder.embedding_length", u32(int(Hparam::AudioState))),
            ("encoder.block_count", u32(int(Hparam::AudioLayer))),
            ("encoder.mels_count", u32(int(Hparam::Mels))),
            ("encoder.attention.head_count", u32(int(Hparam::AudioHead))),
            ("decoder.context_length", u32(int(Hparam::TextCtx))),
            ("decoder.embedding_length", u32(int(Hparam::TextState))),
            ("decoder.block_count", u32(int(Hparam::TextLayer))),
            ("decoder.attention.head_count", u32(int(Hparam::TextHead))),
            ("attention.layer_norm_epsilon", NORM_EPSILON.into()),
        ];
    }
    let mut kvs = vec![
        ("context_length", u32(context)),
        ("embedding_length", u32(int(Hparam::Embd))),
        ("block_count", u32(int(Hparam::Layer))),
    ];
    kvs.extend(n_ff.or(file.hparams.get(Hparam::Ff)).map(|n| ("feed_forward_length", u32(n))));
    if file.family == Family::Rwkv {
        kvs.insert(0, ("architecture_version", u32(4)));
        kvs.push(("attention.layer_norm_epsilon", NORM_EPSILON.into()));
        return kvs;
    }
    if matches!(file.family, Family::Llama | Family::GptJ | Family::GptNeox) {
        kvs.push(("rope.dimension_count", u32(int(Hparam::Rot))));
    }
    kvs.push(("attention.head_count", u32(int(Hparam::Head))));
    if matches!(file.family, Family::Llama | Family::Falcon | Family::StarCoder | Family::Bloom) {
        kvs.push(("attention.head_count_kv", u32(n_head_kv)));
    }
    match file.family {
        Family::Llama => {
            kvs.extend(inferred.norm_epsilon.map(|epsilon| ("attention.layer_norm_rms_epsilon", epsilon.into())));
            kvs.extend(inferred.rope_freq_base.map(|base| ("rope.freq_base", base.into())));
            kvs.push(("vocab_size", u32(int(Hparam::Vocab))));
        }
        Family::Bert => {
            kvs.push(("attention.layer_norm_epsilon", 1e-12f32.into()));
            kvs.push(("attention.causal", false.into()));
            kvs.extend(inferred.pooling.map(|pooling| ("pooling_type", u32(pooling))));
        }
        _ => kvs.push(("attention.layer_norm_epsilon", NORM_EPSILON.into())),
    }
    match file.family {
        Family::GptNeox => {
            // Before the parameter was stored, all programs computed both parts in parallel.
            let is_parallel = file.hparams.get(Hparam::ParallelResidual) != Some(0);
            kvs.push(("use_parallel_residual", is_parallel.into()));
        }
        Family::Mpt => {
            let clip = file.hparams.float(Hparam::ClipQkv).filter(|&clip| clip > 0.0);
            kvs.extend(clip.map(|clip| ("attention.clamp_kqv", clip.into())));
            let bias = file.hparams.float(Hparam::AlibiBiasMax).unwrap_or(0.0);
            kvs.push(("attention.max_alibi_bias", bias.into()));
        }
        // Its program hard-coded the number.
        Family::Replit => kvs.push(("attention.max_alibi_bias", 8f32.into())),
        Family::Falcon => kvs.push(("tensor_data_layout", "jploski".into())),
        _ => {}
    }
    kvs
}

/// Checks that the original's key-values describe a model of the same sizes.
fn compare(known: &Known<'_>, head: &Head) -> Result<(), Error> {
    let path = || known.file.path().to_owned();
    let architecture = known.file.family.architecture();
    if reference(known).is_empty() {
        return Ok(());
    }
    let given: String = get(reference(known), "general.architecture").unwrap_or_default();
    if given != architecture {
        let (what, file) = ("general.architecture".to_owned(), architecture.to_owned());
        return Err(Error::Contradiction { path: path(), what, file, given });
    }
    for key in
        ["embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv"]
    {
        let key = format!("{architecture}.{key}");
        let file = head.get(&key).and_then(|value| u64::from_value(value).ok());
        let given: Option<u64> = get(reference(known), &key);
        if let (Some(file), Some(given)) = (file, given)
            && file != given
        {
            let (file, given) = (file.to_string(), given.to_string());
            return Err(Error::Contradiction { path: path(), what: key, file, given });
        }
    }
    Ok(())
}

/// Adds the original's key-values about the network that the file lacks, especially scaled positions. Explicit answers take precedence, and
/// are already set.
fn add_reference(known: &Known<'_>, head: &mut Head) {
    let prefix = format!("{}.", known.file.family.architecture());
    for (key, value) in reference(known).iter().filter(|(key, _)| key.starts_with(&prefix)) {
        let is_new = head.get(key).is_none();
        // Programs of that time used one constant for all; the original's value is better.
        let is_better = known.file.family != Family::Llama && key.ends_with(".layer_norm_epsilon")
            || known.answers.context_length.is_none() && key.ends_with(".context_length") && has_no_positions(known);
        if is_new || is_better {
            head.set(key, value.clone());
        }
    }
}

/// Whether the context length is not the dimension of a tensor.
fn has_no_positions(known: &Known<'_>) -> bool {
    known.arrangement.tensors.iter().all(|item| item.named.stem != "position_embd")
}

/// Checks that the number of tokens equals the rows of the embeddings.
fn check_vocabulary(known: &Known<'_>, head: &Head) -> Result<(), Error> {
    let tokens = head.get("tokenizer.ggml.tokens").and_then(|value| value.as_array().map(|array| array.len()));
    let embeddings = known.arrangement.tensors.iter().find(|item| item.named.stem == "token_embd");
    let rows = embeddings.and_then(|item| item.shape.get(1).copied());
    match (tokens, rows) {
        (Some(tokens), Some(rows)) if tokens != rows => Err(Error::Contradiction {
            path: known.file.path().to_owned(),
            what: "the number of tokens".to_owned(),
            file: rows.to_string(),
            given: tokens.to_string(),
        }),
        _ => Ok(()),
    }
}

/// `general.file_type`: that of the file's header, unless most weights have another type after the migration.
fn file_type(ftype: u32, main: GgmlType) -> FileType {
    let type_of = |ftype| match ftype {
        0 => Some(GgmlType::F32),
        1 => Some(GgmlType::F16),
        2 => Some(GgmlType::Q4_0),
        3 => Some(GgmlType::Q4_1),
        7 => Some(GgmlType::Q8_0),
        8 => Some(GgmlType::Q5_0),
        9 => Some(GgmlType::Q5_1),
        10 => Some(GgmlType::Q2_K),
        11..=13 => Some(GgmlType::Q3_K),
        14 | 15 => Some(GgmlType::Q4_K),
        16 | 17 => Some(GgmlType::Q5_K),
        18 => Some(GgmlType::Q6_K),
        32 => Some(GgmlType::BF16),
        _ => None,
    };
    // Of several names for a type, the one that is not a mixture.
    let plain = [0, 1, 2, 3, 7, 8, 9, 10, 12, 15, 17, 18, 32];
    if type_of(ftype) == Some(main) {
        return FileType(ftype);
    }
    FileType(plain.into_iter().find(|&ftype| type_of(ftype) == Some(main)).unwrap_or(1))
}

/// The name of a model, from its file name without the parts that describe the encoding.
pub(crate) fn model_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut name = file.as_str();
    for ending in [".bin", ".gguf", ".ggml", ".ggjt", ".pth", ".pt"] {
        name = strip_end(name, ending);
    }
    while let Some(at) = name.rfind(['.', '-', '_']) {
        let (before, last) = name.split_at(at);
        // `q4_0` and `q4_K_M` contain separators.
        let (before, last) = match before.rfind(['.', '-']) {
            Some(at) if is_encoding(&name[at + 1..]) => name.split_at(at),
            _ => (before, last),
        };
        match last.strip_prefix(['.', '-', '_']) {
            Some(word) if is_encoding(word) && !before.is_empty() => name = before,
            _ => break,
        }
    }
    let is_nameless = matches!(name, "ggml-model" | "ggml" | "model" | "") || is_encoding(name);
    match path.parent().and_then(Path::file_name) {
        Some(folder) if is_nameless => folder.to_string_lossy().into_owned(),
        _ => name.to_owned(),
    }
}

fn strip_end<'a>(name: &'a str, end: &str) -> &'a str {
    let at = name.len().saturating_sub(end.len());
    match name.get(at..) {
        Some(last) if last.eq_ignore_ascii_case(end) && at > 0 => name.get(..at).unwrap_or(name),
        _ => name,
    }
}

/// Whether a word describes the encoding of a file: `ggmlv3`, `q4_0`, `f16`.
fn is_encoding(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    matches!(
        word.as_str(),
        "ggml" | "ggmf" | "ggjt" | "ggcc" | "ggmlv1" | "ggmlv2" | "ggmlv3" | "ggccv1" | "f16" | "f32" | "fp16" | "fp32"
    ) || FileType::from_name(&word).is_some()
        || GgmlType::from_name(&word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models() {
        for (path, expected) in [
            ("nous-hermes-13b.ggmlv3.q5_1.bin", "nous-hermes-13b"),
            ("models/7B/ggml-model-q4_0.bin", "7B"),
            ("llama-2-7b-chat.ggmlv3.q4_K_M.bin", "llama-2-7b-chat"),
            ("ggml-gpt4all-j-v1.3-groovy.bin", "ggml-gpt4all-j-v1.3-groovy"),
            ("rwkv-430m-FP16.bin", "rwkv-430m"),
            ("mpt-7b-instruct.ggmlv3.q8_0.bin", "mpt-7b-instruct"),
            ("alpaca.bin", "alpaca"),
            ("q4_0.bin", "q4_0"),
            ("x/q4_0.bin", "x"),
        ] {
            assert_eq!(model_name(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn the_file_type_is_that_of_most_weights() {
        for (ftype, main, expected) in [
            (15, GgmlType::Q4_K, 15),
            (14, GgmlType::Q4_K, 14),
            (5, GgmlType::Q8_0, 7),
            (4, GgmlType::Q4_1, 3),
            (2, GgmlType::Q8_0, 7),
            (1, GgmlType::F16, 1),
            (1, GgmlType::F32, 0),
        ] {
            assert_eq!(file_type(ftype, main).0, expected, "{ftype} {main}");
        }
    }
}
