//! The sentences that decide, the questions that the documents leave open, and the families of files.

/// The judgement of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Accept,
    /// The documents are silent or disagree, or the broken rule leaves the content unambiguous and well-known programs write such files.
    Either,
    Reject,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Accept => "accept",
            Verdict::Either => "either",
            Verdict::Reject => "reject",
        }
    }
}

/// A document of the format.
pub struct Document {
    pub id: &'static str,
    /// Its file among the reference data.
    pub file: &'static str,
    pub title: &'static str,
    /// The commit and its date, or what else tells versions apart.
    pub version: &'static str,
    /// Where anyone can read this version.
    pub address: &'static str,
}

#[rustfmt::skip]
pub const DOCUMENTS: &[Document] = &[
    Document {
        id: "gguf.md",
        file: "gguf-spec.md",
        title: "GGUF specification, docs/gguf.md of ggml",
        version: "commit a027a92c1db83ec3cd157cb4e36c6d88cf0615bc, 2023-12-13. The newest version when the verdicts were made, commit 6af560d55df03ad92116e3c0a697779584477e85 of 2026-07-09, \
            has every sentence that is quoted here but that of type-16-to-18: its list has the ids up to 39, and says of 31 that support has been removed from gguf files.",
        address: "https://github.com/ggml-org/ggml/blob/a027a92c1db83ec3cd157cb4e36c6d88cf0615bc/docs/gguf.md",
    },
    Document {
        id: "draft",
        file: "gguf-draft-v1.md",
        title: "the first draft of that document, of pull request 302 of ggml",
        version: "commit d2fbcb23a2592e01f3c3ac3f1f4b5ffa92067e51, 2023-06-26",
        address: "https://github.com/ggml-org/ggml/blob/d2fbcb23a2592e01f3c3ac3f1f4b5ffa92067e51/docs/gguf.md",
    },
    Document {
        id: "reference",
        file: "gguf-reference-and-c-api.md",
        title: "GGUF reference and C API, of the documentation of ggml",
        version: "undated; the version whose list of tensor types ends with MXFP4 = 39",
        address: "https://www.mintlify.com/ggml-org/ggml/formats/gguf",
    },
    Document {
        id: "overview",
        file: "gguf-overview.md",
        title: "GGUF file format, an overview with the longer list of tensor types",
        version: "commit 229bf292d8e0475d71685feb54d1865037a112dd, 2025-05-30",
        address: "https://github.com/oderoi/lm.c/blob/229bf292d8e0475d71685feb54d1865037a112dd/gguf-file-format.md",
    },
];

/// A sentence of a document, and what follows from it for a file that it concerns.
pub struct Rule {
    pub id: &'static str,
    pub verdict: Verdict,
    pub document: &'static str,
    pub section: &'static str,
    /// As in the document, without line breaks and comment signs.
    pub sentence: &'static str,
    /// Why the sentence has this consequence, where that is not plain.
    pub note: &'static str,
}

const fn rule(
    id: &'static str,
    verdict: Verdict,
    document: &'static str,
    section: &'static str,
    sentence: &'static str,
    note: &'static str,
) -> Rule {
    Rule { id, verdict, document, section, sentence, note }
}

use Verdict::{Accept, Either, Reject};

