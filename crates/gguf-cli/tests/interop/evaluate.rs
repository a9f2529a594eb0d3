//! Evaluation through real libllama: what it computes, which libraries are refused, and what is left of a program that is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gguf_quantize::imatrix::ImatrixFile;
use gguf_test::cases::share;
use gguf_test::files::text;
use gguf_test::peers::{self, Peers, Program, peers};
use gguf_test::program::{gguf, program};
use gguf_test::{conformance, corpus, hostile};

/// Runs the program with the peers' library, on one thread: their library waits actively.
fn with_library(args: &[&str]) -> gguf_test::program::Run {
    let lib = peers().join("lib");
    gguf([args, &["--llama", text(&lib)]].concat())
}

/// The divergence of Q4_K_M side by side: nothing is raised, so the ratio is that of the perplexities, 441.49 and 436.02.
fn models_are_compared_side_by_side() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let (model, small) = (peers.data("glossary-bf16.gguf"), dir.path().join("q4.gguf"));
    let validation = peers.data("glossary/validation.txt");
    gguf(["quantize", text(&model), text(&small), "Q4_K_M", "-q"]).exits(0);
    let args = ["kld", text(&model), text(&small), text(&validation), "--chunks", "42", "-j", "1", "-q", "--json"];
    let answer = with_library(&args).exits(0).json();
    let found = &answer["models"][0];
    let ratio = found["ratio"]["value"].as_f64().unwrap();
    assert!((ratio - 1.0125).abs() < 0.0005, "{ratio}");
    assert_eq!(answer["tokens"], 42 * 255);
    let mean = found["kld"]["mean"]["value"].as_f64().unwrap();
    let limit = format!("{}", mean / 2.0);
    let args =
        ["kld", text(&model), text(&small), text(&validation), "--chunks", "2", "-j", "1", "-q", "--max-kld", &limit];
    with_library(&args).exits(1).says(&["the mean divergence is"]);

    // Through a file, in which small probabilities are raised, the original seems to be better than it is.
    let base = dir.path().join("base");
    let args = ["perplexity", text(&model), text(&validation), "--chunks", "42", "-j", "1", "-q", "--save-base"];
    with_library(&[&args[..], &[text(&base)]].concat()).exits(0);
    let args = ["kld", "--base", text(&base), text(&small), "-j", "1", "-q", "--json"];
    let answer = with_library(&args).exits(0).json();
    let ratio = answer["models"][0]["ratio"]["value"].as_f64().unwrap();
    assert!((ratio - 1.2777).abs() < 0.001, "{ratio}");
}

/// The matrix has the entries and counts of the one that llama-imatrix wrote. Sums of two builds of the library differ by up to 3.3e-4.
fn matrices_are_those_of_llama_imatrix() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.gguf");
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let args =
        ["imatrix", "compute", text(&model), text(&validation), "-o", text(&out), "-c", "128", "--chunks", "200"];
    with_library(&[&args[..], &["-j", "1", "-q"]].concat()).exits(0);
    let [ours, theirs] =
        [&out, &peers.data("glossary-imatrix.gguf")].map(|path| ImatrixFile::open(path).unwrap().load().unwrap());
    assert_eq!((ours.chunk_count, ours.chunk_size), (theirs.chunk_count, theirs.chunk_size));
    assert!(ours.entries.keys().eq(theirs.entries.keys()));
    for (ours, theirs) in ours.entries.values().zip(theirs.entries.values()) {
        assert_eq!(ours.counts, theirs.counts);
        for (a, b) in ours.sums.iter().zip(&theirs.sums) {
            assert!((a - b).abs() <= 1e-3 * b, "{a} {b}");
        }
    }
}

/// Runs a program of llama.cpp in a folder, on one thread; returns what it prints, and what it logs.
fn theirs(tool: &Path, folder: &Path, line: &str, files: &[(&str, &Path)]) -> [String; 2] {
    let mut command = Command::new(tool);
    let output = command.current_dir(folder).args(words(line, files)).args(["-t", "1"]).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{line}: {said:?}");
    said
}

/// A folder with the text of the example, named as the matrices name it.
fn folder_of_text() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("validation.txt");
    fs::copy(Peers::get().data("glossary/validation.txt"), &text).unwrap();
    (dir, text)
}

