//! Outputs that a command has planned: the table of tensors, the summary, the JSON plan, and the run. Every command that changes types prints
//! them in this way.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use gguf_format::Str;
use gguf_pipeline::plan::{Plan, TensorPlan};
use gguf_pipeline::{Overflow, RunOptions, RunSummary};
use serde::Serialize;

use super::html;
use super::preflight::{self, JsonDisk};
use super::writing::{Hashing, tensors};
use crate::failure::{Outcome, Verdict};
use crate::hints;
use crate::json;
use crate::open;
use crate::text::shape;
use crate::ui::{Column, Style, Table, Ui, bits_per_weight, count, duration, grouped, size, wrap};
use crate::watch::Watch;

mod document;
mod report;

pub use document::{JsonPlan, JsonPlans};
pub use report::{JsonError, JsonReport, Shown, cosine, json_report, number, relative};

/// An output of a command.
pub struct Planned<'a> {
    pub plan: &'a Plan,
    /// What is written, such as `Q4_K_M` or `llama, BF16`: the first words of each summary.
    pub title: String,
    /// The tensors of the input that are not written, and the reasons.
    pub left_out: Vec<(&'a str, &'static str)>,
    /// Another column of the table: its title, and a text for each tensor.
    pub column: Option<(&'static str, Vec<String>)>,
    /// A page with the report of the run, and whether it may replace another file.
    pub html: Option<(&'a Path, bool)>,
}

/// How a run reports its outputs.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The content of standard output.
    pub shown: Shown,
    /// Print no progress and no summary.
    pub quiet: bool,
    /// How the outputs are hashed.
    pub hashing: Hashing,
}

impl<'a> Planned<'a> {
    /// An output without additional facts.
    pub fn new(plan: &'a Plan, title: impl Display) -> Planned<'a> {
        Planned { plan, title: title.to_string(), left_out: Vec::new(), column: None, html: None }
    }

    /// Prints the plan, as a table or as the `document` with the free space on the disks, and the errors that a run with `options` would end
    /// with: too little space, or an output that must not be written. `out` is the output path, if there is one.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn dry_run<D: Serialize>(
        &self,
        ui: &mut Ui,
        document: impl FnOnce(Vec<JsonDisk>) -> D,
        out: Option<&Path>,
        options: &RunOptions,
    ) -> Outcome {
        let outputs: Vec<(&Plan, &Path)> = out.iter().map(|out| (self.plan, *out)).collect();
        let rooms = preflight::disk_space(&outputs);
        let verdict = if ui.schema.is_some() {
            json::print(ui, 3, &document(rooms.iter().map(JsonDisk::from).collect()))?;
            preflight::check_disk_space(ui, &rooms)
        } else {
            self.print(ui)?;
            let verdict = preflight::print_disk_space(ui, &rooms)?;
            out.map_or(Ok(()), |out| ui.print_path(out))?;
            verdict
        };
        Ok(verdict.max(preflight::check_outputs(ui, &outputs, options)))
    }

