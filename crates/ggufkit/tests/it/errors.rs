//! `?` converts the errors of all modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ggufkit::{Error, edit, format, hf, io, legacy, model, pipeline, quantize, quants};

/// Names types, and requires that each is an error that `?` converts.
macro_rules! convertible {
    ($($crate_:literal: $($ty:ty),+;)*) => {{
        fn converts<E: Into<Error> + std::error::Error>() {}
        $($(converts::<$ty>();)+)*
        [$($(($crate_, stringify!($ty).rsplit("::").next().unwrap())),+),*]
    }};
}

/// Causes with a message of their own, which only the error that names their file contains.
const CAUSES: &[(&str, &[&str])] = &[(
    "gguf-hf",
    &[
        "AdapterProblem",
        "CardProblem",
        "DraftModelProblem",
        "ExportProblem",
        "FileProblem",
        "IndexProblem",
        "MessageProblem",
        "PickleError",
        "SentencePieceProblem",
        "StepProblem",
        "UnsupportedFeature",
    ],
)];

/// Adds the types of a folder's sources that implement the trait `Error`.
fn errors_in<'a>(crate_: &'a str, folder: &Path, found: &mut BTreeSet<(&'a str, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            errors_in(crate_, &path, found);
        } else {
            let source = fs::read_to_string(&path).unwrap();
            let implements = source.lines().filter(|line| line.starts_with("impl ") && line.contains("Error for "));
            found.extend(implements.filter_map(|line| {
                let (of, ty) = line.split_once("Error for ")?;
                let is_trait = ["impl core::error::", "impl std::error::", "impl Std"].contains(&of);
                is_trait.then(|| (crate_, ty.split([' ', '{']).next().unwrap().to_owned()))
            }));
        }
    }
}

#[test]
fn every_error_of_a_library_is_converted_or_the_cause_of_one() {
    let listed = convertible! {
        "gguf-format": format::Error, format::GetError, format::ValueError, format::LayoutError, format::SizeError, format::SwapError,
            format::UnknownTypeName, format::shard::NotAShardNumber, format::NotScannable, format::TooWide, format::AlignmentError,
            format::Problem;
        "gguf-quants": quants::CodecError, quants::RowsError, quants::UnknownIsa;
        "gguf-io": io::Error, io::WriteError, io::TensorProblem, io::ShardsProblem;
        "gguf-model": model::tokenizer::VocabError, model::tokenizer::EncoderError, model::formula::SyntaxError;
        "gguf-pipeline": pipeline::Error, pipeline::fleet::FleetError;
        "gguf-quantize": quantize::Error, quantize::imatrix::Error, quantize::PruneError, quantize::mix::MixError,
            quantize::mix::PatternError, quantize::mix::TensorTypeError, quantize::mix::UnknownName,
            quantize::mix::recipe::RecipeError;
        "gguf-hf": hf::Error, hf::FolderError, hf::config::Error, hf::PlanError, hf::safetensors::HeaderError,
            hf::torch::TorchError, hf::lora::LoraError;
        "gguf-legacy": legacy::Error, legacy::Malformed;
        "gguf-edit": edit::Error, edit::EditError;
    };
    let mut known: BTreeSet<(&str, String)> = listed.into_iter().map(|(of, ty)| (of, ty.to_owned())).collect();
    known.extend(CAUSES.iter().flat_map(|(of, types)| types.iter().map(move |ty| (*of, (*ty).to_owned()))));
    // Feature `bytemuck`.
    known.insert(("gguf-format", "CastError".to_owned()));

    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for of in ["format", "quants", "io", "model", "pipeline", "quantize", "hf", "legacy", "edit"] {
        let name: &'static str = Box::leak(format!("gguf-{of}").into_boxed_str());
        errors_in(name, &crates.join(name).join("src"), &mut found);
    }
    assert_eq!(found, known, "add a new error to ggufkit::Error, and here");
}
