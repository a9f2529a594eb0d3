//! Whatever ends a conversion, and whenever: the output's name shows the old file, the new one or none.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{folder, gguf, glossary, names, program, text};
use serde_json::{Map, Value, json};

/// The glossary model with more layers: some tens of MB.
const LAYERS: usize = 24;

/// Makes the checkpoint: the layers of the small one over and over.
fn checkpoint(dir: &Path) -> PathBuf {
    let from = glossary();
    let to = dir.join("model");
    fs::create_dir(&to).unwrap();
    for file in ["tokenizer.model", "tokenizer_config.json"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
    let mut config: Value = serde_json::from_slice(&fs::read(from.join("config.json")).unwrap()).unwrap();
    let layers = config["num_hidden_layers"].as_u64().unwrap() as usize;
    config["num_hidden_layers"] = LAYERS.into();
    fs::write(to.join("config.json"), config.to_string()).unwrap();

    let bytes = fs::read(from.join("model.safetensors")).unwrap();
    let (len, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let mut new_header = Map::new();
    let mut new_data = Vec::new();
    let mut add = |name: String, info: &Value| {
        let at = |i: usize| info["data_offsets"][i].as_u64().unwrap() as usize;
        let start = new_data.len();
        new_data.extend_from_slice(&data[at(0)..at(1)]);
        let offsets = json!([start, new_data.len()]);
        new_header.insert(name, json!({ "dtype": info["dtype"], "shape": info["shape"], "data_offsets": offsets }));
    };
    for (name, info) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        match name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.')) {
            None => add(name.clone(), info),
            Some((layer, rest)) => {
                let layer: usize = layer.parse().unwrap();
                for copy in (layer..LAYERS).step_by(layers) {
                    add(format!("model.layers.{copy}.{rest}"), info);
                }
            }
        }
    }
    let header = Value::Object(new_header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &new_data].concat();
    fs::write(to.join("model.safetensors"), file).unwrap();
    to
}

