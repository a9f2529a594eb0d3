//! PyTorch files: supported content, and errors for unsupported content.

use std::fs;
use std::path::Path;

use gguf_hf::checkpoint::TensorFiles;
use gguf_hf::torch::{Entry, tensors};
use gguf_hf::{Options, plan};
use gguf_pipeline::{RunOptions, Source};
use gguf_test::checkpoint::{llama_data, llama_tensors, write_llama, write_small_files};
use gguf_test::torch::hostile::{SOUND, sound_data};
use gguf_test::torch::{self, Pickle, Saved, state_dict};

fn read(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    tensors(&bytes.to_vec()).map_err(|e| e.to_string())
}

#[test]
fn views_of_a_storage() {
    // Names, offsets in elements, shapes and strides, and the expected elements.
    type Case<'a> = (&'a str, i64, &'a [i64], &'a [i64], &'a [u8]);
    let cases: &[Case<'_>] = &[
        ("whole", 0, &[2, 3], &[3, 1], &[0, 1, 2, 3, 4, 5]),
        ("transposed", 0, &[3, 2], &[1, 3], &[0, 3, 1, 4, 2, 5]),
        ("a column", 1, &[2], &[3], &[1, 4]),
        ("a row", 3, &[3], &[1], &[3, 4, 5]),
        ("a corner", 1, &[2, 2], &[3, 1], &[1, 2, 4, 5]),
        ("every second", 0, &[3], &[2], &[0, 2, 4]),
        ("a number", 5, &[], &[], &[5]),
        ("repeated", 2, &[4], &[0], &[2, 2, 2, 2]),
        ("repeated rows", 0, &[2, 3], &[0, 1], &[0, 1, 2, 0, 1, 2]),
        ("repeated columns", 0, &[2, 3], &[3, 0], &[0, 0, 0, 3, 3, 3]),
        ("of axes of one", 0, &[1, 6, 1], &[99, 1, 7], &[0, 1, 2, 3, 4, 5]),
        ("empty", 0, &[0, 3], &[3, 1], &[]),
        ("empty and far away", 99, &[0], &[1], &[]),
        ("of three axes", 0, &[3, 1, 2], &[1, 6, 3], &[0, 3, 1, 4, 2, 5]),
    ];
    let saved: Vec<Saved<'_>> = cases
        .iter()
        .map(|(name, offset, shape, strides, _)| Saved { name, offset: *offset, shape, strides, ..SOUND })
        .collect();
    let files = [
        ("model.pt", torch::file(&state_dict(&saved), &[("0", sound_data())])),
        ("model.bin", torch::stream(&state_dict(&saved), &[("0", 6, sound_data())])),
    ];
    for (name, bytes) in files {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), bytes).unwrap();
        let checkpoint = TensorFiles::open_file(&dir.path().to_owned(), name).unwrap();
        assert_eq!(checkpoint.tensors().len(), cases.len());
        for (i, (case, .., expected)) in cases.iter().enumerate() {
            let tensor = &checkpoint.tensors()[i];
            assert_eq!(tensor.name, *case);
            let expected: Vec<u8> = expected.iter().flat_map(|n| f32::from(*n).to_le_bytes()).collect();
            let mut found = vec![0; expected.len()];
            checkpoint.read(i, 0, &mut found).unwrap();
            assert_eq!(found, expected, "{name}: {case}");
            // Also read element by element.
            for (at, element) in expected.chunks(4).enumerate() {
                let mut found = [9; 4];
                checkpoint.read(i, at as u64 * 4, &mut found).unwrap();
                assert_eq!(found, element, "{name}: {case}, element {at}");
            }
            assert!(checkpoint.read(i, expected.len() as u64, &mut [0; 4]).is_err(), "{name}: {case}");
        }
    }
}

