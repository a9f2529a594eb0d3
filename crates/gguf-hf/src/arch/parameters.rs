//! The key-values that text models have in common, from the many spellings of their hyperparameters.
//!
//! Order and names are those of `TextModel.set_gguf_parameters` in the reference converter (`conversion/base.py`), which
//! decides the order of the keys in the file.

use gguf_format::{GgmlType, Value};
use serde_json::Value as Json;

use crate::config::{Config, Error, Fields};

/// Number of blocks of the network.
pub(super) fn n_blocks(config: &Config) -> Result<u32, Error> {
    config.fields().required_u32(&["n_layers", "num_hidden_layers", "n_layer", "num_layers"])
}

/// Collects key-values below an architecture's prefix.
pub(super) struct Parameters<'a> {
    prefix: &'static str,
    out: &'a mut Vec<(String, Value)>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(prefix: &'static str, out: &'a mut Vec<(String, Value)>) -> Parameters<'a> {
        Parameters { prefix, out }
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.out.push((format!("{}.{name}", self.prefix), value.into()));
    }

    fn set_some<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// The common key-values, `general.file_type` last.
    ///
    /// # Errors
    /// When a field that is there has no usable value, or a field that has to be there is not.
    pub(super) fn text_model(&mut self, config: &Config, rope: &Rope<'_>, ty: GgmlType) -> Result<(), Error> {
        let f = config.fields();
        self.set("block_count", n_blocks(config)?);
        let counts: &[(&str, &[&str])] = &[
            (
                "context_length",
                &[
                    "max_position_embeddings",
                    "n_ctx",
                    "n_positions",
                    "max_length",
                    "max_sequence_length",
                    "model_max_length",
                ],
            ),
            ("embedding_length", &["hidden_size", "n_embd", "dim"]),
            (
                "feed_forward_length",
                &[
                    "prefix_dense_intermediate_size",
                    "dense_intermediate_size",
                    "intermediate_size",
                    "n_inner",
                    "hidden_dim",
                ],
            ),
            ("attention.head_count", &["num_attention_heads", "n_head", "n_heads"]),
            ("attention.head_count_kv", &["num_key_value_heads", "n_kv_heads"]),
        ];
        for (key, names) in counts {
            self.set_some(key, f.u32(names)?);
        }
        if f.find(&["is_causal"]) == Some(&Json::Bool(false)) {
            self.set("attention.causal", false);
        }
        self.rope_scaling(rope)?;
        self.set_some("rope.freq_base", rope.theta()?);
        self.set_some("rope.freq_base_swa", rope.local_theta()?);
        self.set_some("attention.layer_norm_rms_epsilon", f.f32(&["rms_norm_eps", "norm_eps"])?);
        let epsilon = f.f32(&["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"])?;
        self.set_some("attention.layer_norm_epsilon", epsilon);
        if let Some(head_dim) = f.u32(&["head_dim"])? {
            self.set("attention.key_length", head_dim);
            self.set("attention.value_length", head_dim);
        }
        self.out.push(("general.file_type".to_owned(), file_type(ty).into()));
        Ok(())
    }

    fn rope_scaling(&mut self, rope: &Rope<'_>) -> Result<(), Error> {
        let (kind, factor) = (rope.kind()?, rope.scaling.f32(&["factor"])?);
        match (kind, factor) {
            (Some("linear"), Some(factor)) => {
                self.set("rope.scaling.type", "linear");
                self.set("rope.scaling.factor", factor);
            }
            (Some("yarn"), Some(factor)) => {
                self.set("rope.scaling.type", "yarn");
                self.set("rope.scaling.factor", factor);
                let original = rope.original_context()?;
                let original = original.ok_or_else(|| rope.scaling.missing(&["original_max_position_embeddings"]))?;
                self.set("rope.scaling.original_context_length", original);
                let factors: &[(&str, &[&str])] = &[
                    ("rope.scaling.yarn_ext_factor", &["extrapolation_factor"]),
                    ("rope.scaling.yarn_attn_factor", &["attention_factor", "attn_factor"]),
                    ("rope.scaling.yarn_beta_fast", &["beta_fast"]),
                    ("rope.scaling.yarn_beta_slow", &["beta_slow"]),
                ];
                for (key, names) in factors {
                    self.set_some(key, rope.scaling.f32(names)?);
                }
            }
            (Some("su" | "longrope"), _) => self.set("rope.scaling.type", "longrope"),
            _ => {}
        }
        Ok(())
    }
}

/// `general.file_type` of a file whose matrices have this type (`enum llama_ftype` in `llama.h`).
fn file_type(ty: GgmlType) -> u32 {
    match ty {
        GgmlType::F32 => 0,
        GgmlType::BF16 => 32,
        _ => 1,
    }
}

/// The rotary part of the hyperparameters: the inner object, with what newer and older files keep beside it
/// (`TextModel.__init__`).
pub(super) struct Rope<'a> {
    /// `rope_parameters`, else `rope_scaling`; of those that tell full and sliding attention apart, the part for full.
    pub(super) scaling: Fields<'a>,
    /// The part for sliding attention.
    sliding: Fields<'a>,
    /// The fields around, unless the inner object tells full and sliding attention apart.
    outer: Option<Fields<'a>>,
}

impl<'a> Rope<'a> {
    pub(super) fn new(config: &'a Config) -> Result<Rope<'a>, Error> {
        let outer = config.fields();
        let name = if outer.contains("rope_parameters") { "rope_parameters" } else { "rope_scaling" };
        let object = config.hparams().get(name);
        let inner = Fields::inner(object, name)?;
        let part = |part: &str| object.and_then(|o| o.get(part));
        let split = inner.contains("full_attention") || inner.contains("sliding_attention");
        Ok(Rope {
            scaling: match part("full_attention") {
                Some(full) => Fields::inner(Some(full), "rope_parameters.full_attention")?,
                None => inner,
            },
            sliding: Fields::inner(part("sliding_attention"), "rope_parameters.sliding_attention")?,
            outer: (!split).then_some(outer),
        })
    }

    /// The kind of scaling.
    pub(super) fn kind(&self) -> Result<Option<&'a str>, Error> {
        if self.outer.is_some() && !self.scaling.contains("rope_type") {
            return self.scaling.str(&["type"]);
        }
        self.scaling.str(&["rope_type"])
    }

    /// Base of the frequencies.
    pub(super) fn theta(&self) -> Result<Option<f32>, Error> {
        const NAMES: &[&str] =
            &["global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"];
        match self.outer {
            Some(outer) if !self.scaling.contains("rope_theta") => outer.f32(NAMES),
            _ => self.scaling.f32(&["rope_theta"]),
        }
    }

    /// Base of the frequencies in blocks with a sliding window, where that is another.
    fn local_theta(&self) -> Result<Option<f32>, Error> {
        const NAMES: &[&str] =
            &["local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"];
        match self.outer {
            Some(outer) => outer.f32(NAMES),
            None => self.sliding.f32(&["rope_theta"]),
        }
    }

    /// Context length before scaling.
    pub(super) fn original_context(&self) -> Result<Option<u32>, Error> {
        const NAMES: &[&str] = &["original_max_position_embeddings"];
        match self.outer {
            Some(outer) if !self.scaling.contains("original_max_position_embeddings") => outer.u32(NAMES),
            _ => self.scaling.u32(NAMES),
        }
    }
}
