//! Parts of long rows, and of tensors of which all values are needed at once.

use std::ops::Range;

/// The maximum length of an undivided row, and the length of the parts of longer ones, except the last. A multiple of every block length.
pub(crate) const PART: u64 = 1 << 20;

/// The columns of a row in ranges to read at once: all of them, or the parts of a long row.
pub(crate) fn parts(row_len: u64) -> impl Iterator<Item = Range<u64>> {
    let n = if row_len == 0 { 0 } else { (row_len - 1) / PART };
    (0..=n).map(move |i| i * PART..row_len.min((i + 1) * PART))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_format::TYPES;

    #[test]
    fn parts_are_whole_blocks_of_every_type() {
        for info in TYPES {
            assert!(PART.is_multiple_of(info.block_len.into()), "{}", info.name);
        }
    }

    #[test]
    fn parts_cover_a_row() {
        for (row_len, ends) in
            [(0, vec![0]), (1, vec![1]), (PART, vec![PART]), (2 * PART + 7, vec![PART, 2 * PART, 2 * PART + 7])]
        {
            let all: Vec<Range<u64>> = parts(row_len).collect();
            assert_eq!(all.iter().map(|part| part.end).collect::<Vec<_>>(), ends);
            assert!(all.first().unwrap().start == 0 && all.windows(2).all(|w| w[0].end == w[1].start));
        }
    }
}
