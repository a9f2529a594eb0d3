//! Hashes of tensor data as in `llama-gguf-hash`, and a digest of the whole content of a model.
//!
//! A hash of `llama-gguf-hash` covers the stored bytes of tensors, without padding, names, shapes or metadata; that of a whole model covers
//! the data of all tensors in order. XXH64 has the seed 0 and is written most significant byte first. The UUID has version 5: SHA-1 over
//! [`UUID_NAMESPACE`] and the data of all tensors.
//!
//! # The content digest
//!
//! It covers metadata, names, shapes, types and data, and does not depend on shards, the order of tensors, the byte order and the version
//! of the format. All digests are SHA-256, `u64` and `u32` are little-endian:
//!
//! * A key-value pair: over its bytes in version 3, little-endian. The keys of a split are excluded.
//! * The metadata: over the text `ggufkit metadata 1`, a zero byte, the number of pairs (`u64`) and their digests, sorted by the bytes of
//!   their keys; equal keys keep their order in the file.
//! * A tensor: over the text `ggufkit tensor 1`, a zero byte, the length of the name (`u64`), the name, the number of dimensions (`u32`),
//!   each dimension (`u64`), the type (`u32`), and the SHA-256 of the data with little-endian numbers.
//! * The content: over the text `ggufkit content 1`, a zero byte, the digest of the metadata, the number of tensors (`u64`) and their
//!   digests, sorted by the bytes of their names.
//!
//! # Speed
//!
//! Data is read once, by all threads. A hash of a whole model is sequential, so threads do not make a single algorithm faster; but the
//! hashes of all algorithms and tensors are computed in parallel. Without hashes of the whole model, each thread hashes separate tensors.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use gguf_format::sort::CompactSort as _;
use gguf_format::{ByteOrder, Dialect, Head, Kv, Str, TensorInfo, Version, swap_blocks};
use gguf_io::ModelFile;
use gguf_pipeline::{Cancelled, Event, Progress, workers};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh64::Xxh64;

use crate::error::Error;
use crate::pieces::{pieces, resize};
use crate::split::SPLIT_KEYS;

/// The namespace of UUIDs of models: the UUID of version 5 of `en.wikipedia.org/wiki/Llama.cpp` in the namespace of URLs.
pub const UUID_NAMESPACE: [u8; 16] =
    [0xef, 0x00, 0x12, 0x06, 0xda, 0xdc, 0x5f, 0x6d, 0xa1, 0x5f, 0x33, 0x59, 0xe5, 0x77, 0xd4, 0xe5];

/// Approximate number of bytes to read and hash at a time.
const SPAN: u64 = 1 << 20;

/// A hash algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// XXH64 of the data.
    Xxh64,
    /// SHA-1 of the data.
    Sha1,
    /// SHA-256 of the data.
    Sha256,
    /// UUID of version 5 of the data of a whole model.
    Uuid,
    /// The [content digest](self#the-content-digest) of a tensor or a model.
    Content,
    /// The digest of all metadata, part of the content digest.
    Metadata,
}

