//! An independent parser of valid heads, which locates every length, count, type and offset.

use super::bytes::Form;

/// A number of the head: its offset and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub at: usize,
    pub width: usize,
}

struct Walk<'a> {
    form: Form,
    head: &'a [u8],
    pos: usize,
    numbers: Vec<Number>,
}

impl Walk<'_> {
    fn number(&mut self, width: usize) -> u64 {
        let at = self.pos;
        self.numbers.push(Number { at, width });
        self.pos += width;
        read(self.head, Number { at, width }, self.form.big)
    }

    fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    fn len(&mut self) -> u64 {
        self.number(if self.form.wide() { 8 } else { 4 })
    }

    fn string(&mut self) {
        let n = self.len() as usize;
        self.pos += n;
    }

    fn value(&mut self, ty: u32) {
        match ty {
            8 => self.string(),
            9 => {
                let (elem, n) = if self.form.draft.is_some_and(|d| !d.type_first) {
                    let n = self.len();
                    (self.u32(), n)
                } else {
                    (self.u32(), self.len())
                };
                match width(elem) {
                    Some(w) => self.pos += w * n as usize,
                    None => (0..n).for_each(|_| self.value(elem)),
                }
            }
            // Plain values too: they include the alignment and every bool.
            _ => drop(self.number(width(ty).expect("a sound head"))),
        }
    }
}

fn width(ty: u32) -> Option<usize> {
    Some(match ty {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

/// Reads the number.
pub fn read(head: &[u8], number: Number, big: bool) -> u64 {
    let raw = &head[number.at..number.at + number.width];
    let digit = |n: u64, b: &u8| n << 8 | u64::from(*b);
    if big { raw.iter().fold(0, digit) } else { raw.iter().rev().fold(0, digit) }
}

/// Replaces the number, truncated to its width.
pub fn write(head: &mut [u8], number: Number, big: bool, v: u64) {
    let raw = &mut head[number.at..number.at + number.width];
    for (i, b) in raw.iter_mut().enumerate() {
        let shift = if big { number.width - 1 - i } else { i };
        *b = (v >> (8 * shift)) as u8;
    }
}

/// Every number of a valid head, and the end of the head.
pub fn numbers(head: &[u8], form: Form) -> (Vec<Number>, usize) {
    let mut w = Walk { form, head, pos: 0, numbers: vec![] };
    w.number(4);
    w.u32();
    let n_tensors = w.len();
    let n_kv = w.len();
    for _ in 0..n_kv {
        w.string();
        if form.draft.is_some() {
            w.u32();
        }
        let ty = w.u32();
        w.value(ty);
    }
    if form.draft.is_some() {
        w.pos = w.pos.next_multiple_of(64);
    }
    for _ in 0..n_tensors {
        w.string();
        for _ in 0..w.u32() {
            w.len();
        }
        if form.draft.is_some() {
            w.u32();
        }
        w.u32();
        w.number(8);
    }
    (w.numbers, w.pos)
}

/// Replacements for a number: the ends of its range, its neighbours, and the length of the file.
pub fn mutations(old: u64, width: usize, file_bytes: u64) -> Vec<u64> {
    let max = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
    let sign = 1 << (8 * width - 1);
    let mut out = vec![0, 1, max, max - 1, sign, sign - 1, sign >> 1, old.wrapping_add(1), old.wrapping_sub(1)];
    out.extend([file_bytes - 1, file_bytes, file_bytes + 1]);
    out.iter_mut().for_each(|v| *v &= max);
    out.sort_unstable();
    out.dedup();
    out.retain(|&v| v != old);
    out
}
