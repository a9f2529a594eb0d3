//! Removes blocks from a model.

use std::collections::BTreeSet;
use std::fmt;

use gguf_format::keys::{self, BLOCK_COUNT, GENERAL_ARCHITECTURE, LEADING_DENSE_BLOCK_COUNT};
use gguf_format::{Array, Head, Value};

/// Reasons why blocks cannot be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneError {
    /// The model lacks this key with the number of blocks.
    NoBlockCount(String),
    /// The block does not exist.
    NoSuchBlock {
        /// The number.
        block: u64,
        /// The number of blocks.
        n_blocks: u64,
    },
    /// No block would remain.
    NoneLeft,
}

impl fmt::Display for PruneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PruneError::NoBlockCount(key) => {
                write!(f, "cannot remove blocks: the key {key} does not state the number of blocks")
            }
            PruneError::NoSuchBlock { block, n_blocks } => {
                write!(f, "cannot remove block {block}; the blocks are 0 to {}", n_blocks.saturating_sub(1))
            }
            PruneError::NoneLeft => f.write_str("cannot remove all blocks; at least one must remain"),
        }
    }
}

impl std::error::Error for PruneError {}

/// The blocks to remove, and with them the new names of tensors.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pruned(BTreeSet<u64>);

impl Pruned {
    /// Whether no block is removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of removed blocks before a block.
    fn n_before(&self, block: u64) -> u64 {
        self.0.range(..block).count() as u64
    }

    /// Whether the tensor with that name is removed with its block.
    pub(crate) fn removes(&self, name: &[u8]) -> bool {
        !self.is_empty() && block_of(name).is_some_and(|(_, block)| self.0.contains(&block))
    }

    /// The new name of a remaining tensor.
    pub(crate) fn renamed(&self, name: &[u8]) -> Vec<u8> {
        let renamed = || {
            let (digits, block) = block_of(name)?;
            let new = (block - self.n_before(block)).to_string();
            let (before, after) = (name.get(..digits.start)?, name.get(digits.end..)?);
            Some([before, new.as_bytes(), after].concat())
        };
        renamed().unwrap_or_else(|| name.to_owned())
    }
}

/// Removes blocks from the keys of a head; the result has the new names of the tensors.
///
/// Names follow llama.cpp's rule (`remap_layer` in `llama-quant.cpp`): the first `blk.N.` anywhere in a name. There are three differences:
/// blocks are always counted in numerical order, even if the names of tensors do not begin with `blk.` (llama.cpp counts those in
/// alphabetical order); arrays of the architecture with a value for each block lose those of the removed blocks; and the number of leading
/// dense blocks is that of the remaining ones.
pub(crate) fn prune(head: &mut Head, blocks: &[u64]) -> Result<Pruned, PruneError> {
    let pruned = Pruned(blocks.iter().copied().collect());
    if pruned.is_empty() {
        return Ok(pruned);
    }
    let architecture = head.get(GENERAL_ARCHITECTURE).and_then(|v| v.as_str()?.to_str().ok().map(str::to_owned));
    let architecture = architecture.unwrap_or_default();
    let count_key = keys::for_arch(BLOCK_COUNT, &architecture);
    let n_blocks = head.get(&count_key).and_then(|v| v.get::<u64>().ok());
    let n_blocks = n_blocks.ok_or_else(|| PruneError::NoBlockCount(count_key.to_string()))?;
    if let Some(&block) = pruned.0.iter().find(|&&block| block >= n_blocks) {
        return Err(PruneError::NoSuchBlock { block, n_blocks });
    }
    let n_left = n_blocks - pruned.0.len() as u64;
    if n_left == 0 {
        return Err(PruneError::NoneLeft);
    }

    let prefix = format!("{architecture}.");
    for kv in head.kvs.iter_mut().filter(|kv| kv.key.starts_with(prefix.as_bytes())) {
        if let Value::Array(array) = &mut kv.value
            && array.as_ref().len() == n_blocks
        {
            let mut rest = Array::new(array.as_ref().elem_type());
            for (_, value) in (0..).zip(array.as_ref().iter()).filter(|(block, _)| !pruned.0.contains(block)) {
                // An element of the array always fits an array of the same type.
                let _ = rest.push(value);
            }
            *array = rest;
        }
    }
    let dense_key = keys::for_arch(LEADING_DENSE_BLOCK_COUNT, &architecture);
    if let Some(n_dense) = head.get(&dense_key).and_then(|v| v.get::<u32>().ok()) {
        head.set(
            &dense_key,
            n_dense.saturating_sub(u32::try_from(pruned.n_before(u64::from(n_dense))).unwrap_or(u32::MAX)),
        );
    }
    head.remove(&count_key);
    head.set(&count_key, u32::try_from(n_left).unwrap_or(u32::MAX));

    Ok(pruned)
}

