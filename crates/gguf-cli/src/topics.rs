//! Topics of `gguf help` that are not commands. Their texts are pages of the book as well; a test keeps the two the same.

use std::ffi::OsString;

/// The name of each topic, and its text.
const TOPICS: &[(&str, &str)] = &[
    ("types", include_str!("topics/types.md")),
    ("json", include_str!("topics/json.md")),
    ("exit-codes", include_str!("topics/exit-codes.md")),
    ("environment", include_str!("topics/environment.md")),
];

/// The text of the topic for which a command line such as `gguf help types` asks; `None` for all others.
pub fn requested(args: impl IntoIterator<Item = OsString>) -> Option<&'static str> {
    let args: Vec<OsString> = args.into_iter().skip(1).collect();
    let [help, topic] = args.as_slice() else { return None };
    let is_topic = |(name, _): &&(&str, &str)| *topic == **name;
    (*help == *"help").then(|| TOPICS.iter().find(is_topic).map(|(_, text)| *text)).flatten()
}
