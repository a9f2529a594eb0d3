//! A short description of a model: its most important properties.
//!
//! The summary only reports keys and tensors; it does not validate or guess. A field is `None` if its key is missing
//! or has the wrong type.

use core::fmt;

use gguf_format::check::shown;
use gguf_format::keys::{self, FileType};
use gguf_format::sort::CompactSort as _;
use gguf_format::{GgmlType, Gguf, ValueRef};

/// A summary of a model over all its shards.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// `general.type`: `model`, `adapter`, `imatrix`, `mmproj`.
    pub kind: Option<String>,
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// `general.size_label`.
    pub size_label: Option<String>,
    /// `general.license`.
    pub license: Option<String>,
    /// Elements of all tensors.
    pub n_params: u64,
    /// Bytes of all tensors, without padding.
    pub tensor_bytes: u64,
    /// Tensors of unknown size, because of an unknown type or an invalid shape. Only `n_tensors` includes them.
    pub n_unknown: u64,
    /// Number of tensors.
    pub n_tensors: u64,
    /// Number of key-value pairs of the first shard.
    pub n_kv: u64,
    /// Number of shards passed to [`summary`].
    pub n_shards: usize,
    /// Number of shards of the model, from `split.count`.
    pub n_shards_expected: Option<u64>,
    /// Share of each tensor type, in descending order of bytes.
    pub types: Vec<TypeShare>,
    /// `general.file_type`.
    pub file_type: Option<FileType>,
    /// `ggufkit.mixture`: the name of a mixture that is not that of the file type.
    pub mixture: Option<String>,
    /// `general.quantization_version`.
    pub quantization_version: Option<u64>,
    /// Length of the context in tokens.
    pub context_length: Option<u64>,
    /// Elements of a hidden state.
    pub embedding_length: Option<u64>,
    /// Number of blocks.
    pub block_count: Option<u64>,
    /// Width of the feed-forward part: the smallest and the largest over the blocks.
    pub feed_forward_length: Option<Span>,
    /// Attention heads.
    pub head_count: Option<Span>,
    /// Heads of keys and values.
    pub head_count_kv: Option<Span>,
    /// Experts per block.
    pub expert_count: Option<u64>,
    /// Experts used per token.
    pub expert_used_count: Option<Span>,
    /// Type of rotary scaling.
    pub rope_scaling: Option<String>,
    /// Factor of rotary scaling.
    pub rope_scaling_factor: Option<f64>,
    /// Base of the rotary frequencies.
    pub rope_freq_base: Option<f64>,
    /// Length of the sliding window in tokens.
    pub sliding_window: Option<u64>,
    /// `general.quantized_by`.
    pub quantized_by: Option<String>,
    /// `general.base_model.0.name`: the first base model.
    pub base_model: Option<String>,
    /// `quantize.imatrix.file`: the file name of the importance matrix used for quantization.
    pub imatrix: Option<String>,
    /// Rank of a LoRA adapter: the smallest and the largest over its tensors.
    pub lora_rank: Option<Span>,
    /// `adapter.lora.alpha` of a LoRA adapter.
    pub lora_alpha: Option<f64>,
    /// Size of the vocabulary: the length of the token list, else the number of embedding rows.
    pub vocab_size: Option<u64>,
    /// `tokenizer.ggml.model`.
    pub tokenizer_model: Option<String>,
    /// `tokenizer.ggml.pre`.
    pub tokenizer_pre: Option<String>,
    /// Number of chat templates, including named ones.
    pub n_chat_templates: u64,
}

impl Summary {
    /// Bits per element, over all tensors.
    pub fn bits_per_weight(&self) -> Option<f64> {
        (self.n_params > 0).then(|| self.tensor_bytes as f64 * 8.0 / self.n_params as f64)
    }

    /// The name of the types of the tensors: that of the mixture, or the label of a known file type.
    pub fn type_name(&self) -> Option<&str> {
        self.mixture.as_deref().or_else(|| self.file_type?.info().map(|info| info.label()))
    }
}

/// The share of a model stored in one tensor type.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeShare {
    /// The type.
    pub ty: GgmlType,
    /// Number of tensors.
    pub n_tensors: u64,
    /// Elements of these tensors.
    pub n_params: u64,
    /// Bytes of these tensors, without padding.
    pub bytes: u64,
}

/// The range of a number that may differ between blocks.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min == self.max {
            true => write!(f, "{}", self.min),
            false => write!(f, "{} to {}", self.min, self.max),
        }
    }
}

impl Span {
    /// The range of a number or an array of numbers.
    pub(crate) fn of(value: ValueRef<'_>) -> Option<Span> {
        let one = |value: ValueRef<'_>| value.get::<u64>().ok();
        match value {
            ValueRef::Array(numbers) => {
                let mut span = None;
                for number in numbers.iter() {
                    span = Some(Span::with(span, one(number)?));
                }
                span
            }
            value => one(value).map(|n| Span::with(None, n)),
        }
    }

