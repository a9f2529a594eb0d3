//! The expected time of a model of a trillion weights on many machines: see [`HELP`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use gguf_format::GgmlType;
use gguf_quants::Rows;
use gguf_quants::codec::codec;
use gguf_test::data::{Kind, Weights};
use gguf_test::random::Random;

const HELP: &str = "
Measures the time of the encoders on one core of this machine, and simulates `gguf part` on 1 to 64 nodes for 1e12 weights in BF16.

usage: cargo bench -p gguf-benches --bench fleet -- [--recorded]

  --recorded   the times in docs/performance.md, in place of those of this machine; fails if docs/many-machines.md has other results

A node has 16 cores and 25 Gbit/s in each direction, and makes one part of 256 MiB at a time: it reads ahead while it encodes, then signs the part and uploads it. Nodes start
within 30 s; 2 % are five times slower. Parts come from a queue, and the one that has run longest is started a second time when the queue is empty. In brackets: 5 % of
the nodes are slow, and each is lost twice an hour and replaced within 60 s. Each number is the mean of 200 simulations.
";

const WEIGHTS: f64 = 1e12;
const PART: f64 = (256 << 20) as f64;
const CORES: f64 = 16.0;
const BYTES_PER_SECOND: f64 = 25e9 / 8.0;
/// SHA-256 of one core with instructions for it, which is in the signature of an upload. Measured: the user time of a part that goes to a store, less that
/// of the same part in a file. (The XXH3 of parts takes a tenth of it, beside the encoding.)
const SIGNED_PER_SECOND: f64 = 1.7e9;
const RUNS: u64 = 200;

/// A file type: its name, bits for each weight, and the share of the types that its tensors have.
type FileType = (&'static str, f64, &'static [(GgmlType, f64)]);

const TYPES: [FileType; 3] = [
    ("Q4_K_M", 4.85, &[(GgmlType::Q4_K, 0.85), (GgmlType::Q6_K, 0.15)]),
    ("IQ2_XS", 2.4, &[(GgmlType::IQ2_XS, 1.0)]),
    ("IQ3_XXS", 3.1, &[(GgmlType::IQ3_XXS, 1.0)]),
];

/// The pages with the measured times and with the results.
const MEASURED: &str = include_str!("../docs/performance.md");
const BOOK: &str = include_str!("../docs/many-machines.md");

/// Nanoseconds of one core for a weight, with a matrix, in the book.
fn recorded(types: &[(GgmlType, f64)]) -> Result<f64, Box<dyn Error>> {
    let mut sum = 0.0;
    for (ty, share) in types {
        let row = MEASURED.lines().find_map(|line| line.strip_prefix(&format!("| {ty} |")));
        let cell = row.and_then(|row| row.split('|').nth(1)).and_then(|cell| cell.trim().split_once(" ns"));
        sum += share * cell.ok_or("no such row in docs/performance.md")?.0.parse::<f64>()?;
    }
    Ok(sum)
}

/// What may go wrong.
#[derive(Clone, Copy)]
struct Trouble {
    /// The share of slow nodes, and how much longer they take.
    slow: (f64, f64),
    /// Losses of a node in an hour.
    losses: f64,
    /// The longest delay of a start.
    start: f64,
    /// Each node has a fixed share of the parts, in place of the queue.
    fixed: bool,
}

/// The seconds of a part on a usual node.
fn seconds_of_part(ns: f64, bits: f64, bytes: f64) -> f64 {
    let weights = bytes * 8.0 / bits;
    let (read, encode) = (weights * 2.0 / BYTES_PER_SECOND, weights * ns * 1e-9 / CORES);
    read.max(encode) + bytes / SIGNED_PER_SECOND + bytes / BYTES_PER_SECOND
}

/// The time at which the last part is done, and how often parts were made.
fn simulate(n_nodes: usize, parts: &[f64], trouble: Trouble, random: &mut Random) -> (f64, usize) {
    let unit = |random: &mut Random| f64::from(random.unit().abs()).min(1.0);
    // A node: when it is free, in microseconds, and its number.
    let at = |seconds: f64| (seconds * 1e6) as u64;
    let mut free = BinaryHeap::new();
    let mut speed = Vec::new();
    for node in 0..n_nodes {
        speed.push(if unit(random) < trouble.slow.0 { trouble.slow.1 } else { 1.0 });
        free.push(Reverse((at(unit(random) * trouble.start), node)));
    }
    let mut queue: Vec<Vec<usize>> = vec![Vec::new(); if trouble.fixed { n_nodes } else { 1 }];
    let n_queues = queue.len();
    (0..parts.len()).rev().for_each(|part| queue[part % n_queues].push(part));
    // For each part the earliest end, and for each start of a part that may still run: the start, the part, and whether it was started twice.
    let mut end = vec![u64::MAX; parts.len()];
    let mut running: Vec<(u64, usize, bool)> = Vec::new();
    let (mut last, mut n_made) = (0, 0);
    while let Some(Reverse((now, node))) = free.pop() {
        let own = &mut queue[if trouble.fixed { node } else { 0 }];
        let part = match own.pop() {
            Some(part) => part,
            None => {
                running.retain(|(_, part, _)| end[*part] > now);
                // The oldest that runs once. A copy of a part that is about to end gains nothing.
                let oldest = running.iter_mut().filter(|(_, _, twice)| !twice && !trouble.fixed).min();
                match oldest {
                    Some((start, part, twice)) if now.saturating_sub(*start) > at(2.0 * parts[*part]) => {
                        *twice = true;
                        *part
                    }
                    Some((start, part, _)) => {
                        let then = *start + at(2.0 * parts[*part]) + 1;
                        free.push(Reverse((then.max(now + 1), node)));
                        continue;
                    }
                    None => continue,
                }
            }
        };
        let seconds = parts[part] * speed[node];
        // A loss within the part: it goes back to the queue, and another node comes.
        if unit(random) < 1.0 - (-trouble.losses * seconds / 3600.0).exp() {
            let lost = unit(random) * seconds;
            own.push(part);
            speed[node] = if unit(random) < trouble.slow.0 { trouble.slow.1 } else { 1.0 };
            free.push(Reverse((now + at(lost + 60.0 * unit(random)), node)));
            continue;
        }
        let done = now + at(seconds);
        end[part] = end[part].min(done);
        running.push((now, part, false));
        n_made += 1;
        free.push(Reverse((done, node)));
    }
    for done in end {
        assert!(done < u64::MAX, "a part was not made");
        last = last.max(done);
    }
    (last as f64 / 1e6, n_made)
}

