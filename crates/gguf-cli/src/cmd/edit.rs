//! `gguf edit`: edits the metadata as text in an editor.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use gguf_edit::Edit;
use gguf_edit::text::{edits_of, text_of};
use gguf_format::Head;
use gguf_io::shown_path;

use crate::cmd::set::{Backup, How};
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::ui::Ui;

/// Edit the metadata as text in $VISUAL or $EDITOR.
///
/// Each line has the form KEY: TYPE = VALUE. Strings are written in quotation marks as in JSON, or on the lines between
/// <<END and END; arrays are written as JSON. Long arrays and strings of more than 1 MiB are shown as … and stay
/// unchanged. Remove a line to remove its key. Changes are applied when the editor exits, in place where possible; see
/// `gguf help set`. If the text is invalid, the model stays unchanged and the text is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf edit model.gguf --backup undo.json
  EDITOR='code --wait' gguf edit model.gguf
  EDITOR='sed -i s/Llama/Lama/' gguf edit model.gguf --dry-run")]
pub struct Args {
    /// GGUF file; the first shard of a split model
    file: PathBuf,

    #[command(flatten)]
    backup: Backup,

    #[command(flatten)]
    how: How,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        // Other edits are not excluded while the text is edited, which may take hours.
        let opened = self.how.open_unlocked(ui, &self.file)?;
        let (head, bytes) = (Head::without_tensors(opened.gguf()), opened.gguf().bytes().to_owned());
        drop(opened);
        let fail = |what: &str, e: std::io::Error| Failure::CouldNotRun(format!("cannot {what} the text to edit: {e}"));
        let mut text =
            tempfile::Builder::new().prefix("gguf-edit-").suffix(".txt").tempfile().map_err(|e| fail("write", e))?;
        write!(
            text,
            "# {}\n# KEY: TYPE = VALUE; remove a line to remove its key.\n\n{}",
            shown_path(&self.file),
            shown(&head)
        )
        .and_then(|()| text.flush())
        .map_err(|e| fail("write", e))?;
        // Editors replace the file, so it is opened again by name.
        let path = text.into_temp_path();
        run_editor(&path)?;
        let edited = std::fs::read_to_string(&path).map_err(|e| fail("read", e))?;
        let edits = edits_of(&edited, &head);
        // The edit needs memory for heads of its own.
        drop((head, edited));
        match edits {
            Ok(edits) => self.apply(ui, bytes, &edits).map_err(|failure| match failure {
                Failure::PipeClosed => failure,
                failure => kept(path, &failure),
            }),
            Err(e) => Err(kept(path, &e).with_help(hints::for_editing(&e))),
        }
    }

    /// Applies edits of a text with the content of the head with these bytes.
    fn apply(&self, ui: &mut Ui, head: Vec<u8>, edits: &[Edit]) -> Outcome {
        let opened = self.how.open(ui, &self.file)?;
        if opened.gguf().bytes() != head {
            return Err(gguf_io::Error::Changed(self.file.clone()).into());
        }
        drop(head);
        self.how.run(ui, opened, edits, Some(&self.backup))
    }
}

/// The key-values as text, without the padding key.
fn shown(head: &Head) -> String {
    let mut text = text_of(head);
    let pad = format!("{}: ", gguf_edit::PAD_KEY);
    if let Some(at) = text.find(&format!("\n{pad}")).map(|at| at + 1).or(text.starts_with(&pad).then_some(0)) {
        let end = text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |n| at + n + 1);
        let n = head.get(gguf_edit::PAD_KEY).and_then(|pad| pad.as_str()).map_or(0, |pad| pad.as_bytes().len());
        text.replace_range(at..end, &format!("{}: string = … {n} bytes reserved for edits\n", gguf_edit::PAD_KEY));
    }
    text
}

/// Keeps the invalid text, and returns a failure with its path.
fn kept(path: tempfile::TempPath, problem: &dyn std::fmt::Display) -> Failure {
    match path.keep() {
        Ok(path) => Failure::CouldNotRun(format!("{problem}; the text is kept in {}", path.display())),
        Err(_) => Failure::CouldNotRun(problem.to_string()),
    }
}

/// Opens a file in the user's editor and waits for it to exit.
fn run_editor(path: &Path) -> Result<(), Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR"));
    let editor = editor.unwrap_or_else(|| if cfg!(windows) { "notepad" } else { "vi" }.to_owned());
    // The variable may contain options, so a shell parses it.
    let status = if cfg!(windows) {
        Command::new("cmd").arg("/C").arg(format!("{editor} \"{}\"", path.display())).status()
    } else {
        Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(path).status()
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::CouldNotRun(format!("the editor {editor} failed ({status}); nothing was changed"))),
        Err(e) => Err(Failure::CouldNotRun(format!("cannot run the editor {editor}: {e}; nothing was changed"))),
    }
}
