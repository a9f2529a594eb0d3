//! Files of sensitivities, which `gguf sensitivity` writes and `gguf quantize` reads.

use std::collections::BTreeSet;
use std::path::Path;

use gguf_format::Str;
use gguf_format::check::shown;
use gguf_quantize::sensitivity::Sensitivities;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cmd::text_file::read_text_of;
use crate::failure::Failure;

/// Maximum size of a file. A tensor has some 150 bytes.
const MAX: u64 = 1 << 28;

/// The member that tells the format, and its value.
const FORMAT: &str = "gguf.sensitivity";

/// The measurement of one tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The name.
    pub name: String,
    /// The type that was tried.
    pub r#type: String,
    /// The mean divergence of the model in which only this tensor has that type, in nats.
    pub divergence: f64,
    /// The standard error of the divergence.
    pub divergence_error: f64,
    /// The relative error of the tensor, weighted by the importance matrix if there is one.
    pub relative_error: f64,
}

/// The measurements of a model.
#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    /// The format and its version.
    pub format: String,
    pub version: u32,
    /// What was measured: for readers. Not read here, because it may be large.
    #[serde(skip_deserializing)]
    pub about: Value,
    /// Whether relative errors are weighted by an importance matrix.
    pub has_imatrix: bool,
    /// The tensors.
    pub tensors: Vec<Measured>,
}

impl Document {
    /// The measurements in the current version of the format.
    #[cfg(feature = "engine")]
    pub fn new(about: Value, has_imatrix: bool, tensors: Vec<Measured>) -> Document {
        Document { format: FORMAT.to_owned(), version: 1, about, has_imatrix, tensors }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not such a file.
    pub fn read(path: &Path) -> Result<Document, Failure> {
        let text = read_text_of(path, MAX, "a file of gguf sensitivity")?;
        let wrong = |problem: &str| {
            let message = format!("{}: not a file of sensitivities: {problem}", path.display());
            Failure::Bad(message).with_help(Some("`gguf sensitivity` writes one".to_owned()))
        };
        let document: Document = serde_json::from_str(&text).map_err(|e| wrong(&e.to_string()))?;
        if document.format != FORMAT {
            return Err(wrong(&format!("expected the format {FORMAT}, found {:?}", document.format)));
        }
        if document.version != 1 {
            return Err(wrong(&format!("expected version 1, found {}", document.version)));
        }
        let mut names = BTreeSet::new();
        for (i, tensor) in document.tensors.iter().enumerate() {
            let name = shown(Str(tensor.name.as_bytes()));
            let fields = [
                ("divergence", tensor.divergence),
                ("divergence_error", tensor.divergence_error),
                ("relative_error", tensor.relative_error),
            ];
            if let Some((field, value)) = fields.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
                return Err(wrong(&format!("tensors[{i}].{field}, of {name}: expected at least 0, found {value}")));
            }
            if !names.insert(&tensor.name) {
                return Err(wrong(&format!("tensors[{i}].name: {name} is a duplicate")));
            }
        }
        if document.sensitivities().is_empty() {
            return Err(wrong("no tensor has a divergence"));
        }
        Ok(document)
    }

    /// The sensitivities.
    pub fn sensitivities(&self) -> Sensitivities {
        let mut all = Sensitivities::default();
        for tensor in &self.tensors {
            all.add(tensor.name.as_bytes(), tensor.divergence, tensor.relative_error);
        }
        all
    }
}
