//! URLs in place of paths: the same output and exit codes, the same bytes, few requests, and no secrets.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_test::files::{folder, glossary};
use gguf_test::http::{Files, Reply, Server, file, hub_of_files, of_files};
use gguf_test::legacy;
use gguf_test::program::words;

pub mod reading;

use reading::{files_below, gguf, have_the_output_of_files, models, no_secret_in};

/// The model of the example.
fn model(dir: &Path) -> PathBuf {
    let path = dir.join("model.gguf");
    let args = ["convert".into(), glossary().into_os_string(), "-o".into(), path.clone().into(), "--quiet".into()];
    gguf_test::program::gguf(args).exits(0);
    path
}

#[test]
fn a_url_has_the_output_of_the_file() {
    let server = of_files(models());
    have_the_output_of_files(models(), &server.address, "");
}

#[test]
fn a_file_of_the_hub_has_the_output_of_the_file() {
    let hub = hub_of_files("org/models", models());
    have_the_output_of_files(models(), "hf:org/models", &hub.address);
}

/// Every command that writes what it makes of a model. Names in capitals are inputs; a URL stands for each of them, but for those of `LOCAL`.
const WRITING: &[&str] = &[
    "quantize MODEL OUT Q4_K_M",
    "quantize MODEL OUT{ftype} Q8_0,IQ4_XS",
    "quantize MODEL OUT --target-size 1500000",
    "quantize MODEL OUT IQ2_M --imatrix MATRIX",
    "split MODEL OUT --max-tensors 10 --verify",
    "merge SHARD -o OUT",
    "reorder MODEL OUT --like MODEL",
    "reorder MODEL OUT --by name",
    "swap MODEL OUT",
    "upgrade MODEL OUT",
    "rm-tensor MODEL OUT output_norm.weight",
    "add-tensor MODEL OUT new VALUES",
    "graft MODEL OUT --from MODEL --tensors=output_norm.weight --replace",
    "extract MODEL token_embd.weight -o OUT.npy",
    "extract MODEL *.weight -o OUT.safetensors",
    "set MODEL general.name=x -o OUT",
    "unset MODEL general.name -o OUT",
    "rename MODEL general.name=general.nickname -o OUT",
    "edit MODEL -o OUT",
    "recipe apply RECIPE MODEL OUT",
    "convert CHECKPOINT -o OUT --type Q8_0",
    "export MODEL -o OUT",
    "export ADAPTER -o OUT --base MODEL.gguf",
    "lora merge MODEL ADAPTER -o OUT",
    "migrate LEGACY -o OUT --yes",
    "imatrix merge MATRIX MATRIX -o OUT.gguf",
    "imatrix convert MATRIX OUT.dat",
];

/// Inputs that are small files of this machine.
const LOCAL: &[&str] = &["VALUES", "RECIPE"];

/// Commands whose models libllama reads, which does not read URLs.
const OF_LIBRARY: &[&str] = &[
    "perplexity MODEL TEXT",
    "kld MODEL MODEL TEXT",
    "run MODEL prompt",
    "sensitivity MODEL TEXT -o OUT",
    "imatrix compute MODEL TEXT -o OUT",
];

/// Commands that read no model, or only files of this machine; and those of `plans_are_read_from_urls`.
const OTHERS: &[&str] = &["repair", "view", "engine", "completions", "man", "part", "commit"];

#[test]
fn no_command_is_left_out() {
    let lines = reading::READING.iter().chain(WRITING).chain(OF_LIBRARY);
    let lines: Vec<&str> = lines.chain(OTHERS).copied().collect();
    for command in crate::options::all_commands() {
        let is_run =
            |line: &&str| line.strip_prefix(&command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        assert!(lines.iter().any(is_run), "{command}");
    }
}

/// The inputs of `WRITING`, by their names there, and the names of their files.
fn inputs(dir: &Path) -> Vec<(&'static str, String)> {
    let names = [
        ("MODEL", "model.gguf"),
        ("SHARD", "tiny-00001-of-00002.gguf"),
        ("MATRIX", "matrix.gguf"),
        ("ADAPTER", "adapter.gguf"),
        ("LEGACY", "legacy.bin"),
        ("VALUES", "values.npy"),
        ("RECIPE", "recipe"),
    ];
    let at = |name: &str| dir.join(name);
    model(dir);
    for name in ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"] {
        fs::copy(Path::new("../ggufkit/examples").join(name), at(name)).unwrap();
    }
    fs::copy(glossary().join("../imatrix.gguf"), at("matrix.gguf")).unwrap();
    fs::write(at("legacy.bin"), legacy::llama(legacy::GGJT1, 2, 2).write("", "").bytes).unwrap();
    crate::lora::write_example(&at("adapter.gguf"));
    let line = format!("extract {0}/model.gguf output_norm.weight -o {0}/values.npy", dir.display());
    gguf(&words(&line), "").exits(0);
    let recipe = gguf(&words(&format!("recipe show {}/model.gguf", dir.display())), "").exits(0).out;
    fs::write(at("recipe"), recipe).unwrap();
    names.map(|(name, file)| (name, file.to_owned())).into()
}

