//! Calls ggml for another process, so that only this one ends where ggml aborts; see `isolated.rs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let peers = gguf_benches::folder().ok_or("GGUF_PEERS is not set")?;
    gguf_benches::serve(&gguf_benches::Ggml::load(&peers)?, std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(())
}
