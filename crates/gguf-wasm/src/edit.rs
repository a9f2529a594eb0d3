//! Edits of the key-values of a file.

use ggufkit::edit::typed::{Assignment, check_types};
use ggufkit::edit::{Change, apply};
use ggufkit::{Edit, EditOptions, EditPlan, Head, ModelFile, io as gguf_io};
use serde_json::{Value, json};

use crate::page::{Page, number, shown, text_of};

impl Page {
    /// Plans edits of the first file: a JSON list of `{ "set": "KEY:TYPE=VALUE" }`, `{ "unset": "KEY" }` and `{ "rename": ["OLD", "NEW"] }`. Returns the
    /// plan, or the message and the index of the edit that cannot be made.
    ///
    /// # Errors
    /// The message, and the index of the edit.
    fn plan_edits(&self, edits: &Value) -> Result<EditPlan, (String, Option<usize>)> {
        let whole = |message: String| (message, None);
        let file = self.files.first().ok_or_else(|| whole("no file is open".to_owned()))?;
        let mut head = Head::from_gguf(file.gguf());
        let mut all = Vec::new();
        for (i, edit) in edits.as_array().into_iter().flatten().enumerate() {
            let wrong = |e: &dyn std::error::Error| (text_of(e), Some(i));
            let edit = match (edit["set"].as_str(), edit["unset"].as_str(), edit["rename"].as_array()) {
                (Some(text), _, _) => {
                    let assignment = Assignment::parse(text).map_err(|e| wrong(&e))?;
                    assignment.edit(&head).map_err(|e| wrong(&e))?
                }
                (_, Some(key), _) => Edit::Unset { key: key.to_owned() },
                (_, _, Some(names)) => {
                    let name = |i: usize| names.get(i).and_then(Value::as_str).unwrap_or_default().to_owned();
                    Edit::RenameKey { from: name(0), to: name(1) }
                }
                _ => continue,
            };
            check_types(std::slice::from_ref(&edit), &head).map_err(|e| wrong(&e))?;
            apply(&mut head, std::slice::from_ref(&edit)).map_err(|e| wrong(&e))?;
            all.push(edit);
        }
        let source = gguf_io::NoData(file.file_bytes());
        let file = ModelFile::from_head(file.gguf().clone(), source, file.path()).map_err(|e| whole(text_of(&e)))?;
        EditPlan::of(file, &all, &EditOptions::default()).map_err(|e| whole(text_of(&e)))
    }

    /// The changes that edits make, their findings, and the length of the new file.
    pub fn edits(&self, edits: &Value) -> Value {
        let plan = match self.plan_edits(edits) {
            Ok(plan) => plan,
            Err((message, edit)) => return json!({ "error": message, "edit": edit }),
        };
        let change = |change: &Change| match change {
            Change::Added { key, value } => json!({ "key": key, "after": shown(value.as_ref()) }),
            Change::Changed { key, before, after } => {
                json!({ "key": key, "before": shown(before.as_ref()), "after": shown(after.as_ref()) })
            }
            Change::Removed { key, before } => json!({ "key": key, "before": shown(before.as_ref()) }),
            Change::RenamedKey { from, to } | Change::RenamedTensor { from, to } => json!({ "key": to, "from": from }),
            _ => Value::Null,
        };
        let findings = plan.new_findings();
        json!({
            "changes": plan.changes().iter().map(change).collect::<Vec<_>>(),
            "findings": findings.iter().map(|f| json!({
                "severity": f.severity.to_string(), "message": f.message.to_string(), "hint": f.hint,
            })).collect::<Vec<_>>(),
            "file_bytes": number(plan.file_bytes().1),
            // The data of the new file is that of the old one from here.
            "data_offset": number(plan.gguf().data_offset()),
        })
    }

    /// The start of the edited file, up to its data; empty if the edits cannot be made.
    pub fn edited_head(&self, edits: &Value) -> Vec<u8> {
        self.plan_edits(edits).map(|plan| plan.start()).unwrap_or_default()
    }
}
