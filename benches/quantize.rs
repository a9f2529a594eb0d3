//! Time and memory of `gguf quantize` for a model of a billion weights, compared with llama.cpp's quantizer and with copying the file:
//! `cargo build --release -p gguf-cli && cargo bench -p gguf-benches --bench quantize [-- FOLDER]`.
//!
//! Both use two threads, one after the other, and the files are compared before anything is printed. The model is written to FOLDER (by
//! default a temporary one), which needs 9 GB including the outputs; files of an earlier run are reused. llama.cpp comes from the directory
//! in `GGUF_PEERS`; without it, only our own times are printed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gguf_benches::{Outcome, folder, median, program, timed};
use gguf_format::keys::FileType;
use gguf_io::ModelFile;

/// Number of runs of ggufkit and of copying, of which the median is reported.
const ROUNDS: usize = 3;

/// The file types, and whether an importance matrix is used.
const CASES: &[(&str, bool)] =
    &[("Q8_0", false), ("Q6_K", false), ("Q6_K", true), ("Q4_K_M", false), ("Q4_K_M", true), ("IQ3_XXS", true)];

fn main() -> Outcome<()> {
    let kept = std::env::args().skip(1).find(|a| !a.starts_with('-')).map(PathBuf::from);
    let dir = kept.clone().unwrap_or_else(|| std::env::temp_dir().join("gguf-bench-quantize"));
    fs::create_dir_all(&dir)?;
    let program = program()?;
    let (model, matrix, large) = (dir.join("model.gguf"), dir.join("imatrix.gguf"), dir.join("one-tensor.gguf"));
    for (file, kind) in [(&model, None), (&matrix, Some("imatrix")), (&large, Some("one-tensor"))] {
        if !file.exists() {
            let mut write = Command::new(env!("CARGO_BIN_EXE_synthetic"));
            let status = write.arg(file).args(kind).status()?;
            assert!(status.success(), "cannot write {}", file.display());
        }
    }
    let mut llama = folder().map(|peers| Llama::start(&peers)).transpose()?;
    let (ours, theirs) = (dir.join("ours.gguf"), dir.join("theirs.gguf"));

    let copy = || -> Outcome<Duration> {
        let start = Instant::now();
        let status = Command::new("cp").arg(&model).arg(&theirs).status()?;
        assert!(status.success(), "cp fails");
        Ok(start.elapsed())
    };
    let copy = median((0..ROUNDS).map(|_| copy()).collect::<Outcome<_>>()?);
    let bytes = fs::metadata(&model)?.len();
    println!("{} of {bytes} bytes, copied by cp in {:.2} s", model.display(), copy.as_secs_f64());
    println!("| file type | matrix | llama.cpp, s | ours, s | ratio | rate to cp | peak, MiB |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    for &(ty, with) in CASES {
        let matrix = with.then_some(matrix.as_path());
        let mut runs = Vec::new();
        let mut peak = 0;
        for _ in 0..ROUNDS {
            let (time, kib) = quantize(&program, &model, &ours, ty, matrix)?;
            runs.push(time);
            peak = peak.max(kib);
        }
        let took = median(runs);
        let theirs = match &mut llama {
            Some(llama) => {
                let time = llama.quantize(&model, &theirs, ty, matrix)?;
                assert!(same(&ours, &theirs)?, "{ty} differs from llama.cpp's");
                Some(time)
            }
            None => None,
        };
        let [theirs_s, ratio] = match theirs {
            Some(t) => [format!("{:.1}", t.as_secs_f64()), format!("{:.1}", t.as_secs_f64() / took.as_secs_f64())],
            None => [String::new(), String::new()],
        };
        println!(
            "| {ty} | {} | {theirs_s} | {:.2} | {ratio} | {:.2} | {} |",
            if with { "yes" } else { "no" },
            took.as_secs_f64(),
            copy.as_secs_f64() / took.as_secs_f64(),
            peak >> 10,
        );
    }
    let (time, kib) = quantize(&program, &large, &ours, "Q4_K_M", None)?;
    println!("one tensor of 4 GB to Q4_K_M: {:.2} s, peak {} MiB", time.as_secs_f64(), kib >> 10);
    for file in [&ours, &theirs] {
        let _ = fs::remove_file(file);
    }
    if kept.is_none() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

/// Quantizes with the program; returns the time, and the peak memory in KiB.
fn quantize(program: &Path, model: &Path, out: &Path, ty: &str, matrix: Option<&Path>) -> Outcome<(Duration, u64)> {
    let mut command = Command::new(program);
    command.arg("quantize").arg(model).arg(out).args([ty, "-f", "-q", "-j", "2"]);
    if let Some(matrix) = matrix {
        command.arg("--imatrix").arg(matrix);
    }
    timed(command)
}

/// Whether two models have the same tensors with the same bytes.
fn same(a: &Path, b: &Path) -> Outcome<bool> {
    let open = |path: &Path| -> Outcome<(Vec<_>, BufReader<File>)> {
        let file = ModelFile::open(path)?;
        let tensors = file.gguf().tensors().map(|t| t.to_owned()).collect();
        let mut bytes = BufReader::with_capacity(1 << 20, File::open(path)?);
        bytes.seek_relative(i64::try_from(file.gguf().data_offset())?)?;
        Ok((tensors, bytes))
    };
    let ((ours, mut a), (theirs, mut b)) = (open(a)?, open(b)?);
    let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let n = a.read(&mut x)?;
        if n == 0 {
            return Ok(ours == theirs && b.read(&mut y[..1])? == 0);
        }
        if b.read_exact(&mut y[..n]).is_err() || x[..n] != y[..n] {
            return Ok(false);
        }
    }
}

/// llama.cpp in a separate process, whose start is not timed.
struct Llama(Child, BufReader<std::process::ChildStdout>);

impl Llama {
    fn start(peers: &Path) -> Outcome<Llama> {
        let lib = peers.join("lib");
        let mut child = Command::new(peers.join("venv/bin/python"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/gguf-cli/tests/llama_peer.py"))
            .envs([("LLAMA_CPP_LIB_PATH", lib.as_path()), ("LD_LIBRARY_PATH", &lib), ("PYTHONPATH", peers)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Llama(child, answers))
    }

    fn quantize(&mut self, model: &Path, out: &Path, ty: &str, matrix: Option<&Path>) -> Outcome<Duration> {
        let number = FileType::from_name(ty).ok_or("no such file type")?.0;
        let text = |path: &Path| format!("{:?}", path.display().to_string());
        let matrix = matrix.map(|m| format!(", \"imatrix\": {}", text(m))).unwrap_or_default();
        let params = format!("{{\"ftype\": {number}, \"nthread\": 2}}");
        let (model, out) = (text(model), text(out));
        let start = Instant::now();
        let input = self.0.stdin.as_mut().ok_or("no input")?;
        writeln!(input, "{{\"quantize\": {{\"in\": {model}, \"out\": {out}, \"params\": {params}{matrix}}}}}")?;
        let mut answer = String::new();
        self.1.read_line(&mut answer)?;
        assert!(answer.contains("\"rc\": 0"), "llama.cpp says {answer}");
        Ok(start.elapsed())
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
