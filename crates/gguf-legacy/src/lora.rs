//! LoRA adapters of llama.cpp (GGLA): rank and alpha, then two tensors for each matrix.

use std::path::Path;
use std::sync::OnceLock;

use gguf_format::GgmlType;
use gguf_io::ReadAt;

use crate::arrange::{Arranged, Arrangement};
use crate::block::{Encoding, Generation};
use crate::container::Container;
use crate::cursor::{Cursor, Stop};
use crate::detect::Recognition;
use crate::error::Error;
use crate::file::{Bytes, LegacyFile, Piece, Tensor};
use crate::layout::{Family, Hparams};
use crate::malformed::{Field, Malformed};
use crate::names::{Name, name};
use crate::walk::{Record, TokenTexts, read_record};

/// An adapter, read up to its end or its first problem.
struct Adapter {
    rank: u32,
    alpha: u32,
    records: Vec<Record>,
    end: Option<Malformed>,
}

/// Rules: `llama_apply_lora_from_file_internal` in `llama.cpp` of 2023, and `convert-lora-to-ggml.py`.
fn read(bytes: &dyn ReadAt, len: u64, from: u64) -> std::io::Result<Adapter> {
    let mut cursor = Cursor::new(bytes, len);
    cursor.seek(from.min(len));
    let mut adapter = Adapter { rank: 0, alpha: 0, records: Vec::new(), end: None };
    match run(&mut adapter, &mut cursor) {
        Ok(()) => Ok(adapter),
        Err(Stop::Bad(end)) => Ok(Adapter { end: Some(end), ..adapter }),
        Err(Stop::Io(e)) => Err(e),
    }
}

fn run(adapter: &mut Adapter, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
    let number = |cursor: &mut Cursor<'_>, name| {
        let (at, field) = (cursor.pos(), Field::Hparam(name));
        let value = cursor.u32(&field)?;
        match value {
            1..=65_536 => Ok(value),
            _ => Err(Stop::Bad(Malformed::number(field, at, value, "a number from 1 to 65536"))),
        }
    };
    adapter.rank = number(cursor, "r")?;
    adapter.alpha = number(cursor, "lora_alpha")?;
    // Adapters only ever had plain floats.
    let plain = |code| (code <= 1).then_some(Encoding::Present(GgmlType(code)));
    while !cursor.is_at_end() {
        let number = adapter.records.len() as u64;
        if number >= 1 << 16 {
            let at = cursor.pos();
            return Err(Malformed::number(Field::TensorDims(number), at, 65_536, "at most 65536 tensors").into());
        }
        adapter.records.push(read_record(cursor, Container::Ggla, number, plain)?);
    }
    Ok(())
}

/// Identifies an adapter.
pub(crate) fn recognise(bytes: &dyn ReadAt, len: u64, from: u64) -> std::io::Result<Recognition> {
    let adapter = read(bytes, len, from)?;
    Ok(Recognition {
        container: Container::Ggla,
        families: vec![Family::Llama],
        file_type: None,
        n_tensors: adapter.records.len(),
        problem: adapter.end,
    })
}

/// Opens an adapter. llama.cpp's adapters were for Llama only.
pub(crate) fn open(path: &Path, bytes: Bytes, len: u64, from: u64) -> Result<LegacyFile, Error> {
    let adapter = read(&bytes, len, from).map_err(Error::io("read", path))?;
    if let Some(source) = adapter.end {
        let container = Some(Container::Ggla);
        return Err(Error::Malformed { path: path.to_owned(), container, family: None, source });
    }
    let tensor = |record: Record| {
        let row_len = record.shape.first().copied().unwrap_or(1);
        let n_rows = record.shape.iter().skip(1).product();
        let pieces = vec![Piece { part: 0, offset: record.offset, row_len, n_rows }];
        let Record { name, shape, encoding, .. } = record;
        Tensor { name, shape, encoding, pieces, are_columns: false }
    };
    Ok(LegacyFile {
        parts: vec![(path.to_owned(), bytes)],
        container: Container::Ggla,
        family: Family::Llama,
        generation: Generation::Present,
        is_generation_unsure: false,
        hparams: Hparams::default(),
        tokens: TokenTexts::default(),
        scores: Vec::new(),
        merges: Vec::new(),
        tensors: adapter.records.into_iter().map(tensor).collect(),
        file_bytes: len,
        lora: Some((adapter.rank, adapter.alpha)),
        vocabulary: OnceLock::new(),
    })
}

/// Arranges the tensors of an adapter. In each pair, `loraA` is transposed: the rank is its contiguous dimension.
///
/// # Errors
/// If a tensor does not belong to a matrix of Llama, or does not have the adapter's rank.
pub(crate) fn arrange(file: &LegacyFile) -> Result<Arrangement<'_>, Error> {
    let mut tensors = Vec::new();
    let rank = file.lora.map_or(0, |(rank, _)| u64::from(rank));
    for tensor in &file.tensors {
        let base = tensor.name.strip_suffix(".loraA").map(|base| (base, true));
        let base = base.or_else(|| tensor.name.strip_suffix(".loraB").map(|base| (base, false)));
        let named = base.and_then(|(base, is_a)| match name(Family::Llama, base) {
            Name::Output(named) => Some((named, is_a)),
            _ => None,
        });
        let Some((mut named, is_a)) = named else {
            let (path, tensor) = (file.path().to_owned(), tensor.name.clone());
            return Err(Error::UnknownTensor { path, tensor, family: file.family });
        };
        if tensor.shape.len() != 2 || tensor.shape.first() != Some(&rank) {
            return Err(Error::Shape {
                path: file.path().to_owned(),
                tensor: tensor.name.clone(),
                found: tensor.shape.clone(),
                expected: format!("two dimensions, the first of them {rank}, the rank"),
            });
        }
        named.name.push_str(if is_a { ".lora_a" } else { ".lora_b" });
        let mut item = Arranged::new(tensor, named);
        // A rank of 1 is kept as a dimension.
        item.shape = tensor.shape.clone();
        if is_a {
            item.shape.reverse();
            item.transposed = true;
        }
        tensors.push(item);
    }
    Ok(Arrangement { tensors, left_out: Vec::new(), n_head_kv: None, n_ff: None })
}
