//! Why a file cannot become a checkpoint, and what a checkpoint does not have of it.

use std::fmt;

use crate::model_plan::Mtp;

/// Why a GGUF file cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportProblem {
    /// The file does not name its architecture.
    NoArchitecture,
    /// No class of checkpoints is converted to the architecture.
    Architecture {
        /// The name of the architecture.
        name: String,
    },
    /// The tables of the architecture have no source for a tensor.
    NoRow {
        /// The tensor.
        tensor: String,
        /// The architecture.
        architecture: String,
    },
    /// The shape of a tensor does not determine those of its sources.
    Shape {
        /// The tensor.
        tensor: String,
        /// Its shape, the outermost dimension first.
        shape: Vec<u64>,
    },
    /// No configuration gives the value of a key.
    Key {
        /// The key.
        key: String,
        /// The fields of `config.json` that it is made of.
        fields: Vec<String>,
    },
    /// The configuration that was found is refused by the conversion. Holds the message.
    Refused {
        /// The class of the checkpoint.
        class: String,
        /// The message of the conversion.
        message: String,
    },
    /// A tensor does not determine the tensors that it was made of.
    NotInvertible {
        /// The tensor.
        tensor: String,
    },
    /// The conversion makes other tensors than those of the file.
    OtherTensors {
        /// The first tensor that is missing or too many.
        tensor: String,
        /// Whether the file has it.
        is_in_file: bool,
    },
    /// The tokenizer has no files.
    Tokenizer {
        /// The reason.
        reason: String,
    },
    /// The values of a tensor have a type that checkpoints do not have.
    Type {
        /// The tensor.
        tensor: String,
        /// The type.
        ty: String,
    },
    /// The folder has a tensor file that would be taken for a part of the model.
    OtherFile {
        /// The name of the file.
        file: String,
    },
    /// The base model of an adapter is not given.
    NoBase,
    /// A base model is given, but the file is not an adapter.
    NotAnAdapter,
    /// The base model of an adapter cannot be used.
    Base {
        /// The reason.
        message: String,
    },
    /// The base model has no tensor that a tensor of the adapter changes, or one of another form.
    NotInBase {
        /// The tensor of the adapter.
        tensor: String,
    },
    /// Several tensors of an adapter are parts of one module of the base model, and have different first factors or ranks.
    Factors {
        /// The tensor of the adapter.
        tensor: String,
    },
    /// The kind of file cannot be exported.
    Kind {
        /// `general.type`.
        kind: String,
    },
}

impl fmt::Display for ExportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportProblem::NoArchitecture => f.write_str("the key general.architecture is missing"),
            ExportProblem::Architecture { name } => {
                write!(f, "no class of checkpoints is known for the architecture {name:?}")
            }
            ExportProblem::NoRow { tensor, architecture } => {
                write!(f, "no tensor of a checkpoint becomes {tensor:?} in the architecture {architecture}")
            }
            ExportProblem::Shape { tensor, shape } => {
                write!(
                    f,
                    "the tensor {tensor:?} has the shape {shape:?}, from which the shapes of its sources cannot be derived"
                )
            }
            ExportProblem::Key { key, fields } => {
                write!(f, "no configuration gives the value of {key}")?;
                match fields.as_slice() {
                    [] => Ok(()),
                    fields => write!(f, ", which is computed from {}", fields.join(", ")),
                }
            }
            ExportProblem::Refused { class, message } => {
                write!(f, "a checkpoint of the class {class} would be rejected: {message}")
            }
            ExportProblem::NotInvertible { tensor } => {
                write!(f, "the tensors that {tensor:?} was made from cannot be derived from it")
            }
            ExportProblem::OtherTensors { tensor, is_in_file: true } => {
                write!(f, "the conversion of a checkpoint does not produce the tensor {tensor:?}")
            }
            ExportProblem::OtherTensors { tensor, is_in_file: false } => {
                write!(f, "the tensor {tensor:?}, which the conversion of a checkpoint produces, is missing")
            }
            ExportProblem::Tokenizer { reason } => write!(f, "the tokenizer cannot be written: {reason}"),
            ExportProblem::Type { tensor, ty } => {
                write!(f, "the tensor {tensor:?} has the type {ty}, which checkpoints do not have")
            }
            ExportProblem::OtherFile { file } => {
                write!(f, "the folder contains {file:?}, which would be taken for a part of the model; remove it")
            }
            ExportProblem::NoBase => {
                f.write_str("an adapter does not name the modules that it changes; its base model is needed")
            }
            ExportProblem::NotAnAdapter => f.write_str("a base model is given, but the file is not an adapter"),
            ExportProblem::Base { message } => write!(f, "the base model cannot be used: {message}"),
            ExportProblem::NotInBase { tensor } => {
                write!(f, "the base model has no matrix that {tensor:?} changes; does the adapter belong to it?")
            }
            ExportProblem::Factors { tensor } => {
                write!(
                    f,
                    "the tensor {tensor:?} changes a part of a module whose other parts have another rank or other first factors"
                )
            }
            ExportProblem::Kind { kind } => write!(f, "files of the type {kind:?} cannot be exported"),
        }
    }
}

