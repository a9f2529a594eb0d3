//! Merges matrices and converts between the formats, like `llama-imatrix` with `--in-file`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use super::read::{pieces, reserved};
use super::{Entry, EntryInfo, Error, Format, Imatrix, ImatrixFile, Problem};

/// Adds up matrices, in the given order (`IMatrixCollector::load_imatrix` in `tools/imatrix/imatrix.cpp`). The order determines the last
/// bits of the sums.
///
/// ```
/// # use gguf_quantize::imatrix::{Entry, Format, Imatrix, ImatrixFile};
/// # let entry = Entry { sums: vec![8.0, 2.0], counts: vec![4] };
/// # let entries = [(b"output.weight".to_vec(), entry)].into();
/// # let datasets = vec![b"text.txt".to_vec()];
/// # let matrix = Imatrix { format: Format::Gguf, entries, datasets, chunk_count: 1, chunk_size: 512 };
/// # let matrix = ImatrixFile::from_bytes(matrix.write(Vec::new())?)?;
/// use gguf_quantize::imatrix::{DEFAULT_CHUNK_SIZE, Merge};
///
/// let mut merge = Merge::new(DEFAULT_CHUNK_SIZE)?;
/// merge.add(&matrix)?;
/// merge.add(&matrix)?;
/// let sum = merge.finish();
/// let entry = &sum.entries[b"output.weight".as_slice()];
/// assert_eq!((entry.sums.as_slice(), entry.counts.as_slice()), ([16.0, 4.0].as_slice(), [8].as_slice()));
/// # Ok::<(), gguf_quantize::imatrix::Error>(())
/// ```
#[derive(Debug)]
pub struct Merge {
    chunk_size: u32,
    entries: BTreeMap<Vec<u8>, Entry>,
    datasets: Vec<Vec<u8>>,
}

impl Merge {
    /// An empty sum. `chunk_size` is that of the result, and the assumed chunk size of files in the old format, which only stores the
    /// number of chunks: the context size of `llama-imatrix`, by default [512](super::DEFAULT_CHUNK_SIZE), for all files.
    ///
    /// # Errors
    /// If the chunk size is 0.
    pub fn new(chunk_size: u32) -> Result<Merge, Error> {
        match chunk_size {
            0 => Err(Problem::NoChunkSize.into()),
            chunk_size => Ok(Merge { chunk_size, entries: BTreeMap::new(), datasets: Vec::new() }),
        }
    }

    /// Adds a matrix; its values are read in pieces, so that only the sum is in memory.
    /// A sum that is not finite is an error, because it would remain so; `llama-imatrix` accepts it.
    ///
    /// # Errors
    /// If it cannot be read, does not match the previous ones, contains a negative value, or makes a sum that is not finite. The sum so far
    /// is then unusable.
    pub fn add(&mut self, matrix: &ImatrixFile) -> Result<(), Error> {
        for info in matrix.entries() {
            let about = |problem: Problem| Error::from(problem).of(info.name).at(matrix.path());
            // The old format stores means, multiplied by the number of chunks.
            let times = match matrix.format() {
                Format::Gguf => 1.0,
                Format::Legacy => self.chunk_size as f32,
            };
            let sums = self.place(info, matrix.format()).map_err(about)?;
            for columns in pieces(0, info.n_values) {
                let start = columns.start;
                let new = matrix.stored(info.name, columns)?.unwrap_or_default();
                let places = usize::try_from(start).ok().and_then(|start| sums.get_mut(start..)).unwrap_or_default();
                for ((index, sum), value) in (start..).zip(places).zip(new) {
                    *sum += value * times;
                    if !sum.is_finite() {
                        return Err(about(Problem::NotFinite { index, value: *sum }));
                    }
                    if value < 0.0 {
                        return Err(about(Problem::Negative { index, value }));
                    }
                }
            }
        }
        self.datasets.extend_from_slice(matrix.datasets());
        Ok(())
    }

