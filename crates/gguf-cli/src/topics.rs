//! Topics of `gguf help` other than commands. Their texts are also pages of the book; a test checks that both are the same.

use std::ffi::OsString;

/// The names and texts of the topics.
const TOPICS: &[(&str, &str)] = &[
    ("types", include_str!("topics/types.md")),
    ("json", include_str!("topics/json.md")),
    ("exit-codes", include_str!("topics/exit-codes.md")),
    ("environment", include_str!("topics/environment.md")),
];

/// The text of the topic requested by a command line such as `gguf help types`; `None` if there is no such topic.
pub fn requested(args: impl IntoIterator<Item = OsString>) -> Option<&'static str> {
    let args: Vec<OsString> = args.into_iter().skip(1).collect();
    let [help, topic] = args.as_slice() else { return None };
    let is_topic = |(name, _): &&(&str, &str)| *topic == **name;
    (*help == *"help").then(|| TOPICS.iter().find(is_topic).map(|(_, text)| *text)).flatten()
}
