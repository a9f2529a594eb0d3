//! Valid files of at most 20 MB that are maximal in one dimension each. They are written piece by piece: this program must stay small.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const U8: u32 = 0;
const I32: u32 = 5;
const U32: u32 = 4;
const F32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The maximum number of tensors, and of keys.
const MOST: u64 = 262_144;

const TYPE_F32: u32 = 0;
const TYPE_F16: u32 = 1;

struct Out(BufWriter<File>);

impl Out {
    fn new(path: &Path) -> io::Result<Out> {
        Ok(Out(BufWriter::new(File::create(path)?)))
    }

    fn number(&mut self, n: u32) -> io::Result<()> {
        self.0.write_all(&n.to_le_bytes())
    }

    fn count(&mut self, n: u64) -> io::Result<()> {
        self.0.write_all(&n.to_le_bytes())
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.count(text.len() as u64)?;
        self.0.write_all(text.as_bytes())
    }

    /// The start of a file, with the keys that every model has. `n_kv` counts the others.
    fn start(path: &Path, n_tensors: u64, n_kv: u64) -> io::Result<Out> {
        let mut out = Out::new(path)?;
        out.0.write_all(b"GGUF")?;
        out.number(3)?;
        out.count(n_tensors)?;
        out.count(n_kv + 1)?;
        out.key("general.architecture", STRING)?;
        out.text("llama")?;
        Ok(out)
    }

    fn key(&mut self, key: &str, ty: u32) -> io::Result<()> {
        self.text(key)?;
        self.number(ty)
    }

    fn array(&mut self, ty: u32, n: u64) -> io::Result<()> {
        self.number(ty)?;
        self.count(n)
    }

    fn tensor(&mut self, name: &str, shape: &[u64], ty: u32, offset: u64) -> io::Result<()> {
        self.text(name)?;
        self.number(shape.len() as u32)?;
        shape.iter().try_for_each(|n| self.count(*n))?;
        self.number(ty)?;
        self.count(offset)
    }

    fn zeros(&mut self, n: u64) -> io::Result<()> {
        io::copy(&mut io::Read::take(io::repeat(0), n), &mut self.0).map(drop)
    }

    /// Ends a file with this many bytes of data.
    fn end(mut self, data: u64) -> io::Result<()> {
        self.0.flush()?;
        let position = io::Seek::stream_position(&mut self.0)?;
        self.zeros(position.next_multiple_of(32) - position + data)?;
        self.0.flush()
    }
}

/// The most tensors that 20 MB hold, each with data of its own.
pub fn tensors(path: &Path) -> io::Result<()> {
    let mut out = Out::start(path, MOST, 0)?;
    (0..MOST).try_for_each(|i| out.tensor(&format!("{i:05x}"), &[1], TYPE_F32, i * 32))?;
    out.end(MOST * 32)
}

/// As many tensors that share their data: the smallest file of them. Outputs are larger.
pub fn shared(path: &Path) -> io::Result<()> {
    let mut out = Out::start(path, MOST, 0)?;
    (0..MOST).try_for_each(|i| out.tensor(&format!("{i:05x}"), &[32, 2], TYPE_F16, 0))?;
    out.end(128)
}

/// Tensors with the names of a model of as many blocks.
pub fn blocks(path: &Path) -> io::Result<()> {
    let mut out = Out::start(path, MOST, 1)?;
    out.key("llama.block_count", U32)?;
    out.number(65_536)?;
    let names = ["attn_q", "attn_k", "ffn_up", "ffn_down"];
    for block in 0..MOST / 4 {
        for name in names {
            out.tensor(&format!("blk.{block}.{name}.weight"), &[32, 2], TYPE_F16, 0)?;
        }
    }
    out.end(128)
}

/// The most keys.
pub fn keys(path: &Path) -> io::Result<()> {
    let mut out = Out::start(path, 0, MOST - 1)?;
    for i in 1..MOST {
        out.key(&format!("{i:05x}"), U8)?;
        out.0.write_all(&[1])?;
    }
    out.end(0)
}