    /// Prints the table and the summary.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&self, ui: &mut Ui) -> io::Result<()> {
        let mut columns = vec![
            Column::name("TENSOR").styled(Style::Cyan),
            Column::left("SHAPE"),
            Column::left("FROM").left_out(2),
            Column::left("TO"),
            Column::right("BYTES").left_out(3),
        ];
        columns.extend(self.column.iter().map(|(title, _)| Column::right(title)));
        columns.push(Column::text("REASON").styled(Style::Dim).left_out(1));
        let row = |ui: &Ui, i: usize| {
            let Some(tensor) = self.plan.tensors().get(i) else { return Vec::new() };
            let shape = shape(tensor.shape.iter().copied());
            let mut row = vec![Str(&tensor.name).to_string(), shape, from(tensor), tensor.ty.to_string()];
            row.push(ui.bytes(tensor.n_bytes()));
            row.extend(self.column.iter().map(|(_, texts)| texts.get(i).cloned().unwrap_or_default()));
            row.push(hints::reason(&tensor.reason));
            row
        };
        Table::new(columns).print_rows(ui, self.plan.tensors().len(), row)?;
        print_left_out(ui, &self.left_out)?;
        writeln!(ui.out)?;
        for line in wrap(&self.summary(), ui.width.unwrap_or(usize::MAX)) {
            writeln!(ui.out, "{line}")?;
        }
        Ok(())
    }

    /// `Q4_K_M: 29 tensors, 2.89 M weights`
    fn contents(&self) -> String {
        let tensors = tensors(self.plan.tensors().len() as u64);
        format!("{}: {tensors}, {} weights", self.title, count(self.plan.n_elements()))
    }

    fn summary(&self) -> String {
        let (contents, keys) = (self.contents(), grouped(self.plan.head().kvs.len() as u64));
        let (short, bytes) = (size(self.plan.file_bytes()), grouped(self.plan.file_bytes()));
        let bits = Sizes::of(self.plan).bits().map_or(String::new(), |bits| format!(", {bits}"));
        format!("{contents}, {keys} keys, {short} ({bytes} bytes){bits}")
    }

    /// Writes the output, then prints warnings, `notes` and a summary to standard error, and the answer to standard output.
    ///
    /// # Errors
    /// If the run fails, or if standard output cannot be written.
    pub fn write(&self, ui: &mut Ui, out: &Path, options: &RunOptions, answer: Answer, notes: &[String]) -> Outcome {
        let watch = Watch::new(answer.quiet);
        let result = open::run(self.plan, out, options, &watch);
        watch.clear();
        let RunSummary { paths, report, overflows, .. } = result?;
        warn_of_overflows(ui, self.plan, &self.title, &overflows);
        if !answer.quiet {
            watch.resume_note().iter().chain(notes).for_each(|note| ui.note(note));
            let (sizes, to) = (Sizes::of(self.plan), size(self.plan.file_bytes()));
            let sizes = match sizes.bits() {
                Some(bits) => format!(
                    "{} to {to} ({bits}) in {}{}",
                    size(self.plan.input_bytes()),
                    duration(watch.elapsed()),
                    watch.rate(sizes.from)
                ),
                None => format!("{to} in {}", duration(watch.elapsed())),
            };
            ui.note(&format!("{}, {sizes}", self.contents()));
        }
        let report = report.unwrap_or_default();
        if let Some((page, force)) = self.html {
            let files = Hashing::default().files(&paths)?;
            html::write(page, force, "gguf.quantize/1", &json_report(self.plan, &report, files))?;
        }
        answer.shown.print(ui, self.plan, &report, &paths, answer.hashing)?;
        Ok(Verdict::Good)
    }
}

/// The type of the first tensor that a tensor is made of: that of its blocks, also if the operation reads decoded values.
fn from(tensor: &TensorPlan) -> String {
    match tensor.op.inputs().first() {
        None => "computed".to_owned(),
        Some(_) if tensor.from.is_quantized() => tensor.from.to_string(),
        Some(input) => input.ty.to_string(),
    }
}

/// Prints the tensors that are not written, if any.
///
/// # Errors
/// If standard output cannot be written.
pub fn print_left_out(ui: &mut Ui, left_out: &[(&str, &'static str)]) -> io::Result<()> {
    if left_out.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([Column::name("LEFT OUT").styled(Style::Cyan), Column::text("REASON")]);
    for (name, reason) in left_out {
        table.row([Str(name.as_bytes()).to_string(), (*reason).to_owned()]);
    }
    writeln!(ui.out)?;
    table.print(ui, 0)
}

/// Prints a warning for each tensor of an output with values that its type cannot represent.
pub fn warn_of_overflows(ui: &mut Ui, plan: &Plan, title: &str, overflows: &[Overflow]) {
    for Overflow { tensor, values, .. } in overflows {
        let ty = plan.tensors().iter().find(|t| t.shown() == *tensor).map(|t| t.ty.to_string());
        ui.warning(&format!(
            "{title}: {tensor}: {} the range of {} and became infinite; bf16 and f32 keep the values",
            match values {
                1 => "1 value exceeds".to_owned(),
                n => format!("{} values exceed", grouped(*n)),
            },
            ty.as_deref().unwrap_or("the type"),
        ));
    }
}

/// Sums over the tensors of a plan.
pub struct Sizes {
    /// Bytes of the inputs.
    pub from: u64,
    /// Bytes of the outputs.
    pub to: u64,
    pub weights: u64,
}

impl Sizes {
    pub fn of(plan: &Plan) -> Sizes {
        let sum = |of: fn(&TensorPlan) -> u64| plan.tensors().iter().map(of).sum();
        Sizes { from: sum(TensorPlan::from_bytes), to: sum(TensorPlan::n_bytes), weights: plan.n_elements() }
    }

    /// `5.06 bits per weight`, if there are weights.
    fn bits(&self) -> Option<String> {
        (self.weights > 0).then(|| format!("{} bits per weight", bits_per_weight(self.bits_per_weight())))
    }

    /// The mean of all weights.
    pub fn bits_per_weight(&self) -> f64 {
        self.to as f64 * 8.0 / self.weights.max(1) as f64
    }
}
