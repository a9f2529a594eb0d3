//! Complete comparison of every type with ggml: see [`HELP`].

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gguf_benches::compare::{self, Sample, Source, Tally};
use gguf_benches::options::Options;
use gguf_benches::{Ggml, folder, real_rows};
use gguf_quants::Isa;
use gguf_quants::codec::{Codec, Matrix};
use gguf_test::data::{Weights, vectors};
use gguf_test::peers;
use gguf_test::random::Hash;

const HELP: &str = "
Compares every codec with the real ggml: the bytes of ggml_quantize_chunk, the bits of to_float.

usage: cargo bench -p gguf-benches --bench exact -- [options]

  --types q4_K,q6_K  only these types
  --isa avx2,scalar  only these instruction sets, by the names in the table
  --weights N        weights for each type, kind of numbers, with and without a matrix; 10,000,000 if not given
  --threads N        2 if not given
  --write FILE       replaces the last section of that page, which begins with this heading: ## Codecs
  --record FOLDER    writes the vectors of crates/gguf-quants/tests instead

GGUF_PEERS names the folder with lib/libggml-base.so; GGUF_SHARED, if set, that with data/glossary-bf16.gguf for real
rows. Ends with an error when anything differs.
";

/// Weights per job.
const PIECE: usize = 1 << 16;
/// The scalar reference is slow, and is only included in one of this many jobs.
const SCALAR_SHARE: u64 = 10;

/// A row of the table.
struct Cell {
    codec: &'static Codec,
    matrix: bool,
    tally: Mutex<Tally>,
}

/// A job.
#[derive(Clone, Copy)]
enum Job {
    Encode { cell: usize, source: Source, number: u64 },
    Decode { cell: usize, number: u64 },
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(options) = Options::read(HELP)? else { return Ok(()) };
    let Some(peers) = folder() else {
        println!("nothing to compare with: GGUF_PEERS is not set");
        return Ok(());
    };
    let ggml = Ggml::load(&peers)?;
    if let Some(folder) = &options.record {
        return record(&ggml, &options, folder);
    }
    let real = match peers::folder(peers::SHARED) {
        Some(shared) => real_rows(&shared.join("data/glossary-bf16.gguf"))?,
        None => vec![],
    };
    let (weights, threads, isas) =
        (options.weights.unwrap_or(10_000_000), options.threads.unwrap_or(2), options.isas());

    let mut cells = vec![];
    for codec in options.codecs() {
        for matrix in [false, true] {
            let takes = if matrix { codec.matrix != Matrix::Ignored } else { codec.matrix != Matrix::Required };
            if takes && (codec.can_encode() || !matrix) {
                cells.push(Cell { codec, matrix, tally: Mutex::default() });
            }
        }
    }
    // All types alternately, so that differences appear early and the remaining time is predictable.
    let mut jobs = vec![];
    for number in 0..weights.div_ceil(PIECE as u64) {
        for (cell, c) in cells.iter().enumerate() {
            if c.codec.can_encode() {
                jobs.extend(Source::all(!real.is_empty()).map(|source| Job::Encode { cell, source, number }));
            }
            if c.matrix == (c.codec.matrix == Matrix::Required) {
                jobs.push(Job::Decode { cell, number });
            }
        }
    }

    let started = Instant::now();
    let (next, done, different) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    let work = || -> Result<(), libloading::Error> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (cell, tally) = run(&ggml, &isas, &cells, &real, *job)?;
            done.fetch_add(1, Ordering::Relaxed);
            different.fetch_add(tally.different_blocks + tally.different_weights, Ordering::Relaxed);
            *cell.tally.lock().unwrap() += tally;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut shown = Duration::ZERO;
        while !workers.iter().all(|w| w.is_finished()) {
            std::thread::sleep(Duration::from_millis(100));
            let (now, done) = (started.elapsed(), done.load(Ordering::Relaxed));
            if now - shown < Duration::from_secs(if std::io::stderr().is_terminal() { 1 } else { 30 }) || done == 0 {
                continue;
            }
            shown = now;
            let rate = (done * PIECE as u64) as f64 / now.as_secs_f64() / 1e6;
            let left = now.as_secs_f64() / done as f64 * (jobs.len() as u64 - done) as f64;
            let end = if std::io::stderr().is_terminal() { '\r' } else { '\n' };
            eprint!(
                "{:5.1} %, {rate:.1} million weights/s, {left:.0} s left, {} differences   {end}",
                100.0 * done as f64 / jobs.len() as f64,
                different.load(Ordering::Relaxed)
            );
            let _ = std::io::stderr().flush();
        }
        for worker in workers {
            if !matches!(worker.join(), Ok(Ok(()))) {
                failed.store(true, Ordering::Relaxed);
            }
        }
    });

    let seconds = started.elapsed().as_secs();
    let table = table(&cells, &isas, weights, !real.is_empty());
    println!("\n{table}\n{seconds} s on {threads} threads");
    let mut clean = !failed.load(Ordering::Relaxed);
    for cell in &cells {
        let tally = cell.tally.lock().unwrap();
        clean &= tally.is_clean();
        tally.examples.iter().for_each(|e| println!("{e}"));
    }
    if let Some(file) = &options.write {
        let page = fs::read_to_string(file)?;
        let before = page.find(HEADING).ok_or_else(|| format!("{}: no heading {HEADING:?}", file.display()))?;
        fs::write(file, format!("{}{table}", &page[..before]))?;
    }
    if clean { Ok(()) } else { Err("not the same as ggml".into()) }
}

