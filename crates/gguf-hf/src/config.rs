//! Typed access to the hyperparameters of a Hugging Face checkpoint.
//!
//! The reference converter does not use `config.json` directly but the configuration that transformers builds from it: the class for the
//! `model_type` fills in missing defaults and derives fields from other fields. Both affect the output, so they are applied here
//! ([`Config::new`]; the module `autoconfig` holds the classes of transformers 4.57). If a `model_type` has no class, or its class rejects
//! the document, the file is used unchanged, as in the reference. Then the fields of a nested text model are lifted to the root.
//!
//! Many hyperparameters have several spellings. A lookup tries the names in order and stops at the first that is *present*; if its value is
//! `null`, the result is `None` (`ModelBase.find_hparam`).

use serde_json::{Map, Value, json};

use crate::autoconfig;
pub use crate::config_error::Error;
pub(crate) use crate::config_error::shortened;
use crate::facts::Facts;

/// A checkpoint's hyperparameters.
///
/// ```
/// use gguf_hf::config::Config;
/// use serde_json::json;
///
/// let config = Config::new(json!({
///     "architectures": ["LlamaForCausalLM"],
///     "model_type": "llama",
///     "hidden_size": 64,
///     "num_attention_heads": 4,
/// }))?;
/// assert_eq!(config.architecture()?, "LlamaForCausalLM");
/// assert_eq!(config.fields().u32(&["n_embd", "hidden_size"])?, Some(64));
/// // A default of the class.
/// assert_eq!(config.fields().u32(&["num_key_value_heads"])?, Some(4));
/// # Ok::<(), gguf_hf::config::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    fields: Value,
    facts: Facts,
    architecture: Result<String, Error>,
}

impl Config {
    /// Takes the parsed `config.json` and fills in the defaults of its class.
    ///
    /// # Errors
    /// [`Error::NotAnObject`], and [`Error::Invalid`] if other fields cannot be derived from a field's value.
    pub fn new(document: Value) -> Result<Config, Error> {
        Config::from_fields(filled(document)?)
    }

    /// Like [`new`](Config::new), for image and audio encoders: nothing is lifted to the root, and the class is that of the image encoder
    /// if it has one.
    ///
    /// # Errors
    /// As [`new`](Config::new).
    pub fn tower(document: Value) -> Result<Config, Error> {
        let fields = filled(document)?;
        let first = |object: Option<&Value>| Some(object?.get("architectures")?.get(0)?.as_str()?.to_owned());
        let own = fields.get("architectures").and_then(|list| list.get(0)?.as_str().map(str::to_owned));
        let class = first(fields.get("vision_config")).or(own);
        let architecture = class.ok_or_else(|| Error::Missing(vec!["architectures".to_owned()]));
        Ok(Config { fields: Value::Object(fields), facts: Facts::default(), architecture })
    }

    /// Takes the parsed `config.json` unchanged, without defaults. Some architectures require this.
    ///
    /// # Errors
    /// [`Error::NotAnObject`], and [`Error::Invalid`] if the nested text model is not an object.
    pub fn raw(document: Value) -> Result<Config, Error> {
        match document {
            Value::Object(fields) => Config::from_fields(fields),
            _ => Err(Error::NotAnObject),
        }
    }

    /// Lifts the fields of the nested text model to the root, where they take precedence.
    fn from_fields(mut fields: Map<String, Value>) -> Result<Config, Error> {
        let architecture = architecture(&fields);
        match fields.get(TEXT) {
            None => {}
            Some(Value::Object(inner)) => {
                let inner = inner.clone();
                fields.extend(inner);
            }
            Some(other) => return Err(Error::invalid(TEXT, other, "an object")),
        }
        // Derived values are checked here, given values when they are read.
        if let Some(dim) = fields.get("head_dim").and_then(Value::as_u64)
            && dim > u64::from(MAX_HEAD_DIM)
        {
            head_dim(Fields::new(&fields))?;
        }
        Ok(Config { fields: Value::Object(fields), facts: Facts::default(), architecture })
    }

    /// All fields, including defaults, as a JSON object.
    pub fn hparams(&self) -> &Value {
        &self.fields
    }

    /// What the conversion knows beside the fields.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// The fields, for lookups.
    pub fn fields(&self) -> Fields<'_> {
        Fields { object: self.fields.as_object() }
    }

    /// The class of the saved model: the first entry of `architectures`, or of the nested text model's `architectures` if it has them.
    ///
    /// # Errors
    /// If the field is missing or is not a list that starts with a string.
    pub fn architecture(&self) -> Result<&str, Error> {
        self.architecture.as_deref().map_err(Error::clone)
    }
}

