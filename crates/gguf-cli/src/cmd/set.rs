//! `gguf set`: sets metadata keys.

use std::io::Read;
use std::path::{Path, PathBuf};

use gguf_edit::tokens::{Token, special_token, token_types};
use gguf_edit::typed::{Assignment, check_types, contradicts, edits_of_json, kind_text};
use gguf_edit::{Edit, EditError};
use gguf_format::Head;

use super::templates::ChatTemplates;
use crate::failure::{Failure, Outcome};
use crate::ui::Ui;

mod how;

pub use how::{Backup, How, lock, parse_reserve};

/// Maximum size of text or JSON input.
const MAX_TEXT: u64 = 256 << 20;

/// Set metadata keys, in place where possible.
///
/// Values get the type that llama.cpp uses for the key, otherwise the type of the current value; for other keys, give
/// the type as in KEY:u32=VALUE. Arrays are written as JSON, and their types as [i32]. A string is everything after the
/// =, verbatim.
///
/// Only the head of the file is rewritten, so the time does not depend on the size of the model. The new head uses
/// reserved space, or blocks that the file system inserts (ext4, XFS). If neither is possible, a new file replaces the
/// old one, with the data shared (Btrfs, XFS) or copied; --dry-run reports which. A journal protects the file: after an
/// interruption, the next command that opens the file restores the old head or completes the new one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf set model.gguf general.name='My Model'
  gguf set model.gguf llama.context_length=8192 own.rating:f32=4.5
  gguf set model.gguf 'general.tags=[\"chat\", \"small\"]'
  gguf set model.gguf --chat-template-file template.jinja --special-token eos='<|im_end|>'
  gguf set model.gguf 'tokenizer.ggml.tokens[5]=<|im_end|>' --backup undo.json
  gguf set model.gguf --chat-template-file tool_use=tools.jinja
  gguf set model.gguf --token-type '<|im_end|>=control' --dry-run
  gguf set model.gguf --from metadata.json --output copy.gguf
  gguf set model.gguf --reserve 64K      reserve space for later edits")]
pub struct Args {
    /// GGUF file; the first shard of a split model
    file: PathBuf,

    /// Keys and values: KEY=VALUE, KEY:TYPE=VALUE, or KEY[INDEX]=VALUE for an element of an array, counted from 0
    #[arg(value_name = "KEY=VALUE", value_parser = assignment)]
    values: Vec<Assignment>,

    /// JSON file with keys and values; - for standard input. Either an object, where null removes a key and {"type":
    /// ..., "value": ...} gives a type, or the list files[0].metadata of `gguf show --json --full`
    #[arg(long, value_name = "JSON")]
    from: Option<PathBuf>,

    #[command(flatten)]
    templates: ChatTemplates,

    /// Assign a role to the token with this text: bos, eos, eot, eom, unk, sep, pad, mask, fim_pre and the other fim
    /// roles; repeatable
    #[arg(long, value_name = "ROLE=TEXT", value_parser = pair)]
    special_token: Vec<(String, String)>,

    /// Assign a role to the token with this id; repeatable
    #[arg(long, value_name = "ROLE=ID", value_parser = pair)]
    special_token_id: Vec<(String, String)>,

    /// Set the type of the token with this text: normal, unknown, control, user_defined, unused or byte; repeatable
    #[arg(long, value_name = "TEXT=TYPE", value_parser = pair_at_last)]
    token_type: Vec<(String, String)>,

    /// Set the type of the token with this id; repeatable
    #[arg(long, value_name = "ID=TYPE", value_parser = pair)]
    token_type_id: Vec<(String, String)>,

    /// Allow values of types that llama.cpp does not expect for the key
    #[arg(long)]
    allow_type_change: bool,

    #[command(flatten)]
    backup: Backup,

    #[command(flatten)]
    how: How,
}

fn assignment(text: &str) -> Result<Assignment, String> {
    Assignment::parse(text).map_err(|e| e.to_string())
}

