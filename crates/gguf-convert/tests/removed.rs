//! Removed types against the library of their time: the values that it made of the tensors of a file that it wrote.
//!
//! Needs the shared test data: `GGUF_SHARED` names its folder. Without it the test says so and does nothing; with it it has
//! to find the data.

use std::fs;
use std::path::PathBuf;

use gguf_format::GgmlType;
use gguf_quants::{Isa, codec::codec};
use serde_json::Value;
use sha2::{Digest, Sha256};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn q4_2_decodes_as_in_may_2023() {
    let Some(shared) = std::env::var_os("GGUF_SHARED").map(PathBuf::from) else {
        println!("q4_2_decodes_as_in_may_2023: skipped, GGUF_SHARED is not set");
        return;
    };
    let path = shared.join("data/legacy/ggjt-v1/tiny-llama.ggjt-v1.q4_2.bin");
    let file = fs::read(&path).unwrap();
    let facts: Value = serde_json::from_slice(&fs::read(path.with_extension("bin.json")).unwrap()).unwrap();
    let mut n = 0;
    for tensor in facts["tensors"].as_array().unwrap().iter().filter(|t| t["type"] == "Q4_2") {
        let [at, len] = ["file_offset", "n_bytes"].map(|k| tensor[k].as_u64().unwrap() as usize);
        let packed = &file[at..at + len];
        assert_eq!(sha256(packed), tensor["raw_sha256"].as_str().unwrap());
        let codec = codec(GgmlType::Q4_2).unwrap();
        let decode = |isa| {
            let mut values = vec![0.0f32; len / 10 * 16];
            codec.decode(isa, packed, &mut values).unwrap();
            values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()
        };
        let values = decode(Isa::Scalar);
        assert_eq!(sha256(&values), tensor["dequant_f32_sha256"].as_str().unwrap(), "{}", tensor["name"]);
        for isa in Isa::available() {
            assert!(decode(isa) == values, "{} {isa}", tensor["name"]);
        }
        n += 1;
    }
    assert!(n > 0, "no tensor of the type");
}
