//! Splits a model name into components: `Mixtral-8x7B-Instruct-v0.1` has the base name Mixtral, the size 8x7B, the fine-tune Instruct and the
//! version v0.1. The heuristic is `Metadata.get_model_id_components` of gguf-py (metadata.py).

use std::sync::LazyLock;

use fancy_regex::Regex;
use gguf_format::Str;

use super::ModelMetadata;

/// The maximum length of a model id in bytes; the Hub allows a hundred characters.
const MAX_ID: usize = 1024;

/// The components of a model id; the name is the id without the organization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameParts {
    pub(crate) name: String,
    pub(crate) organization: Option<String>,
    pub(crate) basename: Option<String>,
    pub(crate) finetune: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) size_label: Option<String>,
}

/// The possible kinds of a name part between dashes; a part can have several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds {
    basename: bool,
    size_label: bool,
    finetune: bool,
    version: bool,
    quant: bool,
}

impl Kinds {
    fn none(self) -> bool {
        self == Kinds::default()
    }
}

/// The pattern of metadata.py, anchored and case-insensitive.
fn pattern(expression: &str) -> Option<Regex> {
    Regex::new(&format!(r"\A(?i:{expression})\z")).ok()
}

static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"(v|iter)?\d+([.]\d+)*"));
static QUANT: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"i?q\d(_\w)*|b?fp?(16|32)"));
static SIZE: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl"));
static FINETUNE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern("chat|instruct|vision|lora"));
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A(v\d+(?:\.\d+)*|\d.*)\z").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A\d\z").ok());

fn matches(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|r| r.is_match(text).unwrap_or(false))
}

/// A decimal digit of any script.
fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric() && matches(&DIGIT, c.encode_utf8(&mut [0; 4])))
}

impl NameParts {
    /// Splits an id (`org/name` or `name`) into components. `total` is the number of parameters, which distinguishes a size from a context
    /// length; zero if unknown, negative for a LoRA adapter.
    pub(crate) fn of(id: &str, total: i64) -> NameParts {
        if id.contains(' ') || id.len() > MAX_ID {
            // A sentence is not an id.
            return NameParts { name: id.to_owned(), ..NameParts::default() };
        }
        let (organization, name) = match id.split_once('/') {
            Some((organization, name)) => (Some(organization).filter(|o| !o.starts_with('.')), name),
            None => (None, id),
        };
        let mut parts: Vec<(String, Kinds)> =
            name.split('-').filter(|p| !p.is_empty()).map(|p| (p.to_owned(), Kinds::default())).collect();
        for (i, (part, kinds)) in parts.iter_mut().enumerate() {
            annotate(i, part, kinds, total);
        }

        // Sizes in words are used only in the absence of numeric sizes.
        if parts.iter().any(|(part, kinds)| kinds.size_label && part.chars().any(is_digit)) {
            for (part, kinds) in &mut parts {
                kinds.size_label &= !part.chars().all(char::is_alphabetic);
            }
        }

        // The base name is the leading part, including versions within it …
        let mut at_start = true;
        for (part, kinds) in &mut parts {
            let plain = kinds.none() && part.starts_with(char::is_alphabetic);
            if at_start && (plain || kinds.version) {
                kinds.basename = true;
            } else {
                at_start = false;
                kinds.finetune |= kinds.none();
            }
        }
        // … except for a version at its end.
        for (_, kinds) in parts.iter_mut().rev() {
            if !kinds.basename || *kinds == (Kinds { basename: true, ..Kinds::default() }) {
                break;
            }
            kinds.basename = false;
        }

        let join = |wanted: fn(&Kinds) -> bool, unique: bool| {
            let mut chosen: Vec<&str> = Vec::new();
            for (part, kinds) in &parts {
                if wanted(kinds) && !(unique && chosen.contains(&part.as_str())) {
                    chosen.push(part);
                }
            }
            Some(chosen.join("-")).filter(|s| !s.is_empty())
        };
        let size_label = join(|k| k.size_label, true);
        let finetune = join(|k| k.finetune, false);
        let version = join(|k| k.version && !k.basename, false);
        // A base name alone is the same as the whole name.
        let certain = size_label.is_some() || finetune.is_some() || version.is_some();
        let basename = join(|k| k.basename, false).filter(|_| certain);
        let organization = organization.map(str::to_owned);
        NameParts { name: name.to_owned(), organization, basename, finetune, version, size_label }
    }
}

