//! `gguf hash`: computes or verifies the hashes of a model and its tensors.

use std::collections::BTreeSet;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use gguf_edit::hash::{Algorithm, HashOptions, Hashes, TensorHashes};
use gguf_edit::manifest::{self, Compared, Manifest, Status};
use gguf_format::Str;
use gguf_format::shard::ShardKeys;
use gguf_io::ModelFile;
use serde::{Serialize, Serializer};

use super::text_file::read_text_of;
use crate::cmd::Shards;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::stdin;
use crate::ui::{Style, Ui, grouped, shown_path};
use crate::watch::Watch;

/// Maximum size of a manifest.
const MAX_MANIFEST: u64 = 64 << 20;

/// Compute hashes of a model and its tensors, or verify them against a manifest.
///
/// Hashes and manifests are the same as those of llama-gguf-hash. They cover only the tensor data; --content also
/// covers metadata, names, shapes and types, and does not change when a model is split, merged, reordered or converted
/// to another byte order. All shards of a split model are hashed as one model.
///
/// With --check, the strongest kind of hash in the manifest is compared unless options select others. The exit code is
/// 1 if a hash differs, a tensor of the manifest is missing, or the manifest has no hash of the model.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf hash model.gguf                                  XXH64 of each tensor and of the model
  gguf hash model.gguf --sha256 > model.gguf.manifest
  gguf hash model.gguf --check model.gguf.manifest      verify every tensor
  curl -L URL | gguf hash - --sha256                    hash a model without storing it
  gguf hash model-00001-of-00003.gguf --content --no-layer")]
pub struct Args {
    /// GGUF model; any shard of a split model; - for standard input
    model: PathBuf,

    /// Compute XXH64 (the default)
    #[arg(long)]
    xxh64: bool,

    /// Compute SHA-1
    #[arg(long)]
    sha1: bool,

    /// Compute SHA-256
    #[arg(long)]
    sha256: bool,

    /// Compute XXH64, SHA-1 and SHA-256
    #[arg(long)]
    all: bool,

    /// Compute a version 5 UUID of the whole model
    #[arg(long)]
    uuid: bool,

    /// Compute a digest of metadata, names, shapes, types and data that is independent of shards, order, version and
    /// byte order
    #[arg(long)]
    content: bool,

    /// Print no hashes of single tensors
    #[arg(long)]
    no_layer: bool,

    /// Print no hash of the whole model; tensors are hashed in parallel
    #[arg(long, conflicts_with_all = ["no_layer", "uuid"])]
    no_model: bool,

    /// Verify the hashes in this manifest; - for standard input
    #[arg(long, value_name = "MANIFEST")]
    check: Option<PathBuf>,