/// The first number between `blk.` and a period in a name, and its range.
fn block_of(name: &[u8]) -> Option<(std::ops::Range<usize>, u64)> {
    let starts = name.windows(4).enumerate().filter(|(_, w)| w == b"blk.").map(|(i, _)| i + 4);
    starts.into_iter().find_map(|start| {
        let rest = name.get(start..)?;
        let n_digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let number = std::str::from_utf8(rest.get(..n_digits)?).ok()?.parse().ok()?;
        (rest.get(n_digits) == Some(&b'.')).then_some((start..start + n_digits, number))
    })
}

#[cfg(test)]
mod tests {
    use gguf_format::ValueRef;

    use super::*;

    const NAMES: [&[u8]; 7] = [
        b"output.weight",
        b"blk.0.a",
        b"blk.1.a",
        b"blk.2.a",
        b"enc.blk.10.a",
        b"enc.blk.11.blk.2.a",
        b"blk.x.blk.3.a",
    ];

    fn head() -> Head {
        let mut head = Head::default();
        head.set("general.architecture", "deepseek2");
        head.set("deepseek2.block_count", 12u32);
        head.set("deepseek2.leading_dense_block_count", 3u32);
        let mut heads = Array::new(gguf_format::ValueType::U32);
        for i in 0..12u32 {
            heads.push(ValueRef::U32(i)).unwrap();
        }
        head.set("deepseek2.attention.head_count_kv", Value::Array(heads.clone()));
        head.set("tokenizer.ggml.token_type", Value::Array(heads));
        head
    }

    #[test]
    fn what_belongs_to_a_block_goes_with_it() {
        let mut pruned = head();
        let blocks = prune(&mut pruned, &[1, 10, 1]).unwrap();
        let new = |name: &&[u8]| (!blocks.removes(name)).then(|| String::from_utf8(blocks.renamed(name)).unwrap());
        let names: Vec<_> = NAMES.iter().map(new).collect();
        let names: Vec<_> = names.iter().map(Option::as_deref).collect();
        let expected = [
            Some("output.weight"),
            Some("blk.0.a"),
            None,
            Some("blk.1.a"),
            None,
            Some("enc.blk.9.blk.2.a"),
            Some("blk.x.blk.2.a"),
        ];
        assert_eq!(names, expected);
        assert_eq!(pruned.get("deepseek2.block_count"), Some(ValueRef::U32(10)));
        assert_eq!(pruned.kvs.last().unwrap().key, b"deepseek2.block_count");
        assert_eq!(pruned.get("deepseek2.leading_dense_block_count"), Some(ValueRef::U32(2)));
        let array = |key: &str| match pruned.get(key) {
            Some(ValueRef::Array(a)) => a.iter().map(|v| v.get::<u64>().unwrap()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(array("deepseek2.attention.head_count_kv"), [0, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
        assert_eq!(array("tokenizer.ggml.token_type").len(), 12);
    }

    #[test]
    fn what_cannot_go_is_refused() {
        let all: Vec<u64> = (0..12).collect();
        assert_eq!(prune(&mut head(), &all), Err(PruneError::NoneLeft));
        assert_eq!(prune(&mut head(), &[3, 12]), Err(PruneError::NoSuchBlock { block: 12, n_blocks: 12 }));
        let mut without = head();
        without.remove("deepseek2.block_count");
        assert_eq!(prune(&mut without, &[1]), Err(PruneError::NoBlockCount("deepseek2.block_count".into())));
    }
}
