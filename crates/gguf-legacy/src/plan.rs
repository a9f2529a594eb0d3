//! The plan of a migration of a legacy file, made before anything is written.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use gguf_format::GgmlType;
use gguf_pipeline::moves::{Axis, Move};
use gguf_pipeline::plan::{
    self as pipeline, Draft, Gather, Op, Reason, Rounding as FloatRounding, SourcePlace, TensorPlan,
};
use gguf_pipeline::{Event, Progress, workers};

use crate::arrange::{Arranged, Arrangement, arrange};
use crate::block::{Encoding, Generation, Reading, Rounding, Treatment, blocks_of_planes, memory_len};
use crate::container::Container;
use crate::error::Error;
use crate::file::{LegacyFile, Tensor};
use crate::infer::infer;
use crate::input::Input;
use crate::keys::{Known, head};
use crate::layout::Family;
use crate::lora;
use crate::migration::{Migrated, Migration, Options, Warning, findings};
use crate::question::{Answers, Question};
use crate::source::{LegacySource, SourceTensor};

/// The information that neither the file nor the answers provide; empty if the migration can proceed.
///
/// # Errors
/// As for [`plan`].
pub fn questions(input: &Input, answers: &Answers) -> Result<Vec<Question>, Error> {
    let Input::Legacy(file) = input else { return Ok(Vec::new()) };
    if file.is_adapter() {
        return Ok(Vec::new());
    }
    let arrangement = arrange(file)?;
    Ok(infer(file, &arrangement, file.vocabulary(), answers)?.questions)
}

/// Plans the migration of a file. Of its weights, only the scales that will be rounded are read.
///
/// ```
/// # use gguf_format::{ByteOrder, Head};
/// # let folder = tempfile::tempdir()?;
/// # let (path, out) = (folder.path().join("big-endian.gguf"), folder.path().join("model.gguf"));
/// # let mut head = Head::default();
/// # head.dialect.order = ByteOrder::Big;
/// # head.set("general.name", "A model");
/// # std::fs::write(&path, head.encode()?)?;
/// use gguf_legacy::{Answers, Input, Options};
///
/// let input = Input::open(&path, None)?;
/// let migration = gguf_legacy::plan(input, &Answers::default(), &Options::default(), &())?;
/// println!("from {}", migration.container);
/// migration.plan.run(&out, &Default::default(), &())?;
/// let file = gguf_io::ModelFile::open(&out)?;
/// assert_eq!(file.gguf().get_as::<&str>("general.name")?, "A model");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error`], which names the file, the tensor or the open questions.
pub fn plan(input: Input, answers: &Answers, options: &Options, progress: &dyn Progress) -> Result<Migration, Error> {
    match input {
        Input::Legacy(file) => plan_legacy(*file, answers, options, progress),
        Input::Gguf(file) => file.plan(options),
    }
}