/// With the same library, matrices have the bytes of those of llama-imatrix: of plain models and of experts, with every option of both. Only tied embeddings are
/// measured here alone.
fn matrices_have_the_bytes_of_llama_imatrix() {
    let peers = Peers::get();
    let (dir, text_file) = folder_of_text();
    let tool = peers.build(Program::Imatrix, dir.path());
    let (glossary, experts) = (peers.data("glossary-bf16.gguf"), peers.data("hf/ref/mixtral-f16.gguf"));
    let first = dir.path().join("first.gguf");
    let mut sizes = Vec::new();
    for (i, (model, ending, ours, their_options)) in [
        // To the end of the text.
        (&glossary, "gguf", "-c 512 --skip 110", "-c 512 --chunk 110"),
        (&glossary, "gguf", "-c 128 --chunks 50", "-c 128 --chunks 50"),
        (&glossary, "dat", "-c 128 --chunks 8", "-c 128 --chunks 8 --output-format dat"),
        (&glossary, "gguf", "-c 128 -b 64 -ub 32 --chunks 4 --skip 3", "-c 128 -b 64 -ub 32 --chunks 4 --chunk 3"),
        (&glossary, "gguf", "-c 128 --chunks 4 --parse-special", "-c 128 --chunks 4 --parse-special"),
        (&glossary, "gguf", "-c 128 --chunks 4 --continue FIRST", "-c 128 --chunks 4 --in-file FIRST"),
        (&experts, "gguf", "-c 64 --chunks 20", "-c 64 --chunks 20"),
        (&experts, "dat", "-c 64 --chunks 20", "-c 64 --chunks 20 --output-format dat"),
        (&experts, "gguf", "-c 64 --chunks 9 --process-output", "-c 64 --chunks 9 --process-output"),
    ]
    .into_iter()
    .enumerate()
    {
        let [our_file, their_file] = ["ours", "theirs"].map(|who| dir.path().join(format!("{who}-{i}.{ending}")));
        let files = |out| [("MODEL", &**model), ("TEXT", &*text_file), ("FIRST", &*first), ("OUT", out)];
        with_library(&words(&format!("imatrix compute MODEL TEXT -o OUT -j 1 -q {ours}"), &files(&our_file))).exits(0);
        theirs(&tool, dir.path(), &format!("-m MODEL -f validation.txt -o OUT {their_options}"), &files(&their_file));
        let [our_bytes, their_bytes] = [&our_file, &their_file].map(|path| fs::read(path).unwrap());
        assert!(our_bytes == their_bytes, "{ours}");
        sizes.push(our_bytes.len());
        if i == 1 {
            fs::copy(&our_file, &first).unwrap();
        }
    }
    // The output has an entry of its own.
    assert!(sizes[8] > sizes[6], "{sizes:?}");
}

/// The numbers of a text.
fn numbers(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_end_matches('%'));
    words.filter(|word| word.parse::<f64>().is_ok()).map(str::to_owned).collect()
}

/// With the same library, perplexities, statistics of divergence and base files are those of llama-perplexity, in all printed digits and bytes.
fn divergences_are_those_of_llama_perplexity() {
    let peers = Peers::get();
    let (dir, text_file) = folder_of_text();
    let tool = peers.build(Program::Perplexity, dir.path());
    let model = peers.data("glossary-bf16.gguf");
    let [our_base, their_base, small] = ["ours", "theirs", "small.gguf"].map(|name| dir.path().join(name));
    gguf(["quantize", text(&model), text(&small), "Q4_K_M", "-q"]).exits(0);
    let sizes = [("--chunks 14", ""), ("-c 128 --chunks 9", ""), ("-c 128 --chunks 5", "-b 64 -ub 32")];
    for (i, (windows, batches)) in sizes.into_iter().enumerate() {
        let options = format!("{windows} {batches}");
        let [our_base, their_base] = [&our_base, &their_base].map(|base| base.with_extension(i.to_string()));
        let files = [
            ("MODEL", &*model),
            ("TEXT", &*text_file),
            ("SMALL", &*small),
            ("OURS", &*our_base),
            ("THEIRS", &*their_base),
        ];
        let ours = |line: &str| with_library(&words(&format!("{line} {options} -j 1 -q"), &files)).exits(0).out;
        let theirs = |line: &str| theirs(&tool, dir.path(), &format!("{line} {options}"), &files);
        let printed = ours("perplexity MODEL TEXT");
        let [_, expected] = theirs("-m MODEL -f TEXT");
        let (_, expected) = expected.split_once("PPL =").unwrap();
        let expected = numbers(expected.lines().next().unwrap());
        assert!(expected.len() == 2 && printed.ends_with(&format!("{} ± {}\n", expected[0], expected[1])), "{printed}");

        ours("perplexity MODEL TEXT --save-base OURS");
        theirs("-m MODEL -f TEXT --kl-divergence-base THEIRS");
        assert!(fs::read(&our_base).unwrap() == fs::read(&their_base).unwrap(), "{options}");

        let [expected, _] = theirs("-m SMALL --kl-divergence-base THEIRS --kl-divergence");
        let (_, expected) = expected.split_once("Perplexity statistics").unwrap();
        let expected = expected.lines().filter_map(|line| line.split_once(':')).flat_map(|(_, found)| numbers(found));
        let table = with_library(&words(&format!("kld --base OURS SMALL {batches} -j 1 -q"), &files)).exits(0).out;
        let values = table.lines().skip_while(|line| !line.contains("STATISTIC")).skip(2);
        let found = values.flat_map(|line| numbers(line.trim_end().rsplit("  ").next().unwrap()));
        let (found, expected): (Vec<String>, Vec<String>) = (found.collect(), expected.collect());
        assert_eq!(found, expected, "{options}: {table}");
        assert!(found.len() > 40, "{found:?}");
    }
}

