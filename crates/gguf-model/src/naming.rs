//! File names according to the GGUF naming convention, derived from a model's metadata and, if metadata is missing,
//! from its current name; and the names of new files.

use gguf_format::name::{DEFAULT_VERSION, EXTENSION, FileName, NameSource, size_label, suggestion};
use gguf_format::shard::ShardName;
use gguf_format::{Gguf, Str, keys};

use crate::summary::summary;

/// The parts of the name of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewName {
    /// The model's name: `general.basename`, `general.name`, or the base name in the input file's name.
    pub name: Option<String>,
    /// The size label: `general.size_label`, or derived from the number of parameters.
    pub size: Option<String>,
    /// The file type: `Q4_K_M`.
    pub file_type: Option<String>,
    /// The complete name in the style of llama.cpp's converter, with the extension: `Glossary-2.9M-Q4_K_M.gguf`.
    pub file_name: String,
}

/// Determines the name of a new file from the headers of its shards and the name of the input file.
///
/// ```
/// use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
/// use gguf_model::naming::new_name;
///
/// let mut head = Head::default();
/// head.set("general.name", "My Model");
/// head.set("general.file_type", 7u32);
/// head.tensors.push(TensorInfo::new("output.weight", [4096, 32_000], GgmlType::Q8_0));
/// let bytes = head.encode()?;
/// let name = new_name("download.gguf", &[&Gguf::parse(&bytes)?]);
/// assert_eq!(name.file_name, "My-Model-131M-Q8_0.gguf");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn new_name(input: &str, heads: &[&Gguf<'_>]) -> NewName {
    let s = summary(heads);
    let present = FileName::parse(input);
    let is_part = |text: &&str| text.len() <= LONGEST && !text.trim().is_empty();
    let text = |key: &str| heads.first()?.get_as::<&str>(key).ok().filter(is_part);
    let fit = |text: &str| text.trim().replace(|c: char| c.is_whitespace() || is_unfit(c), "-");
    let name = text(keys::GENERAL_BASENAME).or(text(keys::GENERAL_NAME)).or(present.base_name).map(fit);
    let counted = (s.n_params > 0 && s.expert_count.is_none()).then(|| size_label(s.n_params, s.n_params, 0, 0));
    let size = text(keys::GENERAL_SIZE_LABEL).or(present.size_label).or(counted.as_deref()).map(fit);
    let file_type = s.file_type.and_then(|ty| ty.info()).map(|info| info.label().to_owned());
    let mut source = NameSource::default();
    source.base_name = name.as_deref();
    source.size_label = size.as_deref().filter(|_| s.n_params > 0);
    source.fine_tune = text(keys::GENERAL_FINETUNE);
    source.version = text(keys::GENERAL_VERSION);
    source.encoding = file_type.as_deref().filter(|_| s.n_params > 0);
    source.kind = match s.kind.as_deref() {
        Some("adapter") => Some("LoRA"),
        _ if s.n_params == 0 => Some("vocab"),
        _ => None,
    };
    let sidecar = present.sidecar.map_or(String::new(), |sidecar| format!("{sidecar}-"));
    let file_name = format!("{sidecar}{}", source.stem()).replace(is_unfit, "-");
    // Programs take a name with a leading dash for an option; a leading dot hides the file.
    let file_name = file_name.trim_start_matches(['-', '.']).to_owned() + EXTENSION;
    NewName { name, size, file_type, file_name }
}

/// Whether a character is unsuitable in a file name: path separators and characters without a plain visible form.
fn is_unfit(c: char) -> bool {
    matches!(c, '/' | '\\' | ':' | '{' | '}') || Str(c.encode_utf8(&mut [0; 4]).as_bytes()).to_string() != c.to_string()
}

/// The maximum length in bytes of a metadata string used in a name, the limit of common file systems.
const LONGEST: usize = 255;

/// The conventional name for a file currently called `name`; `heads` are the headers of the model's shards, in order.
/// `None` if the metadata and the current name are insufficient.
///
/// ```
/// use gguf_format::{Gguf, Head};
/// use gguf_model::naming::file_name;
///
/// let mut head = Head::default();
/// head.set("general.basename", "Mixtral");
/// head.set("general.size_label", "8x7B");
/// let bytes = head.encode()?;
/// let heads = [&Gguf::parse(&bytes)?];
/// assert_eq!(file_name("download.gguf", &heads).as_deref(), Some("Mixtral-8x7B-v1.0.gguf"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn file_name(name: &str, heads: &[&Gguf<'_>]) -> Option<String> {
    let first = heads.first()?;
    let is_part = |text: &&str| text.len() <= LONGEST && !text.trim().is_empty();
    let text = |key: &str| first.get_as::<&str>(key).ok().filter(is_part);
    let present = FileName::parse(name);
    let s = summary(heads);
    // For models with experts, the number of parameters does not determine the label.
    let counted = (s.n_params > 0 && s.expert_count.is_none()).then(|| size_label(s.n_params, s.n_params, 0, 0));
    let size = text(keys::GENERAL_SIZE_LABEL).or(present.size_label).or(counted.as_deref());
    let base = text(keys::GENERAL_BASENAME).or(text(keys::GENERAL_NAME)).or(present.base_name)?;
    // A name such as "Llama 3 8B Instruct" already contains the size.
    let spaced = format!("{}{EXTENSION}", base.trim().replace([' ', '/', '_'], "-"));
    let of_base = FileName::parse(&spaced);
    let encoding = s.file_type.and_then(|t| t.info()).map(|info| info.label());
    let version = text(keys::GENERAL_VERSION).map(|v| v.trim_start_matches('v')).map(|v| format!("v{v}"));
    let is_adapter = s.kind.as_deref() == Some("adapter");
    let mut source = NameSource::default();
    source.base_name = of_base.base_name;
    source.size_label = of_base.size_label.or(size);
    source.fine_tune = text(keys::GENERAL_FINETUNE).or(of_base.fine_tune).or(present.fine_tune);
    source.version = version.as_deref().or(of_base.version).or(present.version).or(Some(DEFAULT_VERSION));
    source.encoding = encoding.or(present.encoding);
    source.kind = if is_adapter { Some("LoRA") } else { present.kind };
    let shard = ShardName::parse(name).map_or(String::new(), |shard| format!("-{}", shard.number));
    let sidecar = present.sidecar.map_or(String::new(), |sidecar| format!("{sidecar}-"));
    suggestion(&format!("{sidecar}{}{shard}{EXTENSION}", source.stem()), size)
}
