//! All kinds of sources read the same bytes, and a tensor's data is the same in every form.

use std::error::Error as _;
use std::fs;
use std::io::{self, Read};
use std::sync::Arc;

use gguf_format::{ByteOrder, Dialect, GgmlType, Head, SizeError, TYPES, TensorInfo, shard, swap_blocks};
use gguf_io::{Error, InMemory, Map, Model, ModelFile, ReadAt, ShardsProblem, TensorProblem, Writer};
use gguf_quants::codec::{codec, codecs};

/// The minimal implementation of a source.
#[derive(Debug)]
struct Minimal(Vec<u8>);

impl ReadAt for Minimal {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.as_slice().read_exact_at(offset, buf)
    }
}

/// The same bytes in sources of every kind, and whether they are in memory.
fn sources(bytes: &[u8], folder: &tempfile::TempDir) -> Vec<(&'static str, bool, Box<dyn ReadAt>)> {
    let path = folder.path().join("source");
    fs::write(&path, bytes).unwrap();
    let file = || fs::File::open(&path).unwrap();
    // SAFETY: the file is written above, and not while it is mapped.
    let map = unsafe { Map::new(&file()) }.unwrap();
    let shared: Arc<[u8]> = bytes.into();
    let boxed: Box<[u8]> = bytes.into();
    let leaked: &'static [u8] = Vec::leak(bytes.to_vec());
    let any: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
    vec![
        ("file", false, Box::new(file())),
        ("shared file", false, Box::new(Arc::new(file()))),
        ("map", true, Box::new(map)),
        ("vector", true, Box::new(bytes.to_vec())),
        ("shared slice", true, Box::new(shared)),
        ("boxed slice", true, Box::new(boxed)),
        ("static slice", true, Box::new(leaked)),
        ("anything", true, Box::new(any)),
        ("wrapped", true, Box::new(InMemory(std::borrow::Cow::Borrowed(leaked)))),
        ("minimal", false, Box::new(Minimal(bytes.to_vec()))),
    ]
}

#[test]
fn sources_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    for (name, in_memory, source) in sources(&bytes, &folder) {
        assert_eq!(source.size().unwrap(), 100_000, "{name}");
        for (at, n) in [(0, 0), (0, 1), (17, 70_000), (99_999, 1), (100_000, 0), (0, 100_000)] {
            let mut buf = vec![0; n];
            source.read_exact_at(at as u64, &mut buf).unwrap();
            assert_eq!(buf, bytes[at..at + n], "{name}: {n} bytes at {at}");
        }
        for (at, n) in [(99_999, 2), (100_000, 1), (0, 100_001), (1 << 40, 1), (u64::MAX, 1)] {
            let error = source.read_exact_at(at, &mut vec![0; n]).unwrap_err();
            let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidInput];
            assert!(kinds.contains(&error.kind()), "{name}: {n} bytes at {at}: {error:?}");
        }
        for at in [0, 99_990, 100_000, 200_000] {
            let mut rest = Vec::new();
            source.stream(at).unwrap().read_to_end(&mut rest).unwrap();
            assert_eq!(rest, bytes[bytes.len().min(at as usize)..], "{name}");
        }
        assert_eq!(source.as_bytes(), in_memory.then_some(&bytes[..]), "{name}");
    }
}

