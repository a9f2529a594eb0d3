//! Writes every file of the test corpus into a folder for each fuzz target: `seeds FOLDER`.

use gguf_test::corpus;

use std::path::PathBuf;
use std::{env, fs, io};

/// Larger files slow a fuzzer down more than they teach it.
const LARGEST: usize = 4096;

fn main() -> io::Result<()> {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "name the folder to write the seeds to"));
    };
    for target in ["parse", "prefix_growth", "round_trip", "check"] {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        for case in corpus::all().iter().filter(|c| c.bytes.len() <= LARGEST) {
            // Two of the targets take their last bytes for something else.
            let more: &[u8] = match target {
                "prefix_growth" => &[7, 31],
                "check" => &[0, 0],
                _ => &[],
            };
            fs::write(folder.join(&case.name), [&case.bytes, more].concat())?;
        }
    }
    Ok(())
}
