//! URLs of real servers: nginx, and the stores that `.ci/servers` starts. See `gguf_test::harness`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gguf_test::files::{folder, glossary};
use gguf_test::http::{Files, Reply, Server};
use gguf_test::program::{program, set_for_all, words};

#[path = "it/url/reading.rs"]
mod reading;

#[path = "deep.rs"]
mod deep;

gguf_test::main!(stores);

mod stores {
    use super::*;

    gguf_test::tests! {
        [Stores]
            urls_have_the_output_of_files,
            written_objects_have_the_bytes_of_files,
            interrupted_uploads_leave_nothing,
            killed_uploads_are_resumed,
            parts_of_many_machines_are_one_object,
            the_tutorial_publishes_from_the_hub_to_a_bucket,
            every_division_has_the_bytes_of_one_machine,
            a_worker_needs_its_part,
            a_part_that_was_uploaded_again_is_made_again;
        [Stores, Shared]
            recorded_conversions_have_their_bytes;
    }

    fn urls_have_the_output_of_files() {
        use_stores();
        let nginx = Nginx::start(&reading::models());
        reading::have_the_output_of_files(reading::models(), &nginx.address, "");
        for store in [unique("s3://models/reading"), unique("az://models/reading")] {
            for (name, bytes) in reading::models() {
                put(&format!("{store}/{name}"), &bytes);
            }
            reading::have_the_output_of_files(reading::models(), &store, "");
        }
    }