fn plan_legacy(
    file: LegacyFile,
    answers: &Answers,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Migration, Error> {
    let arrangement = if file.is_adapter() { lora::arrange(&file)? } else { arrange(&file)? };
    let vocabulary = file.vocabulary();
    let inferred = infer(&file, &arrangement, vocabulary, answers)?;
    if !inferred.questions.is_empty() {
        return Err(Error::Unanswered { path: file.path().to_owned(), questions: inferred.questions });
    }
    let encoding = |tensor: &Tensor| match (inferred.generation, tensor.encoding) {
        (Some(Generation::Second), Encoding::Wide { ty, .. }) => Encoding::Wide { ty, pairs: false },
        (Some(Generation::Second | Generation::Present), Encoding::Pairs(ty)) => Encoding::Present(ty),
        (_, encoding) => encoding,
    };
    let roundings = measure(&file, &arrangement, options, progress)?;
    let mut warnings = Vec::new();
    let mut sources = Vec::new();
    let mut plans = Vec::new();
    let mut migrated = Vec::new();
    for (index, item) in arrangement.tensors.iter().enumerate() {
        let rounding = roundings.get(&index).copied();
        let n_large = rounding.map_or(0, |rounding| rounding.n_large);
        let reading = Reading { encoding: encoding(item.tensor), decode: n_large > 0 };
        let decided = decide(item, reading, options.recoded);
        if n_large > 0 {
            warnings.push(Warning::LargeScales { tensor: item.named.name.clone(), n: n_large });
        }
        sources.push(SourceTensor {
            name: item.tensor.name.clone(),
            reading,
            row_len: item.row_len,
            pieces: item.pieces(),
            are_columns: item.tensor.are_columns,
            order: item.order.clone(),
        });
        let rounding = rounding.filter(|_| decided.treatment == Treatment::Rounded);
        migrated.push(Migrated { from: item.tensor.name.clone(), treatment: decided.treatment, rounding });
        plans.push(tensor_plan(index, item, reading, &decided));
    }
    let main_type = main_type(&plans);
    let known = Known { file: &file, arrangement: &arrangement, inferred: &inferred, vocabulary, answers, main_type };
    let head = head(&known)?;
    if vocabulary.n_lost > 0 && answers.tokenizer.is_none() && answers.reference.is_none() {
        warnings.push(Warning::LostTokens(vocabulary.n_lost));
    }
    if matches!(file.family, Family::GptJ | Family::Rwkv | Family::Whisper) {
        warnings.push(Warning::NoRuntime(file.family));
    }
    warnings.extend((file.family == Family::Whisper).then_some(Warning::MelFilters));
    let left_out = arrangement.left_out.clone();
    drop(arrangement);
    let mut inputs: Vec<PathBuf> = file.paths().filter_map(|path| path.canonicalize().ok()).collect();
    inputs.extend(answers.files.iter().filter_map(|path| path.canonicalize().ok()));
    let LegacyFile { parts, container, family, file_bytes, .. } = file;
    let path = parts.first().map(|(path, _)| path.clone()).unwrap_or_default();
    let draft = Draft {
        path: path.clone(),
        head,
        is_vocab_only: plans.is_empty(),
        tensors: plans,
        source: Arc::new(LegacySource { parts, tensors: sources }),
        rounding: FloatRounding::Ggml,
        importance: None,
        inputs,
        input_bytes: Some(file_bytes),
        is_split: false,
    };
    let plan = draft.lay_out()?;
    // A draft has less metadata than a model needs, and rwkv.cpp stores its vocabulary separately.
    let is_strict = container != Container::GgufDraft && family != Family::Rwkv;
    warnings.extend(findings(&plan, path, is_strict)?);
    let family = Some(family);
    Ok(Migration { plan, container, family, tensors: migrated, left_out, guesses: inferred.guesses, warnings })
}

/// The decision for a tensor.
struct Decided {
    ty: GgmlType,
    treatment: Treatment,
    reason: &'static &'static str,
}

fn decide(item: &Arranged<'_>, reading: Reading, recoded: GgmlType) -> Decided {
    let row = item.shape.first().copied().unwrap_or(1);
    let fits = |ty: GgmlType| ty.info().is_some_and(|info| row.is_multiple_of(u64::from(info.block_len)));
    let ty = reading.ty();
    let recode = |reason| {
        let ty = if fits(recoded) { recoded } else { GgmlType::F16 };
        Decided { ty, treatment: Treatment::Recoded, reason }
    };
    match reading.encoding {
        _ if reading.decode => {
            Decided { ty: GgmlType::F32, treatment: Treatment::Recoded, reason: &"scales too large for half precision" }
        }
        Encoding::Small(_) => recode(&"k-quant in blocks of 64, an obsolete layout"),
        Encoding::Outlier => recode(&"Q4_1_O, a type of rwkv.cpp that has been removed"),
        Encoding::Present(removed) if removed.info().is_some_and(|info| info.removed) => {
            recode(&"a type that has been removed")
        }
        Encoding::Pairs(_) => Decided { ty, treatment: Treatment::Rearranged, reason: &"levels reordered" },
        // The reason also distinguishes interrupted work of one generation from that of another.
        Encoding::Wide { pairs, .. } => {
            let reason = if pairs { &"levels reordered, f16 scales" } else { &"f16 scales" };
            Decided { ty, treatment: Treatment::Rounded, reason }
        }
        Encoding::Planar(_) => {
            Decided { ty, treatment: Treatment::Rounded, reason: &"planes interleaved into blocks, f16 scales" }
        }
        Encoding::Present(_) => Decided { ty, treatment: Treatment::Copied, reason: &"copied" },
    }
}

fn tensor_plan(index: usize, item: &Arranged<'_>, reading: Reading, decided: &Decided) -> TensorPlan {
    let input = pipeline::Input::new(index, &item.tensor.name, reading.ty());
    let op = if item.transposed {
        let (columns, rows) = (item.shape.get(1).copied().unwrap_or(1), item.shape.first().copied().unwrap_or(1));
        let axes = vec![Axis { count: columns, from: 1, to: rows }, Axis { count: rows, from: columns, to: 1 }];
        let moves = vec![Move { input: 0, from: 0, to: 0, axes }];
        Op::Gather(Box::new(Gather { inputs: vec![input], moves, maps: Vec::new() }))
    } else {
        Op::Copy(input)
    };
    let reason = Reason::Layout(if item.transposed { &"transposed" } else { decided.reason });
    let place = item.tensor.pieces.first().map_or(SourcePlace::default(), |piece| SourcePlace {
        file: u32::try_from(piece.part).unwrap_or(u32::MAX),
        offset: piece.offset,
    });
    TensorPlan::new(item.named.name.as_str(), item.shape.clone(), decided.ty, reason, op).at(place)
}

/// The type of most weights.
fn main_type(plans: &[TensorPlan]) -> GgmlType {
    let mut n: BTreeMap<u32, u64> = BTreeMap::new();
    for plan in plans.iter().filter(|plan| plan.shape.len() > 1) {
        *n.entry(plan.ty.0).or_default() += plan.n_elements();
    }
    n.into_iter().max_by_key(|(_, n)| *n).map_or(GgmlType::F32, |(ty, _)| GgmlType(ty))
}

/// Approximate number of bytes of blocks to examine at a time.
const PIECE: u64 = 4 << 20;

/// Computes the loss of each tensor's scales that become f16.
///
/// # Errors
/// If a file cannot be read, scales are NaN or infinite, or the work is cancelled.
fn measure(
    file: &LegacyFile,
    arrangement: &Arrangement<'_>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<HashMap<usize, Rounding>, Error> {
    let wide = arrangement.tensors.iter().enumerate().filter(|(_, item)| item.tensor.encoding.is_measured());
    let wide: Vec<(usize, &Tensor)> = wide.map(|(index, item)| (index, item.tensor)).collect();
    if wide.is_empty() {
        return Ok(HashMap::new());
    }
    let row_bytes = |tensor: &Tensor, row_len: u64| {
        let (block_len, block_bytes) = tensor.encoding.block();
        row_len / block_len * block_bytes
    };
    let of_piece = |tensor: &Tensor| -> u64 {
        tensor.pieces.iter().map(|piece| piece.n_rows * row_bytes(tensor, piece.row_len)).sum()
    };
    let bytes = wide.iter().map(|(_, tensor)| of_piece(tensor)).fold(0, u64::saturating_add);
    progress.event(Event::Measuring { n_tensors: wide.len(), bytes });
    let chunks = wide.iter().flat_map(|&(index, tensor)| {
        tensor.pieces.iter().flat_map(move |piece| {
            let row_bytes = row_bytes(tensor, piece.row_len);
            let step = (PIECE / row_bytes.max(1)).max(1);
            let rows = (0..piece.n_rows.div_ceil(step)).map(move |i| (i * step, step.min(piece.n_rows - i * step)));
            rows.map(move |(row, n)| (index, tensor, piece, piece.offset + row * row_bytes, n * row_bytes, row_bytes))
        })
    });
    let found: Mutex<HashMap<usize, Rounding>> = Mutex::new(HashMap::new());
    workers::for_each(
        options.threads,
        chunks,
        progress,
        Vec::new,
        |raw, (index, tensor, piece, offset, bytes, row_bytes)| {
            let len = usize::try_from(bytes).unwrap_or(usize::MAX);
            if raw.capacity() < len && raw.try_reserve(len - raw.len()).is_err() {
                let tensor = tensor.name.clone();
                return Err(Error::Pipeline(gguf_pipeline::Error::OutOfMemory { tensor, bytes }));
            }
            raw.resize(len, 0);
            file.read(piece.part, offset, raw)?;
            let mut rounding = Rounding::default();
            match tensor.encoding {
                Encoding::Planar(ty) => {
                    let mut blocks = vec![0; memory_len(row_bytes)];
                    for row in raw.chunks_exact(memory_len(row_bytes)) {
                        blocks_of_planes(ty, row, &mut blocks);
                        rounding.add_blocks(tensor.encoding, &blocks);
                    }
                }
                encoding => rounding.add_blocks(encoding, raw),
            }
            if rounding.n_not_finite > 0 {
                return Err(Error::NotFinite { path: file.path().to_owned(), tensor: tensor.name.clone() });
            }
            found.lock().unwrap_or_else(PoisonError::into_inner).entry(index).or_default().add_all(rounding);
            progress.event(Event::Advanced { bytes });
            Ok(())
        },
    )?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}
