//! The conversion of a checkpoint, step by step.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
#[cfg(feature = "quantize")]
use std::sync::Arc;

use gguf_format::Value;
use gguf_hf::{Folder, Options, OutType};
use gguf_pipeline::{Plan, Progress, RunOptions, RunSummary, Sink};
#[cfg(feature = "quantize")]
use gguf_quantize::imatrix::ImatrixFile;
#[cfg(feature = "quantize")]
use gguf_quantize::{QuantizeOptions, mix::Target};

use crate::{Error, Warning, Written};

/// A conversion of a Hugging Face checkpoint to GGUF, quantized on request, in one pass. Feature `hf`.
///
/// ```
/// use ggufkit::{Conversion, Event};
/// # let dir = tempfile::tempdir().unwrap();
/// # let out = dir.path().join("glossary.gguf");
///
/// let progress = |event: Event<'_>| {
///     if let Event::Tensor { name, .. } = event {
///         println!("{name}");
///     }
/// };
/// let conversion = Conversion::open("../../examples/glossary")?.set("general.name", "Glossary");
/// # #[cfg(feature = "quantize")]
/// let conversion = conversion.quantize("Q8_0")?;
/// let written = conversion.run(&out, &progress)?;
/// for warning in &written.warnings {
///     eprintln!("{warning}");
/// }
/// # let model = ggufkit::Model::open(&out)?;
/// # assert_eq!(model.gguf().get_as::<&str>("general.name")?, "Glossary");
/// # Ok::<(), ggufkit::Error>(())
/// ```
///
/// [`plan`](Conversion::plan) shows the result without reading a weight:
///
/// ```
/// use ggufkit::Conversion;
///
/// let planned = Conversion::open("../../examples/glossary")?.plan()?;
/// for tensor in planned.plan().tensors() {
///     println!("{}: {}", tensor.shown(), tensor.ty);
/// }
/// assert_eq!(planned.architecture(), "llama");
/// # Ok::<(), ggufkit::Error>(())
/// ```
#[derive(Debug)]
pub struct Conversion {
    from: Input,
    options: Options,
    run: RunOptions,
    changes: Vec<(String, Option<Value>)>,
    max_tensors: Option<NonZeroU64>,
    max_bytes: Option<NonZeroU64>,
    #[cfg(feature = "quantize")]
    quantization: Option<(Target, QuantizeOptions, Option<Arc<ImatrixFile>>)>,
}

/// Where the checkpoint is.
#[derive(Debug)]
enum Input {
    Path(PathBuf),
    Folder(Box<dyn Folder>),
}

impl Conversion {
    /// The conversion of the checkpoint at a path: its folder, the model's folder in the Hugging Face cache, or a single tensor file.
    ///
    /// # Errors
    /// If there is no checkpoint.
    pub fn open(path: impl AsRef<Path>) -> Result<Conversion, Error> {
        let path = path.as_ref();
        gguf_hf::model_folder(path)?;
        Ok(Conversion::new(Input::Path(path.to_owned())))
    }

    /// The conversion of the checkpoint in a [`Folder`]: in memory, or in one of the caller.
    ///
    /// ```
    /// use ggufkit::hf::MemoryFolder;
    /// use ggufkit::{Conversion, MemorySink};
    ///
    /// let mut folder = MemoryFolder::new("glossary");
    /// for name in ["config.json", "model.safetensors", "tokenizer.model", "tokenizer_config.json"] {
    ///     folder.insert(name, std::fs::read(format!("../../examples/glossary/{name}")).unwrap());
    /// }
    /// let mut sink = MemorySink::new();
    /// Conversion::from_folder(folder).run_to(&mut sink, &())?;
    /// assert_eq!(sink.into_outputs().len(), 1);
    /// # Ok::<(), ggufkit::Error>(())
    /// ```
    pub fn from_folder(folder: impl Folder + 'static) -> Conversion {
        Conversion::new(Input::Folder(Box::new(folder)))
    }

    fn new(from: Input) -> Conversion {
        Conversion {
            from,
            options: Options::default(),
            run: RunOptions::default(),
            changes: Vec::new(),
            max_tensors: None,
            max_bytes: None,
            #[cfg(feature = "quantize")]
            quantization: None,
        }
    }

    /// Replaces the options of the conversion, including those of [`ty`](Conversion::ty) and [`projector`](Conversion::projector).
    pub fn options(mut self, options: Options) -> Conversion {
        self.options = options;
        self
    }

