//! The quantization options.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::{GgmlType, Value};
use gguf_pipeline::fleet::MatrixFile;
use gguf_quantize::QuantizeOptions;
use gguf_quantize::imatrix::{self, ImatrixFile};
use gguf_quantize::mix::{TensorTypeRule, parse_tensor_type};
use gguf_remote::Location;

use super::super::fleet;
use super::super::text_file::read_text_of;
use crate::failure::Failure;
use crate::open;

/// The options of quantization, for every kind of source.
#[derive(Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Quantization")]
pub struct Options {
    /// Use the base type for every tensor; no mixing
    #[arg(long)]
    pure: bool,

    /// Do not quantize output.weight
    #[arg(long)]
    leave_output_tensor: bool,

    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = parse_tensor_type)]
    output_tensor_type: Option<GgmlType>,

    /// Type of the token embeddings
    #[arg(long, value_name = "TYPE", value_parser = parse_tensor_type)]
    token_embedding_type: Option<GgmlType>,

    /// Type of the tensors whose names match the regular expression; the first match takes precedence; repeatable
    #[arg(long, value_name = "REGEX=TYPE", value_parser = TensorTypeRule::parse)]
    tensor_type: Vec<TensorTypeRule>,

    /// File with REGEX=TYPE pairs, separated by white space
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,

    /// Importance matrix (GGUF or .dat) that weights each column's quantization error
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Use only matrix entries whose names contain TEXT; repeatable
    #[arg(long, value_name = "TEXT", requires = "imatrix")]
    include_weights: Vec<String>,

    /// Ignore matrix entries whose names contain TEXT; repeatable
    #[arg(long, value_name = "TEXT", requires = "imatrix", conflicts_with = "include_weights")]
    exclude_weights: Vec<String>,

    /// Override a metadata key of the output: KEY=int:N, KEY=float:X, KEY=bool:true or KEY=str:TEXT; repeatable
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = override_kv)]
    override_kv: Vec<(String, Value)>,

    /// With --override-kv, allow values of types that llama.cpp does not expect for the key
    #[arg(long, requires = "override_kv")]
    allow_type_change: bool,

    /// Remove these blocks and renumber the remaining ones
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    prune_layers: Vec<u64>,

    /// Record the origin in the keys ggufkit.version, ggufkit.quantize.source and ggufkit.quantize.target
    #[arg(long)]
    provenance: bool,
}

impl Options {
    /// Whether any option differs from its default.
    pub fn are_given(&self) -> bool {
        *self != Options::default()
    }

    /// Opens the importance matrix, if any, and selects the entries to use.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn matrix(&self) -> Result<Option<Arc<ImatrixFile>>, Failure> {
        let matrix = self.imatrix.as_deref().map(open::matrix).transpose()?;
        Ok(matrix.map(|mut matrix| {
            matrix.select(&self.include_weights, &self.exclude_weights);
            Arc::new(matrix)
        }))
    }

    /// The importance matrix, if any, for a plan that many machines execute.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn matrix_file(&self) -> Result<Option<MatrixFile>, Failure> {
        let path = self.imatrix.as_deref();
        path.map(|path| fleet::matrix_file(path, &self.include_weights, &self.exclude_weights)).transpose()
    }

    /// Whether there is an importance matrix.
    pub fn has_matrix(&self) -> bool {
        self.imatrix.is_some()
    }

    /// Converts the options for the quantizer. `target` is the requested file type or size.
    ///
    /// # Errors
    /// If the file of tensor types cannot be read.
    pub fn with(
        &self,
        source: &Path,
        target: &dyn Display,
        matrix: Option<&ImatrixFile>,
    ) -> Result<QuantizeOptions, Failure> {
        let mut tensor_types = self.tensor_type.clone();
        if let Some(path) = &self.tensor_type_file {
            let fail = |e: String| Failure::CouldNotRun(format!("{}: {e}", path.display()));
            let text = read_text(path)?;
            tensor_types.extend(TensorTypeRule::parse_list(&text).map_err(|e| fail(e.to_string()))?);
        }
        let noted = matrix.zip(self.imatrix.as_ref());
        let mut provenance =
            noted.map_or(Vec::new(), |(matrix, path)| imatrix::provenance(&path.to_string_lossy(), matrix));
        if self.provenance {
            // Only the file name: the full path describes the machine, not the model.
            let name = match Location::of_path(source) {
                Some(location) => location.ok().map(|location| location.file_name()),
                None => {
                    source.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
                }
            };
            provenance.push(("ggufkit.version", env!("CARGO_PKG_VERSION").into()));
            provenance.push(("ggufkit.quantize.source", name.unwrap_or_default().as_str().into()));
            provenance.push(("ggufkit.quantize.target", target.to_string().as_str().into()));
        }
        let mut options = QuantizeOptions::default();
        options.mix.pure = self.pure;
        options.mix.leave_output_tensor = self.leave_output_tensor;
        options.mix.output_tensor_type = self.output_tensor_type;
        options.mix.token_embedding_type = self.token_embedding_type;
        options.mix.tensor_types = tensor_types;
        options.prune_layers.clone_from(&self.prune_layers);
        options.overrides.clone_from(&self.override_kv);
        options.allow_other_types = self.allow_type_change;
        options.provenance = provenance;
        Ok(options)
    }

    /// The input files except the matrix. No output may replace them.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.tensor_type_file.iter().cloned()
    }
}

/// Maximum size of a file of rules.
const MAX_TEXT: u64 = 1 << 20;

/// Reads a file of rules, or standard input for `-`. A byte order mark is ignored.
///
/// # Errors
/// If the file cannot be read, is too long, or is not text.
pub fn read_text(path: &Path) -> Result<String, Failure> {
    read_text_of(path, MAX_TEXT, "a file of rules")
}

/// Parses `KEY=TYPE:VALUE`. Integers become u32, as in llama.cpp.
fn override_kv(text: &str) -> Result<(String, Value), String> {
    let (key, rest) = text.split_once('=').ok_or("expected KEY=TYPE:VALUE")?;
    let (ty, value) = rest.split_once(':').ok_or("expected KEY=TYPE:VALUE")?;
    let wrong = |what: &str| format!("{value:?} is not {what}");
    let value: Value = match ty {
        "int" => value.parse::<u32>().map_err(|_| wrong("a whole number from 0 to 4294967295"))?.into(),
        "float" => value.parse::<f32>().map_err(|_| wrong("a number"))?.into(),
        "bool" => value.parse::<bool>().map_err(|_| wrong("`true` or `false`"))?.into(),
        "str" => value.into(),
        _ => return Err(format!("unknown type {ty:?}; expected int, float, bool or str")),
    };
    Ok((key.to_owned(), value))
}
