//! Time and memory of `gguf quantize` for eight file types from one read, compared with separate runs: `cargo build --release -p gguf-cli &&
//! cargo bench -p gguf-benches --bench several [-- FOLDER]`.
//!
//! The model of a billion weights and its importance matrix are written to FOLDER (by default a temporary one), which needs 10 GB; files of
//! an earlier run are reused. Both ways use two threads and alternate. The files are compared before anything is printed. Processor time is
//! the sum of all threads, as reported by Linux, in hundredths of a second; elsewhere it is 0.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gguf_benches::{Outcome, median, program, timed};

/// Number of runs, of which the median is reported.
const ROUNDS: usize = 3;

/// Sets of types: types that share many tensors, as offered by publishers, and types from the smallest to the largest.
const SETS: [[&str; 8]; 2] = [
    ["Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "Q3_K_M", "Q2_K"],
    ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "IQ3_XXS", "Q2_K", "IQ2_XXS"],
];

/// The cost of one or several runs.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: Duration,
    processor: Duration,
    /// The peak memory of a process.
    kib: u64,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.wall += other.wall;
        self.processor += other.processor;
        self.kib = self.kib.max(other.kib);
    }
}

fn main() -> Outcome<()> {
    let kept = std::env::args().skip(1).find(|a| !a.starts_with('-')).map(PathBuf::from);
    let dir = kept.clone().unwrap_or_else(|| std::env::temp_dir().join("gguf-bench-several"));
    fs::create_dir_all(&dir)?;
    let program = program()?;
    let (model, matrix) = (dir.join("model.gguf"), dir.join("imatrix.gguf"));
    for (file, kind) in [(&model, None), (&matrix, Some("imatrix"))] {
        if !file.exists() {
            let status = Command::new(env!("CARGO_BIN_EXE_synthetic")).arg(file).args(kind).status()?;
            assert!(status.success(), "cannot write {}", file.display());
        }
    }
    let quantize = |out: &Path, types: &[&str]| -> Outcome<Cost> {
        // Nothing is left to write when a run begins.
        assert!(Command::new("sync").status()?.success(), "sync fails");
        std::thread::sleep(Duration::from_secs(2));
        let mut command = Command::new(&program);
        command.arg("quantize").arg(&model).arg(out).args(types).arg("--imatrix").arg(&matrix);
        command.args(["-f", "-q", "-j", "2"]);
        let before = processor_time();
        let (wall, kib) = timed(command)?;
        Ok(Cost { wall, processor: processor_time().saturating_sub(before), kib })
    };
    println!("| file types | | wall, s | processor, s | peak, MiB |");
    println!("|---|---|---:|---:|---:|");
    for types in SETS {
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            together.push(quantize(&dir.join("together-{ftype}.gguf"), &types)?);
            let mut sum = Cost::default();
            for ty in types {
                let own = dir.join("own.gguf");
                sum.add(quantize(&own, &[ty])?);
                let other = dir.join(format!("together-{}.gguf", ty.to_lowercase()));
                assert!(same(&own, &other)?, "{ty} differs from the file of a separate run");
                fs::remove_file(own)?;
                fs::remove_file(other)?;
            }
            apart.push(sum);
        }
        let middle = |costs: &[Cost]| Cost {
            wall: median(costs.iter().map(|cost| cost.wall).collect()),
            processor: median(costs.iter().map(|cost| cost.processor).collect()),
            kib: costs.iter().map(|cost| cost.kib).max().unwrap_or(0),
        };
        let (together, apart) = (middle(&together), middle(&apart));
        for (name, cost) in [("from one read", together), ("one by one", apart)] {
            let (wall, processor) = (cost.wall.as_secs_f64(), cost.processor.as_secs_f64());
            println!("| {} | {name} | {wall:.1} | {processor:.1} | {} |", types.join(" "), cost.kib >> 10);
        }
        let ratio = |of: fn(&Cost) -> Duration| of(&together).as_secs_f64() / of(&apart).as_secs_f64().max(1e-9);
        println!("| | ratio | {:.2} | {:.2} | |", ratio(|cost| cost.wall), ratio(|cost| cost.processor));
    }
    if kept.is_none() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

/// The processor time of all child processes that have ended.
fn processor_time() -> Duration {
    let status = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces; the times are the 14th and 15th fields after it, in hundredths of a second.
    let behind = status.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks = behind.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

/// Whether two files have the same bytes.
fn same(a: &Path, b: &Path) -> Outcome<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n = a.read(&mut x)?;
        if n == 0 {
            return Ok(true);
        }
        b.read_exact(&mut y[..n])?;
        if x[..n] != y[..n] {
            return Ok(false);
        }
    }
}