impl Algorithm {
    /// All algorithms, in the order of their output.
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Xxh64,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Uuid,
        Algorithm::Content,
        Algorithm::Metadata,
    ];

    /// The name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Xxh64 => "xxh64",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Uuid => "uuid",
            Algorithm::Content => "content",
            Algorithm::Metadata => "metadata",
        }
    }

    /// The algorithm with that name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The number of characters of a hash as text.
    pub fn text_len(self) -> usize {
        match self {
            Algorithm::Xxh64 => 16,
            Algorithm::Sha1 => 40,
            Algorithm::Sha256 | Algorithm::Content | Algorithm::Metadata => 64,
            Algorithm::Uuid => 36,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Options of hashing.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HashOptions {
    /// The algorithms; [`Algorithm::Content`] includes [`Algorithm::Metadata`].
    pub algorithms: Vec<Algorithm>,
    /// Whether to omit the hashes of single tensors.
    pub no_tensors: bool,
    /// Whether to omit the hashes of the whole model, except for the content digest.
    pub no_model: bool,
    /// Number of threads; `None` for the parallelism of the machine.
    pub threads: Option<NonZeroUsize>,
}

impl HashOptions {
    /// Options for these algorithms, for tensors and the model.
    pub fn new(algorithms: impl Into<Vec<Algorithm>>) -> HashOptions {
        HashOptions { algorithms: algorithms.into(), ..HashOptions::default() }
    }

    /// Sets whether hashes of single tensors are omitted.
    pub fn no_tensors(mut self, yes: bool) -> HashOptions {
        self.no_tensors = yes;
        self
    }

    /// Sets whether hashes of the whole model are omitted.
    pub fn no_model(mut self, yes: bool) -> HashOptions {
        self.no_model = yes;
        self
    }

    /// Sets the number of threads; `None` for the parallelism of the machine.
    pub fn threads(mut self, threads: Option<NonZeroUsize>) -> HashOptions {
        self.threads = threads;
        self
    }

    fn has(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }

    /// The hashes to compute for each tensor's data.
    fn of_tensors(&self) -> Vec<Kind> {
        let plain = [(Algorithm::Xxh64, Kind::Xxh64), (Algorithm::Sha1, Kind::Sha1), (Algorithm::Sha256, Kind::Sha256)];
        let plain = plain.into_iter().filter(|(algorithm, _)| self.has(*algorithm) && !self.no_tensors);
        let content = self.has(Algorithm::Content).then_some(Kind::Little);
        plain.map(|(_, kind)| kind).chain(content).collect()
    }

    /// The hashes to compute for the data of all tensors.
    fn of_model(&self) -> Vec<Kind> {
        let kinds = [
            (Algorithm::Xxh64, Kind::Xxh64),
            (Algorithm::Sha1, Kind::Sha1),
            (Algorithm::Sha256, Kind::Sha256),
            (Algorithm::Uuid, Kind::Uuid),
        ];
        let kinds = kinds.into_iter().filter(|(algorithm, _)| self.has(*algorithm) && !self.no_model);
        kinds.map(|(_, kind)| kind).collect()
    }
}

/// The hashes of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hashes {
    /// The hashes of single tensors, in the order of the model.
    pub tensors: Vec<TensorHashes>,
    /// The hashes of the model.
    pub model: Vec<(Algorithm, String)>,
}

/// The hashes of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorHashes {
    /// The name.
    pub name: Vec<u8>,
    /// The hashes as text: lower-case hexadecimal digits.
    pub hashes: Vec<(Algorithm, String)>,
}

/// Hashes the tensors of files: one, or the shards of a model in order.
///
/// # Errors
/// If a file cannot be read, lacks the data of a tensor, or has changed since it was opened, or the work is cancelled.
pub fn hash(files: &[ModelFile], options: &HashOptions, progress: &dyn Progress) -> Result<Hashes, Error> {
    let mut tensors = Vec::new();
    for file in files {
        for tensor in file.tensors() {
            let range = tensor.byte_range()?;
            let info = tensor.info().to_owned();
            tensors.push(Tensor { file, start: range.start, bytes: range.end - range.start, info });
        }
    }
    let work = Work { tensors: &tensors, of_tensors: options.of_tensors(), of_model: options.of_model(), progress };
    let bytes = tensors.iter().map(|t| t.bytes).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: tensors.len(), bytes });
    let (of_tensors, of_model) = match (work.of_model.is_empty(), work.of_tensors.is_empty()) {
        (true, true) => (vec![Vec::new(); tensors.len()], Vec::new()),
        (true, false) => (work.tensor_by_tensor(options.threads)?, Vec::new()),
        (false, _) => work.in_order(options.threads)?,
    };
    files.iter().try_for_each(ModelFile::check_unchanged)?;
    progress.event(Event::Finished);
    Ok(collect(files, &tensors, options, of_tensors, of_model))
}