#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // What the whole file is.
    rule("magic", Reject, "gguf.md", "gguf_header_t, magic", "Must be `GGUF` at the byte level: `0x47` `0x47` `0x55` `0x46`.", ""),
    rule("magic-reversed", Either, "draft", "gguf_header_t, magic", "Must be `'GGUF'`/`0x47475546`.",
        "As a number in a little-endian file, 0x47475546 is the bytes FUGG. gguf.md asks for the bytes GGUF in every file."),
    rule("version", Reject, "gguf.md", "gguf_header_t, version", "Must be `3` for version described in this spec, which introduces big-endian support.",
        "The version history names the versions 1, 2 and 3. The layout of any other is unknown."),
    rule("version-2", Either, "gguf.md", "Version History, v2", "Most countable values (lengths, etc) were changed from `uint32` to `uint64` to allow for larger models to be supported in the future.",
        "The layout is that of version 3, but gguf.md says of the version that it must be 3."),
    rule("version-1", Either, "gguf.md", "Version History, v1", "Initial version.",
        "Lengths, counts and dimensions have 32 bits; gguf.md says of the version that it must be 3."),
    rule("draft", Either, "draft", "gguf_header_t, version", "Must be `1` for version described in this spec.",
        "The draft and the released version 1 have the same number and different layouts."),
    rule("big-endian", Either, "gguf.md", "File Structure", "At the time of writing, there is no way to determine if a model is big-endian; this may be rectified in future versions.",
        "Readers that tell the byte order by the version word must report these values; others see version 0x03000000 and must reject."),
    rule("counted-nul", Either, "gguf.md", "gguf_string_t", "The string as a UTF-8 non-null-terminated string.",
        "Files of August 2023 count a trailing NUL in every string. A reader may keep or remove all of them: `also` has the content without."),

    // The sequence of fields.
    rule("sequence", Reject, "gguf.md", "File Structure", "Fields, including arrays, are written sequentially without alignment unless otherwise specified.", "The file ends inside a field."),
    rule("pair-count", Reject, "gguf.md", "gguf_header_t, metadata_kv_count", "The number of metadata key-value pairs.", "The file is too short for this many pairs, whatever they are."),
    rule("tensor-count", Reject, "gguf.md", "gguf_header_t, tensor_count", "The number of tensors in the file.", "After the pairs, the file is too short for this many tensor infos, whatever they are."),
    rule("string-length", Reject, "gguf.md", "gguf_string_t, len", "The length of the string, in bytes.", "The string exceeds the file."),
    rule("array-length", Reject, "gguf.md", "gguf_metadata_value_t, len", "Number of elements, not bytes", "The array exceeds the file."),
    rule("large", Either, "gguf.md", "Version History, v2", "Most countable values (lengths, etc) were changed from `uint32` to `uint64` to allow for larger models to be supported in the future.",
        "No document limits what the file can hold, but a reader may limit what it keeps in memory. It must not crash or exceed its own limit."),

    // Keys and values.
    rule("key-empty", Either, "gguf.md", "gguf_metadata_kv_t, key", "It must be a hierarchical key, where each segment is `lower_snake_case` and separated by a `.`.", "Whether an empty key has a segment is open."),
    rule("key-length", Reject, "gguf.md", "gguf_metadata_kv_t, key", "It must be at most 2^16-1/65535 bytes long.", "A stated limit: readers may rely on it."),
    rule("key-ascii", Either, "gguf.md", "gguf_metadata_kv_t, key", "It must be a valid ASCII string.", "The key is invalid; whether the file is, no document says. The content is unambiguous."),
    rule("key-spelling", Either, "gguf.md", "gguf_metadata_kv_t, key", "Any keys that do not follow these rules are invalid.",
        "The key is invalid; whether the file is, no document says. llama.cpp's converter writes keys with dashes and upper case."),
    rule("key-duplicate", Either, "gguf.md", "gguf_header_t, metadata_kv_count", "The number of metadata key-value pairs.", "No document says that keys are unique. A reader that accepts the file and reports its pairs must report both."),
    rule("key-up-to-nul", Either, "reference", "C API", "Find a key by name; returns -1 if not found.", "The names of this interface end at a NUL, so that two keys of the file are one."),
    rule("value-type", Reject, "gguf.md", "gguf_metadata_kv_t, value_type", "Must be one of the `gguf_metadata_value_type` values.", "The size of the value is unknown."),
    rule("bool", Reject, "gguf.md", "gguf_metadata_value_type, BOOL", "Anything else is invalid, and should be treated as either the model being invalid or the reader being buggy.", ""),
    rule("utf-8", Either, "gguf.md", "gguf_metadata_value_type, STRING", "The value is a UTF-8 non-null-terminated string, with length prepended.", "What a reader does with other bytes is open. It must not crash."),
    rule("nesting-deep", Either, "gguf.md", "gguf_metadata_value_type, ARRAY", "Arrays can be nested, and the length of the array is the number of elements in the array, not the number of bytes.",
        "No document limits the depth. A reader may stop with an error beyond 16 levels; it must not exhaust its stack."),
    rule("alignment-type", Reject, "gguf.md", "General, general.alignment", "**`general.alignment: uint32`**: the global alignment to use, as described above.", "The value is not a number of this type and range."),
    rule("alignment-integer", Either, "gguf.md", "General, general.alignment", "**`general.alignment: uint32`**: the global alignment to use, as described above.", "The type is another integer; the value is in the range of uint32."),
    rule("alignment-value", Reject, "gguf.md", "General, general.alignment", "This can vary to allow for different alignment schemes, but it must be a multiple of 8.", ""),
    rule("alignment-zero", Reject, "gguf.md", "align_offset", "return offset + (ALIGNMENT - (offset % ALIGNMENT)) % ALIGNMENT;",
        "0 is a multiple of 8, but nothing can be divided by it: no offset is aligned, and the tensor data has no start."),
    rule("alignment-small", Either, "gguf.md", "General, general.alignment", "This can vary to allow for different alignment schemes, but it must be a multiple of 8.", "1, 2 and 4 are not multiples of 8. ggml reads and writes every power of two, and the content is unambiguous."),

    // Tensor infos.
    rule("name-length", Reject, "gguf.md", "gguf_tensor_info_t, name", "it must be at most 64 bytes long.", "A stated limit: readers may rely on it."),
    rule("name-duplicate", Either, "reference", "C API", "Add a tensor (name must be unique).",
        "A condition of a function that writes; no document says it of files. A reader that accepts the file and reports its tensors must report both."),
    rule("name-up-to-nul", Either, "reference", "C API", "Add a tensor (name must be unique).", "The names of this interface end at a NUL, so that two names of the file are one."),
    rule("dimensions", Either, "gguf.md", "gguf_tensor_info_t, n_dimensions", "Currently at most 4, but this may change in the future.", ""),
    rule("row", Either, "gguf.md", "gguf_tensor_info_t, dimensions", "The dimensions of the tensor.", "The first dimension is not a whole number of blocks. No document describes blocks; in ggml such a tensor has no size."),
    rule("size", Reject, "gguf.md", "gguf_file_t, tensor_data", "Each tensor's data must be stored within this array, and located through its `tensor_infos` entry.", "The size needs more than 63 bits: no file can hold it."),
    rule("size-empty", Either, "gguf.md", "gguf_tensor_info_t, dimensions", "The dimensions of the tensor.", "There are no elements, but the product of the other dimensions needs more than 63 bits."),
    rule("type-removed", Either, "gguf.md", "ggml_type", "GGML_TYPE_Q4_2 = 4, support has been removed",
        "Whether a file with a removed type is readable is open, and with it whether its data is complete: a reader that lists the tensor need not know its size. `expect` has the size that ggml had."),
    rule("type-16-to-18", Either, "gguf.md", "ggml_type", "GGML_TYPE_Q8_K = 15, GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_COUNT,",
        "By this list 16, 17 and 18 are I8, I16 and I32. By the reference, the overview and the newest gguf.md they are IQ2_XXS, IQ2_XS and IQ3_XXS, as in every program; `expect` has those."),
    rule("type-unlisted", Either, "reference", "ggml_type", "The ggml_type enum covers all supported tensor element types, including floating-point and quantized formats:",
        "The list does not have this id. Whether a reader may list a tensor of unknown size is open, and with it whether its data is complete. `expect` has the size of ggml, if it has one: \
        31 to 33 and 36 to 38 were removed, 40 to 42 are newer than the documents."),
    rule("offset-unaligned", Reject, "gguf.md", "gguf_tensor_info_t, offset", "Must be a multiple of `ALIGNMENT`.", ""),

    // Tensor data.
    rule("data-outside", Reject, "gguf.md", "gguf_file_t, tensor_data", "Each tensor's data must be stored within this array, and located through its `tensor_infos` entry.", "The file ends before the data does, or before it starts."),
    rule("no-data-section", Either, "gguf.md", "gguf_file_t, _padding", "Padding to the nearest multiple of `ALIGNMENT`.", "The file ends before the padding does, and its tensor has no data."),
    rule("empty-outside", Either, "gguf.md", "gguf_file_t, tensor_data", "Each tensor's data must be stored within this array, and located through its `tensor_infos` entry.",
        "The tensor has no data, and its offset is beyond the end of the file. Whether a place for nothing must be inside is open."),
    rule("data-overlap", Either, "gguf.md", "gguf_file_t, tensor_data", "Each tensor's data must be stored within this array, and located through its `tensor_infos` entry.", "No document says that data must not overlap. A writer never makes it so; a reader that copies tensors may be made to write far more than it reads."),
    rule("data-shared", Either, "gguf.md", "gguf_file_t, tensor_data", "Each tensor's data must be stored within this array, and located through its `tensor_infos` entry.", "No document says whether two tensors may share their data, as tied embeddings could."),
    rule("data-in-head", Reject, "draft", "gguf_file_t, tensor_data", "Each tensor's data must be stored within this array, and located through its `tensor_infos` entry.", "The offset is that of a byte of the head."),
    rule("padding", Either, "gguf.md", "File Structure", "Where required, the file is padded with `0x00` bytes to the next multiple of `general.alignment`.", "A reader need not look at padding."),

    // The draft.
    rule("draft-length", Reject, "draft", "gguf_metadata_kv_t, value_len", "The length of the value, in bytes", "The stated length is not that of the value."),
    rule("draft-elements", Reject, "draft", "gguf_tensor_info_t, n_elements", "The number of elements in the tensor.", "The stated number is not the product of the dimensions."),
    rule("draft-padding", Either, "draft", "File Structure", "To achieve this, where relevant, the file is padded with 0x00 bytes to the next multiple of ALIGNMENT.", "A reader need not look at padding."),

    // Files in which nothing is wrong.
    rule("header", Accept, "gguf.md", "gguf_header_t", "Must be `3` for version described in this spec, which introduces big-endian support.", ""),
    rule("embedded", Accept, "gguf.md", "gguf_file_t", "This is arbitrary binary data corresponding to the weights of the model.", "What follows the tensors is not described."),
    rule("after-the-data", Accept, "gguf.md", "gguf_file_t, tensor_data", "The offset of each tensor's data must be a multiple of `ALIGNMENT`, and the space between tensors should be padded to `ALIGNMENT` bytes.", "Nothing is said of what follows the last tensor."),
    rule("any-metadata", Accept, "gguf.md", "Standardized key-value pairs", "For omitted pairs, the reader should assume that the value is unknown and either default or error as appropriate.", "The structure is valid; what a program makes of the value is its own affair, but it must not crash."),
    rule("string", Accept, "gguf.md", "gguf_string_t", "The string as a UTF-8 non-null-terminated string.", "Any characters are allowed, NUL and control characters, too."),
    rule("pairs", Accept, "gguf.md", "gguf_header_t, metadata_kv_count", "The number of metadata key-value pairs.", "Other bytes than those of the pairs are tensor infos, padding or data."),
    rule("length", Accept, "gguf.md", "gguf_string_t, len", "The length of the string, in bytes.", ""),
    rule("array", Accept, "gguf.md", "gguf_metadata_value_t, len", "Number of elements, not bytes", ""),
    rule("values", Accept, "gguf.md", "gguf_metadata_value_type", "Must be one of the `gguf_metadata_value_type` values.", ""),
    rule("elements", Accept, "gguf.md", "gguf_metadata_value_t, type", "Any value type is valid, including arrays.", ""),
    rule("nested", Accept, "gguf.md", "gguf_metadata_value_type, ARRAY", "Arrays can be nested, and the length of the array is the number of elements in the array, not the number of bytes.", ""),
    rule("key", Accept, "gguf.md", "gguf_metadata_kv_t, key", "It is a standard GGUF string, with the following caveats:", ""),
    rule("bool-value", Accept, "gguf.md", "gguf_metadata_value_type, BOOL", "1-byte value where 0 is false and 1 is true.", ""),
    rule("alignment", Accept, "gguf.md", "General, general.alignment", "This can vary to allow for different alignment schemes, but it must be a multiple of 8.", ""),
    rule("name", Accept, "gguf.md", "gguf_tensor_info_t, name", "It is a standard GGUF string, with the caveat that it must be at most 64 bytes long.", ""),
    rule("shape", Accept, "gguf.md", "gguf_tensor_info_t, n_dimensions", "Currently at most 4, but this may change in the future.", "Nothing is said against 0 dimensions, which is one element, or a dimension of 0."),
    rule("type", Accept, "reference", "ggml_type", "The ggml_type enum covers all supported tensor element types, including floating-point and quantized formats:", "The sizes of blocks and the values in them are those of ggml."),
    rule("offset", Accept, "gguf.md", "gguf_tensor_info_t, offset", "This offset is relative to `tensor_data`, not to the start of the file, to make it easier for writers to write the file.", "Nothing is said of the order of data, or against unused bytes between tensors."),
    rule("shard", Accept, "reference", "Naming convention", "| Shard | <NNNNN>-of-<TOTAL>, 5-digit zero-padded | 00001-of-00003 |", "Each file of a set is a complete GGUF file."),
    rule("layout", Accept, "gguf.md", "gguf_file_t, _padding", "This can be calculated as `align_offset(position) - position`, where `position` is the position of the end of `tensor_infos` (i.e. `sizeof(header) + sizeof(tensor_infos)`).", ""),
];

