//! Sources of bytes with their own size of reads, heads that were read elsewhere, and look-ups by name.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_format::{Dialect, GgmlType, Gguf, Head, TensorInfo, Version};
use gguf_io::{Error, Model, ModelFile, ReadAt, TensorPlace, Writer};

/// A source that counts its reads.
#[derive(Debug)]
struct Remote {
    bytes: Vec<u8>,
    preferred: usize,
    reads: Arc<AtomicUsize>,
}

impl ReadAt for Remote {
    fn size(&self) -> io::Result<u64> {
        self.bytes.as_slice().size()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.as_slice().read_exact_at(offset, buf)
    }

    fn preferred_read(&self) -> usize {
        self.preferred
    }
}

/// A file with a head of some megabytes and a tensor of one.
fn large() -> Vec<u8> {
    let mut head = Head::default();
    head.set("tokenizer.ggml.tokens", (0..200_000).map(|i| format!("token {i}")).collect::<Vec<String>>());
    head.tensors = vec![TensorInfo::new("weight", [1024, 512], GgmlType::F16)];
    let data: Vec<u8> = (0..1024 * 512).flat_map(|i: u32| (i as u16 & 0x3fff).to_le_bytes()).collect();
    Writer::write(Vec::new(), &head, [data]).unwrap()
}

#[test]
fn reads_have_the_size_that_the_source_prefers() {
    let bytes = large();
    let expected = ModelFile::from_source(bytes.clone(), "memory").unwrap();
    let values = expected.tensor("weight").unwrap().to_f32().unwrap();
    let head_bytes = expected.gguf().head_bytes();
    assert!(head_bytes > 3 << 20);
    for (preferred, most_head, most_data) in [(0, 20, 8), (1 << 20, 5, 1), (8 << 20, 1, 1)] {
        let reads = Arc::new(AtomicUsize::new(0));
        // Shared sources have the same preference.
        let remote = Arc::new(Remote { bytes: bytes.clone(), preferred, reads: reads.clone() });
        let file = ModelFile::from_source(remote, "remote").unwrap();
        assert_eq!(file.gguf().bytes(), expected.gguf().bytes());
        let n = reads.swap(0, Ordering::Relaxed);
        assert!(n > 0 && n <= most_head, "{preferred}: {n} reads of the head");
        assert_eq!(file.tensor("weight").unwrap().to_f32().unwrap(), values);
        let n = reads.load(Ordering::Relaxed);
        assert!(n > 0 && n <= most_data, "{preferred}: {n} reads of the data");
    }
}

#[test]
fn a_head_from_elsewhere_is_not_read_again() {
    let bytes = large();
    let gguf = Gguf::parse(bytes.clone()).unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let file =
        ModelFile::from_head(gguf, Remote { bytes: bytes.clone(), preferred: 0, reads: reads.clone() }, "remote")
            .unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 0);
    assert_eq!(file.file_bytes(), bytes.len() as u64);
    let expected = ModelFile::from_source(bytes, "memory").unwrap();
    assert_eq!(file.tensor("weight").unwrap().read().unwrap(), expected.tensor("weight").unwrap().read().unwrap());
}

/// Heads may have names twice; the first tensor is meant, as in ggml.
#[test]
fn names_are_found() {
    let mut head = Head::default();
    let mut names: Vec<String> = (0..300).map(|i| format!("blk.{}.weight", (i * 7919) % 300)).collect();
    names.extend(["a".to_owned(), String::new(), "blk.5.weight.longer".to_owned()]);
    head.tensors = names.iter().map(|name| TensorInfo::new(name.as_str(), [1], GgmlType::F32)).collect();
    let data: Vec<[u8; 4]> = (0..names.len()).map(|i| (i as f32).to_le_bytes()).collect();
    let mut bytes = Writer::write(Vec::new(), &head, data).unwrap();
    // The second occurrence of a name.
    let at = bytes.windows(13).rposition(|window| window == b"blk.11.weight").unwrap();
    bytes[at..at + 13].copy_from_slice(b"blk.12.weight");
    let model = Arc::new(Model::from_source(bytes, "model").unwrap());
    let mut twice = 0;
    for name in &names {
        let first = model.gguf().tensor(name).map(|info| info.index);
        let place = first.map(|index| TensorPlace { file: 0, index });
        assert_eq!(model.locate(name), place, "{name}");
        let Some(place) = place else { continue };
        twice += usize::from(model.gguf().tensors().filter(|info| info.name == **name).count() > 1);
        let handle = model.handle(place).unwrap();
        assert_eq!(handle.tensor().to_f32().unwrap(), [place.index as f32]);
        assert_eq!(model.tensor(name).unwrap().info(), handle.tensor().info());
    }
    assert_eq!(twice, 1);
    assert!(
        matches!(model.tensor("blk.12.weigth"), Err(Error::NoTensor { nearest, .. }) if nearest[0] == "blk.12.weight")
    );
    let similar = |name: &str| match model.tensor(name) {
        Err(Error::NoTensor { nearest, .. }) => nearest,
        found => panic!("{found:?}"),
    };
    // The end of a name is missing.
    assert_eq!(similar("blk.12")[0], "blk.12.weight");
    assert_eq!(similar("blk.5.weigh")[0], "blk.5.weight");
    assert_eq!(similar("blk.5.weight.long"), ["blk.5.weight.longer", "blk.5.weight"]);
    assert!(
        model.handle(TensorPlace { file: 0, index: 303 }).is_none()
            && model.handle(TensorPlace { file: 1, index: 0 }).is_none()
    );
}

#[test]
fn dimensions_from_both_ends_and_ranges_of_rows() {
    for version in [Version::V1, Version::V3] {
        let mut head = Head { dialect: Dialect::new(version), ..Head::default() };
        head.tensors = vec![TensorInfo::new("t", [64, 3, 5], GgmlType::Q8_0), TensorInfo::new("s", [7], GgmlType::F16)];
        let layout = head.layout().unwrap();
        let gguf = Gguf::parse(layout.head()).unwrap();
        let t = gguf.tensor("t").unwrap();
        assert_eq!(t.dims.rev().collect::<Vec<_>>(), [5, 3, 64], "{version:?}");
        let mut dims = t.dims;
        assert_eq!((dims.next_back(), dims.next(), dims.next_back(), dims.next()), (Some(5), Some(64), Some(3), None));
        assert_eq!(t.row_range(0..15), Some(0..15 * 68));
        assert_eq!(t.row_range(15..15), Some(15 * 68..15 * 68));
        assert_eq!((t.row_range(0..16), t.row_range(16..16)), (None, None));
        let s = gguf.tensor("s").unwrap();
        assert_eq!((s.row_range(0..1), s.row_range(1..2)), (Some(0..14), None));
    }
}
