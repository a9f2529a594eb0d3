//! Configurations, compared with the fields that transformers 4.57.6 computes (`AutoConfig.from_pretrained(..).to_dict()`).
//!
//! `autoconfig.json` holds rows of a document and some fields of the result, chosen to cover each kind of rule. A field that the result
//! must not contain has the value `"<absent>"`.

use gguf_hf::config::Config;
use serde_json::Value;

#[test]
fn configurations_have_the_fields_that_their_classes_give_them() {
    let rows: Vec<(Value, Value)> = serde_json::from_str(include_str!("../autoconfig.json")).unwrap();
    let mut wrong = Vec::new();
    for (document, expected) in &rows {
        let config = Config::new(document.clone()).unwrap();
        for (name, expected) in expected.as_object().unwrap() {
            let absent = Value::from("<absent>");
            let found = config.hparams().get(name).unwrap_or(&absent);
            if found != expected {
                wrong.push(format!("{document}\n  {name}: {found}, expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows.len() >= 20);
}