/// Libraries that cannot be used are refused, with the reason.
fn unusable_libraries_are_refused() {
    let lib = peers().join("lib");
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let refused = |folder: &Path, said: &str| {
        gguf(["engine", "--llama", text(folder)]).exits(2).says(&[said, "help: "]);
    };
    refused(&folder("empty"), "there is no libllama.so in this folder");
    let truncated = folder("truncated");
    let bytes = fs::read(lib.join("libllama.so")).unwrap();
    fs::write(truncated.join("libllama.so"), &bytes[..100_000]).unwrap();
    refused(&truncated, "the library cannot be opened");
    // Another library under its name stands for one that is too old.
    let other = folder("other");
    fs::copy(lib.join("libggml-base.so"), other.join("libllama.so")).unwrap();
    refused(&other, "the library has no function llama_backend_init");
    let without = folder("without-cpu");
    for entry in fs::read_dir(&lib).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap();
        if !name.contains("-cpu-") {
            fs::copy(&entry, without.join(name)).unwrap();
        }
    }
    refused(&without, "the library has no CPU backend");
    let answer = gguf(["engine", "--llama", text(&lib), "--json"]).exits(0).json();
    assert!(answer["devices"].as_array().is_some_and(|devices| !devices.is_empty()), "{answer}");
    assert!(!cfg!(target_os = "linux") || answer["denied"][0] == "network", "{answer}");
}

/// The oldest library that is accepted computes nearly what the newest does; an older one is refused.
fn older_libraries_are_used_or_refused() {
    let peers = Peers::get();
    let packages = peers::packages().unwrap();
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let run = |lib: &Path, line: &str| {
        let mut command = program();
        command.args(words(line, &[("MODEL", &model), ("TEXT", &validation)])).arg("--llama").arg(lib);
        command.env_remove("LD_LIBRARY_PATH").output().unwrap()
    };
    let perplexity = |lib: &Path| {
        let ended = run(lib, "perplexity MODEL TEXT --chunks 4 -j 1 -q --json");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        answer["perplexity"]["value"].as_f64().unwrap()
    };
    let [old, new] = [packages.join("llama-3.10.0"), peers::peers().join("lib")].map(|lib| perplexity(&lib));
    assert!((old / new - 1.0).abs() < 1e-3, "{old} {new}");
    let ended = run(&packages.join("llama-3.2.0"), "run MODEL x --raw");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("the library has no function llama_model_load_from_file; it is too old"), "{said}");
    assert!(ended.status.code() == Some(2) && said.contains("help: use the shared libraries of"), "{said}");
}

/// A program that is killed at any moment leaves no file but the one from which it resumes, and no process of the library.
fn nothing_is_left_of_a_killed_program() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let mark = format!("KILLED_BY_TEST={}", dir.path().display());
    let (name, value) = mark.split_once('=').unwrap();
    let mut n_killed = 0;
    for (i, (line, kept)) in [
        ("imatrix compute MODEL TEXT -o OUT -j 1 -q --resume", "out.gguf.partial"),
        ("imatrix compute MODEL TEXT -o OUT -j 1 -q -c 64 -b 64 --snapshots 1", "out.gguf.at_"),
        ("perplexity MODEL TEXT -j 1 -q --save-base OUT", ""),
        ("kld MODEL MODEL TEXT -j 1 -q", ""),
        ("sensitivity MODEL TEXT -o OUT -c 128 --chunks 2 -j 1 -q", ""),
        ("sensitivity MODEL TEXT -o OUT -c 128 --chunks 2 -j 1 -q --resume", "out.gguf.partial"),
        ("run MODEL x --raw --tokens 2000 -j 1", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = dir.path().join(i.to_string());
        fs::create_dir(&folder).unwrap();
        let out = folder.join("out.gguf");
        let files = [("MODEL", &*model), ("TEXT", &*validation), ("OUT", &*out)];
        for milliseconds in [0, 30, 60, 120, 240, 480, 960, 1920, 3840] {
            let mut command = program();
            command.env(name, value).args(words(line, &files)).arg("--llama").arg(peers::peers().join("lib"));
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(milliseconds));
            let is_over = child.try_wait().unwrap().is_some();
            child.kill().unwrap();
            child.wait().unwrap();
            if is_over {
                break;
            }
            n_killed += 1;
            let left = gguf_test::files::names(&folder);
            let is_kept = |name: &String| !kept.is_empty() && name.starts_with(kept);
            assert!(left.iter().all(is_kept), "{line}, after {milliseconds} ms: {left:?}");
        }
    }
    assert!(n_killed > 30, "{n_killed}");
    // The library's process notices the end of its input at once, even if it computes. Other tests have such processes, too.
    let is_left = || {
        fs::read_dir("/proc").unwrap().any(|entry| {
            let variables = fs::read(entry.unwrap().path().join("environ")).unwrap_or_default();
            variables.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
        })
    };
    let ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        !is_left()
    });
    assert!(ended);
}

