//! Hints for errors of the libraries: the option or command of this program that helps.
//!
//! The libraries do not know the options and commands. Their errors are typed, so that hints can be added here. A hint is shown on a line of its
//! own, `help: …`.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;

use gguf_edit::EditError;
use gguf_edit::join::is_piece;
use gguf_format::{FileKind, Problem};
use gguf_hf::export::ExportProblem;
use gguf_hf::{AdapterProblem, DraftModelProblem, FolderError, Mtp, PlanError};
use gguf_legacy::Topic;
use gguf_pipeline::Error as PipelineError;
use gguf_pipeline::plan::{Keep, Reason};
use gguf_quantize::mix::MixError;
use gguf_quantize::mix::recipe::RecipeError;
use gguf_quantize::{Error as QuantizeError, NothingToQuantize};

use crate::open;
use crate::stdin::is_stdin;
use crate::ui::shown_path;

/// The reason for a tensor's type, with the names of the options.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Kept(Keep::LeaveOutput) => "kept: --leave-output-tensor".to_owned(),
        Reason::TokenEmbeddingType => "--token-embedding-type".to_owned(),
        Reason::OutputTensorType => "--output-tensor-type".to_owned(),
        Reason::Pure => "--pure".to_owned(),
        reason => reason.to_string(),
    }
}

/// The hint about the option that allows other value types for keys.
const ALLOW_TYPE_CHANGE: &str = "use --allow-type-change to set it anyway";

/// The hint for an error of a run.
pub fn for_run(e: &PipelineError) -> Option<String> {
    Some(match e {
        PipelineError::NotFinite { .. } => "`gguf check --data` searches the input for such values".to_owned(),
        PipelineError::Kept { why, .. } => match why.as_ref() {
            PipelineError::Output(e) if matches!(**e, gguf_io::Error::Exists(_)) => {
                "remove that file or add --force, and repeat the command to continue".to_owned()
            }
            _ => "repeat the command to continue".to_owned(),
        },
        PipelineError::OtherPlan { .. } => {
            "use the options and inputs of that run, or start over with --force".to_owned()
        }
        PipelineError::Padding { .. } => "set it with --override-kv general.alignment=int:32".to_owned(),
        PipelineError::NotOurs { .. } => "delete it, or overwrite it with --force".to_owned(),
        _ => return None,
    })
}

/// The hint for a quantization error.
pub fn for_quantizing(e: &QuantizeError) -> Option<String> {
    Some(match e {
        QuantizeError::Pipeline(e) => for_run(e)?,
        QuantizeError::Mix { source, .. } => for_mix(source)?,
        QuantizeError::Matrix(e) => e.path.as_deref().and_then(wrong_kind)?,
        QuantizeError::NotAModel { what: NothingToQuantize::Matrix, .. } => {
            "pass the model as the input, and the matrix with --imatrix".to_owned()
        }
        QuantizeError::OverrideType { .. } => ALLOW_TYPE_CHANGE.to_owned(),
        QuantizeError::Requantize { .. } => "--allow-requantize quantizes it nevertheless".to_owned(),
        QuantizeError::NeedsMatrix { given: false, .. } => "pass one with --imatrix".to_owned(),
        QuantizeError::NeedsMatrix { given: true, .. } => {
            "choose another type with --tensor-type, --token-embedding-type or --output-tensor-type, or use a matrix \
                measured on this model"
                .to_owned()
        }
        QuantizeError::MatrixAtFault { path, model, n_more: 1.., .. } => {
            let file = path.as_ref().map_or("FILE".to_owned(), |path| path.display().to_string());
            format!("`gguf imatrix check {file} {}` lists all problems", model.display())
        }
        QuantizeError::NoCandidate { .. } => {
            "add a suitable type to --candidates, or set the type of this tensor with --tensor-type".to_owned()
        }
        QuantizeError::SourceNotFinite { .. } => {
            "keep the current type of the tensor with --tensor-type; `gguf check --data` lists all such values"
                .to_owned()
        }
        QuantizeError::OtherSensitivities { .. } => {
            "pass with --sensitivity what `gguf sensitivity` wrote for this model".to_owned()
        }
        QuantizeError::Budget { is_fixed: false, .. } => {
            "use a larger budget, or add smaller types to --candidates".to_owned()
        }
        QuantizeError::Budget { is_fixed: true, .. } => "use a larger budget, or fix fewer types".to_owned(),
        _ => return None,
    })
}

