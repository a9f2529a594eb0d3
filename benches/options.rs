//! The options of the benchmarks, which come after `--` on Cargo's command line.

use std::error::Error;
use std::path::{Path, PathBuf};

use gguf_format::GgmlType;
use gguf_quants::Isa;
use gguf_quants::codec::{Codec, codecs};

/// The parsed options.
#[derive(Debug, Default)]
pub struct Options {
    /// `--types q4_K,q6_K`: only these.
    pub types: Option<Vec<GgmlType>>,
    /// `--isa avx2,scalar`: only these.
    pub isas: Option<Vec<Isa>>,
    /// `--weights N`: the amount to compare.
    pub weights: Option<u64>,
    /// `--threads N`.
    pub threads: Option<usize>,
    /// `--write FILE`: the file of the table.
    pub write: Option<PathBuf>,
    /// `--record FOLDER`: vectors for the tests.
    pub record: Option<PathBuf>,
    /// `--markdown`: the table in the format of the README.
    pub markdown: bool,
}

impl Options {
    /// Parses the command line; prints `help` and returns `None` if it was requested.
    ///
    /// # Errors
    /// If the command line is invalid.
    pub fn read(help: &str) -> Result<Option<Options>, Box<dyn Error>> {
        let mut options = Options::default();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--types" => {
                    let ty = |name: &str| GgmlType::from_name(name).ok_or_else(|| format!("no type is called {name}"));
                    options.types = Some(value()?.split(',').map(ty).collect::<Result<_, _>>()?);
                }
                "--isa" => options.isas = Some(value()?.split(',').map(str::parse).collect::<Result<_, _>>()?),
                "--weights" => options.weights = Some(value()?.replace('_', "").parse()?),
                "--threads" => options.threads = Some(value()?.parse()?),
                "--write" => options.write = Some(from_root(&value()?)),
                "--record" => options.record = Some(from_root(&value()?)),
                "--markdown" => options.markdown = true,
                // Added by Cargo.
                "--bench" => {}
                "--help" | "-h" => {
                    println!("{}", help.trim());
                    return Ok(None);
                }
                _ => return Err(format!("{arg} is not an option; see --help").into()),
            }
        }
        Ok(Some(options))
    }

    /// The requested codecs.
    pub fn codecs(&self) -> Vec<&'static Codec> {
        codecs().iter().filter(|c| self.types.as_ref().is_none_or(|t| t.contains(&c.ty))).collect()
    }

    /// The requested instruction sets, as far as this machine has them.
    pub fn isas(&self) -> Vec<Isa> {
        Isa::available().filter(|isa| self.isas.as_ref().is_none_or(|i| i.contains(isa))).collect()
    }
}

/// Resolves a path from the root of the workspace, because Cargo starts benchmarks in the directory of their package.
fn from_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("")).join(path)
}
