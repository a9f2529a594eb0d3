//! The options about how tensors are quantized.

use std::path::{Path, PathBuf};

use gguf_arch::mix::{MixOptions, Target, TensorTypeRule, parse_tensor_type};
use gguf_convert::imatrix::{self, ImatrixFile};
use gguf_convert::quantize::QuantizeOptions;
use gguf_format::{GgmlType, Value};

use crate::failure::Failure;

/// The options under which models are quantized, whatever they are made from.
#[derive(Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Quantization")]
pub struct Options {
    /// Give every tensor the file type's own type, without the mixture
    #[arg(long)]
    pure: bool,

    /// Leave output.weight as it is
    #[arg(long)]
    leave_output_tensor: bool,

    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = parse_tensor_type)]
    output_tensor_type: Option<GgmlType>,

    /// Type of the token embeddings
    #[arg(long, value_name = "TYPE", value_parser = parse_tensor_type)]
    token_embedding_type: Option<GgmlType>,

    /// Type of the tensors whose names the regular expression is found in; the first that fits is taken
    #[arg(long, value_name = "REGEX=TYPE", value_parser = TensorTypeRule::parse)]
    tensor_type: Vec<TensorTypeRule>,

    /// A file of such pairs, set apart by white space
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,

    /// An importance matrix, in GGUF or .dat form: what the errors of each column count
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Of the matrix, use only the entries whose names contain this
    #[arg(long, value_name = "TEXT", requires = "imatrix")]
    include_weights: Vec<String>,

    /// Of the matrix, leave out the entries whose names contain this
    #[arg(long, value_name = "TEXT", requires = "imatrix", conflicts_with = "include_weights")]
    exclude_weights: Vec<String>,

    /// Set a key of the output: KEY=int:N, KEY=float:X, KEY=bool:true or KEY=str:TEXT
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = override_kv)]
    override_kv: Vec<(String, Value)>,

    /// Leave out the blocks of these numbers; those that stay are counted anew
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    prune_layers: Vec<u64>,

    /// Note in the file what it was made from: ggufkit.version, ggufkit.quantize.source and ggufkit.quantize.target
    #[arg(long)]
    provenance: bool,
}

impl Options {
    /// Whether any of them is given.
    pub fn are_given(&self) -> bool {
        *self != Options::default()
    }

    /// Opens the importance matrix, if there is one, with the entries that are to be used.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn matrix(&self) -> Result<Option<ImatrixFile>, Failure> {
        let matrix = self.imatrix.as_ref().map(ImatrixFile::open).transpose().map_err(gguf_convert::Error::from)?;
        Ok(matrix.map(|mut matrix| {
            matrix.select(&self.include_weights, &self.exclude_weights);
            matrix
        }))
    }

    /// What they ask for, with the defaults of everything else.
    ///
    /// # Errors
    /// When the file of tensor types cannot be read.
    pub fn with(
        &self,
        source: &Path,
        target: Target,
        matrix: Option<&ImatrixFile>,
    ) -> Result<QuantizeOptions, Failure> {
        let mut tensor_types = self.tensor_type.clone();
        if let Some(path) = &self.tensor_type_file {
            let fail = |e: String| Failure::CouldNotRun(format!("{}: {e}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|e| fail(format!("cannot read: {e}")))?;
            tensor_types.extend(TensorTypeRule::parse_list(&text).map_err(|e| fail(e.to_string()))?);
        }
        let noted = matrix.zip(self.imatrix.as_ref());
        let mut provenance =
            noted.map_or(Vec::new(), |(matrix, path)| imatrix::provenance(&path.to_string_lossy(), matrix));
        if self.provenance {
            // Not the whole path: it says more of the machine than of the model.
            let name =
                source.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
            provenance.push(("ggufkit.version", env!("CARGO_PKG_VERSION").into()));
            provenance.push(("ggufkit.quantize.source", name.unwrap_or_default().as_str().into()));
            provenance.push(("ggufkit.quantize.target", target.to_string().as_str().into()));
        }
        Ok(QuantizeOptions {
            target,
            mix: MixOptions {
                pure: self.pure,
                leave_output_tensor: self.leave_output_tensor,
                output_tensor_type: self.output_tensor_type,
                token_embedding_type: self.token_embedding_type,
                tensor_types,
                ..MixOptions::default()
            },
            allow_requantize: false,
            prune_layers: self.prune_layers.clone(),
            keep_split: false,
            overrides: self.override_kv.clone(),
            provenance,
            threads: None,
            force: false,
            resume: false,
        })
    }
}

/// Reads `KEY=TYPE:VALUE`; integers become u32, as in llama.cpp.
fn override_kv(text: &str) -> Result<(String, Value), String> {
    let (key, rest) = text.split_once('=').ok_or("expected KEY=TYPE:VALUE")?;
    let (ty, value) = rest.split_once(':').ok_or("expected KEY=TYPE:VALUE")?;
    let wrong = |what: &str| format!("{value:?} is no {what}");
    let value: Value = match ty {
        "int" => value.parse::<u32>().map_err(|_| wrong("whole number of 32 bits"))?.into(),
        "float" => value.parse::<f32>().map_err(|_| wrong("number"))?.into(),
        "bool" => value.parse::<bool>().map_err(|_| wrong("`true` or `false`"))?.into(),
        "str" => value.into(),
        _ => return Err(format!("{ty:?} is no type here; there are int, float, bool and str")),
    };
    Ok((key.to_owned(), value))
}