#[test]
fn what_is_written_has_the_same_bytes() {
    let dir = folder();
    let inputs = inputs(dir.path());
    let served = files_below(dir.path());
    let server = of_files(served);
    let hub = hub_of_files("org/glossary", files_below(&glossary()));
    for (i, line) in WRITING.iter().enumerate() {
        let run = |which: &str| {
            let out = dir.path().join(format!("{i}-{which}"));
            fs::create_dir(&out).unwrap();
            let is_url = which == "there";
            let word = |word: String| {
                let word = word.replace("OUT", &out.join("o").display().to_string());
                if word == "CHECKPOINT" {
                    return if is_url { "hf:org/glossary".to_owned() } else { glossary().display().to_string() };
                }
                let Some((name, file)) =
                    inputs.iter().find(|(name, _)| word.strip_suffix(".gguf").unwrap_or(&word) == *name)
                else {
                    return word;
                };
                match is_url && !LOCAL.contains(name) {
                    true => server.url(&format!("/{file}")),
                    false => dir.path().join(file).display().to_string(),
                }
            };
            let args: Vec<String> = words(line).into_iter().map(word).collect();
            let run = gguf(&args, &hub.address);
            assert_eq!(run.code, 0, "{args:?}: {run:?}");
            let files = files_below(&out);
            assert!(!files.is_empty(), "{line}");
            files
        };
        let (here, there) = (run("here"), run("there"));
        let names = |files: &Files| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&here), names(&there), "{line}");
        let other = here.iter().zip(&there).find(|(here, there)| here != there);
        assert!(other.is_none(), "{line}: {:?}", other.map(|(here, _)| &here.0));
    }
}

#[test]
fn the_library_reads_files_alone() {
    let server = of_files(vec![("m.gguf".to_owned(), b"GGUF".to_vec())]);
    for line in OF_LIBRARY {
        let line = line
            .replace("MODEL", &server.url("/m.gguf"))
            .replace("TEXT", "Cargo.toml")
            .replace("OUT", "unwritten.gguf");
        gguf(&words(&line), "")
            .exits(2)
            .says(&["/m.gguf: expected a path, found a URL; libllama reads local files only"]);
    }
    assert_eq!(server.n_requests(), 0);
}

/// A plan for many machines, and its source.
#[test]
fn plans_are_read_from_urls() {
    let dir = folder();
    let bytes = fs::read(model(dir.path())).unwrap();
    let source = of_files(vec![("m.gguf".to_owned(), bytes)]);
    let at = |name: &str| dir.path().join(name).display().to_string();
    let run = |line: String| gguf(&words(&line), "").exits(0);
    run(format!("quantize {} {} Q4_K_M -q", at("model.gguf"), at("one.gguf")));
    let url = source.url("/m.gguf");
    run(format!("quantize {url} {} Q4_K_M -q --plan-only {}", at("many.gguf"), at("plan.json")));
    let plans = of_files(vec![("plan.json".to_owned(), fs::read(at("plan.json")).unwrap())]);
    let plan = plans.url("/plan.json");
    gguf(&words(&format!("commit {plan} -q")), "").exits(75);
    run(format!("part {plan} --index 0 -q"));
    run(format!("commit {plan} -q"));
    assert!(fs::read(at("many.gguf")).unwrap() == fs::read(at("one.gguf")).unwrap());
    let wrong = plans.url("/none.json");
    gguf(&words(&format!("part {wrong} --index 0")), "").says(&["status 404"]);
}

