//! Hostile safetensors files, indices and PyTorch files are rejected with a specific error, in bounded memory, and nothing is written.
//!
//! A program of its own because of its counting allocator.

use std::fs;
use std::path::Path;

use gguf_hf::torch::{Entry, tensors};
use gguf_hf::{Options, convert};
use gguf_pipeline::RunOptions;
use gguf_test::checkpoint::write_small_files;
use gguf_test::counting::{self, Counting};
use gguf_test::torch::hostile::{self, SOUND, sound_data};
use gguf_test::torch::state_dict;
use gguf_test::{tensor_files, torch};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The memory limit for any folder or file.
const MOST: usize = 200 << 20;

/// The error message, and the peak memory use.
fn refusal(path: &Path, out: &Path) -> (Option<String>, usize) {
    let mut result = None;
    let (_, most) = counting::count(|| {
        result = convert(path, out, &Options::default(), &RunOptions::default(), &()).err().map(|e| e.to_string());
    });
    (result, most)
}

#[test]
fn hostile_folders_are_refused_in_bounded_memory() {
    let all = tensor_files::all();
    assert!(all.len() >= 100, "only {} folders", all.len());
    let n_torch = hostile::all().len();
    assert!(all.len() + n_torch >= 400, "{} and {n_torch} PyTorch files", all.len());
    let (mut wrong, dir) = (Vec::new(), tempfile::tempdir().unwrap());
    for (i, case) in all.iter().enumerate() {
        let folder = dir.path().join(i.to_string());
        fs::create_dir(&folder).unwrap();
        write_small_files(&folder);
        for (name, bytes) in &case.files {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        // The folder, and its single file.
        let paths = [folder.clone(), folder.join(&case.files[0].0)];
        let is_alone = case.files.len() == 1 && case.files[0].0.ends_with(".safetensors");
        for path in &paths[..if is_alone { 2 } else { 1 }] {
            let problem = match refusal(path, &out.join("model.gguf")) {
                (None, _) => Some("was accepted".to_owned()),
                (Some(message), _) if !message.contains(case.expected) || message.len() > 2000 => Some(message),
                (Some(_), most) => (most > MOST).then(|| format!("{most} bytes of memory")),
            };
            wrong.extend(problem.map(|problem| format!("{}: {problem:.600}", case.name)));
        }
        if fs::read_dir(&out).unwrap().count() > 0 {
            wrong.push(format!("{}: something was written", case.name));
        }
        fs::remove_dir_all(&out).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    tensors(&bytes.to_vec()).map_err(|e| e.to_string())
}

/// Allocations by concurrent tests are small compared with the limit.
#[test]
fn hostile_files_are_refused_in_bounded_memory() {
    let all = hostile::all();
    assert!(all.len() >= 300, "only {} files", all.len());
    let mut wrong = Vec::new();
    for case in &all {
        let mut result = Ok(Vec::new());
        let (_, most) = counting::count(|| result = read(&case.bytes));
        let problem = match result {
            Ok(found) => Some(format!("was accepted: {found:?}")),
            Err(message) if !message.contains(case.expected) || message.len() > 1000 => Some(message),
            Err(_) => (most > MOST).then(|| format!("{most} bytes of memory")),
        };
        wrong.extend(problem.map(|problem| format!("{}: {problem:.1000}", case.name)));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));

    // Every truncation and every changed byte gives an error, or tensors within the file.
    let sound = [
        torch::file(&state_dict(&[SOUND]), &[("0", sound_data())]),
        torch::stream(&state_dict(&[SOUND]), &[("0", 6, sound_data())]),
    ];
    for bytes in &sound {
        assert_eq!(read(bytes).unwrap().len(), 1);
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                for entry in read(&changed).unwrap_or_default() {
                    let end = entry.offset + entry.storage_bytes;
                    assert!(end <= changed.len() as u64, "byte {at}: {entry:?}");
                }
            }
        }
    }
}
