//! Reads both formats: names, sizes and counts first, values on demand.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use gguf_format::check::shown;
use gguf_format::keys;
use gguf_format::{ByteOrder, GgmlType, Gguf, HeadScan, Limits, MAGIC, ValueRef};
use gguf_io::ReadAt;

use super::{Entry, Error, Format, Imatrix, Problem, normalise};

/// Number of values per read when all values are scanned.
const PIECE: u64 = 1 << 16;

/// The maximum number of entries. A model of a trillion parameters has some two hundred.
pub const MAX_ENTRIES: u64 = 1 << 18;

/// The maximum number of values of an entry, one for each column of each expert. The largest in use have some millions.
pub const MAX_VALUES: u64 = 1 << 28;

/// The maximum number of counts of all entries, one for each expert of each. The largest models in use have some ten thousand experts.
pub const MAX_COUNTS: u64 = 1 << 22;

/// The maximum number of calibration texts.
pub const MAX_TEXTS: u64 = 1 << 16;

/// The maximum length of a name or a text in the old format.
pub const MAX_NAME: u64 = 1 << 16;

/// An importance matrix with its values still in the file.
///
/// ```
/// use gguf_quantize::imatrix::{Entry, Format, Imatrix, ImatrixFile};
///
/// let entry = Entry { sums: vec![8.0, 2.0], counts: vec![4] };
/// let matrix = Imatrix {
///     format: Format::Gguf,
///     entries: [(b"output.weight".to_vec(), entry)].into(),
///     datasets: vec![b"text.txt".to_vec()],
///     chunk_count: 1,
///     chunk_size: 512,
/// };
/// let file = ImatrixFile::from_bytes(matrix.write(Vec::new())?)?;
/// assert_eq!(file.weights(b"output.weight")?, Some(vec![2.0, 0.5]));
/// assert_eq!(file.weights(b"other.weight")?, None);
/// # Ok::<(), gguf_quantize::imatrix::Error>(())
/// ```
#[derive(Debug)]
pub struct ImatrixFile {
    path: Option<PathBuf>,
    bytes: Bytes,
    order: ByteOrder,
    format: Format,
    datasets: Vec<Vec<u8>>,
    chunk_count: u32,
    chunk_size: u32,
    missing_keys: Vec<&'static str>,
    ignored: Vec<Vec<u8>>,
    n_trailing: u64,
    entries: BTreeMap<Vec<u8>, EntryPlace>,
}

/// The place of an entry's values.
#[derive(Debug, Clone)]
struct EntryPlace {
    at: u64,
    n_values: u64,
    counts: Vec<i64>,
}

/// The description of an entry, without its values.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct EntryInfo<'m> {
    /// The weight.
    pub name: &'m [u8],
    /// Number of values.
    pub n_values: u64,
    /// Number of tokens, or chunks in the old format: one for each expert, or one for all.
    pub counts: &'m [i64],
}

impl EntryInfo<'_> {
    /// Number of experts that were never used, if there is a count for each.
    pub fn n_unseen(&self) -> usize {
        self.counts.iter().filter(|&&n| n == 0).count()
    }

    /// Number of columns of an expert, or of all experts if there is one count for all.
    pub fn n_columns(&self) -> u64 {
        self.n_values.checked_div(self.counts.len() as u64).unwrap_or(0)
    }

    /// The largest count.
    pub fn max_count(&self) -> i64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}

/// Suspicious values of an entry that a quantizer can still use.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Values {
    /// The first negative weight, with its index.
    pub negative: Option<(u64, f32)>,
    /// Whether all are zero.
    pub all_zero: bool,
}

/// Divides a range of values into pieces.
pub(super) fn pieces(start: u64, end: u64) -> impl Iterator<Item = Range<u64>> {
    let next = move |at: &u64| Some(at.saturating_add(PIECE)).filter(|&at| at < end);
    let starts = std::iter::successors(Some(start).filter(|&at| at < end), next);
    starts.map(move |at| at..at.saturating_add(PIECE).min(end))
}

