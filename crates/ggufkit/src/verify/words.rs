//! Results of a verification as words.

use std::fmt;

use gguf_format::GgmlType;
use gguf_format::check::grouped;
use gguf_pipeline::verify::{Compared, Explained};

use super::{Cause, Difference, Encoding, State, VerifiedTensor};

impl VerifiedTensor {
    pub(super) fn new(name: String, ty: Option<GgmlType>, state: State) -> VerifiedTensor {
        VerifiedTensor { name, ty, state, cause: None }
    }

    /// What is known about its data, for reports; empty if the state says everything.
    pub fn details(&self) -> String {
        let details = match &self.state {
            State::Encoded(encoding) => encoding.to_string(),
            State::Within(explained) => format!("largest error {:.0} % of the bound", explained.largest * 100.0),
            State::Missing => "only in the checkpoint".to_owned(),
            State::Extra => "only in the file".to_owned(),
            State::Different(difference) => self.difference(difference),
            State::Identical | State::Rounded => String::new(),
        };
        let one = self.matrix();
        let cause = match &self.cause {
            None => return details,
            Some(Cause::Other(name)) => format!("has the data of {name}"),
            Some(Cause::NotRearranged) => "has the order of the checkpoint".to_owned(),
            Some(Cause::Zeros) => "all of them are zero in the file".to_owned(),
            Some(Cause::Matrices { first, last, are_zero }) => {
                let place =
                    if first == last { format!("{one} {first}") } else { format!("{one} {first} to {one} {last}") };
                format!("all in {place}{}", if *are_zero { ", where the file has zeros" } else { "" })
            }
        };
        format!("{details}; {cause}")
    }

    fn difference(&self, difference: &Difference) -> String {
        let place = |first: Option<u64>| first.map_or(String::new(), |at| format!("; the first at byte {at}"));
        match difference {
            Difference::Shape(planned, stored) => {
                let missing = missing_matrices(planned, stored).map(|n| match n {
                    1 => format!("; 1 {} is missing", self.matrix()),
                    n => format!("; {n} of {} {} are missing", planned.last().unwrap_or(&0), self.matrices()),
                });
                let [planned, stored] = [planned, stored].map(|of| shape(of));
                format!("shape {stored}, expected {planned}{}", missing.unwrap_or_default())
            }
            Difference::Type { planned } => format!("cannot be compared with {planned}"),
            Difference::Bytes(Compared { n_blocks, n_different, is_whole, first, .. }) => {
                let differ = if *n_different == 1 { "differs" } else { "differ" };
                let so_far = if *is_whole { "" } else { "the first " };
                let [n, all] = [n_different, n_blocks].map(|n| grouped(*n));
                format!("{n} of {so_far}{all} blocks {differ}{}", place(*first))
            }
            Difference::Errors(Explained { n_blocks, n_outside, first, .. }) => {
                let [n, all] = [n_outside, n_blocks].map(|n| grouped(*n));
                format!("{n} of {all} blocks exceed the error of the type{}", place(*first))
            }
        }
    }

    /// What a matrix of a stack is.
    fn matrix(&self) -> &'static str {
        if self.name.contains("_exps") { "expert" } else { "matrix" }
    }

    fn matrices(&self) -> &'static str {
        if self.name.contains("_exps") { "experts" } else { "matrices" }
    }
}

/// The number of matrices of a stack that a file lacks, if that is how two shapes differ.
fn missing_matrices(planned: &[u64], stored: &[u64]) -> Option<u64> {
    let (n, matrix) = planned.split_last().filter(|_| planned.len() > 2)?;
    let of_file = if stored.len() == planned.len() { stored.split_last()? } else { (&1, stored) };
    (matrix == of_file.1).then(|| n.checked_sub(*of_file.0)).flatten().filter(|n| *n > 0)
}

/// `4096 x 32000`
fn shape(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join(" x ") }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ty) = self.rounded_to {
            write!(f, "from {ty}, ")?;
        }
        f.write_str(if self.is_weighted { "with the matrix" } else { "without a matrix" })
    }
}