    /// The range that also has `n`.
    fn with(span: Option<Span>, n: u64) -> Span {
        span.map_or(Span { min: n, max: n }, |span| Span { min: span.min.min(n), max: span.max.max(n) })
    }
}

/// Summarizes a model from the headers of its shards, the first one first; an unsplit file is a single shard. Strings
/// are truncated and safe to print.
///
/// ```
/// use gguf_format::{GgmlType, Gguf, Head, TensorInfo};
/// use gguf_model::summary::summary;
///
/// let mut head = Head::default();
/// head.set("general.architecture", "llama");
/// head.set("llama.context_length", 4096u32);
/// head.tensors.push(TensorInfo::new("output.weight", [64, 1000], GgmlType::Q8_0));
/// let bytes = head.encode()?;
///
/// let summary = summary(&[&Gguf::parse(&bytes)?]);
/// assert_eq!((summary.n_params, summary.context_length), (64_000, Some(4096)));
/// assert_eq!(summary.bits_per_weight(), Some(8.5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn summary(shards: &[&Gguf<'_>]) -> Summary {
    let mut s = Summary { n_shards: shards.len(), ..Summary::default() };
    for shard in shards {
        add_tensors(&mut s, shard);
    }
    s.types.compact_sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.ty.cmp(&b.ty)));
    let Some(&first) = shards.first() else { return s };
    s.n_kv = first.n_kv();
    let arch: Option<&str> = first.get_as(keys::GENERAL_ARCHITECTURE).ok();
    let arch_name = arch.unwrap_or_default();
    for kv in first.kvs() {
        let Ok(key) = kv.key.to_str() else { continue };
        let text = || kv.value.as_str().map(shown);
        let int = || kv.value.get::<u64>().ok();
        let field = match key {
            keys::GENERAL_TYPE => Some(&mut s.kind),
            keys::GENERAL_ARCHITECTURE => Some(&mut s.architecture),
            keys::GENERAL_NAME => Some(&mut s.name),
            keys::GENERAL_SIZE_LABEL => Some(&mut s.size_label),
            keys::GENERAL_LICENSE => Some(&mut s.license),
            keys::GENERAL_QUANTIZED_BY => Some(&mut s.quantized_by),
            keys::QUANTIZE_IMATRIX_FILE => Some(&mut s.imatrix),
            keys::GGUFKIT_MIXTURE => Some(&mut s.mixture),
            keys::TOKENIZER_GGML_MODEL => Some(&mut s.tokenizer_model),
            keys::TOKENIZER_GGML_PRE => Some(&mut s.tokenizer_pre),
            "general.base_model.0.name" => Some(&mut s.base_model),
            _ => None,
        };
        if let Some(field) = field {
            *field = text();
        }
        match key {
            keys::ADAPTER_LORA_ALPHA => s.lora_alpha = kv.value.get().ok(),
            keys::GENERAL_FILE_TYPE => s.file_type = kv.value.get().ok().map(FileType),
            keys::GENERAL_QUANTIZATION_VERSION => s.quantization_version = int(),
            keys::SPLIT_COUNT => s.n_shards_expected = int().filter(|&n| n > 0),
            keys::TOKENIZER_GGML_TOKENS => s.vocab_size = kv.value.as_array().map(|a| a.len()),
            _ if key == keys::TOKENIZER_CHAT_TEMPLATE || key.starts_with("tokenizer.chat_template.") => {
                s.n_chat_templates += 1;
            }
            _ => {}
        }
        let Some(rest) = key.strip_prefix(arch_name).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let is = |pattern: &str| pattern.strip_prefix("{arch}.") == Some(rest);
        match () {
            () if is(keys::CONTEXT_LENGTH) => s.context_length = int(),
            () if is(keys::EMBEDDING_LENGTH) => s.embedding_length = int(),
            () if is(keys::BLOCK_COUNT) => s.block_count = int(),
            () if is(keys::FEED_FORWARD_LENGTH) => s.feed_forward_length = Span::of(kv.value),
            () if is(keys::ATTENTION_HEAD_COUNT) => s.head_count = Span::of(kv.value),
            () if is(keys::ATTENTION_HEAD_COUNT_KV) => s.head_count_kv = Span::of(kv.value),
            () if is(keys::EXPERT_COUNT) => s.expert_count = int().filter(|&n| n > 0),
            () if is(keys::EXPERT_USED_COUNT) => s.expert_used_count = Span::of(kv.value).filter(|n| n.max > 0),
            () if is(keys::ROPE_SCALING_TYPE) => s.rope_scaling = text().filter(|t| t != "none"),
            () if is(keys::ROPE_SCALING_FACTOR) => s.rope_scaling_factor = kv.value.get().ok(),
            () if is(keys::ROPE_FREQ_BASE) => s.rope_freq_base = kv.value.get().ok(),
            () if is(keys::ATTENTION_SLIDING_WINDOW) => s.sliding_window = int().filter(|&n| n > 0),
            () if is(keys::VOCAB_SIZE) => s.vocab_size = s.vocab_size.or_else(int),
            () => {}
        }
    }
    s.mixture = s.mixture.filter(|name| !name.trim_ascii().is_empty());
    if s.vocab_size.is_none() {
        let embeddings = shards.iter().find_map(|shard| shard.tensor("token_embd.weight"));
        s.vocab_size = embeddings.map(|t| t.dims.dim(1));
    }
    s
}

