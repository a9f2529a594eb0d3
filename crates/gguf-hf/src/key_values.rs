//! An ordered list of key-values with the rules of gguf-py's `GGUFWriter`: a key that is set again keeps its position, and empty strings
//! and arrays are omitted.

use std::collections::HashMap;

use gguf_format::{Array, Str, Value, ValueRef, ValueType};

/// Key-values in the order in which their keys were first set.
#[derive(Debug, Default)]
pub(crate) struct KeyValues {
    pairs: Vec<(String, Value)>,
    /// The index of each key.
    places: HashMap<String, usize>,
}

impl KeyValues {
    /// Sets a key; an existing key keeps its position.
    pub(crate) fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.places.get(&key).and_then(|&place| self.pairs.get_mut(place)) {
            Some((_, old)) => *old = value,
            None => {
                self.places.insert(key.clone(), self.pairs.len());
                self.pairs.push((key, value));
            }
        }
    }

    /// Sets a string, unless it is empty.
    pub(crate) fn string(&mut self, key: impl Into<String>, value: &str) {
        if !value.is_empty() {
            self.set(key, value);
        }
    }

    /// Sets an array of strings, unless it is empty.
    pub(crate) fn strings<T: AsRef<[u8]>>(&mut self, key: &str, values: &[T]) {
        self.array(key, ValueType::STRING, values.iter().map(|s| ValueRef::String(Str(s.as_ref()))));
    }

    /// Sets an array of 32-bit integers, unless it is empty.
    pub(crate) fn i32s(&mut self, key: &str, values: &[i32]) {
        self.array(key, ValueType::I32, values.iter().map(|v| ValueRef::I32(*v)));
    }

    /// Sets an array of 32-bit integers without sign, unless it is empty.
    pub(crate) fn u32s(&mut self, key: &str, values: &[u32]) {
        self.array(key, ValueType::U32, values.iter().map(|v| ValueRef::U32(*v)));
    }

    /// Sets an array of 32-bit floats, unless it is empty.
    pub(crate) fn f32s(&mut self, key: &str, values: &[f32]) {
        self.array(key, ValueType::F32, values.iter().map(|v| ValueRef::F32(*v)));
    }

    fn array<'a>(&mut self, key: &str, elem: ValueType, values: impl Iterator<Item = ValueRef<'a>>) {
        let mut array = Array::new(elem);
        for value in values {
            // All elements have type `elem`; the only other failure is a string of 4 GiB, and file sizes are limited.
            let pushed = array.push(value);
            debug_assert!(pushed.is_ok());
        }
        if array.as_ref().len() > 0 {
            self.set(key, array);
        }
    }

    /// Returns the list.
    pub(crate) fn into_vec(self) -> Vec<(String, Value)> {
        self.pairs
    }
}
