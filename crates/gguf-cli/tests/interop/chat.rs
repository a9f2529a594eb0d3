//! Prompts of chat templates, compared with those of transformers: the templates of llama.cpp, and those of the reference data.
//! Requires `GGUF_PEERS` and `GGUF_SHARED` like `convert.rs`, and transformers in the Python of the peers.

use std::fs;
use std::path::{Path, PathBuf};

use gguf_format::{Array, Head};
use gguf_test::peers::{Peers, peers};
use gguf_test::program::gguf;
use serde_json::{Value, json};

/// Prompts that differ: a part of the name of the template or of the error of Jinja2, and why.
const KNOWN: &[(&str, &str)] = &[
    ("functionary-medium-v3.1", "adding a plain text to a safe one escapes it in Jinja2 only"),
    ("'NoneType' object is not iterable", "here, a loop over none has no items"),
    ("generator is not JSON serializable", "here, the items of a filter are a list"),
];

/// Files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The templates with their names, each once.
fn templates() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    files(&peers().join("llama.cpp/models/templates"), &mut paths);
    files(&gguf_test::peers::data(""), &mut paths);
    paths.sort();
    let mut templates: Vec<(String, String)> = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            templates.push((name, fs::read_to_string(&path).unwrap()));
        } else if path.ends_with("tokenizer_config.json") {
            let json = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
            match json.as_ref().and_then(|json| json.get("chat_template")) {
                Some(Value::String(text)) => templates.push((name, text.clone())),
                Some(Value::Array(named)) => templates.extend(named.iter().filter_map(|named| {
                    Some((format!("{name} {}", named["name"]), named["template"].as_str()?.to_owned()))
                })),
                _ => {}
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    templates.retain(|(_, text)| seen.insert(text.clone()));
    templates
}

/// Conversations as variables of a template.
fn conversations() -> Vec<Value> {
    let tools = json!([{"type": "function", "function": {
        "name": "weather", "description": "Weather of a <city>, e.g. \"Köln\"",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Name"}, "days": {"type": "integer"}}, "required": ["city"]}
    }}]);
    let user = |text: &str| json!({"role": "user", "content": text});
    let system = json!({"role": "system", "content": "Be brief."});
    let answer = json!({"role": "assistant", "content": "Hello! "});
    let call = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 2, "exact": true}}}
    ]});
    let result = json!({"role": "tool", "tool_call_id": "call00001", "name": "weather", "content": "{\"rain\": 0.5}"});
    let thinking = json!({"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes", "reasoning_content": "Hm."});
    vec![
        json!({"messages": [user("Hi\n there ")], "add_generation_prompt": true}),
        json!({"messages": [system, user("Hi"), answer, user("And?")], "add_generation_prompt": true}),
        json!({"messages": [user("Hi"), thinking, user("Sure?")], "add_generation_prompt": true, "enable_thinking": false}),
        json!({"messages": [system, user("Weather?")], "tools": tools, "add_generation_prompt": true}),
        json!({"messages": [user("Weather?"), call, result], "tools": tools, "add_generation_prompt": true}),
        json!({"messages": [user("Hi"), answer], "add_generation_prompt": false}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}]}], "add_generation_prompt": true}),
    ]
}

/// Whether transformers fails with such an error.
fn is_error_with(expected: &Value, part: &str) -> bool {
    expected["error"].as_str().is_some_and(|error| error.contains(part))
}

fn prompts_are_those_of_transformers() {
    let peers = Peers::get();
    let dir = tempfile::tempdir().unwrap();
    let (model, messages, cases) =
        (dir.path().join("m.gguf"), dir.path().join("messages.json"), dir.path().join("cases.json"));
    let templates = templates();
    assert!(templates.len() >= 60, "{} templates", templates.len());
    let all: Vec<(&String, &String, Value)> = templates
        .iter()
        .flat_map(|(name, text)| conversations().into_iter().map(move |variables| (name, text, variables)))
        .collect();
    let with_tokens = |variables: &Value| {
        let mut variables = variables.clone();
        let object = variables.as_object_mut().unwrap();
        for (name, token) in [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")] {
            object.insert(name.to_owned(), token.into());
        }
        variables
    };
    let asked: Vec<Value> = all.iter().map(|(_, text, variables)| json!([text, with_tokens(variables)])).collect();
    fs::write(&cases, serde_json::to_string(&asked).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chat_peer.py");
    let output = peers.python(&script).arg(&cases).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let (mut wrong, mut n_same) = (Vec::new(), 0);
    for ((name, text, variables), expected) in all.iter().zip(&expected) {
        let mut head = Head::default();
        head.set("general.architecture", "llama");
        head.set("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>"].into_iter().collect::<Array>());
        for (key, id) in [("unknown", 0u32), ("bos", 1), ("eos", 2)] {
            head.set(&format!("tokenizer.ggml.{key}_token_id"), id);
        }
        head.set("tokenizer.chat_template", text.as_str());
        fs::write(&model, head.encode().unwrap()).unwrap();
        fs::write(&messages, variables.to_string()).unwrap();
        let run = gguf(["get", model.to_str().unwrap(), "--render-chat", messages.to_str().unwrap()]);
        // A template may be wrong for a conversation: then it is for both.
        let is_same = match expected["prompt"].as_str() {
            Some(prompt) => run.out == prompt,
            None => run.out.is_empty() && !run.err.is_empty(),
        };
        match is_same {
            true => n_same += 1,
            false if KNOWN.iter().any(|(part, _)| name.contains(part) || is_error_with(expected, part)) => {}
            false => {
                wrong.push(format!("{name}\n  {variables}\n  expected {expected}\n  found {:?} {}", run.out, run.err))
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} prompts differ:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    println!("{n_same} prompts are the same");
}

gguf_test::tests! {
    [Peers, Shared, Torch] prompts_are_those_of_transformers;
}
