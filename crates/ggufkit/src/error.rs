//! A single error type for programs that only need its message.

use std::error::Error as StdError;
use std::fmt;

macro_rules! errors {
    ($($doc:literal $(#[$cfg:meta])? $variant:ident($source:ty);)*) => {
        /// Any error of this crate. `?` converts the errors of all modules.
        ///
        /// The message is complete: it names the file, key or tensor, and includes the messages of its causes.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $(#[doc = $doc] $(#[$cfg])? $variant(Box<$source>),)*
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
    "The tensors do not fit the head that is written."
    Write(gguf_io::WriteError);
    "Values cannot be decoded or encoded. Feature `values`."
    #[cfg(feature = "values")]
    Codec(gguf_quants::CodecError);
    "A model cannot be planned or written. Feature `edit`."
    #[cfg(feature = "edit")]
    Pipeline(gguf_pipeline::Error);
    "A model cannot be merged, split or compared. Feature `edit`."
    #[cfg(feature = "edit")]
    Edit(gguf_edit::Error);
    "The name of a file type is unknown. Feature `quantize`."
    #[cfg(feature = "quantize")]
    FileType(gguf_quantize::mix::UnknownName);
    "A model cannot be quantized. Feature `quantize`."
    #[cfg(feature = "quantize")]
    Quantize(gguf_quantize::Error);
    "A checkpoint cannot be converted. Feature `hf`."
    #[cfg(feature = "hf")]
    Convert(gguf_hf::Error);
}
