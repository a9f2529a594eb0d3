//! Errors about the target model of a draft model.

use std::fmt;

/// An error about a missing or superfluous target model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftModelProblem {
    /// The model is a draft model, and no target folder is given.
    NoTarget,
    /// A target folder is given, but the model is not a draft model.
    NotADraft,
}

impl fmt::Display for DraftModelProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DraftModelProblem::NoTarget => {
                "a draft model uses the tokenizer of its target model, whose folder is not given"
            }
            DraftModelProblem::NotADraft => "only a draft model has a target model, and this is not a draft model",
        })
    }
}

impl std::error::Error for DraftModelProblem {}