/// The rule of this name.
pub fn rule_of(id: &str) -> &'static Rule {
    RULES.iter().find(|rule| rule.id == id).unwrap_or_else(|| panic!("no rule {id}"))
}

/// Files whose names begin alike.
pub struct Family {
    pub prefix: &'static str,
    /// What its files exercise.
    pub exercises: &'static str,
    /// The sentence that permits what they do if no other rule concerns them.
    pub permits: &'static str,
}

const fn family(prefix: &'static str, exercises: &'static str, permits: &'static str) -> Family {
    Family { prefix, exercises, permits }
}

#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    family("not-gguf", "files of other formats", "header"),
    family("embedded", "a GGUF file after or before other bytes", "embedded"),
    family("version", "versions and byte orders", "header"),
    family("trunc", "a file that ends at every boundary of its fields", "header"),
    family("head-only", "a tensor of zeros, which the recipe does not store", "offset"),
    family("tail", "what follows the tensor infos and the last tensor", "after-the-data"),
    family("sem", "metadata that must be handled with care", "any-metadata"),
    family("string", "the characters of strings", "string"),
    family("nkv", "the number of key-value pairs", "pairs"),
    family("ntensors", "the number of tensors", "pairs"),
    family("counts", "both numbers of the header", "pairs"),
    family("keylen", "the length of a key", "length"),
    family("strlen", "the length of a string value", "length"),
    family("tname-len", "the length of a tensor name", "length"),
    family("arrlen", "the length of an array", "array"),
    family("valuetype", "the types of values", "values"),
    family("arrtype", "the types of elements", "elements"),
    family("nest", "nested arrays", "nested"),
    family("key", "the spelling and length of keys", "key"),
    family("bool", "bools", "bool-value"),
    family("dup", "equal keys and equal tensor names", "pairs"),
    family("align", "general.alignment", "alignment"),
    family("tname", "tensor names", "name"),
    family("ndims", "the number of dimensions", "shape"),
    family("dims", "dimensions, and sizes that wrap", "shape"),
    family("type", "the types of tensors and the sizes of their blocks", "type"),
    family("unknown-type", "ids of tensor types that no document lists", "type"),
    family("off", "offsets, order, gaps and overlap of tensor data", "offset"),
    family("v1", "released files of version 1 that resemble drafts", "values"),
    family("draft", "the draft of version 1 and its variants", "values"),
    family("nul", "strings that count a trailing NUL", "string"),
    family("value", "the ends of the range of every value type", "values"),
    family("data", "the sizes of all tensor types, and decoded values of most", "type"),
    family("shard", "split models", "shard"),
    family("growth", "large files, made from a few bytes: memory and time", "pairs"),
    family("write", "models for writers, whose bytes are fixed", "layout"),
];

