//! Saves the intact parts of a damaged file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gguf_format::{ByteOrder, Dialect, GgmlType, Head, Version, swap_blocks};
use gguf_io::{FileState, ReadAt};
use gguf_pipeline::plan::{Draft, Input, Keep, Op, Reason, Rounding, Shape, TensorPlan};
use gguf_pipeline::{Progress, RunOptions, Source};

use super::{Diagnosis, MendedHead, io_error};
use crate::EditError;

/// The tensors of a damaged file.
#[derive(Debug)]
struct IntactTensors {
    path: PathBuf,
    file: File,
    state: FileState,
    order: ByteOrder,
    /// Type, offset and length of each.
    tensors: Vec<(GgmlType, u64, u64)>,
}

impl Source for IntactTensors {
    fn read(&self, index: usize, offset: u64, buffer: &mut [u8]) -> Result<(), gguf_pipeline::Error> {
        let tensor = || format!("number {index}");
        let found = self.tensors.get(index).copied();
        let found = found.filter(|(_, _, len)| offset.checked_add(buffer.len() as u64).is_some_and(|end| end <= *len));
        let Some((ty, at, _)) = found else {
            return Err(gguf_pipeline::Error::OutOfTensor { tensor: tensor(), bytes: 0 });
        };
        let read = self.file.read_exact_at(at + offset, buffer);
        read.map_err(|source| gguf_io::Error::Io { path: tensor().into(), action: "read", source })?;
        if self.order == ByteOrder::Big {
            swap_blocks(ty, buffer).map_err(|_| gguf_pipeline::Error::NoCodec { tensor: tensor() })?;
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), gguf_pipeline::Error> {
        match FileState::of(&self.file).is_ok_and(|state| state == self.state) {
            true => Ok(()),
            false => Err(gguf_io::Error::Changed(self.path.clone()).into()),
        }
    }
}

/// Writes the key-values and the intact tensors; returns the size of the file.
pub(super) fn save(
    diagnosis: &Diagnosis,
    head: &MendedHead,
    out: &Path,
    force: bool,
    progress: &dyn Progress,
) -> Result<u64, EditError> {
    let Diagnosis { path, file, state, .. } = diagnosis;
    let mut kvs = Head::without_tensors(&head.gguf);
    let order = kvs.dialect.order;
    kvs.dialect = Dialect::new(Version::V3);
    let n_whole = diagnosis.tensors().filter(|tensor| tensor.is_whole()).count();
    let (mut plans, mut places) = (Vec::with_capacity(n_whole), Vec::with_capacity(n_whole));
    for tensor in diagnosis.tensors().filter(|tensor| tensor.is_whole()) {
        let input = Input::new(plans.len(), "", tensor.ty);
        let (shape, kept): (Shape, _) = (tensor.shape.collect(), Reason::Kept(Keep::Copy));
        plans.push(TensorPlan::new(tensor.name.as_bytes(), shape, tensor.ty, kept, Op::Copy(input)));
        places.push((tensor.ty, tensor.range.start, tensor.range.end - tensor.range.start));
    }
    let file = file.try_clone().map_err(io_error(path, "open"))?;
    let draft = Draft {
        path: path.clone(),
        head: kvs,
        tensors: plans,
        source: Arc::new(IntactTensors { path: path.clone(), file, state: *state, order, tensors: places }),
        rounding: Rounding::Ggml,
        importance: None,
        inputs: path.canonicalize().into_iter().collect(),
        input_bytes: None,
        is_split: false,
        is_vocab_only: false,
    };
    let plan = draft.lay_out()?;
    plan.run(out, &RunOptions::default().force(force), progress)?;
    Ok(plan.file_bytes())
}
