//! The JSON form of `gguf verify`.

use std::io;
use std::path::Path;

use gguf_edit::KeyDiff;
use ggufkit::verify::{Cause, Difference, Encoding, Program, State, Verification, VerifiedTensor};
use serde::Serialize;

use super::super::diff::JsonKey;
use super::type_name;
use crate::json::{self, List, Text};
use crate::ui::Ui;

#[derive(Serialize)]
struct JsonVerification<'a, K, T> {
    file: Text<'a>,
    against: Text<'a>,
    same: bool,
    made: JsonMade<'a>,
    n_same_keys: usize,
    keys: K,
    tensors: T,
}

#[derive(Serialize)]
struct JsonMade<'a> {
    file_type: Option<String>,
    program: Option<&'static str>,
    imatrix: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonVerifiedKey<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    description: bool,
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: &'a str,
    r#type: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<JsonEncoding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<JsonBlocks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shapes: Option<[&'a [u64]; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<JsonCause<'a>>,
}

/// What explains a difference.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum JsonCause<'a> {
    HasDataOf(&'a str),
    NotRearranged(bool),
    Matrices { first: u64, last: u64, zero: bool },
    Zero(bool),
}

#[derive(Serialize)]
struct JsonEncoding {
    rounded_to: Option<String>,
    weighted: bool,
}

#[derive(Serialize)]
struct JsonBlocks {
    compared: u64,
    different: u64,
    first_different_byte: Option<u64>,
    /// The largest error as a part of the bound of the type, if values were compared.
    largest_error: Option<f32>,
}

pub fn print(ui: &mut Ui, file: &Path, against: &Path, verification: &Verification, same: bool) -> io::Result<()> {
    let made = &verification.made;
    let document = JsonVerification {
        file: json::path(file),
        against: json::path(against),
        same,
        made: JsonMade {
            file_type: made.file_type.map(|ty| ty.to_string()),
            program: made.program.and_then(|program| match program {
                Program::Converter => Some("converter"),
                Program::Quantizer => Some("quantizer"),
                _ => None,
            }),
            imatrix: made.imatrix.as_deref(),
        },
        n_same_keys: verification.n_same_keys,
        keys: List(|| verification.keys.iter().map(|key| JsonVerifiedKey::of(verification, key))),
        tensors: List(|| verification.tensors.iter().map(JsonTensor::of)),
    };
    json::print(ui, 3, &document)
}

impl<'a> JsonVerifiedKey<'a> {
    fn of(verification: &'a Verification, key: &KeyDiff) -> JsonVerifiedKey<'a> {
        let names = ["checkpoint", "file"];
        JsonVerifiedKey {
            key: JsonKey::of(verification.values(key), names, true),
            description: verification.is_description(key),
        }
    }
}

impl<'a> JsonTensor<'a> {
    fn of(tensor: &'a VerifiedTensor) -> JsonTensor<'a> {
        let mut json = JsonTensor {
            name: &tensor.name,
            r#type: type_name(tensor.ty),
            state: tensor.state.name(),
            encoding: None,
            blocks: None,
            shapes: None,
            cause: tensor.cause.as_ref().and_then(|cause| match cause {
                Cause::Other(name) => Some(JsonCause::HasDataOf(name)),
                Cause::NotRearranged => Some(JsonCause::NotRearranged(true)),
                Cause::Matrices { first, last, are_zero } => {
                    Some(JsonCause::Matrices { first: *first, last: *last, zero: *are_zero })
                }
                Cause::Zeros => Some(JsonCause::Zero(true)),
                _ => None,
            }),
        };
        match &tensor.state {
            State::Encoded(Encoding { rounded_to, is_weighted, .. }) => {
                json.encoding = Some(JsonEncoding { rounded_to: type_name(*rounded_to), weighted: *is_weighted });
            }
            State::Different(Difference::Shape(planned, stored)) => json.shapes = Some([planned, stored]),
            State::Different(Difference::Bytes(compared)) => {
                json.blocks = Some(JsonBlocks {
                    compared: compared.n_blocks,
                    different: compared.n_different,
                    first_different_byte: compared.first,
                    largest_error: None,
                });
            }
            State::Within(explained) | State::Different(Difference::Errors(explained)) => {
                json.blocks = Some(JsonBlocks {
                    compared: explained.n_blocks,
                    different: explained.n_outside,
                    first_different_byte: explained.first,
                    largest_error: Some(explained.largest).filter(|largest| largest.is_finite()),
                });
            }
            _ => {}
        }
        json
    }
}
