//! libllama as an [`Engine`]. The library is foreign code: an invalid model can crash it, and its assertions end the process. So programs run this
//! engine in a process of its own ([`crate::Child`]).

use std::ffi::{CString, c_char, c_void};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;

use libloading::Library;

use crate::engine::{About, Context, Counts, Engine, Item, Loaded, Observe, Observed, Specials, Token};
use crate::matrix::counts_of;
use crate::serve::CANCELLED;
use crate::{Error, ErrorKind, find};

mod abi;
mod observe;

use abi::{Abi, Batch, Opaque, text};
use observe::Observer;

/// The longest text of a token, in bytes, and the longest description of a model.
const LONGEST: usize = 1 << 16;

type Any = *mut c_void;

/// The library, with at most one model and one context.
pub struct Llama {
    abi: &'static Abi,
    about: About,
    model: Option<Model>,
    context: Option<Running>,
}

/// A model of the library.
struct Model {
    model: Any,
    vocab: Any,
    n_vocab: usize,
}

/// A context of the library.
struct Running {
    context: Any,
    size: Context,
    /// It must not move, because the library has its address.
    observer: *mut Observer<'static>,
    /// Which items of the last evaluation are outputs.
    outputs: Vec<bool>,
}

/// The callback that ends an evaluation.
unsafe extern "C" fn is_cancelled(_: Any) -> bool {
    CANCELLED.load(Ordering::Relaxed)
}

impl Llama {
    /// Opens the library: that of a folder, or the first that is found.
    ///
    /// # Errors
    /// If no library is found, or it cannot be opened, lacks a function, or has no device to compute on.
    ///
    /// # Safety
    /// The library's code is run. Libraries named libllama must be it, and the process must not depend on state that the library changes.
    pub unsafe fn open(folder: Option<&Path>) -> Result<Llama, Error> {
        // SAFETY: guaranteed by the caller.
        let (libraries, path) = unsafe { find::open(folder, |file| open_library(file))? };
        // SAFETY: guaranteed by the caller.
        let abi = unsafe { Abi::new(libraries, &path)? };
        // Libraries are not closed while the process runs: their threads may still be running, and models refer to them.
        let abi: &'static Abi = Box::leak(Box::new(abi));
        let f = &abi.functions;
        let mut about = About { name: "libllama".to_owned(), version: abi.version.clone(), path, ..About::default() };
        let beside =
            about.path.parent().and_then(|folder| folder.to_str()).and_then(|folder| CString::new(folder).ok());
        // SAFETY: the folder is a text that ends with 0. Backends are libraries of the same build.
        unsafe {
            if let Some(folder) = beside {
                (f.ggml_backend_load_all_from_path)(folder.as_ptr());
            }
            if folder.is_none() && (f.ggml_backend_dev_count)() == 0 {
                abi.load_all(&about.path)?();
            }
            (f.llama_backend_init)();
        }
        // SAFETY: the indexes are valid, and the texts are static.
        unsafe {
            for i in 0..(f.ggml_backend_dev_count)() {
                let device = (f.ggml_backend_dev_get)(i);
                let name = text((f.ggml_backend_dev_name)(device)).unwrap_or_default();
                about.devices.push((name, text((f.ggml_backend_dev_description)(device)).unwrap_or_default()));
            }
        }
        // SAFETY: the type of a CPU is 0 in all versions.
        if unsafe { (f.ggml_backend_dev_by_type)(0) }.is_null() {
            let path = about.path.display();
            return Err(Error::new(ErrorKind::NoDevice, format!("{path}: the library has no CPU backend")));
        }
        Ok(Llama { abi, about, model: None, context: None })
    }

    fn model(&self) -> Result<&Model, Error> {
        self.model.as_ref().ok_or_else(|| Error::new(ErrorKind::Evaluation, "no model is loaded"))
    }

    fn running(&mut self) -> Result<&mut Running, Error> {
        self.context.as_mut().ok_or_else(|| Error::new(ErrorKind::Evaluation, "no evaluation is prepared"))
    }

