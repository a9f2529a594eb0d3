//! Sensitivities of tensors: how much a model loses per squared relative error of each tensor.
//!
//! A [`Scratch`] is a copy of a model in which one tensor at a time has the values that quantization leaves of it. A program that evaluates models
//! measures the divergence of each from the original. [`Sensitivities`] are the quotients of divergence and squared relative error, which
//! [`Budget`](crate::budget::Budget) uses in place of its [table](crate::budget::sensitivity).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gguf_format::GgmlType;
use gguf_io::{Model, Output};
use gguf_pipeline::plan::Draft;
use gguf_pipeline::{Error as Failure, GgufSource, MemorySink, OutputSink, Progress, RunOptions, Source as _};

use crate::error::Error;
use crate::imatrix::ImatrixFile;
use crate::mix::{MixOptions, Target};
use crate::plan::{QuantizeOptions, plan};
use crate::warning::Warning;

/// Upper limit of the quotient of divergence and squared relative error: far above those of measurements, and sums of many stay finite.
const MOST: f64 = 1e30;

/// Number of bytes that are copied at once.
const PIECE: usize = 1 << 22;

/// The quotient of divergence and squared relative error of each tensor, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sensitivities {
    of: BTreeMap<Vec<u8>, f64>,
}

impl Sensitivities {
    /// Adds a measurement: the mean divergence of a model in which only this tensor has this relative error. A measurement without an error or a
    /// divergence, or with a quotient above 1e30, says nothing and is left out.
    pub fn add(&mut self, tensor: impl Into<Vec<u8>>, divergence: f64, relative_error: f64) {
        let sensitivity = divergence / (relative_error * relative_error);
        if sensitivity > 0.0 && sensitivity <= MOST {
            self.of.insert(tensor.into(), sensitivity);
        }
    }

    /// The sensitivity of a tensor, if it was measured.
    pub fn get(&self, tensor: &[u8]) -> Option<f64> {
        self.of.get(tensor).copied()
    }

    /// The number of measured tensors.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether no tensor was measured.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The weights of tensors, given by name and the weight of the table: the measured one, or that of the table in the unit of the measured
    /// ones.
    pub(crate) fn weights(&self, tensors: &[(&[u8], f64)]) -> Vec<f64> {
        let (mut measured, mut table) = (0.0, 0.0);
        for (name, weight) in tensors {
            if let Some(sensitivity) = self.get(name) {
                measured += sensitivity;
                table += weight;
            }
        }
        let unit = if table > 0.0 { measured / table } else { 1.0 };
        tensors.iter().map(|(name, weight)| self.get(name).unwrap_or(weight * unit)).collect()
    }
}

/// A tensor that can be quantized.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trial {
    /// The name.
    pub name: Vec<u8>,
    /// The type in the model.
    pub from: GgmlType,
    /// The type that is tried.
    pub ty: GgmlType,
    /// Bytes in the model.
    pub n_bytes: u64,
    /// The tensor as it is planned.
    planned: usize,
    /// The offset of its data in the scratch copy.
    at: u64,
}

/// A copy of a model in one file, of which one tensor at a time has the values that quantization leaves of it. The file is changed in place, so
/// processes that have mapped it see the changes.
#[derive(Debug)]
pub struct Scratch {
    draft: Draft,
    trials: Vec<Trial>,
    warnings: Vec<Warning>,
    file: Output,
}

impl Scratch {
    /// Copies the model to a file, which never gets its name. Tensors that a file type would not change are not tried.
    ///
    /// # Errors
    /// If tensors are quantized already, the matrix does not match or is missing, no tensor would change, or the file cannot be written.
    pub fn new(
        model: Model,
        matrix: Option<Arc<ImatrixFile>>,
        target: Target,
        file: Output,
        progress: &dyn Progress,
    ) -> Result<Scratch, Error> {
        let copy = Draft::copy_of(model)?;
        let options = QuantizeOptions { mix: MixOptions { pure: true, ..MixOptions::default() }, ..<_>::default() };
        let planned = plan(copy.clone(), matrix, &options, &target)?;
        let (draft, warnings) = (planned.plan.into_draft(), planned.warnings);
        let copy = copy.lay_out()?;
        copy.run_to(&mut OutputSink::new(&file), &RunOptions::default(), progress)?;
        let mut trials = Vec::new();
        for (planned, tensor) in draft.tensors.iter().enumerate().filter(|(_, t)| t.ty != t.from) {
            let found = copy.tensors().iter().position(|t| t.name == tensor.name);
            let Some(at) = found.and_then(|index| copy.files().first()?.start_of(index)) else { continue };
            let (name, n_bytes) = (tensor.name.to_vec(), tensor.from_bytes());
            trials.push(Trial { name, from: tensor.from, ty: tensor.ty, n_bytes, planned, at });
        }
        Ok(Scratch { draft, trials, warnings, file })
    }

