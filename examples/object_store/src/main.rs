//! Opens a model in an object store, asynchronously and in few requests, and reads a tensor: `cargo run -p example-object-store`.
//!
//! The store is in memory; other stores of the crate `object_store`, such as buckets, take the same calls. The program runs on WebAssembly,
//! too: it needs no threads.

mod remote;

use std::error::Error;
use std::sync::Arc;

use ggufkit::{GgmlType, Head, TensorInfo, Writer};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::remote::Remote;

/// A model with a large vocabulary, as multilingual models have: the head is 7.8 MB long.
fn large_model() -> Result<Vec<u8>, Box<dyn Error>> {
    let token = |i: u32| format!("token {i:06}");
    let mut head = Head::default();
    head.set("general.architecture", "llama");
    head.set("tokenizer.ggml.tokens", (0..280_000).map(token).collect::<Vec<String>>());
    head.set("tokenizer.ggml.scores", vec![0.0f32; 280_000]);
    head.set("tokenizer.ggml.token_type", vec![1i32; 280_000]);
    head.tensors = vec![
        TensorInfo::new("token_embd.weight", [32, 1000], GgmlType::F32),
        TensorInfo::new("output_norm.weight", [32], GgmlType::F32),
    ];
    let data: Vec<u8> = (0..32_000).flat_map(|i| (i as f32).to_le_bytes()).collect();
    Ok(Writer::write(Vec::new(), &head, [&data[..], &data[..128]])?)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("models/large.gguf");
    store.put(&path, large_model()?.into()).await?;

    let remote = Remote::new(store, path);
    let opened = remote.open().await?;
    println!("a head of {} bytes in {} requests", opened.gguf.head_bytes(), remote.n_requests());
    assert!(opened.gguf.head_bytes() > 7_800_000 && remote.n_requests() <= 3);

    // One more request fetches the tensors that are needed; the model then reads them as from a file.
    let model = remote.fetch(opened, &["output_norm.weight"]).await?;
    let values = model.tensor("output_norm.weight")?.to_f32()?;
    println!("output_norm.weight: {} values from {} to {}", values.len(), values[0], values[31]);
    assert_eq!(remote.n_requests(), 4);
    println!("{}", model.tensor("token_embd.weight")?.to_f32().expect_err("it was not fetched"));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().build()?.block_on(run())
}

#[test]
fn the_program_runs() {
    main().unwrap();
}