/// The source of the bytes, and their number.
#[derive(Debug)]
struct Bytes {
    source: Box<dyn ReadAt>,
    len: u64,
}

impl Bytes {
    fn len(&self) -> u64 {
        self.len
    }

    /// Fails if fewer bytes remain, before memory is reserved for them.
    fn must_have(&self, at: u64, len: u64) -> Result<u64, Error> {
        let end = at.saturating_add(len);
        if end > self.len() { Err(Problem::Truncated { need: end, have: self.len() }.into()) } else { Ok(end) }
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        self.source.read_exact_at(at, buf)
    }

    fn read(&self, at: u64, len: u64) -> Result<Vec<u8>, Error> {
        self.must_have(at, len)?;
        let mut buf = reserved(len, 1)?;
        buf.resize(usize::try_from(len).map_err(|_| Problem::TooLarge)?, 0);
        self.read_at(at, &mut buf)?;
        Ok(buf)
    }

    /// Reads in pieces, to limit the memory for raw bytes.
    fn read_f32(&self, at: u64, n: u64, order: ByteOrder) -> Result<Vec<f32>, Error> {
        self.must_have(at, n.checked_mul(4).ok_or(Problem::TooLarge)?)?;
        let mut out = reserved(n, 4)?;
        for piece in pieces(0, n) {
            let bytes = self.read(at.saturating_add(piece.start * 4), (piece.end - piece.start) * 4)?;
            let (numbers, _) = bytes.as_chunks::<4>();
            match order {
                ByteOrder::Little => out.extend(numbers.iter().map(|b| f32::from_le_bytes(*b))),
                ByteOrder::Big => out.extend(numbers.iter().map(|b| f32::from_be_bytes(*b))),
            }
        }
        Ok(out)
    }
}

/// An empty vector with capacity for `n` elements of `bytes` each.
pub(super) fn reserved<T>(n: u64, bytes: u64) -> Result<Vec<T>, Problem> {
    let refused = Problem::OutOfMemory { bytes: n.saturating_mul(bytes) };
    let mut out = Vec::new();
    match usize::try_from(n).map(|n| out.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(out),
        _ => Err(refused),
    }
}

/// Returns an error if a number exceeds its limit.
fn at_most(what: &'static str, found: u64, max: u64) -> Result<(), Problem> {
    if found > max { Err(Problem::TooMany { what, found, max }) } else { Ok(()) }
}

/// A sequential reader.
struct Reader<'b> {
    bytes: &'b Bytes,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.bytes.len().saturating_sub(self.at)).unwrap_or(usize::MAX);
        let n = left.min(buf.len());
        let buf = buf.get_mut(..n).unwrap_or_default();
        self.bytes.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Reader<'_> {
    fn i32(&mut self) -> Result<i32, Error> {
        self.bytes.must_have(self.at, 4)?;
        let mut buf = [0; 4];
        self.read_exact(&mut buf)?;
        Ok(i32::from_le_bytes(buf))
    }

    /// A number, which must be positive.
    fn positive(&mut self, what: &'static str) -> Result<u64, Error> {
        let at = self.at;
        let found = self.i32()?;
        match u64::try_from(found) {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(Problem::Number { what, at, found }.into()),
        }
    }

    /// A text of that length; as in llama.cpp, it ends at the first NUL.
    fn text(&mut self, len: u64) -> Result<Vec<u8>, Error> {
        at_most("bytes in a name", len, MAX_NAME)?;
        let mut text = self.bytes.read(self.at, len)?;
        self.at += len;
        if let Some(end) = text.iter().position(|&b| b == 0) {
            text.truncate(end);
        }
        Ok(text)
    }
}