/// A run in the background.
fn start(args: &[&str]) -> Child {
    let lib = peers().join("lib");
    let mut command = program();
    command.args(args).arg("--llama").arg(lib).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The output of a run that a signal ends after some time. Not SIGINT, which a test that a shell started in the background ignores.
fn interrupted(mut child: Child, after: Duration) -> Output {
    std::thread::sleep(after);
    if child.try_wait().unwrap().is_none() {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }
    child.wait_with_output().unwrap()
}

/// The texts of the arguments.
fn words<'a>(line: &'a str, files: &'a [(&str, &Path)]) -> Vec<&'a str> {
    let word = |word: &'a str| files.iter().find(|(name, _)| *name == word).map_or(word, |(_, path)| text(path));
    line.split_whitespace().map(word).collect()
}

/// A matrix of the example model and the options; returns the file and the answer.
fn matrix(dir: &Path, name: &str, options: &str) -> (Vec<u8>, serde_json::Value) {
    let peers = Peers::get();
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let out = dir.join(format!("{name}.gguf"));
    let line = format!("imatrix compute MODEL TEXT -o OUT -j 1 -q --json {options}");
    let answer =
        with_library(&words(&line, &[("MODEL", &model), ("TEXT", &validation), ("OUT", &out)])).exits(0).json();
    (fs::read(out).unwrap(), answer)
}

/// Several models are columns of one table, with the values that each has alone.
fn several_models_are_compared_in_one_table() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let small = ["Q8_0", "Q2_K"].map(|ty| dir.path().join(format!("{ty}.gguf")));
    for (path, ty) in small.iter().zip(["Q8_0", "Q2_K"]) {
        gguf(["quantize", text(&model), text(path), ty, "-q"]).exits(0);
    }
    let files = [("MODEL", &*model), ("A", &*small[0]), ("B", &*small[1]), ("TEXT", &*validation)];
    let run = |line: &str| with_library(&words(line, &files)).exits(0);
    let both = run("kld MODEL A B TEXT --chunks 4 -j 1 -q");
    let row = both.out.lines().find(|line| line.trim_start().starts_with("KLD mean")).unwrap().to_owned();
    for (name, line) in
        [("Q8_0", "kld MODEL A TEXT --chunks 4 -j 1 -q"), ("Q2_K", "kld MODEL B TEXT --chunks 4 -j 1 -q")]
    {
        assert!(both.out.lines().any(|line| line.contains("Q8_0") && line.contains("Q2_K")), "{name}: {}", both.out);
        let alone = run(line).out;
        let alone = alone.lines().find(|line| line.trim_start().starts_with("KLD mean")).unwrap();
        let value = alone.split_once("mean").unwrap().1.trim();
        assert!(row.contains(value), "{name}: {row} {value}");
    }
    let answer = run("kld MODEL A B TEXT --chunks 4 -j 1 -q --json").json();
    let [a, b] = [0, 1].map(|i| answer["models"][i]["kld"]["mean"]["value"].as_f64().unwrap());
    assert!(a > 0.0 && b > 100.0 * a, "{a} {b}");
}

/// The tokens and the text of a greedy generation are those of llama.cpp.
fn greedy_text_is_that_of_llama_cpp() {
    let peers = Peers::get();
    let model = peers.data("glossary-bf16.gguf");
    for prompt in ["a small animal", "The act of", "x"] {
        let theirs: serde_json::Value =
            serde_json::from_str(&peers.ask(&["generate", text(&model), prompt, "-n", "48"])).unwrap();
        let args = ["run", text(&model), prompt, "--raw", "--tokens", "48", "-j", "1", "--json"];
        let ours = with_library(&args).exits(0).json();
        assert_eq!(ours["prompt_tokens"], theirs["prompt_tokens"]);
        assert_eq!(ours["text"], theirs["text"]);
        // The token that ends a text is not a part of ours.
        let n = ours["tokens"].as_array().unwrap().len();
        assert!(n > 0 && ours["tokens"].as_array().unwrap()[..] == theirs["tokens"].as_array().unwrap()[..n]);
    }
    let dir = tempfile::tempdir().unwrap();
    let completion = peers.build(Program::Completion, dir.path());
    let prompt = "a small animal";
    let mut command = Command::new(completion);
    command.arg("-m").arg(&model).args(["-p", prompt, "-n", "64", "-t", "1"]);
    command.args(["--temp", "0", "-no-cnv", "--no-warmup", "--no-display-prompt"]).stderr(Stdio::null());
    let theirs = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let ours =
        with_library(&["run", text(&model), prompt, "--raw", "--tokens", "64", "-j", "1", "--json"]).exits(0).json();
    assert!(theirs.len() > 60);
    assert_eq!(ours["text"].as_str().unwrap().trim_end(), theirs.trim_end());
}

/// Skipped windows, and those before, have together the sums of all. Each is evaluated alone, because the library's results depend on the batch.
fn skipped_windows_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let sums = |name: &str, options: &str| {
        let (bytes, answer) = matrix(dir.path(), name, options);
        let entries = ImatrixFile::from_bytes(bytes).unwrap().load().unwrap().entries;
        (entries, answer["windows"].as_u64().unwrap())
    };
    let (all, _) = sums("all", "-c 128 -b 128 --chunks 5");
    let (first, n_first) = sums("first", "-c 128 -b 128 --chunks 2");
    let (rest, n_rest) = sums("rest", "-c 128 -b 128 --chunks 3 --skip 2");
    assert_eq!((n_first, n_rest), (2, 3));
    for (name, entry) in &all {
        let [a, b] = [&first[name], &rest[name]];
        assert_eq!(entry.counts[0], a.counts[0] + b.counts[0]);
        for ((sum, a), b) in entry.sums.iter().zip(&a.sums).zip(&b.sums) {
            assert!((sum - a - b).abs() <= 1e-5 * sum, "{sum} {a} {b}");
        }
    }
}

/// A snapshot is the matrix of that many windows.
fn snapshots_are_matrices_of_fewer_windows() {
    let dir = tempfile::tempdir().unwrap();
    // Four windows are evaluated together.
    matrix(dir.path(), "all", "-c 128 -b 512 --chunks 12 --snapshots 4");
    for n in [4, 8, 12] {
        let snapshot = fs::read(dir.path().join(format!("all.gguf.at_{n}"))).unwrap();
        let (alone, _) = matrix(dir.path(), &format!("alone-{n}"), &format!("-c 128 -b 512 --chunks {n}"));
        assert!(snapshot == alone, "{n}");
    }
}