fn run<'a>(
    ggml: &Ggml,
    isas: &[Isa],
    cells: &'a [Cell],
    real: &[f32],
    job: Job,
) -> Result<(&'a Cell, Tally), libloading::Error> {
    match job {
        Job::Encode { cell, source, number } => {
            let cell = &cells[cell];
            let weights = match cell.matrix {
                false => Weights::None,
                true => Weights::ALL[1 + number as usize % (Weights::ALL.len() - 1)],
            };
            let isas: Vec<Isa> =
                isas.iter().copied().filter(|isa| *isa != Isa::Scalar || number.is_multiple_of(SCALAR_SHARE)).collect();
            // The kinds of matrix and the lengths of rows occur in all combinations.
            let sample = Sample::new(cell.codec, source, weights, number + number / 6, PIECE);
            Ok((cell, compare::sample(ggml, cell.codec, &isas, &sample, real)?))
        }
        Job::Decode { cell, number } => {
            let cell = &cells[cell];
            Ok((cell, compare::random_blocks(ggml, cell.codec, isas, number, PIECE)?))
        }
    }
}

/// The start of the section that has the table.
const HEADING: &str = "## Codecs\n";

fn table(cells: &[Cell], isas: &[Isa], weights: u64, real: bool) -> String {
    let mut out = String::new();
    let isas: Vec<_> = isas.iter().map(|isa| isa.name()).collect();
    let kinds: Vec<_> = Source::all(real).map(Source::name).collect();
    let matrices: Vec<_> = Weights::ALL[1..].iter().map(|w| w.name()).collect();
    let _ = writeln!(
        out,
        "{HEADING}
Every codec compared with the real libggml-base on x86-64: the bytes of `ggml_quantize_chunk`, the bits of `to_float`.
Written by `cargo bench -p gguf-benches --bench exact -- --write docs/exactness.md`.

* Encoded: {} weights or a little more of each kind of numbers: {}.
* Matrices, in turn: {}. The length of a row and the number of rows change from piece to piece.
* Instruction sets: {}. Each takes all the weights, but for the plain reference (scalar), which takes one piece in {SCALAR_SHARE}.
* Decoded: all blocks that ggml encoded, and the same number of weights in blocks of random bytes, including NaN and infinite scales.
* A block is different if the bytes of any instruction set differ.
",
        thousands(weights),
        kinds.join(", "),
        matrices.join(", "),
        isas.join(", "),
    );
    let _ = writeln!(
        out,
        "| type | matrix | weights encoded | of them by scalar | different blocks | weights decoded | different |"
    );
    let _ = writeln!(out, "|---|---|--:|--:|--:|--:|--:|");
    let mut unknown = vec![];
    for cell in cells {
        let t = cell.tally.lock().unwrap();
        if t.encoded + t.decoded == 0 {
            unknown.push(cell.codec.ty.to_string());
            continue;
        }
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            cell.codec.ty,
            if cell.matrix { "with" } else { "without" },
            thousands(t.encoded),
            thousands(t.scalar),
            thousands(t.different_blocks),
            thousands(t.decoded),
            thousands(t.different_weights),
        );
    }
    if !unknown.is_empty() {
        let _ = writeln!(out, "\nNot compared, as ggml neither encodes nor decodes them: {}.", unknown.join(", "));
    }
    out
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Records ggml's results for the rows and blocks of the codecs' tests.
fn record(ggml: &Ggml, options: &Options, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut decoded = String::new();
    for codec in options.codecs() {
        if codec.can_encode() {
            let mut bytes = vec![];
            for case in vectors::cases(codec) {
                let mut packed = vec![0; codec.packed_bytes(case.values.len()).ok_or("no whole blocks")?];
                ggml.quantize(codec.ty, &case.values, case.row_len, case.matrix.as_deref(), &mut packed)?;
                bytes.append(&mut packed);
            }
            fs::write(folder.join(format!("{}.bin", codec.ty)), bytes)?;
        }
        let Some(t) = codec.ty.info().filter(|t| !t.removed) else { continue };
        let packed = vectors::packed(codec.ty);
        let mut values = vec![0.0; packed.len() / t.block_bytes as usize * t.block_len as usize];
        if ggml.to_float(codec.ty, &packed, &mut values)? {
            let _ = write!(decoded, "{} {:016x}", codec.ty, Hash::of(&values));
            values[..4].iter().for_each(|v| {
                let _ = write!(decoded, " {:08x}", v.to_bits());
            });
            decoded.push('\n');
        }
    }
    if options.types.is_none() {
        fs::write(folder.join("decoded.txt"), decoded)?;
    }
    Ok(())
}
