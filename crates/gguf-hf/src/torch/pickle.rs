//! A pickle reader that executes nothing.
//!
//! A pickle is a program for a small stack machine, and Python's implementation calls any function that the program names. This one calls
//! nothing: it builds lists, tuples, dictionaries, numbers and text, and supports only the globals with which `torch.save` describes a tensor
//! ([`super::allowed`]). Any other global or instruction is an error with its position.
//!
//! Values are stored in one list and refer to each other by index, so cyclic and deeply nested values cost nothing. The numbers of instructions,
//! values and bytes are bounded, and each instruction creates at most one value. A value takes 16 bytes; texts and the elements of tuples are
//! stored one after the other.
//!
//! The instructions are those of protocols 2 to 5, as documented in Python's `pickletools`.

use std::collections::HashMap;

use super::allowed::{self, Global};
use super::bytes::Bytes;
use super::error::{PickleError, PickleProblem, TorchError};
use crate::dtype::Dtype;
use crate::number::to_u32;
use crate::safetensors::MAX_DIMS;

/// The maximum number of instructions in a pickle. A tensor takes some forty.
pub(super) const MAX_OPS: u64 = 4_000_000;

/// The maximum number of values. A tensor has some fifteen.
const MAX_VALUES: usize = 2_000_000;

/// The maximum number of lists and dictionaries that are not empty.
const MAX_LISTS: usize = 500_000;

/// The maximum number of dimensions of all tensors together.
const MAX_ALL_DIMS: usize = 1_000_000;

/// The maximum number of storages.
const MAX_STORAGES: usize = 500_000;

/// The maximum length of a tensor or storage name, in bytes.
pub(super) const MAX_NAME: usize = 1024;

/// The maximum size of a pickle in bytes.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// The index of a value.
pub(super) type Id = u32;

/// A part of a list that all values share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// The part at the end of a list to which `len` elements were added.
    fn last(total: usize, len: usize) -> Span {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { start: number(total - len), len: number(len) }
    }

    fn of<T>(self, all: &[T]) -> &[T] {
        let start = self.start as usize;
        all.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Bool,
    Int(i64),
    /// An integer of more than 64 bits.
    Long(Span),
    Text(Span),
    Tuple(Span),
    /// The index of its elements; `None` for an empty one.
    List(Option<u32>),
    /// The index of its pairs; `None` for an empty one.
    Dict(Option<u32>),
    Global(u32),
    Storage(u32),
    Tensor(u32),
    /// A value of an ignored type: a float, bytes, a set.
    Other,
}

impl Value {
    fn kind(self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool => "a truth value",
            Value::Int(_) | Value::Long(_) => "a whole number",
            Value::Text(_) => "text",
            Value::Tuple(_) => "a tuple",
            Value::List(_) => "a list",
            Value::Dict(_) => "a dictionary",
            Value::Global(_) => "a class or function",
            Value::Storage(_) => "a storage",
            Value::Tensor(_) => "a tensor",
            Value::Other => "another value",
        }
    }
}

/// The memory shared by one or more tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage {
    /// The key of its data in the file.
    pub(super) key: Id,
    /// The format of its elements; `None` for bytes without format.
    pub(super) dtype: Option<Dtype>,
    /// The number of elements.
    pub(super) elements: u64,
}

impl Storage {
    /// Bytes per element.
    pub(super) fn element_bytes(&self) -> u64 {
        self.dtype.map_or(1, |dtype| u64::from(dtype.bits / 8))
    }
}

/// A tensor: a view of a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// The index of the storage.
    pub(super) storage: u32,
    pub(super) dtype: Dtype,
    /// The offset of the first element, in elements of the tensor's own format.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    /// The stride of each dimension, in elements.
    pub(super) strides: Vec<u64>,
}

/// Values, and what they consist of.
#[derive(Debug, Default)]
struct Values {
    values: Vec<Value>,
    /// The texts, and the long integers as little-endian bytes.
    bytes: Vec<u8>,
    /// The elements of tuples.
    items: Vec<Id>,
    lists: Vec<Vec<Id>>,
    dicts: Vec<Vec<(Id, Id)>>,
    globals: Vec<Global>,
}

impl Values {
    fn get(&self, id: Id) -> Value {
        self.values.get(id as usize).copied().unwrap_or(Value::None)
    }

