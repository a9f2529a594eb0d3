//! `cargo xtask dist`: builds the archive of a release. `cargo xtask conformance`: makes the conformance suite.
//!
//! The archive of a release has the program, its manual and completions, the C library with its headers, and the licences. Its files are sorted and have the
//! time of the commit, so that the same sources and tools give the same bytes.

mod conformance;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

const USAGE: &str = "\
Usage: cargo xtask dist [--target TRIPLE]
       cargo xtask conformance

Builds target/dist/ggufkit-VERSION-TRIPLE.tar.gz and adds it to target/dist/SHA256SUMS.
Without --target, the archive is for this machine.

conformance writes the suite for other implementations to target/conformance, an archive of it beside that,
conformance/manifest.json, and the tables of docs/conformance.md.
";

/// Where each shell looks for completions, below the prefix.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "share/bash-completion/completions/gguf"),
    ("elvish", "share/elvish/lib/gguf.elv"),
    ("fish", "share/fish/vendor_completions.d/gguf.fish"),
    ("powershell", "share/powershell/gguf.ps1"),
    ("zsh", "share/zsh/site-functions/_gguf"),
];

/// The files of the C library that a system may have, and their places. The first are those that programs load.
const LIBRARIES: [(&str, &str); 6] = [
    ("libgguf.so", "lib/libgguf.so.0"),
    ("libgguf.dylib", "lib/libgguf.dylib"),
    ("gguf.dll", "bin/gguf.dll"),
    ("libgguf.a", "lib/libgguf.a"),
    ("libgguf.dll.a", "lib/libgguf.dll.a"),
    ("gguf.lib", "lib/gguf.lib"),
];

/// The files that tell C programs where the library is: relative to themselves, so that the archive can be unpacked anywhere.
const PACKAGES: [(&str, &str, &str); 3] = [
    ("libgguf.pc.in", "lib/pkgconfig/libgguf.pc", "${pcfiledir}/../.."),
    ("libgguf-config.cmake.in", "lib/cmake/libgguf/libgguf-config.cmake", "${CMAKE_CURRENT_LIST_DIR}/../../.."),
    ("libgguf-config-version.cmake.in", "lib/cmake/libgguf/libgguf-config-version.cmake", ""),
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["dist"] => dist(None),
        ["dist", "--target", target] => dist(Some(target)),
        ["conformance"] => root().and_then(|root| conformance::make(root, &target_dir(root).join("conformance"))),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn dist(target: Option<&str>) -> Result<()> {
    let root = root()?;
    let target_dir = target_dir(root);
    let host = host()?;
    build(root, "release", "gguf-cli", target)?;
    build(root, "library", "gguf-capi", target)?;
    let built = target.map_or(target_dir.clone(), |target| target_dir.join(target));
    let program = program_of(&built, target.unwrap_or(&host));
    // The manual and the completions do not depend on the system.
    let runs = match target.is_none_or(|target| target == host) {
        true => program.clone(),
        false => {
            build(root, "release", "gguf-cli", None)?;
            program_of(&target_dir, &host)
        }
    };

    let name = format!("ggufkit-{}-{}", env!("CARGO_PKG_VERSION"), target.unwrap_or(&host));
    let out = target_dir.join("dist");
    let pages = out.join("man");
    fs::create_dir_all(&out)?;
    run(Command::new(&runs).args(["man", "--force"]).arg(&pages))?;

    let mut files: Vec<(String, Content)> = Vec::new();
    let program_name = program.file_name().ok_or("no program")?.to_string_lossy();
    files.push((format!("bin/{program_name}"), Content::Program(program.clone())));
    for page in fs::read_dir(&pages)? {
        let page = page?;
        files.push((format!("share/man/man1/{}", page.file_name().to_string_lossy()), Content::File(page.path())));
    }
    for (shell, place) in COMPLETIONS {
        let script = run(Command::new(&runs).args(["completions", shell]))?;
        files.push((place.to_owned(), Content::Bytes(script)));
    }
    let libraries = built.join("library");
    let found: Vec<_> = LIBRARIES.into_iter().filter(|(file, _)| libraries.join(file).exists()).collect();
    if found.is_empty() {
        return Err(format!("no C library in {}", libraries.display()).into());
    }
    for (file, place) in found {
        files.push((place.to_owned(), Content::Program(libraries.join(file))));
        if file == "libgguf.so" {
            files.push(("lib/libgguf.so".to_owned(), Content::Link("libgguf.so.0")));
        }
    }
    let capi = root.join("crates/gguf-capi");
    for header in ["gguf.h", "gguf_x.h"] {
        files.push((format!("include/libgguf/{header}"), Content::File(capi.join("include").join(header))));
    }
    for (template, place, prefix) in PACKAGES {
        let text = fs::read_to_string(capi.join("pkg").join(template))?;
        let text = text.replace("@LIBDIR@", "@PREFIX@/lib").replace("@INCLUDEDIR@", "@PREFIX@/include/libgguf");
        let text = text.replace("@PREFIX@", prefix).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        files.push((place.to_owned(), Content::Bytes(text.into_bytes())));
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        files.push((file.to_owned(), Content::File(root.join(file))));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));

    let archive = out.join(format!("{name}.tar.gz"));
    pack(&archive, &name, &files, time(root))?;
    fs::remove_dir_all(pages)?;
    sum(&out)?;
    println!("{}", archive.display());
    Ok(())
}

