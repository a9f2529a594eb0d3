//! Models of Ollama's store: by name, by manifest and by blob, and damaged stores.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, small, text};
use gguf_test::program::{Run, program, words};

/// A store with one model, `tiny`, and the path of its blob.
fn store(dir: &Path) -> (PathBuf, PathBuf) {
    let store = dir.join("models");
    let manifests = store.join("manifests/registry.ollama.ai/library/tiny");
    fs::create_dir_all(&manifests).unwrap();
    fs::create_dir_all(store.join("blobs")).unwrap();
    let model = small(dir, "small.gguf");
    let digest = sha256(&model);
    let blob = store.join("blobs").join(format!("sha256-{digest}"));
    let bytes = fs::metadata(&model).unwrap().len();
    fs::rename(&model, &blob).unwrap();
    let template = "0".repeat(64);
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","layers":[
        {{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:{template}","size":3}},
        {{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{digest}","size":{bytes}}}]}}"#
    );
    fs::write(manifests.join("latest"), manifest).unwrap();
    (store, blob)
}

/// Computed by the system's tool, independent of the program.
fn sha256(path: &Path) -> String {
    let output = std::process::Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

fn gguf(store: &Path, line: &str) -> Run {
    let output = program().args(words(line)).env("OLLAMA_MODELS", store).output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn models_of_the_store_are_read() {
    let dir = folder();
    let (store, blob) = store(dir.path());
    let manifest = store.join("manifests/registry.ollama.ai/library/tiny/latest");
    let out = dir.path().join("out.gguf");
    for name in ["ollama://tiny", "ollama://tiny:latest", "ollama://library/tiny", text(&manifest)] {
        let run = gguf(&store, &format!("show {name}")).exits(0).prints(&["Name           Small\n"]);
        run.says(&["the model is ", text(&blob), "template: "]);
        assert_eq!(gguf(&store, &format!("get {name} general.name")).exits(0).silently().out, "Small\n");
        gguf(&store, &format!("hash {name}")).exits(0).prints(&["token_embd.weight"]);
        gguf(&store, &format!("quantize {name} {} Q8_0 -qf", text(&out)))
            .exits(0)
            .says(&["llama.block_count: the key is missing"]);
        gguf(&store, &format!("diff {name} {} --metadata", text(&blob))).exits(0);
        let check = gguf(&store, &format!("check {name}"));
        assert!(!check.out.contains("name.convention"), "nobody chose the name of a blob: {}", check.out);
    }
    gguf(&store, &format!("hash {}", text(&blob))).exits(0);
}

#[test]
fn stores_are_not_written_and_damage_is_told() {
    let dir = folder();
    let (store, blob) = store(dir.path());
    let before = fs::read(&blob).unwrap();
    for line in [
        "set ollama://tiny general.name=X",
        "unset ollama://tiny general.name",
        "name ollama://tiny --rename",
        "repair ollama://tiny --mend",
        "upgrade in.gguf ollama://tiny --force",
        "quantize in.gguf ollama://tiny Q8_0 --force",
    ] {
        gguf(&store, line).exits(2).says(&["ollama://tiny"]);
    }
    for line in
        ["set BLOB general.name=X", "unset BLOB general.name", "rename BLOB general.name=x.y", "name BLOB --rename"]
    {
        gguf(&store, &line.replace("BLOB", text(&blob))).exits(2).says(&["cannot be written; copy the file first"]);
    }
    assert_eq!(fs::read(&blob).unwrap(), before);
    assert_eq!(fs::read_dir(store.join("blobs")).unwrap().count(), 1);
    for (name, said) in [
        ("ollama://none", "`ollama pull none:latest`"),
        ("ollama://tiny:7b", "`ollama pull tiny:7b`"),
        ("ollama://../tiny", "expected ollama://MODEL:TAG"),
        ("ollama://", "expected ollama://MODEL:TAG"),
        ("ollama://a/b/c/d", "expected ollama://MODEL:TAG"),
    ] {
        let json = gguf(&store, &format!("show {name} --json")).exits(2).says(&[said]);
        assert_eq!(json.out.matches("\"error\"").count(), 1, "{}", json.out);
    }
    // A changed byte of data: the head is valid, and only the digest differs.
    let mut damaged = before.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&blob, &damaged).unwrap();
    gguf(&store, "show ollama://tiny").exits(0);
    for line in ["hash ollama://tiny", "check ollama://tiny --data", "quantize ollama://tiny x.gguf Q8_0"] {
        gguf(&store, line).exits(1).says(&["the SHA-256 is ", "pull the model again"]);
    }
    fs::write(&blob, &before[..before.len() - 1]).unwrap();
    gguf(&store, "show ollama://tiny").exits(1).says(&["its manifest states"]);
    fs::remove_file(&blob).unwrap();
    gguf(&store, "show ollama://tiny").exits(2).says(&["cannot open"]);
    let manifest = store.join("manifests/registry.ollama.ai/library/tiny/latest");
    for (content, said) in [
        ("{\"schemaVersion\":2", "invalid manifest"),
        ("{\"schemaVersion\":2}", "there is no list `layers`"),
        ("{\"schemaVersion\":2,\"layers\":[]}", "there is no layer of a model"),
        ("{\"schemaVersion\":2,\"layers\":[{\"digest\":\"sha256:../../x\"}]}", "64 hexadecimal digits"),
        ("nothing", "is not a manifest of Ollama"),
    ] {
        fs::write(&manifest, content).unwrap();
        gguf(&store, "show ollama://tiny").exits(1).says(&[said]);
    }
}
