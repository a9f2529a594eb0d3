//! Time of each codec, compared with ggml in the same run: see [`HELP`].

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use gguf_benches::compare;
use gguf_benches::options::Options;
use gguf_benches::{Ggml, folder};
use gguf_quants::codec::{Codec, CodecError};
use gguf_quants::{Isa, Rows};
use gguf_test::data::{Kind, Scales, Weights, blocks, matrices};
use gguf_test::random::Random;

const HELP: &str = "
Times every codec on one thread, next to ggml_quantize_chunk and to_float in the same run. What is timed has been compared
with ggml first: the same bytes, the same bits.

usage: cargo bench -p gguf-benches --bench codecs -- [options]

  --types q4_K,q6_K  only these types
  --isa avx2,scalar  only these instruction sets, by the names in the table
  --weights N        weights in one call; 1,048,576 if not given, a quarter of it where ggml takes over 100 ns for one
  --markdown         one line for each type, at the best instruction set, as the README has it

ns: nanoseconds a weight, the least of several calls in turn with ggml's. GB/s: bytes read and written. Share: of the rate at
which this machine copies memory in the same run, bytes read and written alike. GGUF_PEERS names the folder with
lib/libggml-base.so; without it our own figures stand alone.
";

const ROW_LEN: usize = 4096;
const WEIGHTS: usize = 1 << 20;
/// Time for repeated calls, of which there are at least three.
const BUDGET: Duration = Duration::from_millis(900);

#[derive(Clone, Copy)]
enum Task {
    Encode(Weights),
    Decode,
}

/// The minimum time of each function, in seconds per weight.
struct Times {
    isas: Vec<(Isa, f64)>,
    ggml: Option<f64>,
    copy: f64,
    /// Bytes read and written per weight.
    bytes: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(options) = Options::read(HELP)? else { return Ok(()) };
    let ggml = folder().as_deref().map(Ggml::load).transpose()?;
    if ggml.is_none() {
        println!("without ggml: GGUF_PEERS is not set");
    }
    let mut isas = options.isas();
    if options.markdown {
        isas.drain(..isas.len() - 1);
        println!("one thread, {}, ns a weight (times as fast as ggml)\n", isas[0]);
        println!("| type | encode | encode with matrix | decode |\n|---|--:|--:|--:|");
    } else {
        println!(
            "{:<8} {:<14} {:<8} {:>8} {:>8} {:>6} {:>7} {:>6}",
            "type", "", "set", "ns", "ggml", "ratio", "GB/s", "share"
        );
    }
    for codec in options.codecs() {
        let mut cells = vec![];
        for task in [Task::Encode(Weights::None), Task::Encode(Weights::Positive), Task::Decode] {
            let does = match task {
                Task::Encode(weights) => codec.can_encode() && matrices(codec).contains(&weights),
                Task::Decode => true,
            };
            if !does {
                cells.push(String::new());
                continue;
            }
            let times = measure(ggml.as_ref(), codec, &isas, task, options.weights)?;
            if options.markdown {
                let (_, ours) = times.isas[0];
                let ratio = times.ggml.map_or(String::new(), |t| format!(" ({:.1}×)", t / ours));
                cells.push(format!("{:.2}{ratio}", ours * 1e9));
                continue;
            }
            let name = match task {
                Task::Encode(Weights::None) => "encode",
                Task::Encode(_) => "encode, matrix",
                Task::Decode => "decode",
            };
            for (isa, ours) in &times.isas {
                let theirs = times.ggml.map_or((String::new(), String::new()), |t| {
                    (format!("{:.2}", t * 1e9), format!("{:.2}", t / ours))
                });
                println!(
                    "{:<8} {name:<14} {isa:<8} {:>8.3} {:>8} {:>6} {:>7.2} {:>4.0} %",
                    codec.ty,
                    ours * 1e9,
                    theirs.0,
                    theirs.1,
                    times.bytes / ours / 1e9,
                    100.0 * times.copy / ours,
                );
            }
        }
        if options.markdown {
            let mut line = format!("| {} |", codec.ty);
            cells.iter().for_each(|c| {
                let _ = write!(line, " {c} |");
            });
            println!("{line}");
        }
    }
    Ok(())
}

