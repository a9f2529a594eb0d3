//! How long `gguf_init_from_file` and `gguf_free` take together: ours, and ggml's in the same run.
//!
//! Run with `cargo bench -p gguf-capi --bench init [FILE]`; `GGUF_PEERS` names the folder of ggml's library and of llama.cpp's
//! sources, whose vocabulary of Llama 3 (7.8 MB, 408,000 strings) is the file unless another is given.

#[cfg(unix)]
fn main() {
    use std::time::{Duration, Instant};

    use gguf_test::capi::{Api, c, ggml, no_tensors, snapshot};
    use gguf_test::peers;

    const ROUNDS: usize = 21;
    let Some(peers) = peers::folder(peers::PEERS) else {
        println!("nothing to compare with: GGUF_PEERS is not set");
        return;
    };
    let given = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let file = given.unwrap_or_else(|| peers.join("llama.cpp/models/ggml-vocab-llama-bpe.gguf").display().to_string());
    let path = c(file.clone());
    let ggml = ggml(&peers);
    let apis = [Api::ours(), Api::theirs(&ggml)];

    // Both see the same in it.
    let seen = apis.each_ref().map(|api| {
        // SAFETY: the path is a C string; the context is freed once.
        unsafe {
            let ctx = (api.gguf_init_from_file)(path.as_ptr(), no_tensors());
            assert!(!ctx.is_null(), "{file} cannot be read");
            let seen = snapshot(api, ctx);
            (api.gguf_free)(ctx);
            seen
        }
    });
    assert!(seen[0] == seen[1], "the libraries see different things in {file}");

    // In turn, so that a change of the machine's speed meets both.
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (api, times) in apis.iter().zip(&mut times) {
            let start = Instant::now();
            // SAFETY: as above.
            unsafe { (api.gguf_free)((api.gguf_init_from_file)(path.as_ptr(), no_tensors())) };
            times.push(start.elapsed());
        }
    }
    let [ours, theirs] = times.map(|mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e3
    });
    println!("{file}\nlibgguf {ours:9.3} ms\nggml    {theirs:9.3} ms\nratio {:.1}", theirs / ours);
}

#[cfg(not(unix))]
fn main() {}
