//! A planned conversion and the path of its output.

use std::path::{Path, PathBuf};

use gguf_format::GgmlType;
use gguf_model::naming::with_prefix;
use gguf_pipeline::plan::Plan;

use crate::metadata::{self, ModelMetadata};
use crate::model_plan::{Mtp, Skipped};
use crate::packed::Unpacked;
use crate::warning::Warning;

/// The kind of output of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputKind {
    /// A model.
    Model,
    /// A low-rank adapter of a model.
    Adapter,
    /// The image and audio encoders of a multimodal model, with their projectors.
    Projector,
    /// An image or video generation model.
    Images,
}

/// A planned conversion.
#[derive(Debug)]
#[non_exhaustive]
pub struct Conversion {
    /// The output plan.
    pub plan: Plan,
    /// The kind of output.
    pub kind: OutputKind,
    /// The architecture name in GGUF.
    pub architecture: &'static str,
    /// Type of the matrices.
    pub ty: GgmlType,
    /// The checkpoint tensors that are not written.
    pub skipped: Vec<Skipped>,
    /// The checkpoint tensors that are stored in packed formats.
    pub unpacked: Vec<Unpacked>,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Number of errors that the model check finds in the planned output; if it is not 0, llama.cpp does not load the file.
    pub n_errors: usize,
    /// The components of the output file name.
    pub metadata: ModelMetadata,
    /// How the multi-token prediction blocks are handled.
    pub mtp: Mtp,
}

impl Conversion {
    /// The output path for `out`: [`output_path_as`](Self::output_path_as) with the type of the matrices.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let header = br#"{"double_blocks.0.img_attn.proj.weight":{"dtype":"BF16","shape":[4,4],"data_offsets":[0,32]}}"#;
    /// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 32]].concat();
    /// # let checkpoint = folder.path().join("flux.safetensors");
    /// # std::fs::write(&checkpoint, bytes).unwrap();
    /// use gguf_hf::{Options, OutType};
    ///
    /// let conversion = gguf_hf::plan(&checkpoint, &Options::default().ty(OutType::BF16))?;
    /// assert!(conversion.output_path("out/model-{ftype}.gguf").ends_with("out/model-bf16.gguf"));
    /// # Ok::<(), gguf_hf::Error>(())
    /// ```
    pub fn output_path(&self, out: impl AsRef<Path>) -> PathBuf {
        self.output_path_as(out, &self.ty.to_string())
    }

    /// The output path for `out` and a type named `ty`. If `out` is a folder or ends with a separator, the result is the default file name in it, built from the
    /// model's name, size, version and type, with the prefix `mtp-` for a file that contains only multi-token prediction blocks. Otherwise
    /// the result is `out` with `{ftype}` and `{FTYPE}` in its last component replaced by the type.
    pub fn output_path_as(&self, out: impl AsRef<Path>, ty: &str) -> PathBuf {
        let out = out.as_ref();
        if out.is_dir() || out.to_string_lossy().ends_with(std::path::is_separator) {
            let is_model = !self.plan.tensors().is_empty();
            let mut metadata = self.metadata.clone();
            if self.kind == OutputKind::Projector {
                metadata.size_label = None;
            }
            let name = metadata::default_file_name(&metadata, is_model.then_some(ty));
            let before = match (self.kind, self.mtp) {
                (OutputKind::Projector, _) => "mmproj-",
                (_, Mtp::Only) => "mtp-",
                _ => "",
            };
            let name = match (self.kind, name.strip_suffix(".gguf")) {
                (OutputKind::Adapter, Some(stem)) => format!("{stem}-LoRA.gguf"),
                _ => name,
            };
            return out.join(with_prefix(before, &name));
        }
        match out.file_name().and_then(|name| name.to_str()) {
            Some(name) if name.contains('{') => {
                let upper = ty.to_uppercase();
                let lower = ty.to_lowercase();
                let name = name.replace("{ftype}", &lower).replace("{outtype}", &lower);
                out.with_file_name(name.replace("{FTYPE}", &upper).replace("{OUTTYPE}", &upper))
            }
            _ => out.to_owned(),
        }
    }
}