#[test]
fn dictionaries_of_training_programs() {
    let tensor = |pickle: Pickle, name: &str| pickle.text(name).tensor(&Saved { name, ..SOUND }).op(b"s");
    // A pickle, and the expected names or error.
    type Case<'a> = (&'a str, Vec<u8>, Result<&'a [&'a str], &'a str>);
    let cases: Vec<Case<'_>> = vec![
        ("plain", tensor(tensor(Pickle::new(2).op(b"}"), "b"), "a").end(), Ok(&["b", "a"])),
        ("set again", tensor(tensor(tensor(Pickle::new(2).op(b"}"), "b"), "a"), "b").end(), Ok(&["b", "a"])),
        (
            "state_dict",
            tensor(Pickle::new(2).op(b"}").text("epoch").op(b"K\x01s").text("state_dict").op(b"}"), "a").op(b"s").end(),
            Ok(&["a"]),
        ),
        (
            "two levels",
            tensor(Pickle::new(2).op(b"}").text("model").op(b"}").text("module").op(b"}"), "a").op(b"ss").end(),
            Ok(&["a"]),
        ),
        (
            "beside another tensor",
            tensor(tensor(Pickle::new(2).op(b"}"), "rng").text("state_dict").op(b"}"), "a").op(b"s").end(),
            Ok(&["a"]),
        ),
        (
            "beside a dictionary without tensors",
            tensor(Pickle::new(2).op(b"}").text("model").op(b"}s"), "a").end(),
            Ok(&["a"]),
        ),
        (
            "other names",
            tensor(Pickle::new(2).op(b"}").text("optimizer").op(b"}"), "a").op(b"s").end(),
            Err("only \"optimizer\""),
        ),
        ("beside numbers", tensor(Pickle::new(2).op(b"}").text("step").op(b"K\x01s"), "a").end(), Ok(&["a"])),
        (
            "ordered",
            tensor(Pickle::new(2).global("collections", "OrderedDict").op(b")R"), "a")
                .op(b"}")
                .text("_metadata")
                .global("collections", "OrderedDict")
                .op(b")Rsb")
                .end(),
            Ok(&["a"]),
        ),
        (
            "a parameter",
            Pickle::new(2)
                .op(b"}")
                .text("w")
                .global("torch._utils", "_rebuild_parameter")
                .op(b"(")
                .tensor(&SOUND)
                .op(b"\x88ccollections\nOrderedDict\n)RtRs")
                .end(),
            Ok(&["w"]),
        ),
        (
            "a list of pairs",
            Pickle::new(2)
                .global("collections", "OrderedDict")
                .op(b"]]")
                .text("a")
                .op(b"a")
                .tensor(&SOUND)
                .op(b"aa\x85R")
                .end(),
            Ok(&["a"]),
        ),
        ("protocol 5", tensor(Pickle::new(5).op(b"\x95\x02\0\0\0\0\0\0\0}\x94"), "a").end(), Ok(&["a"])),
    ];
    for (case, pickle, expected) in cases {
        let found = read(&torch::file(&pickle, &[("0", sound_data())]));
        let names = found.as_ref().map(|found| found.iter().map(|e| e.name.as_str()).collect::<Vec<_>>());
        match expected {
            Ok(expected) => assert_eq!(names, Ok(expected.to_vec()), "{case}"),
            Err(expected) => assert!(found.clone().unwrap_err().contains(expected), "{case}: {found:?}"),
        }
    }
}

#[test]
fn number_formats() {
    for (class, dtype, width) in [
        ("FloatStorage", "F32", 4),
        ("DoubleStorage", "F64", 8),
        ("HalfStorage", "F16", 2),
        ("BFloat16Storage", "BF16", 2),
        ("ByteStorage", "U8", 1),
        ("CharStorage", "I8", 1),
        ("ShortStorage", "I16", 2),
        ("IntStorage", "I32", 4),
        ("LongStorage", "I64", 8),
        ("BoolStorage", "BOOL", 1),
        ("ComplexFloatStorage", "C64", 8),
    ] {
        let saved = Saved { class, ..SOUND };
        let found = read(&torch::file(&state_dict(&[saved]), &[("0", vec![0; 6 * width])])).unwrap();
        assert_eq!((found[0].dtype.name, found[0].storage_bytes), (dtype, 6 * width as u64), "{class}");
    }
    // Without a storage class: an untyped storage, and the format as an argument.
    let call = Pickle::new(2).op(b"}").text("a").global("torch._utils", "_rebuild_tensor_v3").op(b"(");
    let storage =
        call.op(b"(").text("storage").global("torch.storage", "UntypedStorage").text("0").text("cpu").int(6).op(b"tQ");
    let pickle = storage.int(2).ints(&[4]).ints(&[1]).op(b"\x89}").global("torch", "float8_e4m3fn").op(b"tRs").end();
    let found = read(&torch::file(&pickle, &[("0", vec![0; 6])])).unwrap();
    assert_eq!((found[0].dtype.name, found[0].storage_bytes), ("F8_E4M3", 4));
}

