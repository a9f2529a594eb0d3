//! `struct gguf_context`: key-values and tensors, with the semantics of setting and removing them.
#![cfg_attr(
    not(test),
    expect(clippy::cast_possible_truncation, reason = "the size of a number is small"),
    expect(clippy::indexing_slicing, reason = "a rest is shorter than a word; positions are those that were found")
)]

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use gguf_format::{
    ALIGNMENT_KEY, Array, ByteOrder, DEFAULT_ALIGNMENT, Dialect, Gguf, Str, Value, ValueRef, ValueType, Version,
    align_up,
};

use crate::failure::Failure;
use crate::ggml::{Tensor, c_prefix};

/// The byte order of this machine, used by gguf.h for reading and writing.
pub const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

/// The target of a `gguf_context *` of gguf.h.
#[derive(Debug)]
pub struct Context {
    pub(crate) version: Version,
    pub(crate) entries: Vec<Entry>,
    pub(crate) tensors: Vec<Info>,
    pub(crate) alignment: u64,
    /// The start of the data section in the source file; 0 without a file.
    pub(crate) data_offset: u64,
    /// The reason why a change was rejected, if any: the context no longer matches the program's intention.
    pub(crate) refused: Option<String>,
}

/// A tensor, with the offset of its data in the data section.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    pub tensor: Tensor,
    pub offset: u64,
}

impl Info {
    /// The start of the following tensor.
    fn end(&self, alignment: u64) -> Option<u64> {
        align_up(self.offset.checked_add(self.tensor.n_bytes()?)?, alignment)
    }
}

/// A key-value pair.
#[derive(Debug)]
pub struct Entry {
    /// The key and a NUL.
    key: Box<[u8]>,
    value: Stored,
    view: OnceLock<View>,
}

/// The storage of a value.
#[derive(Debug, Clone)]
pub enum Stored {
    /// The pair with that index of a parsed head, decoded on demand.
    Read(Arc<Gguf<'static>>, u64),
    Owned(Value),
}

/// A key and its value, to copy from one context to another.
pub type Pair = (Box<[u8]>, Stored);

/// The C representation of a value, created on first access.
#[derive(Debug)]
pub enum View {
    /// Numbers in this machine's order, in words so that they are aligned for every type.
    Numbers(Box<[u64]>),
    /// NUL-terminated strings, and their offsets.
    Strings { text: Box<[u8]>, starts: Box<[usize]> },
}

impl View {
    /// `None` if there is not enough memory.
    fn of(value: ValueRef<'_>) -> Option<View> {
        let (elem, n) = shape(value);
        let n = usize::try_from(n).ok()?;
        if elem == ValueType::STRING {
            let mut len = 0;
            each_string(value, |s| len += s.len() + 1);
            let (mut text, mut starts) = (Vec::new(), Vec::new());
            text.try_reserve_exact(len).ok()?;
            starts.try_reserve_exact(n).ok()?;
            each_string(value, |s| {
                starts.push(text.len());
                text.extend_from_slice(s);
                text.push(0);
            });
            return Some(View::Strings { text: text.into(), starts: starts.into() });
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(n.checked_mul(elem.fixed_bytes().unwrap_or(0) as usize)?).ok()?;
        match value {
            ValueRef::Array(a) => a.iter().for_each(|v| push_number(&mut bytes, v)),
            v => push_number(&mut bytes, v),
        }
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let all = words.iter().chain((!rest.is_empty()).then_some(&last));
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(words.len() + usize::from(!rest.is_empty())).ok()?;
        numbers.extend(all.map(|w| u64::from_ne_bytes(*w)));
        Some(View::Numbers(numbers.into()))
    }

    /// The numbers; null if there are none, as ggml returns for an empty array.
    pub fn numbers(&self) -> *const u8 {
        match self {
            View::Numbers(words) if !words.is_empty() => words.as_ptr().cast(),
            _ => std::ptr::null(),
        }
    }

    /// The string at `i` and its NUL.
    pub fn string(&self, i: usize) -> Option<&[u8]> {
        match self {
            View::Strings { text, starts } => {
                let end = starts.get(i + 1).copied().unwrap_or(text.len());
                text.get(*starts.get(i)?..end)
            }
            View::Numbers(_) => None,
        }
    }
}

fn push_number(out: &mut Vec<u8>, v: ValueRef<'_>) {
    match v {
        ValueRef::U8(v) => out.push(v),
        ValueRef::I8(v) => out.extend(v.to_ne_bytes()),
        ValueRef::U16(v) => out.extend(v.to_ne_bytes()),
        ValueRef::I16(v) => out.extend(v.to_ne_bytes()),
        ValueRef::U32(v) => out.extend(v.to_ne_bytes()),
        ValueRef::I32(v) => out.extend(v.to_ne_bytes()),
        ValueRef::U64(v) => out.extend(v.to_ne_bytes()),
        ValueRef::I64(v) => out.extend(v.to_ne_bytes()),
        ValueRef::F32(v) => out.extend(v.to_ne_bytes()),
        ValueRef::F64(v) => out.extend(v.to_ne_bytes()),
        // ggml treats every byte except 0 as true, and C allows only 0 and 1 in a bool.
        ValueRef::Bool(v) => out.push((v != 0).into()),
        ValueRef::String(_) | ValueRef::Array(_) => {}
    }
}

/// Calls the function with each string of a string or an array of strings.
fn each_string<'a>(value: ValueRef<'a>, mut call: impl FnMut(&'a [u8])) {
    match value {
        ValueRef::String(s) => call(s.as_bytes()),
        ValueRef::Array(a) => a.strings().into_iter().flatten().for_each(|s| call(s.as_bytes())),
        _ => {}
    }
}

/// The type of a value or of an array's elements, and their number: gguf.h treats a single value as an array of one.
pub fn shape(value: ValueRef<'_>) -> (ValueType, u64) {
    match value {
        ValueRef::Array(a) => (a.elem_type(), a.len()),
        v => (v.value_type(), 1),
    }
}

impl Entry {
    pub fn new(key: &[u8], value: Stored) -> Result<Entry, Failure> {
        let mut c_key = Vec::new();
        c_key.try_reserve_exact(key.len() + 1).map_err(|_| Failure::new("there is not enough memory"))?;
        c_key.extend_from_slice(key);
        c_key.push(0);
        Ok(Entry { key: c_key.into(), value, view: OnceLock::new() })
    }