/// The mean time of many simulations.
fn mean(n_nodes: usize, parts: &[f64], trouble: Trouble) -> f64 {
    let mut random = Random::new("fleet", n_nodes as u64);
    (0..RUNS).map(|_| simulate(n_nodes, parts, trouble, &mut random).0).sum::<f64>() / RUNS as f64
}

/// Nanoseconds of one core for a weight, with a matrix.
fn measured(types: &[(GgmlType, f64)]) -> Result<f64, Box<dyn Error>> {
    const N: usize = 1 << 18;
    let mut sum = 0.0;
    for (ty, share) in types {
        let codec = codec(*ty).ok_or("no codec")?;
        let mut random = Random::new("fleet", 0);
        let values = Kind::Normal.values(*ty, &mut random, N);
        let columns = Weights::Positive.columns(&mut random, 4096);
        let mut packed = vec![0; codec.packed_bytes(N).ok_or("no whole blocks")?];
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            codec.encode(Rows::new(black_box(&values), 4096, columns.as_deref())?, black_box(&mut packed))?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        sum += share * best * 1e9 / N as f64;
    }
    Ok(sum)
}

/// Checks the simulation where the answer is known.
fn check() {
    let none = Trouble { slow: (0.0, 1.0), losses: 0.0, start: 0.0, fixed: false };
    let parts = vec![2.0; 96];
    for (n_nodes, expected) in [(1, 192.0), (8, 24.0), (64, 4.0), (96, 2.0)] {
        let (seconds, n_made) = simulate(n_nodes, &parts, none, &mut Random::new("check", 0));
        assert!((seconds - expected).abs() < 1e-3 && n_made == 96, "{n_nodes} nodes: {seconds} s, {n_made} parts made");
    }
    // One slow node of two with a fixed half takes as long as it takes; from a queue it makes a sixth of the parts.
    let slow = Trouble { slow: (1.0, 5.0), fixed: true, ..none };
    assert!((simulate(2, &parts, slow, &mut Random::new("check", 0)).0 - 480.0).abs() < 1e-3);
    let losses = Trouble { losses: 60.0, ..none };
    let (seconds, n_made) = simulate(4, &parts, losses, &mut Random::new("check", 0));
    assert!(seconds > 48.0 && n_made >= 96, "{seconds} s, {n_made}");
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_recorded = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => false,
        ["--recorded"] => true,
        _ => {
            println!("{}", HELP.trim());
            return Ok(());
        }
    };
    check();
    let mut lines = vec!["| type | ns/weight | parts | 1 node | 8 | 16 | 64 | node-hours |".to_owned()];
    lines.push("|---|--:|--:|--:|--:|--:|--:|--:|".to_owned());
    for (name, bits, types) in TYPES {
        let ns = if is_recorded { recorded(types)? } else { measured(types)? };
        let bytes = WEIGHTS * bits / 8.0;
        let mut parts = vec![seconds_of_part(ns, bits, PART); (bytes / PART) as usize];
        parts.push(seconds_of_part(ns, bits, bytes % PART));
        let usual = Trouble { slow: (0.02, 5.0), losses: 0.0, start: 30.0, fixed: false };
        let worse = Trouble { slow: (0.05, 5.0), losses: 2.0, ..usual };
        let cell = |n_nodes| match n_nodes {
            1 => format!("{:.0} s", mean(1, &parts, Trouble { slow: (0.0, 1.0), ..usual })),
            n => format!("{:.0} ({:.0})", mean(n, &parts, usual), mean(n, &parts, worse)),
        };
        let hours = mean(16, &parts, usual) * 16.0 / 3600.0;
        lines.push(format!(
            "| {name} | {ns:.1} | {} | {} | {hours:.1} |",
            parts.len(),
            [1, 8, 16, 64].map(cell).join(" | ")
        ));
        if name == "IQ3_XXS" {
            let one = |fixed| {
                // One slow node of 16.
                let mut random = Random::new("one", 0);
                let trouble = Trouble { slow: (1.0 / 16.0, 5.0), fixed, ..usual };
                (0..RUNS).map(|_| simulate(16, &parts, trouble, &mut random).0).sum::<f64>() / RUNS as f64
            };
            let (queue, shares) = (one(false), one(true));
            lines.push(format!("{name} takes {queue:.0} s from a queue and {shares:.0} s in fixed shares"));
        }
    }
    println!("{}", lines.join("\n"));
    match lines.iter().find(|line| is_recorded && !BOOK.contains(line.as_str())) {
        Some(line) => Err(format!("docs/many-machines.md does not have: {line}").into()),
        None => Ok(()),
    }
}