fn measure(
    ggml: Option<&Ggml>,
    codec: &Codec,
    isas: &[Isa],
    task: Task,
    weights: Option<u64>,
) -> Result<Times, Box<dyn Error>> {
    let mut random = Random::new("codecs", 0);
    let n = match weights {
        Some(n) => (n as usize).next_multiple_of(ROW_LEN),
        None if is_slow(ggml, codec, task)? => WEIGHTS / 4,
        None => WEIGHTS,
    };
    let packed_bytes = codec.packed_bytes(n).ok_or("no whole blocks")?;
    let mut values = Kind::Normal.values(codec.ty, &mut random, n);
    let mut packed = vec![0; packed_bytes];
    let matrix = match task {
        Task::Encode(weights) => weights.columns(&mut random, ROW_LEN),
        Task::Decode => None,
    };

    // Correctness first.
    let what = format!("{} of the benchmark", codec.ty);
    let mut tally = compare::Tally::default();
    match (task, ggml) {
        (Task::Encode(_), ggml) => {
            let rows = Rows::new(&values, ROW_LEN, matrix.as_deref())?;
            match ggml {
                Some(ggml) => ggml.quantize(codec.ty, &values, ROW_LEN, matrix.as_deref(), &mut packed)?,
                None => codec.encode_with(Isa::Scalar, rows, &mut packed)?,
            }
            tally += compare::encoded(codec, isas, rows, &packed, &what);
        }
        (Task::Decode, ggml) => {
            let block_len = codec.ty.info().map_or(1, |t| t.block_len as usize);
            packed = blocks(codec.ty, Scales::Finite, &mut random, n / block_len);
            if let Some(ggml) = ggml {
                tally += compare::decoded(ggml, codec, isas, &packed, &what)?;
            }
        }
    }
    if !tally.is_clean() {
        return Err(tally.examples.join("\n").into());
    }

    // Ours, ggml's and the copies alternately, so that changes of the machine's speed affect all of them. The first round warms up.
    let has_peer = match (task, ggml) {
        (_, None) => None,
        (Task::Encode(_), Some(ggml)) => Some(ggml),
        (Task::Decode, Some(ggml)) => {
            let known = codec.ty.info().is_some_and(|t| !t.removed);
            (known && ggml.to_float(codec.ty, &packed, &mut values)?).then_some(ggml)
        }
    };
    let moved = 4 * n + packed_bytes;
    let (from, mut to) = (vec![1u8; moved / 2], vec![2u8; moved / 2]);
    let mut best = vec![f64::MAX; isas.len() + 2];
    let started = Instant::now();
    let mut round = 0;
    while round < 4 || (started.elapsed() < BUDGET && round < 40) {
        for (i, best) in best.iter_mut().enumerate() {
            let start = Instant::now();
            if let Some(&isa) = isas.get(i) {
                match task {
                    Task::Encode(_) => {
                        let rows = Rows::new(black_box(&values), ROW_LEN, matrix.as_deref())?;
                        codec.encode_with(isa, rows, black_box(&mut packed))?;
                    }
                    Task::Decode => codec.decode_with(isa, black_box(&packed), black_box(&mut values))?,
                }
            } else if i == isas.len() {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            } else if let Some(ggml) = has_peer {
                match task {
                    Task::Encode(_) => ggml.quantize(codec.ty, &values, ROW_LEN, matrix.as_deref(), &mut packed)?,
                    Task::Decode => {
                        ggml.to_float(codec.ty, &packed, &mut values)?;
                    }
                }
            }
            let took = start.elapsed().as_secs_f64() / n as f64;
            if round > 0 {
                *best = best.min(took);
            }
        }
        round += 1;
    }
    Ok(Times {
        isas: isas.iter().copied().zip(best.iter().copied()).collect(),
        ggml: has_peer.map(|_| best[isas.len() + 1]),
        copy: best[isas.len()],
        bytes: moved as f64 / n as f64,
    })
}

/// Whether encoding is so slow that a smaller buffer suffices.
fn is_slow(ggml: Option<&Ggml>, codec: &Codec, task: Task) -> Result<bool, Box<dyn Error>> {
    let Task::Encode(weights) = task else { return Ok(false) };
    let mut random = Random::new("warm", 0);
    let values = Kind::Normal.values(codec.ty, &mut random, 2 * ROW_LEN);
    let matrix = weights.columns(&mut random, ROW_LEN);
    let mut packed = vec![0; codec.packed_bytes(values.len()).ok_or("no whole blocks")?];
    let mut took = Duration::ZERO;
    // ggml creates tables on the first call.
    for _ in 0..2 {
        let start = Instant::now();
        match ggml {
            Some(ggml) => ggml.quantize(codec.ty, &values, ROW_LEN, matrix.as_deref(), &mut packed)?,
            None => codec
                .encode(Rows::new(&values, ROW_LEN, matrix.as_deref())?, &mut packed)
                .or_else(|e| if matches!(e, CodecError::Refused { .. }) { Ok(()) } else { Err(e) })?,
        }
        took = start.elapsed();
    }
    Ok(took.as_secs_f64() / values.len() as f64 > 100e-9)
}
