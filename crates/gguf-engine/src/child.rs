//! An engine in a process of its own, which may crash without harm.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, BufWriter, Read};
use std::ops::Range;
use std::path::Path;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::engine::{About, Context, Counts, Engine, Item, Loaded, Observe, Observed, Specials, Token};
use crate::serve::{answer, path_of, read_counts, read_observed, request, words_of, write_observed};
use crate::wire::{Message, Received, receive};
use crate::{Error, ErrorKind, find};

/// Number of lines of the log that are kept.
const LOG_LINES: usize = 12;

/// Maximum length of a line of the log, in bytes.
const LINE: u64 = 400;

/// An engine in another process.
#[derive(Debug)]
pub struct Child {
    shared: Arc<Shared>,
    answers: BufReader<ChildStdout>,
    about: About,
    log: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// What a [`Canceller`] uses, too.
#[derive(Debug)]
struct Shared {
    process: Mutex<std::process::Child>,
    /// Closed at the end.
    requests: Mutex<Option<BufWriter<ChildStdin>>>,
    /// Whether an answer is awaited that is of no use after cancellation.
    is_waiting: AtomicBool,
    is_cancelled: AtomicBool,
}

/// Cancels evaluations of a [`Child`], from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Shared>);

impl Canceller {
    /// Cancels the running evaluation and all later ones: the library ends it after the operation that it computes, and sums are those before it.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        if let Some(requests) = lock(&self.0.requests).as_mut() {
            // If the process has ended, there is nothing to cancel.
            let _ = Message::new(request::CANCEL).send(requests);
        }
    }

    /// Ends the process if it has not answered yet, as while it loads a model.
    pub fn kill(&self) {
        if self.0.is_waiting.load(Ordering::Relaxed) {
            let _ = lock(&self.0.process).kill();
        }
    }

    /// Whether the process is not used any more.
    pub fn is_over(&self) -> bool {
        lock(&self.0.requests).is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Child {
    /// Starts the process. The command must run [`serve`](crate::serve) with the same folder. Its streams, its folder and the variables of the
    /// loader are set here.
    ///
    /// # Errors
    /// If the process cannot be started, or it cannot open the library.
    pub fn start(mut command: Command, folder: Option<&Path>) -> Result<Child, Error> {
        if let Some(folder) = folder {
            let variable = if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };
            let paths = std::env::join_paths(find::folders_in(folder)).map_err(|e| {
                Error::new(ErrorKind::Library, format!("{}: the loader cannot search it: {e}", folder.display()))
            })?;
            command.env(variable, paths);
        }
        // An assertion would start a debugger.
        command.env("GGML_NO_BACKTRACE", "1");
        // The folder of the caller is not searched for libraries.
        #[cfg(unix)]
        {
            command.current_dir("/");
            // Ctrl-C is for the caller, which may still want the sums.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process =
            command.spawn().map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a process: {e}")))?;
        let (Some(requests), Some(answers), Some(errors)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(Error::new(ErrorKind::Io, "the process has no streams"));
        };
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&log);
        let reader = std::thread::spawn(move || keep_last_lines(errors, &kept));
        let mut child = Child {
            shared: Arc::new(Shared {
                process: Mutex::new(process),
                requests: Mutex::new(Some(BufWriter::new(requests))),
                is_waiting: AtomicBool::new(false),
                is_cancelled: AtomicBool::new(false),
            }),
            answers: BufReader::with_capacity(1 << 16, answers),
            about: About::default(),
            log,
            reader: Some(reader),
        };
        let mut first = child.receive().map_err(|e| match e.kind() {
            ErrorKind::Died => {
                let place = folder.map_or_else(|| find::FILE.to_owned(), |folder| folder.display().to_string());
                let message = format!("{place}: the library cannot be opened and may be truncated: {}", e.message());
                Error::new(ErrorKind::Library, message).with_log(e.log().to_vec())
            }
            _ => e,
        })?;
        child.about = About {
            name: first.text()?,
            version: (first.number()? != 0).then_some(first.text()?),
            path: path_of(first.bytes()?),
            devices: (0..first.number()?).map(|_| Ok((first.text()?, first.text()?))).collect::<Result<_, Error>>()?,
            denied: (0..first.number()?).map(|_| Ok(first.text()?)).collect::<Result<_, Error>>()?,
        };
        Ok(child)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        lock(&self.shared.process).id()
    }

    /// What cancels evaluations from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.shared))
    }

    fn receive(&mut self) -> Result<Received, Error> {
        let mut received = match receive(&mut self.answers) {
            Ok(Some(received)) => received,
            Ok(None) | Err(_) => return Err(self.died()),
        };
        match received.kind()? {
            answer::DONE => Ok(received),
            _ => {
                let kind = ErrorKind::from_code(received.narrow()?);
                let e = Error::new(kind, received.text()?);
                let logged =
                    matches!(kind, ErrorKind::Model | ErrorKind::Context | ErrorKind::Evaluation | ErrorKind::NoDevice);
                Err(if logged { e.with_log(self.last_lines()) } else { e })
            }
        }
    }

    fn ask(&mut self, message: &Message) -> Result<Received, Error> {
        let is_waiting = !message.is(request::OBSERVED);
        self.shared.is_waiting.store(is_waiting, Ordering::Relaxed);
        let sent = lock(&self.shared.requests).as_mut().map(|requests| message.send(requests));
        let answer = match sent {
            Some(Ok(())) => self.receive(),
            _ => Err(self.died()),
        };
        self.shared.is_waiting.store(false, Ordering::Relaxed);
        answer
    }

    /// The last lines that the library has logged.
    fn last_lines(&self) -> Vec<String> {
        lock(&self.log).iter().cloned().collect()
    }

    /// The error of a process that has ended by itself.
    fn died(&mut self) -> Error {
        drop(lock(&self.shared.requests).take());
        let status = lock(&self.shared.process).wait();
        if self.shared.is_cancelled.load(Ordering::Relaxed) {
            return Error::new(ErrorKind::Cancelled, "cancelled");
        }
        if let Some(reader) = self.reader.take() {
            // It ends with the stream.
            let _ = reader.join();
        }
        let how = match status {
            Ok(status) => ended(status),
            Err(e) => e.to_string(),
        };
        let message = format!("the process that runs libllama has ended ({how}); its last lines:");
        let log = self.last_lines();
        let message = if log.is_empty() { message.trim_end_matches("; its last lines:") } else { &message };
        Error::new(ErrorKind::Died, message).with_log(log)
    }
}