/// The embeddings of a model without an output matrix are measured as the output, and nothing else changes.
fn tied_embeddings_are_measured_as_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let entries = |options: &str| {
        let (bytes, _) = matrix(dir.path(), &format!("m{}", options.len()), options);
        ImatrixFile::from_bytes(bytes).unwrap().load().unwrap().entries
    };
    let without = entries("-c 128 --chunks 4");
    let mut with = entries("-c 128 --chunks 4 --process-output");
    let output = with.remove(&b"token_embd.weight"[..]).unwrap();
    assert!(with == without);
    assert_eq!((output.sums.len(), output.counts.as_slice()), (256, &[4 * 128][..]));
    assert!(output.sums.iter().all(|sum| *sum > 0.0));
}

/// The names of special tokens are these tokens on request, and in texts that a chat template has rendered.
fn special_tokens_are_read_on_request() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let [model, names, chats, plain] = ["m.gguf", "names.txt", "chats.jsonl", "plain.txt"].map(|n| dir.path().join(n));
    fs::copy(peers.data("glossary-bf16.gguf"), &model).unwrap();
    let mut permissions = fs::metadata(&model).unwrap().permissions();
    #[allow(clippy::permissions_set_readonly_false, reason = "a file of this test")]
    permissions.set_readonly(false);
    fs::set_permissions(&model, permissions).unwrap();
    fs::write(&names, "<s>".repeat(2000)).unwrap();
    let run = |line: &str| {
        let out = dir.path().join("out.gguf");
        let files = [("MODEL", &*model), ("NAMES", &*names), ("CHATS", &*chats), ("PLAIN", &*plain), ("OUT", &*out)];
        let answer = with_library(&words(line, &files)).exits(0).json();
        (fs::read(out).unwrap(), answer["windows"].as_u64().unwrap())
    };
    let (_, n) = run("imatrix compute MODEL NAMES -o OUT -f -j 1 -q --json -c 128");
    let (_, parsed) = run("imatrix compute MODEL NAMES -o OUT -f -j 1 -q --json -c 128 --parse-special");
    assert_eq!(parsed, 2001 / 128);
    assert!(n > 2 * parsed, "{n} {parsed}");

    // A template that begins the text itself renders conversations to the tokens of the plain text.
    let template = "tokenizer.chat_template={% if loop is not defined %}{{ bos_token }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
    gguf(["set", text(&model), template, "-q"]).exits(0);
    let validation = fs::read_to_string(peers.data("glossary/validation.txt")).unwrap();
    let start: String = validation.chars().take(3000).collect();
    fs::write(&plain, &start).unwrap();
    let line = serde_json::json!([{ "role": "user", "content": start.trim_end_matches('\n') }]);
    fs::write(&chats, format!("{line}\n")).unwrap();
    let (of_text, n) = run("imatrix compute MODEL PLAIN -o OUT -f -j 1 -q --json -c 128");
    let (of_chats, m) = run("imatrix compute MODEL CHATS -o OUT -f -j 1 -q --json -c 128 --chat");
    assert_eq!(n, m);
    let [of_text, of_chats] = [of_text, of_chats].map(|bytes| ImatrixFile::from_bytes(bytes).unwrap().load().unwrap());
    assert!(of_text.entries == of_chats.entries);
}

/// With a minimum for experts, windows are added until each has it; experts that do not get it are named.
fn experts_get_a_minimum_of_tokens() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let [long, out] = ["long.txt", "out.gguf"].map(|name| dir.path().join(name));
    let model = peers.data("hf/ref/mixtral-f16.gguf");
    let validation = fs::read_to_string(peers.data("glossary/validation.txt")).unwrap();
    fs::write(&long, validation.chars().take(2000).collect::<String>()).unwrap();
    let files = [("MODEL", &*model), ("TEXT", &*long), ("OUT", &*out)];
    let compute = |options: &str| {
        let line = format!("imatrix compute MODEL TEXT -o OUT -f -j 1 -q --json -c 16 -b 16 --chunks 2 {options}");
        let run = with_library(&words(&line, &files)).exits(0);
        (run.json(), run.err)
    };
    let (two, _) = compute("");
    let fewest = two["fewest_expert_tokens"].as_u64().unwrap();
    assert_eq!(two["windows"], 2);
    let (more, said) = compute(&format!("--min-expert-tokens {}", fewest + 4));
    assert!(more["windows"].as_u64().unwrap() > 2 && more["fewest_expert_tokens"].as_u64().unwrap() >= fewest + 4);
    assert_eq!((more["experts_below"].as_array().unwrap().len(), &*said), (0, ""));
    let (most, said) = compute("--min-expert-tokens 1000000");
    let below = most["experts_below"].as_array().unwrap();
    assert!(!below.is_empty() && said.contains("experts with fewer than 1,000,000 tokens: blk.0."), "{said}");
    let entry = ImatrixFile::open(&out).unwrap().load().unwrap().entries;
    let n_experts: usize = entry.values().filter(|entry| entry.counts.len() > 1).map(|entry| entry.counts.len()).sum();
    assert_eq!(below.len(), n_experts);
}

