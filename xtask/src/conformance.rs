//! `cargo xtask conformance`: makes the files of the conformance suite, its manifest, its archive, and the tables of its page.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use gguf_test::conformance::page::page;
use gguf_test::conformance::{self, Observed, VERSION};

use crate::{Content, Result, pack, read};

/// The largest archive, in bytes.
const LARGEST: u64 = 5_000_000;

/// The pages of the book that the archive has: the one on the suite, and the layout that it refers to.
const PAGES: [&str; 2] = ["conformance.md", "format.md"];

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
    let page_path = root.join("docs").join(PAGES[0]);
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
    for name in names(&sources, "")? {
        let (from, to) = (sources.join(&name), out.join(&name));
        let content = read(&from)?;
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        // With its permissions: the runner is a program.
        fs::copy(&from, to)?;
        let is_program = content.starts_with(b"#!");
        packed.push((name, if is_program { Content::Program(from) } else { Content::Bytes(content) }));
    }
    for name in PAGES {
        let page = without_links(&fs::read_to_string(root.join("docs").join(name))?);
        fs::write(out.join(name), &page)?;
        packed.push((name.to_owned(), Content::Bytes(page.into_bytes())));
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

/// A page without the links to pages that the archive does not have; their text stays.
fn without_links(page: &str) -> String {
    let (mut out, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once("](") {
        let Some((target, tail)) = after.split_once(')') else { break };
        let file = target.split('#').next().unwrap_or_default();
        let is_kept = file.is_empty() || file.contains("://") || PAGES.contains(&file);
        match before.rfind('[').filter(|_| !is_kept) {
            Some(at) => {
                out.push_str(&before[..at]);
                out.push_str(&before[at + 1..]);
            }
            None => out.push_str(&format!("{before}]({target})")),
        }
        rest = tail;
    }
    out + rest
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

#[cfg(test)]
mod tests {
    use super::without_links;

    #[test]
    fn links_to_pages_outside_of_the_archive_are_text() {
        let page = "a [b](show.md#x) `c` [d](#e) [f](format.md#layout), [g](https://h/i.md) [`j`](k/l.md).\n[m]";
        let kept = "a b `c` [d](#e) [f](format.md#layout), [g](https://h/i.md) `j`.\n[m]";
        assert_eq!(without_links(page), kept);
    }
}
