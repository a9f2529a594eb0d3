//! The index of a checkpoint in several files: the file of each tensor.

use std::fmt;

use serde::Deserialize;

use crate::files::is_plain_file_name;
use crate::safetensors::UniqueMap;

/// An error in an index of tensor files.
#[derive(Debug)]
#[non_exhaustive]
pub enum IndexProblem {
    /// The file is not JSON of the required form.
    Json(serde_json::Error),
    /// The index assigns a tensor to a file outside the folder.
    Part {
        /// The tensor.
        tensor: String,
        /// The file name.
        part: String,
    },
}

impl fmt::Display for IndexProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexProblem::Json(e) => write!(f, "{e}"),
            IndexProblem::Part { tensor, part } => {
                write!(
                    f,
                    "the index assigns the tensor {tensor:?} to {part:?}, expected the name of a file in the folder"
                )
            }
        }
    }
}

impl std::error::Error for IndexProblem {}

#[derive(Deserialize)]
struct IndexFile {
    weight_map: UniqueMap,
}

/// Parses an index into pairs of a tensor's name and the name of its file.
///
/// # Errors
/// If it is not JSON of the required form, or if a name leads out of the folder.
pub(super) fn parse(json: &[u8]) -> Result<Vec<(String, String)>, IndexProblem> {
    let index: IndexFile = serde_json::from_slice(json).map_err(IndexProblem::Json)?;
    let pairs = index.weight_map.0;
    match pairs.iter().find(|(_, part)| !is_plain_file_name(part)) {
        Some((tensor, part)) => Err(IndexProblem::Part { tensor: tensor.clone(), part: part.clone() }),
        None => Ok(pairs),
    }
}