/// The root of the workspace.
fn root() -> Result<&'static Path> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?)
}

fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// The content of a file in the archive.
enum Content {
    File(PathBuf),
    /// A file that can be executed.
    Program(PathBuf),
    Bytes(Vec<u8>),
    /// A link to a file beside it.
    Link(&'static str),
}

fn pack(archive: &Path, folder: &str, files: &[(String, Content)], time: u64) -> Result<()> {
    let out = BufWriter::new(File::create(archive)?);
    let mut tar = Builder::new(GzEncoder::new(out, Compression::best()));
    for (place, content) in files {
        let path = format!("{folder}/{place}");
        let mut header = Header::new_gnu();
        header.set_mode(if matches!(content, Content::Program(_)) { 0o755 } else { 0o644 });
        header.set_mtime(time);
        let bytes = match content {
            Content::File(file) | Content::Program(file) => read(file)?,
            Content::Bytes(bytes) => bytes.clone(),
            Content::Link(to) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                tar.append_link(&mut header, path, to)?;
                continue;
            }
        };
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, bytes.as_slice())?;
    }
    tar.into_inner()?.finish()?.flush()?;
    Ok(())
}

/// The time of all files: that of the commit, in seconds since 1970.
fn time(root: &Path) -> u64 {
    let stated = std::env::var("SOURCE_DATE_EPOCH").ok();
    let commit = || run(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"])).ok();
    let time = stated.or_else(|| String::from_utf8(commit()?).ok());
    time.and_then(|time| time.trim().parse().ok()).unwrap_or(0)
}

/// Writes the SHA-256 of all archives, for `sha256sum --check`.
fn sum(dir: &Path) -> Result<()> {
    let mut sums = Vec::new();
    for file in fs::read_dir(dir)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".tar.gz") {
            continue;
        }
        let mut hash = Sha256::new();
        let mut reader = File::open(file.path())?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = reader.read(&mut buffer)?;
            let Some(part @ [_, ..]) = buffer.get(..n) else { break };
            hash.update(part);
        }
        let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push(format!("{digest}  {name}\n"));
    }
    sums.sort_by(|a, b| a[64..].cmp(&b[64..]));
    fs::write(dir.join("SHA256SUMS"), sums.concat())?;
    Ok(())
}

fn build(root: &Path, profile: &str, package: &str, target: Option<&str>) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(root).args(["build", "--quiet", "--locked", "--profile", profile, "--package", package]);
    if package == "gguf-cli" {
        let page = root.join("web/dist/served.html.gz");
        if page.is_file() {
            cargo.args(["--features", "cloud,view"]).env("GGUF_VIEWER_PAGE", page);
        } else {
            eprintln!("{} does not exist: the program gets no `gguf view`", page.display());
            cargo.args(["--features", "cloud"]);
        }
    }
    if let Some(target) = target {
        cargo.args(["--target", target]);
    }
    run(&mut cargo).map(drop)
}

fn program_of(built: &Path, target: &str) -> PathBuf {
    built.join("release").join(if target.contains("windows") { "gguf.exe" } else { "gguf" })
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let version = String::from_utf8(run(Command::new(rustc).arg("-vV"))?)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

/// Runs a command; returns its output.
fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|e| format!("{command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?}: {}", output.status).into()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()).into())
}
