//! Combines the tensors of several sources into one source.

use std::ops::Range;
use std::sync::Arc;

use gguf_pipeline::plan::Op;
use gguf_pipeline::{Draft, Error, Source, SourceRead, SourceVersion, Stored, TensorPlan};

/// Sources with a common numbering of tensors.
#[derive(Debug, Default)]
pub(crate) struct Composed {
    sources: Vec<Arc<dyn Source>>,
    /// The source of each tensor, and its index there.
    tensors: Vec<(u32, u32)>,
}

impl Composed {
    /// Adds a source, and redirects tensors that copy from it to this source.
    pub(crate) fn add(&mut self, source: Arc<dyn Source>, tensors: &mut [TensorPlan]) {
        let number = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        self.sources.push(source);
        // A model may have very many tensors.
        self.tensors.reserve_exact(tensors.len());
        for tensor in tensors {
            if let Op::Copy(input) = &mut tensor.origin_mut().op {
                let index = self.tensors.len();
                self.tensors.push((number, u32::try_from(input.index()).unwrap_or(u32::MAX)));
                input.set_index(index);
            }
        }
    }

    /// The tensors of a draft that copies a model, followed by those of other sources.
    pub(crate) fn of(draft: &mut Draft) -> Composed {
        let mut composed = Composed::default();
        let source = std::mem::replace(&mut draft.source, Arc::new(Composed::default()));
        composed.add(source, &mut draft.tensors);
        composed
    }

    fn find(&self, index: usize) -> Option<(&dyn Source, usize)> {
        let (source, index) = *self.tensors.get(index)?;
        Some((&**self.sources.get(source as usize)?, index as usize))
    }
}

impl Source for Composed {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        match self.find(index) {
            Some((source, index)) => source.read(index, offset, buffer),
            None => Err(Error::OutOfTensor { tensor: format!("number {index}"), bytes: 0 }),
        }
    }

    fn stored(&self, index: usize) -> Option<Stored<'_>> {
        let (source, index) = self.find(index)?;
        source.stored(index)
    }

    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        self.find(index).map_or(Vec::new(), |(source, index)| source.reads(index, range))
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        self.sources.iter().try_for_each(|source| source.check_unchanged())
    }

    fn versions(&self) -> Vec<SourceVersion> {
        self.sources.iter().flat_map(|source| source.versions()).collect()
    }
}
