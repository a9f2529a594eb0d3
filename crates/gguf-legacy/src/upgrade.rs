//! GGUF files of earlier versions, in big-endian order, or with removed types, as current files.

use std::collections::HashMap;
use std::sync::Arc;

use gguf_format::{ByteOrder, Dialect, GgmlType, Version};
use gguf_io::IntoModel;
use gguf_pipeline::plan::{Draft, Op, Reason};
use gguf_pipeline::{Error as PipelineError, Source, SourceVersion};
use gguf_quants::codec::removed::{Interleaved, interleaved};

use crate::block::Treatment;
use crate::container::Container;
use crate::error::Error;
use crate::migration::{Migrated, Migration, Options, findings};

/// A GGUF of an older version or with removed types.
#[derive(Debug)]
pub struct GgufUpgrade {
    pub(crate) draft: Draft,
    pub(crate) dialect: Dialect,
}

impl GgufUpgrade {
    /// Opens a model, or the one that a file belongs to.
    ///
    /// # Errors
    /// [`Error::UpToDate`] if the model is current, and errors of reading it.
    pub(crate) fn open(model: impl IntoModel, dialect: Dialect) -> Result<GgufUpgrade, Error> {
        let draft = Draft::copy_of(model)?;
        let is_today = dialect == Dialect::new(Version::V3);
        let has_removed = draft.tensors.iter().any(|tensor| is_removed(tensor.ty));
        match is_today && !has_removed {
            true => Err(Error::UpToDate { path: draft.path }),
            false => Ok(GgufUpgrade { draft, dialect }),
        }
    }

    /// A description of the file.
    pub fn describe(&self) -> String {
        let mut text = format!("GGUF version {}", self.dialect.version);
        if self.dialect.order == ByteOrder::Big {
            text.push_str(", big-endian");
        }
        if self.dialect.nul_strings {
            text.push_str(", strings that count a NUL");
        }
        text
    }

    /// Plans the migration.
    ///
    /// # Errors
    /// If the output cannot be laid out.
    pub(crate) fn plan(self, options: &Options) -> Result<Migration, Error> {
        let GgufUpgrade { mut draft, dialect } = self;
        let mut tensors = Vec::new();
        let mut apart = HashMap::new();
        for tensor in &mut draft.tensors {
            let from = tensor.shown();
            let row = tensor.shape.first().copied().unwrap_or(1);
            let mut treatment = Treatment::Copied;
            if let Some(interleaved) = interleaved(tensor.ty) {
                treatment = Treatment::Rearranged;
                tensor.ty = interleaved.plain;
                tensor.reason = Reason::Layout(&"rows taken apart");
                let origin = tensor.origin_mut();
                origin.from = interleaved.plain;
                if let Op::Copy(input) = &mut origin.op {
                    input.ty = interleaved.plain;
                    apart.insert(input.index(), Rows { how: interleaved, len: row, tensor: from.clone() });
                }
            } else if is_removed(tensor.ty) {
                treatment = Treatment::Recoded;
                let fits = |ty: GgmlType| ty.info().is_some_and(|i| row.is_multiple_of(u64::from(i.block_len)));
                tensor.ty = if fits(options.recoded) { options.recoded } else { GgmlType::F16 };
                tensor.reason = Reason::Layout(&"a type that has been removed");
            } else {
                tensor.reason = Reason::Layout(&"copied");
            }
            tensors.push(Migrated { from, treatment, rounding: None });
        }
        if !apart.is_empty() {
            draft.source = Arc::new(Apart { source: draft.source, rows: apart });
        }
        let path = draft.path.clone();
        let plan = draft.lay_out()?;
        let warnings = findings(&plan, path, false)?;
        let container = Container::Gguf(dialect.version.number());
        Ok(Migration { plan, container, family: None, tensors, left_out: Vec::new(), guesses: Vec::new(), warnings })
    }
}

/// Whether the current ggml no longer has a type.
fn is_removed(ty: GgmlType) -> bool {
    ty.info().is_some_and(|info| info.removed)
}

/// A model whose interleaved rows are deinterleaved.
#[derive(Debug)]
struct Apart {
    source: Arc<dyn Source>,
    /// By the index of the tensor.
    rows: HashMap<usize, Rows>,
}

/// The interleaved rows of a tensor.
#[derive(Debug)]
struct Rows {
    how: &'static Interleaved,
    /// Values of a row.
    len: u64,
    tensor: String,
}

impl Source for Apart {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), PipelineError> {
        let Some(Rows { how, len, tensor }) = self.rows.get(&index) else {
            return self.source.read(index, offset, buffer);
        };
        read_apart(how, *len, offset, buffer, tensor, |offset, bytes| self.source.read(index, offset, bytes))
    }

    fn check_unchanged(&self) -> Result<(), PipelineError> {
        self.source.check_unchanged()
    }

    fn versions(&self) -> Vec<SourceVersion> {
        self.source.versions()
    }
}

/// Reads rows of a tensor with interleaved groups of rows.
fn read_apart(
    how: &Interleaved,
    row_len: u64,
    offset: u64,
    buffer: &mut [u8],
    name: &str,
    read: impl Fn(u64, &mut [u8]) -> Result<(), PipelineError>,
) -> Result<(), PipelineError> {
    let no_way = || PipelineError::NoCodec { tensor: name.to_owned() };
    let row_bytes = how.plain.tensor_bytes([row_len]).map_err(|_| no_way())?;
    let group = row_bytes.checked_mul(how.n_rows as u64).filter(|&group| group > 0).ok_or_else(no_way)?;
    let end = offset.saturating_add(buffer.len() as u64);
    let (first, last) = (offset / group, end.div_ceil(group));
    let bytes = (last - first).saturating_mul(group);
    let refused = || PipelineError::OutOfMemory { tensor: name.to_owned(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    let (mut packed, mut plain) = (Vec::new(), Vec::new());
    for memory in [&mut packed, &mut plain] {
        let memory: &mut Vec<u8> = memory;
        memory.try_reserve_exact(len).map_err(|_| refused())?;
        memory.resize(len, 0);
    }
    read(first * group, &mut packed)?;
    how.take_apart(usize::try_from(row_len).map_err(|_| no_way())?, &packed, &mut plain).map_err(|_| no_way())?;
    let from = usize::try_from(offset - first * group).unwrap_or(usize::MAX);
    buffer.copy_from_slice(plain.get(from..from.saturating_add(buffer.len())).ok_or_else(no_way)?);
    Ok(())
}
