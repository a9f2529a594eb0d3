//! The plan in JSON.

use std::borrow::Cow;
use std::fmt::Display;

use gguf_pipeline::plan::{Plan, Reason};
use serde::{Serialize, Serializer};

use super::Sizes;
use crate::cmd::preflight::{Checked, JsonDisk};
use crate::hints;

/// A plan.
#[derive(Serialize)]
pub struct JsonPlan<'a> {
    file_type: String,
    file_bytes: u64,
    tensor_bytes: u64,
    n_weights: u64,
    tensors: JsonTensors<'a>,
    /// Additional results of a conversion.
    #[serde(flatten)]
    checked: Option<Checked>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disks: Vec<JsonDisk>,
}

/// The plans of several outputs.
#[derive(Serialize)]
pub struct JsonPlans<'a> {
    pub plans: Vec<JsonPlan<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<JsonDisk>,
}

impl<'a> JsonPlan<'a> {
    pub fn of(plan: &'a Plan, file_type: impl Display) -> JsonPlan<'a> {
        let sizes = Sizes::of(plan);
        JsonPlan {
            file_type: file_type.to_string(),
            file_bytes: plan.file_bytes(),
            tensor_bytes: sizes.to,
            n_weights: sizes.weights,
            tensors: JsonTensors(plan),
            checked: None,
            disks: Vec::new(),
        }
    }

    /// Adds the results of a conversion's checks.
    pub fn checked(self, checked: Option<Checked>) -> JsonPlan<'a> {
        JsonPlan { checked, ..self }
    }

    /// Adds the free space on the output disks.
    pub fn on(self, disks: Vec<JsonDisk>) -> JsonPlan<'a> {
        JsonPlan { disks, ..self }
    }
}

/// The tensors, which are written one by one: there may be very many.
struct JsonTensors<'a>(&'a Plan);

impl Serialize for JsonTensors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.tensors().iter().map(|tensor| JsonTensor {
            name: String::from_utf8_lossy(&tensor.name),
            shape: &tensor.shape,
            from: tensor.from.to_string(),
            to: tensor.ty.to_string(),
            bytes: tensor.n_bytes(),
            reason: hints::reason(&tensor.reason),
            relative_error: match tensor.reason {
                Reason::Budget { relative_ppm } => Some(f64::from(relative_ppm) / 1e6),
                _ => None,
            },
            needs_imatrix: tensor.needs_importance,
        }))
    }
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: Cow<'a, str>,
    shape: &'a [u64],
    from: String,
    to: String,
    bytes: u64,
    reason: String,
    /// The measured error, if types are chosen for a target size.
    #[serde(skip_serializing_if = "Option::is_none")]
    relative_error: Option<f64>,
    needs_imatrix: bool,
}