/// A signal ends a measurement at once, even in the middle of a batch, and a matrix that was interrupted many times has the bytes of one that was
/// not: what an unfinished batch has added is dropped.
fn interrupted_matrices_are_those_of_one_run() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let options = "-c 128 -b 4096 --chunks 128";
    let (whole, _) = matrix(dir.path(), "whole", options);
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let out = dir.path().join("out.gguf");
    let line = format!("imatrix compute MODEL TEXT -o OUT -j 1 -q --resume {options}");
    let files = [("MODEL", &*model), ("TEXT", &*validation), ("OUT", &*out)];
    let mut n_interrupted = 0;
    let mut after = Duration::from_millis(700);
    while !out.exists() {
        let ended = interrupted(start(&words(&line, &files)), after);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() == out.exists(), "{said}");
        // Before the first window is finished, there is nothing to keep.
        assert!(!said.contains("entries"), "{said}");
        n_interrupted += usize::from(!ended.status.success());
        after += Duration::from_millis(700);
    }
    assert!(n_interrupted > 0);
    assert!(!dir.path().join("out.gguf.partial").exists());
    assert!(fs::read(&out).unwrap() == whole);
}

/// Sensitivities are measured, kept by an interrupted run, and weigh the errors of a target size.
fn sensitivities_are_measured_and_used() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let (model, validation) = (peers.data("glossary-bf16.gguf"), peers.data("glossary/validation.txt"));
    let [whole, resumed, small] = ["whole.json", "resumed.json", "small.gguf"].map(|name| dir.path().join(name));
    let files =
        [("MODEL", &*model), ("TEXT", &*validation), ("WHOLE", &*whole), ("RESUMED", &*resumed), ("SMALL", &*small)];
    let run = |line: &str| with_library(&words(line, &files));
    let before = fs::read(&model).unwrap();
    let said = run("sensitivity MODEL TEXT -o WHOLE -c 128 --chunks 2 -j 1").exits(0).err;
    assert!(said.contains("22 tensors on 2 windows: about "), "{said}");
    // The first tensor is kept; then a signal.
    let mut child = start(&words("sensitivity MODEL TEXT -o RESUMED -c 128 --chunks 2 -j 1 -q --resume", &files));
    let partial = dir.path().join("resumed.json.partial");
    let kept = || fs::read_to_string(&partial).map_or(0, |text| text.lines().count());
    let started = Instant::now();
    while kept() < 3 && child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(600) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = interrupted(child, Duration::ZERO);
    assert!(!ended.status.success() && !resumed.exists() && kept() >= 3);
    let said = run("sensitivity MODEL TEXT -o RESUMED -c 128 --chunks 2 -j 1 --resume").exits(0).err;
    assert!(said.contains("resumed: "), "{said}");
    let read = |path: &PathBuf| serde_json::from_slice::<serde_json::Value>(&fs::read(path).unwrap()).unwrap();
    let found = read(&whole);
    assert_eq!(found["tensors"], read(&resumed)["tensors"]);
    let tensors = found["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), 22);
    let value = |tensor: &serde_json::Value, member: &str| tensor[member].as_f64().unwrap();
    assert!(tensors.iter().all(|t| value(t, "divergence") > 0.0 && (0.1..0.2).contains(&value(t, "relative_error"))));
    // The embeddings are the output as well.
    let most = tensors.iter().max_by(|a, b| value(a, "divergence").total_cmp(&value(b, "divergence"))).unwrap();
    assert_eq!(most["name"], "token_embd.weight");
    let mut names = gguf_test::files::names(dir.path());
    names.sort();
    assert_eq!(names, ["resumed.json", "whole.json"]);
    assert!(fs::read(&model).unwrap() == before);

    // What is known to be sensitive gets the larger type.
    let plan = |more: &str| {
        let line = format!("quantize MODEL --target-bpw 4 --dry-run --json {more}");
        gguf(words(&line, &files)).exits(0).json()["tensors"].clone()
    };
    assert!(plan("") != plan("--sensitivity WHOLE"));
    let mut changed = found.clone();
    for tensor in changed["tensors"].as_array_mut().unwrap() {
        let is_first = tensor["name"] == "blk.2.attn_q.weight";
        tensor["divergence"] = if is_first { 100.0 } else { 0.001 }.into();
    }
    fs::write(&whole, changed.to_string()).unwrap();
    let planned = plan("--sensitivity WHOLE");
    let of = |name: &str| planned.as_array().unwrap().iter().find(|t| t["name"] == name).unwrap()["to"].clone();
    assert_eq!((of("blk.2.attn_q.weight"), of("blk.1.attn_q.weight") == "bf16"), ("bf16".into(), false));
    fs::write(&whole, "{}").unwrap();
    gguf(words("quantize MODEL SMALL --target-bpw 4 --sensitivity WHOLE", &files))
        .exits(1)
        .says(&["whole.json: not a file of sensitivities: missing field `format`", "`gguf sensitivity` writes one"]);
}