    /// The tensors to try.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Warnings about the file type and the matrix.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Quantizes a tensor and writes the decoded values into the copy. Returns the relative error, weighted by the matrix if the tensor has an entry. The
    /// tensor is in memory meanwhile.
    ///
    /// # Errors
    /// If the tensor has values that the type cannot represent, the work is cancelled, or the copy cannot be written.
    pub fn degrade(&mut self, trial: &Trial, progress: &dyn Progress) -> Result<f64, Error> {
        let Some(tensor) = self.draft.tensors.get(trial.planned) else { return Ok(0.0) };
        let mut one = self.draft.clone();
        one.tensors = vec![tensor.clone()];
        let mut sink = MemorySink::new();
        let options = RunOptions::default().measure(true);
        let summary = one.lay_out()?.run_to(&mut sink, &options, progress)?;
        let bytes = sink.into_outputs().pop().unwrap_or_default();
        let quantized = Model::from_source(bytes, self.path());
        let mut decoded = Draft::copy_of(quantized.map_err(Failure::from)?)?;
        for tensor in &mut decoded.tensors {
            tensor.ty = trial.from;
        }
        let mut sink = MemorySink::new();
        decoded.lay_out()?.run_to(&mut sink, &RunOptions::default(), progress)?;
        let bytes = sink.into_outputs().pop().unwrap_or_default();
        let data = GgufSource::open(Model::from_source(bytes, self.path()).map_err(Failure::from)?)?;
        self.write(trial, |offset, piece| data.read(0, offset, piece))?;
        let error = summary.report.and_then(|report| report.tensors.into_iter().next()).map(|tensor| tensor.error);
        Ok(error.map_or(0.0, |error| error.weighted().unwrap_or_else(|| error.figures()).relative))
    }

    /// Writes the original values of a tensor into the copy.
    ///
    /// # Errors
    /// If the model cannot be read, or the copy cannot be written.
    pub fn restore(&mut self, trial: &Trial) -> Result<(), Error> {
        let input = self.draft.tensors.get(trial.planned).and_then(|tensor| tensor.op.copied());
        let Some(index) = input.map(gguf_pipeline::plan::Input::index) else { return Ok(()) };
        let source = Arc::clone(&self.draft.source);
        self.write(trial, |offset, piece| source.read(index, offset, piece))
    }

    /// Writes the data of a tensor, piece after piece.
    fn write(&mut self, trial: &Trial, read: impl Fn(u64, &mut [u8]) -> Result<(), Failure>) -> Result<(), Error> {
        let mut done = 0;
        while done < trial.n_bytes {
            let n = usize::try_from(trial.n_bytes - done).unwrap_or(PIECE).min(PIECE);
            let mut piece = vec![0; n];
            read(done, &mut piece)?;
            self.file.write_at(trial.at.saturating_add(done), &piece).map_err(Failure::from)?;
            done += n as u64;
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.file.path().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_that_were_not_measured_have_weights_in_the_same_unit() {
        let mut found = Sensitivities::default();
        found.add("a", 0.5, 0.1);
        found.add("b", 0.25, 0.1);
        // Neither a tensor without an effect nor one without an error says anything.
        found.add("c", 0.0, 0.1);
        found.add("d", 0.1, 0.0);
        found.add("f", f64::MAX, 1.0);
        found.add("g", 1.0, 1e-150);
        found.add("h", f64::NAN, 1.0);
        assert_eq!(found.len(), 2);
        let weights = found.weights(&[(b"a", 1.0), (b"b", 0.5), (b"c", 0.1), (b"e", 1.0)]);
        for (weight, expected) in weights.iter().zip([50.0, 25.0, 5.0, 50.0]) {
            assert!((weight - expected).abs() < 1e-9, "{weights:?}");
        }
        // Without any measurement, the table is used as it is.
        assert_eq!(Sensitivities::default().weights(&[(b"a", 0.3)]), [0.3]);
    }
}
