//! File names according to the GGUF naming convention, derived from a model's metadata and, if metadata is missing,
//! from its current name; and the names of new files.

use gguf_format::name::{self, EXTENSION, FileName, NameProblem, NameSource, size_label, suggestion};
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
    /// The file type, or the name of the mixture: `Q4_K_M`.
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
    let file_type = s.type_name().map(fit);
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
    let stem = source.stem();
    let file_name = with_sidecar(present.sidecar, s.kind.as_deref(), &stem).replace(is_unfit, "-");
    // Programs take a name with a leading dash for an option; a leading dot hides the file.
    let file_name = file_name.trim_start_matches(['-', '.']).to_owned() + EXTENSION;
    NewName { name, size, file_type, file_name }
}

/// The stem of a file that accompanies a model, with its prefix: that of its present name, or `mmproj-` for encoders.
fn with_sidecar(present: Option<&str>, kind: Option<&str>, stem: &str) -> String {
    match present.or((kind == Some("mmproj")).then_some("mmproj")) {
        Some(sidecar) => with_prefix(&format!("{sidecar}-"), stem),
        None => stem.to_owned(),
    }
}

/// A file name with a prefix such as `mmproj-`, which is not repeated if the name has it in any case, as in `Mmproj-Model`.
///
/// ```
/// use gguf_model::naming::with_prefix;
///
/// assert_eq!(with_prefix("mmproj-", "Gemma-3-F16.gguf"), "mmproj-Gemma-3-F16.gguf");
/// assert_eq!(with_prefix("mmproj-", "Mmproj-Gemma-3-F16.gguf"), "mmproj-Gemma-3-F16.gguf");
/// ```
pub fn with_prefix(prefix: &str, name: &str) -> String {
    let rest = match name.get(..prefix.len()) {
        Some(start) if start.eq_ignore_ascii_case(prefix) => name.get(prefix.len()..).unwrap_or_default(),
        _ => name,
    };
    format!("{prefix}{rest}")
}

/// The deviations of a file name from the convention; none for the names that [`new_name`] determines, which are those of llama.cpp's
/// converter, and for importance matrices, to which the convention does not apply. Encoders and
/// adapters need no size, which llama.cpp's converters omit.
pub fn problems(file_name: &str, heads: &[&Gguf<'_>]) -> Vec<NameProblem> {
    let mut found = name::problems(file_name);
    let stem = ShardName::parse(file_name)
        .map_or_else(|| file_name.to_owned(), |shard| format!("{}{EXTENSION}", shard.prefix));
    let kind = heads.first().and_then(|head| head.get_as::<&str>(keys::GENERAL_TYPE).ok());
    if matches!(kind, Some("mmproj" | "adapter")) {
        found.retain(|problem| *problem != NameProblem::NoSizeLabel);
    }
    match found.is_empty() || kind == Some("imatrix") || new_name(&stem, heads).file_name == stem {
        true => Vec::new(),
        false => found,
    }
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
/// assert_eq!(file_name("download.gguf", &heads).as_deref(), Some("Mixtral-8x7B.gguf"));
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
    let encoding = s.type_name();
    let version = text(keys::GENERAL_VERSION).map(|v| v.trim_start_matches('v')).map(|v| format!("v{v}"));
    let is_adapter = s.kind.as_deref() == Some("adapter");
    let mut source = NameSource::default();
    source.base_name = of_base.base_name;
    source.size_label = of_base.size_label.or(size);
    source.fine_tune = text(keys::GENERAL_FINETUNE).or(of_base.fine_tune).or(present.fine_tune);
    source.version = version.as_deref().or(of_base.version).or(present.version);
    source.encoding = encoding.or(present.encoding);
    source.kind = if is_adapter { Some("LoRA") } else { present.kind };
    let shard = ShardName::parse(name).map_or(String::new(), |shard| format!("-{}", shard.number));
    let stem = source.stem();
    let stem = with_sidecar(present.sidecar, s.kind.as_deref(), &stem);
    suggestion(&format!("{stem}{shard}{EXTENSION}"), size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::{GgmlType, Head, TensorInfo};

    fn head(texts: &[(&str, &str)]) -> Vec<u8> {
        let mut head = Head::default();
        for (key, text) in texts {
            head.set(key, *text);
        }
        head.set(keys::GENERAL_FILE_TYPE, 1u32);
        head.tensors.push(TensorInfo::new("output.weight", [4096, 32_000], GgmlType::F16));
        head.encode().unwrap()
    }

    /// The names of new files, of the converter and of suggestions are the same, and have no deviations.
    #[test]
    fn new_names_need_no_change() {
        let basename = (keys::GENERAL_BASENAME, "Llama-3.1");
        for (texts, expected) in [
            (&[(keys::GENERAL_NAME, "My Model")][..], "My-Model-131M-F16.gguf"),
            (&[basename, (keys::GENERAL_FINETUNE, "Instruct")], "Llama-3.1-131M-Instruct-F16.gguf"),
            (&[basename, (keys::GENERAL_VERSION, "v1.5")], "Llama-3.1-131M-v1.5-F16.gguf"),
            (&[basename, (keys::GENERAL_TYPE, "mmproj")], "mmproj-Llama-3.1-131M-F16.gguf"),
            (&[(keys::GENERAL_NAME, "mmproj Model"), (keys::GENERAL_TYPE, "mmproj")], "mmproj-Model-131M-F16.gguf"),
            (&[(keys::GENERAL_NAME, "Mmproj Model"), (keys::GENERAL_TYPE, "mmproj")], "mmproj-Model-131M-F16.gguf"),
        ] {
            let bytes = head(texts);
            let heads = [&Gguf::parse(&bytes).unwrap()];
            for input in ["a.gguf", expected] {
                assert_eq!(new_name(input, &heads).file_name, expected);
                assert_eq!(file_name(input, &heads).as_deref(), Some(expected));
            }
            assert_eq!(problems(expected, &heads), []);
            let shard = expected.replace(".gguf", "-00001-of-00002.gguf");
            assert_eq!(problems(&shard, &heads), []);
        }
    }

    #[test]
    fn odd_names_of_models_are_no_deviation_and_matrices_have_no_names() {
        let bytes = head(&[(keys::GENERAL_NAME, "my_model")]);
        let heads = [&Gguf::parse(&bytes).unwrap()];
        assert_eq!(problems("my_model-131M-F16.gguf", &heads), []);
        assert_eq!(problems("my_models-131M-F16.gguf", &heads), [NameProblem::Letters("my_models".to_owned())]);
        for kind in ["mmproj", "adapter"] {
            let bytes = head(&[(keys::GENERAL_TYPE, kind)]);
            assert_eq!(problems("Model-F16.gguf", &[&Gguf::parse(&bytes).unwrap()]), [], "{kind}");
        }
        let bytes = head(&[(keys::GENERAL_TYPE, "imatrix")]);
        assert_eq!(problems("imatrix.gguf", &[&Gguf::parse(&bytes).unwrap()]), []);
    }
}
