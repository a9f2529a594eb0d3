//! `gguf part`: makes parts of a plan.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use gguf_format::GgmlType;
use gguf_pipeline::fleet::{Made, Place, Worker};
use gguf_quantize::budget::measure_samples;
use serde::Serialize;

use super::fleet;
use super::quantize::budget;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::open;
use crate::ui::{Ui, duration, size};
use crate::watch::Watch;

/// Make parts of a plan that `gguf quantize` or `gguf convert` has written with --plan-only.
///
/// A part is a range of bytes of an output, or a share of the samples that --measure has planned. Any machine that reads the
/// source and writes the output can make it. A part that is done is not made again, and making a part twice, at once or after a
/// death, gives the same bytes. `gguf commit` completes the output when all parts are done.
///
/// The exit code is 0 if the parts are done, 75 if trying again may help (the network, a full disk), and 2 if it will not
/// (another version of the program, a changed source, an output that was aborted).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf part plan.json --index 7
  gguf part plan.json --index 0..16                        the parts 0 to 15
  gguf part plan.json --index \"$JOB_COMPLETION_INDEX\"      in a Kubernetes Job")]
pub struct Args {
    /// Plan, by path or URL
    plan: PathBuf,

    /// Number of the part, from 0; or I..J for the parts from I up to J, without J
    #[arg(long, value_name = "I", value_parser = indexes)]
    index: Range<usize>,

    /// Number of threads; by default, one per processor
    #[arg(short = 'j', long, value_name = "N", value_parser = crate::cmd::at_least_one::<NonZeroUsize>)]
    threads: Option<NonZeroUsize>,

    /// Print one JSON object with the parts
    #[arg(long)]
    json: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    quiet: bool,
}

fn indexes(text: &str) -> Result<Range<usize>, String> {
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| "expected a number or I..J".to_owned());
    match text.split_once("..") {
        None => number(text).map(|index| index..index + 1),
        Some((first, end)) => match (number(first)?, number(end)?) {
            (first, end) if first < end => Ok(first..end),
            _ => Err("expected I..J with I less than J".to_owned()),
        },
    }
}

#[derive(Serialize)]
struct Answer {
    parts: Vec<JsonPart>,
}

#[derive(Serialize)]
struct JsonPart {
    part: usize,
    bytes: u64,
    /// Whether this command has made it.
    made: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        fleet::settled(self.make(ui))
    }

    fn make(&self, ui: &mut Ui) -> Outcome {
        let plan = fleet::read(&self.plan)?;
        let places = fleet::places(&plan)?;
        let worker = plan.worker(Arc::new(fleet::open_source), fleet::importance(&plan)?);
        let mut parts = Vec::new();
        for index in self.index.clone() {
            let watch = Watch::new(self.quiet);
            let options = open::reading().threads(self.threads);
            let made = match plan.samples(index) {
                None => worker.make(index, &places, &options, &watch).map_err(Failure::from),
                Some(samples) => self.measure(&worker, index, samples, &places, &watch),
            };
            watch.clear();
            let made = made? == Made::Now;
            let bytes = plan.part(index).map_or(0, |part| part.range.end - part.range.start);
            if !self.quiet {
                let how = match made {
                    true if bytes > 0 => {
                        format!("{} in {}{}", size(bytes), duration(watch.elapsed()), watch.rate(bytes))
                    }
                    true => format!("measured in {}", duration(watch.elapsed())),
                    false => "done before".to_owned(),
                };
                ui.note(&format!("part {index} of {}: {how}", plan.n_parts()));
            }
            parts.push(JsonPart { part: index, bytes, made });
        }
        if self.json {
            json::print(ui, 3, &Answer { parts })?;
        }
        Ok(Verdict::Good)
    }

    /// Measures samples.
    fn measure(
        &self,
        worker: &Worker<'_>,
        index: usize,
        samples: Vec<(usize, Vec<GgmlType>)>,
        places: &[Box<dyn Place>],
        watch: &Watch,
    ) -> Result<Made, Failure> {
        if worker.is_done(index, places)? {
            return Ok(Made::Before);
        }
        let measured = measure_samples(worker.draft(), samples, self.threads, watch)?;
        Ok(worker.put_results(index, places, budget::results(&measured)?)?)
    }
}
