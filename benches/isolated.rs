//! ggml in a separate process, for values on which it aborts.
//!
//! A request consists of five 32-bit numbers (operation, type, length of a row, bytes of data, bytes of weights) and the data; the answer
//! is a length and that many bytes, or [`ABORTED`]. Each call of the quantizer runs in a fork: ggml needs seconds to create the tables of
//! the codebook types, which thus survive an abort.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gguf_format::GgmlType;

use crate::Ggml;

const QUANTIZE: u32 = 0;
const VALIDATE: u32 = 1;
/// Sent instead of a length.
const ABORTED: u32 = u32::MAX;

/// A process that calls ggml.
#[derive(Debug)]
pub struct Isolated {
    program: PathBuf,
    running: Option<(Child, ChildStdin, ChildStdout)>,
}

impl Isolated {
    /// `program` is the path of `ggml-peer`, available to tests and benchmarks as `CARGO_BIN_EXE_ggml-peer`.
    pub fn new(program: impl AsRef<Path>) -> Isolated {
        Isolated { program: program.as_ref().to_owned(), running: None }
    }

    /// [`Ggml::quantize`]; `None` if ggml aborts.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn quantize(
        &mut self,
        ty: GgmlType,
        values: &[f32],
        row_len: usize,
        weights: Option<&[f32]>,
    ) -> io::Result<Option<Vec<u8>>> {
        self.call(QUANTIZE, ty, row_len, &to_bytes(values), &to_bytes(weights.unwrap_or_default()))
    }

    /// [`Ggml::validate`].
    ///
    /// # Errors
    /// If the process cannot be started, or ends.
    pub fn validate(&mut self, ty: GgmlType, packed: &[u8]) -> io::Result<bool> {
        let answer = self.call(VALIDATE, ty, 0, packed, &[])?;
        answer.map(|a| a == [1]).ok_or_else(|| io::Error::other("ggml_validate_row_data aborts"))
    }

    fn call(
        &mut self,
        what: u32,
        ty: GgmlType,
        row_len: usize,
        data: &[u8],
        more: &[u8],
    ) -> io::Result<Option<Vec<u8>>> {
        let (_, input, output) = match &mut self.running {
            Some(running) => running,
            none => {
                // Otherwise each abort would start a debugger for a backtrace.
                let mut child = Command::new(&self.program)
                    .env("GGML_NO_BACKTRACE", "1")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()?;
                let (input, output) = (child.stdin.take(), child.stdout.take());
                none.insert((child, input.ok_or(io::ErrorKind::BrokenPipe)?, output.ok_or(io::ErrorKind::BrokenPipe)?))
            }
        };
        let mut request = vec![];
        for n in [what, ty.0, row_len as u32, data.len() as u32, more.len() as u32] {
            request.extend(n.to_le_bytes());
        }
        input.write_all(&[&request, data, more].concat())?;
        let mut len = [0; 4];
        output.read_exact(&mut len)?;
        if u32::from_le_bytes(len) == ABORTED {
            return Ok(None);
        }
        let mut answer = vec![0; u32::from_le_bytes(len) as usize];
        output.read_exact(&mut answer)?;
        Ok(Some(answer))
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        if let Some((mut child, input, _)) = self.running.take() {
            drop(input);
            let _ = child.wait();
        }
    }
}

/// Answers requests until the input ends.
///
/// # Errors
/// If a request is truncated, or ggml lacks a function.
pub fn serve(ggml: &Ggml, mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    loop {
        let mut head = [0; 20];
        match input.read_exact(&mut head) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let head: Vec<u32> = head.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect();
        let [what, ty, row_len, data_len, more_len] = head[..] else { unreachable!("five numbers") };
        let (mut data, mut more) = (vec![0; data_len as usize], vec![0; more_len as usize]);
        input.read_exact(&mut data)?;
        input.read_exact(&mut more)?;
        let ty = GgmlType(ty);
        let answer = if what == QUANTIZE {
            let (values, weights) = (to_floats(&data), to_floats(&more));
            let bytes = ty.tensor_bytes([values.len() as u64]).map_err(io::Error::other)?;
            let mut packed = vec![0; bytes as usize];
            let weights = (!weights.is_empty()).then_some(&weights[..]);
            ggml.prepare(ty).map_err(io::Error::other)?;
            let answer = survive(|| {
                ggml.quantize(ty, &values, row_len as usize, weights, &mut packed).map_err(io::Error::other)?;
                output.write_all(&(packed.len() as u32).to_le_bytes())?;
                output.write_all(&packed)?;
                output.flush()
            })?;
            if !answer {
                output.write_all(&ABORTED.to_le_bytes())?;
                output.flush()?;
            }
            continue;
        } else {
            vec![u8::from(ggml.validate(ty, &data).map_err(io::Error::other)?)]
        };
        output.write_all(&(answer.len() as u32).to_le_bytes())?;
        output.write_all(&answer)?;
        output.flush()?;
    }
}

/// Runs a closure in a forked process; returns whether it completed.
#[cfg(unix)]
fn survive(work: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn fork() -> c_int;
        fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
        fn _exit(status: c_int) -> !;
    }
    // SAFETY: the process has one thread, so the child may do everything; it exits without running registered exit handlers.
    let pid = unsafe { fork() };
    if pid == 0 {
        let status = if work().is_ok() { 0 } else { 1 };
        // SAFETY: only ends the child.
        unsafe { _exit(status) }
    }
    let mut status = 0;
    // SAFETY: the child is waited for once, and `status` outlives the call.
    if pid < 0 || unsafe { waitpid(pid, &raw mut status, 0) } != pid {
        return Err(io::Error::last_os_error());
    }
    Ok(status == 0)
}

#[cfg(not(unix))]
fn survive(work: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
    work().map(|()| true)
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