    /// Sets the type of the matrices: a type of llama.cpp's converter. Overrides [`quantize`](Conversion::quantize).
    pub fn ty(mut self, ty: OutType) -> Conversion {
        self.options.ty = ty;
        #[cfg(feature = "quantize")]
        {
            self.quantization = None;
        }
        self
    }

    /// Sets whether the image and audio encoders (`mmproj`) are converted instead of the language model.
    pub fn projector(mut self, projector: bool) -> Conversion {
        self.options.projector = projector;
        self
    }

    /// Quantizes the output to a file type such as `Q4_K_M`, as if the checkpoint were converted without rounding and then quantized.
    /// Overrides the type of the matrices. Feature `quantize`.
    ///
    /// # Errors
    /// If the file type is unknown.
    #[cfg(feature = "quantize")]
    pub fn quantize(self, file_type: &str) -> Result<Conversion, Error> {
        self.quantize_with(file_type, QuantizeOptions::default(), None)
    }

    /// As [`quantize`](Conversion::quantize), with options and an importance matrix. Feature `quantize`.
    ///
    /// # Errors
    /// If the file type is unknown.
    #[cfg(feature = "quantize")]
    pub fn quantize_with(
        mut self,
        file_type: &str,
        options: QuantizeOptions,
        importance: Option<Arc<ImatrixFile>>,
    ) -> Result<Conversion, Error> {
        self.quantization = Some((Target::parse(file_type)?, options, importance));
        Ok(self)
    }

    /// Sets a key of the output. Such changes are made last, in order.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Conversion {
        self.changes.push((key.into(), Some(value.into())));
        self
    }

    /// Removes a key of the output.
    pub fn remove(mut self, key: impl Into<String>) -> Conversion {
        self.changes.push((key.into(), None));
        self
    }

    /// Splits the output into files of at most that many tensors, as llama.cpp's converter does.
    pub fn max_tensors(mut self, n: NonZeroU64) -> Conversion {
        self.max_tensors = Some(n);
        self
    }

    /// Splits the output into files of at most that many bytes of tensor data, as llama.cpp's converter does.
    pub fn max_bytes(mut self, bytes: NonZeroU64) -> Conversion {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the options of the run: threads, replacing an existing output, resuming.
    pub fn run_options(mut self, options: RunOptions) -> Conversion {
        self.run = options;
        self
    }

    /// Plans the output. No weight is read, except samples by some ways to choose types.
    ///
    /// Several files of one checkpoint are written in one read by [`run_all`](gguf_pipeline::run_all), from copies of one plan's draft. Here
    /// they are in half precision and in Q4_K_M; each has the bytes of a conversion of its own:
    ///
    /// ```
    /// # #[cfg(feature = "quantize")]
    /// # fn main() -> Result<(), ggufkit::Error> {
    /// use ggufkit::pipeline::run_all;
    /// use ggufkit::quantize::{self, QuantizeOptions, mix::Target};
    /// use ggufkit::{Conversion, Event, OutType, RunOptions};
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (f16_path, q4_path) = (dir.path().join("glossary-f16.gguf"), dir.path().join("glossary-q4_k_m.gguf"));
    ///
    /// let f16 = Conversion::open("../../examples/glossary")?.ty(OutType::F16).plan()?;
    /// let q4 = quantize::plan(f16.plan().to_draft(), None, &QuantizeOptions::default(), &Target::parse("Q4_K_M")?)?;
    ///
    /// let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    /// let progress = |event: Event<'_>| match event {
    ///     Event::Started { bytes, .. } => total.store(bytes, Ordering::Relaxed),
    ///     Event::Advanced { bytes } => {
    ///         let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
    ///         eprint!("\r{:3} %", 100 * done / total.load(Ordering::Relaxed).max(1));
    ///     }
    ///     Event::Finished => eprintln!(),
    ///     _ => {}
    /// };
    /// run_all(&[(f16.plan(), &f16_path), (&q4.plan, &q4_path)], &RunOptions::default(), &progress)?;
    /// # let alone = dir.path().join("alone.gguf");
    /// # Conversion::open("../../examples/glossary")?.quantize("Q4_K_M")?.run(&alone, &())?;
    /// # assert!(std::fs::read(alone).unwrap() == std::fs::read(&q4_path).unwrap());
    /// # assert!(f16_path.exists());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "quantize"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// If the checkpoint is incomplete, its architecture is not supported, or it cannot be written or quantized as requested.
    pub fn plan(&self) -> Result<PlannedConversion, Error> {
        let mut options = self.options.clone();
        #[cfg(feature = "quantize")]
        if self.quantization.is_some() {
            options.ty = OutType::Lossless;
        }
        let mut conversion = match &self.from {
            Input::Path(path) => gguf_hf::plan(path, &options)?,
            Input::Folder(folder) => gguf_hf::plan_folder(&**folder, &options)?,
        };
        let mut warnings: Vec<Warning> = std::mem::take(&mut conversion.warnings).into_iter().map(Into::into).collect();
        let mut ty = conversion.ty.to_string();
        #[cfg(feature = "quantize")]
        if let Some((target, options, importance)) = &self.quantization {
            let planned = gguf_quantize::plan(conversion.plan.into_draft(), importance.clone(), options, target)?;
            warnings.extend(planned.warnings.into_iter().map(Into::into));
            conversion.plan = planned.plan;
            ty = target.to_string();
        }
        if !self.changes.is_empty() {
            let mut draft = conversion.plan.into_draft();
            for (key, value) in &self.changes {
                match value {
                    Some(value) => draft.head.set(key, value.clone()),
                    None => _ = draft.head.remove(key),
                }
            }
            conversion.plan = draft.lay_out()?;
        }
        if self.max_tensors.is_some() || self.max_bytes.is_some() {
            let (plan, too_large) = gguf_edit::split_converted(conversion.plan, self.max_tensors, self.max_bytes)?;
            warnings.extend(too_large.into_iter().map(|tensor| Warning::TooLarge { tensor }));
            conversion.plan = plan;
        }
        Ok(PlannedConversion { conversion, ty, warnings, run: self.run.clone() })
    }

    /// Converts the checkpoint to a file. If `out` is a directory, the file is named after the model; `{ftype}` in its name is replaced by
    /// the type. `&()` ignores the progress.
    ///
    /// # Errors
    /// As for [`plan`](Conversion::plan) and [`Plan::run`]. No output is left then.
    pub fn run(&self, out: impl AsRef<Path>, progress: &dyn Progress) -> Result<Written, Error> {
        self.plan()?.run(out, progress)
    }

    /// As [`run`](Conversion::run), to memory or a custom sink.
    ///
    /// # Errors
    /// As for [`plan`](Conversion::plan) and [`Plan::run_to`].
    pub fn run_to(&self, sink: &mut dyn Sink, progress: &dyn Progress) -> Result<Written, Error> {
        self.plan()?.run_to(sink, progress)
    }
}

