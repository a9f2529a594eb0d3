//! Merging neighbors: the pair with the highest priority first, the leftmost of equals.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The symbol of a text that is neither a token nor part of a merge.
pub(super) const NO_SYMBOL: u32 = u32::MAX;

/// The place of no node.
const NONE: u32 = u32::MAX;

/// A text of the chain of symbols that is merged.
#[derive(Debug, Clone, Copy)]
struct Node {
    symbol: u32,
    start: u32,
    end: u32,
    before: u32,
    after: u32,
}

/// A pair that can be merged.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair<P> {
    priority: P,
    left: Reverse<u32>,
    right: u32,
    /// The length of both texts. It differs if one of the parts has been merged since.
    len: u32,
    symbol: u32,
}

/// The priority of a score: higher ones first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score(pub(super) f32);

impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        // Adding zero makes both zeros equal.
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

/// A chain of symbols, and the pairs in it.
#[derive(Debug)]
pub(super) struct Chain<P> {
    nodes: Vec<Node>,
    pairs: BinaryHeap<Pair<P>>,
}

impl<P: Ord> Chain<P> {
    pub(super) fn new() -> Chain<P> {
        Chain { nodes: Vec::new(), pairs: BinaryHeap::new() }
    }

    /// Adds a symbol with the text of this range.
    #[expect(clippy::cast_possible_truncation, reason = "positions of symbols fit 32 bits up to texts of 4 GiB")]
    pub(super) fn push(&mut self, symbol: u32, start: usize, end: usize) {
        let at = self.nodes.len() as u32;
        if let Some(last) = self.nodes.last_mut() {
            last.after = at;
        }
        let before = at.checked_sub(1).unwrap_or(NONE);
        self.nodes.push(Node { symbol, start: start as u32, end: end as u32, before, after: NONE });
    }

    /// Merges as long as `merge` has a result for two neighbors, then gives every symbol with its range, and clears the chain. `merge` gets the
    /// two symbols and the range of their text.
    #[expect(clippy::cast_possible_truncation, reason = "positions of symbols fit 32 bits up to texts of 4 GiB")]
    pub(super) fn merge(
        &mut self,
        merge: impl Fn(u32, u32, std::ops::Range<usize>) -> Option<(P, u32)>,
        mut symbol: impl FnMut(u32, std::ops::Range<usize>),
    ) {
        for right in 1..self.nodes.len() as u32 {
            self.offer(right - 1, right, &merge);
        }
        while let Some(pair) = self.pairs.pop() {
            let left_at = pair.left.0;
            let (Some(left), Some(right)) = (self.node(left_at), self.node(pair.right)) else { continue };
            // A merged part has no text, or a longer one.
            let is_empty = left.start == left.end || right.start == right.end;
            if is_empty || left.end - left.start + (right.end - right.start) != pair.len {
                continue;
            }
            if let Some(node) = self.nodes.get_mut(left_at as usize) {
                *node = Node { symbol: pair.symbol, end: right.end, after: right.after, ..*node };
            }
            if let Some(node) = self.nodes.get_mut(pair.right as usize) {
                node.end = node.start;
            }
            if let Some(node) = self.nodes.get_mut(right.after as usize) {
                node.before = left_at;
            }
            self.offer(left.before, left_at, &merge);
            self.offer(left_at, right.after, &merge);
        }
        for node in self.nodes.drain(..).filter(|node| node.start < node.end) {
            symbol(node.symbol, node.start as usize..node.end as usize);
        }
    }

    fn node(&self, at: u32) -> Option<Node> {
        self.nodes.get(at as usize).copied()
    }

    fn offer(
        &mut self,
        left_at: u32,
        right_at: u32,
        merge: impl Fn(u32, u32, std::ops::Range<usize>) -> Option<(P, u32)>,
    ) {
        let (Some(left), Some(right)) = (self.node(left_at), self.node(right_at)) else { return };
        if let Some((priority, symbol)) = merge(left.symbol, right.symbol, left.start as usize..right.end as usize) {
            let len = right.end - left.start;
            self.pairs.push(Pair { priority, left: Reverse(left_at), right: right_at, len, symbol });
        }
    }
}
