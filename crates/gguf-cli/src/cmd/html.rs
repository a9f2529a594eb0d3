//! `--html`: the answer of a command as a page of its own, which needs no server and loads nothing.

use std::path::{Path, PathBuf};

use gguf_io::Output;
use serde::Serialize;

use crate::failure::Failure;
use crate::json;

/// The page without data, made from `web/` by `npm run report`.
const PAGE: &str = include_str!("html/page.html");
/// The end of the start tag of the element for the data.
const BEFORE: &str = r#"id="data">"#;

/// A page besides the output.
#[derive(Debug, clap::Args)]
pub struct HtmlOptions {
    /// Also write the result as a page with tables and pictures, in one file that loads nothing
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,

    /// Overwrite an existing page
    #[arg(short, long, requires = "html")]
    force: bool,
}

impl HtmlOptions {
    /// Whether there is to be a page.
    pub fn is_requested(&self) -> bool {
        self.html.is_some()
    }

    /// Writes the page, if it is requested: the answer of a command, which `--json` prints with the same schema.
    ///
    /// # Errors
    /// As for [`check`](HtmlOptions::check), or if the page cannot be written.
    pub fn write(&self, inputs: &[PathBuf], schema: &str, answer: &impl Serialize) -> Result<(), Failure> {
        self.check(inputs)?;
        self.html.as_ref().map_or(Ok(()), |path| write(path, self.force, schema, answer))
    }

    /// Checks that the page can be written, and that it does not replace one of the inputs, of which the shards are known once they are open.
    ///
    /// # Errors
    /// If the page exists and must not be replaced, or is one of the inputs.
    pub fn check(&self, inputs: &[PathBuf]) -> Result<(), Failure> {
        let Some(path) = &self.html else { return Ok(()) };
        let real = path.canonicalize().ok();
        if real.is_some() && inputs.iter().any(|input| input.canonicalize().ok() == real) {
            return Err(gguf_pipeline::Error::OverwritesInput { path: path.clone() }.into());
        }
        Ok(Output::may_write(path, self.force)?)
    }
}

/// Writes a page.
///
/// # Errors
/// If the page exists and must not be replaced, or cannot be written.
pub fn write(path: &Path, force: bool, schema: &str, answer: &impl Serialize) -> Result<(), Failure> {
    let fail = |e: &dyn std::fmt::Display| Failure::CouldNotRun(format!("{}: cannot write: {e}", path.display()));
    let data = json::document(schema, answer).map_err(|e| fail(&e))?;
    let (start, end) = PAGE.split_once(BEFORE).unwrap_or((PAGE, ""));
    // A tag in a text would end the element. In JSON, the bracket stands in strings only.
    let page = [start, BEFORE, &data.replace('<', "\\u003c"), end].concat();
    let output = Output::create(path, force)?;
    output.write_at(0, page.as_bytes())?;
    Ok(output.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_do_not_end_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.html");
        let evil = "</script><script>alert(1)</script><!--";
        write(&path, false, "gguf.check/1", &serde_json::json!({ "name": evil })).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(!page.contains(evil));
        let data = page.split_once(BEFORE).unwrap().1.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["schema"], &data["name"]), (&"gguf.check/1".into(), &evil.into()));
        assert!(write(&path, false, "gguf.check/1", &data).is_err());
        write(&path, true, "gguf.check/1", &data).unwrap();
    }

    #[test]
    fn the_page_has_one_place_for_data() {
        assert_eq!(PAGE.matches(BEFORE).count(), 1);
        assert!(PAGE.len() <= 60_000);
    }
}
