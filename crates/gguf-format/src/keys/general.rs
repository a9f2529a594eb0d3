//! Keys that do not depend on the architecture: the kind and origin of the file, how to sample from
//! it, shards, adapters, importance matrices.
//!
//! Numbered keys, which describe one of several base models, datasets, dense modules or chat templates, are at the end.

use super::keys;

keys! { GENERAL
    General {
        /// What the file is: a model, an adapter, an importance matrix or a multimodal projector.
        GENERAL_TYPE = "general.type": string;
        /// Architecture that the tensors belong to; the prefix of all keys that describe the network.
        GENERAL_ARCHITECTURE = "general.architecture": string;
        /// Version of the quantized block formats; must be there when any tensor is quantized.
        GENERAL_QUANTIZATION_VERSION = "general.quantization_version": u32;
        /// Alignment of the tensor data and of every tensor offset; 32 when absent.
        GENERAL_ALIGNMENT = "general.alignment": u32 in "bytes";
        /// Type that most tensors have, as a number of the file type table.
        GENERAL_FILE_TYPE = "general.file_type": u32;
        /// Names of the tensors that the other tensor_extra arrays speak of.
        GENERAL_TENSOR_EXTRA_NAME = "general.tensor_extra.name": [string];
        /// For each named tensor, whether 4-bit activations are precise enough to multiply with it.
        GENERAL_TENSOR_EXTRA_PREC_A4 = "general.tensor_extra.prec_a4": [bool];
        /// Name of the model for people to read.
        GENERAL_NAME = "general.name": string;
        /// Who made the model.
        GENERAL_AUTHOR = "general.author": string;
        /// Version of the model, such as v1.0.
        GENERAL_VERSION = "general.version": string;
        /// Organization that the author belongs to.
        GENERAL_ORGANIZATION = "general.organization": string;
        /// What the model was fine-tuned for, such as Instruct.
        GENERAL_FINETUNE = "general.finetune": string;
        /// Name of the family or base model, without size and version.
        GENERAL_BASENAME = "general.basename": string;
        /// Free text about the model.
        GENERAL_DESCRIPTION = "general.description": string;
        /// Who quantized this file.
        GENERAL_QUANTIZED_BY = "general.quantized_by": string;
        /// Size class, such as 7B or 8x7B, as stored in the file name.
        GENERAL_SIZE_LABEL = "general.size_label": string;
        /// License as an SPDX expression.
        GENERAL_LICENSE = "general.license": string;
        /// Name of a license that has no SPDX identifier.
        GENERAL_LICENSE_NAME = "general.license.name": string;
        /// Where the text of the license is found.
        GENERAL_LICENSE_LINK = "general.license.link": string;
        /// Homepage of the model.
        GENERAL_URL = "general.url": string;
        /// Digital object identifier of the model.
        GENERAL_DOI = "general.doi": string;
        /// UUID of the model.
        GENERAL_UUID = "general.uuid": string;
        /// Repository that holds the model.
        GENERAL_REPO_URL = "general.repo_url": string;
        /// Search terms, such as text-generation.
        GENERAL_TAGS = "general.tags": [string];
        /// Languages the model knows, as two-letter ISO 639 codes.
        GENERAL_LANGUAGES = "general.languages": [string];
        /// File that this one was made from.
        GENERAL_URL_ORIGINAL_SOURCE = "general.url.original_source": string from Draft => "general.source.url";
    }
    Lineage {
        /// Homepage of the model that this file was converted from.
        GENERAL_SOURCE_URL = "general.source.url": string;
        /// Digital object identifier of the model that this file was converted from.
        GENERAL_SOURCE_DOI = "general.source.doi": string;
        /// UUID of the model that this file was converted from.
        GENERAL_SOURCE_UUID = "general.source.uuid": string;
        /// Repository of the model that this file was converted from.
        GENERAL_SOURCE_REPO_URL = "general.source.repo_url": string;
        /// Hugging Face repository that the file was made from.
        GENERAL_SOURCE_HUGGINGFACE_REPOSITORY = "general.source.huggingface.repository": string from LlamaCpp => "general.source.repo_url";
        /// Number of base models; one for a fine-tune, several for a merge.
        GENERAL_BASE_MODEL_COUNT = "general.base_model.count": u32;
        /// Number of datasets the model was trained on.
        GENERAL_DATASET_COUNT = "general.dataset.count": u32;
    }
    Sampling {
        /// Order in which the recommended samplers are applied.
        GENERAL_SAMPLING_SEQUENCE = "general.sampling.sequence": string;
        /// Recommended number of most likely tokens to choose from.
        GENERAL_SAMPLING_TOP_K = "general.sampling.top_k": i32 in "tokens";
        /// Recommended cumulative probability of the tokens to choose from.
        GENERAL_SAMPLING_TOP_P = "general.sampling.top_p": f32;
        /// Recommended least probability of a token, relative to the most likely one.
        GENERAL_SAMPLING_MIN_P = "general.sampling.min_p": f32;
        /// Recommended chance that the most likely tokens are excluded.
        GENERAL_SAMPLING_XTC_PROBABILITY = "general.sampling.xtc_probability": f32;
        /// Recommended probability above which tokens may be excluded.
        GENERAL_SAMPLING_XTC_THRESHOLD = "general.sampling.xtc_threshold": f32;
        /// Recommended temperature.
        GENERAL_SAMPLING_TEMP = "general.sampling.temp": f32;
        /// Recommended number of last tokens that are penalized when repeated.
        GENERAL_SAMPLING_PENALTY_LAST_N = "general.sampling.penalty_last_n": i32 in "tokens";
        /// Recommended penalty on repeated tokens; 1 for none.
        GENERAL_SAMPLING_PENALTY_REPEAT = "general.sampling.penalty_repeat": f32;
        /// Recommended version of Mirostat; 0 is off.
        GENERAL_SAMPLING_MIROSTAT = "general.sampling.mirostat": i32;
        /// Recommended target entropy of Mirostat.
        GENERAL_SAMPLING_MIROSTAT_TAU = "general.sampling.mirostat_tau": f32;
        /// Recommended learning rate of Mirostat.
        GENERAL_SAMPLING_MIROSTAT_ETA = "general.sampling.mirostat_eta": f32;
    }
    Split {
        /// Number of this shard, from 0.
        SPLIT_NO = "split.no": u16;
        /// Number of shards of the whole model.
        SPLIT_COUNT = "split.count": u16 in "shards";
        /// Number of tensors in all shards together.
        SPLIT_TENSORS_COUNT = "split.tensors.count": i32 in "tensors";
    }
    Adapter {
        /// Kind of adapter; lora is the only one in use.
        ADAPTER_TYPE = "adapter.type": string;
        /// Numerator of the LoRA scale; the rank is the denominator.
        ADAPTER_LORA_ALPHA = "adapter.lora.alpha": f32;
        /// Task that the adapter serves, for models with one adapter a task.
        ADAPTER_LORA_TASK_NAME = "adapter.lora.task_name": string;
        /// Text to put before the prompt when the adapter is in use.
        ADAPTER_LORA_PROMPT_PREFIX = "adapter.lora.prompt_prefix": string;
        /// Token sequence from which on the adapter is active.
        ADAPTER_ALORA_INVOCATION_TOKENS = "adapter.alora.invocation_tokens": [u32] in "token ids";
    }
    Imatrix {
        /// Number of chunks of text that were evaluated.
        IMATRIX_CHUNK_COUNT = "imatrix.chunk_count": u32 in "chunks";
        /// Length of one chunk.
        IMATRIX_CHUNK_SIZE = "imatrix.chunk_size": u32 in "tokens";
        /// Names of the texts that were evaluated.
        IMATRIX_DATASETS = "imatrix.datasets": [string];
        /// Importance matrix that this file was quantized with.
        QUANTIZE_IMATRIX_FILE = "quantize.imatrix.file": string from LlamaCpp;
        /// Text that the importance matrix was computed from.
        QUANTIZE_IMATRIX_DATASET = "quantize.imatrix.dataset": string from LlamaCpp;
        /// Number of tensors that the importance matrix covers.
        QUANTIZE_IMATRIX_ENTRIES_COUNT = "quantize.imatrix.entries_count": u32 | i32 in "tensors" from LlamaCpp;
        /// Number of chunks that the importance matrix was computed from.
        QUANTIZE_IMATRIX_CHUNKS_COUNT = "quantize.imatrix.chunks_count": u32 | i32 in "chunks" from LlamaCpp;
    }
    Special {
        /// Whether the logits of a diffusion model belong to the next position.
        DIFFUSION_SHIFT_LOGITS = "diffusion.shift_logits": bool;
        /// Slope parameter of the xIELU activation for positive inputs, for each layer.
        XIELU_ALPHA_P = "xielu.alpha_p": [f32] | f32;
        /// Slope parameter of the xIELU activation for negative inputs, for each layer.
        XIELU_ALPHA_N = "xielu.alpha_n": [f32] | f32;
        /// Linear term of the xIELU activation, for each layer.
        XIELU_BETA = "xielu.beta": [f32] | f32;
        /// Upper bound of negative inputs before the exponential of the xIELU activation, for each layer.
        XIELU_EPS = "xielu.eps": [f32] | f32;
    }
}