    fn bytes(&self, span: Span) -> &[u8] {
        span.of(&self.bytes)
    }

    /// The text of a string value.
    fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Value::Text(text) => str::from_utf8(self.bytes(text)).ok(),
            _ => None,
        }
    }

    fn list(&self, list: Option<u32>) -> &[Id] {
        list.and_then(|list| self.lists.get(list as usize)).map_or(&[], Vec::as_slice)
    }

    fn dict(&self, dict: Option<u32>) -> &[(Id, Id)] {
        dict.and_then(|dict| self.dicts.get(dict as usize)).map_or(&[], Vec::as_slice)
    }

    fn global(&self, id: Id) -> Option<Global> {
        match self.get(id) {
            Value::Global(index) => self.globals.get(index as usize).copied(),
            _ => None,
        }
    }
}

/// The values that instructions gave a number.
#[derive(Debug, Default)]
struct Memo {
    /// The entries with the numbers from 0 on without a gap.
    first: Vec<Id>,
    others: HashMap<u32, Id>,
}

impl Memo {
    fn len(&self) -> usize {
        self.first.len() + self.others.len()
    }

    fn get(&self, index: u32) -> Option<Id> {
        self.first.get(index as usize).or_else(|| self.others.get(&index)).copied()
    }

    fn set(&mut self, index: u32, id: Id) {
        if let Some(place) = self.first.get_mut(index as usize) {
            *place = id;
        } else if index as usize == self.first.len() {
            self.others.remove(&index);
            self.first.push(id);
        } else {
            self.others.insert(index, id);
        }
    }
}

/// The content of a pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Values,
    root: Id,
    pub(super) storages: Vec<Storage>,
    pub(super) views: Vec<View>,
}

impl Pickle {
    /// The top-level value.
    pub(super) fn root(&self) -> Value {
        self.value(self.root)
    }

    /// The value with an index.
    pub(super) fn value(&self, id: Id) -> Value {
        self.values.get(id)
    }

    /// The text of a string value.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        self.values.text(id)
    }

    /// The little-endian bytes of a long integer.
    pub(super) fn long(&self, number: Span) -> &[u8] {
        self.values.bytes(number)
    }

    /// The elements of a list.
    pub(super) fn list(&self, list: Option<u32>) -> &[Id] {
        self.values.list(list)
    }

    /// The pairs of a dictionary.
    pub(super) fn dict(&self, dict: Option<u32>) -> &[(Id, Id)] {
        self.values.dict(dict)
    }
}

/// Reads the pickle at the current position, with at most `max_ops` instructions.
pub(super) fn read(bytes: &mut Bytes<'_>, max_ops: u64) -> Result<Pickle, TorchError> {
    let mut machine = Machine { at: bytes.at(), ..Machine::default() };
    let root = machine.run(bytes, max_ops)?;
    let Machine { values, storages, views, .. } = machine;
    Ok(Pickle { values, root, storages, views })
}

#[derive(Default)]
struct Machine {
    values: Values,
    /// Values without content, which instructions share.
    shared: Vec<Id>,
    stack: Vec<Id>,
    /// Stack heights at the marks.
    marks: Vec<usize>,
    memo: Memo,
    storages: Vec<Storage>,
    views: Vec<View>,
    /// Total dimensions of all tensors.
    n_dims: usize,
    /// Total pairs of dictionaries that were built from lists.
    n_pairs: usize,
    /// The offset of the current instruction.
    at: u64,
}

/// The result of a call.
enum Made {
    New(Value),
    /// One of the arguments.
    There(Id),
}

/// The result of an instruction without immediate arguments.
type Step<T> = Result<T, PickleProblem>;

impl Machine {
    fn run(&mut self, bytes: &mut Bytes<'_>, max_ops: u64) -> Result<Id, TorchError> {
        let start = bytes.at();
        for _ in 0..max_ops {
            self.at = bytes.at();
            if self.at - start > MAX_BYTES {
                return self.fail(PickleProblem::TooLarge { max: MAX_BYTES });
            }
            let opcode = bytes.byte()?;
            if self.at == start && opcode != b'\x80' {
                return self
                    .fail(PickleProblem::Expected { expected: "the protocol of a pickle", found: "another byte" });
            }
            if opcode == b'.' {
                return self.pop().or_else(|problem| self.fail(problem));
            }
            self.read_and_do(opcode, bytes)?;
        }
        self.fail(PickleProblem::TooLong { max: max_ops })
    }