/// A planned conversion: the result of [`Conversion::plan`]. Feature `hf`.
///
/// ```
/// use ggufkit::{Conversion, MemorySink};
///
/// let planned = Conversion::open("../../examples/glossary")?.plan()?;
/// let (name, bytes) = (planned.output_path("."), planned.plan().file_bytes());
/// println!("{}: {bytes} bytes", name.display());
/// let mut sink = MemorySink::new();
/// planned.run_to(&mut sink, &())?;
/// assert_eq!(sink.into_outputs()[0].len() as u64, bytes);
/// # Ok::<(), ggufkit::Error>(())
/// ```
#[derive(Debug)]
pub struct PlannedConversion {
    conversion: gguf_hf::Conversion,
    /// The type in names of files.
    ty: String,
    warnings: Vec<Warning>,
    run: RunOptions,
}

impl PlannedConversion {
    /// The plan of the output.
    pub fn plan(&self) -> &Plan {
        &self.conversion.plan
    }

    /// The plan of the output, to be edited or run in another way.
    pub fn into_plan(self) -> Plan {
        self.conversion.plan
    }

    /// The architecture name in GGUF.
    pub fn architecture(&self) -> &'static str {
        self.conversion.architecture
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The output path for `out`, which may be a directory or contain `{ftype}`.
    pub fn output_path(&self, out: impl AsRef<Path>) -> PathBuf {
        self.conversion.output_path_as(out, &self.ty)
    }

    /// Writes the output; see [`Conversion::run`].
    ///
    /// # Errors
    /// As for [`Plan::run`]. No output is left then.
    pub fn run(self, out: impl AsRef<Path>, progress: &dyn Progress) -> Result<Written, Error> {
        let out = self.output_path(out);
        let done = self.plan().run(out, &self.run, progress)?;
        Ok(self.written(done))
    }

    /// As [`run`](PlannedConversion::run), to memory or a custom sink.
    ///
    /// # Errors
    /// As for [`Plan::run_to`].
    pub fn run_to(self, sink: &mut dyn Sink, progress: &dyn Progress) -> Result<Written, Error> {
        let done = self.plan().run_to(sink, &self.run, progress)?;
        Ok(self.written(done))
    }

    fn written(self, done: RunSummary) -> Written {
        Written::new(done, self.warnings)
    }
}