/// The hint for an error of evaluation.
#[cfg(feature = "engine")]
pub fn for_engine(kind: gguf_engine::ErrorKind) -> Option<String> {
    use gguf_engine::ErrorKind;
    Some(match kind {
        ErrorKind::NotFound => {
            "install llama.cpp as shared libraries, and name their folder with --llama or GGUF_LLAMA".to_owned()
        }
        ErrorKind::Library => {
            "use the shared libraries of a llama.cpp of June 2025 (b5640) or later: --llama or GGUF_LLAMA names their folder"
                .to_owned()
        }
        ErrorKind::NoDevice => {
            "put the backends of the same build, such as libggml-cpu, into the folder of libllama".to_owned()
        }
        ErrorKind::Context => "use a smaller --ctx or --batch".to_owned(),
        ErrorKind::NotFinite => "`gguf check --data` searches the model for numbers that are not finite".to_owned(),
        ErrorKind::Text => "use a longer text, or a smaller --ctx".to_owned(),
        ErrorKind::Mismatch => "use the base file of a model with the same vocabulary".to_owned(),
        _ => return None,
    })
}

/// The hint for an error in choosing the tensor types.
pub fn for_mix(e: &MixError) -> Option<String> {
    Some(match e {
        MixError::PartialBlock { choice, .. } => format!("its type comes from: {}", reason(choice)),
        MixError::NoFallback { .. } | MixError::NoBlock { .. } => "--tensor-type sets the type of a tensor".to_owned(),
        _ => return None,
    })
}

/// The hint for a recipe error.
pub fn for_recipe(e: &RecipeError) -> Option<String> {
    Some(match e {
        RecipeError::Empty => "`gguf recipe show` prints one".to_owned(),
        RecipeError::Mix(e) => for_mix(e)?,
        _ => return None,
    })
}

/// The hint for an error of splitting, merging and similar operations.
pub fn for_edit(e: &gguf_edit::Error) -> Option<String> {
    Some(match e {
        gguf_edit::Error::NotSplit { .. } => "there is nothing to merge".to_owned(),
        gguf_edit::Error::ShardTooSmall { tensor: None, .. } => "use a larger --max-file-size".to_owned(),
        gguf_edit::Error::ShardTooSmall { .. } => {
            "use a larger --max-file-size, or --split-max-size, which a single tensor may exceed".to_owned()
        }
        gguf_edit::Error::TensorExists { .. } => "use --replace to replace it".to_owned(),
        gguf_edit::Error::OneTensor { .. } => "use an output name that ends in .safetensors".to_owned(),
        gguf_edit::Error::NotEncodable { .. } => "choose another --type".to_owned(),
        gguf_edit::Error::NoTensor { nearest, .. } if nearest.is_empty() => {
            "`gguf show --tensors` lists all tensors".to_owned()
        }
        gguf_edit::Error::NoKey { .. } => "`gguf show --kv` lists all keys".to_owned(),
        gguf_edit::Error::Foreign { .. } => "pass the shards of one model, and the output with -o".to_owned(),
        _ => return None,
    })
}

/// The hint for an error of a metadata edit.
pub fn for_editing(e: &EditError) -> Option<String> {
    Some(match e.problem() {
        EditError::Line { error, .. } => for_editing(error)?,
        EditError::Value { kind, .. } if kind.to_string() == "string" => "write strings in quotes: \"text\"".to_owned(),
        EditError::NotInPlace { .. } => "omit --in-place to allow it".to_owned(),
        EditError::TwoMeanings { .. } => "choose with --keys or --tensors".to_owned(),
        EditError::TokenTwice { .. } => "--special-token-id and --token-type-id take an id".to_owned(),
        EditError::TypeChange { .. } => ALLOW_TYPE_CHANGE.to_owned(),
        EditError::PadKey => "--reserve enlarges it, and --rewrite removes it".to_owned(),
        EditError::NotPadding => format!("`gguf unset FILE {}` removes it", gguf_edit::PAD_KEY),
        EditError::NotDetermined { .. } => "pass one with --from".to_owned(),
        EditError::SameFile => "pass another file".to_owned(),
        EditError::NotACopy { is_alike: true, .. } => {
            "if the head is damaged, --exact makes the file the same as the copy".to_owned()
        }
        _ => return None,
    })
}

