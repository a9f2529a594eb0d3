//! Numbers and types in the JSON of a plan.

use gguf_format::GgmlType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A tensor type, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Type(pub(crate) GgmlType);

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Type, D::Error> {
        let name = String::deserialize(deserializer)?;
        let ty = GgmlType::from_name(&name);
        ty.map(Type).ok_or_else(|| D::Error::custom(format_args!("unknown tensor type {name:?}")))
    }
}

/// A number in single precision, as the integer with its bits: a decimal may have another value when it is read.
pub(crate) mod bits {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
        u32::deserialize(deserializer).map(f32::from_bits)
    }

    /// A list of them.
    pub(crate) mod list {
        use super::{Deserialize, Deserializer, Serializer};

        pub(crate) fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(values.iter().map(|value| value.to_bits()))
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
            let bits = Vec::<u32>::deserialize(deserializer)?;
            Ok(bits.into_iter().map(f32::from_bits).collect())
        }
    }
}
