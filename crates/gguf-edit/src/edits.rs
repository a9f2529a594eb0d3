//! Edits of the keys and tensor names of a head, and the resulting changes.

use gguf_format::{Array, ArrayRef, Head, Kv, MAX_KEY, Str, Value, ValueRef};

use crate::EditError;
use crate::typed::kind_of_value;

/// One edit of a head.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Sets a key: in its place if it exists, otherwise at the end.
    Set {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// Sets a key: in its place if it exists, otherwise before the key with this index, or at the end.
    SetAt {
        /// The key.
        key: String,
        /// The value.
        value: Value,
        /// The index among the keys, without reserved space, counted from 0.
        index: u64,
    },
    /// Sets an element of an array.
    SetElement {
        /// The key of the array.
        key: String,
        /// The index, counted from 0.
        index: u64,
        /// The value, of the type of the elements.
        value: Value,
    },
    /// Removes all pairs with a key.
    Unset {
        /// The key.
        key: String,
    },
    /// Renames a key, in its place.
    RenameKey {
        /// The key.
        from: String,
        /// The new name.
        to: String,
    },
    /// Renames a tensor.
    RenameTensor {
        /// The name.
        from: String,
        /// The new name.
        to: String,
    },
}

/// A change made by an edit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A key was added.
    Added {
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// A value was changed.
    Changed {
        /// The key.
        key: String,
        /// The old value.
        before: Value,
        /// The new value.
        after: Value,
    },
    /// A key was removed.
    Removed {
        /// The key.
        key: String,
        /// The old value.
        before: Value,
    },
    /// A key was renamed.
    RenamedKey {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A tensor was renamed.
    RenamedTensor {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
}

/// An element of an array before and after an edit.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ElementChange<'a> {
    /// The index, counted from 0.
    pub index: u64,
    /// The old value.
    pub before: ValueRef<'a>,
    /// The new value.
    pub after: ValueRef<'a>,
}

impl Change {
    /// The elements that differ, if an array was replaced by one of the same type and length.
    pub fn elements(&self) -> impl Iterator<Item = ElementChange<'_>> {
        let arrays = match self {
            Change::Changed { before: Value::Array(before), after: Value::Array(after), .. } => {
                Some((before.as_ref(), after.as_ref()))
            }
            _ => None,
        };
        let arrays = arrays.filter(|(a, b)| a.elem_type() == b.elem_type() && a.len() == b.len());
        let elements = arrays.into_iter().flat_map(|(a, b)| (0..).zip(a.iter().zip(b.iter())));
        elements.filter(|(_, (before, after))| before != after).map(|(index, (before, after))| ElementChange {
            index,
            before,
            after,
        })
    }

    /// The changed key, under its new name.
    pub fn key(&self) -> Option<&str> {
        match self {
            Change::Added { key, .. } | Change::Changed { key, .. } | Change::Removed { key, .. } => Some(key),
            Change::RenamedKey { to, .. } => Some(to),
            Change::RenamedTensor { .. } => None,
        }
    }

    /// Whether the change affects that key, under its old or new name.
    pub fn is_about(&self, name: &str) -> bool {
        self.key() == Some(name) || matches!(self, Change::RenamedKey { from, .. } if from == name)
    }
}

/// Applies edits in order; returns the changes. Edits without an effect are not included.
///
/// ```
/// use gguf_edit::{Change, Edit};
/// use gguf_format::Head;
///
/// let mut head = Head::default();
/// head.set("general.name", "Old");
/// let edits = [Edit::Set { key: "general.name".into(), value: "New".into() }];
/// let changes = gguf_edit::apply(&mut head, &edits)?;
/// assert!(matches!(changes.as_slice(), [Change::Changed { .. }]));
/// assert!(gguf_edit::apply(&mut head, &edits)?.is_empty());
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
///
/// # Errors
/// If a key or tensor is missing, a new name already exists, or a name is invalid. The head may then have some of the edits.
pub fn apply(head: &mut Head, edits: &[Edit]) -> Result<Vec<Change>, EditError> {
    let mut changes = Vec::new();
    for edit in edits {
        changes.extend(apply_one(head, edit)?);
    }
    Ok(changes)
}

