//! Time of `gguf_init_from_file` plus `gguf_free`, compared with ggml in the same run.
//!
//! Run with `cargo bench -p gguf-capi --bench init [FILE]`; `GGUF_PEERS` is the directory of ggml's library and of llama.cpp's sources. The
//! default file is llama.cpp's vocabulary of Llama 3 (7.8 MB, 408,000 strings).

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

    // Both libraries must read the same contents.
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

    // Alternately, so that changes of the machine's speed affect both.
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