    /// The key with its NUL.
    pub fn c_key(&self) -> &[u8] {
        &self.key
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.key.get(..self.key.len() - 1).unwrap_or_default()
    }

    pub fn value(&self) -> ValueRef<'_> {
        match &self.value {
            // The pair existed when the entry was created.
            Stored::Read(gguf, i) => gguf.kv_by_index(*i).map_or(ValueRef::U8(0), |kv| kv.value),
            Stored::Owned(value) => value.as_ref(),
        }
    }

    pub fn view(&self) -> Result<&View, Failure> {
        if let Some(view) = self.view.get() {
            return Ok(view);
        }
        let view = View::of(self.value());
        let view =
            view.ok_or_else(|| Failure::new(format!("not enough memory for the value of {}", Str(self.key()))))?;
        // If another thread was faster, its view is used.
        Ok(self.view.get_or_init(|| view))
    }
}

impl Default for Context {
    fn default() -> Context {
        Context {
            version: Version::V3,
            entries: Vec::new(),
            tensors: Vec::new(),
            alignment: DEFAULT_ALIGNMENT,
            data_offset: 0,
            refused: None,
        }
    }
}

impl Context {
    /// The dialect for writing this context.
    pub(crate) fn dialect(&self) -> Dialect {
        Dialect::new(self.version).with_order(NATIVE)
    }

    pub(crate) fn find_key(&self, key: &[u8]) -> Option<usize> {
        self.entries.iter().position(|e| c_prefix(e.c_key()) == key)
    }

    pub(crate) fn find_tensor(&self, name: &[u8]) -> Option<usize> {
        self.tensors.iter().position(|t| t.tensor.name() == name)
    }

    /// Sets a key: removes an existing pair with the key, and appends the new one.
    pub(crate) fn set(&mut self, key: &[u8], value: Stored) -> Result<(), Failure> {
        if key.is_empty() {
            return Err(self.refuse("a key is empty".into()));
        }
        let entry = Entry::new(key, value)?;
        let mut alignment = None;
        if key == ALIGNMENT_KEY.as_bytes() {
            match entry.value() {
                ValueRef::U32(v) if v.is_power_of_two() => alignment = Some(v.into()),
                v => return Err(self.refuse(format!("{ALIGNMENT_KEY} must be a power of two of type u32, not {v:?}"))),
            }
        }
        if let Some(i) = self.find_key(key) {
            self.entries.remove(i);
        }
        self.entries.push(entry);
        alignment.map_or(Ok(()), |alignment| self.align(alignment))
    }

    /// Removes a key; returns its former id.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(i) = self.find_key(key) else { return Ok(None) };
        self.entries.remove(i);
        if key == ALIGNMENT_KEY.as_bytes() {
            self.align(DEFAULT_ALIGNMENT)?;
        }
        Ok(Some(i))
    }

