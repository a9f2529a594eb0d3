//! A single error type for programs that only need its message.

use std::error::Error as StdError;
use std::fmt;

macro_rules! errors {
    ($($doc:literal $(#[$cfg:meta])? $variant:ident($source:ty);)*) => {
        /// Any error of this crate. `?` converts the errors of all modules.
        ///
        /// The message is complete: it names the file, key or tensor, and includes the messages of its causes. It is the `Display` form; a `main`
        /// that returns the error prints the `Debug` form.
        ///
        /// ```
        /// use ggufkit::{Error, Model};
        ///
        /// fn architecture(path: &str) -> Result<String, Error> {
        ///     let model = Model::open(path)?;
        ///     Ok(model.gguf().get_as::<&str>("general.architecture")?.to_owned())
        /// }
        /// assert_eq!(architecture("examples/tiny.gguf")?, "llama");
        /// assert!(matches!(architecture("missing.gguf"), Err(Error::Io(_))));
        /// # Ok::<(), Error>(())
        /// ```
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $(#[doc = concat!($doc, " Holds a [`", stringify!($source), "`].")] $(#[$cfg])? $variant(Box<$source>),)*
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($(#[$cfg])? Error::$variant(e) => e.fmt(f),)*
                }
            }
        }

        impl StdError for Error {
            /// The cause of the cause: the cause's own message is part of this one.
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                match self {
                    $($(#[$cfg])? Error::$variant(e) => e.source(),)*
                }
            }
        }

        $($(#[$cfg])? impl From<$source> for Error {
            fn from(e: $source) -> Error {
                Error::$variant(Box::new(e))
            }
        })*
    };
}

errors! {
    "A file or tensor cannot be opened, read or written."
    Io(gguf_io::Error);
    "The bytes of a head cannot be read as GGUF."
    Format(gguf_format::Error);
    "A key is missing or has a value of another type."
    Key(gguf_format::GetError);
    "A value has another type."
    Value(gguf_format::ValueError);
    "A head cannot be written."
    Layout(gguf_format::LayoutError);
    "The size of a tensor is unknown."
    Size(gguf_format::SizeError);
    "The byte order of a tensor's data cannot be changed."
    Swap(gguf_format::SwapError);
    "The name of a tensor type is unknown."
    TypeName(gguf_format::UnknownTypeName);
    "A number is not the number of a shard."
    ShardNumber(gguf_format::shard::NotAShardNumber);
    "An encoded value is too long for the dialect."
    TooWide(gguf_format::TooWide);
    "An alignment is invalid."
    Alignment(gguf_format::AlignmentError);
    "A part of a head is invalid; the cause in a [`Format`](Error::Format) error."
    Head(gguf_format::Problem);
    "The data of a tensor cannot be read; the cause in an [`Io`](Error::Io) error."
    Tensor(gguf_io::TensorProblem);
    "Shards do not belong together; the cause in an [`Io`](Error::Io) error."
    Shards(gguf_io::ShardsProblem);
    "Bytes cannot be viewed as numbers. Feature `bytemuck`."
    #[cfg(feature = "bytemuck")]
    Cast(gguf_format::CastError);
    "Data of a type cannot be scanned."
    Scan(gguf_format::NotScannable);
    "The tensors do not fit the head that is written."
    Write(gguf_io::WriteError);
    "The keys of a tokenizer are missing or invalid."
    Vocab(gguf_model::tokenizer::VocabError);
    "A tokenizer cannot encode text."
    Encoder(gguf_model::tokenizer::EncoderError);
    "The syntax of a formula is invalid."
    Formula(gguf_model::formula::SyntaxError);
    "Values cannot be decoded or encoded. Feature `values`."
    #[cfg(feature = "values")]
    Codec(gguf_quants::CodecError);
    "The rows of a tensor cannot be decoded or encoded. Feature `values`."
    #[cfg(feature = "values")]
    Rows(gguf_quants::RowsError);
    "The name of an instruction set is unknown. Feature `values`."
    #[cfg(feature = "values")]
    Isa(gguf_quants::UnknownIsa);
    "A model cannot be planned or written. Feature `edit`."
    #[cfg(feature = "edit")]
    Pipeline(gguf_pipeline::Error);
    "The run of a plan cannot be divided among machines, or a part cannot be made. Feature `edit`."
    #[cfg(feature = "edit")]
    Fleet(gguf_pipeline::fleet::FleetError);
    "A model cannot be merged, split or compared. Feature `edit`."
    #[cfg(feature = "edit")]
    Edit(gguf_edit::Error);
    "The head of a model cannot be edited. Feature `edit`."
    #[cfg(feature = "edit")]
    EditHead(gguf_edit::EditError);
    "The name of a file type is unknown. Feature `quantize`."
    #[cfg(feature = "quantize")]
    FileType(gguf_quantize::mix::UnknownName);
    "A model cannot be quantized. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Quantize(gguf_quantize::Error);
    "An importance matrix cannot be read or written. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Importance(gguf_quantize::imatrix::Error);
    "A recipe cannot be read. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Recipe(gguf_quantize::mix::recipe::RecipeError);
    "A pattern of tensor names is invalid. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Pattern(gguf_quantize::mix::PatternError);
    "A rule for the types of tensors is invalid. Feature `quantize`."
    #[cfg(feature = "quantize")]
    TensorType(gguf_quantize::mix::TensorTypeError);
    "A mixture cannot be applied to a model. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Mix(gguf_quantize::mix::MixError);
    "Blocks of a model cannot be left out. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Prune(gguf_quantize::PruneError);
    "A checkpoint cannot be converted. Feature `hf`."
    #[cfg(feature = "hf")]
    Convert(gguf_hf::Error);
    "A file of a checkpoint's folder cannot be read. Feature `hf`."
    #[cfg(feature = "hf")]
    Folder(gguf_hf::FolderError);
    "A configuration lacks a field, or has another type of value. Feature `hf`."
    #[cfg(feature = "hf")]
    Config(gguf_hf::config::Error);
    "The header of a safetensors file is invalid. Feature `hf`."
    #[cfg(feature = "hf")]
    Safetensors(gguf_hf::safetensors::HeaderError);
    "A PyTorch file cannot be read. Feature `hf`."
    #[cfg(feature = "hf")]
    Torch(gguf_hf::torch::TorchError);
    "The tensors of a checkpoint cannot be planned. Feature `hf`."
    #[cfg(feature = "hf")]
    Plan(gguf_hf::PlanError);
    "A LoRA adapter cannot be merged. Feature `hf`."
    #[cfg(feature = "hf")]
    Lora(gguf_hf::lora::LoraError);
    "A legacy file cannot be migrated. Feature `legacy`."
    #[cfg(feature = "legacy")]
    Legacy(gguf_legacy::Error);
    "The bytes of a legacy file are invalid. Feature `legacy`."
    #[cfg(feature = "legacy")]
    Malformed(gguf_legacy::Malformed);
    "A remote file cannot be read or written."
    #[cfg(feature = "http")] Remote(gguf_remote::Error);
    "A URL is invalid."
    #[cfg(feature = "http")] Location(gguf_remote::LocationError);
}
