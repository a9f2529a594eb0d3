//! The file name that a model should have by the naming convention, made of its metadata, and of its present name where
//! the metadata is silent.

use gguf_format::name::{DEFAULT_VERSION, EXTENSION, FileName, NameSource, size_label, suggestion};
use gguf_format::shard::ShardName;
use gguf_format::{Gguf, keys};

use crate::summary::summary;

/// The longest text of the metadata that becomes part of a name, in bytes: file systems allow no longer names.
const LONGEST: usize = 255;

/// The standard name of a file that is called `name` now; `heads` are those of the model's shards, in order. `None` when
/// neither the metadata nor the present name says enough.
pub fn file_name(name: &str, heads: &[&Gguf<'_>]) -> Option<String> {
    let first = heads.first()?;
    let is_part = |text: &&str| text.len() <= LONGEST && !text.trim().is_empty();
    let text = |key: &str| first.get_as::<&str>(key).ok().filter(is_part);
    let present = FileName::parse(name);
    let s = summary(heads);
    // With experts, the label cannot be told from the number of parameters alone.
    let counted = (s.n_params > 0 && s.expert_count.is_none()).then(|| size_label(s.n_params, s.n_params, 0, 0));
    let size = text(keys::GENERAL_SIZE_LABEL).or(present.size_label).or(counted.as_deref());
    let base = text(keys::GENERAL_BASENAME).or(text(keys::GENERAL_NAME)).or(present.base_name)?;
    // A name such as "Llama 3 8B Instruct" has the size in it already.
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