/// Parses `A=B`, split at the first equals sign.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (a, b) = text.split_once('=').ok_or("expected two values with = between them")?;
    Ok((a.to_owned(), b.to_owned()))
}

/// Parses `A=B`, split at the last equals sign, because the text of a token may contain one.
fn pair_at_last(text: &str) -> Result<(String, String), String> {
    let (a, b) = text.rsplit_once('=').ok_or("expected two values with = between them")?;
    Ok((a.to_owned(), b.to_owned()))
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let from = self.from.iter().map(PathBuf::as_path).chain(self.templates.files());
        if from.filter(|path| *path == Path::new("-")).count() > 1 {
            return Err(Failure::CouldNotRun("standard input can be read only once; pass a file instead".to_owned()));
        }
        let opened = self.how.open(ui, &self.file)?;
        let head = Head::without_tensors(opened.gguf());
        let edits = self.edits(&head).map_err(|e| match e {
            Wrong::Edit(e) => e.at(&self.file).into(),
            Wrong::Other(failure) => failure,
        })?;
        if edits.is_empty() && !self.how.has_work() {
            return Err(Failure::CouldNotRun("nothing to set: pass KEY=VALUE or an option such as --from".to_owned()));
        }
        if !self.allow_type_change {
            check_types(&edits, &head).map_err(|e| e.at(&self.file))?;
        }
        for value in self.values.iter() {
            let kind = value.kind.and_then(|kind| Some((kind, contradicts(&value.key, kind, &head)?)));
            if let Some((kind, expected)) = kind {
                ui.warning(&format!("{}: llama.cpp expects {expected}; set as {}", value.key, kind_text(kind)));
            }
        }
        drop(head);
        self.how.run(ui, opened, &edits, Some(&self.backup))
    }

    fn edits(&self, head: &Head) -> Result<Vec<Edit>, Wrong> {
        let mut edits = Vec::new();
        if let Some(path) = &self.from {
            let json = serde_json::from_slice(&read(path)?)
                .map_err(|e| Failure::CouldNotRun(format!("{}: not JSON: {e}", path.display())))?;
            edits.extend(edits_of_json(&json, head)?);
        }
        for value in &self.values {
            edits.push(value.edit(head)?);
        }
        // The edits so far may set the vocabulary and the names of templates.
        let mut head = head.clone();
        gguf_edit::apply(&mut head, &edits)?;
        edits.extend(self.templates.apply(&mut head)?);
        for (role, text) in &self.special_token {
            edits.push(special_token(&head, role, &Token::Text(text.clone()))?);
        }
        for (role, id) in &self.special_token_id {
            edits.push(special_token(&head, role, &by_id(id)?)?);
        }
        let by_text = self.token_type.iter().map(|(text, ty)| Ok((Token::Text(text.clone()), ty.clone())));
        let types = by_text.chain(self.token_type_id.iter().map(|(id, ty)| Ok((by_id(id)?, ty.clone()))));
        let types = types.collect::<Result<Vec<_>, Failure>>()?;
        if !types.is_empty() {
            edits.push(token_types(&head, &types)?);
        }
        Ok(edits)
    }
}

/// The reason why there are no edits.
enum Wrong {
    Edit(EditError),
    Other(Failure),
}

impl From<EditError> for Wrong {
    fn from(e: EditError) -> Wrong {
        Wrong::Edit(e)
    }
}

impl From<Failure> for Wrong {
    fn from(e: Failure) -> Wrong {
        Wrong::Other(e)
    }
}

fn by_id(text: &str) -> Result<Token, Failure> {
    text.parse().map(Token::Id).map_err(|_| Failure::CouldNotRun(format!("invalid token id {text:?}")))
}

/// Reads a whole file, or standard input for `-`.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let fail = |e: std::io::Error| Failure::CouldNotRun(format!("{}: cannot read: {e}", path.display()));
    let mut bytes = Vec::new();
    super::input(path)?.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > MAX_TEXT {
        let problem = format!("{}: expected text of at most {MAX_TEXT} bytes", path.display());
        return Err(Failure::CouldNotRun(problem));
    }
    Ok(bytes)
}