fn add_tensors(s: &mut Summary, shard: &Gguf<'_>) {
    for t in shard.tensors() {
        s.n_tensors += 1;
        if t.name.as_bytes().ends_with(b".lora_a") {
            s.lora_rank = Some(Span::with(s.lora_rank, t.dims.dim(1)));
        }
        let (Ok(bytes), Some(n_params)) = (t.n_bytes(), t.n_elements()) else {
            s.n_unknown += 1;
            continue;
        };
        s.n_params = s.n_params.saturating_add(n_params);
        s.tensor_bytes = s.tensor_bytes.saturating_add(bytes);
        match s.types.iter_mut().find(|share| share.ty == t.ty) {
            Some(share) => {
                share.n_tensors += 1;
                share.n_params = share.n_params.saturating_add(n_params);
                share.bytes = share.bytes.saturating_add(bytes);
            }
            // The length is bounded by the number of types with a known size.
            None => s.types.push(TypeShare { ty: t.ty, n_tensors: 1, n_params, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::{Head, TensorInfo, Value};

    fn file(kvs: &[(&str, Value)], tensors: &[(&str, &[u64], GgmlType)]) -> Vec<u8> {
        let mut head = Head::default();
        for (key, value) in kvs {
            head.set(key, value.clone());
        }
        head.tensors = tensors.iter().map(|(name, shape, ty)| TensorInfo::new(*name, *shape, *ty)).collect();
        head.encode().unwrap()
    }

    #[test]
    fn two_shards_are_one_model() {
        let first = file(
            &[
                ("general.architecture", "llama".into()),
                ("general.name", "a\x1b[31mname".into()),
                ("general.file_type", 7u32.into()),
                ("llama.block_count", 2u64.into()),
                ("llama.attention.head_count", Value::Array([4i32, 8].into_iter().collect())),
                ("other.context_length", 9u32.into()),
                ("tokenizer.chat_template", "x".into()),
                ("tokenizer.chat_template.tool", "x".into()),
                ("split.count", 2u16.into()),
            ],
            &[("token_embd.weight", &[64, 10], GgmlType::Q8_0), ("output_norm.weight", &[64], GgmlType::F32)],
        );
        let second = file(&[], &[("output.weight", &[64, 10], GgmlType::Q8_0)]);
        let (first, second) = (Gguf::parse(&first).unwrap(), Gguf::parse(&second).unwrap());
        let s = summary(&[&first, &second]);
        assert_eq!(s.name.as_deref(), Some("a\\u{1b}[31mname"));
        assert_eq!((s.n_params, s.tensor_bytes, s.n_tensors, s.n_unknown), (1344, 2 * 20 * 34 + 256, 3, 0));
        assert_eq!(s.bits_per_weight(), Some(1616.0 * 8.0 / 1344.0));
        assert_eq!(
            s.types.iter().map(|t| (t.ty, t.n_tensors)).collect::<Vec<_>>(),
            [(GgmlType::Q8_0, 2), (GgmlType::F32, 1)]
        );
        assert_eq!(s.head_count.unwrap().to_string(), "4 to 8");
        assert_eq!((s.block_count, s.context_length, s.vocab_size), (Some(2), None, Some(10)));
        assert_eq!((s.n_chat_templates, s.n_shards, s.n_shards_expected), (2, 2, Some(2)));
        assert_eq!(s.file_type.unwrap().to_string(), "Q8_0");
    }

    #[test]
    fn tensors_of_unknown_size_are_counted_apart() {
        let tensors = vec![TensorInfo::new("a", [32], GgmlType(99)), TensorInfo::new("b", [8], GgmlType::F32)];
        let bytes = Head { tensors, ..Head::default() }.encode_as_read().unwrap();
        let s = summary(&[&Gguf::parse(&bytes).unwrap()]);
        assert_eq!((s.n_tensors, s.n_unknown, s.n_params, s.tensor_bytes, s.types.len()), (2, 1, 8, 32, 1));
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        assert_eq!(summary(&[]), Summary::default());
        let empty = file(&[], &[]);
        let s = summary(&[&Gguf::parse(&empty).unwrap()]);
        assert_eq!(s.bits_per_weight(), None);
        assert_eq!(s, Summary { n_shards: 1, ..Summary::default() });
    }
}
