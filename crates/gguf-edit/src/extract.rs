//! Exports tensors to other formats: `.npy` for one, safetensors for several.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::Path;

use gguf_format::{GgmlType, Str, TensorInfoRef};
use gguf_io::{IntoModel, Output};
use gguf_pipeline::{Event, GgufSource, Progress, Source, workers};
use gguf_quants::codec::codec;
use gguf_quants::float;

use crate::error::Error;
use crate::npy;
use crate::pieces::{pieces, resize};
use crate::rewrite::no_tensor;

/// Approximate number of bytes of a tensor to decode at a time.
const PIECE: u64 = 256 << 10;

/// The format of a file of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// NumPy's, for one array.
    Npy,
    /// safetensors.
    Safetensors,
}

/// The type of the written values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Values {
    /// The type of the tensor if the format supports it; otherwise single precision.
    #[default]
    AsStored,
    /// This type for all: [`GgmlType::F32`], [`GgmlType::F16`] or [`GgmlType::BF16`].
    As(GgmlType),
}

/// The types supported by both safetensors and GGUF.
const SAFETENSORS: &[(&str, GgmlType)] = &[
    ("F64", GgmlType::F64),
    ("F32", GgmlType::F32),
    ("F16", GgmlType::F16),
    ("BF16", GgmlType::BF16),
    ("I64", GgmlType::I64),
    ("I32", GgmlType::I32),
    ("I16", GgmlType::I16),
    ("I8", GgmlType::I8),
];

/// A planned extraction.
#[derive(Debug)]
pub struct Extraction {
    source: GgufSource,
    tensors: Vec<Extracted>,
    header: Vec<u8>,
    file_bytes: u64,
}

/// A tensor to write.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Extracted {
    /// The index among the tensors of the model.
    pub index: usize,
    /// The type in the output.
    pub to: GgmlType,
    /// The offset of the data in the output.
    start: u64,
}

