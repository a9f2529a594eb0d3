//! `gguf recipe`: saves the tensor types of a model as rules, and applies them to another model.

use std::io::Write;
use std::path::PathBuf;

use gguf_format::keys::{self, FileType};
use gguf_format::sort::CompactSort as _;
use gguf_format::{Str, TensorInfo};
use gguf_quantize::mix::recipe::Recipe;
use gguf_quantize::mix::{ModelFacts, Target, TensorFacts, processing_order};
use serde::Serialize;

use super::quantize::{Goal, How};
use super::writing::OutOption;
use crate::failure::{Failure, Outcome, Verdict};
use crate::hints;
use crate::json;
use crate::open;
use crate::stdin::is_stdin;
use crate::ui::Ui;

/// Save the tensor types of a model as a recipe, and apply it to another model.
///
/// A recipe is an editable text: a file type, followed by rules for tensors that deviate from it. Each rule is a
/// regular expression and a type; the first match takes precedence. # starts a comment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf recipe show good.gguf > good.recipe
  gguf recipe apply good.recipe other-f16.gguf other.gguf
  gguf recipe show good.gguf --rules > types.txt
  llama-quantize --tensor-type-file types.txt in.gguf out.gguf Q4_K_M")]
pub struct Args {
    /// Recipe command.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(ShowArgs),
    Apply(Box<ApplyArgs>),
}

/// Print the recipe of a model.
///
/// The file type is the one recorded in the model. If none is recorded, or if it is a float type and other types are
/// present, the file type that needs the fewest rules is used. Tensors that are never quantized, such as norms, are
/// omitted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf recipe show good.gguf
  gguf recipe show good.gguf --rules > types.txt")]
struct ShowArgs {
    /// GGUF model; any shard of a split model
    model: PathBuf,

    /// Print one rule per tensor and no file type, for --tensor-type-file of `gguf quantize` and llama-quantize
    #[arg(long)]
    rules: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Quantize a model with the tensor types of a recipe.
///
/// Tensors that are never quantized stay unchanged. If the row length of a tensor is not a multiple of the block size,
/// a fallback type is used and reported, as in `gguf quantize`. Rules that match no tensor are reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf recipe apply good.recipe model-f16.gguf model.gguf
  gguf recipe apply good.recipe model-f16.gguf --dry-run      print the type of each tensor
  gguf recipe show good.gguf | gguf recipe apply - model-f16.gguf model.gguf --imatrix imatrix.gguf")]
struct ApplyArgs {
    /// Recipe file; - for standard input
    recipe: PathBuf,

    /// GGUF model; any shard of a split model
    input: PathBuf,

    /// Output file; or use --output
    #[arg(required_unless_present_any = ["dry_run", "output"])]
    out: Option<PathBuf>,

    #[command(flatten)]
    option: OutOption,

    /// File type; overrides the one in the recipe
    #[arg(long = "type", value_name = "TYPE", value_parser = Target::parse)]
    ty: Option<Target>,

    #[command(flatten)]
    how: How,
}

#[derive(Serialize)]
struct JsonRecipe {
    file_type: Option<String>,
    rules: Vec<JsonRule>,
}

#[derive(Serialize)]
struct JsonRule {
    pattern: String,
    r#type: String,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        match &self.command {
            Command::Show(args) => args.run(ui),
            Command::Apply(args) => args.run(ui),
        }
    }
}

impl ShowArgs {
    fn run(&self, ui: &mut Ui) -> Outcome {
        let recipe = self.recipe()?;
        if self.json {
            let rule = |r: &gguf_quantize::mix::TensorTypeRule| JsonRule {
                pattern: r.pattern.to_string(),
                r#type: r.ty.to_string(),
            };
            let document = JsonRecipe {
                file_type: recipe.file_type.map(|ty| ty.to_string()),
                rules: recipe.rules.iter().map(rule).collect(),
            };
            json::print(ui, 2, &document)?;
        } else {
            write!(ui.out, "{recipe}")?;
        }
        Ok(Verdict::Good)
    }

    fn recipe(&self) -> Result<Recipe, Failure> {
        let model = open::model(&self.model)?;
        let mut tensors: Vec<TensorInfo> = model.tensors().map(|t| t.info().to_owned()).collect();
        let architecture = model.gguf().get(keys::GENERAL_ARCHITECTURE).and_then(|name| name.get::<&str>().ok());
        if !architecture.is_some_and(keys::is_image_architecture) {
            tensors.compact_sort_by(|a, b| processing_order(&a.name, &b.name));
        }
        let facts: Vec<TensorFacts<'_>> =
            tensors.iter().map(|t| TensorFacts { name: Str(&t.name), shape: &t.shape, ty: t.ty }).collect();
        let gguf = model.gguf();
        let says = gguf.get(keys::GENERAL_FILE_TYPE).and_then(|v| v.get::<u32>().ok()).map(FileType);
        let of_model = ModelFacts::of(|key| gguf.get(key));
        let recipe = match self.rules {
            true => Recipe::of_rules(&of_model, &facts),
            false => Recipe::of(&of_model, &facts, says),
        };
        recipe.map_err(|e| Failure::Bad(format!("{}: {e}", self.model.display())).with_help(hints::for_recipe(&e)))
    }
}

impl ApplyArgs {
    fn run(&self, ui: &mut Ui) -> Outcome {
        let name = self.recipe.file_stem().map(|name| name.to_string_lossy()).filter(|_| !is_stdin(&self.recipe));
        let goal = Goal::of_file(name.as_deref().unwrap_or("mixed"), &self.recipe, self.ty)?;
        self.how.run(ui, &self.input, self.option.or(self.out.as_deref())?, &goal)
    }
}
