//! Reads `config.json`, with the facts that other files of the folder add to it.

use serde_json::Value as Json;

use crate::arch;
use crate::config::{self, Config};
use crate::documents::Documents;
use crate::error::Error;
use crate::facts::Fact;
use crate::reranker;

/// The file of the configuration.
pub(crate) const CONFIG: &str = "config.json";

/// The configuration of the model in a folder.
pub(crate) fn config_of(files: &Documents<'_>) -> Result<Config, Error> {
    read_config(files, config_json(files)?)
}

pub(crate) fn config_json(files: &Documents<'_>) -> Result<Json, Error> {
    let document = files.json(CONFIG)?.ok_or_else(|| Error::NoConfig { dir: files.path().to_owned() })?;
    Ok((*document).clone())
}

/// The configuration in `document`, the content of `config.json` or its equivalent.
pub(crate) fn read_config(files: &Documents<'_>, document: Json) -> Result<Config, Error> {
    let wrong = |source: config::Error| Error::Config { file: files.path().join(CONFIG), source };
    // The unchanged file determines the class, and therefore whether its defaults apply.
    let raw = Config::raw(document.clone()).ok();
    let as_written = document.clone();
    let is_raw = |raw: &Config| arch::of_checkpoint(raw).is_ok_and(|(_, checkpoint)| checkpoint.is_raw);
    let mut config = match raw.filter(is_raw) {
        Some(raw) => raw,
        None => Config::new(document).map_err(wrong)?,
    };
    // For formulas that need the original values, without defaults.
    config.facts_mut().set(Fact::Config, as_written);
    if let Some(pooling) = pooling(files)? {
        config.facts_mut().set(Fact::SentencePooling, pooling);
    }
    // An unknown class causes an error later, which lists the known classes.
    if let Ok((_, checkpoint)) = arch::of_checkpoint(&config)
        && let Some(answers) = reranker::answers(files, &config, checkpoint)?
    {
        config.facts_mut().set(Fact::Rerank, answers);
    }
    Ok(config)
}

/// The pooling mode of a sentence encoder, if the folder specifies it (`_try_set_pooling_type` in `conversion/base.py`).
fn pooling(files: &Documents<'_>) -> Result<Option<Json>, Error> {
    let Some(modules) = files.json("modules.json")? else { return Ok(None) };
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_pooling = |module: &&Json| module["type"].as_str().is_some_and(|ty| ty.ends_with("Pooling"));
    let path = modules.iter().find(is_pooling).and_then(|module| module["path"].as_str());
    let Some(path) = path.filter(|path| !path.is_empty() && !path.contains("..")) else { return Ok(None) };
    let Some(pooling) = files.json(&format!("{path}/config.json"))? else { return Ok(None) };
    const FLAGS: [(&str, &str); 3] = [
        ("pooling_mode_mean_tokens", "mean"),
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_lasttoken", "lasttoken"),
    ];
    let mode =
        FLAGS.iter().find(|(flag, _)| pooling.get(*flag) == Some(&Json::Bool(true))).map(|(_, mode)| Json::from(*mode));
    // Formulas accept the modes that llama.cpp knows.
    Ok(Some(mode.unwrap_or_else(|| pooling.get("pooling_mode").cloned().unwrap_or_else(|| "none".into()))))
}