/// The fields of a document with the defaults of its class, and with the nested text model under its usual name.
fn filled(document: Value) -> Result<Map<String, Value>, Error> {
    let Value::Object(document) = document else { return Err(Error::NotAnObject) };
    let mut fields = match autoconfig::apply(&document)? {
        Some(fields) => fields,
        None => document,
    };
    // Other names of the nested text model; the last one wins.
    for (name, inner) in [
        ("llm_config", None),
        ("lm_config", None),
        ("thinker_config", Some(TEXT)),
        ("language_config", None),
        ("lfm", None),
        ("transformer_layer_config", None),
    ] {
        let Some(mut found) = fields.get(name) else { continue };
        if let Some(inner) = inner {
            let none = || Error::Missing(vec![format!("{name}.{inner}")]);
            found = found.get(inner).ok_or_else(none)?;
        }
        fields.insert(TEXT.to_owned(), found.clone());
    }
    Ok(fields)
}

/// The field of the nested text model.
const TEXT: &str = "text_config";

/// Classes of whole models that differ from the nested text model by more than the name.
const WHOLE: [&str; 7] = [
    "StepVLForConditionalGeneration",
    "Sarashina2VisionForCausalLM",
    "Exaone4_5_ForConditionalGeneration",
    "Step3p7ForConditionalGeneration",
    "KimiK3ForConditionalGeneration",
    "Eagle3Speculator",
    "DSparkSpeculator",
];

/// The class of a model, determined before the fields of the text model are lifted.
fn architecture(fields: &Map<String, Value>) -> Result<String, Error> {
    const FIELD: &str = "architectures";
    let first = |list: &Value, field: String| {
        let name = list.get(0).and_then(Value::as_str).map(str::to_owned);
        name.ok_or_else(|| Error::invalid(field, list, "a list that starts with the name of a model class"))
    };
    let own = fields.get(FIELD).filter(|list| !list.is_null() && list.as_array().is_none_or(|list| !list.is_empty()));
    let own = own.map(|list| first(list, FIELD.to_owned())).transpose()?;
    if let Some(own) = own.as_ref().filter(|own| WHOLE.contains(&own.as_str())) {
        return Ok(own.clone());
    }
    if let Some(list) = fields.get(TEXT).and_then(|text| text.get(FIELD)).filter(|list| !list.is_null()) {
        return first(list, format!("{TEXT}.{FIELD}"));
    }
    match (own, fields.get("ssm_cfg")) {
        (Some(own), _) => Ok(own),
        // Models in the format of the mamba_ssm package.
        (None, Some(Value::Object(ssm))) => {
            Ok(format!("{}ForCausalLM", ssm.get("layer").and_then(Value::as_str).unwrap_or("Mamba")))
        }
        (None, _) => match fields.get(FIELD) {
            Some(list) if !list.is_null() => first(list, FIELD.to_owned()),
            _ => Err(Error::Missing(vec![FIELD.to_owned()])),
        },
    }
}

/// The maximum number of elements of an attention head; existing models have up to a few hundred. The size of computed tensors depends on
/// it.
const MAX_HEAD_DIM: u32 = 65536;

/// The number of elements of one attention head: `head_dim`, or the hidden size divided by the number of heads.
///
/// # Errors
/// If the fields determine neither, or if the result exceeds [`MAX_HEAD_DIM`].
pub(crate) fn head_dim(fields: Fields<'_>) -> Result<u32, Error> {
    let (field, found, dim) = match fields.u32(&["head_dim"])? {
        Some(dim) => ("head_dim", dim, dim),
        None => {
            let hidden = fields.required_u32(&["hidden_size"])?;
            let heads = fields.required_u32(&["num_attention_heads"])?;
            let none = || Error::invalid("num_attention_heads", &json!(heads), "at least one head");
            ("hidden_size", hidden, hidden.checked_div(heads).ok_or_else(none)?)
        }
    };
    match dim <= MAX_HEAD_DIM {
        true => Ok(dim),
        false => Err(Error::invalid(field, &json!(found), "at most 65536 elements in an attention head")),
    }
}

