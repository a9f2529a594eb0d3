//! What the libraries say, in terms of this program: which option or command helps.
//!
//! Libraries know no option and no command. Their errors are typed, so that what to do about one can be added here.

use std::path::Path;

use gguf_edit::EditError;
use gguf_hf::{AdapterProblem, FolderError};
use gguf_legacy::Topic;
use gguf_pipeline::Error as PipelineError;
use gguf_pipeline::plan::{Keep, Reason};
use gguf_quantize::mix::MixError;
use gguf_quantize::mix::recipe::RecipeError;
use gguf_quantize::{Error as QuantizeError, NothingToQuantize};

use crate::ui::shown_path;

/// Why a tensor has its type, with the names of options.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::Kept(Keep::LeaveOutput) => "kept: --leave-output-tensor".to_owned(),
        Reason::TokenEmbeddingType => "--token-embedding-type".to_owned(),
        Reason::OutputTensorType => "--output-tensor-type".to_owned(),
        Reason::TensorType(i) => format!("--tensor-type, number {}", i.saturating_add(1)),
        Reason::Pure => "--pure".to_owned(),
        reason => reason.to_string(),
    }
}

/// What can be done about an error of a run; empty, or to be added to its message.
pub fn for_run(e: &PipelineError) -> String {
    match e {
        PipelineError::NotFinite { .. } => "; `gguf check --data` tells which".to_owned(),
        PipelineError::Kept { why, .. } => match why.as_ref() {
            PipelineError::Output(e) if matches!(**e, gguf_io::Error::Exists(_)) => {
                "; remove that file or add --force, and the same command continues from there".to_owned()
            }
            _ => "; the same command continues from there".to_owned(),
        },
        PipelineError::OtherPlan { .. } => ", or start anew with --force".to_owned(),
        PipelineError::Padding { .. } => ", with --override-kv general.alignment=int:32".to_owned(),
        PipelineError::NotOurs { .. } => "; delete it, or replace it with --force".to_owned(),
        _ => String::new(),
    }
}

/// The same for an error of quantizing.
pub fn for_quantizing(e: &QuantizeError) -> String {
    match e {
        QuantizeError::Pipeline(e) => for_run(e),
        QuantizeError::Mix { source, .. } => for_mix(source),
        QuantizeError::NotAModel { what: NothingToQuantize::Matrix, .. } => ", and the matrix with --imatrix".to_owned(),
        QuantizeError::OverrideType { .. } => "; set it all the same with --allow-type-change".to_owned(),
        QuantizeError::Requantize { .. } => ", or allow it with --allow-requantize".to_owned(),
        QuantizeError::NeedsMatrix { given: false, .. } => "; give one with --imatrix".to_owned(),
        QuantizeError::NeedsMatrix { given: true, .. } => {
            "; give the tensor another type with --tensor-type, --token-embedding-type or --output-tensor-type, or a matrix that \
             was made with this model"
                .to_owned()
        }
        QuantizeError::MatrixAtFault { path, model, n_more: 1.., .. } => {
            let file = path.as_ref().map_or("FILE".to_owned(), |path| path.display().to_string());
            format!("; `gguf imatrix check {file} {}` shows all", model.display())
        }
        QuantizeError::NoCandidate { .. } => {
            "; add one with --candidates that fits, or give the tensor a type with --tensor-type".to_owned()
        }
        QuantizeError::SourceNotFinite { .. } => {
            ", or give the tensor its own type with --tensor-type; `gguf check --data` shows all such places".to_owned()
        }
        QuantizeError::Budget { is_fixed: false, .. } => {
            "; give a larger budget, or smaller types with --candidates".to_owned()
        }
        QuantizeError::Budget { is_fixed: true, .. } => {
            ": give a larger budget, or leave fewer of them fixed".to_owned()
        }
        _ => String::new(),
    }
}

/// The same for an error of the mixtures.
pub fn for_mix(e: &MixError) -> String {
    match e {
        MixError::PartialBlock { choice, .. } => format!(" ({})", reason(choice)),
        MixError::NoFallback { .. } | MixError::NoBlock { .. } => " with --tensor-type".to_owned(),
        _ => String::new(),
    }
}

/// The same for an error of a recipe.
pub fn for_recipe(e: &RecipeError) -> String {
    match e {
        RecipeError::Empty => ", as `gguf recipe show` prints".to_owned(),
        RecipeError::Mix(e) => for_mix(e),
        _ => String::new(),
    }
}

