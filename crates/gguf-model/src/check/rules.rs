//! The table of rules for models. A new rule needs a row here and the code that applies it.

gguf_format::rules! {
    /// Every rule that [`model`](super::model) applies.
    pub RULES:

    // Keys.
    ARCH_MISSING "arch.missing" Error
        "general.architecture as text" "set general.architecture; nothing else says how to read the model"
        "gguf.md, general.architecture";
    ARCH_UNKNOWN "arch.unknown" Error
        "an architecture that llama.cpp knows" "llama.cpp rejects the model; the name may be misspelt, or newer than this program"
        "llama-arch.cpp, LLM_ARCH_NAMES";
    ARCH_UNSUPPORTED "arch.unsupported" Warning
        "an architecture that llama.cpp loads" "the name is defined, but llama.cpp has no such models; use another program"
        "llama-model.cpp, llama_model_create; gguf.md, general.architecture";
    KEY_MISSING "key.missing" Error
        "all required keys" "add the key; converting again from the source does"
        "llama-model.cpp, load_hparams; llama-vocab.cpp, load; src/models";
    KEY_TYPE "key.type" Error
        "a value of the key's type" "rewrite the value in this type"
        "llama-model-loader.cpp, GKV::get_kv; gguf.md; constants.py and gguf_writer.py";
    KEY_TYPE_UNREAD "key.type.unread" Warning
        "a value of the key's type" "rewrite the value in this type; llama.cpp does not read the key, but other programs may"
        "gguf.md; constants.py and gguf_writer.py";
    KEY_WIDTH "key.width" Warning
        "a value of exactly the key's type" "rewrite the value in this type; not every program converts it"
        "gguf.md; constants.py and gguf_writer.py";
    KEY_MISSPELT "key.misspelt" Warning
        "a known key" "rename the key if it is misspelt"
        "gguf.md; constants.py";
    KEY_UNKNOWN "key.unknown" Note
        "a known key" "readers ignore unknown keys; put your own keys under a prefix of your own"
        "gguf.md; constants.py";
    KEY_RENAMED "key.renamed" Note
        "the current name of the key" "rename the key"
        "gguf.md; constants.py";
    KEY_OTHER_ARCH "key.other_arch" Note
        "keys of the file's own architecture" "remove the key, or correct general.architecture"
        "gguf.md, LLM keys: [llm]";

    // Values.
    VALUE_CHOICE "value.choice" Warning
        "one of the allowed values" "correct the value"
        "llama-model.cpp; llama-vocab.cpp; constants.py";
    VALUE_REJECTED "value.rejected" Error
        "a value that llama.cpp accepts" "correct the value; llama.cpp rejects the model"
        "llama-model.cpp, load_hparams; llama-vocab.cpp, load; src/models, load_arch_hparams";
    VALUE_RANGE "value.range" Error
        "a number in the valid range" "correct the value; converting again from the source does"
        "llama-model.cpp, load_hparams; llama-hparams.h, LLAMA_MAX_LAYERS and LLAMA_MAX_EXPERTS";
    VALUE_UNUSUAL "value.unusual" Warning
        "a number in the usual range" "correct the value; converting again from the source does"
        "llama-model.cpp, load_hparams";
    VALUE_FINITE "value.finite" Warning
        "a finite number" "correct the value; converting again from the source does"
        "IEEE 754";
    VALUE_ARRAY_LENGTH "value.array_length" Error
        "the number of elements that llama.cpp reads" "correct the array; converting again from the source does"
        "llama-model-loader.cpp, get_key_or_arr";
    VALUE_HEADS "value.heads" Warning
        "a number of heads that the key-value heads divide" "correct the number of heads"
        "llama-hparams.cpp, n_gqa";
    VALUE_ROPE "value.rope" Warning
        "no more rotary dimensions than the size of a head" "correct the value"
        "llama-model.cpp, load_hparams: n_rot";
    VALUE_ROPE_LLAMA "value.rope.llama" Error
        "as many rotary dimensions as the size of a head" "correct the value; llama.cpp rejects the model"
        "llama-model.cpp, load_hparams: invalid n_rot";
    VALUE_EXPERTS "value.experts" Error
        "an expert_used_count from 1 to expert_count" "correct expert_count or expert_used_count"
        "llama-model.cpp, load_hparams: n_expert_used";
    VALUE_EXPERT_GROUPS "value.expert_groups" Error
        "groups of equal size, and a number of used groups below the number of groups"
        "correct expert_group_count or expert_group_used_count"
        "llama-model.cpp, load_hparams: n_expert_groups, n_group_used";

    // Tensors.
    TENSOR_MISSING "tensor.missing" Error
        "all tensors of the architecture" "the conversion was not finished or tensors were removed; convert again"
        "src/models, load_arch_tensors";
    TENSOR_BLOCK_EXTRA "tensor.block.extra" Error
        "blocks numbered below the block count" "correct the block count or remove the tensors"
        "llama-model-loader.cpp, done_getting_tensors";
    TENSOR_BLOCK_MISSING "tensor.block.missing" Error
        "tensors in every block" "the conversion was not finished or tensors were removed; convert again"
        "src/models, load_arch_tensors";
    TENSOR_UNEXPECTED "tensor.unexpected" Error
        "only tensors that the architecture has" "remove the tensor; llama.cpp rejects the model with it"
        "llama-model-loader.cpp, done_getting_tensors: wrong number of tensors";
    TENSOR_UNKNOWN "tensor.unknown" Note
        "a tensor name that llama.cpp knows" "the name may be misspelt, or newer than this program"
        "llama-arch.cpp, LLM_TENSOR_NAMES";
    TENSOR_SHAPE "tensor.shape" Error
        "the shape that follows from the keys" "the tensor or the keys are wrong; convert again"
        "src/models, load_arch_tensors; llama-model-loader.cpp, check_tensor_dims";
    TENSOR_TYPE "tensor.type" Error
        "the type F32" "convert again; llama.cpp stops with an assertion"
        "ggml.c, ggml_rope_impl";
    TENSOR_SHAPE_UNUSUAL "tensor.shape.unusual" Warning
        "the shape that such a tensor has in other architectures" "the tensor or the keys may be wrong"
        "src/models, load_arch_tensors";
    TENSOR_PAIR "tensor.pair" Error
        "both tensors of a pair" "the file is incomplete; create it again"
        "llama-adapter.cpp, llama_adapter_lora_init_impl; imatrix-loader.cpp";
    TENSOR_RANK "tensor.rank" Error
        "the same rank in both matrices of an adapter" "the file is broken; convert the adapter again"
        "llama-adapter.cpp, llama_adapter_lora_init_impl";

    // Types.
    FILE_TYPE_UNKNOWN "file_type.unknown" Warning
        "a file type of the table" "correct general.file_type"
        "llama.h, llama_ftype";
    FILE_TYPE_MISMATCH "file_type.mismatch" Warning
        "the file type that belongs to the type of most weights" "correct general.file_type"
        "llama.h, llama_ftype; llama-quant.cpp";
    QUANT_VERSION_MISSING "quantization_version.missing" Warning
        "general.quantization_version in a file with quantized tensors" "set it to 2"
        "gguf.md, general.quantization_version";
    QUANT_VERSION "quantization_version.value" Warning
        "quantization version 2" "the block layout may differ from the current one; convert again"
        "ggml.h, GGML_QNT_VERSION";

    // Tokenizer.
    TOKENIZER_LENGTH "tokenizer.length" Error
        "one score and one type for each token" "convert again"
        "llama-vocab.cpp, load: scores, toktypes";
    TOKENIZER_EXCESS "tokenizer.excess" Warning
        "one score and one type for each token" "convert again; llama.cpp ignores those beyond the last token"
        "llama-vocab.cpp, load: scores, toktypes";
    TOKENIZER_TYPE "tokenizer.token_type" Warning
        "token types from 1 to 6" "correct tokenizer.ggml.token_type"
        "llama.h, llama_token_type";
    TOKENIZER_BYTE "tokenizer.byte" Error
        "byte tokens spelled like <0x0A>, and none in WordPiece vocabularies" "correct tokenizer.ggml.token_type"
        "llama-vocab.cpp, token_to_byte";
    TOKENIZER_SCORE "tokenizer.score" Warning
        "finite scores" "correct tokenizer.ggml.scores"
        "llama-vocab.cpp, load: scores";
    TOKENIZER_ID "tokenizer.id" Warning
        "ids of tokens that exist" "correct the id; llama.cpp uses its default instead"
        "llama-vocab.cpp, load: special token ids";
    TOKENIZER_EMPTY "tokenizer.empty" Error
        "at least one token" "convert again"
        "llama-vocab.cpp, load";
    TOKENIZER_DUPLICATE "tokenizer.duplicate" Error
        "each token once" "make the tokens distinct; llama.cpp stops with an assertion"
        "llama-vocab.cpp, load: id_to_token.size() == token_to_id.size()";
    TOKENIZER_PHI3 "tokenizer.phi3" Error
        "the tokens </s>, <unk>, <s> and <|endoftext|> in a model whose general.name contains phi-3 or phi3"
        "correct general.name; llama.cpp looks these tokens up and rejects the model without them"
        "llama-vocab.cpp, load: token attributes";
    TOKENIZER_UTF8 "tokenizer.utf8" Note
        "tokens in UTF-8" "gguf-py and many other programs reject them"
        "gguf.md, tokenizer.ggml.tokens";
    TOKENIZER_MERGE "tokenizer.merge" Warning
        "merges of two tokens of the vocabulary, with a space between" "convert again; such a merge never applies"
        "llama-vocab.cpp, load: bpe_ranks";
    TOKENIZER_PRE "tokenizer.pre" Warning
        "tokenizer.ggml.pre, which says how text is split" "set it; llama.cpp falls back to one that is often wrong"
        "llama-vocab.cpp, load: missing pre-tokenizer type";
    TOKENIZER_VOCAB_SIZE "tokenizer.vocab_size" Warning
        "as many tokens as vocab_size states" "correct the vocab_size or pad the tokens"
        "src/models, load_arch_hparams: LLM_KV_VOCAB_SIZE";
    TEMPLATE_MISSING "template.missing" Note
        "a chat template in a model tuned for chat" "set tokenizer.chat_template"
        "gguf.md, tokenizer.chat_template";
    TEMPLATE_SYNTAX "template.syntax" Warning
        "a valid Jinja template" "correct the template; llama.cpp loads the model, but cannot render conversations"
        "common/jinja/lexer.cpp and parser.cpp";
    TEMPLATE_SUSPICIOUS "template.suspicious" Warning
        "a template without access to Python internals"
        "inspect the template before rendering it: it accesses Python internals"
        "CVE-2024-34359";

    // Shards and names.
    SPLIT_KEYS "split.keys" Error
        "split keys that agree with the shards" "split the model again"
        "llama-model-loader.cpp: split.no, split.count, split.tensors.count";
    SPLIT_LONE "split.lone" Note
        "all shards of a model" "check all shards together; checks of the whole model were skipped"
        "llama-model-loader.cpp";
    SPLIT_DUPLICATE "split.duplicate" Error
        "each tensor in one shard" "split the model again"
        "llama-model-loader.cpp: tensor is duplicated";
    NAME_SHARD "name.shard" Error
        "a file name that agrees with split.no and split.count" "rename the file; llama.cpp finds shards by their names"
        "llama.cpp, llama_split_path";
    NAME_UNSPLIT "name.unsplit" Warning
        "the file name of a shard only in a split model" "rename the file; programs look for further shards"
        "llama.cpp, llama_split_path";
    NAME_ENCODING "name.encoding" Note
        "a file name whose encoding agrees with general.file_type" "rename the file or correct general.file_type"
        "gguf.md, GGUF Naming Convention";
    NAME_SIZE "name.size" Note
        "a file name whose size agrees with the number of parameters" "rename the file"
        "gguf.md, GGUF Naming Convention";
    NAME_CONVENTION "name.convention" Note
        "BaseName-SizeLabel-FineTune-Version-Encoding-Type-Shard.gguf" "if you publish the file, rename it"
        "gguf.md, GGUF Naming Convention";
}