/// Determines the possible kinds of the part at this position, and normalizes the case of sizes and types.
fn annotate(position: usize, part: &mut String, kinds: &mut Kinds, total: i64) {
    if matches(&VERSION, part) {
        kinds.version = true;
    } else if matches(&QUANT, part) {
        kinds.quant = true;
        *part = part.to_uppercase();
    } else if position > 0 && matches(&SIZE, part) {
        let mut chars: Vec<char> = part.replace('_', ".").chars().collect();
        // Bloom's notation: 7b1 is 7.1b.
        if let [.., unit, digit] = chars.as_mut_slice()
            && is_digit(*digit)
        {
            std::mem::swap(unit, digit);
            chars.insert(chars.len().saturating_sub(2), '.');
        }
        if let [.., before, 'k' | 'm' | 'b' | 't'] = chars.as_slice()
            && is_digit(*before)
            && let Some(unit) = chars.last_mut()
        {
            unit.make_ascii_uppercase();
        }
        if is_context_length(&chars, total) {
            kinds.finetune = true;
            if let Some(unit) = chars.last_mut() {
                unit.make_ascii_lowercase();
            }
        } else {
            kinds.size_label = true;
        }
        *part = chars.into_iter().collect();
    } else if position > 0 && matches(&FINETUNE, part) {
        // "lora" in the name of an adapter is redundant.
        if total < 0 && part.eq_ignore_ascii_case("lora") {
            kinds.quant = true;
        } else {
            kinds.finetune = true;
        }
    }
}

/// Whether a size (`7B`) is too far from the actual number of parameters to be one. An adapter need not cover all layers, so only a size that is
/// far too small is rejected for adapters.
fn is_context_length(size: &[char], total: i64) -> bool {
    let Some((unit, number)) = size.split_last() else { return false };
    let Ok(number) = number.iter().collect::<String>().parse::<f64>() else { return false };
    let factor = match unit {
        'K' => 1e3,
        'M' => 1e6,
        'B' => 1e9,
        'T' => 1e12,
        _ => 1e-3,
    };
    let (labelled, eighth) = (number * factor, total.unsigned_abs() / 8);
    match total {
        0 => false,
        ..0 => labelled < eighth as f64,
        _ => (labelled - total as f64).abs() > (u128::from(total.unsigned_abs()) * 7 / 8) as f64,
    }
}