/// The same for an error of splitting, merging and the like.
pub fn for_edit(e: &gguf_edit::Error) -> String {
    match e {
        gguf_edit::Error::NotSplit { .. } => "; there is nothing to merge".to_owned(),
        gguf_edit::Error::ShardTooSmall { tensor: None, .. } => "; give a larger --max-file-size".to_owned(),
        gguf_edit::Error::ShardTooSmall { .. } => {
            "; give a larger --max-file-size, or --max-size, with which a tensor may stand out".to_owned()
        }
        gguf_edit::Error::TensorExists { .. } => "; --replace puts the new one in its place".to_owned(),
        gguf_edit::Error::OneTensor { .. } => "; let the name of the output end in .safetensors".to_owned(),
        gguf_edit::Error::NotEncodable { .. } => "; give another --type".to_owned(),
        gguf_edit::Error::NoTensor { nearest, .. } if nearest.is_empty() => {
            "; `gguf show --tensors` lists those there are".to_owned()
        }
        gguf_edit::Error::NoKey { .. } => "; `gguf show --kv` lists those there are".to_owned(),
        gguf_edit::Error::Foreign { .. } => "; give the shards of one model, and the output with -o".to_owned(),
        _ => String::new(),
    }
}

/// The same for an error of an edit.
pub fn for_editing(e: &EditError) -> String {
    match e.problem() {
        EditError::NotInPlace { .. } => "; leave --in-place out to allow that".to_owned(),
        EditError::TwoMeanings { .. } => "; say which with --keys or --tensors".to_owned(),
        EditError::TokenTwice { .. } => " with --special-token-id or --token-type-id".to_owned(),
        EditError::PadKey => "; --reserve makes it longer, and --rewrite removes it".to_owned(),
        EditError::NotDetermined { .. } => "; give it with --from".to_owned(),
        EditError::SameFile => "; give another one".to_owned(),
        _ => String::new(),
    }
}

/// The same for an error of a conversion.
pub fn for_conversion(e: &gguf_hf::Error) -> String {
    match e {
        gguf_hf::Error::Pipeline(e) => for_run(e),
        gguf_hf::Error::Gguf { .. } => "; `gguf quantize` makes one of another type of it".to_owned(),
        gguf_hf::Error::Folder(FolderError::UnknownPre { .. }) => " with --pre NAME".to_owned(),
        gguf_hf::Error::Adapter { source: AdapterProblem::NoBase { .. }, .. } => {
            "; give its folder with --base".to_owned()
        }
        _ => String::new(),
    }
}

/// What can be done about a file that cannot be read as GGUF.
pub fn for_reading(e: &gguf_io::Error) -> String {
    let is_other = |e: &gguf_format::Error| matches!(e.problem, gguf_format::Problem::NotGguf(_));
    match e {
        gguf_io::Error::Head { path, source } if is_other(source) => {
            legacy(path).map_or(String::new(), |said| format!("; it is {said}"))
        }
        _ => String::new(),
    }
}

/// What a legacy file is, and the command that makes a GGUF of it; `None` for other files.
pub fn legacy(path: &Path) -> Option<String> {
    let found = gguf_legacy::recognise(path).ok()??;
    let path = shown_path(path);
    Some(match found.problem {
        None => format!("{found}; `gguf migrate {path}` converts it to GGUF"),
        Some(_) => format!("{found}; fetch it again and run `gguf migrate {path}`"),
    })
}

/// The same for an error of a migration.
pub fn for_migration(e: &gguf_legacy::Error) -> String {
    match e {
        gguf_legacy::Error::UnknownArchitecture { tensor: None, .. } => "; name it with --arch".to_owned(),
        gguf_legacy::Error::Contradiction { what, .. } if what == "the number of tokens" => {
            "; leave --tokenizer and --config out to take the vocabulary in the file".to_owned()
        }
        _ => String::new(),
    }
}

/// The option that answers a question of a migration, with the proposed answer.
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

/// What to do about findings of rules for which this program has an option or a command.
const FINDINGS: &[(&str, &str)] = &[
    ("split.file", "fetch the missing shards, or check the file with --structure"),
    (
        "imatrix.chunk_size",
        "the weights are the same, but the old format needs the number; gguf imatrix convert writes it with --chunk-size",
    ),
    ("imatrix.uncovered.output", "nothing has to be done; llama-imatrix measures it with --process-output"),
    ("imatrix.finite", "measure the matrix again, or leave the entry out with --exclude-weights"),
    ("imatrix.needed", "measure the matrix with more text, or give the tensor another type with --tensor-type"),
    (
        "imatrix.foreign",
        "use a matrix that was measured on this very model; --include-weights and --exclude-weights have to leave some entries",
    ),
];

/// The hint of a rule, in terms of this program where it has more to say.
pub fn for_finding<'a>(code: &str, hint: &'a str) -> &'a str {
    FINDINGS.iter().find(|(rule, _)| *rule == code).map_or(hint, |(_, hint)| hint)
}
