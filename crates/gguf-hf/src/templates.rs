//! Chat templates for models whose checkpoints contain none: files of `models/templates/` of llama.cpp, under the MIT license (copyright of
//! the ggml authors).

/// The template of the given name.
pub(crate) fn template(name: &str) -> Option<&'static str> {
    TEMPLATES.iter().find(|(of, _)| *of == name).map(|(_, text)| *text)
}

const TEMPLATES: &[(&str, &str)] = &[
    ("deepseek-v4", include_str!("templates/deepseek-v4.jinja")),
    ("deepseek-v4-0731", include_str!("templates/deepseek-v4-0731.jinja")),
    ("kimi-k3", include_str!("templates/kimi-k3.jinja")),
    ("minimax-m1", include_str!("templates/minimax-m1.jinja")),
];