    /// The pairs of this context to copy to another one: keys and strings end at their first NUL.
    pub(crate) fn pairs(&self) -> Result<Vec<Pair>, Failure> {
        let pair = |e: &Entry| {
            let mut has_nul = false;
            each_string(e.value(), |s| has_nul |= s.contains(&0));
            let value = if has_nul { Stored::Owned(cut_at_nul(e.value())?) } else { e.value.clone() };
            Ok((c_prefix(e.c_key()).into(), value))
        };
        self.entries.iter().map(pair).collect()
    }

    /// Appends a tensor.
    pub(crate) fn add_tensor(&mut self, tensor: &Tensor) -> Result<(), Failure> {
        let name = Str(tensor.name());
        if !tensor.name.contains(&0) {
            return Err(self.refuse(format!("the tensor name {name}... is not terminated by a NUL")));
        }
        if self.find_tensor(tensor.name()).is_some() {
            return Err(self.refuse(format!("duplicate tensor {name}")));
        }
        if tensor.n_bytes().is_none() {
            return Err(self.refuse(format!("the tensor {name} has no size: type {}, {:?}", tensor.ty, tensor.ne)));
        }
        let Some(offset) = self.tensors.last().map_or(Some(0), |last| last.end(self.alignment)) else {
            return Err(self.refuse(format!("the offset of the tensor {name} exceeds 64 bits")));
        };
        self.tensors.push(Info { tensor: *tensor, offset });
        Ok(())
    }

    /// The tensor with that name, for modification.
    pub(crate) fn tensor_mut(&mut self, name: &[u8]) -> Result<&mut Info, Failure> {
        match self.find_tensor(name) {
            Some(i) => Ok(&mut self.tensors[i]),
            None => Err(self.refuse(format!("there is no tensor {}", Str(name)))),
        }
    }

    /// Changes the type of a tensor; the following ones move.
    pub(crate) fn set_tensor_type(&mut self, name: &[u8], ty: u32) -> Result<(), Failure> {
        let mut tensor = self.tensor_mut(name)?.tensor;
        if tensor.set_type(ty).and_then(|()| tensor.n_bytes()).is_none() {
            let ne = tensor.ne;
            return Err(self.refuse(format!("the tensor {} of {ne:?} cannot be of type {ty}", Str(name))));
        }
        self.tensor_mut(name)?.tensor = tensor;
        self.pack()
    }

    /// Applies an alignment set by the key-values to the data section. ggml leaves the tensors in place, and writes a file that it cannot
    /// read.
    fn align(&mut self, alignment: u64) -> Result<(), Failure> {
        if self.alignment == alignment {
            return Ok(());
        }
        self.alignment = alignment;
        self.pack()
    }

    /// Places the tensors one after the other.
    fn pack(&mut self) -> Result<(), Failure> {
        let mut next = Some(0);
        for info in &mut self.tensors {
            let Some(offset) = next else {
                return Err(self.refuse("the size of all tensors exceeds 64 bits".into()));
            };
            info.offset = offset;
            next = info.end(self.alignment);
        }
        Ok(())
    }

    /// Rejects a change: from now on nothing is written, because the file would be wrong.
    pub(crate) fn refuse(&mut self, why: String) -> Failure {
        self.refused.get_or_insert_with(|| why.clone());
        Failure::new(why)
    }

    /// The entry with that id.
    pub(crate) fn entry(&self, id: i64) -> Result<&Entry, Failure> {
        at(&self.entries, id).ok_or_else(|| no_id("key", id, self.entries.len()))
    }

    /// The tensor with that id.
    pub(crate) fn info(&self, id: i64) -> Result<&Info, Failure> {
        at(&self.tensors, id).ok_or_else(|| no_id("tensor", id, self.tensors.len()))
    }
}

fn at<T>(list: &[T], id: i64) -> Option<&T> {
    list.get(usize::try_from(id).ok()?)
}

fn no_id(what: &str, id: i64, n: usize) -> Failure {
    let valid: Range<usize> = 0..n;
    Failure::new(format!("there is no {what} with id {id}; ids are {valid:?}"))
}

/// A copy of a value with strings cut at their first NUL.
fn cut_at_nul(value: ValueRef<'_>) -> Result<Value, Failure> {
    let ValueRef::Array(_) = value else {
        return Ok(Value::String(value.as_str().map_or(Vec::new(), |s| c_prefix(s.as_bytes()).to_vec())));
    };
    let mut array = Array::new(ValueType::STRING);
    let mut result = Ok(());
    each_string(value, |s| {
        if let Err(e) = array.push(ValueRef::String(Str(c_prefix(s)))) {
            result = Err(Failure::new(e.to_string()));
        }
    });
    result.map(|()| Value::Array(array))
}
