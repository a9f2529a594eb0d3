//! The table of the format's rules. A new rule is a row here and the lines that apply it.

crate::rules! {
    /// Every rule that [`structure`](super::structure), [`format`](fn@super::format) and [`padding`](super::padding) apply.
    pub RULES:

    // Unreadable files.
    #[structural] FILE_KIND "file.kind" Error
        "a file that starts with the bytes GGUF" "a GGUF file starts with the bytes 47 47 55 46"
        "gguf.md, File Structure, magic";
    #[structural] FILE_VERSION "file.version" Error
        "version 1, 2 or 3, in either byte order" "the file is damaged, or written by newer software"
        "gguf.md, File Structure, version";
    #[structural] INPUT_SHORT "input.short" Error
        "all bytes of the head" "provide more of the start of the file"
        "this library";
    #[structural] HEAD_COUNTS "head.counts" Error
        "counts of tensors and key-value pairs that the file can hold" "the file is truncated, or its header is damaged or crafted to mislead readers"
        "gguf.cpp, gguf_init_from_reader: n_tensors, n_kv";
    #[structural] HEAD_PAST_END "head.past_end" Error
        "a head that ends inside the file" "the file is truncated or a length in it is wrong; fetch it again"
        "gguf.cpp, gguf_reader::read";
    #[structural] DRAFT_LENGTH "draft.length" Error
        "a stated length that is the length of the value" "the file is damaged"
        "draft of version 1, value_len";
    #[structural] DRAFT_ELEMENTS "draft.elements" Error
        "a stated count of elements that is the product of the dimensions" "the file is damaged"
        "draft of version 1, elements";
    #[structural] DRAFT_PADDING "draft.padding" Error
        "padding of zero bytes before the tensor infos" "the file is damaged"
        "draft of version 1, File Structure: padded with 0x00 bytes";

    // Keys and values.
    #[structural] KEY_EMPTY "key.empty" Error
        "a key of 1 to 65535 bytes" "remove the pair"
        "gguf.cpp, gguf_init_from_reader: empty keys";
    #[structural] KEY_LENGTH "key.length" Error
        "a key of 1 to 65535 bytes" "remove the pair or shorten its key"
        "gguf.md, gguf_metadata_kv_t, key";
    #[structural] KEY_DUPLICATE "key.duplicate" Error
        "unique keys" "remove all but one; which one is read depends on the reader"
        "gguf.cpp, gguf_init_from_reader: duplicate keys";
    #[structural] VALUE_TYPE "value.type" Error
        "a value type from 0 to 12" "the file is damaged, or written by newer software"
        "gguf.md, gguf_metadata_value_type";
    #[structural] VALUE_BOOL "value.bool" Error
        "a bool whose byte is 0 or 1" "write 0 or 1"
        "gguf.md, GGUF_METADATA_VALUE_TYPE_BOOL";
    #[structural] VALUE_NESTING "value.nesting" Error
        "arrays nested at most 64 deep" "the file is crafted to exhaust readers that recurse"
        "this library, MAX_NESTING";
    #[structural] ALIGNMENT_TYPE "alignment.type" Error
        "general.alignment of type u32" "write it as u32"
        "gguf.md, general.alignment; gguf.cpp, gguf_init_from_reader";
    #[structural] ALIGNMENT_ALIAS "alignment.alias" Error
        "no second key that is general.alignment up to a NUL" "do not read the file: readers disagree on where its data lies"
        "gguf.cpp, gguf_find_key: keys end at a NUL";
    #[structural] ALIGNMENT_VALUE "alignment.value" Error
        "an alignment that is a power of two or a multiple of 8" "write 32, or remove the key"
        "gguf.md, general.alignment";

    // Tensor infos.
    #[structural] TENSOR_NAME_LENGTH "tensor.name.length" Error
        "a tensor name of at most 64 bytes, 63 for ggml" "shorten the name"
        "gguf.md, gguf_tensor_info_t, name; ggml.h, GGML_MAX_NAME";
    #[structural] TENSOR_DUPLICATE "tensor.duplicate" Error
        "unique tensor names" "remove all but one; which one is read depends on the reader"
        "gguf.cpp, gguf_init_from_reader: duplicate tensor names";
    #[structural] TENSOR_DIMS "tensor.dims" Error
        "at most 4 dimensions" "the file is damaged"
        "gguf.md, gguf_tensor_info_t, n_dimensions";
    #[structural] TENSOR_SIZE "tensor.size" Error
        "dimensions whose product, in elements and in bytes, fits 63 bits" "the file is damaged or crafted to mislead readers"
        "gguf.cpp, gguf_init_from_reader: INT64_MAX";
    #[structural] TENSOR_ROW "tensor.row" Error
        "a first dimension that is a whole number of blocks of the type" "store the tensor in a type with smaller blocks"
        "gguf.cpp, gguf_init_from_reader: block size";
    #[structural] TENSOR_TYPE_UNKNOWN "tensor.type.unknown" Error
        "a tensor type of known size" "the file is damaged, or needs software newer than this"
        "ggml.h, enum ggml_type";
    #[structural] TENSOR_TYPE_REMOVED "tensor.type.removed" Error
        "a tensor type that current ggml supports" "convert the tensor to a current type, or quantize the model again"
        "ggml.h, enum ggml_type: support has been removed";

    // Tensor data.
    #[structural] OFFSET_UNALIGNED "tensor.unaligned" Error
        "a tensor offset that is a multiple of the alignment" "the offset or general.alignment is wrong"
        "gguf.md, gguf_tensor_info_t, offset";
    #[structural] TENSOR_BOUNDS "tensor.bounds" Error
        "tensor data that lies inside the file" "the file is truncated or the offset is wrong; fetch it again"
        "llama-model-loader.h, llama_tensor_weight";
    #[structural] FILE_TRUNCATED "file.truncated" Error
        "a file that holds the data of all its tensors" "the file is truncated; fetch it again"
        "llama-model-loader.h, llama_tensor_weight";
    #[structural] TENSOR_OVERLAP "tensor.overlap" Error
        "tensor data that does not overlap other tensors" "an offset, a shape or a type is wrong"
        "gguf.md, tensor_data; gguf.cpp, gguf_init_from_reader: offsets";
    #[structural] TENSOR_IN_HEAD "tensor.in_head" Error
        "tensor data after the head" "the offset is wrong"
        "draft of version 1, offset";
    #[structural] TENSOR_SHARED "tensor.shared" Warning
        "separate data for each tensor" "store tied tensors once and omit the second; read separately, such tensors can be \
            far larger than the file"
        "gguf.cpp, gguf_init_from_reader: offsets";
    DATA_GAP "data.gap" Warning
        "tensors that follow each other, padded to the alignment only" "rewrite the file to close the gap"
        "gguf.cpp, gguf_init_from_reader: offsets";
    DATA_ORDER "data.order" Warning
        "tensor data in the order of the tensor infos" "rewrite the file"
        "gguf.cpp, gguf_init_from_reader: offsets";
    DATA_PADDING "data.padding" Warning
        "padding of zero bytes" "rewrite the file; the padding may hide data"
        "gguf.md, gguf_file_t, _padding";
    FILE_TRAILING "file.trailing" Warning
        "a file that ends with its last tensor and its padding" "truncate the file, or inspect the extra bytes"
        "gguf.md, gguf_file_t";
    FILE_TAIL "file.tail" Note
        "the last tensor padded to the alignment, as ggml's writer does" "append zero bytes"
        "gguf.cpp, gguf_write_out; gguf_init_from_reader with data";

    // Style.
    KEY_SPELLING "key.spelling" Warning
        "keys in lower_snake_case with dots between the parts" "rename the key"
        "gguf.md, gguf_metadata_kv_t, key";
    KEY_ASCII "key.ascii" Warning
        "keys of printable ASCII characters" "rename the key"
        "gguf.md, gguf_metadata_kv_t, key";
    KEY_NUL "key.nul" Warning
        "keys without NUL bytes" "rename the key; C programs read only the part before the NUL"
        "gguf.h, gguf_get_key";
    STRING_UTF8 "value.utf8" Warning
        "strings in UTF-8" "rewrite the text as UTF-8"
        "gguf.md, gguf_string_t";
    STRING_NUL "value.nul" Warning
        "strings without NUL bytes" "C programs read only the part before the NUL"
        "gguf.md, gguf_string_t: not null-terminated";
    ALIGNMENT_SMALL "alignment.small" Note
        "an alignment that is a multiple of 8" "ggml reads any power of two; the specification asks for a multiple of 8"
        "gguf.md, general.alignment";
    TENSOR_NAME_64 "tensor.name.64" Warning
        "a tensor name of at most 63 bytes" "shorten the name: ggml rejects it, because its field of 64 bytes includes a NUL"
        "ggml.h, GGML_MAX_NAME";
    TENSOR_NAME_EMPTY "tensor.name.empty" Warning
        "a name for each tensor" "name the tensor"
        "gguf.md, gguf_tensor_info_t, name";
    TENSOR_NAME_NUL "tensor.name.nul" Warning
        "tensor names without NUL bytes" "rename the tensor; ggml reads only the part before the NUL"
        "gguf.cpp, gguf_init_from_reader: ggml_set_name";
    TENSOR_NAME_UTF8 "tensor.name.utf8" Warning
        "tensor names in UTF-8" "rename the tensor; gguf-py rejects the file"
        "gguf.md, gguf_string_t";
    TENSOR_SCALAR "tensor.scalar" Note
        "at least one dimension" "a tensor without dimensions holds one element; ggml writes one dimension of 1"
        "ggml.c, ggml_n_dims";
    TENSOR_EMPTY "tensor.empty" Note
        "dimensions above 0" "the tensor holds nothing; ggml's own writer does not keep such shapes"
        "gguf.cpp, gguf_write_out";
    FILE_DRAFT "file.draft" Note
        "a released version" "the draft of version 1 of mid 2023; migrate it to version 3"
        "draft of version 1";
    FILE_NUL_STRINGS "file.nul_strings" Note
        "strings that do not count a NUL" "written by ggml of August 2023; rewrite the file"
        "gguf.md, gguf_string_t";
    FILE_MAGIC_REVERSED "file.magic" Warning
        "the bytes GGUF at the start, in both byte orders" "most readers reject it; rewrite the file"
        "gguf.md, magic";

    // Restrictions of known readers.
    READERS_VERSION "readers.version" Warning
        "version 2 or 3" "rewrite the file as version 3; llama.cpp and gguf-py reject version 1"
        "gguf.cpp, gguf_init_from_reader: version; gguf_reader.py, READER_SUPPORTED_VERSIONS";
    READERS_BYTE_ORDER "readers.byte_order" Note
        "little-endian byte order" "llama.cpp reads such a file on big-endian machines only; change the byte order for others"
        "gguf.cpp, gguf_init_from_reader: version & 0x0000FFFF";
    READERS_NESTED "readers.nested" Note
        "arrays of plain values" "llama.cpp rejects nested arrays; gguf-py flattens them"
        "gguf.cpp, gguf_init_from_reader: gguf_type_size of GGUF_TYPE_ARRAY";
    READERS_ALIGNMENT "readers.alignment" Warning
        "an alignment that is a power of two" "write 32, or remove the key; llama.cpp and gguf-py reject other values"
        "gguf.cpp, gguf_init_from_reader: alignment; gguf_reader.py";
    READERS_OFFSETS "readers.offsets" Warning
        "each tensor where the padded one before it ends" "rewrite the file; llama.cpp rejects it"
        "gguf.cpp, gguf_init_from_reader: offsets";
    READERS_NO_DATA "readers.no_data" Warning
        "a file that reaches to its data section" "pad the head; llama.cpp rejects a file with tensor infos that ends \
            before its data section"
        "gguf.cpp, gguf_init_from_reader: seek to the data section";
    READERS_KEY "readers.key" Warning
        "keys that gguf-py can read" "rename the key"
        "gguf_reader.py: keys are decoded as UTF-8; GGUF.version and the like are its own fields";
}