    fn written_objects_have_the_bytes_of_files() {
        use_stores();
        let dir = folder();
        let here = |name: &str| dir.path().join(name).display().to_string();
        let checkpoint = glossary().display().to_string();
        for line in [
            "convert CHECKPOINT -o OUT.gguf --type bf16",
            "convert CHECKPOINT -o OUT-{ftype}.gguf --type Q4_K_M,Q5_K_S",
        ] {
            run(&line.replace("CHECKPOINT", &checkpoint).replace("OUT", &here("m")));
        }
        let model = fs::read(here("m.gguf")).unwrap();
        let nginx = Nginx::start(&vec![("m.gguf".to_owned(), model.clone())]);
        put("s3://models/in/m.gguf", &model);
        put("az://models/in/m.gguf", &model);
        for entry in fs::read_dir(glossary()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            put(&format!("s3://models/glossary/{name}"), &fs::read(entry.path()).unwrap());
        }
        for (i, line) in [
            "quantize NGINX/m.gguf OUT-{ftype}.gguf Q4_K_M,Q5_K_S",
            "quantize s3://models/in/m.gguf OUT-{ftype}.gguf Q4_K_M,Q5_K_S",
            "quantize az://models/in/m.gguf OUT-{ftype}.gguf Q4_K_M,Q5_K_S",
            "convert s3://models/glossary -o OUT-{ftype}.gguf --type Q4_K_M,Q5_K_S",
        ]
        .iter()
        .enumerate()
        {
            for (out, local) in [
                (unique(&format!("s3://models/UNIQUE/out{i}/m")), false),
                (unique(&format!("az://models/UNIQUE/out{i}/m")), false),
                (here(&format!("out{i}")), true),
            ] {
                run(&line.replace("NGINX", &nginx.address).replace("OUT", &out));
                for ty in ["q4_k_m", "q5_k_s"] {
                    let name = format!("{out}-{ty}.gguf");
                    let bytes = if local { fs::read(&name).unwrap() } else { get(&name) };
                    assert!(bytes == fs::read(here(&format!("m-{ty}.gguf"))).unwrap(), "{line} to {name}");
                }
            }
        }
        // An object is not replaced without --force, and shards are objects.
        let again = program()
            .args(words(&unique("quantize s3://models/in/m.gguf s3://models/UNIQUE/out0/m-q5_k_s.gguf Q5_K_S")))
            .output()
            .unwrap();
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("the object exists already"));
        run("split s3://models/in/m.gguf az://models/UNIQUE/split/m --max-tensors 10");
        run("merge az://models/UNIQUE/split/m-00001-of-00003.gguf -o s3://models/UNIQUE/merged.gguf");
        assert!(get(&unique("s3://models/UNIQUE/merged.gguf")) == model);
    }

    #[cfg(unix)]
    fn interrupted_uploads_leave_nothing() {
        use_stores();
        let dir = folder();
        let path = dir.path().join("m.gguf");
        run(&format!("convert {} -o {}", glossary().display(), path.display()));
        let model = fs::read(path).unwrap();
        // So slow that the run is in the middle.
        let nginx = Nginx::start_with(&vec![("m.gguf".to_owned(), model)], "limit_rate 50k;");
        let mut quantize = program();
        quantize.args(words(&unique(&format!("quantize {}/m.gguf s3://models/UNIQUE/never.gguf Q8_0", nginx.address))));
        let child = quantize.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let start = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success() && start.elapsed() < Duration::from_secs(5), "{output:?}");
        let show = program().args(["show".to_owned(), unique("s3://models/UNIQUE/never.gguf")]).output().unwrap();
        assert!(String::from_utf8_lossy(&show.stderr).contains("404"), "{show:?}");
    }

    /// Files and objects as sources, objects as outputs; workers are killed, and parts are made twice.
    fn parts_of_many_machines_are_one_object() {
        use_stores();
        let dir = folder();
        let here = |name: &str| dir.path().join(name).display().to_string();
        let (model, plan) = (here("m.gguf"), here("plan.json"));
        run(&format!("convert {} -o {model} -q", deep::checkpoint(dir.path()).display()));
        put(&unique("s3://models/UNIQUE/fleet/m.gguf"), &fs::read(&model).unwrap());
        for (source, store, ty, part, more) in [
            (model.as_str(), "s3", "Q8_0", "5MiB", ""),
            ("s3://models/UNIQUE/fleet/m.gguf", "s3", "Q4_K_M", "8388609", ""),
            ("s3://models/UNIQUE/fleet/m.gguf", "s3", "F16", "256MiB", ""),
            (model.as_str(), "az", "Q8_0", "5MiB", ""),
            (model.as_str(), "s3", "Q6_K", "5MiB", "--split-max-tensors 150"),
        ] {
            let (one, many) = (here("one.gguf"), format!("{store}://models/UNIQUE/fleet/{ty}-{part}.gguf"));
            run(&format!("quantize {source} {one} {ty} -qf {more}"));
            run(&format!("quantize {source} {many} {ty} -qf {more} --plan-only {plan} --part-size {part}"));
            assert_eq!(ends(&format!("show {many}")).0, Some(2));
            // Killed at any moment.
            for wait in [40, 300, 700] {
                let line = unique_in(&format!("part {plan} --index 0..3 -j 1 -q"));
                let mut child = program().args(words(&line)).stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(wait));
                child.kill().unwrap();
                child.wait().unwrap();
            }
            let (code, said) = ends(&format!("commit {plan}"));
            if code != Some(0) {
                assert!(code == Some(75) && said.contains("not done"), "{code:?} {said}");
            }
            std::thread::scope(|scope| {
                for worker in 0..3 {
                    let plan = &plan;
                    // Indexes beyond the last part are errors.
                    scope.spawn(move || {
                        for index in (worker..100).step_by(3) {
                            let (code, said) = ends(&format!("part {plan} --index {index} -j 1"));
                            if code == Some(2) && said.contains("there is no part") {
                                break;
                            }
                            assert_eq!(code, Some(0), "{said}");
                        }
                    });
                }
            });
            for _ in 0..2 {
                run(&format!("commit {plan} -q"));
            }
            for entry in fs::read_dir(dir.path()).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if let Some(rest) = name.strip_prefix("one") {
                    let object = many.replace(".gguf", rest);
                    assert!(fs::read(here(&name)).unwrap() == get(&unique_in(&object)), "{object}");
                    assert_eq!(ends(&format!("show {object}.parts/head")).0, Some(2));
                    fs::remove_file(here(&name)).unwrap();
                }
            }
            run(&format!("part {plan} --index 0 -q"));
        }
        // An aborted plan leaves nothing, and its workers do not go on.
        let many = "s3://models/UNIQUE/fleet/aborted.gguf";
        run(&format!("quantize {model} {many} Q8_0 -qf --plan-only {plan} --part-size 5MiB"));
        run(&format!("part {plan} --index 1 -q"));
        let (code, said) = ends(&format!("quantize {model} {many} Q8_0 -q --plan-only {}", here("other.json")));
        assert!(code == Some(2) && said.contains("another plan writes this output"), "{said}");
        run(&format!("commit {plan} --abort -q"));
        let (code, said) = ends(&format!("part {plan} --index 2"));
        assert!(code == Some(2) && said.contains("not begun"), "{code:?} {said}");
        assert_eq!(ends(&format!("show {many}")).0, Some(2));
    }

    /// Checkpoints whose conversions llama.cpp made: every fifth, from a Hub to a bucket, and from a bucket to a file.
    fn recorded_conversions_have_their_bytes() {
        use_stores();
        let dir = folder();
        let data = gguf_test::peers::data("hf");
        let manifest = fs::read(data.join("MANIFEST.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let mut names: Vec<(String, String, PathBuf)> = Vec::new();
        for job in manifest["jobs"].as_array().unwrap() {
            let (name, ty, args) = (text(&job["name"]), text(&job["outtype"]), job["args"].as_array().unwrap());
            let outputs = job["outputs"].as_array().unwrap();
            if job["status"] == "ok" && args.len() == 2 && outputs.len() == 1 && !names.iter().any(|(n, ..)| *n == name)
            {
                let same = outputs[0]["same_as"].as_str().or(outputs[0]["file"].as_str()).unwrap();
                names.push((name, ty, data.join(same)));
            }
        }
        let (mut n, mut file) = (0, dir.path().join("model.gguf"));
        for (name, ty, recorded) in names.iter().step_by(5) {
            let expected = fs::read(recorded).unwrap();
            let checkpoint = data.join("models").join(name);
            let files = reading::files_below(&checkpoint);
            let repo: &'static str = format!("org/{name}").leak();
            let hub = gguf_test::http::hub_of_files(repo, files.clone());
            let out = unique(&format!("s3://models/UNIQUE/recorded/{name}.gguf"));
            let line = format!("convert hf:{repo} -o {out} --type {ty} -q");
            reading::gguf(&words(&line), &hub.address).exits(0);
            assert!(get(&out) == expected, "{line}");
            // One of them, because each file is a process.
            if n == 1 {
                let folder = unique(&format!("s3://models/UNIQUE/recorded/{name}"));
                for (file, bytes) in &files {
                    put(&format!("{folder}/{file}"), bytes);
                }
                run(&format!("convert {folder} -o {} --type {ty} -q", file.display()));
                assert!(fs::read(&file).unwrap() == expected, "{folder}");
                // And quantized in one pass.
                file.set_extension("q8_0");
                run(&format!("convert {folder} -o {} --type q8_0 -q", file.display()));
                run(&format!(
                    "convert {} -o {} --type q8_0 -qf",
                    checkpoint.display(),
                    dir.path().join("here").display()
                ));
                assert!(fs::read(&file).unwrap() == fs::read(dir.path().join("here")).unwrap());
            }
            n += 1;
        }
        assert!(n >= 10, "{n}");
    }

    /// The commands of the page, with a Hub of this test.
    fn the_tutorial_publishes_from_the_hub_to_a_bucket() {
        use_stores();
        let dir = folder();
        let mut files = reading::files_below(&glossary());
        let matrix = glossary().join("../imatrix.gguf").display().to_string();
        files.push(("imatrix.gguf".to_owned(), fs::read(&matrix).unwrap()));
        let hub = gguf_test::http::hub_of_files("org/glossary", files);

        let page = fs::read_to_string("../../docs/tutorials/publish.md").unwrap();
        let section = page.split("## From the Hub to a bucket\n").nth(1).unwrap();
        let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
        assert!(block.lines().count() >= 6, "{block}");
        let bucket = unique("s3://models/UNIQUE/published/");
        let block = block.replace("s3://models/", &bucket);
        let mut shell = Command::new("sh");
        shell.envs(program().get_envs().filter_map(|(name, value)| Some((name, value?))));
        let program = gguf_test::program::path();
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        shell.env("PATH", path).env("HF_ENDPOINT", &hub.address).env("HF_HOME", "/nonexistent").current_dir(dir.path());
        let output = shell.args(["-ec", &block]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let card = fs::read_to_string(dir.path().join("model-card.md")).unwrap();
        assert!(card.contains("Glossary-2.9M-IQ3_XXS.gguf"), "{card}");
        // Nothing else was written here.
        assert_eq!(gguf_test::files::names(dir.path()), ["model-card.md"]);

        let here = |name: &str| dir.path().join(name).display().to_string();
        let checkpoint = glossary().display().to_string();
        run(&format!("convert {checkpoint} -o {} --type bf16,Q8_0,Q4_K_M,IQ3_XXS --imatrix {matrix}", here("{FTYPE}")));
        for ty in ["BF16", "Q8_0", "Q4_K_M", "IQ3_XXS"] {
            assert!(get(&format!("{bucket}Glossary-2.9M-{ty}.gguf")) == fs::read(here(ty)).unwrap(), "{ty}");
        }
        run(&format!("quantize {} {} --target-size 1.4MB --imatrix {matrix}", here("BF16"), here("small")));
        assert!(get(&format!("{bucket}Glossary-2.9M-small.gguf")) == fs::read(here("small")).unwrap());
    }

    /// All numbers of workers and lengths of parts, in files and in S3: alone and in shards, with a matrix, for a size, and conversions with permuted
    /// rows and stacked experts.
    fn every_division_has_the_bytes_of_one_machine() {
        use_stores();
        let dir = folder();
        let here = |name: &str| dir.path().join(name).display().to_string();
        let (model, plan, checkpoint) = (here("m.gguf"), here("plan.json"), deep::checkpoint(dir.path()));
        let matrix = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/imatrix.gguf");
        run(&format!("convert {} -o {model} -q", checkpoint.display()));
        let (size, measured) = ("--target-bpw 6 --candidates q4_K,q5_K,q8_0", here("measured.json"));
        run(&format!("quantize {model} {measured} {size} -q --measure 4 --plan-only {plan}"));
        make_all(&plan, 2);
        run(&format!("commit {plan} -q"));
        let experts = mixture(dir.path());
        let quantize = format!("quantize {model} OUT -qf");
        let (mut n, mut n_parts) = (0, 0);
        for (name, line) in [
            ("alone", format!("{quantize} Q8_0")),
            ("shards", format!("{quantize} Q6_K --split-max-tensors 150")),
            ("matrix", format!("{quantize} Q4_K --imatrix {}", matrix.display())),
            ("size", format!("{quantize} {size} --measured {measured}")),
            ("rows", format!("convert {} -o OUT -qf --type Q8_0", checkpoint.display())),
            ("experts", format!("convert {} -o OUT -qf --type bf16", experts.display())),
        ] {
            run(&line.replace("OUT", &here("one.gguf")));
            let places = ["s3://models/UNIQUE/".to_owned(), here("many-")];
            for (place, part, n_workers) in places.iter().flat_map(|place| {
                let parts = ["5MiB", "8388609", "256MiB"].into_iter();
                parts.flat_map(move |part| [1, 2, 3, 16].map(|n_workers| (place, part, n_workers)))
            }) {
                let many = format!("{place}{name}-{part}-{n_workers}.gguf");
                run(&format!("{} --plan-only {plan} --part-size {part}", line.replace("OUT", &many)));
                n_parts += make_all(&plan, n_workers);
                run(&format!("commit {plan} -q"));
                for entry in fs::read_dir(dir.path()).unwrap() {
                    let file = entry.unwrap().file_name().into_string().unwrap();
                    if let Some(rest) = file.strip_prefix("one") {
                        let output = unique_in(&many.replace(".gguf", rest));
                        let bytes = if place.contains("://") { get(&output) } else { fs::read(&output).unwrap() };
                        assert!(fs::read(here(&file)).unwrap() == bytes, "{output}");
                        n += 1;
                    }
                }
            }
            for entry in fs::read_dir(dir.path()).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if name.starts_with("one") || name.starts_with("many-") {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        println!("{n} outputs of {n_parts} parts");
        assert!(n > 144 && n_parts > 280, "{n} outputs of {n_parts} parts");
    }

    /// Whatever the model, from a server to a store: a worker has its part and 256 MiB in memory, and reads its rows and at most 2 % more.
    fn a_worker_needs_its_part() {
        use_stores();
        const COLUMNS: u64 = 2048;
        let dir = folder();
        let plan = dir.path().join("plan.json").display().to_string();
        let mut head = gguf_format::Head::default();
        head.set("general.architecture", "llama");
        head.set("llama.block_count", 1u32);
        let tensor = |name| gguf_format::TensorInfo::new(name, [COLUMNS, 1 << 20], gguf_format::GgmlType::F16);
        head.tensors = ["token_embd.weight", "blk.0.attn_q.weight"].map(tensor).into();
        let layout = head.layout().unwrap();
        let (head, bytes) = (layout.head().to_vec(), layout.file_bytes());
        assert!(bytes > 8 << 30);
        // The data is zeros.
        let server = Server::start(move |_, request| {
            let range = request.range.as_deref().expect("nobody reads all").strip_prefix("bytes=").unwrap();
            let (first, last) = range.split_once('-').unwrap();
            let first: usize = first.parse().unwrap();
            let end = last.parse::<u64>().map_or(bytes, |last| bytes.min(last + 1));
            let mut body = vec![0; end as usize - first];
            if let Some(rest) = head.get(first..) {
                let n = rest.len().min(body.len());
                body[..n].copy_from_slice(&rest[..n]);
            }
            let range = format!("bytes {first}-{}/{bytes}", end - 1);
            Reply::new(206, body).with("Content-Range", &range).with("ETag", "\"one\"")
        });
        for (part, index) in [(5u64 << 20, 3), (64 << 20, 17), (256 << 20, 8)] {
            let line = format!("quantize {} s3://models/UNIQUE/worker.gguf Q8_0 -q", server.url("/m.gguf"));
            run(&format!("{line} --force --plan-only {plan} --part-size {part}"));
            let before = server.sent();
            let peak = peak(&format!("part {plan} --index {index} -q -j 4"));
            let read = (server.sent() - before) as f64;
            let rows = part.div_ceil(COLUMNS / 32 * 34) + 1;
            let (needed, bound) = ((rows * COLUMNS * 2) as f64, part + (256 << 20));
            println!(
                "a part of {} MiB: {} of {} MiB, {:.4} of the bytes",
                part >> 20,
                peak >> 20,
                bound >> 20,
                read / needed
            );
            assert!(peak <= bound, "a part of {part} bytes takes {peak} bytes");
            assert!(read >= needed * 0.98 && read <= needed * 1.02, "{read} bytes are read, {needed} needed");
            run(&format!("commit {plan} --abort -q"));
        }
    }

    /// Another upload of a part has another ETag, so the store refuses the one in the manifest.
    fn a_part_that_was_uploaded_again_is_made_again() {
        use_stores();
        let dir = folder();
        let here = |name: &str| dir.path().join(name).display().to_string();
        let (model, plan, many) = (here("m.gguf"), here("plan.json"), unique("s3://models/UNIQUE/again.gguf"));
        run(&format!("convert {} -o {model} -q", deep::checkpoint(dir.path()).display()));
        run(&format!("quantize {model} {} Q8_0 -q", here("one.gguf")));
        run(&format!("quantize {model} {many} Q8_0 -q --plan-only {plan} --part-size 5MiB"));
        make_all(&plan, 2);
        python(&["part", &many, &plan]);
        let (code, said) = ends(&format!("commit {plan}"));
        assert!(
            code == Some(75) && said.contains("the data of these parts is not what was written"),
            "{code:?} {said}"
        );
        assert_eq!(ends(&format!("show {many}")).0, Some(2));
        make_all(&plan, 3);
        run(&format!("commit {plan} -q"));
        assert!(get(&many) == fs::read(here("one.gguf")).unwrap());
    }

    #[cfg(unix)]
    fn killed_uploads_are_resumed() {
        use_stores();
        let dir = folder();
        let (path, expected) = (dir.path().join("m.gguf"), dir.path().join("f32.gguf"));
        run(&format!("convert {} -o {}", glossary().display(), path.display()));
        run(&format!("quantize {} {} F32", path.display(), expected.display()));
        let (model, expected) = (fs::read(path).unwrap(), fs::read(expected).unwrap());
        let slow = Nginx::start_with(&vec![("m.gguf".to_owned(), model.clone())], "limit_rate 700k;");
        'stores: for (store, kill) in [("s3", "-KILL"), ("az", "-KILL"), ("s3", "-INT")] {
            let out = unique(&format!("{store}://models/UNIQUE/resumed{kill}.gguf"));
            let line = format!("quantize {}/m.gguf {out} F32 --resume --threads 2", slow.address);
            let mut is_done = false;
            for wait in [2500, 3000] {
                let child = program().args(words(&line)).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(wait));
                Command::new("kill").args([kill, &child.id().to_string()]).status().unwrap();
                let output = child.wait_with_output().unwrap();
                if output.status.success() {
                    is_done = true;
                    break;
                }
                let show = program().args(["show", &out]).output().unwrap();
                // It was killed after the commit.
                if show.status.success() {
                    assert!(get(&out) == expected, "{out}");
                    continue 'stores;
                }
                assert!(String::from_utf8_lossy(&show.stderr).contains("404"), "{show:?}");
                let manifest = String::from_utf8(get(&format!("{out}.upload.json"))).unwrap();
                assert!(manifest.contains("\"gguf_upload\":1") && !manifest.contains(AZURITE), "{manifest}");
                for (what, bytes) in [("manifest", manifest.as_bytes()), ("errors", &output.stderr)] {
                    reading::no_secret_in(what, bytes);
                }
            }
            if !is_done {
                run(&line);
            }
            assert!(get(&out) == expected, "{out}");
            let manifest = program().args(["show".to_owned(), format!("{out}.upload.json")]).output().unwrap();
            assert!(String::from_utf8_lossy(&manifest.stderr).contains("404"), "{manifest:?}");
        }
    }
}

/// Makes all parts of a plan with several processes at once; returns their number.
fn make_all(plan: &str, n_workers: usize) -> usize {
    let status = reading::gguf(&words(&format!("commit {plan} --status --json")), "").exits(0).json();
    let n = status["n_parts"].as_u64().unwrap() as usize;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..n_workers {
            scope.spawn(|| {
                loop {
                    match next.fetch_add(1, Ordering::Relaxed) {
                        index if index < n => run(&format!("part {plan} --index {index} -j 1 -q")),
                        _ => break,
                    }
                }
            });
        }
    });
    n
}