/// A view of one object of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    object: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    fn new(object: &'a Map<String, Value>) -> Fields<'a> {
        Fields { object: Some(object) }
    }

    /// Whether a field of this name exists, including with the value `null`.
    pub fn contains(self, name: &str) -> bool {
        self.object.is_some_and(|o| o.contains_key(name))
    }

    /// The value of the first name that is present; `None` if no name is present or the value is `null`.
    pub fn find(self, names: &[&str]) -> Option<&'a Value> {
        self.find_named(names).map(|(_, value)| value)
    }

    fn find_named(self, names: &[&str]) -> Option<(String, &'a Value)> {
        let object = self.object?;
        let (name, value) = names.iter().find_map(|name| Some((*name, object.get(*name)?)))?;
        (!value.is_null()).then(|| (name.to_owned(), value))
    }

    fn typed<T>(
        self,
        names: &[&str],
        expected: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.find_named(names) {
            None => Ok(None),
            Some((name, value)) => match convert(value) {
                Some(v) => Ok(Some(v)),
                None => Err(Error::invalid(name, value, expected)),
            },
        }
    }

    /// An unsigned integer. A float with an integral value is accepted.
    ///
    /// # Errors
    /// If the value has another type or does not fit 32 bits.
    pub fn u32(self, names: &[&str]) -> Result<Option<u32>, Error> {
        self.typed(names, "a whole number that fits 32 bits", |value| match value.as_u64() {
            Some(n) => u32::try_from(n).ok(),
            None => value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..4_294_967_296.0).contains(x)).map(|x| x as u32),
        })
    }

    /// A required unsigned integer.
    ///
    /// # Errors
    /// As for [`Fields::u32`], and if the value is missing or `null`.
    pub fn required_u32(self, names: &[&str]) -> Result<u32, Error> {
        self.u32(names)?.ok_or_else(|| self.missing(names))
    }

    /// A number, rounded to the nearest single-precision value.
    ///
    /// # Errors
    /// If the value is not a number or is out of range for single precision.
    pub fn f32(self, names: &[&str]) -> Result<Option<f32>, Error> {
        self.typed(names, "a number that fits single precision", |value| {
            value.as_f64().map(|x| x as f32).filter(|x| x.is_finite())
        })
    }

    /// A string.
    ///
    /// # Errors
    /// If the value is not a string.
    pub fn str(self, names: &[&str]) -> Result<Option<&'a str>, Error> {
        self.typed(names, "a string", Value::as_str)
    }

    pub(crate) fn missing(&self, names: &[&str]) -> Error {
        Error::Missing(names.iter().map(|name| (*name).to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;

    fn config(document: Value) -> Config {
        Config::new(document).unwrap()
    }

    #[test]
    fn a_document_cannot_set_what_a_conversion_derives() {
        let dir = tempfile::tempdir().unwrap();
        gguf_test::checkpoint::write_llama(dir.path());
        let path = dir.path().join("config.json");
        let document = std::fs::read_to_string(&path).unwrap();
        let converted = |document: &str| {
            std::fs::write(&path, document).unwrap();
            let planned =
                crate::plan(dir.path(), &crate::Options::default()).unwrap_or_else(|e| panic!("{document}: {e}"));
            let mut sink = gguf_pipeline::MemorySink::new();
            planned.plan.run_to(&mut sink, &Default::default(), &()).unwrap();
            sink.into_outputs()
        };
        let expected = converted(&document);
        let facts = Fact::ALL.iter().map(|fact| fact.name());
        let tables = crate::arch::supported().map(|(_, table)| table).chain(crate::arch::supported_towers());
        let of_tensors = |table: &'static gguf_model::arch::Checkpoint| {
            [table.facts.peeked, table.facts.present, table.facts.row_lens, table.facts.row_counts]
                .into_iter()
                .flatten()
                .map(|(name, _)| *name)
        };
        let names: std::collections::BTreeSet<&str> = facts.chain(tables.flat_map(of_tensors)).collect();
        assert!(names.contains("mtp") && names.contains("n_positions"), "{names:?}");
        let values = [
            json!("left_out"),
            json!("only"),
            json!(true),
            json!(0),
            json!([1]),
            json!({"rows": 1, "tokens": 1, "h": 1}),
        ];
        for name in names.into_iter().flat_map(|name| [name.to_owned(), format!("@{name}")]) {
            for value in &values {
                let with = document.replacen('{', &format!("{{{name:?}: {value},"), 1);
                assert!(converted(&with) == expected, "{name}: {value}");
            }
        }
    }

    #[test]
    fn a_sparse_llama_gets_the_defaults_of_its_class() {
        let c = config(json!({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 768}));
        let cases = [
            ("max_position_embeddings", 2048),
            ("num_key_value_heads", 4),
            ("head_dim", 16),
            ("intermediate_size", 11008),
            ("vocab_size", 768),
        ];
        for (name, expected) in cases {
            assert_eq!(c.fields().u32(&[name]), Ok(Some(expected)), "{name}");
        }
        assert_eq!(c.fields().f32(&["rms_norm_eps"]), Ok(Some(1e-6)));
    }

    #[test]
    fn mistral_keeps_its_own_defaults_and_no_head_dim() {
        let c = config(json!({"model_type": "mistral"}));
        assert_eq!(c.fields().u32(&["num_key_value_heads"]), Ok(Some(8)));
        assert_eq!(c.fields().u32(&["head_dim"]), Ok(None));
        assert_eq!(head_dim(c.fields()), Ok(128));
        let c = config(json!({"model_type": "mistral", "num_key_value_heads": null}));
        assert_eq!(c.fields().u32(&["num_key_value_heads"]), Ok(Some(32)));
    }

    #[test]
    fn heads_have_a_sensible_length() {
        for (kind, field, found) in [
            ("llama", "head_dim", 4_294_967_294u32),
            ("llama", "head_dim", 65537),
            ("mistral", "head_dim", 1_000_000_000),
            ("mistral", "hidden_size", 4_000_000_000),
        ] {
            let document = json!({"model_type": kind, field: found});
            let error = Config::new(document).and_then(|c| head_dim(c.fields())).unwrap_err().to_string();
            let expected = format!("the field {field} is {found}, expected at most {MAX_HEAD_DIM} elements");
            assert!(error.starts_with(&expected), "{error}");
        }
        let c = config(json!({"model_type": "llama", "head_dim": MAX_HEAD_DIM}));
        assert_eq!(head_dim(c.fields()), Ok(MAX_HEAD_DIM));
        assert!(Config::new(json!({"model_type": "llama", "hidden_size": 4_000_000_000u32})).is_err());
    }

    #[test]
    fn an_unknown_class_gets_no_defaults() {
        let document = json!({"model_type": "else", "hidden_size": 3});
        assert_eq!(config(document.clone()).hparams(), &document);
        assert_eq!(Config::new(json!([1])), Err(Error::NotAnObject));
    }

    #[test]
    fn the_older_spelling_of_the_rope_type_wins_in_llama() {
        let c = config(
            json!({"model_type": "llama", "rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}}),
        );
        assert_eq!(c.hparams()["rope_scaling"]["rope_type"], "linear");
    }

    #[test]
    fn a_document_that_its_class_refuses_is_taken_as_it_is() {
        for field in [json!({"rope_scaling": {"type": "linear"}}), json!({"torch_dtype": "auto"})] {
            let mut document = json!({"model_type": "llama"});
            document.as_object_mut().unwrap().extend(field.as_object().unwrap().clone());
            assert_eq!(config(document.clone()).hparams(), &document);
        }
    }

    #[test]
    fn a_text_model_inside_is_lifted() {
        let document = json!({
            "architectures": ["Whole"], "hidden_size": 1, "llm_config": {"hidden_size": 2},
            "thinker_config": {"text_config": {"hidden_size": 3}},
        });
        let c = config(document.clone());
        assert_eq!((&c.hparams()["hidden_size"], c.architecture()), (&json!(3), Ok("Whole")));
        let c = Config::raw(document).unwrap();
        assert_eq!(c.hparams()["hidden_size"], 1);
        for (document, expected) in [
            (json!({"thinker_config": {}}), "the field thinker_config.text_config is missing"),
            (json!({"lm_config": null}), "the field text_config is null, expected an object"),
        ] {
            assert_eq!(Config::new(document).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_architecture_is_that_of_the_text_model() {
        let nested =
            |whole: &str, text: Value| json!({"architectures": [whole], "text_config": {"architectures": text}});
        for (document, expected) in [
            (nested("Whole", json!(["Text"])), Some("Text")),
            (nested("Whole", json!(null)), Some("Whole")),
            (nested("KimiK3ForConditionalGeneration", json!(["Text"])), Some("KimiK3ForConditionalGeneration")),
            (json!({"model_type": "llava", "architectures": ["Llava"], "text_config": {}}), Some("Llava")),
            (json!({"ssm_cfg": {"layer": "Mamba2"}}), Some("Mamba2ForCausalLM")),
            (json!({"ssm_cfg": {}, "architectures": []}), Some("MambaForCausalLM")),
            (nested("Whole", json!([3])), None),
            (json!({"architectures": []}), None),
            (json!({}), None),
        ] {
            assert_eq!(config(document.clone()).architecture().ok(), expected, "{document}");
        }
    }

    #[test]
    fn the_first_name_present_decides_also_when_it_is_null() {
        let c = config(json!({"b": null, "c": 7}));
        assert_eq!(c.fields().u32(&["a", "c"]), Ok(Some(7)));
        assert_eq!(c.fields().u32(&["a", "b", "c"]), Ok(None));
        assert!(matches!(c.fields().required_u32(&["b", "c"]), Err(Error::Missing(_))));
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let c = config(json!({"a": -1, "b": 4294967296u64, "c": 2.5, "d": "8", "e": true, "f": 2048.0, "g": 1e39}));
        for name in ["a", "b", "c", "d", "e"] {
            let error = c.fields().u32(&[name]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the field {name} is ")), "{error}");
        }
        assert_eq!(c.fields().u32(&["f"]), Ok(Some(2048)));
        assert!(c.fields().f32(&["g"]).is_err());
        assert!(Config::new(json!({"model_type": "llama", "num_attention_heads": 0})).is_err());
    }
}
