//! `gguf perplexity`: how well a model predicts a text.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use gguf_engine::base::BaseWriter;
use gguf_engine::{About, Engine as _, Perplexity, Windows, perplexity, perplexity_by};
use gguf_io::Output;
use gguf_pipeline::Progress as _;
use serde_json::json;

use super::evaluation::{
    Checked, Library, WindowArgs, estimate_json, expect_other, library_json, library_text, scored_text, text_of,
    windows_of,
};
use crate::failure::{Failure, Outcome, Verdict};
use crate::json;
use crate::ui::{Style, Ui};
use crate::watch::Watch;

/// Measure the perplexity of a model on a text.
///
/// The text is cut into windows, and the second half of each is scored, as by llama-perplexity: with the same library
/// the result is the same. The uncertainty is one standard error. `gguf engine` shows the library that is used.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf perplexity model.gguf text.txt
  gguf perplexity model.gguf text.txt --ctx 2048 --chunks 20
  gguf perplexity model.gguf text.txt --save-base base.kld    for gguf kld --base
  gguf perplexity model.gguf text.txt --json | jq .perplexity.value")]
pub struct Args {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// Text file; - for standard input
    text: PathBuf,

    #[command(flatten)]
    windows: WindowArgs,

    #[command(flatten)]
    library: Library,

    /// Also write the model's probabilities to this file, in the format of llama-perplexity --kl-divergence-base
    #[arg(long, alias = "kl-divergence-base", value_name = "FILE")]
    save_base: Option<PathBuf>,

    /// Overwrite an existing file of probabilities
    #[arg(short, long, requires = "save_base")]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print no progress
    #[arg(short, long)]
    quiet: bool,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        if let Some(out) = self.save_base.as_ref().filter(|out| !self.force && out.symlink_metadata().is_ok()) {
            return Err(Failure::exists(out));
        }
        if let Some(out) = &self.save_base {
            expect_other(out, &[&self.model, &self.text])?;
        }
        // Signals are noticed from now on.
        let watch = Watch::new(self.quiet);
        let checked = Checked::new(&self.model)?;
        let text = text_of(std::slice::from_ref(&self.text))?;
        let mut engine = self.library.start(&watch)?;
        let loaded = checked.load(&mut engine)?;
        let windows = windows_of(&mut engine, &loaded, &text, self.windows.options())?;
        let n = windows.len();
        let progress = |done: usize, so_far: &Perplexity| {
            watch.step(done, n, &format!("windows, perplexity {:.4}", so_far.value()));
            !watch.is_cancelled()
        };
        let result = match &self.save_base {
            None => perplexity(&mut engine, &windows, progress)?,
            Some(path) => {
                let output = Output::unnamed(path, self.force)?;
                let mut writer = BaseWriter::new(BufWriter::new(output.file()), &windows, loaded.n_vocab)?;
                let score = |window: usize, logits: &[f32]| writer.window(&windows, window, logits);
                let result = perplexity_by(&mut engine, &windows, score, progress)?;
                writer.finish().flush().map_err(gguf_engine::Error::from)?;
                output.commit()?;
                result
            }
        };
        watch.clear();
        self.print(ui, engine.about(), &windows, &result)?;
        Ok(Verdict::Good)
    }

    fn print(&self, ui: &mut Ui, about: &About, windows: &Windows, result: &Perplexity) -> std::io::Result<()> {
        let estimate = result.estimate();
        if self.json {
            let document = json!({
                "model": json::path(&self.model),
                "text": json::path(&self.text),
                "library": library_json(about),
                "n_ctx": windows.n_ctx(),
                "windows": windows.len(),
                "tokens": result.count,
                "perplexity": estimate_json(estimate),
                "base": self.save_base.as_deref().map(json::path),
            });
            return json::print(ui, 1, &document);
        }
        ui.title(&self.model)?;
        ui.field("  Text        ", Style::Dim, &scored_text(Some(&self.text), windows, result.count))?;
        ui.field("  Library     ", Style::Dim, &library_text(about))?;
        ui.field("  Perplexity  ", Style::Dim, &format!("{:.4} ± {:.5}", estimate.value, estimate.error))
    }
}
