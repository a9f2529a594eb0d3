//! A model in an object store.

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use ggufkit::{Gguf, HeadScan, ModelFile, ReadAt, ScanState};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};

/// The length of the first request. Most heads without a vocabulary, and the first keys of all, are shorter.
const FIRST: u64 = 512 << 10;

/// Each request for more of the head is this many times longer than the last, so that three reach 36 MB.
const GROWTH: u64 = 8;

/// A model in an object store, which counts the requests.
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    path: Path,
    n_requests: Cell<usize>,
}

/// The head of a model, and the length of its file.
pub(crate) struct Opened {
    pub(crate) gguf: Gguf<'static>,
    pub(crate) file_bytes: u64,
}

impl Remote {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, path: Path) -> Remote {
        Remote { store, path, n_requests: Cell::new(0) }
    }

    pub(crate) fn n_requests(&self) -> usize {
        self.n_requests.get()
    }

    /// The bytes of a range, as far as the object reaches, and the length of the object.
    async fn get(&self, range: Range<u64>) -> object_store::Result<(Vec<u8>, u64)> {
        self.n_requests.set(self.n_requests.get() + 1);
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let result = self.store.get_opts(&self.path, options).await?;
        let object_bytes = result.meta.size;
        Ok((result.bytes().await?.into(), object_bytes))
    }

    /// Reads the head. The scan tells when it is complete, and rejects counts and lengths that exceed the file.
    pub(crate) async fn open(&self) -> Result<Opened, Box<dyn Error>> {
        // The first answer also has the length of the object.
        let (mut head, file_bytes) = self.get(0..FIRST).await?;
        let mut scan = HeadScan::new(Some(file_bytes));
        let mut piece = FIRST;
        while let ScanState::Need(need) = scan.advance(&head)? {
            piece = piece.saturating_mul(GROWTH);
            let start = head.len() as u64;
            let end = need.max(start.saturating_add(piece)).min(file_bytes);
            head.extend(self.get(start..end).await?.0);
        }
        head.truncate(scan.head_bytes() as usize);
        Ok(Opened { gguf: Gguf::from_scan(head, &scan)?, file_bytes })
    }

    /// Fetches the data of tensors, one request for each, and gives the model with them.
    pub(crate) async fn fetch(&self, opened: Opened, tensors: &[&str]) -> Result<ModelFile, Box<dyn Error>> {
        let mut fetched = Fetched { file_bytes: opened.file_bytes, pieces: Vec::new() };
        for name in tensors {
            let tensor = opened.gguf.tensor(name).ok_or_else(|| format!("no tensor {name}"))?;
            let range = opened.gguf.tensor_range(&tensor)?;
            let (bytes, _) = self.get(range.clone()).await?;
            fetched.pieces.push((range.start, bytes));
        }
        Ok(ModelFile::from_head(opened.gguf, fetched, self.path.as_ref())?)
    }
}

/// The fetched parts of a file. Reading any other part is an error.
#[derive(Debug)]
struct Fetched {
    file_bytes: u64,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl ReadAt for Fetched {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file_bytes)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let part = self.pieces.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..)?.get(..buf.len())
        });
        let part = part.ok_or_else(|| io::Error::other("this part of the file was not fetched"))?;
        buf.copy_from_slice(part);
        Ok(())
    }
}