impl std::error::Error for ExportProblem {}

/// A difference between a file and the conversion of its export.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportWarning {
    /// A key gets another value, or none.
    Key {
        /// The key.
        key: String,
        /// The value after a conversion; `None` if the key is missing then.
        found: Option<String>,
    },
    /// A key that the file does not have.
    NewKey {
        /// The key.
        key: String,
    },
    /// The keys or the tensors get another order.
    Order {
        /// `keys` or `tensors`.
        what: &'static str,
    },
    /// A tensor gets another type.
    TensorType {
        /// The tensor.
        tensor: String,
    },
    /// Parts of a tensor of the checkpoint are not in the file; they are zero.
    Lost {
        /// The tensor of the checkpoint.
        tensor: String,
    },
    /// Which of the MTP blocks the file has: a conversion of the folder has to ask for the same.
    Mtp {
        /// The blocks.
        mtp: Mtp,
    },
    /// A computed tensor gets other values.
    Values {
        /// The tensor.
        tensor: String,
    },
    /// The file lacks the merges of its tokenizer, which are derived from the ids of the tokens.
    Merges,
    /// The file has only the product of several tensors of the checkpoint: one of them has its values, and this one is 1.
    Factor {
        /// The tensor of the checkpoint.
        tensor: String,
    },
    /// Values are restored up to the rounding of a function.
    Rounded {
        /// The tensor of the checkpoint.
        tensor: String,
    },
}

impl fmt::Display for ExportWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportWarning::Key { key, found: Some(found) } => {
                write!(f, "a conversion of the folder gives {key} another value: {found}")
            }
            ExportWarning::Key { key, found: None } => write!(f, "a conversion of the folder does not give {key}"),
            ExportWarning::NewKey { key } => write!(f, "a conversion of the folder adds {key}"),
            ExportWarning::Order { what } => write!(f, "a conversion of the folder gives the {what} another order"),
            ExportWarning::TensorType { tensor } => {
                write!(f, "a conversion of the folder gives the tensor {tensor} another type")
            }
            ExportWarning::Lost { tensor } => write!(f, "parts of {tensor} are not in the file, and become zero"),
            ExportWarning::Mtp { mtp: Mtp::Only } => {
                f.write_str("the file has only MTP blocks: a conversion of the folder has to write these alone")
            }
            ExportWarning::Mtp { .. } => {
                f.write_str("the file has no MTP blocks: a conversion of the folder has to leave them out")
            }
            ExportWarning::Values { tensor } => {
                write!(f, "a conversion of the folder gives the tensor {tensor} other values")
            }
            ExportWarning::Merges => f.write_str(
                "the file lacks the merges of its tokenizer: those in tokenizer.json follow from the order of the tokens",
            ),
            ExportWarning::Factor { tensor } => {
                write!(f, "{tensor} is 1: the file has only its product with another tensor, which gets the product")
            }
            ExportWarning::Rounded { tensor } => write!(f, "the values of {tensor} are restored up to rounding"),
        }
    }
}