/// A worker asks for the bytes of its part, and for the first one, which identifies the file. A file of the Hub is identified in the same way.
#[test]
fn workers_request_their_parts() {
    let dir = folder();
    let bytes = fs::read(model(dir.path())).unwrap();
    let n_bytes = bytes.len() as u64;
    let at = |name: &str| dir.path().join(name).display().to_string();
    gguf(&words(&format!("quantize {} {} Q8_0 -q", at("model.gguf"), at("one.gguf"))), "").exits(0);
    let web = of_files(vec![("m.gguf".to_owned(), bytes.clone())]);
    let hub = hub_of_files("org/models", vec![("m.gguf".to_owned(), bytes)]);
    for (server, url) in [(&web, web.url("/m.gguf")), (&hub, "hf:org/models/m.gguf".to_owned())] {
        let run = |line: String| gguf(&words(&line), &hub.address).exits(0);
        run(format!("quantize {url} {} Q8_0 -qf --plan-only {}", at("many.gguf"), at("plan.json")));
        let before = server.requests().len();
        run(format!("part {} --index 0 -q", at("plan.json")));
        let requests = server.requests().split_off(before);
        let ranges = requests.iter().filter(|request| request.method == "GET").filter_map(|request| {
            let (first, last) = request.range.as_deref()?.strip_prefix("bytes=")?.split_once('-')?;
            Some(last.parse::<u64>().map_or(n_bytes, |last| last + 1) - first.parse::<u64>().unwrap())
        });
        let read = ranges.sum::<u64>();
        assert!(read > n_bytes * 9 / 10 && read <= n_bytes, "{read} of {n_bytes} bytes are requested: {requests:?}");
        run(format!("commit {} -q", at("plan.json")));
        assert!(fs::read(at("many.gguf")).unwrap() == fs::read(at("one.gguf")).unwrap());
    }
}

/// Another file of that name, even with the same head, must not complete what was made of the first.
#[test]
fn a_run_is_resumed_with_the_same_file_alone() {
    const FAILS: usize = 0;
    const CHANGED: usize = 1;
    const WHOLE: usize = 2;
    let dir = folder();
    let path = model(dir.path());
    let model = fs::read(&path).unwrap();
    let other: Vec<u8> = model.iter().enumerate().map(|(i, b)| if i < model.len() / 2 { *b } else { b ^ 1 }).collect();
    let state = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(FAILS));
    let served = (model.clone(), std::sync::Arc::clone(&state));
    let server = Server::start(move |_, request| {
        let range = request.range.as_deref().unwrap_or("bytes=0-");
        let start: usize = range["bytes=".len()..].split('-').next().unwrap().parse().unwrap();
        match served.1.load(std::sync::atomic::Ordering::SeqCst) {
            FAILS if (4_000_000..5_800_000).contains(&start) => Reply::new(404, ""),
            CHANGED => file(request, &other, "\"two\""),
            _ => file(request, &served.0, "\"one\""),
        }
    });
    let out = dir.path().join("o.gguf");
    let url = server.url("/m.gguf?signature=secret");
    let line = format!("quantize {url} {} Q8_0 --resume --threads 1 --verbose", out.display());
    let run = |now| {
        state.store(now, std::sync::atomic::Ordering::SeqCst);
        gguf(&words(&line), "")
    };
    run(FAILS).exits(2).says(&["404", "finished work is kept"]);
    let names = no_secret_below(dir.path());
    assert!(names.iter().any(|name| name == "o.gguf.journal"), "{names:?}");
    run(CHANGED).exits(2).says(&["m.gguf has changed"]);
    assert!(!out.exists());
    no_secret_below(dir.path());
    let before = server.n_requests();
    run(WHOLE).exits(0);
    let ranges: Vec<String> = server.requests().into_iter().skip(before).filter_map(|request| request.range).collect();
    assert!(
        !ranges.iter().any(|range| range.starts_with("bytes=46784-")),
        "the first tensor is read again: {ranges:?}"
    );
    let line = format!("quantize {} {} Q8_0", path.display(), dir.path().join("direct.gguf").display());
    gguf(&words(&line), "").exits(0);
    assert!(fs::read(out).unwrap() == fs::read(dir.path().join("direct.gguf")).unwrap());
}

