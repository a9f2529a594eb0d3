//! What is known about one architecture: a row of the list.

use crate::config::Config;
use crate::dtype::SourceTensor;
use crate::model_plan::{ModelPlan, PlanError};

/// What is known about one architecture.
#[derive(Debug, Clone, Copy)]
pub struct Architecture {
    /// GGUF's name: the value of `general.architecture` and the prefix of the architecture's keys.
    pub name: &'static str,
    /// The checkpoint classes that become it: first entries of `architectures` in `config.json`.
    pub classes: &'static [&'static str],
    /// Fills in parameters and tensors.
    pub(crate) plan: fn(&Config, &[SourceTensor], &mut ModelPlan) -> Result<(), PlanError>,
}
