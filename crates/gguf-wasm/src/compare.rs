//! Two models side by side: metadata, tensors, and the errors of the second model's values.

use ggufkit::edit::diff::Elements;
use ggufkit::pipeline::report::compare_rows;
use ggufkit::quants::measure::TensorError;
use ggufkit::{Diff, DiffOptions, Model, ModelFile, TensorDiff, ValueRef, diff, io as gguf_io};
use serde_json::{Value, json};

use crate::page::{Page, number, shown, text_of};
use crate::weights::{Weights, figures};

impl Page {
    /// The model without its data.
    ///
    /// # Errors
    /// The message, if shards are missing or do not belong together.
    pub(crate) fn heads(&self) -> Result<Model, String> {
        if !self.missing.is_empty() {
            return Err(format!("{} shards are missing", self.missing.len()));
        }
        let files = self
            .files
            .iter()
            .map(|file| ModelFile::from_head(file.gguf().clone(), gguf_io::NoData(file.file_bytes()), file.path()));
        let files = files.collect::<Result<Vec<_>, _>>();
        files.and_then(Model::from_files).map_err(|e| text_of(&e))
    }

    /// The shard of a tensor of the model, and its index there.
    fn place(&self, index: usize) -> Option<(u32, u32)> {
        let mut index = index as u64;
        for (file, shard) in self.files.iter().zip(0..) {
            match index.checked_sub(file.gguf().n_tensors()) {
                None => return Some((shard, u32::try_from(index).ok()?)),
                Some(rest) => index = rest,
            }
        }
        None
    }
}

/// A comparison of two models without their data. That of tensors is compared on request.
#[derive(Debug)]
pub struct Comparison(Diff);

impl Comparison {
    /// Compares the heads.
    ///
    /// # Errors
    /// The message, if one of the models is not complete.
    pub fn new(a: &Page, b: &Page) -> Result<Comparison, String> {
        let diff = diff(a.heads()?, b.heads()?, &DiffOptions::default().no_data(true), &());
        diff.map(Comparison).map_err(|e| text_of(&e))
    }

    /// The numbers of rows.
    pub fn summary(&self) -> Value {
        json!({ "n_keys": self.0.keys.len(), "n_same_keys": self.0.n_same_keys, "n_tensors": self.0.tensors.len() })
    }

    /// Rows of the different keys.
    pub fn keys(&self, from: u32, n: u32) -> Value {
        let row = |key| {
            let (name, values) = self.0.values(key);
            let text = |value: &Option<ValueRef<'_>>| {
                value.map(|value| match value {
                    ValueRef::Array(array) => {
                        let first = array.iter().take(8).map(shown).collect::<Vec<_>>().join(", ");
                        format!("{}[{}]: {first}", array.elem_type(), array.len())
                    }
                    value => shown(value),
                })
            };
            let types = values.map(|value| value.map(|value| value.value_type().to_string()));
            let [a, b] = values;
            let elements = a.zip(b).and_then(|(a, b)| Elements::of(a, b));
            let elements =
                elements.map(|e| json!({ "different": number(e.n_different), "first": e.first.map(number) }));
            json!({ "key": name.to_string(), "a": text(&a), "b": text(&b), "types": types, "elements": elements })
        };
        self.0.keys.iter().skip(from as usize).take(n as usize).map(row).collect()
    }

    fn places(&self, a: &Page, b: &Page, tensor: &TensorDiff) -> [Option<(u32, u32)>; 2] {
        [tensor.a.and_then(|index| a.place(index)), tensor.b.and_then(|index| b.place(index))]
    }

    /// Rows of all tensors.
    pub fn tensors(&self, a: &Page, b: &Page, from: u32, n: u32) -> Value {
        let row = |(index, tensor): (usize, &TensorDiff)| {
            let (name, infos) = self.0.infos(tensor);
            let shapes = infos.map(|info| info.map(|info| info.dims.map(number).collect::<Vec<_>>()));
            let types = infos.map(|info| info.map(|info| info.ty.to_string()));
            let n = infos[0].or(infos[1]).and_then(|info| info.n_elements()).map(number);
            let of = |side: usize, page: &Page| {
                let place = self.places(a, b, tensor).get(side).copied().flatten()?;
                page.weights(place).ok().map(|weights| weights.describe())
            };
            json!({
                "index": index, "name": name.to_string(), "shapes": shapes, "types": types, "n_elements": n,
                "data": [of(0, a), of(1, b)], "places": self.places(a, b, tensor),
            })
        };
        self.0.tensors.iter().enumerate().skip(from as usize).take(n as usize).map(row).collect()
    }

    /// Both sides of a tensor.
    ///
    /// # Errors
    /// The message, if they cannot be compared as numbers.
    pub fn sides<'a>(&self, a: &'a Page, b: &'a Page, index: u32) -> Result<[Weights<'a>; 2], String> {
        let tensor = self.0.tensors.get(index as usize).ok_or("there is no such tensor")?;
        let [Some(x), Some(y)] = self.places(a, b, tensor) else {
            return Err("only one of the models has this tensor".to_owned());
        };
        let sides = [a.weights(x)?, b.weights(y)?];
        let [x, y] = &sides;
        if !x.info.dims.eq(y.info.dims) {
            return Err("the shapes differ".to_owned());
        }
        Ok(sides)
    }
}

/// The comparison of one tensor's data.
#[derive(Debug)]
pub struct Difference {
    is_same: bool,
    error: TensorError,
}

impl Default for Difference {
    fn default() -> Difference {
        Difference { is_same: true, error: TensorError::new() }
    }
}

impl Difference {
    /// Compares rows.
    ///
    /// # Errors
    /// The message, if they cannot be read.
    pub fn rows(&mut self, [a, b]: &mut [Weights<'_>; 2], first: u64, n: u64) -> Result<(), String> {
        let (row_len, a_bytes, b_bytes) = (a.row_len(), a.row_bytes(), b.row_bytes());
        let (a_type, b_type, name) = (a.info.ty, b.info.ty, a.info.name.to_string());
        let x = a.read(first * a_bytes, n * a_bytes)?;
        let y = b.read(first * b_bytes, n * b_bytes)?;
        self.is_same &= a_type == b_type && x == y;
        let error = compare_rows(&name, (a_type, x), (b_type, y), (first, 0), row_len, None);
        self.error.merge(&error.map_err(|e| text_of(&e))?);
        Ok(())
    }

    /// Whether the bytes are the same, and the figures of the error.
    pub fn result(&self) -> Value {
        json!({ "same": self.is_same, "error": figures(&self.error) })
    }
}