/// Assigns results to their algorithms.
fn collect(
    files: &[ModelFile],
    tensors: &[Tensor<'_>],
    options: &HashOptions,
    of_tensors: Vec<Vec<(Kind, Vec<u8>)>>,
    of_model: Vec<(Kind, Vec<u8>)>,
) -> Hashes {
    let plain = |kind| match kind {
        Kind::Xxh64 => Algorithm::Xxh64,
        Kind::Sha1 => Algorithm::Sha1,
        Kind::Uuid => Algorithm::Uuid,
        Kind::Sha256 | Kind::Little => Algorithm::Sha256,
    };
    let text = |(kind, digest): (Kind, Vec<u8>)| match kind {
        Kind::Uuid => (Algorithm::Uuid, uuid(&digest)),
        kind => (plain(kind), hex(&digest)),
    };
    let mut leaves = Vec::new();
    let mut named = Vec::new();
    for (tensor, digests) in tensors.iter().zip(of_tensors) {
        let mut hashes = Vec::new();
        for (kind, digest) in digests {
            match kind {
                Kind::Little => {
                    let leaf = tensor_digest(&tensor.info, &digest);
                    hashes.push((Algorithm::Content, hex(&leaf)));
                    leaves.push((&tensor.info.name, leaf));
                }
                kind => hashes.push(text((kind, digest))),
            }
        }
        if !options.no_tensors {
            named.push(TensorHashes { name: tensor.info.name.clone(), hashes });
        }
    }
    let mut model: Vec<(Algorithm, String)> = of_model.into_iter().map(text).collect();
    if options.has(Algorithm::Content) {
        let metadata = metadata_digest(files);
        leaves.compact_sort_by_key(|(name, _)| *name);
        let mut sha = Sha256::new_with_prefix(b"ggufkit content 1\0");
        sha.update(metadata);
        sha.update((leaves.len() as u64).to_le_bytes());
        leaves.iter().for_each(|(_, leaf)| sha.update(leaf));
        model.push((Algorithm::Content, hex(&sha.finalize())));
        model.push((Algorithm::Metadata, hex(&metadata)));
    }
    Hashes { tensors: named, model }
}

fn tensor_digest(info: &TensorInfo, data: &[u8]) -> [u8; 32] {
    let mut sha = Sha256::new_with_prefix(b"ggufkit tensor 1\0");
    sha.update((info.name.len() as u64).to_le_bytes());
    sha.update(&info.name);
    sha.update(u32::try_from(info.shape.len()).unwrap_or(u32::MAX).to_le_bytes());
    info.shape.iter().for_each(|dim| sha.update(dim.to_le_bytes()));
    sha.update(info.ty.0.to_le_bytes());
    sha.update(data);
    sha.finalize().into()
}

/// The digest of the metadata of a model, from its first file.
fn metadata_digest(files: &[ModelFile]) -> [u8; 32] {
    /// Bytes of the head of a file of version 3 before its first key.
    const HEADER: usize = 24;
    let kvs = files.first().map(|file| file.gguf().kvs());
    let mut digests = Vec::new();
    for kv in kvs.into_iter().flatten().filter(|kv| SPLIT_KEYS.iter().all(|key| kv.key != **key)) {
        let pair = Kv { key: kv.key.as_bytes().to_owned(), value: kv.value.to_owned() };
        let head = Head { dialect: Dialect::new(Version::V3), kvs: vec![pair], tensors: Vec::new() };
        // The lengths of version 3 can represent any length.
        let encoded = head.encode_as_read().unwrap_or_default();
        let digest = Sha256::digest(encoded.get(HEADER..).unwrap_or_default());
        digests.push((kv.key, digest));
    }
    digests.compact_sort_by_key(|(key, _)| *key);
    let mut sha = Sha256::new_with_prefix(b"ggufkit metadata 1\0");
    sha.update((digests.len() as u64).to_le_bytes());
    digests.iter().for_each(|(_, digest)| sha.update(digest));
    sha.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The UUID of version 5 from a SHA-1.
fn uuid(sha1: &[u8]) -> String {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(sha1).for_each(|(to, from)| *to = *from);
    bytes[6] = bytes[6] & 0x0f | 0x50;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// A hash to compute over bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Xxh64,
    Sha1,
    Sha256,
    Uuid,
    /// SHA-256 of the data in little-endian order.
    Little,
}

/// The state of a hash.
#[derive(Clone)]
enum Hasher {
    Xxh64(Box<Xxh64>),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    fn new(kind: Kind) -> Hasher {
        match kind {
            Kind::Xxh64 => Hasher::Xxh64(Box::new(Xxh64::new(0))),
            Kind::Sha1 => Hasher::Sha1(Sha1::new()),
            Kind::Uuid => Hasher::Sha1(Sha1::new_with_prefix(UUID_NAMESPACE)),
            Kind::Sha256 | Kind::Little => Hasher::Sha256(Sha256::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Xxh64(hasher) => hasher.update(bytes),
            Hasher::Sha1(hasher) => hasher.update(bytes),
            Hasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Hasher::Xxh64(hasher) => hasher.digest().to_be_bytes().to_vec(),
            Hasher::Sha1(hasher) => hasher.finalize().to_vec(),
            Hasher::Sha256(hasher) => hasher.finalize().to_vec(),
        }
    }
}

/// A tensor to hash.
struct Tensor<'a> {
    file: &'a ModelFile,
    start: u64,
    bytes: u64,
    info: TensorInfo,
}

impl Tensor<'_> {
    /// Offsets and lengths of pieces of whole blocks.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + Clone + use<> {
        pieces(self.info.ty, self.bytes, SPAN)
    }

    /// Reads a stored piece.
    fn read<'b>(&self, from: u64, bytes: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Error> {
        let piece = resize(buffer, bytes, || Str(&self.info.name).to_string())?;
        self.file.read_at(self.start.saturating_add(from), piece)?;
        Ok(piece)
    }

    /// Adds a piece to a hash.
    fn add(&self, kind: Kind, hasher: &mut Hasher, piece: &[u8]) -> Result<(), Error> {
        if kind != Kind::Little || self.file.gguf().dialect().order == ByteOrder::Little {
            hasher.update(piece);
            return Ok(());
        }
        let mut swapped = piece.to_vec();
        swap_blocks(self.info.ty, &mut swapped).map_err(|e| gguf_io::Error::Tensor {
            path: self.file.path().to_owned(),
            name: Str(&self.info.name).to_string(),
            problem: gguf_io::TensorProblem::Swap(e),
        })?;
        hasher.update(&swapped);
        Ok(())
    }
}

