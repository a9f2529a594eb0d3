//! The SHA-256 of a file whose bytes arrive in nearly the right order.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::budget::Buffer;

/// The most bytes that wait for earlier ones. With more, the hash is given up.
const PENDING: usize = 24 << 20;

/// Hashes the bytes from the start of a file to its end. Bytes that arrive again are ignored.
pub(crate) struct Sum {
    hash: Sha256,
    /// The bytes from the start that have been hashed.
    next: u64,
    length: u64,
    pending: BTreeMap<u64, Arc<Buffer>>,
    pending_bytes: usize,
    is_given_up: bool,
}

impl Sum {
    pub(crate) fn new(length: u64) -> Sum {
        let (hash, pending) = (Sha256::new(), BTreeMap::new());
        Sum { hash, next: 0, length, pending, pending_bytes: 0, is_given_up: false }
    }

    /// Adds bytes in memory that others share. Returns the hash in hexadecimal if the file is complete.
    pub(crate) fn add_shared(&mut self, start: u64, bytes: &Arc<Buffer>) -> Option<String> {
        if self.is_done() {
            return None;
        }
        if start > self.next {
            self.pending_bytes += bytes.len();
            self.pending.insert(start, Arc::clone(bytes));
            if self.pending_bytes > PENDING {
                self.give_up();
            }
            return None;
        }
        self.add(start, bytes)
    }

    /// Adds bytes. If they are not the next ones, the hash is given up, because they are not kept.
    pub(crate) fn add(&mut self, start: u64, bytes: &[u8]) -> Option<String> {
        if self.is_done() {
            return None;
        }
        if start > self.next {
            self.give_up();
            return None;
        }
        self.update(start, bytes);
        while let Some(first) = self.pending.first_entry().filter(|first| *first.key() <= self.next) {
            let (start, bytes) = first.remove_entry();
            self.pending_bytes -= bytes.len();
            self.update(start, &bytes);
        }
        if self.next < self.length {
            return None;
        }
        let found = std::mem::take(&mut self.hash).finalize();
        Some(found.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn is_done(&self) -> bool {
        self.is_given_up || self.next >= self.length
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.pending.clear();
    }

    fn update(&mut self, start: u64, bytes: &[u8]) {
        let known = usize::try_from(self.next - start).unwrap_or(usize::MAX);
        let new = bytes.get(known..).unwrap_or_default();
        self.hash.update(new);
        self.next += new.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn buffer(bytes: &[u8]) -> Arc<Buffer> {
        let mut buffer = Budget::default().buffer(bytes.len());
        buffer.copy_from_slice(bytes);
        Arc::new(buffer)
    }

    #[test]
    fn order_does_not_matter_within_limits() {
        let mut sum = Sum::new(3);
        assert_eq!(sum.add_shared(2, &buffer(b"c")), None);
        assert_eq!(sum.add(0, b"a"), None);
        assert_eq!(sum.add(0, b"ab").as_deref(), Some(ABC));
        assert_eq!(sum.add(0, b"abc"), None);

        let mut sum = Sum::new(3);
        assert_eq!(sum.add(1, b"bc"), None);
        assert_eq!(sum.add(0, b"abc"), None, "given up");

        let mut sum = Sum::new(1 << 30);
        sum.add_shared(1, &buffer(&vec![0; PENDING]));
        assert!(!sum.is_given_up);
        sum.add_shared(1 << 25, &buffer(b"c"));
        assert!(sum.is_given_up && sum.pending.is_empty());
    }
}
