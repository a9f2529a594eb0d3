//! Compares the bytes of tensors of two models.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use gguf_format::GgmlType;
use gguf_pipeline::{Event, GgufSource, Progress, Source, workers};

use crate::error::Error;
use crate::pieces::pieces;

/// Approximate number of bytes to compare at a time.
const PIECE: u64 = 512 << 10;

/// The first difference of each pair of tensors of the same type and shape, in bytes from the start of their little-endian data; `None` if
/// they are equal.
///
/// # Errors
/// If a file cannot be read, or the work is cancelled.
pub(crate) fn first_differences(
    [a, b]: [&GgufSource; 2],
    pairs: &[(usize, usize)],
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
) -> Result<Vec<Option<u64>>, Error> {
    let bytes_of = |source: &GgufSource, index: usize| source.stored(index).map_or(0, |stored| stored.bytes);
    let bytes = pairs.iter().map(|&(i, _)| bytes_of(a, i)).fold(0, u64::saturating_add);
    progress.event(Event::Started { n_tensors: pairs.len(), bytes });
    let found: Vec<AtomicU64> = pairs.iter().map(|_| AtomicU64::new(u64::MAX)).collect();
    let pieces = pairs.iter().zip(&found).flat_map(|(&(i, j), found)| {
        let ty = a.tensor(i).map_or(GgmlType::I8, |t| t.ty());
        pieces(ty, bytes_of(a, i), PIECE).map(move |(from, bytes)| (i, j, from, bytes, found))
    });
    workers::for_each(threads, pieces, progress, <[Vec<u8>; 2]>::default, |buffers, (i, j, from, bytes, found)| {
        if from == 0 {
            let name = a.tensor(i).map(|t| String::from_utf8_lossy(t.name().as_bytes()).into_owned());
            progress.event(Event::Tensor { index: i, name: &name.unwrap_or_default() });
        }
        // Bytes after a known difference need not be compared.
        if found.load(Ordering::Relaxed) > from {
            let [x, y] = buffers;
            x.resize(usize::try_from(bytes).unwrap_or(0), 0);
            y.resize(x.len(), 0);
            a.read(i, from, x)?;
            b.read(j, from, y)?;
            if x != y {
                let at = x.iter().zip(&*y).take_while(|(x, y)| x == y).count();
                found.fetch_min(from.saturating_add(at as u64), Ordering::Relaxed);
            }
        }
        progress.event(Event::Advanced { bytes });
        Ok::<_, Error>(())
    })?;
    progress.event(Event::Finished);
    Ok(found.into_iter().map(|at| Some(at.into_inner()).filter(|&at| at < u64::MAX)).collect())
}