    fn fail<T>(&self, problem: PickleProblem) -> Result<T, TorchError> {
        Err(PickleError { at: self.at, problem }.into())
    }

    /// Reads the arguments of an instruction and executes it.
    fn read_and_do(&mut self, opcode: u8, bytes: &mut Bytes<'_>) -> Result<(), TorchError> {
        let done = match opcode {
            // PROTO
            0x80 => match bytes.byte()? {
                2..=5 => Ok(()),
                found => Err(PickleProblem::Protocol { found }),
            },
            // FRAME: its length only helps buffered readers.
            0x95 => {
                let len = u64::from_le_bytes(bytes.array()?);
                match bytes.left() {
                    left if len > left => Err(PickleProblem::Truncated { wanted: len, left }),
                    _ => Ok(()),
                }
            }
            // BININT, BININT1, BININT2
            b'J' => self.push(Value::Int(i32::from_le_bytes(bytes.array()?).into())),
            b'K' => self.push(Value::Int(bytes.byte()?.into())),
            b'M' => self.push(Value::Int(u16::from_le_bytes(bytes.array()?).into())),
            // LONG1, LONG4
            0x8a => {
                let len = u64::from(bytes.byte()?);
                self.long(bytes.take(len)?)
            }
            0x8b => {
                let len = u64::from(u32::from_le_bytes(bytes.array()?));
                self.long(self.take(bytes, len)?)
            }
            // BINFLOAT
            b'G' => {
                bytes.skip(8)?;
                self.push_shared(Value::Other)
            }
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
            0x8c => {
                let len = u64::from(bytes.byte()?);
                self.text(bytes.take(len)?)
            }
            b'X' => {
                let len = u64::from(u32::from_le_bytes(bytes.array()?));
                self.text(self.take(bytes, len)?)
            }
            0x8d => {
                let len = u64::from_le_bytes(bytes.array()?);
                self.text(self.take(bytes, len)?)
            }
            // SHORT_BINSTRING, BINSTRING: Python 2 strings.
            b'U' => {
                let len = u64::from(bytes.byte()?);
                self.text(bytes.take(len)?)
            }
            b'T' => {
                let len = u64::from(u32::from_le_bytes(bytes.array()?));
                self.text(self.take(bytes, len)?)
            }
            // SHORT_BINBYTES, BINBYTES, BINBYTES8, BYTEARRAY8
            b'C' => {
                let len = u64::from(bytes.byte()?);
                bytes.skip(len)?;
                self.push_shared(Value::Other)
            }
            b'B' => {
                let len = u64::from(u32::from_le_bytes(bytes.array()?));
                bytes.skip(len)?;
                self.push_shared(Value::Other)
            }
            0x8e | 0x96 => {
                let len = u64::from_le_bytes(bytes.array()?);
                bytes.skip(len)?;
                self.push_shared(Value::Other)
            }
            // GLOBAL
            b'c' => {
                let (module, name) = (bytes.line()?, bytes.line()?);
                match (std::str::from_utf8(&module), std::str::from_utf8(&name)) {
                    (Ok(module), Ok(name)) => global(module, name).and_then(|found| self.push_global(found)),
                    _ => Err(PickleProblem::NotUtf8),
                }
            }
            // BINGET, LONG_BINGET
            b'h' => {
                let index = bytes.byte()?;
                self.get(index.into())
            }
            b'j' => {
                let index = u32::from_le_bytes(bytes.array()?);
                self.get(index)
            }
            // BINPUT, LONG_BINPUT
            b'q' => {
                let index = bytes.byte()?;
                self.put(index.into())
            }
            b'r' => {
                let index = u32::from_le_bytes(bytes.array()?);
                self.put(index)
            }
            opcode => self.execute(opcode),
        };
        done.or_else(|problem| self.fail(problem))
    }

    /// Reads the bytes of a text or number, bounded by the maximum size of a pickle.
    fn take(&self, bytes: &mut Bytes<'_>, len: u64) -> Result<Vec<u8>, TorchError> {
        if len > MAX_BYTES && len <= bytes.left() {
            return self.fail(PickleProblem::TooLarge { max: MAX_BYTES });
        }
        bytes.take(len)
    }