/// The most keys, with strings.
pub fn texts(path: &Path) -> io::Result<()> {
    let mut out = Out::start(path, 0, MOST - 1)?;
    for i in 1..MOST {
        out.key(&format!("llama.{i:05x}"), STRING)?;
        out.text("x")?;
    }
    out.end(0)
}

/// The most strings: empty tokens.
pub fn strings(path: &Path) -> io::Result<()> {
    const N: u64 = 2_490_000;
    let mut out = Out::start(path, 0, 1)?;
    out.key("tokenizer.ggml.tokens", ARRAY)?;
    out.array(STRING, N)?;
    out.zeros(N * 8)?;
    out.end(0)
}

/// A vocabulary of a million tokens, with scores, types, and odd texts.
pub fn vocabulary(path: &Path) -> io::Result<()> {
    const N: u64 = 900_000;
    let mut out = Out::start(path, 0, 4)?;
    out.key("tokenizer.ggml.model", STRING)?;
    out.text("llama")?;
    out.key("tokenizer.ggml.tokens", ARRAY)?;
    out.array(STRING, N)?;
    let odd = |i: u64| char::from_u32(u32::try_from(i).unwrap_or(0) % 0x1f_0000).unwrap_or('\u{1b}');
    (0..N).try_for_each(|i| out.text(odd(i).encode_utf8(&mut [0; 4])))?;
    out.key("tokenizer.ggml.scores", ARRAY)?;
    out.array(F32, N)?;
    out.zeros(N * 4)?;
    out.key("tokenizer.ggml.token_type", ARRAY)?;
    out.array(I32, N)?;
    (0..N).try_for_each(|i| out.number(i as u32 % 7))?;
    out.end(0)
}

/// Pieces of a vocabulary, and the pairs that they merge.
pub fn merges(path: &Path) -> io::Result<()> {
    const N: u64 = 700_000;
    let mut out = Out::start(path, 0, 3)?;
    out.key("tokenizer.ggml.model", STRING)?;
    out.text("gpt2")?;
    out.key("tokenizer.ggml.tokens", ARRAY)?;
    out.array(STRING, N)?;
    (0..N).try_for_each(|i| out.text(&format!("{i:05x}")))?;
    out.key("tokenizer.ggml.merges", ARRAY)?;
    out.array(STRING, N)?;
    (0..N).try_for_each(|i| out.text(&format!("{:02x} {:03x}", i / 4096, i % 4096)))?;
    out.end(0)
}

/// The most arrays in an array.
pub fn nested(path: &Path) -> io::Result<()> {
    const N: u64 = 1_660_000;
    let mut out = Out::start(path, 0, 1)?;
    out.key("nested", ARRAY)?;
    out.array(ARRAY, N)?;
    (0..N).try_for_each(|_| out.array(U8, 0))?;
    out.end(0)
}

/// The most numbers.
pub fn numbers(path: &Path) -> io::Result<()> {
    const N: u64 = 19_900_000;
    let mut out = Out::start(path, 0, 1)?;
    out.key("numbers", ARRAY)?;
    out.array(U8, N)?;
    out.zeros(N)?;
    out.end(0)
}

/// A text of control characters, each of which is longer when printed.
pub fn text(path: &Path) -> io::Result<()> {
    const N: u64 = 19_900_000;
    let mut out = Out::start(path, 0, 1)?;
    out.key("general.description", STRING)?;
    out.count(N)?;
    io::copy(&mut io::Read::take(io::repeat(1), N), &mut out.0)?;
    out.end(0)
}

/// A chat template of as many expressions as it can have.
pub fn template(path: &Path) -> io::Result<()> {
    const N: usize = 3_900_000;
    let mut out = Out::start(path, 0, 1)?;
    out.key("tokenizer.chat_template", STRING)?;
    out.count(5 * N as u64)?;
    (0..N).try_for_each(|_| out.0.write_all(b"{{1}}"))?;
    out.end(0)
}
