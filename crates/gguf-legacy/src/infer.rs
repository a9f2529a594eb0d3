//! Determines metadata that a file lacks: from answers, the original's key-values, the table of known models, or proposals.

use gguf_format::{FromValue, Value};

use crate::arrange::Arrangement;
use crate::block::Generation;
use crate::container::Container;
use crate::error::Error;
use crate::file::LegacyFile;
use crate::known;
use crate::layout::{Family, Hparam};
use crate::question::{Answers, Guess, Question, Topic};
use crate::vocab::Vocabulary;

/// The inferred values; `None` for values that the architecture does not need.
#[derive(Debug, Default)]
pub(crate) struct Inferred {
    pub(crate) context_length: Option<u32>,
    pub(crate) norm_epsilon: Option<f32>,
    pub(crate) rope_freq_base: Option<f32>,
    pub(crate) pooling: Option<u32>,
    pub(crate) generation: Option<Generation>,
    pub(crate) guesses: Vec<Guess>,
    /// The open questions.
    pub(crate) questions: Vec<Question>,
}

/// An answer with its origin.
enum Answer {
    /// Given by the user, or found in the original's files.
    Known(String),
    /// Taken without asking, with the reason.
    Sure(String, String),
    /// Proposed, with the reason.
    Proposed(String, String),
}

/// The key among the original's key-values that answers a question.
fn key(topic: Topic, architecture: &str) -> Option<String> {
    let key = match topic {
        Topic::ContextLength => "context_length",
        Topic::NormEpsilon => "attention.layer_norm_rms_epsilon",
        Topic::RopeFreqBase => "rope.freq_base",
        Topic::Pooling => "pooling_type",
        Topic::LostTokens | Topic::Generation => return None,
    };
    Some(format!("{architecture}.{key}"))
}

/// The value of a key among key-values.
pub(crate) fn get<T: for<'a> FromValue<'a>>(kvs: &[(String, Value)], key: &str) -> Option<T> {
    kvs.iter().find(|(name, _)| name == key).and_then(|(_, value)| T::from_value(value.as_ref()).ok())
}

/// Settles all topics.
///
/// # Errors
/// If an answer contradicts the file.
pub(crate) fn infer(
    file: &LegacyFile,
    arrangement: &Arrangement<'_>,
    vocabulary: &Vocabulary,
    answers: &Answers,
) -> Result<Inferred, Error> {
    let mut inferred = Inferred::default();
    if file.is_adapter() {
        return Ok(inferred);
    }
    let n_head = file.hparams.int(Hparam::Head);
    if let (Some(given), Some(n_kv)) = (answers.heads_per_group, arrangement.n_head_kv)
        && n_head.checked_div(n_kv) != Some(given)
    {
        return Err(Error::Contradiction {
            path: file.path().to_owned(),
            what: "the number of query heads for each key head".to_owned(),
            file: n_head.checked_div(n_kv).unwrap_or(0).to_string(),
            given: given.to_string(),
        });
    }
    let facts = Facts::new(file, arrangement);
    for topic in topics(file, vocabulary, answers) {
        let answer = match given(topic, file.family, answers) {
            Some(value) => Answer::Known(value),
            None => facts.propose(topic, vocabulary),
        };
        let value = match answer {
            Answer::Known(value) => value,
            Answer::Sure(value, reason) => {
                inferred.guesses.push(Guess { topic, value: value.clone(), reason });
                value
            }
            Answer::Proposed(value, reason) if answers.accept => {
                inferred.guesses.push(Guess { topic, value: value.clone(), reason });
                value
            }
            Answer::Proposed(proposal, reason) => {
                inferred.questions.push(Question { topic, proposal, reason });
                continue;
            }
        };
        inferred.take(topic, &value)?;
    }
    Ok(inferred)
}

impl Inferred {
    /// Stores an answer, given as text.
    fn take(&mut self, topic: Topic, value: &str) -> Result<(), Error> {
        let mut answers = Answers::default();
        answers.set(topic, value)?;
        match topic {
            Topic::ContextLength => self.context_length = answers.context_length,
            Topic::NormEpsilon => self.norm_epsilon = answers.norm_epsilon,
            Topic::RopeFreqBase => self.rope_freq_base = answers.rope_freq_base,
            Topic::Generation => self.generation = answers.generation,
            Topic::Pooling => self.pooling = answers.pooling,
            Topic::LostTokens => {}
        }
        Ok(())
    }
}

/// The topics that a file leaves open.
fn topics(file: &LegacyFile, vocabulary: &Vocabulary, answers: &Answers) -> Vec<Topic> {
    let mut topics = match file.family {
        Family::Llama => vec![Topic::ContextLength, Topic::NormEpsilon, Topic::RopeFreqBase],
        Family::Bloom | Family::Falcon | Family::Rwkv => vec![Topic::ContextLength],
        Family::Bert => vec![Topic::Pooling],
        _ => Vec::new(),
    };
    // Stored in the draft.
    if file.hparams.get(Hparam::Ctx).is_some() {
        topics.retain(|topic| *topic != Topic::ContextLength);
    }
    let has_tokenizer = answers.tokenizer.is_some() || answers.reference.is_some();
    topics.extend((vocabulary.n_lost > 0 && !has_tokenizer).then_some(Topic::LostTokens));
    topics.extend(file.is_generation_unsure.then_some(Topic::Generation));
    topics
}