    /// Hash only this file, even if it is a shard
    #[arg(long)]
    lone: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print no progress; with --check, print only mismatches
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let manifest = match &self.check {
            Some(path) => Some(Manifest::parse(&read_text_of(path, MAX_MANIFEST, "a manifest")?, path)?),
            None => None,
        };
        let is_piped = stdin::is_stdin(&self.model);
        let files = match self.lone {
            _ if is_piped => Shards::Lone(self.piped()?),
            true => Shards::Lone(open::file(&self.model, 0)?),
            false => Shards::Whole(open::model(&self.model)?),
        };
        let algorithms = self.algorithms(manifest.as_ref());
        let options = HashOptions::new(algorithms.clone())
            .no_tensors(self.no_layer)
            .no_model(self.no_model)
            // A pipe is read sequentially by one thread.
            .threads(if is_piped { Some(NonZeroUsize::MIN) } else { self.threads });
        let watch = Watch::new(self.quiet);
        let hashes = gguf_edit::hash(files.files(), &options, &watch);
        watch.clear();
        let hashes = hashes?;
        match (&self.check, manifest) {
            (Some(path), Some(manifest)) => self.print_check(ui, path, &manifest, &hashes, &algorithms),
            _ => self.print(ui, &hashes),
        }
    }

    /// The model on standard input.
    fn piped(&self) -> Result<ModelFile, Failure> {
        let file = stdin::open()?;
        match ShardKeys::of(file.gguf()).count {
            Some(n @ 2..) if !self.lone => Err(Failure::CouldNotRun(format!(
                "{}: one of {n} shards, and the others cannot be read from a pipe; pass the file, or use --lone",
                stdin::NAME
            ))),
            _ => Ok(file),
        }
    }

    /// The requested algorithms, or else the strongest algorithm in the manifest.
    fn algorithms(&self, manifest: Option<&Manifest>) -> Vec<Algorithm> {
        let asked = [
            (self.xxh64 || self.all, Algorithm::Xxh64),
            (self.sha1 || self.all, Algorithm::Sha1),
            (self.sha256 || self.all, Algorithm::Sha256),
            (self.uuid, Algorithm::Uuid),
            (self.content, Algorithm::Content),
            (self.content, Algorithm::Metadata),
        ];
        let mut algorithms: Vec<Algorithm> = asked.into_iter().filter(|(yes, _)| *yes).map(|(_, a)| a).collect();
        if let (Some(manifest), true) = (manifest, algorithms.is_empty()) {
            let listed: BTreeSet<Algorithm> = manifest.algorithms();
            if listed.contains(&Algorithm::Content) || listed.contains(&Algorithm::Metadata) {
                algorithms = vec![Algorithm::Content, Algorithm::Metadata];
            } else {
                let by_strength = [Algorithm::Sha256, Algorithm::Sha1, Algorithm::Xxh64, Algorithm::Uuid];
                algorithms = by_strength.into_iter().find(|a| listed.contains(a)).into_iter().collect();
            }
        }
        if algorithms.is_empty() {
            algorithms.push(Algorithm::Xxh64);
        }
        algorithms
    }

    /// Prints the lines of a manifest.
    fn print(&self, ui: &mut Ui, hashes: &Hashes) -> Outcome {
        if self.json {
            let document = JsonHashes {
                model: json::path(&self.model),
                hashes: ByAlgorithm(hashes.model.clone()),
                tensors: json::List(|| hashes.tensors().map(JsonTensor::of)),
            };
            json::print(ui, 2, &document)?;
            return Ok(Verdict::Good);
        }
        for tensor in hashes.tensors() {
            for (algorithm, hash) in &tensor.hashes {
                self.line(ui, *algorithm, hash, Some(tensor.name), None)?;
            }
        }
        for (algorithm, hash) in &hashes.model {
            self.line(ui, *algorithm, hash, None, None)?;
        }
        Ok(Verdict::Good)
    }

    /// A line such as `sha256    c0510d38...  model.gguf:blk.0.attn_k.weight`, with the result of the comparison.
    fn line(
        &self,
        ui: &mut Ui,
        algorithm: Algorithm,
        hash: &str,
        tensor: Option<&[u8]>,
        status: Option<Status>,
    ) -> Result<(), Failure> {
        if ui.is_terminal() {
            write!(ui.out, "{algorithm:8}  {hash}  {}", shown_path(&self.model))?;
            if let Some(name) = tensor {
                write!(ui.out, ":{}", Str(name))?;
            }
        } else {
            let mut label = self.model.as_os_str().as_encoded_bytes().to_vec();
            label.extend(tensor.into_iter().flat_map(|name| [b":", name].concat()));
            ui.out.write_all(&manifest::line(algorithm, hash, &label))?;
        }
        if let Some(status) = status {
            let style = if status == Status::Ok { Style::Green } else { Style::Red };
            write!(ui.out, "  -  {}", ui.paint(status_text(status), style))?;
        }
        Ok(writeln!(ui.out)?)
    }

    fn print_check(
        &self,
        ui: &mut Ui,
        path: &std::path::Path,
        manifest: &Manifest,
        hashes: &Hashes,
        algorithms: &[Algorithm],
    ) -> Outcome {
        let file = self.model.to_string_lossy();
        let compared = hashes.compare(manifest, &file, algorithms);
        let count = |status| compared.iter().filter(|c| c.status == status).count() as u64;
        let [same, mismatch, gone, unlisted] =
            [Status::Ok, Status::Mismatch, Status::NotInModel, Status::NotListed].map(count);
        let is_good = same > 0 && mismatch == 0 && gone == 0;
        if self.json {
            let document = JsonCheck {
                model: json::path(&self.model),
                manifest: json::path(path),
                good: is_good,
                hashes: compared.iter().map(JsonCompared::of).collect(),
            };
            json::print(ui, 2, &document)?;
        } else {
            for c in
                compared.iter().filter(|c| !self.quiet || matches!(c.status, Status::Mismatch | Status::NotInModel))
            {
                self.line(ui, c.algorithm, &c.hash, c.tensor.as_deref(), Some(c.status))?;
            }
        }
        if same + mismatch + gone == 0 {
            let kinds: Vec<&str> = algorithms.iter().map(|a| a.name()).collect();
            return Err(Failure::Bad(format!(
                "{}: no {} hash of {} found",
                path.display(),
                kinds.join(" or "),
                self.model.display()
            )));
        }
        if !self.json && !self.quiet {
            let part = |n: u64, what: &str| if n == 0 { String::new() } else { format!(", {} {what}", grouped(n)) };
            ui.note(&format!(
                "{}: {}: {} ok{}{}{}",
                shown_path(path),
                if is_good { "good" } else { "bad" },
                grouped(same),
                part(mismatch, "differ"),
                part(gone, "missing from the model"),
                part(unlisted, "not in the manifest"),
            ));
        }
        Ok(if is_good { Verdict::Good } else { Verdict::Bad })
    }
}

