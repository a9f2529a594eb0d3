//! How much two names differ, to suggest one for a misspelt one.

/// The maximum length of a name to compare, in bytes. The longest pattern of a key has 45.
pub(crate) const MAX_NEAREST: usize = 80;

/// The maximum number of edits.
pub(crate) const MAX_EDITS: u8 = 3;

/// The number of letters to insert, remove, change or swap with their neighbour to turn `a` into `b`, if it is at most [`MAX_EDITS`]. Only
/// the diagonal band with such small distances is computed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "the lengths are limited first, and rows have two more elements"
)]
pub(crate) fn edits(a: &[u8], b: &[u8]) -> Option<u8> {
    let band = usize::from(MAX_EDITS);
    if a.len().abs_diff(b.len()) > band || b.len() > MAX_NEAREST {
        return None;
    }
    let far = MAX_EDITS + 1;
    // Row i holds the edits from a[..i] to b[..j] at place j + 1; place 0 is never cheap.
    let mut before = [far; MAX_NEAREST + 2];
    let mut last = [far; MAX_NEAREST + 2];
    for (j, cell) in last.iter_mut().skip(1).take(band + 1).enumerate() {
        *cell = j as u8;
    }
    for (i, &x) in a.iter().enumerate() {
        let mut row = [far; MAX_NEAREST + 2];
        let from = (i + 1).saturating_sub(band);
        for j in from..=(i + 1 + band).min(b.len()) {
            let cost = if j == 0 {
                u8::try_from(i + 1).unwrap_or(far)
            } else {
                let differ = u8::from(!same_letter(x, b[j - 1]));
                let mut cost = (last[j] + differ).min(last[j + 1] + 1).min(row[j] + 1);
                let swapped = i > 0 && j > 1 && same_letter(x, b[j - 2]) && same_letter(a[i - 1], b[j - 1]);
                if swapped {
                    cost = cost.min(before[j - 1] + 1);
                }
                cost
            };
            row[j + 1] = cost.min(far);
        }
        before = last;
        last = row;
    }
    last.get(b.len() + 1).copied().filter(|&n| n < far)
}

fn same_letter(a: u8, b: u8) -> bool {
    a.eq_ignore_ascii_case(&b)
}
