//! The options of a conversion.

use std::path::PathBuf;
use std::sync::Arc;

use gguf_format::ByteOrder;

use crate::folder::Folder;
use crate::model_plan::{Mtp, OutType};

/// Conversion options.
///
/// ```
/// use gguf_format::ByteOrder;
/// use gguf_hf::{Options, OutType};
///
/// let options = Options::default().ty(OutType::BF16).order(ByteOrder::Big).name(Some("My Model".into()));
/// assert_eq!(options.name.as_deref(), Some("My Model"));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Type of the matrices.
    pub ty: OutType,
    /// The model's name; overrides the name found in the folder's files.
    pub name: Option<String>,
    /// A JSON file of metadata that overrides the folder's metadata; see [`MetadataOptions::metadata`](crate::metadata::MetadataOptions::metadata).
    pub metadata: Option<PathBuf>,
    /// Name of the pre-tokenizer of a BPE vocabulary; `None` to detect it.
    pub pre: Option<String>,
    /// Byte order of the output.
    pub order: ByteOrder,
    /// Whether to write only metadata and tokenizer, without tensors.
    pub vocab_only: bool,
    /// How to handle the multi-token prediction blocks.
    pub mtp: Mtp,
    /// Whether to convert the image and audio encoders instead of the language model.
    pub projector: bool,
    /// For an adapter, the folder with the `config.json` of its base model; `None` for the adapter's folder.
    pub base: Option<Arc<dyn Folder>>,
    /// For a draft model, the folder of its target model.
    pub target: Option<Arc<dyn Folder>>,
    /// Whether to fuse queries, keys and values into one tensor per block, if llama.cpp supports it.
    pub fuse_qkv: bool,
    /// Whether to fuse the gate and up matrices of all experts into one tensor per block.
    pub fuse_gate_up_experts: bool,
    /// Whether to write matrices decoded from FP8 as Q8_0, unless the type is [`OutType::Lossless`].
    pub fp8_as_q8: bool,
    /// Whether to write the dense layers after the pooling, which are modules of sentence-transformers.
    pub dense_modules: bool,
    /// Whether to read Mistral's native layout (`params.json` and `consolidated*.safetensors`) even if there is a `config.json`. Without
    /// `config.json`, the layout is detected.
    pub mistral_format: bool,
    /// Whether to omit the chat template that a checkpoint in Mistral's native layout gets based on its tokenizer version.
    pub no_community_template: bool,
}

impl Options {
    /// Sets whether the image and audio encoders are converted instead of the language model.
    pub fn projector(mut self, projector: bool) -> Options {
        self.projector = projector;
        self
    }

    /// Sets the folder of an adapter's base model.
    pub fn base(mut self, base: Option<impl Folder + 'static>) -> Options {
        self.base = base.map(|base| Arc::new(base) as _);
        self
    }

    /// Sets the folder of a draft model's target model; see [`model_folder`](crate::model_folder) for one in the Hugging Face cache.
    pub fn target(mut self, target: Option<impl Folder + 'static>) -> Options {
        self.target = target.map(|target| Arc::new(target) as _);
        self
    }

    /// Sets whether queries, keys and values are fused into one tensor per block.
    pub fn fuse_qkv(mut self, fuse: bool) -> Options {
        self.fuse_qkv = fuse;
        self
    }

    /// Sets whether the gate and up matrices of all experts are fused into one tensor per block.
    pub fn fuse_gate_up_experts(mut self, fuse: bool) -> Options {
        self.fuse_gate_up_experts = fuse;
        self
    }

    /// Sets whether matrices decoded from FP8 are written as Q8_0.
    pub fn fp8_as_q8(mut self, as_q8: bool) -> Options {
        self.fp8_as_q8 = as_q8;
        self
    }

    /// Sets whether the dense layers after the pooling are written.
    pub fn dense_modules(mut self, write: bool) -> Options {
        self.dense_modules = write;
        self
    }

    /// Sets whether Mistral's native layout is read even if there is a `config.json`.
    pub fn mistral_format(mut self, is_mistral: bool) -> Options {
        self.mistral_format = is_mistral;
        self
    }

    /// Sets whether a checkpoint in Mistral's native layout gets only the chat template of its folder.
    pub fn no_community_template(mut self, leave_out: bool) -> Options {
        self.no_community_template = leave_out;
        self
    }

    /// Sets the type of the matrices.
    pub fn ty(mut self, ty: OutType) -> Options {
        self.ty = ty;
        self
    }

    /// Sets the model's name.
    pub fn name(mut self, name: Option<String>) -> Options {
        self.name = name;
        self
    }

    /// Sets the file of metadata that overrides the folder's metadata.
    pub fn metadata(mut self, file: Option<PathBuf>) -> Options {
        self.metadata = file;
        self
    }

    /// Sets the name of the pre-tokenizer.
    pub fn pre(mut self, pre: Option<String>) -> Options {
        self.pre = pre;
        self
    }

    /// Sets the byte order of the output.
    pub fn order(mut self, order: ByteOrder) -> Options {
        self.order = order;
        self
    }

    /// Sets how the multi-token prediction blocks are handled.
    pub fn mtp(mut self, mtp: Mtp) -> Options {
        self.mtp = mtp;
        self
    }

    /// Whether only metadata and tokenizer are written.
    pub fn vocab_only(mut self, vocab_only: bool) -> Options {
        self.vocab_only = vocab_only;
        self
    }
}
