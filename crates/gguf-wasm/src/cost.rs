//! What another type would cost a tensor: its values are encoded and decoded, and compared.

use ggufkit::pipeline::report::compare_rows;
use ggufkit::quants::measure::TensorError;
use ggufkit::quants::{Codec, Rows, codec, codecs};
use ggufkit::{GgmlType, TensorInfoRef};
use serde_json::{Value, json};

use crate::page::{number, text_of};
use crate::weights::{Weights, figures};

/// The types that a tensor can have by the length of its rows: number, name, and the bytes that the tensor would have.
pub fn offers(info: TensorInfoRef<'_>) -> Value {
    let offer = |codec: &Codec| {
        let bytes = codec.ty.tensor_bytes(info.dims).ok()?;
        let is_offered = codec.can_encode() && codec.ty != info.ty;
        is_offered.then(|| json!({ "id": codec.ty.0, "type": codec.ty.to_string(), "bytes": number(bytes) }))
    };
    codecs().iter().filter_map(offer).collect()
}

/// The error of a tensor's values as another type.
pub struct Cost {
    codec: &'static Codec,
    packed: Vec<u8>,
    error: TensorError,
}

impl Cost {
    /// Nothing measured yet.
    ///
    /// # Errors
    /// The message, if the type cannot be encoded.
    pub fn new(ty: GgmlType) -> Result<Cost, String> {
        let codec = codec(ty).filter(|codec| codec.can_encode());
        let codec = codec.ok_or_else(|| format!("values cannot be encoded as {ty}"))?;
        Ok(Cost { codec, packed: Vec::new(), error: TensorError::new() })
    }

    /// Measures rows.
    ///
    /// # Errors
    /// The message, if they cannot be read or encoded.
    pub fn rows(&mut self, weights: &mut Weights<'_>, first: u64, n: u64) -> Result<(), String> {
        let (row_len, row_bytes) = (weights.row_len(), weights.row_bytes());
        weights.decode(first * row_bytes, n * row_bytes)?;
        let len = usize::try_from(row_len).map_err(|e| e.to_string())?;
        let bytes = self.codec.packed_bytes(weights.values.len());
        self.packed.resize(bytes.ok_or_else(|| format!("rows of {row_len} values are no whole blocks"))?, 0);
        let rows = Rows::new(&weights.values, len, None).map_err(|e| text_of(&e))?;
        self.codec.encode(rows, &mut self.packed).map_err(|e| text_of(&e))?;
        let (name, ty) = (weights.info.name.to_string(), weights.info.ty);
        let error =
            compare_rows(&name, (ty, &weights.packed), (self.codec.ty, &self.packed), (first, 0), row_len, None);
        self.error.merge(&error.map_err(|e| text_of(&e))?);
        Ok(())
    }

    /// The figures of the error.
    pub fn result(&self) -> Value {
        json!({ "error": figures(&self.error) })
    }
}