/// The pair with a key. A key that is not printed as it is, such as one outside UTF-8, is also named by its printed form: `\x8d`.
fn stored<'a>(head: &'a Head, key: &str) -> Option<&'a Kv> {
    let exact = head.kvs.iter().find(|kv| kv.key == key.as_bytes());
    let printed = || head.kvs.iter().filter(|_| key.contains('\\')).find(|kv| format!("{}", Str(&kv.key)) == key);
    exact.or_else(printed)
}

/// The value of a key, which may be named by its printed form.
pub(crate) fn value_of<'a>(head: &'a Head, key: &str) -> Option<ValueRef<'a>> {
    stored(head, key).map(|kv| kv.value.as_ref())
}

/// The bytes of a key that is named as it is printed: in a key outside UTF-8, `\x8d` stands for a byte. Any other name has its own bytes.
///
/// ```
/// assert_eq!(gguf_edit::key_bytes(r"own.o\x8dd"), b"own.o\x8dd");
/// assert_eq!(gguf_edit::key_bytes(r"own.\x41"), br"own.\x41");
/// ```
pub fn key_bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        let Some(byte) = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) else { break };
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    match format!("{}", Str(&bytes)) == name {
        true => bytes,
        false => name.as_bytes().to_owned(),
    }
}

/// The array of a key.
///
/// # Errors
/// If the key is missing or has another value.
pub(crate) fn array<'a>(head: &'a Head, key: &str) -> Result<ArrayRef<'a>, EditError> {
    let value = value_of(head, key).ok_or_else(|| no_key(head, key))?;
    value.as_array().ok_or_else(|| EditError::NoArray { key: key.to_owned(), found: kind_of_value(value) })
}