    fn end_context(&mut self) {
        if let Some(running) = self.context.take() {
            // SAFETY: both were made for this context, and are not used any more.
            unsafe {
                (self.abi.functions.llama_free)(running.context);
                drop(Box::from_raw(running.observer));
            }
        }
    }
}

/// Opens a file, or what the system's loader finds for a name.
///
/// # Safety
/// As for [`Llama::open`].
unsafe fn open_library(file: &Path) -> Result<Library, libloading::Error> {
    #[cfg(windows)]
    {
        use libloading::os::windows::{LOAD_WITH_ALTERED_SEARCH_PATH, Library as Windows};
        // SAFETY: guaranteed by the caller. Libraries that it depends on are looked for in its folder.
        unsafe { Windows::load_with_flags(file, LOAD_WITH_ALTERED_SEARCH_PATH).map(Into::into) }
    }
    #[cfg(not(windows))]
    // SAFETY: guaranteed by the caller.
    unsafe {
        Library::new(file)
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        self.end_context();
        if let Some(model) = self.model.take() {
            // SAFETY: nothing uses the model any more.
            unsafe { (self.abi.functions.llama_model_free)(model.model) };
        }
    }
}

impl Engine for Llama {
    fn about(&self) -> &About {
        &self.about
    }

    fn load(&mut self, path: &Path) -> Result<Loaded, Error> {
        self.end_context();
        let f = &self.abi.functions;
        if let Some(old) = self.model.take() {
            // SAFETY: its context has ended.
            unsafe { (f.llama_model_free)(old.model) };
        }
        let refused = |why: &str| Error::new(ErrorKind::Model, format!("{}: {why}", path.display()));
        let name = path.to_str().and_then(|path| CString::new(path).ok());
        let name = name.ok_or_else(|| refused("libllama takes only paths that are UTF-8"))?;
        // SAFETY: the path is a text that ends with 0, and the parameters are the defaults.
        let model = unsafe { (f.llama_model_load_from_file)(name.as_ptr(), self.abi.model_params) };
        if model.is_null() {
            return Err(refused("libllama cannot load this model"));
        }
        // SAFETY: the model is valid.
        let (vocab, n_vocab, decodes) = unsafe {
            let vocab = (f.llama_model_get_vocab)(model);
            (vocab, (f.llama_vocab_n_tokens)(vocab), (f.llama_model_has_decoder)(model))
        };
        let n_vocab = usize::try_from(n_vocab).unwrap_or(0);
        self.model = Some(Model { model, vocab, n_vocab });
        if n_vocab == 0 || !decodes {
            return Err(refused("it does not predict tokens"));
        }
        let mut description = vec![0_u8; 256];
        // SAFETY: the library writes at most the given number of bytes, and the vocabulary is that of the model.
        let begin = unsafe {
            (f.llama_model_desc)(model, description.as_mut_ptr().cast(), description.len());
            (f.llama_vocab_get_add_bos)(vocab).then(|| (f.llama_vocab_bos)(vocab)).filter(|&token| token >= 0)
        };
        let description = description.split(|&b| b == 0).next().unwrap_or_default();
        Ok(Loaded { n_vocab, begin, description: String::from_utf8_lossy(description).into_owned() })
    }

    fn tokenize(&mut self, bytes: &[u8], specials: Specials) -> Result<Vec<Token>, Error> {
        let vocab = self.model()?.vocab;
        let length = i32::try_from(bytes.len());
        let length = length.map_err(|_| Error::new(ErrorKind::Text, "the text is longer than 2 GiB"))?;
        let mut tokens: Vec<Token> = vec![0; bytes.len() + 2];
        for _ in 0..2 {
            let room = i32::try_from(tokens.len()).unwrap_or(i32::MAX);
            // SAFETY: the library reads `length` bytes and writes at most `room` tokens.
            let n = unsafe {
                let (text, out) = (bytes.as_ptr().cast::<c_char>(), tokens.as_mut_ptr());
                (self.abi.functions.llama_tokenize)(vocab, text, length, out, room, specials.add, specials.parse)
            };
            // If the tokens do not fit, the result is their number, negated.
            tokens.resize(n.unsigned_abs() as usize, 0);
            if n >= 0 {
                return Ok(tokens);
            }
        }
        Err(Error::new(ErrorKind::Text, "libllama cannot tokenize the text"))
    }