    /// Adds the counts of an entry, and returns the sums so far.
    fn place(&mut self, new: EntryInfo<'_>, format: Format) -> Result<&mut [f32], Problem> {
        let tokens = match format {
            Format::Gguf => 1,
            Format::Legacy => i64::from(self.chunk_size),
        };
        let n_values = usize::try_from(new.n_values).map_err(|_| Problem::TooLarge)?;
        let zeros = || {
            let mut sums = reserved(new.n_values, 4)?;
            sums.resize(n_values, 0.0);
            Ok::<Vec<f32>, Problem>(sums)
        };
        if let Some(&count) = new.counts.iter().find(|&&n| n < 0) {
            return Err(Problem::Count(count as f32));
        }
        let counts: Option<Vec<i64>> = new.counts.iter().map(|n| n.checked_mul(tokens)).collect();
        let counts = counts.ok_or(Problem::TooLarge)?;
        let old = match self.entries.entry(new.name.to_vec()) {
            Slot::Vacant(slot) => return Ok(&mut slot.insert(Entry { sums: zeros()?, counts }).sums),
            Slot::Occupied(slot) => slot.into_mut(),
        };
        if old.sums.len() != n_values {
            return Err(Problem::Mismatch { what: "sums", before: old.sums.len(), now: n_values });
        }
        match (old.counts.as_mut_slice(), counts.as_slice()) {
            // A single count for all experts, from the old format, applies to each of them.
            ([one], many) if many.len() > 1 => old.counts = vec![*one; many.len()],
            (many, [one]) if format == Format::Legacy => {
                for count in many {
                    *count = count.checked_add(*one).ok_or(Problem::TooLarge)?;
                }
            }
            (before, now) if before.len() != now.len() => {
                return Err(Problem::Mismatch { what: "counts", before: before.len(), now: now.len() });
            }
            _ => {}
        }
        if format == Format::Gguf {
            for (count, more) in old.counts.iter_mut().zip(counts) {
                *count = count.checked_add(more).ok_or(Problem::TooLarge)?;
            }
        }
        Ok(&mut old.sums)
    }

    /// The sum, in the current format.
    pub fn finish(self) -> Imatrix {
        let most = self.entries.values().flat_map(|e| &e.counts).copied().max().unwrap_or(0);
        let chunk_count = u32::try_from(most / i64::from(self.chunk_size)).unwrap_or(u32::MAX);
        let Merge { chunk_size, entries, datasets } = self;
        Imatrix { format: Format::Gguf, entries, datasets, chunk_count, chunk_size }
    }
}

impl Imatrix {
    /// This matrix in the old format (`save_imatrix_legacy` in `tools/imatrix/imatrix.cpp`). Experts without measurements get equal
    /// weights; entries without any measurements are removed, and their names returned. Of several texts the last one is kept.
    ///
    /// # Errors
    /// If the chunk size is 0, a number does not fit the format, or no entry remains.
    pub fn into_legacy(mut self) -> Result<(Imatrix, Vec<Vec<u8>>), Error> {
        if self.format == Format::Legacy {
            return Ok((self, Vec::new()));
        }
        if self.chunk_size == 0 {
            return Err(Problem::NoChunkSize.into());
        }
        let size = i64::from(self.chunk_size);
        let (mut entries, mut left_out) = (BTreeMap::new(), Vec::new());
        for (name, mut entry) in std::mem::take(&mut self.entries) {
            let most = entry.counts.iter().copied().max().unwrap_or(0);
            if most == 0 {
                left_out.push(name);
                continue;
            }
            // Rounded up, so that it is never 0.
            let n_calls = most.checked_add(size - 1).map(|n| n / size).and_then(|n| i32::try_from(n).ok());
            let n_calls = n_calls.ok_or_else(|| Error::from(Problem::TooLarge).of(&name))?;
            let per_count = (entry.sums.len() / entry.counts.len().max(1)).max(1);
            for (i, sum) in entry.sums.iter_mut().enumerate() {
                let (value, count) = match entry.counts.get(i / per_count) {
                    None | Some(0) => (1.0, 1.0),
                    Some(&count) => (*sum, count as f32),
                };
                *sum = (value / count) * n_calls as f32;
            }
            entry.counts = vec![i64::from(n_calls)];
            entries.insert(name, entry);
        }
        if entries.is_empty() {
            return Err(Problem::Nothing.into());
        }
        let datasets = self.datasets.pop().into_iter().collect();
        let matrix =
            Imatrix { format: Format::Legacy, entries, datasets, chunk_count: self.chunk_count, chunk_size: 0 };
        Ok((matrix, left_out))
    }
}