/// The wording of llama-gguf-hash.
fn status_text(status: Status) -> &'static str {
    match status {
        Status::Ok => "Ok",
        Status::Mismatch => "Mismatch",
        Status::NotInModel => "Missing",
        _ => "Not Found",
    }
}

#[derive(Serialize)]
struct JsonHashes<'a, T> {
    model: json::Text<'a>,
    hashes: ByAlgorithm,
    tensors: T,
}

#[derive(Serialize)]
struct JsonTensor<'a> {
    name: json::Text<'a>,
    hashes: ByAlgorithm,
}

/// Hashes as an object with the names of their algorithms.
struct ByAlgorithm(Vec<(Algorithm, String)>);

impl Serialize for ByAlgorithm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(algorithm, hash)| (algorithm.name(), hash)))
    }
}

#[derive(Serialize)]
struct JsonCheck<'a> {
    model: json::Text<'a>,
    manifest: json::Text<'a>,
    good: bool,
    hashes: Vec<JsonCompared<'a>>,
}

#[derive(Serialize)]
struct JsonCompared<'a> {
    algorithm: &'static str,
    /// `None` for the hash of the whole model.
    tensor: Option<json::Text<'a>>,
    hash: &'a str,
    status: &'static str,
}

impl<'a> JsonTensor<'a> {
    fn of(tensor: TensorHashes<'a>) -> JsonTensor<'a> {
        JsonTensor { name: json::Text(Str(tensor.name)), hashes: ByAlgorithm(tensor.hashes) }
    }
}

impl<'a> JsonCompared<'a> {
    fn of(compared: &'a Compared) -> JsonCompared<'a> {
        JsonCompared {
            algorithm: compared.algorithm.name(),
            tensor: compared.tensor.as_deref().map(|name| json::Text(Str(name))),
            hash: &compared.hash,
            status: match compared.status {
                Status::Ok => "ok",
                Status::Mismatch => "mismatch",
                Status::NotInModel => "not_in_model",
                _ => "not_listed",
            },
        }
    }
}
