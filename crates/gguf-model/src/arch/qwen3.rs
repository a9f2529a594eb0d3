//! Qwen 3 and the text part of Qwen 3 VL and Step 3 VL: query and key norms; including rerankers.
//!
//! Rules: `load_arch_tensors` in `src/models/qwen3.cpp` and `qwen3vl.cpp` of llama.cpp, `Qwen3Model` in `conversion/qwen.py`,
//! `Qwen3VLTextModel` in `conversion/qwen3vl.py`, `Step3VLTextModel` in `conversion/step3.py`.

use super::prelude::*;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    names: &["qwen3"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS],
    optional: &[],
    outside: &[ANSWERS, EMBEDDINGS],
    block: &[NORMS, QKV_OF_VALUES, OUTPUT, QK_NORMS, GATED_FFN],
    checkpoints: &[Checkpoint {
        classes: &["Qwen3ForCausalLM", "Qwen3Model", "StepVLForConditionalGeneration"],
        names: &TensorNames { rename_if: ANSWERING, ..TensorNames::TEXT },
        keys: &[GENERIC, POOLING, RERANK],
        tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
        ..Checkpoint::TEXT
    }],
};

/// The text part of the vision-language model.
pub(super) const WITH_VISION: Architecture = Architecture {
    names: &["qwen3vl"],
    required: &[TRANSFORMER_KEYS, RMS_NORM_KEYS, FEED_FORWARD_KEYS, &[keys::ROPE_DIMENSION_SECTIONS]],
    optional: &[keys::N_DEEPSTACK_LAYERS],
    checkpoints: &[
        Checkpoint {
            classes: &["Qwen3VLForConditionalGeneration"],
            names: &TensorNames { rename: &[("thinker.", "")], rename_if: ANSWERING, ..TensorNames::TEXT },
            keys: &[GENERIC, POOLING, RERANK, DEEPSTACK],
            tokenizer: &Tokenizer { vocab: Vocab::SENTENCE_PIECE_OR_BPE, ..Tokenizer::BPE },
            ..Checkpoint::TEXT
        },
        Checkpoint {
            classes: &["Qwen3ASRForConditionalGeneration"],
            names: &TensorNames { rename: &[("thinker.", "")], ..TensorNames::TEXT },
            keys: &[GENERIC, POOLING, NO_DEEPSTACK],
            tokenizer: &Tokenizer {
                vocab: Vocab::SENTENCE_PIECE_OR_BPE,
                keys: &[CHAT, END_OF_MESSAGE],
                ..Tokenizer::BPE
            },
            ..Checkpoint::TEXT
        },
    ],
    ..ARCHITECTURE
};

pub(super) const NO_DEEPSTACK: &[Key] = keys! {
    "n_deepstack_layers" U32 = "0";
};

/// The chat template that replaces Qwen 3 ASR's.
const CHAT: &[Key] = keys! {
    "tokenizer.chat_template" Str = "\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' \
+ '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}\"";
};

/// The end-of-message token is both BOS and EOS.
pub(super) const END_OF_MESSAGE: &[Key] = keys! {
    let end_of_message = "token_id(@tokenizer_config.added_tokens_decoder ?? {}, '<|im_end|>')";
    "tokenizer.ggml.bos_token_id" U32? = "end_of_message";
    "tokenizer.ggml.eos_token_id" U32? = "end_of_message";
};

/// A reranker keeps two rows of the output matrix, or of the tied embeddings: those of its answers.
const ANSWERING: &[(&str, &str, &str)] = &[
    ("lm_head.weight", "answers.weight", "@rerank and not tie_word_embeddings"),
    ("embed_tokens.weight", "tied_answers.weight", "@rerank and tie_word_embeddings"),
    ("model.embed_tokens.weight", "tied_answers.weight", "@rerank and tie_word_embeddings"),
    ("model.language_model.embed_tokens.weight", "tied_answers.weight", "@rerank and tie_word_embeddings"),
];

const ANSWERS: &[Row] = rows! {
    "cls.output.weight"  [Embd Classes] Optional Always <- "answers | tied_answers" : "t e -> t[@rerank.yes] e + t[@rerank.no] e";
    "token_embd.weight"  [Embd Vocab] Required Always <- "tied_answers";
};

/// Keys of a reranker. The template asks for a judgment of one document.
const RERANK: &[Key] = keys! {
    "pooling_type" U32? = "4 if @rerank else null";
    "classifier.output_labels" Str? = "['yes', 'no'] if @rerank else null";
    "tokenizer.chat_template.rerank" Str? = "'<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
Note that the answer can only be \"yes\" or \"no\".<|im_end|>
<|im_start|>user
<Instruct>: Given a web search query, retrieve relevant passages that answer the query
<Query>: {query}
<Document>: {document}<|im_end|>
<|im_start|>assistant
<think>

</think>

' if @rerank else null";
    "tokenizer.chat_templates" Str? = "['rerank'] if @rerank else null";
};

const DEEPSTACK: &[Key] = keys! {
    let vision = "thinker_config.vision_config if thinker_config else vision_config";
    "n_deepstack_layers" U32 = "len(vision.deepstack_visual_indexes ?? [])";
};
