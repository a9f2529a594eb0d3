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
use gguf_format::{ByteOrder, Dialect, Head, Kv, TensorInfoRef, Version, swap_blocks};
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
    fn of_tensors(&self) -> Vec<HashFunction> {
        let plain = [
            (Algorithm::Xxh64, HashFunction::Xxh64),
            (Algorithm::Sha1, HashFunction::Sha1),
            (Algorithm::Sha256, HashFunction::Sha256),
        ];
        let plain = plain.into_iter().filter(|(algorithm, _)| self.has(*algorithm) && !self.no_tensors);
        let content = self.has(Algorithm::Content).then_some(HashFunction::Little);
        plain.map(|(_, kind)| kind).chain(content).collect()
    }

    /// The hashes to compute for the data of all tensors.
    fn of_model(&self) -> Vec<HashFunction> {
        let kinds = [
            (Algorithm::Xxh64, HashFunction::Xxh64),
            (Algorithm::Sha1, HashFunction::Sha1),
            (Algorithm::Sha256, HashFunction::Sha256),
            (Algorithm::Uuid, HashFunction::Uuid),
        ];
        let kinds = kinds.into_iter().filter(|(algorithm, _)| self.has(*algorithm) && !self.no_model);
        kinds.map(|(_, kind)| kind).collect()
    }
}

/// The hashes of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hashes {
    /// The hashes of the model.
    pub model: Vec<(Algorithm, String)>,
    /// The algorithms of the hashes of single tensors.
    algorithms: Vec<Algorithm>,
    /// The names of the tensors, one after the other, and the end of each.
    names: Vec<u8>,
    ends: Vec<usize>,
    /// The hashes of each tensor by all algorithms, in binary.
    digests: Vec<u8>,
}

/// The hashes of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorHashes<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The hashes as text: lower-case hexadecimal digits.
    pub hashes: Vec<(Algorithm, String)>,
}

impl Hashes {
    pub(crate) fn new(algorithms: Vec<Algorithm>, model: Vec<(Algorithm, String)>) -> Hashes {
        Hashes { model, algorithms, names: Vec::new(), ends: Vec::new(), digests: Vec::new() }
    }

    /// The hashes of single tensors, in the order of the model.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorHashes<'_>> {
        let width = self.algorithms.iter().map(|algorithm| algorithm.text_len() / 2).sum::<usize>();
        (0..self.ends.len()).map(move |i| {
            let mut rest = self.digests.get(i * width..).unwrap_or_default();
            let hash = |&algorithm: &Algorithm| {
                let digest;
                (digest, rest) = rest.split_at_checked(algorithm.text_len() / 2)?;
                Some((algorithm, hex(digest)))
            };
            TensorHashes { name: self.name(i), hashes: self.algorithms.iter().filter_map(hash).collect() }
        })
    }

    fn name(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(i).and_then(|&end| self.names.get(start..end)).unwrap_or_default()
    }

    /// Adds a tensor, with its hashes by all algorithms.
    pub(crate) fn push(&mut self, name: &[u8], digests: &[u8]) {
        self.names.extend_from_slice(name);
        self.ends.push(self.names.len());
        self.digests.extend_from_slice(digests);
    }
}

/// Hashes the tensors of files: one, or the shards of a model in order.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let mut head = Head::default();
/// # head.tensors.push(TensorInfo::new("output.weight", [1], GgmlType::I8));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [b"a"])?;
/// # let file = gguf_io::ModelFile::from_source(bytes, "model in memory")?;
/// use gguf_edit::{Algorithm, HashOptions, hash};
///
/// let hashes = hash(&[file], &HashOptions::new([Algorithm::Sha1]), &())?;
/// for (algorithm, hash) in &hashes.model {
///     println!("{algorithm} {hash}");
/// }
/// assert_eq!(hashes.model[0].1, "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"); // of the single byte `a`
/// assert_eq!(hashes.tensors().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a file cannot be read, lacks the data of a tensor, or has changed since it was opened, or the work is cancelled.
pub fn hash(files: &[ModelFile], options: &HashOptions, progress: &dyn Progress) -> Result<Hashes, Error> {
    let (mut n_tensors, mut total) = (0, 0u64);
    for file in files {
        for tensor in file.tensors() {
            let range = tensor.byte_range()?;
            n_tensors += 1;
            total = total.saturating_add(range.end - range.start);
        }
    }
    let work = Work { files, n_tensors, of_tensors: options.of_tensors(), of_model: options.of_model(), progress };
    progress.event(Event::Started { n_tensors, bytes: total });
    let (of_tensors, of_model) = match (work.of_model.is_empty(), work.of_tensors.is_empty()) {
        (true, true) => (Vec::new(), Vec::new()),
        (true, false) => (work.tensor_by_tensor(options.threads)?, Vec::new()),
        (false, _) => work.in_order(options.threads)?,
    };
    files.iter().try_for_each(ModelFile::check_unchanged)?;
    progress.event(Event::Finished);
    Ok(work.collect(options, of_tensors, of_model))
}