/// The hint for a conversion error.
pub fn for_conversion(e: &gguf_hf::Error) -> Option<String> {
    Some(match e {
        gguf_hf::Error::Pipeline(e) => for_run(e)?,
        gguf_hf::Error::Gguf { .. } => "to change its type, use `gguf quantize`; to compare two GGUF files, `gguf diff`".to_owned(),
        gguf_hf::Error::Folder(FolderError::UnknownPre { .. }) => "--pre NAME sets the pre-tokenizer".to_owned(),
        gguf_hf::Error::Folder(
            FolderError::Json { file, .. } | FolderError::NotUtf8 { file, .. } | FolderError::Invalid { file, .. },
        )
        | gguf_hf::Error::Safetensors { file, .. }
        | gguf_hf::Error::Torch { file, .. }
        | gguf_hf::Error::Index { index: file, .. }
        | gguf_hf::Error::Config { file, .. }
            // The library already reports git-lfs pointers in place of tensors.
            if !e.to_string().contains("git-lfs") =>
        {
            wrong_kind(file)?
        }
        gguf_hf::Error::DraftModel { source: DraftModelProblem::NoTarget, .. } => "pass it with --target".to_owned(),
        gguf_hf::Error::DraftModel { source: DraftModelProblem::NotADraft, .. } => "omit --target".to_owned(),
        gguf_hf::Error::Plan { source: PlanError::NotSeparate { asked, .. }, .. } => match asked {
            Mtp::Only => "omit --mtp".to_owned(),
            _ => "omit --no-mtp".to_owned(),
        },
        gguf_hf::Error::Plan { source: PlanError::NoMtp { .. }, .. } => "omit --mtp".to_owned(),
        gguf_hf::Error::NotMistral { .. } => "omit --mistral-format".to_owned(),
        gguf_hf::Error::Plan { source: PlanError::NotFused { .. }, .. } => "omit --fuse-gate-up-exps".to_owned(),
        gguf_hf::Error::Adapter { source: AdapterProblem::NoBase { .. }, .. } => {
            "pass its folder with --base".to_owned()
        }
        gguf_hf::Error::Export { problem, .. } if **problem == ExportProblem::NoBase => {
            "pass the base model with --base".to_owned()
        }
        gguf_hf::Error::Export { problem, .. } if **problem == ExportProblem::NotAnAdapter => "omit --base".to_owned(),
        _ => return None,
    })
}

/// The hint for a file that cannot be read as GGUF.
pub fn for_reading(e: &gguf_io::Error) -> Option<String> {
    Some(match e {
        gguf_io::Error::Head { path, .. } if is_piece(path) => {
            format!("judging by its name, it is a piece of a file: `{}` joins the pieces", merge_of(path))
        }
        gguf_io::Error::Head { path, source } => match source.problem {
            Problem::NotGguf(FileKind::OldMatrix) => {
                let shown = shown_path(path);
                format!("`gguf imatrix show {shown}` shows it, and `gguf quantize` takes it with --imatrix")
            }
            Problem::NotGguf(FileKind::Modelfile) => base_of_modelfile(path)?,
            Problem::NotGguf(_) => legacy(path)?.remedy,
            _ => return None,
        },
        gguf_io::Error::Io { path, source, .. } if is_stdin(path) && source.kind() == io::ErrorKind::NotFound => {
            "this command does not read standard input: pass a file".to_owned()
        }
        gguf_io::Error::NotAFile(path) => folder(path)?,
        _ => return None,
    })
}

/// The command that joins the pieces of a file.
pub fn merge_of(piece: &Path) -> String {
    format!("gguf merge {} -o model.gguf", shown_path(piece))
}

