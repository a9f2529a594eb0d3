//! The option that sets chat templates, of every command that writes the metadata of a model.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use gguf_edit::templates::chat_template;
use gguf_edit::{Edit, EditError};
use gguf_format::Head;
use gguf_pipeline::Plan;

use super::text_file::read_text_of;
use crate::failure::Failure;
use crate::jinja;

/// Maximum size of a chat template.
const MAX_TEMPLATE: u64 = 16 << 20;

/// Chat templates from files.
#[derive(Debug, clap::Args)]
pub struct ChatTemplates {
    /// Set the chat template from this file, or with NAME=FILE one with a name, such as tool_use; - for standard input;
    /// repeatable
    #[arg(long, value_name = "FILE")]
    chat_template_file: Vec<PathBuf>,

    /// The templates with their names, once they are read: standard input can be read only once.
    #[arg(skip)]
    texts: OnceCell<Vec<(Option<String>, String)>>,
}

/// Splits `NAME=FILE`. Names have only letters, digits, `_` and `-`, so a path with another character before a `=` has no name.
fn named(argument: &Path) -> (Option<&str>, &Path) {
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    match argument.to_str().and_then(|text| text.split_once('=')).filter(|(name, _)| is_name(name)) {
        Some((name, file)) => (Some(name), Path::new(file)),
        None => (None, argument),
    }
}

impl ChatTemplates {
    /// Whether there are no templates.
    pub fn is_empty(&self) -> bool {
        self.chat_template_file.is_empty()
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.chat_template_file.iter().map(|argument| named(argument).1)
    }

    /// Reads the templates, so that problems are reported before other work.
    ///
    /// # Errors
    /// If a file cannot be read, is not text, or is not a valid template.
    pub fn read(&self) -> Result<(), Failure> {
        self.texts().map(drop)
    }

    fn texts(&self) -> Result<&[(Option<String>, String)], Failure> {
        if let Some(texts) = self.texts.get() {
            return Ok(texts);
        }
        let mut texts = Vec::new();
        for argument in &self.chat_template_file {
            let (name, file) = named(argument);
            let text = read_text_of(file, MAX_TEMPLATE, "a chat template")?;
            jinja::check(&text)
                .map_err(|e| Failure::Bad(format!("{}: not a valid Jinja template: {e}", file.display())))?;
            texts.push((name.map(str::to_owned), text));
        }
        Ok(self.texts.get_or_init(|| texts))
    }

    /// Sets the templates in a head, and returns the edits.
    ///
    /// # Errors
    /// If a file cannot be read, is not text, or is not a valid template.
    pub fn apply(&self, head: &mut Head) -> Result<Vec<Edit>, Failure> {
        let mut all = Vec::new();
        for (name, text) in self.texts()? {
            let edits = chat_template(head, name.as_deref(), text);
            gguf_edit::apply(head, &edits).map_err(|e: EditError| Failure::CouldNotRun(e.to_string()))?;
            all.extend(edits);
        }
        Ok(all)
    }

    /// Sets the templates in the output of a plan.
    ///
    /// # Errors
    /// If a file cannot be read, is not text or not a valid template, or the new head cannot be written.
    pub fn applied(&self, plan: Plan) -> Result<Plan, Failure> {
        if self.is_empty() {
            return Ok(plan);
        }
        let mut draft = plan.into_draft();
        self.apply(&mut draft.head)?;
        Ok(draft.lay_out()?)
    }
}