impl ImatrixFile {
    /// Opens a file of either format.
    ///
    /// # Errors
    /// [`Error`], with the problem and its place.
    pub fn open(path: impl AsRef<Path>) -> Result<ImatrixFile, Error> {
        let path = path.as_ref();
        let open = || {
            gguf_io::in_place::finish(path).map_err(io::Error::other)?;
            let file = gguf_io::open_regular(path).map_err(|e| match e {
                gguf_io::Error::Io { source, .. } => {
                    Problem::Io(io::Error::new(source.kind(), format!("cannot open: {source}")))
                }
                _ => Problem::NotAMatrix("it is not a regular file"),
            })?;
            ImatrixFile::read(file)
        };
        match open() {
            Ok(matrix) => Ok(ImatrixFile { path: Some(path.to_owned()), ..matrix }),
            Err(e) => Err(e.at(Some(path))),
        }
    }

    /// Reads a file of either format in any source of bytes: memory, a remote file. `name` identifies it in messages;
    /// [`path`](ImatrixFile::path) returns it.
    ///
    /// # Errors
    /// See [`open`](ImatrixFile::open).
    pub fn from_source(source: impl ReadAt + 'static, name: impl Into<PathBuf>) -> Result<ImatrixFile, Error> {
        let path = name.into();
        match ImatrixFile::read(source) {
            Ok(matrix) => Ok(ImatrixFile { path: Some(path), ..matrix }),
            Err(e) => Err(e.at(Some(&path))),
        }
    }

