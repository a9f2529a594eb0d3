//! Writes every file of the test corpus into a folder for each fuzz target: `seeds FOLDER`.

use gguf_test::{corpus, legacy};

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
    // Legacy targets put the magic and the version before their input themselves.
    for file in legacy::all() {
        let (target, skip, first): (&str, usize, &[u8]) = match (&file.bytes[..4], file.bytes[4]) {
            (b"lmgg", _) => ("legacy_ggml", 4, &[]),
            (b"fmgg", 1) => ("legacy_ggmf", 8, &[]),
            (b"fmgg", _) => ("legacy_rwkv", 8, &[]),
            (b"tjgg", version) => ("legacy_ggjt", 8, &[version - 1]),
            (b"ccgg", _) => ("legacy_ggcc", 8, &[]),
            _ => ("legacy_ggla", 8, &[]),
        };
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(file.name), [first, &file.bytes[skip..]].concat())?;
    }
    let drafts = folder.join("legacy_draft");
    fs::create_dir_all(&drafts)?;
    for case in corpus::all().iter().filter(|c| c.name.contains("draft") && c.bytes.len() <= LARGEST) {
        fs::write(drafts.join(&case.name), case.bytes.get(8..).unwrap_or_default())?;
    }
    Ok(())
}