/// `signal 6`, `exit code 1`
fn ended(status: std::process::ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return match signal {
            libc::SIGABRT => "aborted".to_owned(),
            libc::SIGSEGV | libc::SIGBUS => "invalid memory access".to_owned(),
            libc::SIGKILL => "killed, perhaps for lack of memory".to_owned(),
            signal => format!("signal {signal}"),
        };
    }
    status.to_string()
}

/// Reads the log to its end, and keeps its last lines.
fn keep_last_lines(errors: ChildStderr, kept: &Mutex<VecDeque<String>>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match errors.by_ref().take(LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        // Progress of loading is a line of dots.
        if text.trim().trim_matches('.').is_empty() {
            continue;
        }
        let mut kept = lock(kept);
        if kept.len() >= LOG_LINES {
            kept.pop_front();
        }
        kept.push_back(text.trim_end().to_owned());
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The end of its input ends it; killing it makes sure.
        drop(lock(&self.shared.requests).take());
        let mut process = lock(&self.shared.process);
        let _ = process.kill();
        let _ = process.wait();
    }
}

impl Engine for Child {
    fn about(&self) -> &About {
        &self.about
    }

    fn load(&mut self, model: &Path) -> Result<Loaded, Error> {
        let mut loaded = self.ask(&Message::new(request::LOAD).bytes(model.as_os_str().as_encoded_bytes()))?;
        let n_vocab = loaded.narrow()?;
        let begin = loaded.number()?.checked_sub(1).and_then(|token| Token::try_from(token).ok());
        Ok(Loaded { n_vocab, begin, description: loaded.text()? })
    }

    fn tokenize(&mut self, text: &[u8], specials: Specials) -> Result<Vec<Token>, Error> {
        let message = Message::new(request::TOKENIZE).number(specials.add.into()).number(specials.parse.into());
        Ok(self.ask(&message.bytes(text))?.words(Token::from_le_bytes)?)
    }

    fn piece(&mut self, token: Token, special: bool) -> Result<(Vec<u8>, bool), Error> {
        let number = u64::try_from(token).unwrap_or(u64::MAX);
        let mut piece = self.ask(&Message::new(request::PIECE).number(number).number(special.into()))?;
        Ok((piece.bytes()?.to_vec(), piece.number()? != 0))
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Error> {
        let Context { n_tokens, n_batch, n_ubatch, n_sequences, n_threads, observe } = *context;
        let numbers = [n_tokens, n_batch, n_ubatch, n_sequences, n_threads].map(u64::from);
        let message = numbers.into_iter().fold(Message::new(request::PREPARE), Message::number);
        let observe = match observe {
            Observe::Nothing => 0,
            Observe::Blocks => 1,
            Observe::BlocksAndOutput => 2,
        };
        self.ask(&message.number(observe)).map(drop)
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.ask(&Message::new(request::CLEAR)).map(drop)
    }

    fn evaluate(&mut self, items: &[Item]) -> Result<(), Error> {
        let words: Vec<[u8; 4]> = items.iter().flat_map(words_of).collect();
        self.ask(&Message::new(request::EVALUATE).words(words.into_iter())).map(drop)
    }

    fn logits(&mut self, items: Range<usize>) -> Result<Vec<f32>, Error> {
        let message = Message::new(request::LOGITS).number(items.start as u64).number(items.end as u64);
        Ok(self.ask(&message)?.words(f32::from_le_bytes)?)
    }

    fn counts(&mut self) -> Result<Counts, Error> {
        read_counts(&mut self.ask(&Message::new(request::COUNTS))?)
    }

    fn observed(&mut self) -> Result<Observed, Error> {
        read_observed(&mut self.ask(&Message::new(request::OBSERVED))?)
    }

    fn observe_from(&mut self, sums: Observed) -> Result<(), Error> {
        self.ask(&write_observed(Message::new(request::OBSERVE_FROM), &sums)).map(drop)
    }
}