fn tensor_digest(info: &TensorInfoRef<'_>, data: &[u8]) -> [u8; 32] {
    let mut sha = Sha256::new_with_prefix(b"ggufkit tensor 1\0");
    sha.update((info.name.as_bytes().len() as u64).to_le_bytes());
    sha.update(info.name.as_bytes());
    sha.update(u32::try_from(info.dims.len()).unwrap_or(u32::MAX).to_le_bytes());
    info.dims.for_each(|dim| sha.update(dim.to_le_bytes()));
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
enum HashFunction {
    Xxh64,
    Sha1,
    Sha256,
    Uuid,
    /// SHA-256 of the data in little-endian order.
    Little,
}

impl HashFunction {
    /// The algorithm with this hash, or with a digest over it.
    fn algorithm(self) -> Algorithm {
        match self {
            HashFunction::Xxh64 => Algorithm::Xxh64,
            HashFunction::Sha1 => Algorithm::Sha1,
            HashFunction::Sha256 => Algorithm::Sha256,
            HashFunction::Uuid => Algorithm::Uuid,
            HashFunction::Little => Algorithm::Content,
        }
    }

    /// The length of a hash in bytes.
    fn len(self) -> usize {
        match self {
            HashFunction::Xxh64 => 8,
            HashFunction::Sha1 | HashFunction::Uuid => 20,
            HashFunction::Sha256 | HashFunction::Little => 32,
        }
    }
}

/// The state of a hash.
#[derive(Clone)]
enum Hasher {
    Xxh64(Box<Xxh64>),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Hasher {
    fn new(kind: HashFunction) -> Hasher {
        match kind {
            HashFunction::Xxh64 => Hasher::Xxh64(Box::new(Xxh64::new(0))),
            HashFunction::Sha1 => Hasher::Sha1(Sha1::new()),
            HashFunction::Uuid => Hasher::Sha1(Sha1::new_with_prefix(UUID_NAMESPACE)),
            HashFunction::Sha256 | HashFunction::Little => Hasher::Sha256(Sha256::new()),
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
#[derive(Clone, Copy)]
struct Tensor<'a> {
    file: &'a ModelFile,
    start: u64,
    bytes: u64,
    info: TensorInfoRef<'a>,
}

impl Tensor<'_> {
    /// Offsets and lengths of pieces of whole blocks.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + Clone + use<> {
        pieces(self.info.ty, self.bytes, SPAN)
    }

    /// Reads a stored piece.
    fn read<'b>(&self, from: u64, bytes: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Error> {
        let piece = resize(buffer, bytes, || self.info.name.to_string())?;
        self.file.read_at(self.start.saturating_add(from), piece)?;
        Ok(piece)
    }

    /// Adds a piece to a hash.
    fn add(&self, kind: HashFunction, hasher: &mut Hasher, piece: &[u8]) -> Result<(), Error> {
        if kind != HashFunction::Little || self.file.gguf().dialect().order == ByteOrder::Little {
            hasher.update(piece);
            return Ok(());
        }
        let mut swapped = piece.to_vec();
        swap_blocks(self.info.ty, &mut swapped).map_err(|e| gguf_io::Error::Tensor {
            path: self.file.path().to_owned(),
            name: self.info.name.to_string(),
            problem: gguf_io::TensorProblem::Swap(e),
        })?;
        hasher.update(&swapped);
        Ok(())
    }
}

/// The hashes of the data of the model.
type Digests = Vec<(HashFunction, Vec<u8>)>;

/// The state of the whole computation.
struct Work<'a> {
    files: &'a [ModelFile],
    n_tensors: usize,
    of_tensors: Vec<HashFunction>,
    of_model: Vec<HashFunction>,
    progress: &'a dyn Progress,
}

