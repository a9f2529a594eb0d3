//! Reads a model through a source of bytes that counts them: `cargo run --example read_at -- [MODEL]`.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ggufkit::{Model, ReadAt};

/// A file that counts the bytes read. A source for ranges of a remote object implements the same two methods.
#[derive(Debug)]
struct Counting {
    file: File,
    n_bytes: AtomicU64,
}

impl ReadAt for Counting {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.n_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(offset, buf)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tiny.gguf");
    let path = std::env::args().nth(1).unwrap_or_else(|| tiny.to_owned());
    let source = Arc::new(Counting { file: File::open(&path)?, n_bytes: AtomicU64::new(0) });

    let model = Model::from_source(Arc::clone(&source), &path)?;
    println!("{} bytes in all", model.file_bytes());
    println!("{} bytes read to open it", source.n_bytes.swap(0, Ordering::Relaxed));
    if let Some(tensor) = model.tensors().next() {
        tensor.rows(0..1)?.read()?;
        println!("{} bytes read for a row of {}", source.n_bytes.swap(0, Ordering::Relaxed), tensor.name());
    }

    // Memory is a source as well.
    let in_memory = Model::from_source(std::fs::read(&path)?, "model in memory")?;
    println!("{} tensors in memory", in_memory.tensors().count());
    Ok(())
}
