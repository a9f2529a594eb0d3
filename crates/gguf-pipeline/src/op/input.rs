//! The source tensors of operations.

use std::ops::Deref;

use gguf_format::GgmlType;
use serde::{Deserialize, Serialize};

use crate::fleet::Type;

/// A source tensor of an operation.
///
/// In JSON it is the index and the name of the type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, Type)", into = "(u32, Type)")]
pub struct Input {
    index: u32,
    /// The type: the GGUF type with the same elements.
    pub ty: GgmlType,
    /// The name, for messages; empty if the source is a model in GGUF, which has it.
    pub name: InputName,
}

impl From<(u32, Type)> for Input {
    fn from((index, Type(ty)): (u32, Type)) -> Input {
        Input { index, ty, name: InputName::default() }
    }
}

impl From<Input> for (u32, Type) {
    fn from(input: Input) -> (u32, Type) {
        (input.index, Type(input.ty))
    }
}

impl Input {
    /// The tensor `index` of a [`Source`](crate::Source); no source has 2³² tensors.
    pub fn new(index: usize, name: &str, ty: GgmlType) -> Input {
        let mut input = Input { index: 0, ty, name: InputName::new(name) };
        input.set_index(index);
        input
    }

    /// The index in the [`Source`](crate::Source).
    pub fn index(&self) -> usize {
        self.index as usize
    }

    /// Sets the index in the [`Source`](crate::Source).
    pub fn set_index(&mut self, index: usize) {
        self.index = u32::try_from(index).unwrap_or(u32::MAX);
    }
}

/// The name of an [`Input`], in a single pointer: a plan may have very many inputs, most of them without a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InputName(Option<Box<Named>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Named(Box<str>);

impl InputName {
    fn new(name: &str) -> InputName {
        InputName((!name.is_empty()).then(|| Box::new(Named(name.into()))))
    }
}

impl Deref for InputName {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_ref().map_or("", |name| &name.0)
    }
}
