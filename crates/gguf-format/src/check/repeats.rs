//! Finds duplicates among very many texts, in `n log n` time and 8 bytes per text.
//!
//! Hashes are sorted, not stored in a table: a file constructed to collide costs no more than any other. Equal hashes are only candidates;
//! the texts themselves are compared.

use alloc::vec::Vec;

use crate::value::Str;

/// A duplicate text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repeat<'a> {
    /// The number of the first occurrence.
    pub first: u64,
    /// The number of this occurrence.
    pub again: u64,
    /// The text.
    pub text: Str<'a>,
}

/// A 64-bit hash of a text; fast, but not resistant to deliberate collisions.
#[inline]
pub fn hash(text: Str<'_>) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let bytes = text.as_bytes();
    let mut h = (bytes.len() as u64).wrapping_mul(K);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        h = (h ^ u64::from_le_bytes(*word)).wrapping_mul(K);
        h ^= h >> 29;
    }
    let mut tail = 0u64;
    for &b in rest {
        tail = tail << 8 | u64::from(b);
    }
    h = (h ^ tail).wrapping_mul(K);
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ (h >> 32)
}

/// Calls `found` for each duplicate. Each text comes with a number that identifies its place for the caller.
pub fn repeats<'a, I>(texts: I, mut found: impl FnMut(Repeat<'a>))
where
    I: Iterator<Item = (Str<'a>, u64)> + Clone,
{
    let mut suspects: Vec<u64> = texts.clone().map(|(text, _)| hash(text)).collect();
    suspects.sort_unstable();
    // In place: a file may consist almost entirely of duplicates.
    let (mut last, mut again) = (None, false);
    suspects.retain(|&h| {
        let keep = last == Some(h) && !again;
        again = last == Some(h);
        last = Some(h);
        keep
    });
    if suspects.is_empty() {
        return;
    }
    let mut firsts: Vec<Option<(u64, Str<'a>)>> = Vec::new();
    firsts.resize(suspects.len(), None);
    // Texts with equal hashes that differ from the first one: extremely rare, unless deliberate.
    let mut others: Vec<(Str<'a>, u64)> = Vec::new();
    for (text, i) in texts {
        let Ok(at) = suspects.binary_search(&hash(text)) else { continue };
        match firsts.get_mut(at) {
            Some(Some((first, same))) if *same == text => found(Repeat { first: *first, again: i, text }),
            Some(Some(_)) => others.push((text, i)),
            Some(slot) => *slot = Some((i, text)),
            None => {}
        }
    }
    others.sort_unstable();
    let mut last: Option<(Str<'a>, u64)> = None;
    for (text, i) in others {
        match last {
            Some((same, first)) if same == text => found(Repeat { first, again: i, text }),
            _ => last = Some((text, i)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn finds_every_repeat_and_nothing_else() {
        type Case<'a> = (&'a [&'a str], &'a [(u64, u64)]);
        let cases: &[Case<'_>] = &[
            (&[], &[]),
            (&["a", "b", "", "ab", "abcdefgh", "abcdefghi"], &[]),
            (&["", ""], &[(0, 1)]),
            (&["x", "y", "x", "z", "y", "x"], &[(0, 2), (1, 4), (0, 5)]),
            (&["abcdefgh0", "abcdefgh1", "abcdefgh0"], &[(0, 2)]),
        ];
        for (texts, expected) in cases {
            let mut got = vec![];
            repeats(texts.iter().map(|t| Str(t.as_bytes())).zip(0..), |r| got.push((r.first, r.again)));
            assert_eq!(&got, expected, "{texts:?}");
        }
    }

    #[test]
    fn texts_that_were_made_to_collide() {
        // The state after the first 8 of 16 bytes; the next 8 are mixed in by xor, so they can undo any difference.
        let state = |word: u64| {
            const K: u64 = 0x9e37_79b9_7f4a_7c15;
            let h = (16u64.wrapping_mul(K) ^ word).wrapping_mul(K);
            h ^ (h >> 29)
        };
        let text = |first: u64| [first.to_le_bytes(), (7 ^ state(1) ^ state(first)).to_le_bytes()].concat();
        let texts = [text(1), text(2), text(3), text(2), text(1), text(3)];
        assert!(texts.iter().all(|t| hash(Str(t)) == hash(Str(&texts[0]))));
        let mut got = vec![];
        repeats(texts.iter().map(|t| Str(t)).zip(0..), |r| got.push((r.first, r.again)));
        got.sort_unstable();
        assert_eq!(got, [(0, 4), (1, 3), (2, 5)]);
    }

    #[test]
    fn texts_differ_only_in_zeros() {
        let texts: [&[u8]; 4] = [b"", b"\0", b"\0\0", b"\0\0\0\0\0\0\0\0"];
        repeats(texts.iter().map(|t| Str(t)).zip(0..), |r| panic!("{r:?}"));
    }
}
