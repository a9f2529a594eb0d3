//! Time of opening a file, compared with ggml's `gguf_init_from_file` in the same run, and with the minimum, a scan of the mapped bytes.
//! Only opening is timed, not freeing.
//!
//! Run with `cargo bench -p gguf-benches --bench open [FILE]`. The file defaults to llama.cpp's vocabulary of Llama 3 (7.8 MB, 408,000
//! strings) from the directory in `GGUF_PEERS`; without it, to a generated one of the same size.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gguf_benches::{Ggml, folder};
use gguf_format::{Gguf, Head, Value, ValueRef, ValueType};
use gguf_io::ModelFile;

const ROUNDS: u32 = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let peers = folder();
    let given = std::env::args().skip(1).find(|a| !a.starts_with('-')).map(PathBuf::from);
    let vocabulary = || peers.as_ref().map(|p| p.join("llama.cpp/models/ggml-vocab-llama-bpe.gguf"));
    let file = std::env::temp_dir().join(format!("gguf-bench-{}.gguf", std::process::id()));
    let name = match given.or_else(vocabulary) {
        // All times depend by a third on how the kernel holds the pages of a file: in large pieces if it was just written.
        Some(given) => {
            fs::copy(&given, &file)?;
            given.display().to_string()
        }
        None => {
            made_up_vocabulary(&file)?;
            "generated".to_owned()
        }
    };
    let ours = ModelFile::open(&file)?;
    println!("{name}: {} bytes of head, {} strings", ours.gguf().head_bytes(), strings(ours.gguf()));

    let ggml = peers.as_deref().map(Ggml::load).transpose()?;
    if let Some(ggml) = &ggml {
        let theirs = ggml.open(&file)?.ok_or("ggml refuses the file")?.keys()?;
        let same = ours.gguf().kvs().map(|kv| kv.key.as_bytes().to_vec()).eq(theirs);
        assert!(same, "the keys differ from ggml's");
    }
    drop(ours);

    // Alternately, so that changes of the machine's speed affect all of them.
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(time(|| ModelFile::open(&file))?);
        times[1].push(time(|| walk_mapped(&file))?);
        if let Some(ggml) = &ggml {
            times[2].push(time(|| ggml.open(&file))?);
        }
    }
    let [ours, walk, theirs] = times.map(median);
    println!("{:<28} {:>9.3} ms", "gguf_io::ModelFile::open", millis(ours));
    println!("{:<28} {:>9.3} ms", "bare walk of mapped bytes", millis(walk));
    if ggml.is_some() {
        println!("{:<28} {:>9.3} ms", "gguf_init_from_file", millis(theirs));
        println!(
            "ratio to ggml: {:.1} (a bare walk: {:.1})",
            millis(theirs) / millis(ours),
            millis(theirs) / millis(walk)
        );
    }
    fs::remove_file(&file)?;
    Ok(())
}

/// Times one call; the result is dropped outside.
fn time<T, E>(call: impl FnOnce() -> Result<T, E>) -> Result<Duration, E> {
    let start = Instant::now();
    let result = black_box(call()?);
    let took = start.elapsed();
    drop(result);
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(t: Duration) -> f64 {
    t.as_secs_f64() * 1e3
}

fn strings(gguf: &Gguf<'_>) -> usize {
    gguf.kvs().filter_map(|kv| kv.value.as_array()?.strings().map(Iterator::count)).sum()
}

/// The minimum work of any reader: finding the end of the head, without keeping or checking anything.
fn walk_mapped(path: &Path) -> Result<u64, Box<dyn Error>> {
    // SAFETY: nothing changes the files of a benchmark.
    let map = unsafe { gguf_io::Map::new(&fs::File::open(path)?) }?;
    let mut scan = gguf_format::HeadScan::new(None);
    scan.advance(&map)?;
    Ok(scan.head_bytes())
}

fn made_up_vocabulary(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    for (key, n) in [("tokenizer.ggml.tokens", 128_256), ("tokenizer.ggml.merges", 280_147)] {
        let mut array = gguf_format::Array::new(ValueType::STRING);
        for i in 0..n {
            array.push(ValueRef::String(gguf_format::Str(format!("{:x}{:x}", i, i * 7).as_bytes())))?;
        }
        head.set(key, Value::Array(array));
    }
    Ok(fs::write(path, head.encode()?)?)
}