/// A checkpoint with experts, of 12 MB of small numbers.
fn mixture(dir: &Path) -> PathBuf {
    const COLUMNS: usize = 512;
    let to = dir.join("mixture");
    fs::create_dir(&to).unwrap();
    for file in ["tokenizer.model", "tokenizer_config.json"] {
        fs::copy(glossary().join(file), to.join(file)).unwrap();
    }
    let config = serde_json::json!({
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": COLUMNS, "intermediate_size": 768,
        "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 2,
        "num_experts_per_tok": 2, "vocab_size": 2048, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "torch_dtype": "bfloat16", "tie_word_embeddings": false,
    });
    fs::write(to.join("config.json"), config.to_string()).unwrap();
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![2048, COLUMNS]),
        ("lm_head.weight".into(), vec![2048, COLUMNS]),
        ("model.norm.weight".into(), vec![COLUMNS]),
    ];
    for layer in 0..2 {
        let mut add = |rest: &str, shape: &[usize]| {
            shapes.push((format!("model.layers.{layer}.{rest}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[COLUMNS]);
        add("post_attention_layernorm", &[COLUMNS]);
        add("self_attn.q_proj", &[COLUMNS, COLUMNS]);
        add("self_attn.k_proj", &[128, COLUMNS]);
        add("self_attn.v_proj", &[128, COLUMNS]);
        add("self_attn.o_proj", &[COLUMNS, COLUMNS]);
        add("block_sparse_moe.gate", &[2, COLUMNS]);
        for expert in 0..2 {
            add(&format!("block_sparse_moe.experts.{expert}.w1"), &[768, COLUMNS]);
            add(&format!("block_sparse_moe.experts.{expert}.w2"), &[COLUMNS, 768]);
            add(&format!("block_sparse_moe.experts.{expert}.w3"), &[768, COLUMNS]);
        }
    }
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in shapes {
        let start = data.len();
        let n = shape.iter().product::<usize>();
        data.extend((start..start + n).flat_map(|i| (0x3c00 | (((i * 40503) >> 3) & 0x80ff) as u16).to_le_bytes()));
        header.insert(name, serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let header = serde_json::Value::from(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    fs::write(to.join("model.safetensors"), bytes).unwrap();
    to
}

/// Runs the program; returns the exit code and what it says.
fn ends(line: &str) -> (Option<i32>, String) {
    let output = program().args(words(&unique_in(line))).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs the program, which must succeed; returns the peak of its resident memory in bytes. A child starts with the peak of its parent, so the parent is
/// a small program.
fn peak(line: &str) -> u64 {
    const RUN: &str = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); \
                       print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let mut python = Command::new("python3");
    python.envs(program().get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output =
        python.args(["-c", RUN]).arg(gguf_test::program::path()).args(words(&unique_in(line))).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Sets the addresses and the credentials of the stores for the program. The tests run in one process, so all set the same.
fn use_stores() {
    // They are variables of the children.
    set_for_all(vec![
        ("AWS_ENDPOINT_URL", address("s3")),
        ("AWS_ACCESS_KEY_ID", "hf_secret_id".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "hf_secret_key".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AZURE_STORAGE_ENDPOINT", format!("{}/devstoreaccount1", address("azure"))),
        ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1".to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", AZURITE.to_owned()),
    ]);
}

/// The key of Azurite, which is in its documentation.
const AZURITE: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

fn address(server: &str) -> String {
    let folder = gguf_test::peers::stores().expect("GGUF_STORES is set");
    fs::read_to_string(folder.join(server)).unwrap().trim().to_owned()
}

/// A place of this run, because the stores outlive it.
fn unique(place: &str) -> String {
    let of_run = || format!("{}-{:?}", std::process::id(), std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos());
    static RUN: OnceLock<String> = OnceLock::new();
    let run = RUN.get_or_init(of_run);
    if place.contains("UNIQUE") { place.replace("UNIQUE", run) } else { format!("{place}-{run}") }
}

/// Runs the program, which must succeed.
fn run(line: &str) {
    reading::gguf(&words(&unique_in(line)), "").exits(0);
}

/// A line with places of this run.
fn unique_in(line: &str) -> String {
    if line.contains("UNIQUE") { unique(line) } else { line.to_owned() }
}

/// Writes an object with the program of another.
fn put(url: &str, bytes: &[u8]) {
    let dir = folder();
    let path = dir.path().join("object");
    fs::write(&path, bytes).unwrap();
    python(&["put", url, path.to_str().unwrap()]);
}

/// The bytes of an object, read with the program of another.
fn get(url: &str) -> Vec<u8> {
    let dir = folder();
    let path = dir.path().join("object");
    python(&["get", url, path.to_str().unwrap()]);
    fs::read(path).unwrap()
}

/// Runs `stores.py` with the Python of the servers, which has a client of S3.
fn python(args: &[&str]) {
    let python = gguf_test::peers::stores().expect("GGUF_STORES is set").join("python/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores.py");
    let (s3, azure) = (address("s3"), address("azure"));
    let status =
        Command::new(python).arg(script).args(args).args([s3.as_str(), azure.as_str(), AZURITE]).status().unwrap();
    assert!(status.success(), "{args:?}");
}

/// An nginx that serves a folder.
struct Nginx {
    address: String,
    dir: tempfile::TempDir,
}

impl Nginx {
    fn start(files: &Files) -> Nginx {
        Nginx::start_with(files, "")
    }

    fn start_with(files: &Files, options: &str) -> Nginx {
        let dir = folder();
        for (name, bytes) in files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let root = dir.path().display();
        let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temp: String = temp.iter().map(|kind| format!("{kind}_temp_path {root}/{kind};\n")).collect();
        let config = format!(
            "daemon on; worker_processes 1; pid {root}/pid; error_log {root}/error.log;\nevents {{}}\n\
             http {{ access_log off; {temp} server {{ listen 127.0.0.1:{port}; root {root}; {options} }} }}\n"
        );
        let path = dir.path().join("nginx.conf");
        fs::write(&path, config).unwrap();
        // Its folder is in the path of root only.
        let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from).into_iter().find(|path| path.exists());
        let status = Command::new(nginx.expect("nginx is installed"))
            .arg("-c")
            .arg(&path)
            .arg("-e")
            .arg(dir.path().join("error.log"))
            .status();
        assert!(status.unwrap().success());
        Nginx { address: format!("http://127.0.0.1:{port}"), dir }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.dir.path().join("pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}
