//! Drafts as sources: the tensors of one plan are the inputs of the next, and nothing is stored in between.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gguf_format::GgmlType;

use crate::buffers::{no_codec, packed_bytes};
use crate::cast::Cast;
use crate::error::Error;
use crate::op::{Op, ReadBuffers, Wanted};
use crate::plan::{Draft, TensorPlan};
use crate::reads::Asked;
use crate::source::{FilePlace, Source, SourceRead, SourceVersion, Stored};
use crate::totals::Totals;

/// The tensors of drafts, one draft after the other, in the types that the drafts give them: a source of another draft. They are made when
/// they are read, so memory does not grow with the model. A type may be that of the values, or a float type to which they are rounded by
/// the rules of the converter; other tensors cannot be read.
///
/// ```
/// # let mut head = gguf_format::Head::default();
/// # head.tensors.push(gguf_format::TensorInfo::new("output.weight", [32], gguf_format::GgmlType::F32));
/// # let bytes = gguf_io::Writer::write(Vec::new(), &head, [vec![0u8; 128]])?;
/// # let model = gguf_io::Model::from_source(bytes, "model in memory")?;
/// use gguf_format::GgmlType;
/// use gguf_pipeline::plan::{Input, Op};
/// use gguf_pipeline::{Draft, Stage};
///
/// // Round a tensor to half precision, then quantize the result.
/// let mut halves = Draft::copy_of(model)?;
/// halves.tensors[0].ty = GgmlType::F16;
/// let mut draft = halves.clone();
/// draft.source = Stage::new([halves]).shared();
/// draft.tensors[0].origin_mut().op = Op::Copy(Input::new(0, "", GgmlType::F16));
/// draft.tensors[0].ty = GgmlType::Q8_0;
/// assert_eq!(draft.lay_out()?.tensors()[0].n_bytes(), 34);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stage {
    /// The drafts, and the number of tensors before each.
    drafts: Vec<(usize, Draft)>,
    totals: Totals<'static>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("n_drafts", &self.drafts.len()).finish_non_exhaustive()
    }
}

impl Stage {
    /// The tensors of some drafts. Those of the second follow those of the first.
    pub fn new(drafts: impl IntoIterator<Item = Draft>) -> Stage {
        let mut first = 0;
        let place = |draft: Draft| {
            let start = first;
            first += draft.tensors.len();
            (start, draft)
        };
        Stage { drafts: drafts.into_iter().map(place).collect(), totals: Totals::new(&()) }
    }

    /// The source, to share it.
    pub fn shared(self) -> Arc<dyn Source> {
        Arc::new(self)
    }

    /// The index of the first tensor of a draft.
    pub fn first_of(&self, draft: usize) -> Option<usize> {
        Some(self.drafts.get(draft)?.0)
    }

    fn tensor(&self, index: usize) -> Option<(&Draft, &TensorPlan)> {
        let number = self.drafts.partition_point(|(first, _)| *first <= index).checked_sub(1)?;
        let (first, draft) = self.drafts.get(number)?;
        Some((draft, draft.tensors.get(index - first)?))
    }

    fn found(&self, index: usize) -> Result<(&Draft, &TensorPlan), Error> {
        self.tensor(index).ok_or_else(|| Error::OutOfTensor { tensor: format!("number {index}"), bytes: 0 })
    }

    /// The bytes of a tensor that is stored in its type.
    fn copied(&self, index: usize) -> Option<(&Draft, usize)> {
        let (draft, tensor) = self.tensor(index)?;
        let input = tensor.op.copied().filter(|input| input.ty == tensor.ty)?;
        Some((draft, input.index()))
    }

    /// The values for the bytes of a tensor.
    fn wanted<'a>(
        &'a self,
        source: &'a dyn Source,
        (index, tensor): (usize, &'a TensorPlan),
        range: &Range<u64>,
    ) -> Result<Wanted<'a>, Error> {
        let outside = || Error::OutOfTensor { tensor: tensor.shown(), bytes: tensor.n_bytes() };
        let (first, n_elements) =
            elements(tensor.ty, range).filter(|_| range.end <= tensor.n_bytes()).ok_or_else(outside)?;
        let n_values = tensor.n_elements();
        Ok(Wanted { source, tensor: &tensor.name, index, n_values, first, n_elements, totals: &self.totals })
    }
}

/// The first element and the number of elements of the blocks in a range of bytes; `None` if it does not consist of blocks.
fn elements(ty: GgmlType, range: &Range<u64>) -> Option<(u64, u64)> {
    let info = ty.info()?;
    let (bytes, len) = (u64::from(info.block_bytes), u64::from(info.block_len));
    let blocks = |at: u64| (at.checked_rem(bytes)? == 0).then(|| at / bytes);
    let (first, end) = (blocks(range.start)?, blocks(range.end)?);
    Some((first.checked_mul(len)?, end.checked_sub(first)?.checked_mul(len)?))
}

impl Source for Stage {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        if let Some((draft, input)) = self.copied(index) {
            return draft.source.read(input, offset, buffer);
        }
        let (draft, tensor) = self.found(index)?;
        let wanted =
            self.wanted(&*draft.source, (index, tensor), &(offset..offset.saturating_add(buffer.len() as u64)))?;
        let mut buffers = ReadBuffers::default();
        let values = tensor.op.operation().read(wanted, &mut buffers)?;
        let from = tensor.op.value_type();
        if from == tensor.ty && Cast::new(from, from).is_none() {
            buffer.copy_from_slice(values);
            return Ok(());
        }
        let cast = Cast::new(from, tensor.ty).ok_or_else(|| no_codec(&tensor.name))?;
        cast.apply(values, buffer);
        Ok(())
    }

    fn read_vec(&self, index: usize, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Error> {
        match self.copied(index) {
            Some((draft, input)) => draft.source.read_vec(input, offset, buffer),
            None => self.read(index, offset, buffer),
        }
    }

    fn stored(&self, index: usize) -> Option<Stored<'_>> {
        let (draft, input) = self.copied(index)?;
        draft.source.stored(input)
    }

    fn place(&self, index: usize) -> Option<FilePlace> {
        let (draft, input) = self.copied(index)?;
        draft.source.place(input)
    }

    fn reads(&self, index: usize, range: Range<u64>) -> Vec<SourceRead> {
        if let Some((draft, input)) = self.copied(index) {
            return draft.source.reads(input, range);
        }
        let Ok((draft, tensor)) = self.found(index) else { return Vec::new() };
        let asked = Asked::new(&draft.source);
        let listed = self.wanted(&asked, (index, tensor), &range).and_then(|wanted| match &tensor.op {
            // Nothing depends on the bytes: they need no memory.
            Op::Copy(input) => {
                let bytes = |n| packed_bytes(input.ty, n, &tensor.name);
                asked.add(input.index(), bytes(wanted.first)?..bytes(wanted.first.saturating_add(wanted.n_elements))?);
                Ok(())
            }
            op => op.operation().read(wanted, &mut ReadBuffers::default()).map(drop),
        });
        // An error is reported by the read itself.
        listed.map(|()| asked.into_reads()).unwrap_or_default()
    }

    fn check_unchanged(&self) -> Result<(), Error> {
        self.drafts.iter().try_for_each(|(_, draft)| draft.source.check_unchanged())
    }

    fn versions(&self) -> Vec<SourceVersion> {
        self.drafts.iter().flat_map(|(_, draft)| draft.source.versions()).collect()
    }
}