#[test]
fn the_head_is_one_request_and_each_byte_comes_once() {
    let dir = folder();
    let path = model(dir.path());
    let model = fs::read(&path).unwrap();
    let server = of_files(vec![("m.gguf".to_owned(), model.clone())]);
    gguf(&words(&format!("show {}", server.url("/m.gguf"))), "").exits(0).silently();
    assert_eq!(server.n_requests(), 1);
    let (requests, sent) = (server.n_requests(), server.sent());
    let out = dir.path().join("o.gguf");
    let line = format!("quantize {} {} Q4_K_M --verbose", server.url("/m.gguf"), out.display());
    let run = gguf(&words(&line), "").exits(0).says(&["gguf: GET http://127.0.0.1:", "network: "]);
    let said = format!("network: {} requests, 0 retries, ", server.n_requests() - requests);
    assert!(run.err.contains(&said), "{said}: {}", run.err);
    // The head is sent once more than it is read, as far as the connection has room.
    let data = server.sent() - sent;
    assert!(data < model.len() as u64 * 102 / 100 + (8 << 20), "{data} of {}", model.len());
}

#[test]
fn checkpoints_and_lists_of_a_repository() {
    let dir = folder();
    let folder = glossary();
    let mut files = files_below(&glossary());
    let checkpoint = hub_of_files("org/glossary", files.clone());
    let out = dir.path().join("there.gguf");
    let line = format!("convert hf:org/glossary -o {} --type Q8_0 --quiet", out.display());
    gguf(&words(&line), &checkpoint.address).exits(0).silently();
    let here = dir.path().join("here.gguf");
    gguf(&words(&format!("convert {} -o {} --type Q8_0 --quiet", folder.display(), here.display())), "").exits(0);
    assert!(fs::read(&out).unwrap() == fs::read(&here).unwrap());
    let line = format!("verify {} --against hf:org/glossary --exact", out.display());
    gguf(&words(&line), &checkpoint.address).exits(0).prints(&["The file was made from the checkpoint"]);

    let model = fs::read("../ggufkit/examples/tiny.gguf").unwrap();
    for name in ["a-1B-Q4_K_M.gguf", "sub/b-1B-Q8_0-00001-of-00002.gguf", "sub/b-1B-Q8_0-00002-of-00002.gguf"] {
        files.push((name.to_owned(), model.clone()));
    }
    let hub = hub_of_files("org/models", files);
    let list = gguf(&words("show hf:org/models"), &hub.address).exits(0).silently();
    assert_eq!(list.out.lines().count(), 3, "{}", list.out);
    list.prints(&[
        "hf:org/models/a-1B-Q4_K_M.gguf",
        "Q4_K_M",
        "26656",
        "hf:org/models/sub/b-1B-Q8_0-00001-of-00002.gguf",
        "53312",
    ]);
    let json = gguf(&words("show hf:org/models/sub --json"), &hub.address).exits(0).json();
    assert_eq!(json["models"][0]["shards"], 2);
    assert_eq!(json["models"][0]["file_type"], "Q8_0");
    gguf(&words("get hf:org/models general.name"), &hub.address).exits(2).says(&[
        "hf:org/models: there are 2 models, expected one",
        "help: name one of them:\n",
        "  hf:org/models/a-1B-Q4_K_M.gguf (26.7 kB)",
    ]);
    gguf(&words("check hf:org/glossary"), &checkpoint.address).exits(2).says(&[
        "hf:org/glossary: there is no GGUF file",
        "help: if it is a checkpoint: gguf convert hf:org/glossary -o model.gguf",
    ]);
    // The only model of a folder.
    gguf(&words("get hf:org/models@main/sub general.architecture"), &hub.address).exits(0).prints(&["llama"]);
    gguf(&words("get hf:org/models/a-1B-Q4_K_M.gguf general.architecture"), &hub.address).exits(0).prints(&["llama"]);
    gguf(&words("get hf:org/models/x.gguf general.architecture"), &hub.address)
        .exits(2)
        .says(&["hf:org/models/x.gguf: cannot open: the repository has no such file"]);
    gguf(&words("show hf:org/other"), &hub.address).exits(2).says(&["status 404"]);
}