/// Converts a name to a title: dashes become spaces, and lowercase words that are not versions are capitalized (`Metadata.id_to_title`).
pub(crate) fn title(name: &str) -> String {
    let words = name.split(|c: char| c == '-' || is_space(c)).filter(|w| !w.is_empty());
    let words = words.map(|word| match is_lower(word) && !matches(&NUMBER, word) {
        true => capitalized(word),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// White space as in Python, which includes four control characters that Unicode's property excludes.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Python's `str.islower`: contains cased letters, all lowercase.
fn is_lower(word: &str) -> bool {
    word.chars().any(char::is_lowercase) && !word.chars().any(is_upper_or_title)
}

fn is_upper_or_title(c: char) -> bool {
    c.is_uppercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ')
}

/// Python's `str.title` for one word: every letter that does not follow a cased letter becomes a capital.
fn capitalized(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut after_letter = false;
    for c in word.chars() {
        let cased = c.is_lowercase() || is_upper_or_title(c);
        if after_letter {
            out.extend(c.to_lowercase());
        } else {
            // The title case of a digraph has a lowercase second half.
            match c {
                'ǆ' => out.push('ǅ'),
                'ǉ' => out.push('ǈ'),
                'ǌ' => out.push('ǋ'),
                'ǳ' => out.push('ǲ'),
                _ => {
                    let mut upper = c.to_uppercase();
                    out.extend(upper.next());
                    out.extend(upper.flat_map(char::to_lowercase));
                }
            }
        }
        after_letter = cased;
    }
    out
}

/// The file name that llama.cpp's converter chooses for a model, by GGUF's naming convention: `base-size-finetune-version-type.gguf`
/// (`naming_convention` in gguf-py/gguf/utility.py). `file_type` is for example `Q8_0`; with `None`, the file has no tensors and its name
/// contains `vocab` and no size.
pub fn default_file_name(model: &ModelMetadata, file_type: Option<&str>) -> String {
    let dashed = |s: &str| s.trim_matches(is_space).replace(' ', "-");
    let mut name = match model.basename.as_deref().or(model.name.as_deref()) {
        Some(name) => dashed(name).replace('/', "-"),
        None => "ggml-model".to_owned(),
    };
    let mut append = |part: Option<String>| {
        if let Some(part) = part {
            name.push('-');
            name.push_str(&part);
        }
    };
    append(model.size_label.clone().filter(|_| file_type.is_some()));
    append(model.finetune.as_deref().map(dashed));
    append(model.version.as_deref().map(dashed));
    append(Some(file_type.map_or_else(|| "vocab".to_owned(), |t| dashed(t).to_uppercase())));
    // The reference replaces slashes only in the base name; here no part may contain path separators or invisible characters.
    let name = name.replace(is_unfit, "-");
    // Programs interpret a name that starts with a dash as an option.
    name.trim_start_matches('-').to_owned() + ".gguf"
}

/// Whether a character is invalid in a file name: path separators, and characters that are invisible or misleading when displayed.
fn is_unfit(c: char) -> bool {
    c == '/' || Str(c.encode_utf8(&mut [0; 4]).as_bytes()).to_string() != c.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(id: &str, total: i64) -> [Option<String>; 6] {
        let p = NameParts::of(id, total);
        [Some(p.name), p.organization, p.basename, p.finetune, p.version, p.size_label]
    }

    /// Name, organization, base name, fine-tune, version, size label, as gguf-py gives them; `-` for none.
    #[test]
    fn takes_names_apart_as_gguf_py_does() {
        #[rustfmt::skip]
        let cases: &[(&str, i64, [&str; 6])] = &[
            ("Mistral/Mixtral-8x7B-Instruct-v0.1", 0, ["Mixtral-8x7B-Instruct-v0.1", "Mistral", "Mixtral", "Instruct", "v0.1", "8x7B"]),
            ("Mixtral-8x7B", 0, ["Mixtral-8x7B", "-", "Mixtral", "-", "-", "8x7B"]),
            ("Mixtral", 0, ["Mixtral", "-", "-", "-", "-", "-"]),
            ("NousResearch/Meta-Llama-3-8B", 0, ["Meta-Llama-3-8B", "NousResearch", "Meta-Llama-3", "-", "-", "8B"]),
            ("Qwen2-57B-A14B-Instruct", 0, ["Qwen2-57B-A14B-Instruct", "-", "Qwen2", "Instruct", "-", "57B-A14B"]),
            ("microsoft/Phi-3-mini-4k-instruct", 4_000_000_000, ["Phi-3-mini-4k-instruct", "microsoft", "Phi-3", "4k-instruct", "-", "mini"]),
            ("delphi-suite/stories-llama2-50k", 50_000, ["stories-llama2-50k", "delphi-suite", "stories-llama2", "-", "-", "50K"]),
            ("crestf411/daybreak-kunoichi-2dpo-7b", 0, ["daybreak-kunoichi-2dpo-7b", "crestf411", "daybreak-kunoichi", "2dpo", "-", "7B"]),
            ("smallcloudai/Refact-1_6B-fim", 0, ["Refact-1_6B-fim", "smallcloudai", "Refact", "fim", "-", "1.6B"]),
            ("UCLA-AGI/Gemma-2-9B-It-SPPO-Iter3", 0, ["Gemma-2-9B-It-SPPO-Iter3", "UCLA-AGI", "Gemma-2", "It-SPPO", "Iter3", "9B"]),
            ("internlm/internlm2_5-7b-chat-1m", 7_000_000_000, ["internlm2_5-7b-chat-1m", "internlm", "internlm2_5", "chat-1m", "-", "7B"]),
            ("abacaj/llama-161M-100B", 161_000_000, ["llama-161M-100B", "abacaj", "llama", "100b", "-", "161M"]),
            ("SparseLLM/relu-100B", 1_340_000_000, ["relu-100B", "SparseLLM", "relu", "100b", "-", "-"]),
            ("bigscience/bloom-7b1-petals", 0, ["bloom-7b1-petals", "bigscience", "bloom", "petals", "-", "7.1B"]),
            ("x/GreenNode-mini-7B-multilingual-v1olet-Mistral-7B-Instruct-v0.1", 0, ["GreenNode-mini-7B-multilingual-v1olet-Mistral-7B-Instruct-v0.1", "x", "GreenNode-mini", "multilingual-v1olet-Mistral-Instruct", "v0.1", "7B"]),
            ("mistralai/Mistral-Nemo-Instruct-2407", 0, ["Mistral-Nemo-Instruct-2407", "mistralai", "Mistral-Nemo", "Instruct", "2407", "-"]),
            ("OpenGVLab/Mini-InternVL-Chat-2B-V1-5", 0, ["Mini-InternVL-Chat-2B-V1-5", "OpenGVLab", "Mini-InternVL", "Chat", "V1-5", "2B"]),
            ("microsoft/Florence-2-base", 0, ["Florence-2-base", "microsoft", "-", "-", "-", "-"]),
            ("mistralai/-Mistral--Nemo-Base-2407-", 0, ["-Mistral--Nemo-Base-2407-", "mistralai", "Mistral-Nemo-Base", "-", "2407", "-"]),
            ("Llama-3-Instruct-abliteration-LoRA-8B", 0, ["Llama-3-Instruct-abliteration-LoRA-8B", "-", "Llama-3", "Instruct-abliteration-LoRA", "-", "8B"]),
            ("Llama-3-Instruct-abliteration-LoRA-8B", -1234, ["Llama-3-Instruct-abliteration-LoRA-8B", "-", "Llama-3", "Instruct-abliteration", "-", "8B"]),
            ("./hermes-2-pro-llama-3-8b-DPO", 0, ["hermes-2-pro-llama-3-8b-DPO", "-", "hermes-2-pro-llama-3", "DPO", "-", "8B"]),
            ("a normal sentence", 0, ["a normal sentence", "-", "-", "-", "-", "-"]),
            ("", 0, ["", "-", "-", "-", "-", "-"]),
            ("llama-fp16-iq4_x_s", 0, ["llama-fp16-iq4_x_s", "-", "-", "-", "-", "-"]),
        ];
        for (id, total, expected) in cases {
            let expected = expected.map(|e| Some(e.to_owned()).filter(|e| e != "-"));
            assert_eq!(parts(id, *total), expected, "{id} with {total}");
        }
    }

    #[test]
    fn titles_are_those_of_python() {
        for (name, expected) in [
            ("Mixtral-8x7B-Instruct-v0.1", "Mixtral 8x7B Instruct v0.1"),
            ("hermes-2-pro-llama-3-8b-DPO", "Hermes 2 Pro Llama 3 8b DPO"),
            ("qwen3moe", "Qwen3Moe"),
            ("ultrachat_200k", "Ultrachat_200K"),
            ("llama-f32", "Llama F32"),
            (" a\tb--c ", "A B C"),
            ("straße ﬁne ßa it's", "Straße Fine Ssa It'S"),
            ("v1-v1.x-2nd", "v1 V1.X 2nd"),
            ("ǆaǆa", "ǅaǆa"),
            ("", ""),
        ] {
            assert_eq!(title(name), expected, "{name}");
        }
    }

    #[test]
    fn file_names_follow_the_convention() {
        let s = |s: &str| Some(s.to_owned());
        let model = ModelMetadata {
            name: s("Tiny Llama"),
            finetune: s("Chat"),
            version: s("v1.0"),
            size_label: s("150K"),
            ..ModelMetadata::default()
        };
        assert_eq!(default_file_name(&model, Some("f16")), "Tiny-Llama-150K-Chat-v1.0-F16.gguf");
        assert_eq!(default_file_name(&model, None), "Tiny-Llama-Chat-v1.0-vocab.gguf");
        let model = ModelMetadata { basename: s("a/b"), version: s("../../v"), ..model };
        assert_eq!(default_file_name(&model, Some("Q8_0")), "a-b-150K-Chat-..-..-v-Q8_0.gguf");
        for unfit in
            ["\n", "\r", "\x1b", "\0", "\u{85}", "\u{202e}", "\u{2066}", "\u{200f}", "\u{61c}", "\u{2028}", "\\"]
        {
            let model = ModelMetadata {
                basename: Some(format!("a{unfit}b")),
                finetune: Some(format!("c{unfit}d")),
                version: Some(format!("e{unfit}f")),
                size_label: Some(format!("g{unfit}h")),
                ..ModelMetadata::default()
            };
            assert_eq!(default_file_name(&model, Some("F16")), "a-b-g-h-c-d-e-f-F16.gguf", "{unfit:?}");
        }
        assert_eq!(default_file_name(&ModelMetadata::default(), Some("F16")), "ggml-model-F16.gguf");
    }
}
