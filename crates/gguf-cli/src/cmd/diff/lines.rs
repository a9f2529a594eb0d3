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
        let to = lines.len().min(i + 1 + CONTEXT);
        if from > shown_to || groups.is_empty() {
            groups.push(lines[from..to].to_vec());
        } else if let Some(group) = groups.last_mut() {
            group.extend_from_slice(&lines[shown_to..to]);
        }
        shown_to = to;
    }
    groups
}

/// All lines, with their ends: a longest common subsequence, and between its lines those removed, then those added.
fn lines<'t>(a: &'t str, b: &'t str) -> Vec<(In, &'t str)> {
    let [a, b] = [a, b].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let n_start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let n_end = a[n_start..].iter().rev().zip(b[n_start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (start, end) = (&a[..n_start], &a[a.len() - n_end..]);
    let (a, b) = (&a[n_start..a.len() - n_end], &b[n_start..b.len() - n_end]);

    let mut lines: Vec<_> = start.iter().map(|&line| (In::Both, line)).collect();
    let (mut i, mut j) = (0, 0);
    if a.len().saturating_mul(b.len()) <= MAX_PAIRS {
        let common = common(a, b);
        let rest = |i: usize, j: usize| common[i * (b.len() + 1) + j];
        while i < a.len() && j < b.len() {
            if a[i] == b[j] {
                lines.push((In::Both, a[i]));
                (i, j) = (i + 1, j + 1);
            } else if rest(i + 1, j) >= rest(i, j + 1) {
                lines.push((In::A, a[i]));
                i += 1;
            } else {
                lines.push((In::B, b[j]));
                j += 1;
            }
        }
    }
    lines.extend(a[i..].iter().map(|&line| (In::A, line)));
    lines.extend(b[j..].iter().map(|&line| (In::B, line)));
    lines.extend(end.iter().map(|&line| (In::Both, line)));
    // Between common lines, those removed come first.
    lines
        .chunk_by_mut(|x, y| (x.0 == In::Both) == (y.0 == In::Both))
        .for_each(|run| run.compact_sort_by_key(|line| line.0 == In::B));
    lines
}

/// The length of a longest common subsequence of `a[i..]` and `b[j..]`, for all `i` and `j`, in rows of one more than the length of `b`.
fn common(a: &[&str], b: &[&str]) -> Vec<u16> {
    let width = b.len() + 1;
    // The shorter text has at most 2048 lines.
    let mut lens = vec![0; (a.len() + 1) * width];
    for (i, line) in a.iter().enumerate().rev() {
        for (j, other) in b.iter().enumerate().rev() {
            let [below, right] = [lens[(i + 1) * width + j], lens[i * width + j + 1]];
            lens[i * width + j] = if line == other { lens[(i + 1) * width + j + 1] + 1 } else { below.max(right) };
        }
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