/// Writes the tensors of the small Llama checkpoint as PyTorch files, with matrices transposed in one shared storage.
fn write_llama_torch(dir: &Path, parts: &[&str]) {
    let list = llama_tensors();
    let per_part = list.len().div_ceil(parts.len());
    let mut index = Vec::new();
    for (part, (name, tensors)) in parts.iter().zip(list.chunks(per_part)).enumerate() {
        let mut data = vec![7; 12];
        let mut rows: Vec<(&str, i64, Vec<i64>, Vec<i64>)> = Vec::new();
        for (i, (tensor, shape)) in tensors.iter().enumerate() {
            let values = llama_data(part * per_part + i, shape);
            let dims: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
            let offset = (data.len() / 4) as i64;
            let strides = match dims.as_slice() {
                [n, m] if i % 2 == 1 => {
                    let at = |column: i64, row: i64| ((row * m + column) * 4) as usize;
                    for column in 0..*m {
                        (0..*n).for_each(|row| data.extend(&values[at(column, row)..at(column, row) + 4]));
                    }
                    vec![1, *n]
                }
                [_, m] => {
                    data.extend(&values);
                    vec![*m, 1]
                }
                _ => {
                    data.extend(&values);
                    vec![1]
                }
            };
            index.push(format!("{tensor:?}:{name:?}"));
            rows.push((tensor, offset, dims, strides));
        }
        let elements = (data.len() / 4) as i64;
        let saved: Vec<Saved<'_>> = rows
            .iter()
            .map(|(name, offset, shape, strides)| Saved { name, elements, offset: *offset, shape, strides, ..SOUND })
            .collect();
        let pickle = state_dict(&saved);
        let bytes = match part {
            0 => torch::file(&pickle, &[("0", data)]),
            _ => torch::stream(&pickle, &[("0", elements as u64, data)]),
        };
        fs::write(dir.join(name), bytes).unwrap();
    }
    if parts.len() > 1 {
        let json = format!(r#"{{"weight_map":{{{}}}}}"#, index.join(","));
        fs::write(dir.join("pytorch_model.bin.index.json"), json).unwrap();
    }
}

/// Names, shapes and data of the tensors that a conversion writes.
fn converted(path: &Path) -> Vec<(String, String, Vec<u8>)> {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("out.gguf");
    plan(path, &Options::default()).unwrap().plan.run(&file, &RunOptions::default(), &()).unwrap();
    let model = gguf_io::ModelFile::open(&file).unwrap();
    let mut tensors: Vec<_> = model
        .tensors()
        .map(|tensor| {
            let info = tensor.info();
            (info.name.to_string(), format!("{:?}", tensor.shape()), tensor.read().unwrap())
        })
        .collect();
    tensors.sort();
    tensors
}

#[test]
fn a_checkpoint_in_every_form_becomes_the_same_model() {
    let reference = tempfile::tempdir().unwrap();
    write_llama(reference.path());
    let expected = converted(reference.path());
    assert_eq!(expected.len(), llama_tensors().len());

    let dir = tempfile::tempdir().unwrap();
    write_small_files(dir.path());
    write_llama_torch(dir.path(), &["pytorch_model.bin"]);
    assert!(converted(dir.path()) == expected, "one file");
    assert!(converted(&dir.path().join("pytorch_model.bin")) == expected, "the file itself");
    fs::rename(dir.path().join("pytorch_model.bin"), dir.path().join("step-100.pth")).unwrap();
    let refusal = plan(dir.path(), &Options::default()).unwrap_err().to_string();
    assert!(refusal.contains("but \"step-100.pth\"; if the model is in that file"), "{refusal}");
    assert!(converted(&dir.path().join("step-100.pth")) == expected, "another name");

    let parts = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
    let dir = tempfile::tempdir().unwrap();
    write_small_files(dir.path());
    write_llama_torch(dir.path(), &parts);
    assert!(converted(dir.path()) == expected, "two files");
    assert!(converted(&dir.path().join(parts[1])) == expected, "one of two files stands for both");
    fs::remove_file(dir.path().join("pytorch_model.bin.index.json")).unwrap();
    assert!(converted(dir.path()) == expected, "two files without index");
    fs::remove_file(dir.path().join(parts[0])).unwrap();
    let refusal = plan(dir.path(), &Options::default()).unwrap_err().to_string();
    assert!(refusal.contains("missing: \"pytorch_model-00001-of-00002.bin\"; fetch"), "{refusal}");

    // Safetensors take precedence, here over an invalid PyTorch file.
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path());
    fs::write(dir.path().join("pytorch_model.bin"), "x").unwrap();
    assert!(converted(dir.path()) == expected, "safetensors beside others");
    assert!(converted(&dir.path().join("model.safetensors")) == expected, "a safetensors file itself");
    let refusal = plan(dir.path().join("pytorch_model.bin"), &Options::default()).unwrap_err().to_string();
    assert!(refusal.contains("pytorch_model.bin: not a PyTorch file but a file of unknown kind"), "{refusal}");
}

