//! Questions about information missing in a legacy file, each with a proposed answer and its reason, and the answers.

use std::fmt;
use std::path::PathBuf;

use gguf_format::Value;

use crate::block::Generation;
use crate::error::Error;

/// The topic of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Topic {
    /// The context length of the training.
    ContextLength,
    /// The epsilon of the norms.
    NormEpsilon,
    /// The base of the rotary frequencies.
    RopeFreqBase,
    /// Whether to accept placeholders for tokens whose bytes the file has lost.
    LostTokens,
    /// The generation of the blocks of quantized tensors.
    Generation,
    /// How a sentence encoder combines the vectors of all tokens.
    Pooling,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Topic::ContextLength => "context length",
            Topic::NormEpsilon => "epsilon of the norms",
            Topic::RopeFreqBase => "base of the rotary frequencies",
            Topic::LostTokens => "lost tokens",
            Topic::Generation => "generation of quantized blocks",
            Topic::Pooling => "pooling",
        })
    }
}

/// A question that a legacy file leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// The topic.
    pub topic: Topic,
    /// The proposed answer, as [`Answers::set`] reads it.
    pub proposal: String,
    /// The reason for the proposal.
    pub reason: String,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: proposed {}, because {}", self.topic, self.proposal, self.reason)
    }
}

/// A decision without evidence in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guess {
    /// The topic.
    pub topic: Topic,
    /// The decision.
    pub value: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, because {}", self.topic, self.value, self.reason)
    }
}

/// Information about a model that is not in its file.
///
/// ```
/// use gguf_legacy::{Answers, Topic};
///
/// let mut answers = Answers::default();
/// answers.set(Topic::ContextLength, "2048")?;
/// assert_eq!(answers.context_length, Some(2048));
/// assert!(answers.set(Topic::ContextLength, "long").is_err());
/// // Everything else is as proposed.
/// answers.accept = true;
/// # Ok::<(), gguf_legacy::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Answers {
    /// The context length of the training.
    pub context_length: Option<u32>,
    /// The epsilon of the norms.
    pub norm_epsilon: Option<f32>,
    /// The base of the rotary frequencies.
    pub rope_freq_base: Option<f32>,
    /// Number of query heads for each key-value head. Shapes determine it; another number contradicts the file.
    pub heads_per_group: Option<u32>,
    /// The generation of the blocks of quantized tensors.
    pub generation: Option<Generation>,
    /// The pooling of a sentence encoder, as llama.cpp's number.
    pub pooling: Option<u32>,
    /// Whether to accept placeholders for tokens whose bytes the file has lost.
    pub without_lost_tokens: bool,
    /// The model's name.
    pub name: Option<String>,
    /// The chat template.
    pub chat_template: Option<String>,
    /// Key-values of the tokenizer, which replace those from the file.
    pub tokenizer: Option<Vec<(String, Value)>>,
    /// Key-values of the original model, which complete those from the file.
    pub reference: Option<Vec<(String, Value)>>,
    /// The source files of `tokenizer` and `reference`, which no output may replace.
    pub files: Vec<PathBuf>,
    /// Accepts the proposed answer to every question.
    pub accept: bool,
}

/// llama.cpp's pooling types and their numbers (`llama_pooling_type` in `llama.h`).
const POOLING: [(&str, u32); 4] = [("none", 0), ("mean", 1), ("cls", 2), ("last", 3)];

impl Answers {
    /// Sets the answer to a question from text.
    ///
    /// # Errors
    /// [`Error::Answer`] if the text is not a valid answer.
    pub fn set(&mut self, topic: Topic, text: &str) -> Result<(), Error> {
        let text = text.trim();
        let wrong = |expected| Error::Answer { topic, found: format!("{text:?}"), expected };
        match topic {
            Topic::ContextLength => {
                const EXPECTED: &str = "a number of tokens from 1 to 16777216";
                let n = text.parse().ok().filter(|n| (1..=1 << 24).contains(n));
                self.context_length = Some(n.ok_or_else(|| wrong(EXPECTED))?);
            }
            Topic::NormEpsilon => {
                let epsilon = text.parse().ok().filter(|e: &f32| *e > 0.0 && *e < 1.0);
                self.norm_epsilon = Some(epsilon.ok_or_else(|| wrong("a number between 0 and 1, such as 1e-5"))?);
            }
            Topic::RopeFreqBase => {
                let base = text.parse().ok().filter(|b: &f32| b.is_finite() && *b >= 1.0);
                self.rope_freq_base = Some(base.ok_or_else(|| wrong("a number of at least 1, such as 10000"))?);
            }
            Topic::LostTokens => match text.to_ascii_lowercase().as_str() {
                "yes" | "y" | "without" => self.without_lost_tokens = true,
                _ => return Err(wrong("yes, or the original tokenizer")),
            },
            Topic::Generation => {
                self.generation = Some(match text {
                    "1" | "first" => Generation::First,
                    "2" | "second" => Generation::Second,
                    "3" | "present" => Generation::Present,
                    _ => return Err(wrong("first, second or present")),
                });
            }
            Topic::Pooling => {
                let number = POOLING.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
                self.pooling = Some(number.ok_or_else(|| wrong("none, mean, cls or last"))?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked() {
        for (topic, text, is_right) in [
            (Topic::ContextLength, "2048", true),
            (Topic::ContextLength, "0", false),
            (Topic::ContextLength, "-1", false),
            (Topic::ContextLength, "99999999999", false),
            (Topic::NormEpsilon, "1e-5", true),
            (Topic::NormEpsilon, "nan", false),
            (Topic::NormEpsilon, "0", false),
            (Topic::RopeFreqBase, " 10000\n", true),
            (Topic::RopeFreqBase, "inf", false),
            (Topic::LostTokens, "yes", true),
            (Topic::LostTokens, "", false),
            (Topic::Generation, "second", true),
            (Topic::Generation, "fourth", false),
            (Topic::Pooling, "cls", true),
            (Topic::Pooling, "max", false),
        ] {
            let mut answers = Answers::default();
            assert_eq!(answers.set(topic, text).is_ok(), is_right, "{topic} {text:?}");
        }
    }
}
