//! `adapter_config.json`: the scales of an adapter.

use fancy_regex::Regex;
use serde_json::{Map, Value as Json};

use super::problem::AdapterProblem;
use crate::config::shortened;
use crate::number::to_f32;

/// The maximum number of tokens in an invocation sequence, and of patterns.
const MAX_ITEMS: usize = 65536;

/// The settings in `adapter_config.json` for the whole adapter and for individual matrices.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `adapter.lora.alpha`: llama.cpp multiplies the product of factors by it and divides by their rank.
    pub(super) alpha: f32,
    /// Whether the base model stores its matrices transposed (`Conv1D` of transformers).
    pub(super) is_transposed: bool,
    /// The tokens that activate the adapter.
    pub(super) invocation: Vec<u32>,
    /// Alpha in the configuration.
    own_alpha: f64,
    /// Whether alpha is divided by the square root of the rank.
    is_rank_stabilized: bool,
    /// The ratio of `alpha` to `own_alpha`.
    alpha_scale: f64,
    /// Alpha by module name pattern.
    patterns: Vec<(Regex, f64)>,
}

impl Settings {
    /// Reads the document.
    pub(super) fn new(document: &Json) -> Result<Settings, AdapterProblem> {
        let empty = Map::new();
        let field = |name: &str| document.get(name).filter(|value| !value.is_null());
        let wrong = |name: &str, found: &Json, expected| AdapterProblem::Field {
            field: name.to_owned(),
            found: shortened(found),
            expected,
        };
        if !document.is_object() {
            return Err(wrong("(the document)", document, "an object"));
        }
        if let Some(kind) = field("peft_type").filter(|kind| *kind != "LORA") {
            return Err(wrong("peft_type", kind, "\"LORA\", the only kind of adapter that llama.cpp runs"));
        }
        if field("use_dora").is_some_and(|value| *value == true) {
            return Err(AdapterProblem::Unsupported { what: "magnitudes of weights (DoRA)" });
        }
        let flag = |name: &str| match field(name) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| wrong(name, value, "true or false")),
        };
        let positive = |name: &str, value: &Json| match value.as_f64() {
            Some(x) if x > 0.0 && x.is_finite() => Ok(x),
            _ => Err(wrong(name, value, "a number greater than 0")),
        };
        let alpha = positive("lora_alpha", field("lora_alpha").unwrap_or(&Json::Null))?;
        let is_rank_stabilized = flag("use_rslora")?;
        let alpha_scale = match is_rank_stabilized {
            true => positive("r", field("r").unwrap_or(&Json::Null))?.sqrt(),
            false => 1.0,
        };
        let patterns = match field("alpha_pattern") {
            None => &empty,
            Some(Json::Object(patterns)) if patterns.len() <= MAX_ITEMS => patterns,
            Some(other) => return Err(wrong("alpha_pattern", other, "an object of names and numbers")),
        };
        let mut compiled = Vec::new();
        for (pattern, value) in patterns {
            let name = format!("alpha_pattern.{}", shortened(&Json::from(pattern.as_str())));
            let alpha = positive(&name, value)?;
            // Matched as in PEFT (`get_pattern_key` in `peft/utils/other.py`).
            let regex = Regex::new(&format!(r"^(?:.*\.)?(?:{pattern})$"));
            let regex = regex.map_err(|_| wrong(&name, value, "a name that is a regular expression"))?;
            compiled.push((regex, alpha));
        }
        let tokens = match field("alora_invocation_tokens") {
            None => &[],
            Some(Json::Array(tokens)) if tokens.len() <= MAX_ITEMS => tokens.as_slice(),
            Some(other) => return Err(wrong("alora_invocation_tokens", other, "a list of token ids")),
        };
        let id = |token: &Json| token.as_u64().and_then(|id| u32::try_from(id).ok());
        let invocation: Option<Vec<u32>> = tokens.iter().map(id).collect();
        let invocation = invocation
            .ok_or_else(|| wrong("alora_invocation_tokens", &Json::Array(tokens.to_vec()), "a list of token ids"))?;
        if let (true, Some(text)) = (invocation.is_empty(), field("invocation_string").filter(|text| *text != "")) {
            return Err(wrong("invocation_string", text, "its tokens in alora_invocation_tokens"));
        }
        Ok(Settings {
            alpha: to_f32(alpha * alpha_scale),
            is_transposed: flag("fan_in_fan_out")?,
            invocation,
            own_alpha: alpha,
            is_rank_stabilized,
            alpha_scale,
            patterns: compiled,
        })
    }

    /// The scale for the factors of a module that makes llama.cpp, which has a single alpha, compute the same as PEFT.
    pub(super) fn scale_of(&self, module: &str, rank: u64) -> f32 {
        let found = self.patterns.iter().find(|(pattern, _)| pattern.is_match(module).unwrap_or(false));
        let alpha = found.map_or(self.own_alpha, |(_, alpha)| *alpha);
        let scale = if self.is_rank_stabilized { (rank as f64).sqrt() } else { 1.0 };
        to_f32((alpha * scale) / (self.own_alpha * self.alpha_scale))
    }
}

/// Name of the file.
pub(super) const FILE: &str = "adapter_config.json";

/// The name of the base model, for a message.
pub(super) fn base_of(document: &Json) -> Option<String> {
    let name = document.get("base_model_name_or_path").and_then(Json::as_str).filter(|name| !name.is_empty());
    name.map(str::to_owned)
}
