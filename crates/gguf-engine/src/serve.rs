//! The process that evaluates: it answers requests that arrive on its standard input.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use crate::engine::{Context, Counts, Engine, Item, Observe, Observed, Specials, Sums};
use crate::wire::{Message, Received, receive};
use crate::{Error, ErrorKind, sandbox};

/// The kinds of requests.
pub mod request {
    pub const LOAD: u8 = 1;
    pub const TOKENIZE: u8 = 2;
    pub const PIECE: u8 = 3;
    pub const PREPARE: u8 = 4;
    pub const CLEAR: u8 = 5;
    pub const EVALUATE: u8 = 6;
    pub const LOGITS: u8 = 7;
    pub const OBSERVED: u8 = 8;
    pub const OBSERVE_FROM: u8 = 9;
    /// Ends the evaluation that is running, and all later ones. It has no answer.
    pub const CANCEL: u8 = 10;
    pub const COUNTS: u8 = 11;
}

/// The kinds of answers.
pub mod answer {
    pub const DONE: u8 = 0;
    pub const FAILED: u8 = 1;
}

/// Whether evaluations are cancelled, for the rest of this process.
pub static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Opens the library of a folder, or the first that is found, in this process, and answers the requests on standard input until it ends. Then the process
/// ends at once, even if the library is computing. The process is restricted by [`sandbox::enter`] first.
///
/// Call it in a process that does nothing else: it runs the code of the library that the user has installed.
///
/// # Errors
/// If the streams fail.
pub fn serve(folder: Option<&Path>) -> std::io::Result<()> {
    let mut out = sandbox::take_stdout()?;
    let denied = sandbox::enter();
    let mut engine = match crate::open(folder) {
        Ok(engine) => engine,
        Err(e) => return failed(&e).send(&mut out),
    };
    let mut about = engine.about().clone();
    about.denied = denied.names();
    let mut first = Message::new(answer::DONE)
        .bytes(about.name.as_bytes())
        .number(about.version.is_some().into())
        .bytes(about.version.as_deref().unwrap_or_default().as_bytes())
        .bytes(about.path.as_os_str().as_encoded_bytes())
        .number(about.devices.len() as u64);
    for (name, description) in &about.devices {
        first = first.bytes(name.as_bytes()).bytes(description.as_bytes());
    }
    first = first.number(about.denied.len() as u64);
    for name in &about.denied {
        first = first.bytes(name.as_bytes());
    }
    first.send(&mut out)?;

    // Requests are received by a thread, so that cancellation and the end of the input are noticed while the library computes.
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        while let Ok(Some(request)) = receive(&mut input) {
            if request.is(request::CANCEL) {
                CANCELLED.store(true, Ordering::Relaxed);
                continue;
            }
            if sender.send(request).is_err() {
                break;
            }
        }
        sandbox::end(0);
    });
    for request in requests {
        respond(&mut *engine, request).send(&mut out)?;
    }
    Ok(())
}

/// Answers requests until the stream ends.
///
/// # Errors
/// If a stream fails.
pub fn answer_all(engine: &mut dyn Engine, mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
    while let Some(request) = receive(&mut from)? {
        respond(engine, request).send(&mut to)?;
    }
    Ok(())
}

fn failed(e: &Error) -> Message {
    Message::new(answer::FAILED).number(e.kind().code().into()).bytes(e.message().as_bytes())
}

fn respond(engine: &mut dyn Engine, request: Received) -> Message {
    done(engine, request).unwrap_or_else(|e| failed(&e))
}