fn start(from: &Path, out: &Path) -> Child {
    let mut command = program();
    command.args(["convert", "--force", text(from), "-o", text(out)]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn remove_partial(dir: &Path) -> usize {
    let partial: Vec<String> = names(dir).into_iter().filter(|n| n.ends_with(".partial")).collect();
    partial.iter().for_each(|n| fs::remove_file(dir.join(n)).unwrap());
    partial.len()
}

#[test]
fn a_killed_conversion_leaves_the_old_file_the_new_one_or_none() {
    const KILLS: u32 = 36;
    let dir = folder();
    let from = checkpoint(dir.path());
    let place = dir.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("model.gguf");

    let begin = Instant::now();
    assert!(start(&from, &out).wait().unwrap().success());
    let whole = begin.elapsed();
    gguf(["check", text(&out)]).exits(0);
    let new = fs::read(&out).unwrap();
    let old = b"the old file".as_slice();
    fs::remove_file(&out).unwrap();

    let (mut partial, mut old_ones, mut none, mut new_ones) = (0, 0, 0, 0);
    for i in 0..KILLS {
        let has_old = i % 2 == 0;
        if has_old {
            fs::write(&out, old).unwrap();
        }
        let mut child = start(&from, &out);
        // Past the end of an ordinary run too.
        std::thread::sleep(whole.mul_f64(f64::from(i) * 1.2 / f64::from(KILLS)));
        // It may be through already.
        let _ = child.kill();
        child.wait().unwrap();
        match fs::read(&out) {
            Ok(found) if found == new => {
                new_ones += 1;
                gguf(["check", text(&out)]).exits(0);
            }
            Ok(found) => {
                assert!(has_old && found == old, "after kill {i} there is something else, of {} bytes", found.len());
                old_ones += 1;
            }
            Err(_) => {
                assert!(!has_old, "after kill {i} the old file is gone");
                none += 1;
            }
        }
        partial += remove_partial(&place);
        let _ = fs::remove_file(&out);
        assert_eq!(names(&place), [""; 0]);
    }
    eprintln!(
        "{KILLS} kills: {old_ones} old files, {none} times none, {new_ones} new files; {partial} in the middle of writing"
    );
    assert!(old_ones > 0 && none > 0, "no kill came early enough");
    assert!(partial > 0, "no kill struck while the file was being written");
}

/// Killed over and over, each time later, until it is through.
#[test]
fn a_killed_conversion_is_resumed() {
    let dir = folder();
    let from = checkpoint(dir.path());
    let place = dir.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("model.gguf");
    let convert = |threads: &str| {
        let mut command = program();
        command.args(["convert", "--resume", text(&from), "-o", text(&out), "-j", threads]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let begin = Instant::now();
    assert!(convert("2").status().unwrap().success());
    let whole = begin.elapsed();
    let new = fs::read(&out).unwrap();

    let (mut kills, mut resumed) = (0, 0);
    for round in 0..4 {
        fs::remove_file(&out).unwrap();
        for attempt in 1.. {
            let mut child = convert(["1", "2", "3"][attempt % 3]).spawn().unwrap();
            std::thread::sleep(whole.mul_f64(0.15 * attempt as f64 + 0.03 * f64::from(round)));
            // It may be through already.
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            if output.status.success() {
                resumed += u32::from(String::from_utf8_lossy(&output.stderr).contains("resumed: "));
                break;
            }
            assert_eq!(output.status.code(), None, "{}", String::from_utf8_lossy(&output.stderr));
            // The file may have its name, and the journal still be there.
            assert!(!out.exists() || names(&place) == ["model.gguf", "model.gguf.journal"]);
            kills += 1;
        }
        assert!(fs::read(&out).unwrap() == new);
        assert_eq!(names(&place), ["model.gguf"]);
    }
    eprintln!("{kills} kills, {resumed} of 4 times something was there to go on with");
    assert!(resumed > 0, "no kill struck while the file was being written");
}

#[cfg(unix)]
#[test]
fn what_a_signal_interrupts_is_kept_when_asked() {
    let dir = folder();
    let from = checkpoint(dir.path());
    let place = dir.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("model.gguf");
    let resume = |options: &[&str]| {
        let mut command = program();
        command.args(["convert", "--resume", text(&from), "-o", text(&out)]).args(options);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut interrupted = 0;
    for signal in ["-INT", "-TERM", "-HUP"] {
        let child = resume(&[]);
        let deadline = Instant::now() + Duration::from_secs(60);
        while names(&place).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        if !out.exists() {
            interrupted += 1;
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{err}");
            let kept = format!("{0}.partial and {0}.journal; the same command continues from there\n", text(&out));
            assert!(err.ends_with(&format!("gguf: error: interrupted; what is done is kept in {kept}")), "{err}");
            assert_eq!(names(&place), ["model.gguf.journal", "model.gguf.partial"]);
            let other = resume(&["--name", "Another"]).wait_with_output().unwrap();
            let err = String::from_utf8_lossy(&other.stderr);
            assert_eq!(other.status.code(), Some(2), "{err}");
            assert!(err.contains("cannot be continued: the output's metadata are others; "), "{err}");
            assert!(resume(&[]).wait().unwrap().success());
        }
        assert_eq!(names(&place), ["model.gguf"]);
        gguf(["check", text(&out)]).exits(0);
        fs::remove_file(&out).unwrap();
    }
    assert!(interrupted > 0, "no signal came early enough");
}

#[cfg(unix)]
#[test]
fn an_interrupted_conversion_cleans_up() {
    let dir = folder();
    let from = checkpoint(dir.path());
    let place = dir.path().join("out");
    fs::create_dir(&place).unwrap();
    let out = place.join("model.gguf");
    let mut interrupted = 0;
    for signal in ["-INT", "-TERM", "-HUP"] {
        fs::write(&out, "the old file").unwrap();
        let child = start(&from, &out);
        // As soon as the temporary file is there.
        let deadline = Instant::now() + Duration::from_secs(60);
        while names(&place).len() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(names(&place), ["model.gguf"]);
        if fs::read(&out).unwrap() == b"the old file" {
            interrupted += 1;
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{err}");
            assert!(err.ends_with("gguf: error: interrupted; no output was written\n"), "{err}");
        }
    }
    assert!(interrupted > 0, "no signal came early enough");
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_so_large_is_an_error_and_leaves_nothing() {
    let dir = folder();
    let out = dir.path().join("out.gguf");
    for options in [&["-q"][..], &["--resume"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 100; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_gguf"), "convert"]);
        let output = command.arg(glossary()).arg("-o").arg(&out).args(options).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("out.gguf: cannot make room for the whole file: File too large"), "{err}");
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let dir = folder();
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs", text(&disk)]).output();
    if !mounted.as_ref().is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here: {mounted:?}");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let run = gguf(["convert", text(&glossary()), "-o", text(&disk.join("out.gguf"))]).exits(2);
        run.says(&["gguf: error: ", "out.gguf: cannot make room for the whole file: ", "No space left on device"]);
        assert_eq!(names(&disk), [""; 0]);
        // Nothing is done yet, so there is nothing to keep.
        let (from, out) = (glossary(), disk.join("out.gguf"));
        let convert = ["convert", "--resume", text(&from), "-o", text(&out)];
        gguf(convert).exits(2).says(&["out.gguf: cannot make room for the whole file: "]);
        assert_eq!(names(&disk), [""; 0]);
        // What stood there before still does.
        fs::write(disk.join("out.gguf"), "old").unwrap();
        gguf(["convert", "--force", text(&glossary()), "-o", text(&disk.join("out.gguf"))]).exits(2);
        assert_eq!(fs::read(disk.join("out.gguf")).unwrap(), b"old");
        assert_eq!(names(&disk), ["out.gguf"]);
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
