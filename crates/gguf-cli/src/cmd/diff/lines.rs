//! The changes between two texts, line by line.

use gguf_format::sort::CompactSort as _;

/// Maximum number of pairs of lines that are compared. Longer changes are shown as a replacement.
const MAX_PAIRS: usize = 4 << 20;

/// Number of unchanged lines shown before and after a change.
const CONTEXT: usize = 3;

/// Which text has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum In {
    Both,
    /// Only the first: the line is removed.
    A,
    /// Only the second: the line is added.
    B,
}

/// The changed lines with the lines around them, in groups of neighbours.
pub fn groups<'t>(a: &'t str, b: &'t str) -> Vec<Vec<(In, &'t str)>> {
    let mut groups: Vec<Vec<_>> = Vec::new();
    let lines = lines(a, b);
    let mut shown_to = 0;
    for (i, _) in lines.iter().enumerate().filter(|(_, line)| line.0 != In::Both) {
        let from = i.saturating_sub(CONTEXT);
        let to = i + 1 + CONTEXT;
        let until = lines.iter().take(to).copied();
        match groups.last_mut() {
            Some(group) if from <= shown_to => group.extend(until.skip(shown_to)),
            _ => groups.push(until.skip(from).collect()),
        }
        shown_to = to;
    }
    groups
}

/// All lines, with their ends: a longest common subsequence, and between its lines those removed, then those added.
fn lines<'t>(a: &'t str, b: &'t str) -> Vec<(In, &'t str)> {
    let [a, b] = [a, b].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let n_start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let ((start, a), (_, b)) = (a.split_at(n_start), b.split_at(n_start));
    let n_end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let ((mut a, end), (mut b, _)) = (a.split_at(a.len() - n_end), b.split_at(b.len() - n_end));

    let mut lines: Vec<_> = start.iter().map(|&line| (In::Both, line)).collect();
    if a.len().saturating_mul(b.len()) <= MAX_PAIRS {
        let (lens, width) = (common(a, b), b.len() + 1);
        let common = |a: &[&str], b: &[&str]| lens.get(a.len() * width + b.len());
        while let ([line, a_rest @ ..], [other, b_rest @ ..]) = (a, b) {
            if line == other {
                lines.push((In::Both, *line));
                (a, b) = (a_rest, b_rest);
            } else if common(a_rest, b) >= common(a, b_rest) {
                lines.push((In::A, *line));
                a = a_rest;
            } else {
                lines.push((In::B, *other));
                b = b_rest;
            }
        }
    }
    lines.extend(a.iter().map(|&line| (In::A, line)));
    lines.extend(b.iter().map(|&line| (In::B, line)));
    lines.extend(end.iter().map(|&line| (In::Both, line)));
    // Between common lines, those removed come first.
    lines
        .chunk_by_mut(|x, y| (x.0 == In::Both) == (y.0 == In::Both))
        .for_each(|run| run.compact_sort_by_key(|line| line.0 == In::B));
    lines
}

/// The length of a longest common subsequence of the last `i` lines of `a` and the last `j` of `b`, for all `i` and `j`, in rows of one
/// more than the length of `b`.
fn common(a: &[&str], b: &[&str]) -> Vec<u16> {
    let width = b.len() + 1;
    // The shorter text has at most 2048 lines.
    let mut lens = Vec::with_capacity((a.len() + 1) * width);
    let (mut shorter, mut row) = (vec![0; width], Vec::with_capacity(width));
    lens.extend_from_slice(&shorter);
    for line in a.iter().rev() {
        let mut len = 0;
        row.clear();
        row.push(len);
        for (other, (both, without)) in b.iter().rev().zip(shorter.iter().zip(shorter.iter().skip(1))) {
            len = if line == other { both + 1 } else { len.max(*without) };
            row.push(len);
        }
        lens.extend_from_slice(&row);
        std::mem::swap(&mut shorter, &mut row);
    }
    lens
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of two texts in which each character is a line.
    fn shown(a: &str, b: &str) -> String {
        let text = |lines: &str| lines.chars().map(|line| format!("{line}\n")).collect::<String>();
        let (a, b) = (text(a), text(b));
        let groups = groups(&a, &b).into_iter().map(|group| {
            let line = |(side, line): (In, &str)| match side {
                In::Both => line.trim_end().to_owned(),
                In::A => format!("-{}", line.trim_end()),
                In::B => format!("+{}", line.trim_end()),
            };
            group.into_iter().map(line).collect::<String>()
        });
        groups.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn changes_are_shown_with_three_lines_around_them() {
        for (a, b, expected) in [
            ("", "", ""),
            ("abc", "abc", ""),
            ("", "ab", "+a+b"),
            ("ab", "", "-a-b"),
            ("abcdefg", "abcxefg", "abc-d+xefg"),
            ("abcdefghi", "abxyefghi", "ab-c-d+x+yefg"),
            ("0abcdefg1", "2abcdefg3", "-0+2abc efg-1+3"),
            ("0abcdef1", "2abcdef3", "-0+2abcdef-1+3"),
            ("xabcy", "abzc", "-xab+zc-y"),
        ] {
            assert_eq!(shown(a, b), expected, "{a} {b}");
        }
        assert_eq!(groups("a\nb", "a\nb\n"), [[(In::Both, "a\n"), (In::A, "b"), (In::B, "b\n")]]);
    }

    #[test]
    fn long_changes_are_replacements() {
        let [a, b] =
            [0, 1].map(|odd| (0..6000).map(|i| format!("{}\n", i / 2 * 2 + odd * (i % 2))).collect::<String>());
        let groups = groups(&a, &b);
        assert_eq!(groups.len(), 1);
        let n = |side| groups[0].iter().filter(|line| line.0 == side).count();
        assert_eq!([n(In::A), n(In::B), n(In::Both)], [5999, 5999, 1]);
    }
}
