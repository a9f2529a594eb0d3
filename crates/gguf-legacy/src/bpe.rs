//! The merges of a byte-pair encoding, rebuilt from its tokens.
//!
//! Legacy files list only tokens, in the order of training. So each token longer than a byte was made by merging two earlier ones: the two
//! that remain after applying all earlier merges to it. This restores the list of merges of the trained tokenizer, in its order. A token
//! that does not reduce to two pieces is an added token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The longest token to split. Longer ones are added tokens.
const MAX_TOKEN: usize = 512;

/// A merge: the two pieces of the token with that number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) token: usize,
    /// Length of the first piece.
    pub(crate) at: usize,
}

/// The merges of a vocabulary, in the order of the tokens. `is_trained` returns whether a token may be a result of training.
pub(crate) fn merges<'a>(tokens: impl Iterator<Item = &'a [u8]>, is_trained: impl Fn(usize) -> bool) -> Vec<Merge> {
    let mut ranks: HashMap<&[u8], usize> = HashMap::new();
    let mut merges = Vec::new();
    for (number, token) in tokens.enumerate() {
        if token.is_empty() || !is_trained(number) {
            continue;
        }
        if (2..=MAX_TOKEN).contains(&token.len())
            && let Some(at) = split(token, &ranks)
        {
            merges.push(Merge { token: number, at });
        }
        // Of duplicate tokens, encoding yields the first.
        ranks.entry(token).or_insert(number);
    }
    merges
}

/// The position of the last merge of a token after applying all earlier merges; `None` unless two pieces remain.
fn split(token: &[u8], ranks: &HashMap<&[u8], usize>) -> Option<usize> {
    // Pieces form a list: `next` is the start of the next piece, `previous` that of the previous one.
    let n = token.len();
    let mut next: Vec<usize> = (1..=n).collect();
    let mut previous: Vec<usize> = (0..n).map(|i| i.saturating_sub(1)).collect();
    let mut is_start = vec![true; n];
    let mut n_pieces = n;
    let mut heap = BinaryHeap::new();
    let pair = |start: usize, end: usize| Some(Reverse((*ranks.get(token.get(start..end)?)?, start, end)));
    heap.extend((0..n.saturating_sub(1)).filter_map(|i| pair(i, i + 2)));
    while n_pieces > 2 {
        let Reverse((_, start, end)) = heap.pop()?;
        // The pair no longer exists.
        let middle = next.get(start).copied().filter(|_| is_start.get(start) == Some(&true)).unwrap_or(n);
        if middle >= n || next.get(middle) != Some(&end) {
            continue;
        }
        *next.get_mut(start)? = end;
        *is_start.get_mut(middle)? = false;
        n_pieces -= 1;
        if let Some(after) = previous.get_mut(end) {
            *after = start;
        }
        if start > 0 {
            heap.extend(pair(*previous.get(start)?, end));
        }
        if let Some(&after) = next.get(end) {
            heap.extend(pair(start, after));
        }
    }
    next.first().copied().filter(|&at| at < n)
}

/// The printable character for a byte in a byte-level vocabulary (`bytes_to_unicode` of GPT-2).
pub(crate) fn char_of_byte(byte: u8) -> char {
    let is_printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if is_printable(byte) {
        return char::from(byte);
    }
    let n_before = (0..byte).map(|b| u32::from(!is_printable(b))).sum::<u32>();
    char::from_u32(256 + n_before).unwrap_or('\u{fffd}')
}

/// The text of bytes in a byte-level vocabulary.
#[expect(clippy::indexing_slicing, reason = "every byte has a character")]
pub(crate) fn text_of_bytes(bytes: &[u8], chars: &[char; 256]) -> String {
    bytes.iter().map(|&b| chars[usize::from(b)]).collect()
}

/// The characters of all bytes.
pub(crate) fn chars() -> [char; 256] {
    let mut chars = ['\0'; 256];
    chars.iter_mut().zip(0..=u8::MAX).for_each(|(char, byte)| *char = char_of_byte(byte));
    chars
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rebuilt(tokens: &[&str]) -> Vec<(String, String)> {
        let merges = merges(tokens.iter().map(|t| t.as_bytes()), |_| true);
        let text = |m: &Merge| (tokens[m.token][..m.at].to_owned(), tokens[m.token][m.at..].to_owned());
        merges.iter().map(text).collect()
    }

    #[test]
    fn merges_are_those_of_the_training() {
        let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        assert_eq!(rebuilt(&["a", "b", "c", "ab", "abc", "ca"]), pairs(&[("a", "b"), ("ab", "c"), ("c", "a")]));
        // The earlier token is merged first, regardless of its position.
        assert_eq!(rebuilt(&["a", "b", "c", "bc", "ab", "abc"]), pairs(&[("b", "c"), ("a", "b"), ("a", "bc")]));
        // Runs: from the left.
        assert_eq!(rebuilt(&["a", "aa", "aaa", "aaaa"]), pairs(&[("a", "a"), ("aa", "a"), ("aa", "aa")]));
        // An added token reduces to three pieces.
        assert_eq!(rebuilt(&["a", "b", "c", "abc"]), pairs(&[]));
        assert_eq!(rebuilt(&["", "a"]), pairs(&[]));
        // An added token is ignored.
        let tokens = ["a", "b", "ab", "abab"];
        let found = merges(tokens.iter().map(|t| t.as_bytes()), |i| i != 2);
        assert_eq!(found, []);
    }

    #[test]
    fn a_long_token_is_quick() {
        let mut tokens: Vec<String> = vec!["a".to_owned()];
        tokens.extend((1..=9).map(|i| "a".repeat(1 << i)));
        tokens.push("a".repeat(513));
        let found = merges(tokens.iter().map(|t| t.as_bytes()), |_| true);
        assert_eq!(found.len(), 9);
        assert!(found.iter().all(|m| m.at * 2 == tokens[m.token].len()));
    }

    #[test]
    fn bytes_have_printable_characters() {
        for (byte, expected) in
            [(b' ', 'Ġ'), (b'\n', 'Ċ'), (b'a', 'a'), (0x7f, 'ġ'), (0xad, 'Ń'), (0xff, 'ÿ'), (0, 'Ā')]
        {
            assert_eq!(char_of_byte(byte), expected, "{byte:#x}");
        }
        let all: std::collections::BTreeSet<char> = chars().into_iter().collect();
        assert_eq!(all.len(), 256);
    }
}