#[test]
fn what_a_url_cannot_be() {
    let server = Server::start(|_, request| match request.target.as_str() {
        "/private.gguf" => Reply::new(401, ""),
        "/moved.gguf" => Reply::redirect("http://127.0.0.1:1/x.gguf?signature=secret"),
        _ => file(request, b"GGUF", "\"x\""),
    });
    let at = |line: &str| gguf(&words(&line.replace("URL", &server.address)), "");
    for (line, problem) in [
        ("set URL/m.gguf a=b", "a URL cannot be edited; write a copy with -o"),
        ("quantize m.gguf URL/o.gguf Q8_0", "this URL cannot be written; expected a path, or s3://, gs:// or az://"),
        ("convert m -o URL/o.gguf", "this URL cannot be written; expected a path, or s3://, gs:// or az://"),
        ("repair URL/m.gguf", "expected a path, found a URL"),
        ("show ftp://h/m.gguf", "URLs with ftp: are not supported"),
        ("show https://name:secret@h/m.gguf", "a URL with a user name or password is not supported"),
        ("show hf:org", "expected hf:ORG/REPO[@REVISION][/PATH]"),
        ("quantize m.gguf http://h/o.gguf?signature=secret Q8_0", "http://h/o.gguf: this URL cannot be written"),
        ("check URL/none?signature=secret", "/none: bad"),
        ("convert URL/folder -o o.gguf", "a web server does not list folders"),
        ("show URL/private.gguf", "status 401"),
        ("show URL/moved.gguf", "the connection failed"),
    ] {
        let run = at(line);
        assert!(run.code != 0 && format!("{}{}", run.err, run.out).contains(problem), "{line}: {run:?}");
    }
    let json = at("show URL/private.gguf --json").exits(2).json();
    assert_eq!(json["files"][0]["error"]["kind"], "permission_denied", "{json}");
}

/// Tokens, signatures and passwords are in no output, journal, report or error, whatever the command writes or fails with.
#[test]
fn no_secret_is_written() {
    let dir = folder();
    let model = fs::read(model(dir.path())).unwrap();
    let server = Server::start(move |_, request| file(request, &model, "\"1\""));
    let hub = hub_of_files("org/glossary", files_below(&glossary()));
    for (i, line) in [
        "quantize URL OUT Q4_K_M --resume --verbose",
        "quantize URL OUT Q5_0 --report --json",
        "quantize URL OUT Q8_0 --dry-run --json",
        "quantize URL OUT Q8_0 --imatrix URL2",
        "set URL general.name=x -o OUT",
        "split URL OUT --max-tensors 10",
        "extract URL token_embd.weight -o OUT.npy",
        "show URL URL2 --json",
        "check URL --json",
        "diff URL URL2",
        "hash URL --all",
        "card URL",
        "recipe show URL",
        "convert hf:org/glossary -o OUT --type Q8_0 --verbose",
        "convert hf:org/glossary -o OUT --dry-run --json",
        "show hf:org/glossary",
        "show hf:org/missing",
    ]
    .iter()
    .enumerate()
    {
        let line = line
            .replace("URL2", &server.url("/m.gguf?signature=secret-2"))
            .replace("URL", &server.url("/m.gguf?signature=secret-1"))
            .replace("OUT", &dir.path().join(i.to_string()).display().to_string());
        let code = match &line {
            line if line.contains("--imatrix") => 1,
            line if line.contains("missing") => 2,
            _ => 0,
        };
        gguf(&words(&line), &hub.address).exits(code);
        no_secret_below(dir.path());
    }
    let signed: Vec<String> = server.requests().into_iter().map(|request| request.target).collect();
    assert!(signed.iter().any(|target| target.ends_with("secret-1")), "{signed:?}");
    assert!(hub.requests().iter().any(|request| request.authorization.as_deref() == Some("Bearer hf_secret")));
}

/// Fails if a file in a folder has a secret in its name or its content; returns the names.
fn no_secret_below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        no_secret_in("a name", name.as_bytes());
        match path.is_dir() {
            true => names.extend(no_secret_below(&path)),
            false => no_secret_in(&name, &fs::read(&path).unwrap()),
        }
        names.push(name);
    }
    names
}
