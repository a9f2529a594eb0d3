//! `gguf run`: text that a model generates after a prompt.

use std::io::Write as _;
use std::path::PathBuf;

use gguf_engine::{Choose, Ended, Engine as _, GenerateOptions, Specials, Token, generate};
use gguf_format::keys;
use gguf_pipeline::Progress as _;
use serde_json::json;

use super::evaluation::{Checked, Library, Threads, library_json};
use super::get::chat;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, visible};
use crate::watch::Watch;

/// Generate text with a model, to see that it works.
///
/// The prompt is the message of a user in the model's chat template; with --raw, or if the model has no template, it is
/// the start of the text. Each token is the most probable one; with --temp it is chosen at random, the same for the same
/// seed. `gguf engine` shows the library that is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf run model.gguf 'What is a tensor?'
  gguf run model.gguf 'Once upon a time' --raw --tokens 64
  gguf run model.gguf 'Tell me a story' --temp 0.8 --seed 7
  gguf run model.gguf Hello --json | jq -r .text")]
pub struct Args {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// The prompt
    prompt: String,

    /// Maximum number of tokens to generate
    #[arg(long, alias = "n-predict", alias = "predict", value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    tokens: u32,

    /// Use the prompt as it is, without the chat template
    #[arg(long)]
    raw: bool,

    /// Choose tokens at random, at this temperature
    #[arg(long, alias = "temperature", value_name = "T", value_parser = temperature)]
    temp: Option<f32>,

    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value = "0", requires = "temp")]
    seed: u64,

    #[command(flatten)]
    threads: Threads,

    #[command(flatten)]
    library: Library,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn temperature(text: &str) -> Result<f32, String> {
    let temperature = text.parse::<f32>().ok().filter(|t| t.is_finite() && *t > 0.0);
    temperature.ok_or_else(|| {
        "expected a positive number, such as 0.8; omit the option for the most probable tokens".to_owned()
    })
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let watch = Watch::new(true);
        let checked = Checked::new(&self.model)?;
        let (prompt, is_chat) = self.prompt()?;
        let mut engine = self.library.start(&watch)?;
        checked.load(&mut engine)?;
        // A template begins the text itself.
        let tokens = engine.tokenize(prompt.as_bytes(), Specials { add: !is_chat, parse: true })?;
        let choose = match self.temp {
            Some(temperature) => Choose::Sample { temperature, seed: self.seed },
            None => Choose::Greedy,
        };
        let options = GenerateOptions { n_tokens: self.tokens as usize, choose, n_threads: self.threads.number() };
        let (mut text, mut generated, mut shown) = (Vec::new(), Vec::<Token>::new(), 0);
        let mut problem = None;
        let ended = generate(&mut engine, &tokens, &options, |token, bytes| {
            generated.push(token);
            text.extend_from_slice(bytes);
            if !self.json {
                // A character may be spread over several tokens.
                let end = whole_characters(&text).max(shown);
                let new = visible(text.get(shown..end).unwrap_or_default());
                problem = write!(ui.out, "{new}").and_then(|()| ui.out.flush()).err();
                shown = end;
            }
            problem.is_none() && !watch.is_cancelled()
        });
        if let Some(e) = problem {
            return Err(e.into());
        }
        let ended = match ended? {
            Ended::ByModel => "model",
            Ended::AtMaximum => "maximum",
        };
        if self.json {
            let document = json!({
                "model": json::path(&self.model),
                "library": library_json(engine.about()),
                "prompt": prompt,
                "prompt_tokens": tokens,
                "text": String::from_utf8_lossy(&text),
                "tokens": generated,
                "ended": ended,
            });
            json::print(ui, 1, &document)?;
            return Ok(Verdict::Good);
        }
        writeln!(ui.out, "{}", visible(text.get(shown..).unwrap_or_default()))?;
        Ok(Verdict::Good)
    }

    /// The text before the generated one, and whether it is that of a chat template.
    fn prompt(&self) -> Result<(String, bool), Failure> {
        let model = open::model(&self.model)?;
        if self.raw || model.gguf().get(keys::TOKENIZER_CHAT_TEMPLATE).is_none() {
            return Ok((self.prompt.clone(), false));
        }
        let messages = json!([{ "role": "user", "content": self.prompt }]).to_string();
        Ok((chat::rendered(&self.model, model.gguf(), None, "the prompt", &messages, true)?, true))
    }
}

/// The length of the text without an unfinished character at its end.
fn whole_characters(text: &[u8]) -> usize {
    match text.utf8_chunks().last() {
        Some(last)
            if !last.invalid().is_empty()
                && std::str::from_utf8(last.invalid()).is_err_and(|e| e.error_len().is_none()) =>
        {
            text.len() - last.invalid().len()
        }
        _ => text.len(),
    }
}
