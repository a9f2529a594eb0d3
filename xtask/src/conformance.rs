//! `cargo xtask conformance`: makes the files of the conformance suite, its manifest, its archive, and the tables of its page.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use gguf_test::conformance::page::page;
use gguf_test::conformance::{self, Observed, VERSION};

use crate::{Content, Result, pack, read};

/// The largest archive, in bytes.
const LARGEST: u64 = 5_000_000;

/// Writes the suite to `out`, its archive beside it, and the manifest and the page to the sources.
pub fn make(root: &Path, out: &Path) -> Result<()> {
    let sources = root.join("conformance");
    let manifest_path = sources.join("manifest.json");
    let before = fs::read_to_string(&manifest_path).unwrap_or_default();
    let files = conformance::files();
    let observed = Observed::of(&before);
    let manifest = conformance::manifest(&files, &observed);
    if manifest != before {
        fs::write(&manifest_path, &manifest)?;
    }
    let page_path = root.join("docs/conformance.md");
    let before = fs::read_to_string(&page_path)?;
    let page = page(&before, &files, &observed);
    if page != before {
        fs::write(&page_path, page)?;
    }

    if out.exists() {
        fs::remove_dir_all(out)?;
    }
    fs::create_dir_all(out.join("files"))?;
    let mut packed = Vec::new();
    for file in &files {
        let path = file.path();
        let mut written = File::create(out.join(&path))?;
        written.write_all(&file.start)?;
        written.set_len(file.len)?;
        packed.push((path, Content::Bytes(file.start.clone())));
    }
    // The page is that of the book.
    let others = names(&sources, "")?.into_iter().map(|name| (sources.join(&name), name));
    for (from, name) in others.chain([(page_path, "conformance.md".to_owned())]) {
        let content = read(&from)?;
        if let Some(folder) = out.join(&name).parent() {
            fs::create_dir_all(folder)?;
        }
        // With its permissions: the runner is a program.
        fs::copy(&from, out.join(&name))?;
        let is_program = content.starts_with(b"#!");
        packed.push((name, if is_program { Content::Program(from) } else { Content::Bytes(content) }));
    }
    packed.sort_by(|a, b| a.0.cmp(&b.0));

    let name = format!("gguf-conformance-{VERSION}");
    let archive = out.with_file_name(format!("{name}.tar.gz"));
    // The same version has the same bytes, whatever the commit: the time is that of the epoch.
    pack(&archive, &name, &packed, 0)?;
    let bytes = fs::metadata(&archive)?.len();
    println!("{}: {} files, {bytes} bytes", archive.display(), files.len());
    if bytes > LARGEST {
        return Err(format!("the archive has more than {LARGEST} bytes").into());
    }
    Ok(())
}

/// The files below a folder, except what its programs leave behind.
fn names(folder: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_left_behind =
            ["target", "node_modules", "__pycache__", "Cargo.lock", "package-lock.json"].contains(&&*name);
        if is_left_behind {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => out.extend(names(&entry.path(), &format!("{prefix}{name}/"))?),
            false => out.push(format!("{prefix}{name}")),
        }
    }
    Ok(out)
}
