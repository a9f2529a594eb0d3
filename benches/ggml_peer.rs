//! Calls ggml on behalf of another process, so that an abort in ggml only ends this one; see `isolated.rs`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let peers = gguf_benches::folder().ok_or("GGUF_PEERS is not set")?;
    gguf_benches::serve(&gguf_benches::Ggml::load(&peers)?, std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(())
}