/// The given answer, as text.
fn given(topic: Topic, family: Family, answers: &Answers) -> Option<String> {
    let reference = answers.reference.as_deref().unwrap_or_default();
    let key = key(topic, family.architecture());
    let text = |number: Option<f32>| number.map(|number| number.to_string());
    match topic {
        Topic::ContextLength => {
            let of_reference = || get::<u32>(reference, key.as_deref()?);
            answers.context_length.or_else(of_reference).map(|n| n.to_string())
        }
        Topic::NormEpsilon => text(answers.norm_epsilon.or_else(|| get(reference, key.as_deref()?))),
        Topic::RopeFreqBase => text(answers.rope_freq_base.or_else(|| get(reference, key.as_deref()?))),
        Topic::LostTokens => answers.without_lost_tokens.then(|| "yes".to_owned()),
        Topic::Generation => answers.generation.map(|generation| {
            let name = match generation {
                Generation::First => "first",
                Generation::Second => "second",
                Generation::Present => "present",
            };
            name.to_owned()
        }),
        Topic::Pooling => {
            let number = answers.pooling.or_else(|| get(reference, key.as_deref()?))?;
            let name = match number {
                0 => "none",
                1 => "mean",
                2 => "cls",
                3 => "last",
                _ => return None,
            };
            Some(name.to_owned())
        }
    }
}

/// The facts behind proposals.
struct Facts {
    family: Family,
    container: Container,
    /// The name of the file, in lower case.
    name: String,
    known: Option<known::KnownModel>,
    is_grouped: bool,
    /// Whether both LLaMA and Llama 2 have these sizes.
    is_either: bool,
}

impl Facts {
    fn new(file: &LegacyFile, arrangement: &Arrangement<'_>) -> Facts {
        let int = |hparam| file.hparams.int(hparam);
        let n_head_kv = arrangement.n_head_kv.unwrap_or(int(Hparam::Head));
        let name = file.path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        Facts {
            family: file.family,
            container: file.container,
            name,
            known: known::model(file.family, &file.hparams, n_head_kv, &file.tokens),
            is_grouped: n_head_kv < int(Hparam::Head),
            is_either: matches!((int(Hparam::Embd), int(Hparam::Layer)), (4096, 32) | (5120, 40)),
        }
    }

    fn is_named(&self, words: &[&str]) -> bool {
        let plain: String = self.name.chars().filter(char::is_ascii_alphanumeric).collect();
        words.iter().any(|word| plain.contains(word))
    }

    /// Whether the name suggests that the context was extended after the training.
    fn is_stretched(&self) -> bool {
        self.is_named(&["superhot", "8k", "16k", "32k", "100k", "longchat", "longlora"])
    }

    fn propose(&self, topic: Topic, vocabulary: &Vocabulary) -> Answer {
        let proposed = |value: &str, reason: &str| Answer::Proposed(value.to_owned(), reason.to_owned());
        let sure = |value: &str, reason: &str| Answer::Sure(value.to_owned(), reason.to_owned());
        let is_code = self.is_named(&["codellama"]);
        let is_second = self.is_named(&["llama2"]);
        if let Some(known) = self.known.filter(|_| !self.is_stretched()) {
            let value = match topic {
                Topic::ContextLength => Some(known.context_length.to_string()),
                Topic::NormEpsilon => Some(known.norm_epsilon.to_string()),
                Topic::RopeFreqBase => Some(known.rope_freq_base.to_string()),
                _ => None,
            };
            if let Some(value) = value {
                let reason = format!("its sizes and its vocabulary are those of {}", known.name);
                return if known.is_sure() { Answer::Sure(value, reason) } else { Answer::Proposed(value, reason) };
            }
        }
        match (topic, self.family) {
            (Topic::ContextLength, Family::Bloom) => sure("2048", "every BLOOM was trained with 2048 tokens"),
            (Topic::ContextLength, Family::Falcon) => sure("2048", "every Falcon was trained with 2048 tokens"),
            (Topic::ContextLength, Family::Rwkv) => {
                proposed("1024", "RWKV 4 was trained with 1024 tokens at first; the state has no limit")
            }
            (Topic::ContextLength, _) if is_code => proposed("16384", "the file's name says Code Llama"),
            (Topic::ContextLength, _) if self.is_stretched() => {
                proposed("8192", "the file's name suggests a longer context; the model may also need scaled positions")
            }
            (Topic::ContextLength, _) if is_second => proposed("4096", "the file's name says Llama 2"),
            (Topic::ContextLength, _) if self.is_grouped => proposed("4096", "heads share keys, as in Llama 2"),
            (Topic::ContextLength, _) => proposed("2048", "LLaMA was trained with 2048 tokens, Llama 2 with 4096"),
            (Topic::NormEpsilon, _) if is_code || is_second || self.is_grouped => {
                proposed("1e-5", "Llama 2 has this value")
            }
            (Topic::NormEpsilon, _) if self.container == Container::Ggjt(3) && self.is_either => {
                proposed("5e-6", "LLaMA has 1e-6 and Llama 2 has 1e-5; llama.cpp used this value for both")
            }
            (Topic::NormEpsilon, _) => proposed("1e-6", "LLaMA has 1e-6, Llama 2 has 1e-5"),
            (Topic::RopeFreqBase, _) if is_code => proposed("1000000", "the file's name says Code Llama"),
            (Topic::RopeFreqBase, _) if self.is_stretched() => {
                proposed("10000", "all models except Code Llama have it; the file's name suggests a longer context")
            }
            (Topic::RopeFreqBase, _) => sure("10000", "all models of that time except Code Llama have it"),
            (Topic::Pooling, _) => proposed("mean", "it is the default of sentence-transformers"),
            (Topic::Generation, _) => proposed(
                "first",
                "the file has no version, and programs that wrote none used only the first generation",
            ),
            (Topic::LostTokens, _) => {
                let n = vocabulary.n_lost;
                let reason = format!(
                    "the file has lost the bytes of {n} tokens; without the original tokenizer they become \
                     placeholders, and some text is tokenized differently than in training"
                );
                Answer::Proposed("yes".to_owned(), reason)
            }
        }
    }
}