impl<'a> Work<'a> {
    /// The tensors of all files. Their sizes are known to be valid.
    fn tensors(&self) -> impl Iterator<Item = Tensor<'a>> + Clone + use<'a> {
        let of_file = |file: &'a ModelFile| {
            file.tensors().filter_map(move |tensor| {
                let range = tensor.byte_range().ok()?;
                Some(Tensor { file, start: range.start, bytes: range.end - range.start, info: tensor.info() })
            })
        };
        self.files.iter().flat_map(of_file)
    }

    fn begun(kinds: &[HashFunction]) -> Vec<(HashFunction, Hasher)> {
        kinds.iter().map(|&kind| (kind, Hasher::new(kind))).collect()
    }

    /// The length of the hashes of one tensor.
    fn width(&self) -> usize {
        self.of_tensors.iter().map(|kind| kind.len()).sum()
    }

    /// Room for the hashes of all tensors.
    fn results(&self) -> Mutex<Vec<u8>> {
        Mutex::new(vec![0; self.n_tensors.saturating_mul(self.width())])
    }

    /// The place of a hash of a tensor in the results.
    fn place<'r>(&self, results: &'r mut [u8], index: usize, of: HashFunction) -> Option<&'r mut [u8]> {
        let before = self.of_tensors.iter().take_while(|kind| **kind != of).map(|kind| kind.len()).sum::<usize>();
        let at = index * self.width() + before;
        results.get_mut(at..at + of.len())
    }

    /// Stores the hash of a tensor.
    fn set(&self, results: &Mutex<Vec<u8>>, index: usize, kind: HashFunction, hasher: Hasher) {
        let hash = hasher.finish();
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = self.place(&mut results, index, kind) {
            place.copy_from_slice(&hash);
        }
    }

    /// Assigns results to their algorithms.
    fn collect(&self, options: &HashOptions, mut of_tensors: Vec<u8>, of_model: Digests) -> Hashes {
        let text = |(kind, digest): (HashFunction, Vec<u8>)| match kind {
            HashFunction::Uuid => (kind.algorithm(), uuid(&digest)),
            kind => (kind.algorithm(), hex(&digest)),
        };
        let algorithms = self.of_tensors.iter().map(|kind| kind.algorithm()).collect();
        let mut hashes = Hashes::new(algorithms, of_model.into_iter().map(text).collect());
        for (index, tensor) in self.tensors().enumerate() {
            hashes.push(tensor.info.name.as_bytes(), &[]);
            if self.of_tensors.contains(&HashFunction::Little)
                && let Some(place) = self.place(&mut of_tensors, index, HashFunction::Little)
            {
                let leaf = tensor_digest(&tensor.info, place);
                place.copy_from_slice(&leaf);
            }
        }
        if options.has(Algorithm::Content) {
            let metadata = metadata_digest(self.files);
            let mut order: Vec<usize> = (0..self.n_tensors).collect();
            order.compact_sort_by_key(|index| hashes.name(*index));
            let mut sha = Sha256::new_with_prefix(b"ggufkit content 1\0");
            sha.update(metadata);
            sha.update((self.n_tensors as u64).to_le_bytes());
            for index in order {
                sha.update(self.place(&mut of_tensors, index, HashFunction::Little).unwrap_or_default());
            }
            hashes.model.push((Algorithm::Content, hex(&sha.finalize())));
            hashes.model.push((Algorithm::Metadata, hex(&metadata)));
        }
        match options.no_tensors {
            true => Hashes::new(Vec::new(), hashes.model),
            false => Hashes { digests: of_tensors, ..hashes },
        }
    }

    fn announce(&self, index: usize, tensor: &Tensor<'_>) {
        self.progress.event(Event::Tensor { index, name: &tensor.info.name.to_string_lossy() });
    }

    /// Only hashes of tensors: each is computed by one thread.
    fn tensor_by_tensor(&self, threads: Option<NonZeroUsize>) -> Result<Vec<u8>, Error> {
        let results = self.results();
        let items = self.tensors().enumerate();
        workers::for_each(threads, items, self.progress, Vec::new, |buffer, (i, tensor)| {
            self.announce(i, &tensor);
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
            hashers.into_iter().for_each(|(kind, hasher)| self.set(&results, i, kind, hasher));
            Ok::<_, Error>(())
        })?;
        Ok(results.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hashes of tensors and of the model. Pieces are read in any order, but hashed in order.
    fn in_order(&self, threads: Option<NonZeroUsize>) -> Result<(Vec<u8>, Digests), Error> {
        let results = self.results();
        let failure: Mutex<Option<Error>> = Mutex::new(None);
        let stop = AtomicBool::new(false);
        let of_model: Vec<Turn<Hasher>> = self.of_model.iter().map(|&kind| Turn::new(Hasher::new(kind))).collect();
        let of_tensor: Vec<Turn<Hasher>> = self.of_tensors.iter().map(|&kind| Turn::new(Hasher::new(kind))).collect();
        let is_over = || stop.load(Ordering::Relaxed) || self.progress.is_cancelled();

        let pieces = self
            .tensors()
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
                    (n, n_cut, i, tensor, from, bytes): (u64, u64, usize, Tensor<'_>, u64, u64)| {
            if from == 0 {
                self.announce(i, &tensor);
            }
            let piece = tensor.read(from, bytes, buffer)?;
            if bytes == tensor.bytes {
                let mut hashers = Work::begun(&self.of_tensors);
                for (kind, hasher) in &mut hashers {
                    tensor.add(*kind, hasher, piece)?;
                }
                hashers.into_iter().for_each(|(kind, hasher)| self.set(&results, i, kind, hasher));
            } else {
                for (&kind, turn) in self.of_tensors.iter().zip(&of_tensor) {
                    turn.take(n_cut, &is_over, |hasher| {
                        tensor.add(kind, hasher, piece)?;
                        if from + bytes == tensor.bytes {
                            let done = std::mem::replace(hasher, Hasher::new(kind));
                            self.set(&results, i, kind, done);
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
        Ok((results.into_inner().unwrap_or_else(PoisonError::into_inner), of_model.collect()))
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