/// The library's process can neither connect nor write: one that tries stands for libllama.
fn the_process_of_the_library_is_restricted() {
    let dir = tempfile::tempdir().unwrap();
    let [source, library, target] = ["try.c", "libllama.so", "written"].map(|name| dir.path().join(name));
    fs::write(dir.path().join("there"), "there").unwrap();
    let there = dir.path().join("there");
    let code = r#"
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/socket.h>
        #include <unistd.h>
        static void result(const char *what, int code) {
            fprintf(stderr, "%s: %s\n", what, code < 0 ? strerror(errno) : "done");
        }
        __attribute__((constructor)) static void attempt(void) {
            result("create", open(CREATED, O_CREAT | O_WRONLY, 0600));
            result("change", open(THERE, O_WRONLY));
            result("remove", unlink(THERE));
            result("read", open(THERE, O_RDONLY));
            result("connect", socket(AF_INET, SOCK_STREAM, 0));
            result("connect6", socket(AF_INET6, SOCK_DGRAM, 0));
            abort();
        }"#;
    fs::write(&source, code).unwrap();
    let define = |name: &str, path: &Path| format!("-D{name}=\"{}\"", path.display());
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-shared", "-fPIC", &define("CREATED", &target), &define("THERE", &there), "-o"]);
    assert!(compiler.arg(&library).arg(&source).status().unwrap().success());
    let answer = gguf(["engine", "--llama", text(&peers().join("lib")), "--json"]).exits(0).json();
    let is_denied = |what: &str| answer["denied"].as_array().unwrap().iter().any(|denied| denied == what);
    let said = gguf(["engine", "--llama", text(dir.path())]).exits(2).err;
    assert!(said.contains("read: done"), "{said}");
    if is_denied("files") {
        for what in ["create", "change", "remove"] {
            assert!(said.contains(&format!("{what}: Permission denied")), "{said}");
        }
        assert!(!target.exists() && there.exists());
    }
    if is_denied("network") {
        assert!(said.contains("connect: Permission denied") && said.contains("connect6: Permission denied"), "{said}");
    }
    // Linux has had both for years.
    assert!(!cfg!(target_os = "linux") || is_denied("network"), "{answer}");
}

