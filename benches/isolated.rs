//! ggml in a process of its own, for values on which it aborts.
//!
//! A request is five numbers of 32 bits (what to do, type, length of a row, bytes of data, bytes of weights) and the data; the
//! answer is a length and that many bytes, or the end of the process.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use gguf_format::GgmlType;

use crate::Ggml;

const QUANTIZE: u32 = 0;
const VALIDATE: u32 = 1;

/// A process that calls ggml; when ggml ends it, the next call starts another.
#[derive(Debug)]
pub struct Isolated {
    program: PathBuf,
    running: Option<(Child, ChildStdin, ChildStdout)>,
}

impl Isolated {
    /// `program` is the path of `ggml-peer`, which Cargo gives tests and benchmarks as `CARGO_BIN_EXE_ggml-peer`.
    pub fn new(program: impl AsRef<Path>) -> Isolated {
        Isolated { program: program.as_ref().to_owned(), running: None }
    }

    /// [`Ggml::quantize`]; `None` where ggml aborts.
    ///
    /// # Errors
    /// When the process cannot be started.
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
    /// When the process cannot be started, or ends.
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
                // A trace of each abort would start a debugger.
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
        let answer = input.write_all(&[&request, data, more].concat()).and_then(|()| {
            let mut len = [0; 4];
            output.read_exact(&mut len)?;
            let mut answer = vec![0; u32::from_le_bytes(len) as usize];
            output.read_exact(&mut answer)?;
            Ok(answer)
        });
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(_) => {
                if let Some((mut child, ..)) = self.running.take() {
                    let status = child.wait()?;
                    // Ending in another way than by a signal means that ggml was not reached.
                    if status.code().is_some() {
                        return Err(io::Error::other(format!("{}: {status}", self.program.display())));
                    }
                }
                Ok(None)
            }
        }
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

/// Answers requests until there are no more.
///
/// # Errors
/// When a request is cut short, or ggml lacks a function.
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
            ggml.quantize(ty, &values, row_len as usize, weights, &mut packed).map_err(io::Error::other)?;
            packed
        } else {
            vec![u8::from(ggml.validate(ty, &data).map_err(io::Error::other)?)]
        };
        output.write_all(&(answer.len() as u32).to_le_bytes())?;
        output.write_all(&answer)?;
        output.flush()?;
    }
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