    /// Parses a file of either format in memory.
    ///
    /// # Errors
    /// See [`open`](ImatrixFile::open).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<ImatrixFile, Error> {
        ImatrixFile::read(bytes)
    }

    fn read(source: impl ReadAt + 'static) -> Result<ImatrixFile, Error> {
        let len = source.size()?;
        let bytes = Bytes { source: Box::new(source), len };
        let mut magic = [0; 4];
        if bytes.len() >= 4 {
            bytes.read_at(0, &mut magic)?;
        }
        if magic == MAGIC { read_gguf(bytes) } else { read_legacy(bytes) }
    }

    /// The path of the file, or its given name.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The file format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The names of the calibration texts.
    pub fn datasets(&self) -> &[Vec<u8>] {
        &self.datasets
    }

    /// Number of calibration chunks; 0 if unknown.
    pub fn chunk_count(&self) -> u32 {
        self.chunk_count
    }

    /// Tokens per chunk; 0 if unknown.
    pub fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    /// Missing keys that `llama-quantize` requires.
    pub fn missing_keys(&self) -> &[&'static str] {
        &self.missing_keys
    }

    /// Names of tensors that are not part of an entry.
    pub fn ignored(&self) -> &[Vec<u8>] {
        &self.ignored
    }

    /// Bytes after the end of a file of the old format.
    pub fn n_trailing(&self) -> u64 {
        self.n_trailing
    }

    /// Number of entries.
    pub fn n_entries(&self) -> usize {
        self.entries.len()
    }

    /// The entries, by name.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = EntryInfo<'_>> {
        self.entries.iter().map(|(name, place)| info(name, place))
    }

    /// The entry of a weight.
    pub fn entry(&self, name: &[u8]) -> Option<EntryInfo<'_>> {
        self.entries.get_key_value(name).map(|(name, place)| info(name, place))
    }

    /// Keeps the entries whose name contains one of `include`; without `include`, removes those that contain one of `exclude`
    /// (`prepare_imatrix` in `tools/quantize/quantize.cpp`).
    pub fn select<S: AsRef<str>>(&mut self, include: &[S], exclude: &[S]) {
        let any = |parts: &[S], name: &[u8]| {
            let is_in = |part: &[u8]| part.is_empty() || name.windows(part.len()).any(|w| w == part);
            parts.iter().any(|part| is_in(part.as_ref().as_bytes()))
        };
        self.entries.retain(|name, _| (include.is_empty() || any(include, name)) && !any(exclude, name));
    }

    /// The weights of an entry's columns, expert after expert, as `llama-quantize` passes them to the quantizers; `None` if there is no
    /// such entry.
    ///
    /// # Errors
    /// If the values cannot be read, or one of them is not finite.
    pub fn weights(&self, name: &[u8]) -> Result<Option<Vec<f32>>, Error> {
        match self.entries.get(name) {
            Some(place) => self.weights_of(name, 0..place.n_values),
            None => Ok(None),
        }
    }

    /// The weights of a range of an entry's columns, numbered across all experts: expert `e` of a tensor with rows of `n` elements has
    /// columns `e * n..(e + 1) * n`. `None` if there are no such columns.
    ///
    /// # Errors
    /// See [`weights`](ImatrixFile::weights).
    pub fn weights_of(&self, name: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, Error> {
        let Some(place) = self.entries.get(name) else { return Ok(None) };
        if columns.start > columns.end || columns.end > place.n_values {
            return Ok(None);
        }
        let mut values = self.sums(name, place, columns.clone())?;
        normalise(self.format, &place.counts, place.n_values, columns.start, &mut values);
        match (columns.start..).zip(&values).find(|(_, v)| !v.is_finite()) {
            Some((index, &value)) => {
                Err(Error::from(Problem::NotFinite { index, value }).of(name).at(self.path.as_deref()))
            }
            None => Ok(Some(values)),
        }
    }

    /// Scans all values of an entry, in pieces.
    ///
    /// # Errors
    /// If a weight computed from them is not finite, or they cannot be read.
    pub fn check_values(&self, name: &[u8]) -> Result<Values, Error> {
        let n = self.entries.get(name).map_or(0, |place| place.n_values);
        let mut found = Values { negative: None, all_zero: n > 0 };
        for columns in pieces(0, n) {
            let start = columns.start;
            let weights = self.weights_of(name, columns)?.unwrap_or_default();
            found.all_zero &= weights.iter().all(|&v| v == 0.0);
            if found.negative.is_none() {
                found.negative = (start..).zip(&weights).find(|(_, v)| **v < 0.0).map(|(i, v)| (i, *v));
            }
        }
        Ok(found)
    }

    /// Rejects the same values as [merging](super::Merge): values that are not finite or below zero, and counts below zero.
    ///
    /// # Errors
    /// The first such value or count, or an error of reading.
    pub fn must_be_sound(&self) -> Result<(), Error> {
        for (name, place) in &self.entries {
            if let Some(&count) = place.counts.iter().find(|&&n| n < 0) {
                return Err(Error::from(Problem::Count(count as f32)).of(name).at(self.path.as_deref()));
            }
            if let Some((index, value)) = self.check_values(name)?.negative {
                return Err(Error::from(Problem::Negative { index, value }).of(name).at(self.path.as_deref()));
            }
        }
        Ok(())
    }

    /// A range of stored values of an entry; `None` if there are no such values.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub(super) fn stored(&self, name: &[u8], columns: Range<u64>) -> Result<Option<Vec<f32>>, Error> {
        match self.entries.get(name) {
            Some(place) if columns.end <= place.n_values => self.sums(name, place, columns).map(Some),
            _ => Ok(None),
        }
    }

    fn sums(&self, name: &[u8], place: &EntryPlace, columns: Range<u64>) -> Result<Vec<f32>, Error> {
        // The range of values was checked when the file was opened.
        let at = place.at.saturating_add(columns.start.saturating_mul(4));
        let values = self.bytes.read_f32(at, columns.end.saturating_sub(columns.start), self.order);
        values.map_err(|e| e.of(name).at(self.path.as_deref()))
    }

    /// Reads a stored entry; `None` if there is no such entry.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub fn load_entry(&self, name: &[u8]) -> Result<Option<Entry>, Error> {
        let Some(place) = self.entries.get(name) else { return Ok(None) };
        let sums = self.sums(name, place, 0..place.n_values)?;
        Ok(Some(Entry { sums, counts: place.counts.clone() }))
    }

    /// Reads everything into memory.
    ///
    /// # Errors
    /// If the values cannot be read.
    pub fn load(&self) -> Result<Imatrix, Error> {
        let mut entries = BTreeMap::new();
        for name in self.entries.keys() {
            if let Some(entry) = self.load_entry(name)? {
                entries.insert(name.clone(), entry);
            }
        }
        let (format, datasets) = (self.format, self.datasets.clone());
        Ok(Imatrix { format, entries, datasets, chunk_count: self.chunk_count, chunk_size: self.chunk_size })
    }
}

