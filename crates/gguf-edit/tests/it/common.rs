//! A small model in every valid layout, written byte by byte.
#![allow(dead_code, reason = "the interop tests use a part")]

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::ByteOrder;

/// The layout of the small model. The default is that of all writers.
#[derive(Debug, Clone)]
pub struct Layout {
    pub version: u32,
    pub order: ByteOrder,
    pub alignment: u32,
    /// Gaps between tensors, in multiples of the alignment.
    pub gaps: usize,
    /// Whether the data of the last tensor comes first.
    pub backwards: bool,
    /// Whether the last tensor is padded.
    pub padded: bool,
    /// Number of zeros at the end.
    pub trailing: usize,
    /// Whether shapes end in two dimensions of 1.
    pub ones: bool,
    /// Whether the keys that merging leaves in a file are present.
    pub was_merged: bool,
    /// Whether all tensors have the same shape, and the last shares the data of the first.
    pub shared: bool,
    pub n_tensors: usize,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            version: 3,
            order: ByteOrder::Little,
            alignment: 32,
            gaps: 0,
            backwards: false,
            padded: true,
            trailing: 0,
            ones: false,
            was_merged: false,
            shared: false,
            n_tensors: 9,
        }
    }
}

/// Every layout, with its name.
pub fn layouts() -> Vec<(&'static str, Layout)> {
    let plain = Layout::default();
    let big = ByteOrder::Big;
    vec![
        ("plain", plain.clone()),
        ("version 1", Layout { version: 1, ..plain.clone() }),
        ("version 2", Layout { version: 2, ..plain.clone() }),
        ("big-endian", Layout { order: big, ..plain.clone() }),
        ("big-endian version 2", Layout { order: big, version: 2, ..plain.clone() }),
        ("aligned to 64", Layout { alignment: 64, ..plain.clone() }),
        ("aligned to 8", Layout { alignment: 8, ..plain.clone() }),
        ("gaps", Layout { gaps: 3, ..plain.clone() }),
        ("backwards", Layout { backwards: true, ..plain.clone() }),
        ("backwards with gaps, big-endian", Layout { backwards: true, gaps: 2, order: big, ..plain.clone() }),
        ("not padded", Layout { padded: false, ..plain.clone() }),
        ("trailing zeros", Layout { trailing: 77, ..plain.clone() }),
        ("dimensions of 1", Layout { ones: true, ..plain.clone() }),
        ("was merged", Layout { was_merged: true, ..plain.clone() }),
        ("shared data", Layout { shared: true, ..plain.clone() }),
        ("no tensors", Layout { n_tensors: 0, ..plain }),
    ]
}

/// A writer of numbers with a given byte order and width of lengths.
struct Out<'a> {
    layout: &'a Layout,
    bytes: Vec<u8>,
}

impl Out<'_> {
    fn number(&mut self, n: u64, width: usize) {
        match self.layout.order {
            ByteOrder::Little => self.bytes.extend(&n.to_le_bytes()[..width]),
            ByteOrder::Big => self.bytes.extend(&n.to_be_bytes()[8 - width..]),
        }
    }

    fn len(&mut self, n: usize) {
        self.number(n as u64, if self.layout.version == 1 { 4 } else { 8 });
    }

    fn string(&mut self, text: &str) {
        self.len(text.len());
        self.bytes.extend(text.as_bytes());
    }

    fn key(&mut self, key: &str, ty: u64) {
        self.string(key);
        self.number(ty, 4);
    }
}

/// The bytes of the model.
pub fn bytes(layout: &Layout) -> Vec<u8> {
    let align = |n: usize| n.next_multiple_of(layout.alignment as usize);
    let shape = |i: usize| if layout.shared { [5, 2] } else { [5 + 7 * i as u64, 2] };
    let value = |i: usize, j: usize| if layout.shared { j as f32 } else { i as f32 + j as f32 * 0.25 };
    let n = layout.n_tensors;
    let sizes: Vec<usize> = (0..n).map(|i| shape(i).iter().product::<u64>() as usize * 4).collect();
    let mut offsets = vec![0; n];
    let mut end = 0;
    for at in 0..n {
        let i = if layout.backwards { n - 1 - at } else { at };
        offsets[i] = align(end) + layout.gaps * layout.alignment as usize;
        end = offsets[i] + sizes[i];
    }
    if let (true, Some(last)) = (layout.shared, offsets.last_mut()) {
        *last = 0;
    }

    let mut out = Out { layout, bytes: b"GGUF".to_vec() };
    let n_keys = 4 + 4 * usize::from(layout.was_merged) + usize::from(layout.alignment != 32);
    out.number(layout.version.into(), 4);
    out.len(n);
    out.len(n_keys);
    out.key("general.architecture", 8);
    out.string("llama");
    out.key("general.name", 8);
    out.string("Odd");
    out.key("odd.numbers", 9);
    out.number(4, 4);
    out.len(3);
    [1, 2, 70_000].into_iter().for_each(|number| out.number(number, 4));
    out.key("odd.nan", 6);
    out.number(0x7fc0_0001, 4);
    if layout.was_merged {
        out.key("split.no", 2);
        out.number(0, 2);
        out.key("split.tensors.count", 5);
        out.number(n as u64, 4);
        out.key("split.count", 2);
        out.number(0, 2);
        out.key("odd.last", 4);
        out.number(7, 4);
    }
    if layout.alignment != 32 {
        out.key("general.alignment", 4);
        out.number(layout.alignment.into(), 4);
    }
    for (i, &offset) in offsets.iter().enumerate() {
        out.string(&format!("blk.{i}.weight"));
        let mut dims = shape(i).to_vec();
        if layout.ones {
            dims.extend([1, 1]);
        }
        out.number(dims.len() as u64, 4);
        dims.iter().for_each(|&dim| out.len(dim as usize));
        out.number(0, 4);
        out.number(offset as u64, 8);
    }
    let start = align(out.bytes.len());
    out.bytes.resize(start, 0);
    let mut file = out.bytes;
    let len = if layout.padded { align(end) } else { end };
    file.resize(start + len + layout.trailing, 0);
    for i in 0..n {
        for j in 0..sizes[i] / 4 {
            let value = value(if layout.shared { 0 } else { i }, j);
            let number = match layout.order {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => value.to_be_bytes(),
            };
            let at = start + offsets[i] + j * 4;
            file[at..at + 4].copy_from_slice(&number);
        }
    }
    file
}

/// Writes the model into a directory.
pub fn write(dir: &Path, name: &str, layout: &Layout) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes(layout)).unwrap();
    path
}