/// The family of a file: that with the longest matching prefix.
pub fn family_of(name: &str) -> &'static Family {
    let is_of = |family: &&Family| {
        name.strip_prefix(family.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            || family.prefix == "draft" && name.starts_with("draft")
    };
    FAMILIES
        .iter()
        .filter(is_of)
        .max_by_key(|family| family.prefix.len())
        .unwrap_or_else(|| panic!("no family of {name}"))
}

/// A question that the documents leave open, and the rules of the files that show it.
pub struct Question {
    pub id: &'static str,
    pub question: &'static str,
    /// What ggufkit does.
    pub answer: &'static str,
    pub rules: &'static [&'static str],
}

#[rustfmt::skip]
pub const QUESTIONS: &[Question] = &[
    Question { id: "byte-order", question: "How does a reader tell a big-endian file? gguf.md says that it cannot.", answer: "by the version word: a version of more than 65,535 is read in the other byte order", rules: &["big-endian"] },
    Question { id: "magic", question: "Is the magic four bytes or a number? The draft has both; gguf.md asks for the bytes in files of either byte order.", answer: "bytes; the reversed magic is read, too", rules: &["magic-reversed"] },
    Question { id: "old-versions", question: "Must a reader of version 3 read versions 1 and 2? gguf.md lists them and says that the version must be 3.", answer: "they are read", rules: &["version-1", "version-2"] },
    Question { id: "draft", question: "How is a draft told from the released version 1? Both have the number 1, and some bytes are valid in one of them only. Does the stated length of a value include its own length? Is full padding added to an aligned position? In which order are type and length of an array?", answer: "every variant is tried, and must fit to the end of the head", rules: &["draft", "draft-padding"] },
    Question { id: "nul", question: "Do strings that count a trailing NUL have one? Writers of August 2023 counted it.", answer: "in versions 1 and 2, the NUL is removed if every string has one", rules: &["counted-nul"] },
    Question { id: "keys", question: "Is a file with an invalid key invalid? gguf.md says so of the key only. Is an empty key invalid?", answer: "spelling is a warning; an empty key is an error", rules: &["key-ascii", "key-spelling", "key-empty"] },
    Question { id: "unique-keys", question: "Are keys and tensor names unique? Which one counts? Do they end at a NUL, as in the C interface?", answer: "duplicates are an error, also up to a NUL", rules: &["key-duplicate", "key-up-to-nul", "name-duplicate", "name-up-to-nul"] },
    Question { id: "utf-8", question: "What does a reader do with strings that are not UTF-8?", answer: "keeps the bytes; a warning", rules: &["utf-8"] },
    Question { id: "nesting", question: "How deep may arrays be nested?", answer: "64 levels", rules: &["nesting-deep"] },
    Question { id: "alignment", question: "Are 1, 2 and 4 alignments? gguf.md asks for a multiple of 8, ggml for a power of two. May the type be another integer?", answer: "read with a note; another type is an error", rules: &["alignment-small", "alignment-integer"] },
    Question { id: "dimensions", question: "May a tensor have more than 4 dimensions? gguf.md says currently not; the draft allows two.", answer: "an error", rules: &["dimensions"] },
    Question { id: "types", question: "Which tensor types exist, and how are 16, 17 and 18 named? The lists of the documents differ, and none has ids 40 and more. Is the data complete if the size is unknown?", answer: "the numbers of ggml; unknown ids are listed and are an error", rules: &["type-16-to-18", "type-removed", "type-unlisted"] },
    Question { id: "blocks", question: "How many bytes does a tensor have? No document has the sizes of blocks, or says that a row is a whole number of them.", answer: "as ggml", rules: &["row"] },
    Question { id: "empty-tensors", question: "May a dimension be 0? Must the data section exist for a tensor without data, and must its offset be inside?", answer: "yes; the file must reach the offset", rules: &["size-empty", "no-data-section", "empty-outside"] },
    Question { id: "overlap", question: "May tensors share bytes?", answer: "equal ranges are a warning, partial overlap is an error", rules: &["data-overlap", "data-shared"] },
    Question { id: "padding", question: "Must a reader reject padding that is not zero?", answer: "a warning", rules: &["padding"] },
    Question { id: "limits", question: "How long may strings and arrays be?", answer: "as long as the file", rules: &["large"] },
];
