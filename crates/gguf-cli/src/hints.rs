//! What the libraries say, in terms of this program: which option or command helps.
//!
//! Libraries know no option and no command. Their errors are typed, so that what to do about one can be added here.

use gguf_hf::FolderError;
use gguf_pipeline::Error as PipelineError;
use gguf_pipeline::plan::{Keep, Reason};
use gguf_quantize::Error as QuantizeError;
use gguf_quantize::mix::MixError;
use gguf_quantize::mix::recipe::RecipeError;

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
        QuantizeError::NotAModel { .. } => ", and the matrix with --imatrix".to_owned(),
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

/// The same for an error of a conversion.
pub fn for_conversion(e: &gguf_hf::Error) -> String {
    match e {
        gguf_hf::Error::Pipeline(e) => for_run(e),
        gguf_hf::Error::Folder(FolderError::UnknownPre { .. }) => " with --pre NAME".to_owned(),
        _ => String::new(),
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