fn info<'m>(name: &'m [u8], place: &'m EntryPlace) -> EntryInfo<'m> {
    EntryInfo { name, n_values: place.n_values, counts: &place.counts }
}

/// `common_imatrix_load_legacy` in `common/imatrix-loader.cpp`.
fn read_legacy(bytes: Bytes) -> Result<ImatrixFile, Error> {
    // Length, a letter, two numbers and a value.
    const SHORTEST_ENTRY: u64 = 4 + 1 + 4 + 4 + 4;
    let mut reader = Reader { bytes: &bytes, at: 0 };
    if bytes.len() == 0 {
        return Err(Problem::NotAMatrix("it is empty").into());
    }
    let n_entries = reader.positive("number of entries")?;
    if n_entries > bytes.len() / SHORTEST_ENTRY {
        return Err(Problem::NotAMatrix(
            "it is not a GGUF file, and too short for the entries that it would have as a .dat",
        )
        .into());
    }
    at_most("entries", n_entries, MAX_ENTRIES)?;
    let mut entries = BTreeMap::new();
    for _ in 0..n_entries {
        let len = reader.positive("length of a name")?;
        let name = reader.text(len)?;
        let about = |e: Error| e.of(&name);
        let n_calls = reader.i32().map_err(about)?;
        let n_values = reader.positive("number of values").map_err(about)?;
        let at = reader.at;
        reader.at = bytes.must_have(at, n_values * 4).map_err(about)?;
        at_most("values", n_values, MAX_VALUES).map_err(|e| about(e.into()))?;
        let place = EntryPlace { at, n_values, counts: vec![i64::from(n_calls)] };
        if entries.insert(name.clone(), place).is_some() {
            return Err(about(Problem::Twice.into()));
        }
    }
    // Optional in older files: the number of chunks, then the text.
    let (mut chunk_count, mut datasets) = (0, Vec::new());
    if reader.at < bytes.len() {
        let at = reader.at;
        let found = reader.i32()?;
        chunk_count = u32::try_from(found).map_err(|_| Problem::Number { what: "number of chunks", at, found })?;
    }
    if reader.at < bytes.len() {
        let at = reader.at;
        let found = reader.i32()?;
        let len = u64::try_from(found).map_err(|_| Problem::Number { what: "length of the text's name", at, found })?;
        if len > 0 {
            datasets.push(reader.text(len)?);
        }
    }
    Ok(ImatrixFile {
        path: None,
        n_trailing: bytes.len().saturating_sub(reader.at),
        bytes,
        order: ByteOrder::Little,
        format: Format::Legacy,
        datasets,
        chunk_count,
        chunk_size: 0,
        missing_keys: Vec::new(),
        ignored: Vec::new(),
        entries,
    })
}

/// The places of the two tensors of an entry, and their numbers of elements.
#[derive(Default)]
struct Pair {
    sums: Option<(u64, u64)>,
    counts: Option<(u64, u64)>,
}

