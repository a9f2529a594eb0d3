//! Importance matrices written by the program, used by real llama.cpp: its quantizer gives the same bytes as with the original matrices.
//! Requires `GGUF_PEERS` and `GGUF_SHARED` like `convert.rs`.

use gguf_format::Gguf;
use gguf_quantize::imatrix::{ImatrixFile, Merge};
use gguf_test::peers::Peers;
use gguf_test::program::gguf;

/// Types whose quantizers differ in how they use importance: Q4_K_M, IQ2_XXS.
const FILE_TYPES: &[&str] = &["15", "19"];

fn imatrix(args: &[&str]) {
    gguf([&["imatrix"], args].concat()).exits(0);
}

/// The data section of a file.
fn data(path: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    let start = Gguf::parse(bytes.as_slice()).unwrap().data_offset() as usize;
    bytes.split_off(start)
}

fn llama_cpp_quantizes_the_same_with_what_is_written() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let of = |name: &str| peers.data(name).to_str().unwrap().to_owned();
    let (model, original, old) = (of("glossary-bf16.gguf"), of("glossary-imatrix.gguf"), of("glossary-imatrix.dat"));

    // Merging one matrix restores the original. Merging it twice doubles it: the same means, to the bit.
    let (single, double) = (path("single.gguf"), path("double.gguf"));
    imatrix(&["merge", &original, "-o", &single]);
    assert!(std::fs::read(&single).unwrap() == std::fs::read(&original).unwrap());
    imatrix(&["merge", &original, &original, "-o", &double]);
    // The original in the old format, converted by llama-imatrix.
    let dat = path("x.dat");
    imatrix(&["convert", &original, &dat]);
    assert!(std::fs::read(&dat).unwrap() == std::fs::read(&old).unwrap());
    // Converted back, the means have been rounded, but are equal to those of the old file, to the bit.
    let back = path("back.gguf");
    imatrix(&["convert", &dat, &back, "--chunk-size", "128"]);
    let (from_old, from_back) = (ImatrixFile::open(&old).unwrap(), ImatrixFile::open(&back).unwrap());
    assert_eq!(from_old.n_entries(), 21);
    for entry in from_old.entries() {
        assert!(from_old.weights(entry.name).unwrap() == from_back.weights(entry.name).unwrap());
    }
    let mut merge = Merge::new(128).unwrap();
    merge.add(&from_back).unwrap();
    assert_eq!(merge.finish().chunk_count, ImatrixFile::open(&original).unwrap().chunk_count());

    let theirs = |matrix: &str, ty: &str| {
        let out = path("theirs.gguf");
        peers.ask(&["llama-quantize", &model, &out, ty, "--imatrix", matrix]);
        data(&out)
    };
    let ours = |matrix: &str, ty: &str| {
        let out = path("ours.gguf");
        let args = ["quantize", &model, &out, ty, "--imatrix", matrix, "-f", "-q"];
        gguf(args).exits(0);
        data(&out)
    };
    for ty in FILE_TYPES {
        assert!(theirs(&original, ty) == theirs(&double, ty), "{ty}, the sum of two");
        assert!(theirs(&back, ty) == ours(&old, ty), "{ty}, back from the old format");
    }
}

gguf_test::tests! {
    [Peers, Shared] llama_cpp_quantizes_the_same_with_what_is_written;
}