    fn piece(&mut self, token: Token, special: bool) -> Result<(Vec<u8>, bool), Error> {
        let model = self.model()?;
        if usize::try_from(token).is_ok_and(|token| token >= model.n_vocab) || token < 0 {
            return Err(Error::new(ErrorKind::Evaluation, format!("there is no token {token}")));
        }
        let f = &self.abi.functions;
        let mut bytes = vec![0_u8; LONGEST];
        // SAFETY: the token exists, and the library writes at most the given number of bytes.
        let (n, ends) = unsafe {
            let out = bytes.as_mut_ptr().cast::<c_char>();
            let room = i32::try_from(bytes.len()).unwrap_or(0);
            let n = (f.llama_token_to_piece)(model.vocab, token, out, room, 0, special);
            (n, (f.llama_vocab_is_eog)(model.vocab, token))
        };
        bytes.truncate(usize::try_from(n).unwrap_or(0));
        Ok((bytes, ends))
    }

    fn prepare(&mut self, size: &Context) -> Result<(), Error> {
        self.end_context();
        let model = self.model()?.model;
        let f = &self.abi.functions;
        let mut params: Opaque = self.abi.context_params;
        for (at, n) in [(0, size.n_tokens), (4, size.n_batch), (8, size.n_ubatch), (12, size.n_sequences)] {
            params.set(at, &n.to_ne_bytes());
        }
        let observer = Box::into_raw(Box::new(Observer::new(self.abi, size.observe)));
        if size.observe != Observe::Nothing {
            let at = self.abi.callback_at;
            params.set(at, &(observe::callback as abi::Callback as usize).to_ne_bytes());
            params.set(at + size_of::<usize>(), &(observer as usize).to_ne_bytes());
        }
        // SAFETY: the parameters are the defaults, except for fields whose places are established. The observer lives as long as the context.
        let context = unsafe { (f.llama_init_from_model)(model, params) };
        if context.is_null() {
            // SAFETY: the context that would refer to it does not exist.
            drop(unsafe { Box::from_raw(observer) });
            return Err(Error::new(ErrorKind::Context, "libllama cannot create a context of this size"));
        }
        self.context = Some(Running { context, size: *size, observer, outputs: Vec::new() });
        // SAFETY: the context is valid, and the callback needs no data.
        unsafe { (f.llama_set_abort_callback)(context, is_cancelled, std::ptr::null_mut()) };
        // SAFETY: the context is valid.
        let found = unsafe {
            let n = i32::try_from(size.n_threads).unwrap_or(1);
            (f.llama_set_n_threads)(context, n, n);
            [(f.llama_n_batch)(context), (f.llama_n_ubatch)(context), (f.llama_n_seq_max)(context)]
        };
        // The library may round the size of the context up, and the batch down to it.
        let wanted = [size.n_batch, size.n_ubatch.min(size.n_batch), size.n_sequences];
        if found != wanted {
            let path = self.about.path.display();
            return Err(Error::new(
                ErrorKind::Library,
                format!("{path}: the library has an unknown layout: it read {found:?}, expected {wanted:?}"),
            ));
        }
        // SAFETY: the context is valid.
        if unsafe { (f.llama_n_ctx)(context) } < size.n_tokens {
            return Err(Error::new(ErrorKind::Context, "libllama made a smaller context"));
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Error> {
        let f = &self.abi.functions;
        let running = self.running()?;
        let context = running.context;
        // SAFETY: the library uses the observer only during an evaluation.
        unsafe { &mut *running.observer }.begin();
        // SAFETY: the context is valid. Models without memory of earlier tokens have none.
        unsafe {
            let memory = (f.llama_get_memory)(context);
            if !memory.is_null() {
                (f.llama_memory_clear)(memory, true);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, items: &[Item]) -> Result<(), Error> {
        let f = &self.abi.functions;
        let n_vocab = self.model()?.n_vocab;
        let running = self.running()?;
        let fits = |item: &Item| {
            usize::try_from(item.token).is_ok_and(|token| token < n_vocab)
                && item.sequence < running.size.n_sequences
                && i32::try_from(item.position).is_ok()
        };
        if items.is_empty() || items.len() > running.size.n_batch as usize || !items.iter().all(fits) {
            return Err(Error::new(ErrorKind::Evaluation, "the tokens do not fit the size of the evaluation"));
        }
        #[allow(clippy::cast_possible_wrap, reason = "checked above")]
        let number = |n: u32| n as i32;
        let tokens: Vec<i32> = items.iter().map(|item| item.token).collect();
        let positions: Vec<i32> = items.iter().map(|item| number(item.position)).collect();
        let sequences: Vec<i32> = items.iter().map(|item| number(item.sequence)).collect();
        let each: Vec<*const i32> = sequences.iter().map(std::ptr::from_ref).collect();
        let ones = vec![1_i32; items.len()];
        let outputs: Vec<i8> = items.iter().map(|item| item.output.into()).collect();
        let batch = Batch {
            n_tokens: i32::try_from(items.len()).unwrap_or(0),
            token: tokens.as_ptr(),
            embd: std::ptr::null(),
            pos: positions.as_ptr(),
            n_seq_id: ones.as_ptr(),
            seq_id: each.as_ptr(),
            logits: outputs.as_ptr(),
        };
        running.outputs = items.iter().map(|item| item.output).collect();
        // SAFETY: the arrays live until the end, and have as many elements as there are tokens. The library does not keep them.
        let code = unsafe {
            let code = (f.llama_decode)(running.context, batch);
            (f.llama_synchronize)(running.context);
            code
        };
        if CANCELLED.load(Ordering::Relaxed) {
            // SAFETY: the library uses the observer only during an evaluation.
            unsafe { &mut *running.observer }.roll_back();
            return Err(Error::new(ErrorKind::Cancelled, "cancelled"));
        }
        // SAFETY: the library uses the observer only during an evaluation.
        if let Some(e) = unsafe { &mut *running.observer }.failure.take() {
            return Err(e);
        }
        match code {
            0 => Ok(()),
            1 => Err(Error::new(ErrorKind::Evaluation, "libllama has no room for the tokens in its context")),
            code => {
                Err(Error::new(ErrorKind::Evaluation, format!("libllama cannot evaluate the tokens (code {code})")))
            }
        }
    }

    fn logits(&mut self, items: Range<usize>) -> Result<Vec<f32>, Error> {
        let f = &self.abi.functions;
        let n_vocab = self.model()?.n_vocab;
        let running = self.running()?;
        if !running.outputs.get(items.clone()).is_some_and(|outputs| outputs.iter().all(|&is_output| is_output)) {
            return Err(Error::new(ErrorKind::Evaluation, "logits were not computed after these tokens"));
        }
        let mut logits = Vec::with_capacity(items.len() * n_vocab);
        for item in items {
            // SAFETY: the item is an output of the last evaluation; its row has a number for each token of the vocabulary.
            let row = unsafe {
                let row = (f.llama_get_logits_ith)(running.context, i32::try_from(item).unwrap_or(-1));
                if row.is_null() {
                    return Err(Error::new(ErrorKind::Evaluation, "libllama returns no logits"));
                }
                std::slice::from_raw_parts(row, n_vocab)
            };
            logits.extend_from_slice(row);
        }
        Ok(logits)
    }

    fn counts(&mut self) -> Result<Counts, Error> {
        // SAFETY: the library uses the observer only during an evaluation.
        Ok(counts_of(unsafe { &(*self.running()?.observer).sums }))
    }

    fn observed(&mut self) -> Result<Observed, Error> {
        // SAFETY: the library uses the observer only during an evaluation.
        Ok(unsafe { &*self.running()?.observer }.sums.clone())
    }

    fn observe_from(&mut self, sums: Observed) -> Result<(), Error> {
        // SAFETY: the library uses the observer only during an evaluation.
        unsafe { &mut *self.running()?.observer }.sums = sums;
        Ok(())
    }
}

impl Opaque {
    /// Sets bytes at an offset inside the library's structure.
    fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}