/// `common_imatrix_load` in `common/imatrix-loader.cpp`.
fn read_gguf(bytes: Bytes) -> Result<ImatrixFile, Error> {
    let limits = Limits { tensors: 2 * MAX_ENTRIES, elements: MAX_TEXTS, ..gguf_io::MODEL_LIMITS };
    let scan = HeadScan::new(Some(bytes.len())).within(limits);
    let head = gguf_io::read_head_with(&mut Reader { bytes: &bytes, at: 0 }, scan, |_, _| Ok::<_, Error>(()))?;
    let gguf: Gguf<'static> = head.into_gguf().map_err(|e| Problem::Head(Box::new(e)))?;
    let order = gguf.dialect().order;

    let mut pairs: BTreeMap<Vec<u8>, Pair> = BTreeMap::new();
    let mut ignored = Vec::new();
    let mut total = 0u64;
    for tensor in gguf.tensors() {
        let name = tensor.name.as_bytes();
        let (entry, is_sums) = match (name.strip_suffix(b".in_sum2"), name.strip_suffix(b".counts")) {
            (Some(entry), _) => (entry, true),
            (_, Some(entry)) => (entry, false),
            _ => {
                ignored.push(name.to_vec());
                continue;
            }
        };
        let about = |problem: Problem| Error::from(problem).of(entry);
        if tensor.ty != GgmlType::F32 {
            return Err(about(Problem::Type { tensor: shown(tensor.name), ty: tensor.ty }));
        }
        let no_size = |source| about(Problem::Size { tensor: shown(tensor.name), source });
        let range = gguf.tensor_range(&tensor).map_err(no_size)?;
        bytes.must_have(range.start, range.end - range.start).map_err(|e| e.of(entry))?;
        // Tensors that share data could take more memory than the file has bytes.
        total = total.saturating_add(range.end - range.start);
        if total > bytes.len() {
            return Err(about(Problem::Shared));
        }
        let found = (range.start, (range.end - range.start) / 4);
        let pair = pairs.entry(entry.to_vec()).or_default();
        let half = if is_sums { &mut pair.sums } else { &mut pair.counts };
        if half.replace(found).is_some() {
            return Err(about(Problem::Twice));
        }
    }
    if pairs.is_empty() {
        return Err(Problem::NotAMatrix("it is a GGUF file without a tensor NAME.in_sum2").into());
    }
    let (mut entries, mut all_counts) = (BTreeMap::new(), 0u64);
    for (name, pair) in pairs {
        let about = |problem: Problem| Error::from(problem).of(&name);
        let (at, n_values) = pair.sums.ok_or_else(|| about(Problem::Missing("sums")))?;
        let (counts_at, n_counts) = pair.counts.ok_or_else(|| about(Problem::Missing("counts")))?;
        if n_values == 0 || n_values.checked_rem(n_counts) != Some(0) {
            return Err(about(Problem::Sizes { sums: n_values, counts: n_counts }));
        }
        all_counts = all_counts.saturating_add(n_counts);
        let size = at_most("values", n_values, MAX_VALUES);
        size.and_then(|()| at_most("counts of experts, with those of other entries,", all_counts, MAX_COUNTS))
            .map_err(&about)?;
        let stored = bytes.read_f32(counts_at, n_counts, order).map_err(|e| e.of(&name))?;
        let mut counts = reserved(n_counts, 8).map_err(&about)?;
        for c in stored {
            counts.push(count(c).ok_or_else(|| about(Problem::Count(c)))?);
        }
        entries.insert(name, EntryPlace { at, n_values, counts });
    }

    let datasets = match gguf.get(keys::IMATRIX_DATASETS) {
        Some(ValueRef::Array(all)) => all.strings().map(|all| all.map(|s| s.as_bytes().to_vec()).collect()),
        _ => None,
    };
    let number = |key: &'static str| match gguf.get(key).map(|v| v.get::<u32>()) {
        None => Ok(0),
        Some(Ok(n)) => Ok(n),
        Some(Err(_)) => Err(Error::from(Problem::Key(key))),
    };
    let needed = [keys::IMATRIX_DATASETS, keys::IMATRIX_CHUNK_COUNT, keys::IMATRIX_CHUNK_SIZE];
    Ok(ImatrixFile {
        path: None,
        order,
        format: Format::Gguf,
        datasets: datasets.unwrap_or_default(),
        chunk_count: number(keys::IMATRIX_CHUNK_COUNT)?,
        chunk_size: number(keys::IMATRIX_CHUNK_SIZE)?,
        missing_keys: needed.into_iter().filter(|key| gguf.get(key).is_none()).collect(),
        ignored,
        n_trailing: 0,
        entries,
        bytes,
    })
}

/// A stored count, rounded like `lround`; `None` if it is 0.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn count(stored: f32) -> Option<i64> {
    // Larger ones do not fit in 64 bits.
    const TOO_MANY: f32 = 9e18;
    (0.0..TOO_MANY).contains(&stored).then(|| stored.round() as i64)
}
