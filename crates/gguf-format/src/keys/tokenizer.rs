//! Keys of the vocabulary, the tokenizer and the chat templates.

use super::keys;

keys! { TOKENIZER
    Tokenizer {
        /// Kind of tokenizer: llama, gpt2, bert, t5, rwkv and others.
        TOKENIZER_GGML_MODEL = "tokenizer.ggml.model": string;
        /// How text is cut into words before byte-pair merging.
        TOKENIZER_GGML_PRE = "tokenizer.ggml.pre": string;
        /// Token texts in the order of their ids.
        TOKENIZER_GGML_TOKENS = "tokenizer.ggml.tokens": [string];
        /// Kind of each token: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
        TOKENIZER_GGML_TOKEN_TYPE = "tokenizer.ggml.token_type": [i32];
        /// Number of segment types of a BERT model.
        TOKENIZER_GGML_TOKEN_TYPE_COUNT = "tokenizer.ggml.token_type_count": u32;
        /// Score of each token, as long as the token list.
        TOKENIZER_GGML_SCORES = "tokenizer.ggml.scores": [f32] | [i32];
        /// Byte-pair merges in order, each two tokens with a space between.
        TOKENIZER_GGML_MERGES = "tokenizer.ggml.merges": [string];
        /// Whether the start token is put before a text.
        TOKENIZER_GGML_ADD_BOS_TOKEN = "tokenizer.ggml.add_bos_token": bool;
        /// Whether the end token is put behind a text.
        TOKENIZER_GGML_ADD_EOS_TOKEN = "tokenizer.ggml.add_eos_token": bool;
        /// Whether a separator is put between two texts.
        TOKENIZER_GGML_ADD_SEP_TOKEN = "tokenizer.ggml.add_sep_token": bool;
        /// Whether a space is put before a text.
        TOKENIZER_GGML_ADD_SPACE_PREFIX = "tokenizer.ggml.add_space_prefix": bool;
        /// Whether runs of spaces are reduced to one.
        TOKENIZER_GGML_REMOVE_EXTRA_WHITESPACES = "tokenizer.ggml.remove_extra_whitespaces": bool;
        /// Normalization table of a SentencePiece model, as it is.
        TOKENIZER_GGML_PRECOMPILED_CHARSMAP = "tokenizer.ggml.precompiled_charsmap": [u8] | [i8];
        /// Tokens that must not be generated.
        TOKENIZER_GGML_SUPPRESS_TOKENS = "tokenizer.ggml.suppress_tokens": [i32] in "token ids";
        /// Whether text is lower-cased first.
        TOKENIZER_GGML_NORMALIZER_LOWERCASE = "tokenizer.ggml.normalizer.lowercase": bool;
        /// Whether accents are removed first.
        TOKENIZER_GGML_NORMALIZER_STRIP_ACCENTS = "tokenizer.ggml.normalizer.strip_accents": bool;
        /// The whole tokenizer.json.
        TOKENIZER_HUGGINGFACE_JSON = "tokenizer.huggingface.json": string;
        /// The whole vocabulary file of RWKV World.
        TOKENIZER_RWKV_WORLD = "tokenizer.rwkv.world": string;
        /// Jinja template that turns a conversation into a prompt.
        TOKENIZER_CHAT_TEMPLATE = "tokenizer.chat_template": string;
        /// Names of the chat templates beside the default one.
        TOKENIZER_CHAT_TEMPLATES = "tokenizer.chat_templates": [string];
        /// Tokens that were added after training.
        TOKENIZER_GGML_ADDED_TOKENS = "tokenizer.ggml.added_tokens": [string] from Spec;
        /// Token texts in the order of their ids.
        TOKENIZER_EMBEDDED_TOKENS = "tokenizer.embedded.tokens": [string] from Draft => "tokenizer.ggml.tokens";
        /// Score of each token.
        TOKENIZER_EMBEDDED_SCORES = "tokenizer.embedded.scores": [f32] from Draft => "tokenizer.ggml.scores";
    }
    SpecialToken {
        /// Token that starts a text.
        TOKENIZER_GGML_BOS_TOKEN_ID = "tokenizer.ggml.bos_token_id": u32 in "token id";
        /// Token that ends a text.
        TOKENIZER_GGML_EOS_TOKEN_ID = "tokenizer.ggml.eos_token_id": u32 in "token id";
        /// Token that ends a turn.
        TOKENIZER_GGML_EOT_TOKEN_ID = "tokenizer.ggml.eot_token_id": u32 in "token id";
        /// Token that ends a message.
        TOKENIZER_GGML_EOM_TOKEN_ID = "tokenizer.ggml.eom_token_id": u32 in "token id";
        /// Token for text that is not in the vocabulary.
        TOKENIZER_GGML_UNKNOWN_TOKEN_ID = "tokenizer.ggml.unknown_token_id": u32 in "token id";
        /// Token between two texts; llama.cpp spells it like this.
        TOKENIZER_GGML_SEPERATOR_TOKEN_ID = "tokenizer.ggml.seperator_token_id": u32 in "token id";
        /// Token between two texts, as the specification spells it; llama.cpp does not read it.
        TOKENIZER_GGML_SEPARATOR_TOKEN_ID = "tokenizer.ggml.separator_token_id": u32 in "token id" from Spec => "tokenizer.ggml.seperator_token_id";
        /// Token that fills a batch up.
        TOKENIZER_GGML_PADDING_TOKEN_ID = "tokenizer.ggml.padding_token_id": u32 in "token id";
        /// Token whose output stands for the whole text; deprecated, the start token serves.
        TOKENIZER_GGML_CLS_TOKEN_ID = "tokenizer.ggml.cls_token_id": u32 in "token id" from LlamaCpp => "tokenizer.ggml.bos_token_id";
        /// Token that hides a word.
        TOKENIZER_GGML_MASK_TOKEN_ID = "tokenizer.ggml.mask_token_id": u32 in "token id";
        /// Token before the text that precedes a gap to fill.
        TOKENIZER_GGML_FIM_PRE_TOKEN_ID = "tokenizer.ggml.fim_pre_token_id": u32 in "token id";
        /// Token before the text that follows a gap to fill.
        TOKENIZER_GGML_FIM_SUF_TOKEN_ID = "tokenizer.ggml.fim_suf_token_id": u32 in "token id";
        /// Token where filling the gap starts.
        TOKENIZER_GGML_FIM_MID_TOKEN_ID = "tokenizer.ggml.fim_mid_token_id": u32 in "token id";
        /// Token that fills up when gaps are filled.
        TOKENIZER_GGML_FIM_PAD_TOKEN_ID = "tokenizer.ggml.fim_pad_token_id": u32 in "token id";
        /// Token before the name of a repository.
        TOKENIZER_GGML_FIM_REP_TOKEN_ID = "tokenizer.ggml.fim_rep_token_id": u32 in "token id";
        /// Token between files.
        TOKENIZER_GGML_FIM_SEP_TOKEN_ID = "tokenizer.ggml.fim_sep_token_id": u32 in "token id";
        /// Token before the text that precedes a gap to fill.
        TOKENIZER_GGML_PREFIX_TOKEN_ID = "tokenizer.ggml.prefix_token_id": u32 in "token id" => "tokenizer.ggml.fim_pre_token_id";
        /// Token before the text that follows a gap to fill.
        TOKENIZER_GGML_SUFFIX_TOKEN_ID = "tokenizer.ggml.suffix_token_id": u32 in "token id" => "tokenizer.ggml.fim_suf_token_id";
        /// Token where filling the gap starts.
        TOKENIZER_GGML_MIDDLE_TOKEN_ID = "tokenizer.ggml.middle_token_id": u32 in "token id" => "tokenizer.ggml.fim_mid_token_id";
    }
}