/// A description of a folder's content, with the command for it; `None` if it contains no model.
fn folder(dir: &Path) -> Option<String> {
    let shown = shown_path(dir);
    let holds = |name: &str| dir.join(name).is_file();
    let is_gguf = |path: &Path| path.extension().is_some_and(|extension| extension == "gguf");
    let first = || std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).filter(|path| is_gguf(path)).min();
    if holds("adapter_config.json") {
        Some(format!("it holds a LoRA adapter, which `gguf convert {shown} -o adapter.gguf` converts"))
    } else if holds("config.json") {
        Some(format!("it holds a checkpoint, which `gguf convert {shown} -o model.gguf` converts"))
    } else {
        first().map(|path| format!("pass a file in it, such as {}", shown_path(&path)))
    }
}

/// The first 4096 bytes of a file; empty if it cannot be read.
fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    if let Ok(Ok(stream)) = open::any(path).as_ref().map(|source| source.stream(0)) {
        let _ = stream.take(4096).read_to_end(&mut start);
    }
    start
}

/// The base model of a Modelfile.
fn base_of_modelfile(path: &Path) -> Option<String> {
    let start = start_of(path);
    let base = start.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"FROM "))?.trim_ascii();
    let is_path = base.contains(&b'/') && base.contains(&b'.') || base.ends_with(b".gguf");
    let base = gguf_format::check::shown(gguf_format::Str(base));
    let base = base.trim_matches('"');
    Some(match is_path {
        true => format!("pass {base}"),
        false => format!("pass ollama://{base}"),
    })
}

/// A description of an unexpected kind of file, with a hint; `None` if the kind is not recognized.
pub fn wrong_kind(path: &Path) -> Option<String> {
    let start = start_of(path);
    let kind = FileKind::of(start.get(..512).unwrap_or(&start));
    let is_told = matches!(
        kind,
        FileKind::Empty
            | FileKind::GitLfsPointer
            | FileKind::Html
            | FileKind::ErrorText
            | FileKind::Zeros
            | FileKind::Gzip
            | FileKind::Zstd
            | FileKind::Tar
            | FileKind::Xz
            | FileKind::Bzip2
            | FileKind::SevenZip
    );
    (is_told && (open::is_url(path) || path.is_file())).then(|| format!("the file is {kind}: {}", kind.hint()))
}

/// A legacy file.
pub struct Legacy {
    /// What it is.
    pub what: String,
    /// The command that converts it to GGUF.
    pub remedy: String,
}

/// A description of a legacy file; `None` for other files.
pub fn legacy(path: &Path) -> Option<Legacy> {
    let found = gguf_legacy::recognise_source(&open::any(path).ok()?).ok()??;
    let path = shown_path(path);
    let remedy = match found.problem {
        None => format!("convert it with `gguf migrate {path}`"),
        Some(_) => format!("fetch it again and run `gguf migrate {path}`"),
    };
    Some(Legacy { what: found.to_string(), remedy })
}

/// The hint for a migration error.
pub fn for_migration(e: &gguf_legacy::Error) -> Option<String> {
    Some(match e {
        gguf_legacy::Error::UnknownArchitecture { tensor: None, .. } => "specify it with --arch".to_owned(),
        gguf_legacy::Error::Contradiction { what, .. } if what == "the number of tokens" => {
            "omit --tokenizer and --config to use the vocabulary of the file".to_owned()
        }
        _ => return None,
    })
}

/// The option that answers a migration question, with the proposed answer.
pub fn for_question(topic: Topic, proposal: &str) -> String {
    match topic {
        Topic::ContextLength => format!("--context-length {proposal}"),
        Topic::NormEpsilon => format!("--eps {proposal}"),
        Topic::RopeFreqBase => format!("--rope-freq-base {proposal}"),
        Topic::LostTokens => "--tokenizer DIR, or --without-lost-tokens".to_owned(),
        Topic::Generation => format!("--block-generation {proposal}"),
        Topic::Pooling => format!("--pooling {proposal}"),
        _ => proposal.to_owned(),
    }
}

