//! Merging matrices, and converting between the formats, as `llama-imatrix` does with `--in-file`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use super::{Entry, Error, Format, Imatrix, ImatrixFile, Problem};

/// Matrices that are being added up, in the order they come in (`IMatrixCollector::load_imatrix` in
/// `tools/imatrix/imatrix.cpp`). The order matters for the last bits of the sums.
#[derive(Debug)]
pub struct Merge {
    chunk_size: u32,
    entries: BTreeMap<Vec<u8>, Entry>,
    datasets: Vec<Vec<u8>>,
}

impl Merge {
    /// Nothing yet. `chunk_size` is that of the result, and what the old format, which knows chunks only, is taken to have
    /// been measured with: `--ctx-size` of `llama-imatrix`, where it is [512](super::DEFAULT_CHUNK_SIZE) unless given,
    /// whatever the files say.
    ///
    /// # Errors
    /// When it is 0.
    pub fn new(chunk_size: u32) -> Result<Merge, Error> {
        match chunk_size {
            0 => Err(Problem::NoChunkSize.into()),
            chunk_size => Ok(Merge { chunk_size, entries: BTreeMap::new(), datasets: Vec::new() }),
        }
    }

    /// Adds a matrix; its values are read one entry at a time.
    ///
    /// # Errors
    /// When it cannot be read, does not fit to those before, or makes a sum that is not finite.
    pub fn add(&mut self, matrix: &ImatrixFile) -> Result<(), Error> {
        for info in matrix.entries() {
            let Some(entry) = matrix.load_entry(info.name)? else { continue };
            let added = self.add_entry(info.name, entry, matrix.format());
            added.map_err(|problem| Error::from(problem).of(info.name).at(matrix.path()))?;
        }
        self.datasets.extend_from_slice(matrix.datasets());
        Ok(())
    }

    fn add_entry(&mut self, name: &[u8], new: Entry, format: Format) -> Result<(), Problem> {
        // The old format holds means: as many chunks of tokens were seen as it says.
        let (times, tokens) = match format {
            Format::Gguf => (1.0, 1),
            Format::Legacy => (self.chunk_size as f32, i64::from(self.chunk_size)),
        };
        if let Some(&count) = new.counts.iter().find(|&&n| n < 0) {
            return Err(Problem::Count(count as f32));
        }
        let counts: Option<Vec<i64>> = new.counts.iter().map(|n| n.checked_mul(tokens)).collect();
        let counts = counts.ok_or(Problem::TooLarge)?;
        let old = match self.entries.entry(name.to_vec()) {
            Slot::Vacant(slot) => {
                let sums: Vec<f32> = new.sums.into_iter().map(|v| 0.0 + v * times).collect();
                all_finite(&sums)?;
                slot.insert(Entry { sums, counts });
                return Ok(());
            }
            Slot::Occupied(slot) => slot.into_mut(),
        };
        if old.sums.len() != new.sums.len() {
            return Err(Problem::Mismatch { what: "sums", before: old.sums.len(), now: new.sums.len() });
        }
        match (old.counts.as_mut_slice(), counts.as_slice()) {
            // One count for all experts, of the old format: each of them has it.
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
        old.sums.iter_mut().zip(new.sums).for_each(|(sum, more)| *sum += more * times);
        all_finite(&old.sums)
    }

    /// The sum, in the present format.
    pub fn finish(self) -> Imatrix {
        let most = self.entries.values().flat_map(|e| &e.counts).copied().max().unwrap_or(0);
        let chunk_count = u32::try_from(most / i64::from(self.chunk_size)).unwrap_or(u32::MAX);
        let Merge { chunk_size, entries, datasets } = self;
        Imatrix { format: Format::Gguf, entries, datasets, chunk_count, chunk_size }
    }
}

/// A sum that is not finite would spoil the entry for good, whatever is added; `llama-imatrix` lets it pass.
fn all_finite(sums: &[f32]) -> Result<(), Problem> {
    match (0..).zip(sums).find(|(_, v)| !v.is_finite()) {
        Some((index, &value)) => Err(Problem::NotFinite { index, value }),
        None => Ok(()),
    }
}

impl Imatrix {
    /// This matrix in the old format (`save_imatrix_legacy` in `tools/imatrix/imatrix.cpp`). Experts that were not seen count
    /// evenly; entries of which no expert was are left out, and their names returned. Of several texts the last one is kept.
    ///
    /// # Errors
    /// When the chunk size is 0, or a number does not fit the format.
    pub fn to_legacy(&self) -> Result<(Imatrix, Vec<Vec<u8>>), Error> {
        if self.format == Format::Legacy {
            return Ok((self.clone(), Vec::new()));
        }
        if self.chunk_size == 0 {
            return Err(Problem::NoChunkSize.into());
        }
        let size = i64::from(self.chunk_size);
        let (mut entries, mut left_out) = (BTreeMap::new(), Vec::new());
        for (name, entry) in &self.entries {
            let most = entry.counts.iter().copied().max().unwrap_or(0);
            if most == 0 {
                left_out.push(name.clone());
                continue;
            }
            // Rounded up, so that it is never 0.
            let n_calls = most.checked_add(size - 1).map(|n| n / size).and_then(|n| i32::try_from(n).ok());
            let n_calls = n_calls.ok_or_else(|| Error::from(Problem::TooLarge).of(name))?;
            let per_count = (entry.sums.len() / entry.counts.len().max(1)).max(1);
            let mean = |(i, &sum): (usize, &f32)| {
                let (value, count) = match entry.counts.get(i / per_count) {
                    None | Some(0) => (1.0, 1.0),
                    Some(&count) => (sum, count as f32),
                };
                (value / count) * n_calls as f32
            };
            let sums = entry.sums.iter().enumerate().map(mean).collect();
            entries.insert(name.clone(), Entry { sums, counts: vec![i64::from(n_calls)] });
        }
        let datasets = self.datasets.last().cloned().into_iter().collect();
        let matrix =
            Imatrix { format: Format::Legacy, entries, datasets, chunk_count: self.chunk_count, chunk_size: 0 };
        Ok((matrix, left_out))
    }
}