fn done(engine: &mut dyn Engine, mut request: Received) -> Result<Message, Error> {
    let done = Message::new(answer::DONE);
    Ok(match request.kind()? {
        request::LOAD => {
            let path = path_of(request.bytes()?);
            let loaded = engine.load(&path)?;
            // The number after that of the token: 0 means that there is none.
            let begin = loaded.begin.and_then(|token| u64::try_from(token).ok()).map_or(0, |token| token + 1);
            done.number(loaded.n_vocab as u64).number(begin).bytes(loaded.description.as_bytes())
        }
        request::TOKENIZE => {
            let specials = Specials { add: request.number()? != 0, parse: request.number()? != 0 };
            let tokens = engine.tokenize(request.bytes()?, specials)?;
            done.words(tokens.iter().map(|token| token.to_le_bytes()))
        }
        request::PIECE => {
            let (token, special) = (request.narrow()?, request.number()? != 0);
            let (bytes, ends) = engine.piece(token, special)?;
            done.bytes(&bytes).number(ends.into())
        }
        request::PREPARE => {
            let context = Context {
                n_tokens: request.narrow()?,
                n_batch: request.narrow()?,
                n_ubatch: request.narrow()?,
                n_sequences: request.narrow()?,
                n_threads: request.narrow()?,
                observe: match request.number()? {
                    1 => Observe::Blocks,
                    2 => Observe::BlocksAndOutput,
                    _ => Observe::Nothing,
                },
            };
            engine.prepare(&context)?;
            done
        }
        request::CLEAR => {
            engine.clear()?;
            done
        }
        request::EVALUATE => {
            let words = request.words(u32::from_le_bytes)?;
            let (items, _) = words.as_chunks::<4>();
            let items: Result<Vec<Item>, Error> = items.iter().map(|item| item_of(*item)).collect();
            engine.evaluate(&items?)?;
            done
        }
        request::LOGITS => {
            let items = request.narrow()?..request.narrow()?;
            let logits = engine.logits(items)?;
            done.words(logits.iter().map(|x| x.to_le_bytes()))
        }
        request::COUNTS => write_counts(done, &engine.counts()?),
        request::OBSERVED => write_observed(done, &engine.observed()?),
        request::OBSERVE_FROM => {
            engine.observe_from(read_observed(&mut request)?)?;
            done
        }
        _ => return Err(Error::new(ErrorKind::Io, "unknown request")),
    })
}

/// An item as four numbers.
pub fn words_of(item: &Item) -> [[u8; 4]; 4] {
    let Item { token, position, sequence, output } = item;
    [token.to_le_bytes(), position.to_le_bytes(), sequence.to_le_bytes(), u32::from(*output).to_le_bytes()]
}

fn item_of([token, position, sequence, output]: [u32; 4]) -> Result<Item, Error> {
    let token = i32::try_from(token).map_err(|_| Error::new(ErrorKind::Evaluation, "a token is negative"))?;
    Ok(Item { token, position, sequence, output: output != 0 })
}

/// Adds sums to a message.
pub fn write_observed(mut message: Message, observed: &Observed) -> Message {
    message = message.number(observed.len() as u64);
    for (name, sums) in observed {
        message = message.bytes(name).words(sums.values.iter().map(|x| x.to_le_bytes())).numbers(&sums.counts);
    }
    message
}

/// Reads sums from a message.
pub fn read_observed(message: &mut Received) -> Result<Observed, Error> {
    let mut observed = Observed::new();
    for _ in 0..message.number()? {
        let name = message.bytes()?.to_vec();
        let values = message.words(f32::from_le_bytes)?;
        observed.insert(name, Sums { values, counts: message.numbers()? });
    }
    Ok(observed)
}

/// Adds numbers of tokens to a message.
fn write_counts(message: Message, counts: &Counts) -> Message {
    let message = message.number(counts.len() as u64);
    counts.iter().fold(message, |message, (name, counts)| message.bytes(name).numbers(counts))
}

/// Reads numbers of tokens from a message.
pub fn read_counts(message: &mut Received) -> Result<Counts, Error> {
    let n = message.number()?;
    (0..n).map(|_| Ok((message.bytes()?.to_vec(), message.numbers()?))).collect()
}

/// A path from the bytes of the other process, which is of the same program.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
    }
    #[cfg(not(unix))]
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