/// The hashes of the data of one tensor.
type Digests = Vec<(Kind, Vec<u8>)>;

/// The state of the whole computation.
struct Work<'a> {
    tensors: &'a [Tensor<'a>],
    of_tensors: Vec<Kind>,
    of_model: Vec<Kind>,
    progress: &'a dyn Progress,
}

impl Work<'_> {
    fn begun(kinds: &[Kind]) -> Vec<(Kind, Hasher)> {
        kinds.iter().map(|&kind| (kind, Hasher::new(kind))).collect()
    }

    fn finished(hashers: Vec<(Kind, Hasher)>) -> Digests {
        hashers.into_iter().map(|(kind, hasher)| (kind, hasher.finish())).collect()
    }

    fn announce(&self, index: usize, tensor: &Tensor<'_>) {
        self.progress.event(Event::Tensor { index, name: &String::from_utf8_lossy(&tensor.info.name) });
    }

    /// Only hashes of tensors: each is computed by one thread.
    fn tensor_by_tensor(&self, threads: Option<NonZeroUsize>) -> Result<Vec<Digests>, Error> {
        let results = Mutex::new(vec![Digests::new(); self.tensors.len()]);
        let items = self.tensors.iter().enumerate();
        workers::for_each(threads, items, self.progress, Vec::new, |buffer, (i, tensor)| {
            self.announce(i, tensor);
            let mut hashers = Work::begun(&self.of_tensors);
            for (from, bytes) in tensor.pieces() {
                if self.progress.is_cancelled() {
                    return Err(Cancelled.into());
                }
                let piece = tensor.read(from, bytes, buffer)?;
                for (kind, hasher) in &mut hashers {
                    tensor.add(*kind, hasher, piece)?;
                }
                self.progress.event(Event::Advanced { bytes });
            }
            set(&results, i, Work::finished(hashers));
            Ok::<_, Error>(())
        })?;
        Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hashes of tensors and of the model. Pieces are read in any order, but hashed in order.
    fn in_order(&self, threads: Option<NonZeroUsize>) -> Result<(Vec<Digests>, Digests), Error> {
        let results = Mutex::new(vec![Digests::new(); self.tensors.len()]);
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let stop = AtomicBool::new(false);
        let of_model: Vec<Turn<Hasher>> = self.of_model.iter().map(|&kind| Turn::new(Hasher::new(kind))).collect();
        let of_tensor: Vec<Turn<Hasher>> = self.of_tensors.iter().map(|&kind| Turn::new(Hasher::new(kind))).collect();
        let is_over = || stop.load(Ordering::Relaxed) || self.progress.is_cancelled();

        let pieces = self
            .tensors
            .iter()
            .enumerate()
            .flat_map(|(i, tensor)| tensor.pieces().map(move |(from, bytes)| (i, tensor, from, bytes)));
        // Pieces of divided tensors are numbered separately: other tensors do not wait.
        let numbered = pieces.scan((0u64, 0u64), |(n, n_cut), (i, tensor, from, bytes)| {
            let item = (*n, *n_cut, i, tensor, from, bytes);
            *n += 1;
            *n_cut += u64::from(bytes < tensor.bytes);
            Some(item)
        });
        let work = |buffer: &mut Vec<u8>,
                    (n, n_cut, i, tensor, from, bytes): (u64, u64, usize, &Tensor<'_>, u64, u64)| {
            if from == 0 {
                self.announce(i, tensor);
            }
            let piece = tensor.read(from, bytes, buffer)?;
            if bytes == tensor.bytes {
                let mut hashers = Work::begun(&self.of_tensors);
                for (kind, hasher) in &mut hashers {
                    tensor.add(*kind, hasher, piece)?;
                }
                set(&results, i, Work::finished(hashers));
            } else {
                for (&kind, turn) in self.of_tensors.iter().zip(&of_tensor) {
                    turn.take(n_cut, &is_over, |hasher| {
                        tensor.add(kind, hasher, piece)?;
                        if from + bytes == tensor.bytes {
                            let done = std::mem::replace(hasher, Hasher::new(kind));
                            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                            if let Some(digests) = results.get_mut(i) {
                                digests.push((kind, done.finish()));
                            }
                        }
                        Ok(())
                    })?;
                }
            }
            for turn in &of_model {
                turn.take(n, &is_over, |hasher| {
                    hasher.update(piece);
                    Ok(())
                })?;
            }
            self.progress.event(Event::Advanced { bytes });
            Ok::<_, Error>(())
        };
        let done = workers::for_each(threads, numbered, self.progress, Vec::new, |buffer, item| {
            work(buffer, item).inspect_err(|_| stop.store(true, Ordering::Relaxed)).map_err(|e| {
                // Threads that wait for this one end as if they were cancelled. The first error is returned.
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                Error::from(Cancelled)
            })
        });
        if let Some(e) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(e);
        }
        done?;
        let of_model = self.of_model.iter().zip(of_model).map(|(&kind, turn)| (kind, turn.into_inner().finish()));
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        for digests in &mut results {
            digests.compact_sort_by_key(|(kind, _)| self.of_tensors.iter().position(|k| k == kind));
        }
        Ok((results, of_model.collect()))
    }
}

fn set(results: &Mutex<Vec<Digests>>, i: usize, digests: Digests) {
    if let Some(result) = results.lock().unwrap_or_else(PoisonError::into_inner).get_mut(i) {
        *result = digests;
    }
}

/// A value that threads modify in the order of their numbers.
struct Turn<T> {
    state: Mutex<(u64, T)>,
    moved: Condvar,
}

impl<T> Turn<T> {
    /// The interval between checks for cancellation.
    const LOOK: Duration = Duration::from_millis(50);

    fn new(value: T) -> Turn<T> {
        Turn { state: Mutex::new((0, value)), moved: Condvar::new() }
    }

    fn take(
        &self,
        number: u64,
        is_over: &impl Fn() -> bool,
        change: impl FnOnce(&mut T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 != number {
            if is_over() {
                return Err(Cancelled.into());
            }
            state = self.moved.wait_timeout(state, Turn::<T>::LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        change(&mut state.1)?;
        state.0 += 1;
        self.moved.notify_all();
        Ok(())
    }

    fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}