    /// Executes an instruction without arguments.
    #[allow(clippy::too_many_lines, reason = "one match over all instructions")]
    fn execute(&mut self, opcode: u8) -> Step<()> {
        match opcode {
            // MARK
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            // POP removes the mark if one is on top.
            b'0' if self.marks.last() == Some(&self.stack.len()) => {
                self.marks.pop();
                Ok(())
            }
            b'0' => self.pop().map(|_| ()),
            // POP_MARK
            b'1' => self.pop_mark().map(|_| ()),
            // DUP
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
            b'N' => self.push_shared(Value::None),
            // NEWTRUE, NEWFALSE
            0x88 | 0x89 => self.push_shared(Value::Bool),
            // EMPTY_TUPLE, TUPLE1, TUPLE2, TUPLE3, TUPLE
            b')' => self.push_shared(Value::Tuple(Span { start: 0, len: 0 })),
            0x85..=0x87 => {
                let n = usize::from(opcode - 0x84);
                let start = self.stack.len().checked_sub(n).filter(|start| self.marks.last() <= Some(start));
                self.push_tuple(start.ok_or(PickleProblem::EmptyStack)?)
            }
            b't' => {
                let start = self.mark()?;
                self.push_tuple(start)
            }
            // EMPTY_LIST, APPEND, APPENDS
            b']' => self.push(Value::List(None)),
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])
            }
            b'e' => {
                let items = self.pop_mark()?;
                self.append(items)
            }
            // EMPTY_DICT, SETITEM, SETITEMS
            b'}' => self.push(Value::Dict(None)),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(vec![key, value])
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set_items(items)
            }
            // EMPTY_SET, ADDITEMS, FROZENSET
            0x8f => self.push_shared(Value::Other),
            0x90 => {
                self.pop_mark()?;
                match self.get_value(self.top()?) {
                    Value::Other => Ok(()),
                    other => Err(expected("a set", other)),
                }
            }
            0x91 => {
                self.pop_mark()?;
                self.push_shared(Value::Other)
            }
            // MEMOIZE
            0x94 => self.put(u32::try_from(self.memo.len()).unwrap_or(u32::MAX)),
            // STACK_GLOBAL
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let found = match (self.values.text(module), self.values.text(name)) {
                    (Some(module), Some(name)) => global(module, name)?,
                    (Some(_), None) => return Err(expected("the name of a class", self.get_value(name))),
                    (None, _) => return Err(expected("the name of a class", self.get_value(module))),
                };
                self.push_global(found)
            }
            // REDUCE, NEWOBJ: a function or class, and a tuple of arguments.
            b'R' | 0x81 => {
                let (args, callee) = (self.pop()?, self.pop()?);
                match self.call(callee, args)? {
                    Made::New(Value::Other) => self.push_shared(Value::Other),
                    Made::New(value) => self.push(value),
                    Made::There(id) => {
                        self.stack.push(id);
                        Ok(())
                    }
                }
            }
            // BUILD: sets the state of the value below. Supported values need no state.
            b'b' => {
                self.pop()?;
                match self.get_value(self.top()?) {
                    Value::Dict(_) | Value::Tensor(_) | Value::Other => Ok(()),
                    other => Err(expected("a value that has a state", other)),
                }
            }
            // BINPERSID
            b'Q' => {
                let id = self.pop()?;
                let made = self.storage(id)?;
                self.push(made)
            }
            opcode => Err(PickleProblem::Opcode { opcode, name: refused_name(opcode) }),
        }
    }

    fn push(&mut self, value: Value) -> Step<()> {
        let id = self.add(value)?;
        self.stack.push(id);
        Ok(())
    }

    fn add(&mut self, value: Value) -> Step<Id> {
        let n = self.values.values.len();
        if n >= MAX_VALUES {
            return Err(PickleProblem::TooManyValues { max: MAX_VALUES });
        }
        self.values.values.push(value);
        Ok(to_u32(n))
    }

    /// Pushes a value that has no content, and so cannot change.
    fn push_shared(&mut self, value: Value) -> Step<()> {
        let id = match self.shared.iter().find(|id| self.get_value(**id) == value) {
            Some(id) => *id,
            None => {
                let id = self.add(value)?;
                self.shared.push(id);
                id
            }
        };
        self.stack.push(id);
        Ok(())
    }

    fn push_global(&mut self, global: Global) -> Step<()> {
        let known = self.values.globals.iter().position(|known| *known == global);
        let index = known.unwrap_or_else(|| {
            self.values.globals.push(global);
            self.values.globals.len() - 1
        });
        self.push_shared(Value::Global(to_u32(index)))
    }

    /// Replaces the values from a place of the stack on by a tuple of them.
    fn push_tuple(&mut self, start: usize) -> Step<()> {
        let items = self.stack.get(start..).unwrap_or_default();
        self.values.items.extend_from_slice(items);
        let span = Span::last(self.values.items.len(), items.len());
        self.stack.truncate(start);
        self.push(Value::Tuple(span))
    }

    /// Stores bytes.
    fn keep(&mut self, bytes: &[u8]) -> Span {
        self.values.bytes.extend_from_slice(bytes);
        Span::last(self.values.bytes.len(), bytes.len())
    }

    /// The top value, which must be above the last mark.
    fn top(&self) -> Step<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack.get(floor..).and_then(|above| above.last()).copied().ok_or(PickleProblem::EmptyStack)
    }

    fn pop(&mut self) -> Step<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Pops all values above the last mark.
    fn pop_mark(&mut self) -> Step<Vec<Id>> {
        let mark = self.mark()?;
        Ok(self.stack.split_off(mark))
    }

    /// Removes the last mark; returns the height of the stack at it.
    fn mark(&mut self) -> Step<usize> {
        let mark = self.marks.pop().ok_or(PickleProblem::NoMark)?;
        Ok(mark.min(self.stack.len()))
    }

    fn get_value(&self, id: Id) -> Value {
        self.values.get(id)
    }

    fn get(&mut self, index: u32) -> Step<()> {
        let id = self.memo.get(index).ok_or(PickleProblem::NoMemo { index })?;
        self.stack.push(id);
        Ok(())
    }

    fn put(&mut self, index: u32) -> Step<()> {
        let top = self.top()?;
        self.memo.set(index, top);
        Ok(())
    }

    fn long(&mut self, bytes: Vec<u8>) -> Step<()> {
        let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut number = [if negative { 0xff } else { 0 }; 8];
        let value = match number.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(&bytes);
                Value::Int(i64::from_le_bytes(number))
            }
            None => Value::Long(self.keep(&bytes)),
        };
        self.push(value)
    }

    fn text(&mut self, bytes: Vec<u8>) -> Step<()> {
        str::from_utf8(&bytes).map_err(|_| PickleProblem::NotUtf8)?;
        let text = self.keep(&bytes);
        self.push(Value::Text(text))
    }

    /// Checks that another list may become longer than empty.
    fn take_list(&self) -> Step<()> {
        let n = self.values.lists.len() + self.values.dicts.len();
        if n < MAX_LISTS { Ok(()) } else { Err(PickleProblem::TooManyLists { max: MAX_LISTS }) }
    }

    fn append(&mut self, items: Vec<Id>) -> Step<()> {
        let list = self.top()?;
        match self.get_value(list) {
            Value::List(_) if items.is_empty() => {}
            Value::List(Some(index)) => {
                if let Some(list) = self.values.lists.get_mut(index as usize) {
                    list.extend(items);
                }
            }
            Value::List(None) => {
                self.take_list()?;
                let index = to_u32(self.values.lists.len());
                self.values.lists.push(items);
                self.replace(list, Value::List(Some(index)));
            }
            // A set, in protocols before 4.
            Value::Other => {}
            other => return Err(expected("a list", other)),
        }
        Ok(())
    }

    fn set_items(&mut self, items: Vec<Id>) -> Step<()> {
        let dict = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        let pairs = pairs.iter().map(|[key, value]| (*key, *value));
        match self.get_value(dict) {
            Value::Dict(_) if !rest.is_empty() => return Err(PickleProblem::EmptyStack),
            Value::Dict(_) if items.is_empty() => {}
            Value::Dict(Some(index)) => {
                if let Some(dict) = self.values.dicts.get_mut(index as usize) {
                    dict.extend(pairs);
                }
            }
            Value::Dict(None) => {
                let made = self.dict(pairs.collect())?;
                self.replace(dict, made);
            }
            // A counter.
            Value::Other => {}
            other => return Err(expected("a dictionary", other)),
        }
        Ok(())
    }

    /// A dictionary of these pairs.
    fn dict(&mut self, pairs: Vec<(Id, Id)>) -> Step<Value> {
        if pairs.is_empty() {
            return Ok(Value::Dict(None));
        }
        self.take_list()?;
        self.values.dicts.push(pairs);
        Ok(Value::Dict(Some(to_u32(self.values.dicts.len()) - 1)))
    }

    fn replace(&mut self, id: Id, value: Value) {
        if let Some(place) = self.values.values.get_mut(id as usize) {
            *place = value;
        }
    }

    fn tuple(&self, id: Id) -> Step<&[Id]> {
        match self.get_value(id) {
            Value::Tuple(items) => Ok(items.of(&self.values.items)),
            other => Err(expected("a tuple", other)),
        }
    }

    /// The result of calling a known function.
    fn call(&mut self, callee: Id, args: Id) -> Step<Made> {
        let found = || PickleProblem::Call { found: self.get_value(callee).kind() };
        let callee = self.values.global(callee).ok_or_else(found)?;
        let items = self.tuple(args)?;
        let argument = |index: usize| items.get(index).copied().ok_or(PickleProblem::Arguments { found: items.len() });
        match callee {
            Global::OrderedDict => match items {
                [] => Ok(Made::New(Value::Dict(None))),
                [pairs, ..] => {
                    let pairs = *pairs;
                    self.pairs(pairs).map(Made::New)
                }
            },
            Global::Size => argument(0).map(Made::There),
            Global::Opaque => Ok(Made::New(Value::Other)),
            Global::Parameter => match self.get_value(argument(0)?) {
                Value::Tensor(_) => argument(0).map(Made::There),
                other => Err(expected("a tensor", other)),
            },
            Global::FromType => {
                let (function, args) = (argument(0)?, argument(2)?);
                match self.values.global(function) {
                    Some(Global::Tensor | Global::TensorV2 | Global::TensorV3 | Global::Parameter) => {
                        self.call(function, args)
                    }
                    _ => Err(PickleProblem::Call { found: self.get_value(function).kind() }),
                }
            }
            Global::Tensor | Global::TensorV2 | Global::TensorV3 => {
                let dtype = match callee {
                    Global::TensorV3 => Some(argument(6)?),
                    _ => None,
                };
                let args = [argument(0)?, argument(1)?, argument(2)?, argument(3)?];
                self.view(args, dtype).map(Made::New)
            }
            Global::TensorClass | Global::Storage(_) | Global::Dtype(_) => {
                Err(PickleProblem::Call { found: "a class of tensors or numbers" })
            }
        }
    }

    /// Builds a dictionary from a list of pairs.
    fn pairs(&mut self, list: Id) -> Step<Value> {
        let items = match self.get_value(list) {
            Value::List(items) => self.values.list(items),
            other => return Err(expected("a list of pairs", other)),
        };
        // One list can be converted repeatedly.
        let n_pairs = self.n_pairs.saturating_add(items.len());
        if n_pairs as u64 > MAX_OPS {
            return Err(PickleProblem::TooLong { max: MAX_OPS });
        }
        let pair = |item: &Id| {
            let pair = match self.get_value(*item) {
                Value::List(pair) => self.values.list(pair),
                Value::Tuple(pair) => pair.of(&self.values.items),
                _ => return None,
            };
            pair.first_chunk::<2>().map(|[key, value]| (*key, *value))
        };
        let pairs: Option<Vec<_>> = items.iter().map(pair).collect();
        self.n_pairs = n_pairs;
        let other = PickleProblem::Expected { expected: "a list of pairs", found: "another list" };
        self.dict(pairs.ok_or(other)?)
    }

    /// The storage of a persistent id: `("storage", class, key, device, number of elements)`.
    fn storage(&mut self, id: Id) -> Step<Value> {
        let items = self.tuple(id)?;
        let (Some([kind, class, key, _, elements]), view) = (items.first_chunk::<5>(), items.get(5)) else {
            return Err(PickleProblem::Expected { expected: "a storage of five values", found: "a shorter tuple" });
        };
        if self.values.text(*kind) != Some("storage") {
            return Err(expected("the word storage", self.get_value(*kind)));
        }
        if !matches!(view.map(|view| self.get_value(*view)), None | Some(Value::None)) {
            return Err(PickleProblem::ViewedStorage);
        }
        let Some(Global::Storage(dtype)) = self.values.global(*class) else {
            return Err(expected("a class of storages", self.get_value(*class)));
        };
        match self.get_value(*key) {
            Value::Text(key) if key.len as usize > MAX_NAME => return Err(PickleProblem::LongLine { max: MAX_NAME }),
            Value::Text(_) => {}
            other => return Err(expected("the key of a storage", other)),
        }
        let key = *key;
        let elements = self.number(*elements, "the number of elements of a storage")?;
        if self.storages.len() >= MAX_STORAGES {
            return Err(PickleProblem::TooManyStorages { max: MAX_STORAGES });
        }
        let index = u32::try_from(self.storages.len()).unwrap_or(u32::MAX);
        self.storages.push(Storage { key, dtype, elements });
        Ok(Value::Storage(index))
    }

    fn view(&mut self, [storage, offset, shape, strides]: [Id; 4], dtype: Option<Id>) -> Step<Value> {
        let index = match self.get_value(storage) {
            Value::Storage(index) => index,
            other => return Err(expected("a storage", other)),
        };
        let dtype = match dtype {
            None => self.storages.get(index as usize).and_then(|storage| storage.dtype),
            Some(id) => match self.values.global(id) {
                Some(Global::Dtype(dtype)) => Some(dtype),
                _ => return Err(expected("a number format", self.get_value(id))),
            },
        };
        let dtype =
            dtype.ok_or(PickleProblem::Expected { expected: "a storage with a number format", found: "bytes" })?;
        let offset = self.number(offset, "the offset of a tensor")?;
        let shape = self.numbers(shape, "a dimension of a tensor")?;
        let strides = self.numbers(strides, "a stride of a tensor")?;
        if shape.len() != strides.len() {
            return Err(PickleProblem::Strides { shape: shape.len(), strides: strides.len() });
        }
        self.n_dims = self.n_dims.saturating_add(shape.len()).saturating_add(1);
        if self.n_dims > MAX_ALL_DIMS {
            return Err(PickleProblem::TooManyDimensions { max: MAX_ALL_DIMS });
        }
        let view = View { storage: index, dtype, offset, shape, strides };
        let index = u32::try_from(self.views.len()).unwrap_or(u32::MAX);
        self.views.push(view);
        Ok(Value::Tensor(index))
    }

    fn number(&self, id: Id, what: &'static str) -> Step<u64> {
        match self.get_value(id) {
            Value::Int(n) => u64::try_from(n).map_err(|_| PickleProblem::Number { what }),
            Value::Long(_) => Err(PickleProblem::Number { what }),
            other => Err(expected("a whole number", other)),
        }
    }

    fn numbers(&self, id: Id, what: &'static str) -> Step<Vec<u64>> {
        let items = match self.get_value(id) {
            Value::List(items) => self.values.list(items),
            _ => self.tuple(id)?,
        };
        if items.len() > MAX_DIMS {
            return Err(PickleProblem::Dimensions { found: items.len(), max: MAX_DIMS });
        }
        items.iter().map(|item| self.number(*item, what)).collect()
    }
}

/// Looks up an allowed class or function.
fn global(module: &str, name: &str) -> Step<Global> {
    let refused = || PickleProblem::Global { module: shortened(module), name: shortened(name) };
    allowed::find(module, name).ok_or_else(refused)
}

/// The start of a text, shortened for a message.
fn shortened(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

fn expected(expected: &'static str, found: Value) -> PickleProblem {
    PickleProblem::Expected { expected, found: found.kind() }
}

/// The names of unsupported instructions; empty for invalid opcodes.
fn refused_name(opcode: u8) -> &'static str {
    match opcode {
        b'I' => "INT",
        b'L' => "LONG",
        b'F' => "FLOAT",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'P' => "PERSID",
        b'd' => "DICT",
        b'l' => "LIST",
        b'g' => "GET",
        b'p' => "PUT",
        b'i' => "INST",
        b'o' => "OBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x92 => "NEWOBJ_EX",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => "",
    }
}