#[test]
fn models_in_the_cache_of_the_hub() {
    let cache = tempfile::tempdir().unwrap();
    let model = cache.path().join("models--org--Tiny-Model");
    let name = |path: &Path| plan(path, &Options::default()).map(|conversion| conversion.metadata.name.unwrap());
    for revision in ["aaaa", "bbbb"] {
        let dir = model.join("snapshots").join(revision);
        fs::create_dir_all(&dir).unwrap();
        write_llama(&dir);
    }
    let refusal = name(&model).unwrap_err().to_string();
    assert!(refusal.contains("several revisions") && refusal.contains("\"aaaa\", \"bbbb\""), "{refusal}");
    fs::create_dir(model.join("refs")).unwrap();
    for bad in ["../../elsewhere", "/", "", "cccc"] {
        fs::write(model.join("refs/main"), bad).unwrap();
        assert!(name(&model).is_err(), "{bad}");
    }
    fs::write(model.join("refs/main"), "bbbb\n").unwrap();
    assert_eq!(name(&model).unwrap(), "Tiny Model");
    // A revision's folder keeps its own name.
    assert_eq!(name(&model.join("snapshots/bbbb")).unwrap(), "Bbbb");
    fs::remove_dir_all(model.join("snapshots/bbbb")).unwrap();
    assert_eq!(name(&model).unwrap(), "Tiny Model");
    fs::remove_dir_all(model.join("snapshots/aaaa")).unwrap();
    assert!(name(&model).unwrap_err().to_string().contains("no revision of the model in the cache"));
}

/// The files of a snapshot are links into the folder `blobs`, to names without an extension.
#[cfg(unix)]
#[test]
fn links_of_the_hubs_cache() {
    let cache = tempfile::tempdir().unwrap();
    let model = cache.path().join("models--tiny");
    let (blobs, snapshot) = (model.join("blobs"), model.join("snapshots/cafe"));
    fs::create_dir_all(&blobs).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    let reference = tempfile::tempdir().unwrap();
    write_small_files(reference.path());
    write_llama_torch(reference.path(), &["pytorch_model.bin"]);
    for (i, entry) in fs::read_dir(reference.path()).unwrap().enumerate() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), blobs.join(format!("{i:040x}"))).unwrap();
        let target = format!("../../blobs/{i:040x}");
        std::os::unix::fs::symlink(target, snapshot.join(entry.file_name())).unwrap();
    }
    let expected = converted(reference.path());
    assert!(converted(&model) == expected, "the model's folder");
    assert!(converted(&snapshot.join("pytorch_model.bin")) == expected, "a file by its link");
}

#[test]
fn paths_that_are_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = |name: &str| plan(dir.path().join(name), &Options::default()).unwrap_err().to_string();
    for (name, content, expected) in [
        ("model.gguf", &b"GGUF\x03\0\0\0"[..], "is already GGUF"),
        ("model.zip", b"PK\x03\x04", "rename the file"),
        ("page.txt", b"<!DOCTYPE html><html>", "an HTML page, expected a checkpoint"),
        ("empty.dat", b"", "an empty file, expected a checkpoint"),
        ("model.safetensors", b"x", "not a safetensors file: 1 bytes"),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
        let message = refusal(name);
        assert!(message.contains(expected), "{name}: {message}");
    }
    assert!(refusal("gone").contains("cannot open"));
}