/// The script measures a matrix, the divergence of each type in the card, and generated text, and needs no other program.
fn checkpoints_are_published_with_measurements() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let [calibration, validation, out] = ["calibration.txt", "validation.txt", "out"].map(|name| dir.path().join(name));
    let all = fs::read_to_string(peers.data("glossary/validation.txt")).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    fs::write(&calibration, first.join("\n")).unwrap();
    fs::write(&validation, second.join("\n")).unwrap();
    let program = gguf_test::program::path();
    let path = std::env::join_paths([program.parent().unwrap(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut command = Command::new("sh");
    command.arg(examples.join("publish-measured.sh")).arg(examples.join("glossary")).arg(&out);
    command.args([&calibration, &validation]).args(["--chunks", "3"]);
    command.env("PATH", path).env("GGUF_LLAMA", peers::peers().join("lib"));
    let run = || {
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let mut run = run;
    let printed = run();
    assert!(
        printed.lines().any(|line| line.starts_with("Glossary-2.9M-IQ3_XXS.gguf: ") && line.len() > 40),
        "{printed}"
    );
    let card = fs::read_to_string(out.join("README.md")).unwrap();
    let row = |name: &str| {
        card.lines().find(|line| line.contains(name)).unwrap().split('|').nth(6).unwrap().trim().to_owned()
    };
    assert!(card.contains("| Quality | KLD | SHA-256 |"), "{card}");
    let [small, large] = ["-Q2_K.gguf", "-Q8_0.gguf"].map(|name| row(name).parse::<f64>().unwrap());
    assert!(small > 20.0 * large, "{small} {large}");
    assert_eq!(row("-BF16.gguf"), "");
    // A second run keeps the existing files.
    assert_eq!(run().lines().last(), printed.lines().last());
}

/// The exit code and the messages of a run, which must end by itself, and must say why it fails. Machines that run tests may be slow, so the limit only
/// recognizes a run that waits for ever.
fn ended_by_itself(mut child: Child, line: &str) -> (i32, String) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(600) {
        std::thread::sleep(Duration::from_millis(3));
    }
    let is_over = child.try_wait().unwrap().is_some();
    if !is_over {
        child.kill().unwrap();
    }
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let code = ended.status.code().unwrap_or(-1);
    assert!(is_over && matches!(code, 0..=2), "{line}: {:?} {said}", ended.status);
    assert!(code == 0 || said.contains("gguf: error: "), "{line}: {said}");
    (code, said)
}

/// The options of the commands below. Contexts of the default batch would take most of the time.
const SIZE: &str = "-c 8 -b 16 -ub 16 --chunks 2 -j 1 -q";

/// The commands that read files for the library. Some read the file in place of another.
const READERS: &[&str] = &[
    "perplexity FILE TEXT SIZE",
    "perplexity FILE TEXT SIZE --save-base OUT -f",
    "run FILE x --raw --tokens 2 -j 1",
    "run FILE x --tokens 2 -j 1",
    "kld FILE MODEL TEXT SIZE",
    "kld MODEL FILE TEXT SIZE",
    "kld --base FILE MODEL SIZE",
    "imatrix compute FILE TEXT -o OUT -f SIZE",
    "imatrix compute MODEL TEXT -o OUT -f SIZE --continue FILE",
    "imatrix compute MODEL FILE -o OUT -f SIZE --chat",
    "sensitivity FILE TEXT -o OUT -f SIZE",
    "sensitivity MODEL TEXT -o OUT -f SIZE --imatrix FILE",
    "perplexity MODEL FILE SIZE",
];

/// The invalid files, in a folder.
fn invalid_files(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let folder = dir.join("hostile");
    fs::create_dir(&folder).unwrap();
    paths.extend(hostile::write(&folder).iter().map(|name| folder.join(name)));
    for (i, case) in corpus::all().into_iter().enumerate() {
        let path = dir.join(format!("case-{i}.gguf"));
        fs::write(&path, &case.bytes).unwrap();
        paths.push(path);
    }
    for (i, file) in conformance::files().into_iter().enumerate() {
        let path = dir.join(format!("suite-{i}.gguf"));
        fs::write(&path, &file.start).unwrap();
        // File systems have limits.
        let made = fs::File::options().write(true).open(&path).and_then(|made| made.set_len(file.len));
        paths.extend(made.is_ok().then_some(path));
    }
    assert!(paths.len() > 1500, "{}", paths.len());
    paths
}

/// A short text, in a folder.
fn short_text(dir: &Path) -> PathBuf {
    let path = dir.join("text.txt");
    fs::write(&path, "a b c d e f g h ".repeat(20)).unwrap();
    path
}

/// A reader with its options.
fn reader(line: &str) -> String {
    line.replace("SIZE", SIZE)
}

/// What a function returns for each file and its number. Several threads call it, each with a path of its own for outputs: most of a run is waiting for
/// other processes.
fn for_each_file<T: Send>(paths: &[PathBuf], dir: &Path, run: impl Fn(usize, &Path, &Path) -> T + Sync) -> Vec<T> {
    const THREADS: usize = 8;
    let next = AtomicUsize::new(0);
    let part = |thread: usize| {
        let out = dir.join(format!("out-{thread}"));
        let mut results = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(i) else { return results };
            results.push(run(i, path, &out));
        }
    };
    let part = &part;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || part(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// For every invalid file there is an error, or a result: the program neither ends by a signal nor waits for ever. All commands check a model alike before they
/// start the library, so a file that is refused is given to one more command; other files are given to all.
fn hostile_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (model, text_file) = (Peers::get().data("glossary-bf16.gguf"), short_text(dir.path()));
    let paths = share(6, invalid_files(dir.path()));
    let (first, others) = READERS.split_first().unwrap();
    let was_loaded = for_each_file(&paths, dir.path(), |i, path, out| {
        let files = [("FILE", path), ("MODEL", &*model), ("TEXT", &*text_file), ("OUT", out)];
        let run = |line: &str| {
            let line = reader(line);
            ended_by_itself(start(&words(&line, &files)), &format!("{line}: {}", path.display()))
        };
        let (code, said) = run(first);
        let is_loaded = code == 0 || said.contains("libllama") || said.contains("tokens");
        if is_loaded {
            others.iter().for_each(|line| drop(run(line)));
        } else {
            run(others[i % others.len()]);
        }
        is_loaded
    });
    let n_loaded = was_loaded.iter().filter(|is_loaded| **is_loaded).count();
    assert!(n_loaded > 0);
    eprintln!("{} files, {n_loaded} were given to the library", paths.len());
}

/// As above, for each file in each place of each command.
fn every_hostile_file_is_an_error_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let (model, text_file) = (Peers::get().data("glossary-bf16.gguf"), short_text(dir.path()));
    let paths = invalid_files(dir.path());
    let all = for_each_file(&paths, dir.path(), |_, path, out| {
        let files = [("FILE", path), ("MODEL", &*model), ("TEXT", &*text_file), ("OUT", out)];
        let ran = |line: &&str| {
            let line = reader(line);
            let line = words(&line, &files);
            let started = Instant::now();
            let (code, _) = ended_by_itself(start(&line), &line.join(" "));
            (started.elapsed(), code, line.join(" "))
        };
        READERS.iter().map(ran).collect::<Vec<_>>()
    });
    let all: Vec<_> = all.into_iter().flatten().collect();
    let n_results = all.iter().filter(|(_, code, _)| *code == 0).count();
    let (slowest, _, line) = all.iter().max().unwrap();
    eprintln!(
        "{} files, {} runs, {n_results} with a result; the slowest took {slowest:?}: {line}",
        paths.len(),
        all.len()
    );
}

gguf_test::tests! {
    [Peers, Shared] models_are_compared_side_by_side;
    [Peers, Shared] matrices_are_those_of_llama_imatrix;
    [Peers, Shared] matrices_have_the_bytes_of_llama_imatrix;
    [Peers, Shared] divergences_are_those_of_llama_perplexity;
    [Peers, Shared] several_models_are_compared_in_one_table;
    [Peers, Shared] greedy_text_is_that_of_llama_cpp;
    [Peers, Shared] skipped_windows_are_left_out;
    [Peers, Shared] snapshots_are_matrices_of_fewer_windows;
    [Peers, Shared] tied_embeddings_are_measured_as_the_output;
    [Peers, Shared] special_tokens_are_read_on_request;
    [Peers, Shared] experts_get_a_minimum_of_tokens;
    [Peers, Shared] interrupted_matrices_are_those_of_one_run;
    [Peers, Shared] sensitivities_are_measured_and_used;
    [Peers] the_process_of_the_library_is_restricted;
    [Peers, Shared] checkpoints_are_published_with_measurements;
    [Peers, Shared] hostile_files_are_errors;
    [Peers, Shared, Asking("takes long")] every_hostile_file_is_an_error_of_every_command;
    [Peers] unusable_libraries_are_refused;
    [Peers, Shared, Packages] older_libraries_are_used_or_refused;
    [Peers, Shared] nothing_is_left_of_a_killed_program;
}