/// Tensors of all types with a decoder, with rows of three blocks and two more dimensions, filled with noise.
fn model(order: ByteOrder) -> (Head, Vec<Vec<u8>>) {
    let mut state = 1u32;
    let mut noise = |n: u64| {
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..n).map(next).collect::<Vec<u8>>()
    };
    let mut head = Head { dialect: Dialect::default().with_order(order), ..Head::default() };
    head.set("general.architecture", "test");
    for codec in codecs() {
        let row = 3 * u64::from(codec.ty.info().unwrap().block_len);
        head.tensors.push(TensorInfo::new(codec.ty.to_string(), [row, 5, 2], codec.ty));
    }
    head.tensors.push(TensorInfo::new("large", [4096, 18], GgmlType::F16));
    head.tensors.push(TensorInfo::new("ids", [7], GgmlType::I32));
    head.tensors.push(TensorInfo::new("empty", [32, 0], GgmlType::F32));
    let data = head.tensors.iter().map(|t| noise(t.n_bytes().unwrap())).collect();
    (head, data)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn data_is_the_same_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let (head, little) = model(order);
        let stored = head.tensors.iter().zip(&little).map(|(t, data)| {
            let mut data = data.clone();
            if order == ByteOrder::Big {
                swap_blocks(t.ty, &mut data).unwrap();
            }
            data
        });
        let stored = stored.collect::<Vec<_>>();
        let bytes = Writer::write(Vec::new(), &head, &stored).unwrap();
        for (name, in_memory, source) in sources(&bytes, &folder) {
            let file = ModelFile::from_source(source, name).unwrap();
            assert_eq!(file.tensors().len(), head.tensors.len());
            assert!(format!("{file:?}").len() < 1000, "{file:?}");
            for ((tensor, stored), little) in file.tensors().zip(&stored).zip(&little) {
                let what = format!("{name}, {order}, {}", tensor.name());
                assert_eq!(&tensor.read().unwrap(), stored, "{what}");
                assert_eq!(tensor.n_bytes().unwrap(), stored.len() as u64);
                assert_eq!(tensor.bytes().unwrap(), *little, "{what}");
                assert_eq!(tensor.as_bytes().unwrap(), in_memory.then_some(&stored[..]), "{what}");
                let codec = codec(tensor.ty()).unwrap();
                let n = (tensor.row_len() * tensor.n_rows()) as usize;
                let mut values = vec![0.0; n];
                codec.decode(little, &mut values).unwrap();
                assert_eq!(bits(&tensor.to_f32().unwrap()), bits(&values), "{what}");
                if tensor.n_rows() < 10 {
                    continue;
                }
                let row_len = tensor.row_len() as usize;
                let rows = tensor.rows(3..9).unwrap();
                let mut found = vec![0.0; 6 * row_len];
                rows.decode_into(&mut found).unwrap();
                assert_eq!(bits(&found), bits(&values[3 * row_len..9 * row_len]), "{what}");
                let row_bytes = stored.len() / tensor.n_rows() as usize;
                let rows = rows.rows(1..4).unwrap();
                let mut found = vec![0; 3 * row_bytes];
                rows.read_into(&mut found).unwrap();
                assert_eq!(found, stored[4 * row_bytes..7 * row_bytes], "{what}");
                assert_eq!(rows.n_rows(), 3);
                assert_eq!(*rows.bytes().unwrap(), little[4 * row_bytes..7 * row_bytes], "{what}");
                assert_eq!(rows.rows(3..3).unwrap().to_f32().unwrap(), []);
            }
        }
    }
}

#[test]
fn numbers_are_borrowed_where_they_can_be() {
    let (head, data) = model(ByteOrder::Little);
    let bytes = Writer::write(Vec::new(), &head, &data).unwrap();
    // One of eight copies is aligned for the numbers.
    let mut borrowed = 0;
    for shift in 0..8 {
        let shifted: &'static [u8] = &Vec::leak([vec![0; shift], bytes.clone()].concat())[shift..];
        let file = ModelFile::from_source(shifted, "memory").unwrap();
        let ids = file.tensor("ids").unwrap();
        let expected: Vec<i32> = ids.read().unwrap().as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
        if cfg!(target_endian = "little")
            && let Some(numbers) = ids.as_slice::<i32>().unwrap()
        {
            assert_eq!(numbers, expected);
            assert_eq!(ids.rows(0..1).unwrap().as_slice::<i32>().unwrap(), Some(&expected[..]));
            borrowed += 1;
        }
        assert_eq!(ids.as_slice::<f32>().unwrap(), None);
        assert_eq!(ids.as_slice::<u8>().unwrap(), ids.as_bytes().unwrap());
        let quantized = file.tensor("q4_0").unwrap();
        assert!(quantized.as_slice::<u8>().unwrap().is_some());
        assert!(quantized.as_slice::<u16>().unwrap().is_none());
    }
    assert_eq!(borrowed, if cfg!(target_endian = "little") { 2 } else { 0 });

    let (head, data) = model(ByteOrder::Big);
    let file = ModelFile::from_source(Writer::write(Vec::new(), &head, &data).unwrap(), "memory").unwrap();
    let ids = file.tensor("ids").unwrap();
    assert!(cfg!(target_endian = "big") || ids.as_slice::<i32>().unwrap().is_none());
    assert!(ids.as_slice::<u8>().unwrap().is_some());
}

fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> TensorProblem {
    match result {
        Err(Error::Tensor { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_tensor_refuses() {
    let head =
        Head { tensors: vec![TensorInfo::new("blk.0.attn_q.weight", [32, 4], GgmlType::F32)], ..Head::default() };
    let bytes = Writer::write(Vec::new(), &head, [[1u8; 512]]).unwrap();
    let file = ModelFile::from_source(bytes.clone(), "model").unwrap();
    let tensor = file.tensor("blk.0.attn_q.weight").unwrap();
    let backwards = std::ops::Range { start: 2, end: 1 };
    for asked in [0..5, 5..5, 4..u64::MAX, backwards] {
        assert_eq!(problem(tensor.rows(asked.clone())), TensorProblem::Rows { asked, n_rows: 4 });
    }
    assert_eq!(problem(tensor.rows(1..3).unwrap().rows(0..3)), TensorProblem::Rows { asked: 0..3, n_rows: 2 });
    for given in [511, 513] {
        let needed = 512;
        let buffer = problem(tensor.read_into(&mut vec![0; given]));
        assert_eq!(buffer, TensorProblem::Buffer { needed, given: given as u64 });
    }
    for given in [127, 129] {
        let values = problem(tensor.decode_into(&mut vec![0.0; given]));
        assert_eq!(values, TensorProblem::Values { needed: 128, given: given as u64 });
    }
    assert!(!tensor.rows(0..5).unwrap_err().is_bad_file());

    // A name that does not exist.
    let error = file.tensor("blk.0.atn_q.weight").unwrap_err();
    assert_eq!(error.to_string(), "model: there is no tensor blk.0.atn_q.weight; did you mean blk.0.attn_q.weight?");
    assert_eq!(file.tensor("x").unwrap_err().to_string(), "model: there is no tensor x");
    assert!(error.is_bad_file() && file.tensor(&"x".repeat(1 << 20)).is_err());

    // A file that ends inside the data.
    let short = ModelFile::from_source(bytes[..bytes.len() - 12].to_vec(), "short").unwrap();
    let tensor = short.tensor("blk.0.attn_q.weight").unwrap();
    let truncated = |end| TensorProblem::Truncated { end, file_bytes: bytes.len() as u64 - 12 };
    assert_eq!(problem(tensor.read()), truncated(bytes.len() as u64));
    assert_eq!(problem(tensor.to_f32()), truncated(bytes.len() as u64));
    assert_eq!(problem(tensor.as_bytes()), truncated(bytes.len() as u64));
    assert_eq!(tensor.rows(0..3).unwrap().to_f32().unwrap().len(), 96);
    assert!(tensor.read().unwrap_err().to_string().ends_with("12 bytes are missing"));
    assert!(tensor.read().unwrap_err().is_bad_file());
}

#[test]
fn types_without_codec_are_not_decoded() {
    let ty = TYPES.iter().map(|t| GgmlType(t.id)).find(|&ty| codec(ty).is_none()).unwrap();
    let info = ty.info().unwrap();
    let head = Head { tensors: vec![TensorInfo::new("t", [u64::from(info.block_len)], ty)], ..Head::default() };
    let bytes = Writer::write(Vec::new(), &head, [vec![0; info.block_bytes as usize]]).unwrap();
    let file = ModelFile::from_source(bytes, "model").unwrap();
    let tensor = file.tensor("t").unwrap();
    assert_eq!(tensor.read().unwrap().len(), info.block_bytes as usize);
    assert_eq!(problem(tensor.to_f32()), TensorProblem::NotDecodable(ty));
    assert_eq!(problem(tensor.decode_into(&mut [])), TensorProblem::NotDecodable(ty));
}

/// Heads that no writer produces.
#[test]
fn shapes_and_types_without_a_size() {
    for (shape, ty, expected) in [
        (vec![32, 2], GgmlType(99), Some(SizeError::UnknownType(GgmlType(99)))),
        (vec![u64::MAX / 2, 1 << 40], GgmlType::F32, None),
        (vec![31], GgmlType::Q8_0, None),
        (vec![0, u64::MAX, u64::MAX], GgmlType::F32, None),
        (vec![1 << 40, 1 << 20], GgmlType::I8, None),
    ] {
        let head = Head { tensors: vec![TensorInfo::new("t", shape.clone(), ty)], ..Head::default() };
        let mut bytes = head.encode_as_read().unwrap();
        bytes.resize(bytes.len().next_multiple_of(32) + 64, 0);
        let file = ModelFile::from_source(bytes, "model").unwrap();
        let tensor = file.tensor("t").unwrap();
        let views = [tensor.clone(), tensor.rows(0..1).unwrap()];
        for view in views {
            let (read, f32s) = (view.read(), view.to_f32());
            assert_eq!(read.is_err(), f32s.is_err() || ty == GgmlType::I8, "{shape:?} {ty}: {read:?} {f32s:?}");
            let Err(Error::Tensor { problem, .. }) = read else { continue };
            if let Some(expected) = expected {
                assert_eq!(problem, TensorProblem::Size(expected));
            }
        }
    }
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let head = Head { tensors: vec![TensorInfo::new("t", [1000], GgmlType::F32)], ..Head::default() };
    let bytes = Writer::write(Vec::new(), &head, [[0u8; 4000]]).unwrap();
    fs::write(&path, &bytes).unwrap();
    let file = ModelFile::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(bytes.len() as u64 - 100).unwrap();
    let range = file.tensor("t").unwrap().byte_range().unwrap();
    assert_eq!(problem(file.tensor("t").unwrap().read()), TensorProblem::Shrunk { range: range.clone() });
    assert_eq!(problem(file.tensor("t").unwrap().to_f32()), TensorProblem::Shrunk { range });
}

#[test]
fn files_from_any_source_make_a_model() {
    let shard = |no: u16, count: u16, tensor: &str| {
        let mut head = Head::default();
        head.set(shard::SPLIT_NO, no);
        head.set(shard::SPLIT_COUNT, count);
        head.set(shard::SPLIT_TENSORS_COUNT, i32::from(count));
        head.tensors = vec![TensorInfo::new(tensor, [4], GgmlType::F32)];
        let bytes = Writer::write(Vec::new(), &head, [[no as u8; 16]]).unwrap();
        ModelFile::from_source(bytes, format!("shard {no}")).unwrap()
    };
    let model = Model::from_files(vec![shard(0, 2, "a"), shard(1, 2, "b")]).unwrap();
    assert_eq!(model.tensor("b").unwrap().read().unwrap(), [1; 16]);
    assert_eq!(model.tensor("b").unwrap().file().path().to_str(), Some("shard 1"));
    assert_eq!(model.tensor("c").unwrap_err().to_string(), "shard 0: there is no tensor c");
    assert_eq!(model.file_bytes(), model.files().iter().map(ModelFile::file_bytes).sum());

    let shards = |files| match Model::from_files(files) {
        Err(Error::Shards { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(shards(vec![]), ShardsProblem::NoFiles);
    for files in
        [vec![shard(1, 2, "b"), shard(0, 2, "a")], vec![shard(0, 2, "a")], vec![shard(0, 1, "a"), shard(0, 1, "b")]]
    {
        assert!(matches!(shards(files), ShardsProblem::Keys(_)));
    }
    let one = Writer::write(Vec::new(), &Head::default(), [[0u8; 0]; 0]).unwrap();
    Model::from_files(vec![ModelFile::from_source(one, "one").unwrap()]).unwrap();
}

#[test]
fn an_open_file_and_a_mapped_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let (head, data) = model(ByteOrder::Little);
    fs::write(&path, Writer::write(Vec::new(), &head, &data).unwrap()).unwrap();
    let opened = ModelFile::from_source(fs::File::open(&path).unwrap(), "upload").unwrap();
    assert_eq!(opened.path().to_str(), Some("upload"));
    // SAFETY: nothing changes the file.
    let mapped = unsafe { ModelFile::map(&path) }.unwrap();
    assert!(mapped.tensors().eq_by_data(opened.tensors()));
    assert!(mapped.tensor("large").unwrap().as_slice::<u16>().unwrap().is_some());
    assert!(opened.tensor("large").unwrap().as_slice::<u16>().unwrap().is_none());
    // SAFETY: nothing changes the file.
    let model = unsafe { Model::map(&path) }.unwrap();
    assert_eq!(model.tensor("ids").unwrap().as_bytes().unwrap(), Some(&data[data.len() - 2][..]));
    // Windows does not open folders as files.
    if cfg!(unix) {
        let opened = fs::File::open(folder.path()).unwrap();
        assert!(matches!(ModelFile::from_source(opened, "x"), Err(Error::NotAFile(_))));
    }

    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert!(matches!(ModelFile::open(&empty), Err(Error::Head { .. })));
    // SAFETY: nothing changes the file.
    assert!(matches!(unsafe { ModelFile::map(&empty) }, Err(Error::Head { .. })));
}

trait ByData<'a>: Iterator<Item = gguf_io::Tensor<'a>> + Sized {
    fn eq_by_data<'b>(self, other: impl Iterator<Item = gguf_io::Tensor<'b>>) -> bool {
        self.map(|t| t.read().unwrap()).eq(other.map(|t| t.read().unwrap()))
    }
}

impl<'a, I: Iterator<Item = gguf_io::Tensor<'a>>> ByData<'a> for I {}

/// A source whose reads always fail.
#[derive(Debug)]
struct Failing;

impl ReadAt for Failing {
    fn size(&self) -> io::Result<u64> {
        Ok(100)
    }

    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::ConnectionReset, io::Error::other("the server said no")))
    }
}

#[test]
fn a_chain_of_errors_says_nothing_twice() {
    let error = ModelFile::from_source(Failing, "https://host/model").unwrap_err();
    assert_eq!(error.to_string(), "https://host/model: cannot read: the server said no");
    let mut cause = error.source();
    while let Some(e) = cause {
        assert!(!error.to_string().contains(&e.to_string()), "{e} is repeated");
        cause = e.source();
    }
}
