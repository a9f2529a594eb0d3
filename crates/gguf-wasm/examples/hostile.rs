//! Writes hostile files to a folder, for the tests of the page: `cargo run -p gguf-wasm --example hostile -- FOLDER`. They are all large ones, and one in
//! 25 of the corpus, all of which the tests of this crate open. Files that stand for longer ones are padded with zeros, sparsely.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("the folder"));
    std::fs::create_dir_all(&folder)?;
    for (i, case) in gguf_test::corpus::all().into_iter().enumerate().step_by(25) {
        let mut file = File::create(folder.join(format!("{i:03}.gguf")))?;
        file.write_all(&case.bytes)?;
        // What no file system has room for is left out: the file is then cut off.
        if case.file_bytes < 1 << 40 {
            file.set_len(case.file_bytes)?;
        }
    }
    gguf_test::hostile::write(&folder);
    Ok(())
}