/// Plans the extraction of the tensors that match one of the patterns.
///
/// ```
/// # use gguf_format::{GgmlType, Head, TensorInfo};
/// # let folder = tempfile::tempdir()?;
/// # let (path, out) = (folder.path().join("model.gguf"), folder.path().join("output.npy"));
/// # let mut head = Head::default();
/// # head.tensors.push(TensorInfo::new("output.weight", [2], GgmlType::F32));
/// # std::fs::write(&path, gguf_io::Writer::write(Vec::new(), &head, [[0u8; 8]])?)?;
/// use gguf_edit::extract::{Format, Values, extract};
///
/// let is_name = |pattern: &str, name: gguf_format::Str<'_>| name == pattern;
/// let extraction = extract(&path, &["output.weight".into()], is_name, Format::Npy, Values::AsStored)?;
/// assert_eq!(extraction.tensors().len(), 1);
/// extraction.run(&out, false, None, &())?;
/// assert!(std::fs::read(&out)?.starts_with(b"\x93NUMPY"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::NoTensor`] for a pattern without a match, [`Error::OneTensor`], [`Error::NotDecodable`], [`Error::NotEncodable`]; or if the
/// model cannot be read.
pub fn extract(
    model: impl IntoModel,
    patterns: &[String],
    matches: impl Fn(&str, Str<'_>) -> bool,
    format: Format,
    values: Values,
) -> Result<Extraction, Error> {
    let source = GgufSource::open(model)?;
    let path = source.model().path();
    let no_tensor = |name: &str| no_tensor(path, name, source.tensors().map(|tensor| tensor.name()));
    let mut tensors = Vec::new();
    for pattern in patterns {
        if !source.tensors().any(|t| matches(pattern, t.name())) {
            return Err(no_tensor(pattern));
        }
    }
    for (index, t) in source.tensors().enumerate().filter(|(_, t)| patterns.iter().any(|p| matches(p, t.name()))) {
        tensors.push(Extracted { index, to: target(path, t.info(), format, values)?, start: 0 });
    }
    let header = match format {
        Format::Npy => {
            let one = <[&Extracted; 1]>::try_from(tensors.iter().collect::<Vec<_>>());
            let [one] = one.map_err(|several| Error::OneTensor { path: path.to_owned(), n: several.len() })?;
            let tensor = source.tensor(one.index).ok_or_else(|| no_tensor(""))?;
            let shape: Vec<u64> = tensor.shape().collect();
            npy::header(one.to, &shape).ok_or_else(|| no_way(path, tensor.info(), one.to))?
        }
        Format::Safetensors => safetensors_header(path, &source, &tensors)?,
    };
    let mut end = header.len() as u64;
    for tensor in &mut tensors {
        tensor.start = end;
        end = end.saturating_add(source.tensor(tensor.index).map_or(0, |t| n_bytes(t.info(), tensor.to)));
    }
    Ok(Extraction { source, tensors, header, file_bytes: end })
}

fn no_way(path: &Path, tensor: TensorInfoRef<'_>, to: GgmlType) -> Error {
    let (path, name) = (path.to_owned(), gguf_format::check::shown(tensor.name));
    Error::NotEncodable { path, tensor: name, from: tensor.ty, to }
}

/// The size of a tensor in the output.
fn n_bytes(tensor: TensorInfoRef<'_>, to: GgmlType) -> u64 {
    to.tensor_bytes(tensor.dims).unwrap_or(0)
}

/// The type of a tensor in the output.
fn target(path: &Path, tensor: TensorInfoRef<'_>, format: Format, values: Values) -> Result<GgmlType, Error> {
    let shown = || gguf_format::check::shown(tensor.name);
    let holds = |ty| match format {
        Format::Npy => npy::holds(ty),
        Format::Safetensors => SAFETENSORS.iter().any(|(_, t)| *t == ty),
    };
    let to = match values {
        Values::AsStored if holds(tensor.ty) => return Ok(tensor.ty),
        Values::AsStored => GgmlType::F32,
        Values::As(ty) => ty,
    };
    if to == tensor.ty && holds(to) {
        return Ok(to);
    }
    if codec(tensor.ty).is_none() {
        return Err(Error::NotDecodable { path: path.to_owned(), tensor: shown(), ty: tensor.ty });
    }
    let is_float = [GgmlType::F32, GgmlType::F16, GgmlType::BF16].contains(&to);
    if !is_float || !holds(to) {
        return Err(Error::NotEncodable { path: path.to_owned(), tensor: shown(), from: tensor.ty, to });
    }
    Ok(to)
}

/// The length and the JSON header; the data of the tensors follows in order.
fn safetensors_header(path: &Path, source: &GgufSource, tensors: &[Extracted]) -> Result<Vec<u8>, Error> {
    let mut names = HashSet::with_capacity(tensors.len());
    let mut header = [0; 8].to_vec();
    header.extend_from_slice(br#"{"__metadata__":{"format":"pt"}"#);
    let mut end = 0u64;
    for (info, to) in tensors.iter().filter_map(|t| Some((source.tensor(t.index)?.info(), t.to))) {
        let (dtype, _) = SAFETENSORS.iter().find(|(_, ty)| *ty == to).ok_or_else(|| no_way(path, info, to))?;
        let name = info.name.to_str().map_err(|_| no_way(path, info, to))?;
        if name == "__metadata__" || !names.insert(name) {
            return Err(Error::TensorExists { path: path.to_owned(), name: gguf_format::check::shown(info.name) });
        }
        let start = end;
        end = end.saturating_add(n_bytes(info, to));
        let shape: Vec<u64> = info.dims.rev().collect();
        let entry = serde_json::json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
        header.extend_from_slice(format!(",{}:{entry}", serde_json::Value::from(name)).as_bytes());
    }
    header.push(b'}');
    header.resize(header.len().next_multiple_of(8), b' ');
    let json = (header.len() as u64 - 8).to_le_bytes();
    header.iter_mut().zip(json).for_each(|(byte, len)| *byte = len);
    Ok(header)
}

impl Extraction {
    /// The tensors, in output order.
    pub fn tensors(&self) -> &[Extracted] {
        &self.tensors
    }

    /// Length of the output.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If the output would replace the model or exists already, and errors of the system. No output is left then.
    pub fn run(
        &self,
        out: &Path,
        force: bool,
        threads: Option<NonZeroUsize>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let real = |path: &Path| path.canonicalize().ok();
        if real(out)
            .is_some_and(|out| self.source.model().files().iter().any(|f| real(f.path()).as_ref() == Some(&out)))
        {
            return Err(gguf_pipeline::Error::OverwritesInput { path: out.to_owned() }.into());
        }
        let output = Output::create(out, force)?;
        progress.event(Event::Opened { path: out });
        output.set_len(self.file_bytes)?;
        output.write_at(0, &self.header)?;
        let source_bytes = |t: &Extracted| self.source.stored(t.index).map_or(0, |stored| stored.bytes);
        let bytes = self.tensors.iter().map(source_bytes).fold(0, u64::saturating_add);
        progress.event(Event::Started { n_tensors: self.tensors.len(), bytes });
        let found = self.tensors.iter().filter_map(|t| Some((t, self.source.tensor(t.index)?.info())));
        let items = found.flat_map(|(t, info)| {
            pieces(info.ty, source_bytes(t), PIECE).map(move |(from, bytes)| (t, info, from, bytes))
        });
        workers::for_each(threads, items, progress, Buffers::default, |buffers, (tensor, info, from, bytes)| {
            if from == 0 {
                let name = String::from_utf8_lossy(info.name.as_bytes());
                progress.event(Event::Tensor { index: tensor.index, name: &name });
            }
            self.write(&output, buffers, (tensor, info), from, bytes)?;
            progress.event(Event::Advanced { bytes });
            Ok::<_, Error>(())
        })?;
        progress.event(Event::Written);
        self.source.check_unchanged()?;
        output.commit()?;
        progress.event(Event::Finished);
        Ok(())
    }

    /// Writes a piece of a tensor.
    fn write(
        &self,
        output: &Output,
        buffers: &mut Buffers,
        (tensor, stored): (&Extracted, TensorInfoRef<'_>),
        from: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        let what = || gguf_format::check::shown(stored.name);
        let packed = resize(&mut buffers.packed, bytes, what)?;
        self.source.read(tensor.index, from, packed)?;
        if stored.ty == tensor.to {
            return Ok(output.write_at(tensor.start + from, packed)?);
        }
        let no_codec = || gguf_pipeline::Error::NoCodec { tensor: what() };
        let info = stored.ty.info().ok_or_else(no_codec)?;
        let (block_bytes, block_len) = (u64::from(info.block_bytes).max(1), u64::from(info.block_len));
        let (first, n) = (from / block_bytes * block_len, bytes / block_bytes * block_len);
        let values = resize(&mut buffers.values, n, what)?;
        let decode = codec(stored.ty).ok_or_else(no_codec)?;
        decode.decode(packed, values).map_err(|source| gguf_pipeline::Error::Codec {
            tensor: what(),
            row: 0,
            source,
        })?;
        let width = tensor.to.tensor_bytes([1]).unwrap_or(4);
        let encoded = resize(&mut buffers.encoded, n.saturating_mul(width), what)?;
        match tensor.to {
            GgmlType::F16 => float::encode_f16(values, encoded),
            GgmlType::BF16 => float::encode_bf16(values, encoded),
            _ => float::encode_f32(values, encoded),
        }
        Ok(output.write_at(tensor.start + first * width, encoded)?)
    }
}

#[derive(Default)]
struct Buffers {
    packed: Vec<u8>,
    values: Vec<f32>,
    encoded: Vec<u8>,
}
