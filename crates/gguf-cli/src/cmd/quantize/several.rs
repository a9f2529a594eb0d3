//! Several outputs from one read of the input.

use std::io::Write;
use std::path::{Path, PathBuf};

use gguf_pipeline::RunOptions;
use gguf_pipeline::plan::Plan;
use gguf_pipeline::report::Report;
use serde::Serialize;

use crate::cmd::planned::{
    Answer, JsonPlan, JsonPlans, JsonReport, Planned, Shown, Sizes, json_report, warn_of_overflows,
};
use crate::cmd::preflight::{self, Checked, JsonDisk};
use crate::cmd::writing::{print_written, tensors};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Column, Style, Table, Ui, bits_per_weight, duration, grouped, shown_path, size};
use crate::watch::Watch;

/// An output: its target as shown in the summary, its plan and its path.
pub struct Written {
    pub target: String,
    pub plan: Plan,
    pub out: PathBuf,
    /// Additional results of a conversion.
    pub checked: Option<Checked>,
}

/// The reports of several outputs.
#[derive(Serialize)]
struct JsonReports<'a> {
    reports: Vec<JsonReportOf<'a>>,
}

#[derive(Serialize)]
struct JsonReportOf<'a> {
    file_type: &'a str,
    #[serde(flatten)]
    report: JsonReport<'a>,
}

impl Written {
    /// The plan, for JSON.
    fn document(&self) -> JsonPlan<'_> {
        JsonPlan::of(&self.plan, &self.target).checked(self.checked.clone())
    }
}

/// Prints the plan of each output, and a list of all outputs with their sizes. `options` are those of the run.
pub fn plan_all(ui: &mut Ui, outputs: &[Written], options: &RunOptions) -> Outcome {
    // A dry run may have no output path.
    let is_named = outputs.iter().all(|output| !output.out.as_os_str().is_empty());
    let named: Vec<(&Plan, &Path)> = match is_named {
        true => outputs.iter().map(|output| (&output.plan, output.out.as_path())).collect(),
        false => Vec::new(),
    };
    let disks = preflight::disk_space(&named);
    if ui.schema.is_some() {
        let plans = outputs.iter().map(Written::document).collect();
        json::print(ui, 4, &JsonPlans { plans, disks: disks.iter().map(JsonDisk::from).collect() })?;
        return Ok(preflight::check_disk_space(ui, &disks).max(preflight::check_outputs(ui, &named, options)));
    }
    let mut columns = vec![
        Column::left("FILE TYPE").styled(Style::Cyan),
        Column::right("BITS/WEIGHT").left_out(1),
        Column::right("BYTES"),
    ];
    columns.extend(is_named.then(|| Column::whole("FILE")));
    let mut table = Table::new(columns);
    for Written { target, plan, out, .. } in outputs {
        Planned::new(plan, target).print(ui)?;
        writeln!(ui.out)?;
        let bits = bits_per_weight(Sizes::of(plan).bits_per_weight());
        if !is_named {
            table.row([target.clone(), bits, ui.bytes(plan.file_bytes())]);
            continue;
        }
        for (i, (file, path)) in plan.files().iter().zip(plan.output_paths(out)).enumerate() {
            let bytes = ui.bytes(file.file_bytes());
            let [target, bits] = if i == 0 { [target.clone(), bits.clone()] } else { [String::new(), String::new()] };
            table.row([target, bits, bytes, shown_path(&path)]);
        }
    }
    table.print(ui, 0)?;
    Ok(preflight::print_disk_space(ui, &disks)?.max(preflight::check_outputs(ui, &named, options)))
}

/// Writes several outputs from one read, and prints a summary.
pub fn write_all(ui: &mut Ui, outputs: &[Written], options: &RunOptions, answer: Answer) -> Outcome {
    let Answer { shown, quiet, hashing } = answer;
    let plans: Vec<(&Plan, &Path)> = outputs.iter().map(|o| (&o.plan, o.out.as_path())).collect();
    let watch = Watch::new(quiet);
    let result = open::run_all(&plans, options, &watch);
    watch.clear();
    let summaries = result?;
    for (output, summary) in outputs.iter().zip(&summaries) {
        warn_of_overflows(ui, &output.plan, &output.target, &summary.overflows);
    }
    if !quiet {
        if let Some(kept) = watch.resume_note() {
            ui.note(&kept);
        }
        for Written { target, plan, .. } in outputs {
            let bits = bits_per_weight(Sizes::of(plan).bits_per_weight());
            ui.note(&format!("{target}: {} ({bits} bits per weight)", size(plan.file_bytes())));
        }
        if let Some(first) = outputs.first() {
            let n_files = summaries.iter().map(|s| s.paths.len() as u64).sum();
            let bytes = outputs.iter().map(|o| o.plan.file_bytes()).sum();
            ui.note(&format!(
                "{} files: {}, {} to {} in {}{}",
                grouped(n_files),
                tensors(first.plan.tensors().len() as u64),
                size(first.plan.input_bytes()),
                size(bytes),
                duration(watch.elapsed()),
                watch.rate(bytes),
            ));
        }
    }
    match shown {
        Shown::Path => {
            let paths: Vec<PathBuf> = summaries.into_iter().flat_map(|summary| summary.paths).collect();
            print_written(ui, &paths, hashing)?;
            return Ok(Verdict::Good);
        }
        Shown::Json => {
            let mut reports = Vec::new();
            let none = Report::default();
            for (output, summary) in outputs.iter().zip(&summaries) {
                let files = hashing.files(&summary.paths)?;
                let report = json_report(&output.plan, summary.report.as_ref().unwrap_or(&none), files);
                reports.push(JsonReportOf { file_type: &output.target, report });
            }
            json::print(ui, 4, &JsonReports { reports })?;
            return Ok(Verdict::Good);
        }
        Shown::Report => {}
    }
    for (i, (output, summary)) in outputs.iter().zip(summaries).enumerate() {
        if i > 0 {
            writeln!(ui.out)?;
        }
        writeln!(ui.out, "{}", output.target)?;
        shown.print(ui, &output.plan, &summary.report.unwrap_or_default(), &summary.paths, hashing)?;
    }
    Ok(Verdict::Good)
}

/// Prints each warning that is not in `printed`, and adds it.
pub fn warn_once(ui: &mut Ui, printed: &mut Vec<String>, warnings: impl Iterator<Item = String>) {
    for warning in warnings {
        if !printed.contains(&warning) {
            ui.warning(&warning);
            printed.push(warning);
        }
    }
}

/// Checks that no file type is given twice.
///
/// # Errors
/// If a type is duplicated.
pub fn each_once<T: PartialEq + std::fmt::Display>(types: Vec<T>) -> Result<Vec<T>, Failure> {
    for (i, ty) in types.iter().enumerate() {
        if types.iter().take(i).any(|other| other == ty) {
            return Err(Failure::CouldNotRun(format!("duplicate file type {ty}")));
        }
    }
    Ok(types)
}