/// `ggufkit.mixture`: the name of a mixture of types that is not that of the file type, such as `Q4_K_L`, or `mixed` if the types were chosen
/// for a size. ggufkit writes it; `general.file_type` is then the nearest file type.
pub const GGUFKIT_MIXTURE: &str = "ggufkit.mixture";

keys! { NUMBERED
    Lineage {
        /// Name of base model {id}.
        GENERAL_BASE_MODEL_NAME = "general.base_model.{id}.name": string;
        /// Who made base model {id}.
        GENERAL_BASE_MODEL_AUTHOR = "general.base_model.{id}.author": string;
        /// Version of base model {id}.
        GENERAL_BASE_MODEL_VERSION = "general.base_model.{id}.version": string;
        /// Organization behind base model {id}.
        GENERAL_BASE_MODEL_ORGANIZATION = "general.base_model.{id}.organization": string;
        /// Free text about base model {id}.
        GENERAL_BASE_MODEL_DESCRIPTION = "general.base_model.{id}.description": string;
        /// Homepage of base model {id}.
        GENERAL_BASE_MODEL_URL = "general.base_model.{id}.url": string;
        /// Digital object identifier of base model {id}.
        GENERAL_BASE_MODEL_DOI = "general.base_model.{id}.doi": string;
        /// UUID of base model {id}.
        GENERAL_BASE_MODEL_UUID = "general.base_model.{id}.uuid": string;
        /// Repository of base model {id}.
        GENERAL_BASE_MODEL_REPO_URL = "general.base_model.{id}.repo_url": string;
        /// Name of dataset {id}.
        GENERAL_DATASET_NAME = "general.dataset.{id}.name": string;
        /// Who made dataset {id}.
        GENERAL_DATASET_AUTHOR = "general.dataset.{id}.author": string;
        /// Version of dataset {id}.
        GENERAL_DATASET_VERSION = "general.dataset.{id}.version": string;
        /// Organization behind dataset {id}.
        GENERAL_DATASET_ORGANIZATION = "general.dataset.{id}.organization": string;
        /// Free text about dataset {id}.
        GENERAL_DATASET_DESCRIPTION = "general.dataset.{id}.description": string;
        /// Homepage of dataset {id}.
        GENERAL_DATASET_URL = "general.dataset.{id}.url": string;
        /// Digital object identifier of dataset {id}.
        GENERAL_DATASET_DOI = "general.dataset.{id}.doi": string;
        /// UUID of dataset {id}.
        GENERAL_DATASET_UUID = "general.dataset.{id}.uuid": string;
        /// Repository of dataset {id}.
        GENERAL_DATASET_REPO_URL = "general.dataset.{id}.repo_url": string;
    }
    Model {
        /// Input width of a dense module (dense_2, dense_3) after a sentence embedding.
        DENSE_FEAT_IN = "{arch}.{dense}_feat_in": u32 in "elements";
        /// Output width of a dense module (dense_2, dense_3) after a sentence embedding.
        DENSE_FEAT_OUT = "{arch}.{dense}_feat_out": u32 in "elements";
    }
    Tokenizer {
        /// Chat template of that name, beside the default one.
        TOKENIZER_CHAT_TEMPLATE_NAME = "tokenizer.chat_template.{name}": string;
    }
}