fn apply_one(head: &mut Head, edit: &Edit) -> Result<Vec<Change>, EditError> {
    match edit {
        Edit::Set { key, value } => {
            check_key(key)?;
            let before = stored(head, key).cloned();
            let (bytes, before) = before.map_or_else(|| (key_bytes(key), None), |kv| (kv.key, Some(kv.value)));
            if before.as_ref() == Some(value) {
                return Ok(Vec::new());
            }
            match head.kvs.iter_mut().find(|kv| kv.key == bytes) {
                Some(kv) => kv.value = value.clone(),
                None => head.kvs.push(Kv { key: bytes, value: value.clone() }),
            }
            let (key, value) = (key.clone(), value.clone());
            Ok(vec![match before {
                Some(before) => Change::Changed { key, before, after: value },
                None => Change::Added { key, value },
            }])
        }
        Edit::SetAt { key, value, index } => {
            let changes = apply_one(head, &Edit::Set { key: key.clone(), value: value.clone() })?;
            if matches!(changes.as_slice(), [Change::Added { .. }])
                && let Some(new) = head.kvs.pop()
            {
                let mut keys = head.kvs.iter().enumerate().filter(|(_, kv)| kv.key != crate::PAD_KEY.as_bytes());
                let at = usize::try_from(*index).ok().and_then(|index| keys.nth(index)).map(|(at, _)| at);
                head.kvs.insert(at.unwrap_or(head.kvs.len()), new);
            }
            Ok(changes)
        }
        Edit::SetElement { key, index, value } => {
            let before = array(head, key)?;
            let n_elements = before.len();
            if *index >= n_elements {
                return Err(EditError::Element { key: key.clone(), index: *index, n_elements });
            }
            let mut after = Array::new(before.elem_type());
            for (i, element) in (0..).zip(before.iter()) {
                let element = if i == *index { value.as_ref() } else { element };
                after.push(element).map_err(|_| {
                    let (given, expected) = (kind_of_value(element), before.elem_type().to_string());
                    EditError::TypeChange { key: key.clone(), given, expected }
                })?;
            }
            apply_one(head, &Edit::Set { key: key.clone(), value: Value::Array(after) })
        }
        Edit::Unset { key } => {
            let stored = stored(head, key).ok_or_else(|| no_key(head, key))?.key.clone();
            let (gone, kept) = std::mem::take(&mut head.kvs).into_iter().partition(|kv| kv.key == stored);
            head.kvs = kept;
            let gone: Vec<Kv> = gone;
            Ok(gone.into_iter().map(|kv| Change::Removed { key: key.clone(), before: kv.value }).collect())
        }
        Edit::RenameKey { from, to } => {
            check_key(to)?;
            if from == to && head.get(from).is_some() {
                return Ok(Vec::new());
            }
            if head.get(to).is_some() {
                return Err(EditError::Taken { name: to.clone() });
            }
            let stored = stored(head, from).ok_or_else(|| no_key(head, from))?.key.clone();
            let Some(kv) = head.kvs.iter_mut().find(|kv| kv.key == stored) else {
                return Err(no_key(head, from));
            };
            kv.key = to.clone().into_bytes();
            Ok(vec![Change::RenamedKey { from: from.clone(), to: to.clone() }])
        }
        Edit::RenameTensor { from, to } => {
            if to.is_empty() || to.len() > head.max_tensor_name() || to.contains('\0') {
                return Err(EditError::TensorName { name: to.clone() });
            }
            let is_there = |name: &str| head.tensors.iter().any(|tensor| tensor.name == name.as_bytes());
            if from == to && is_there(from) {
                return Ok(Vec::new());
            }
            if is_there(to) {
                return Err(EditError::Taken { name: to.clone() });
            }
            let Some(tensor) = head.tensors.iter_mut().find(|tensor| tensor.name == from.as_bytes()) else {
                let names = head.tensors.iter().map(|tensor| Str(&tensor.name));
                return Err(EditError::NoTensor { name: from.clone(), nearest: gguf_io::nearest(from, names) });
            };
            tensor.name = to.clone().into_bytes();
            Ok(vec![Change::RenamedTensor { from: from.clone(), to: to.clone() }])
        }
    }
}

/// The edit that renames the key or the tensor with this name.
///
/// ```
/// use gguf_edit::{Edit, apply, rename};
/// use gguf_format::Head;
///
/// let mut head = Head::default();
/// head.set("llama.contextlength", 4096u32);
/// let edit = rename(&head, "llama.contextlength", "llama.context_length")?;
/// assert!(matches!(edit, Edit::RenameKey { .. }));
/// apply(&mut head, &[edit])?;
/// assert!(head.get("llama.context_length").is_some());
/// # Ok::<(), gguf_edit::EditError>(())
/// ```
///
/// # Errors
/// If neither a key nor a tensor has the name, or both do.
pub fn rename(head: &Head, from: &str, to: &str) -> Result<Edit, EditError> {
    let is_key = stored(head, from).is_some();
    let is_tensor = head.tensors.iter().any(|tensor| tensor.name == from.as_bytes());
    let (name, to) = (from.to_owned(), to.to_owned());
    match (is_key, is_tensor) {
        (true, false) => Ok(Edit::RenameKey { from: name, to }),
        (false, true) => Ok(Edit::RenameTensor { from: name, to }),
        (true, true) => Err(EditError::TwoMeanings { name }),
        (false, false) => Err(EditError::NoName { name }),
    }
}

fn check_key(key: &str) -> Result<(), EditError> {
    if key.is_empty() || key.len() > MAX_KEY || key.contains('\0') {
        return Err(EditError::KeyName { key: key.to_owned() });
    }
    Ok(())
}

fn no_key(head: &Head, key: &str) -> EditError {
    EditError::NoKey {
        key: key.to_owned(),
        nearest: gguf_io::nearest(key, head.kvs.iter().map(|kv: &Kv| Str(&kv.key))),
    }
}