/// Hints for findings of rules for which this program has an option or a command.
const FINDINGS: &[(&str, &str)] = &[
    // The format.
    (
        "head.past_end",
        "the file is truncated or a length in it is wrong; fetch it again, or run gguf repair FILE to see what is intact",
    ),
    ("key.empty", "remove the pair with gguf edit FILE"),
    ("key.length", "remove the pair or shorten its key with gguf edit FILE"),
    ("key.duplicate", "remove all but one with gguf edit FILE; which one is read depends on the reader"),
    ("value.bool", "write 0 or 1 with gguf set FILE KEY=false or KEY=true"),
    ("alignment.type", "write it as u32 with gguf set FILE general.alignment:u32=32"),
    ("tensor.name.length", "shorten the name with gguf rename FILE OLD=NEW"),
    ("tensor.duplicate", "remove all but one with gguf rm-tensor; which one is read depends on the reader"),
    ("tensor.type.removed", "gguf migrate FILE -o OUT converts the tensor to a current type"),
    (
        "tensor.bounds",
        "the file is truncated or the offset is wrong; fetch it again, or run gguf repair FILE to see what is intact",
    ),
    ("file.truncated", "the file is truncated; fetch it again, or run gguf repair FILE to see what is intact"),
    ("data.gap", "gguf upgrade FILE OUT rewrites the file and closes the gap"),
    ("data.order", "gguf upgrade FILE OUT rewrites the file in order"),
    ("data.padding", "gguf upgrade FILE OUT rewrites the file; the padding may hide data"),
    ("file.trailing", "inspect the extra bytes, or rewrite the file with gguf upgrade FILE OUT"),
    ("file.tail", "gguf repair FILE --mend appends zero bytes"),
    ("key.spelling", "rename the key with gguf rename FILE OLD=NEW"),
    ("key.ascii", "rename the key with gguf rename FILE OLD=NEW"),
    ("key.nul", "rename the key with gguf edit FILE; C programs read only the part before the NUL"),
    ("value.utf8", "rewrite the text as UTF-8 with gguf set FILE KEY=TEXT"),
    (
        "value.nul",
        "write the text without it with gguf set FILE KEY=TEXT; C programs read only the part before the NUL",
    ),
    (
        "tensor.name.64",
        "shorten the name with gguf rename FILE OLD=NEW: ggml rejects it, because its field of 64 bytes includes a NUL",
    ),
    ("tensor.name.utf8", "rename the tensor with gguf rename FILE OLD=NEW; gguf-py rejects the file"),
    ("file.draft", "the draft of version 1 of mid 2023; gguf upgrade FILE OUT writes version 3"),
    ("file.nul_strings", "written by ggml of August 2023; gguf upgrade FILE OUT writes version 3"),
    ("file.magic", "llama.cpp and most other readers reject it; gguf upgrade FILE OUT writes the usual magic"),
    ("readers.version", "llama.cpp and gguf-py reject version 1; gguf upgrade FILE OUT writes version 3"),
    (
        "readers.byte_order",
        "llama.cpp reads such a file on big-endian machines only; gguf swap FILE OUT changes the byte order",
    ),
    ("readers.offsets", "llama.cpp rejects it; gguf upgrade FILE OUT rewrites the file"),
    ("readers.key", "rename the key with gguf rename FILE OLD=NEW"),
    // Models.
    ("arch.missing", "the model cannot be loaded without it; gguf set FILE general.architecture=NAME sets it"),
    ("key.missing", "add the key with gguf set FILE KEY=VALUE; converting again from the source does, too"),
    ("key.type", "gguf set FILE KEY=VALUE rewrites the value in this type"),
    ("key.type.unread", "gguf set FILE KEY=VALUE rewrites the value in this type; llama.cpp does not read it"),
    ("key.width", "gguf set FILE KEY=VALUE rewrites the value in this type"),
    ("key.misspelt", "rename the key with gguf rename FILE OLD=NEW if it is misspelt"),
    ("key.renamed", "rename the key with gguf rename FILE OLD=NEW"),
    ("key.other_arch", "remove the key with gguf unset FILE KEY, or correct general.architecture with gguf set"),
    ("value.choice", "correct the value with gguf set FILE KEY=VALUE"),
    ("value.rejected", "llama.cpp rejects the model; correct the value with gguf set FILE KEY=VALUE"),
    ("value.range", "correct the value with gguf set FILE KEY=VALUE; converting again from the source does, too"),
    ("value.finite", "correct the value with gguf set FILE KEY=VALUE; converting again from the source does, too"),
    ("value.array_length", "correct the array with gguf set FILE KEY=[..]; converting again from the source does, too"),
    ("value.heads", "correct the number of heads with gguf set FILE KEY=VALUE"),
    ("value.rope", "correct the value with gguf set FILE KEY=VALUE"),
    ("value.rope.llama", "llama.cpp rejects the model; correct the value with gguf set FILE KEY=VALUE"),
    ("value.experts", "correct expert_count or expert_used_count with gguf set FILE KEY=VALUE"),
    ("value.expert_groups", "correct expert_group_count or expert_group_used_count with gguf set FILE KEY=VALUE"),
    (
        "tensor.block.extra",
        "correct the block count with gguf set FILE KEY=VALUE, or remove the tensors with gguf rm-tensor",
    ),
    ("tensor.unexpected", "llama.cpp rejects the model with it; gguf rm-tensor FILE OUT TENSOR removes it"),
    ("file_type.unknown", "correct it with gguf set FILE general.file_type=NUMBER"),
    ("file_type.mismatch", "correct it with gguf set FILE general.file_type=NUMBER"),
    ("quantization_version.missing", "gguf set FILE general.quantization_version=2 sets it"),
    (
        "tokenizer.pre",
        "llama.cpp falls back to a pre-tokenizer that is often wrong; gguf set FILE tokenizer.ggml.pre=NAME sets it",
    ),
    ("template.missing", "gguf set FILE --chat-template-file TEMPLATE sets tokenizer.chat_template"),
    (
        "template.syntax",
        "correct it with gguf set FILE --chat-template-file TEMPLATE; llama.cpp loads the model, but cannot render conversations",
    ),
    (
        "template.suspicious",
        "read it with gguf get FILE tokenizer.chat_template before rendering it: it accesses Python internals",
    ),
    ("split.keys", "split the model again with gguf split"),
    ("split.duplicate", "split the model again with gguf split"),
    ("split.file", "fetch the missing shards, or check the file with --structure"),
    ("name.shard", "gguf name FILE --rename renames the file; llama.cpp finds shards by their names"),
    ("name.encoding", "gguf name FILE --rename renames the file, or correct general.file_type with gguf set"),
    ("name.size", "gguf name FILE --rename renames the file"),
    ("name.convention", "gguf name FILE --rename renames the file"),
    // Importance matrices.
    ("imatrix.keys", "llama-quantize rejects the file; gguf imatrix convert writes the keys"),
    (
        "imatrix.trailing",
        "llama.cpp does not read them; fetch the file again, or remove them with gguf imatrix convert",
    ),
    (
        "imatrix.chunk_size",
        "the weights are unaffected, but the .dat format needs the chunk size; `gguf imatrix convert --chunk-size N` records it",
    ),
    ("imatrix.uncovered.output", "no action needed; llama-imatrix measures it with --process-output"),
    ("imatrix.finite", "measure the matrix again, or ignore the entry with --exclude-weights"),
    ("imatrix.needed", "measure the matrix with more text, or choose another type with --tensor-type"),
    (
        "imatrix.foreign",
        "use a matrix measured on this model; --include-weights and --exclude-weights must leave some entries",
    ),
];

/// The hint of a finding, extended with the entry in `FINDINGS`. The entry replaces the general hint of the rule, and is appended to a
/// hint that is specific to the finding.
pub fn for_finding<'a>(code: &str, hint: &'a str) -> Cow<'a, str> {
    let Some((_, own)) = FINDINGS.iter().find(|(rule, _)| *rule == code) else { return hint.into() };
    let mut rules = ggufkit::Check::RULES.iter().copied().chain([gguf_quantize::imatrix::RULES]).flatten();
    match rules.any(|rule| rule.code == code && rule.hint == hint) {
        true => (*own).into(),
        false => format!("{hint}; {own}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every hint belongs to a rule, and every command in a hint exists.
    #[test]
    fn hints_name_rules_and_commands() {
        let rules = || ggufkit::Check::RULES.iter().copied().chain([gguf_quantize::imatrix::RULES]).flatten();
        let commands = crate::commands::definition();
        for (code, hint) in FINDINGS {
            assert!(rules().any(|rule| rule.code == *code), "{code}");
            for after in hint.split("gguf ").skip(1) {
                let name: String = after.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                assert!(commands.find_subcommand(&name).is_some(), "{hint}: {name}");
            }
        }
    }
}
