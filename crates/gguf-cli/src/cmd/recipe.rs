//! `gguf recipe`: the types of a model as a few rules, and another model by the same rules.

use std::io::Write;
use std::path::PathBuf;

use gguf_format::keys::{self, FileType};
use gguf_format::{Str, TensorInfo};
use gguf_io::Model;
use gguf_quantize::mix::recipe::{Recipe, RecipeError};
use gguf_quantize::mix::{ModelFacts, Target, TensorFacts, processing_order};
use serde::Serialize;

use super::quantize::{How, read_text};
use crate::failure::{Failure, Outcome, Verdict};
use crate::hints;
use crate::json;
use crate::ui::Ui;

/// Take the types of a model's tensors as a recipe, and quantize another model by it.
///
/// A recipe is a text to read and to edit: a file type, then rules for what differs from it, each a regular expression and a
/// type, of which the first that is found in a tensor's name counts. After a # comes a comment.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf recipe show good.gguf > good.recipe
  gguf recipe apply good.recipe other-f16.gguf other.gguf
  gguf recipe show good.gguf --rules > types.txt
  llama-quantize --tensor-type-file types.txt in.gguf out.gguf Q4_K_M")]
pub struct Args {
    /// What to do with recipes.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(ShowArgs),
    Apply(Box<ApplyArgs>),
}

/// Print the recipe of a model: a file type, and rules for the tensors that have another type than it gives them.
///
/// The file type is the one that the model names; when that is one of plain floats and there are other types, or when it names
/// none, it is the one that needs the fewest rules. Norms and others that are never quantized are in no recipe.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf recipe show good.gguf
  gguf recipe show good.gguf --rules > types.txt")]
struct ShowArgs {
    /// The model in GGUF; of a split one, any shard
    model: PathBuf,

    /// Rules alone, for every tensor: what `gguf quantize` and llama-quantize take as --tensor-type-file
    #[arg(long)]
    rules: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Quantize a model with the types of a recipe.
///
/// Tensors that are never quantized stay as they are. Where the rows of a tensor are not whole blocks of its type, another takes
/// its place, as in `gguf quantize`; that is said, as are rules that match no tensor.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf recipe apply good.recipe model-f16.gguf model.gguf
  gguf recipe apply good.recipe model-f16.gguf --dry-run      which tensor becomes what
  gguf recipe show good.gguf | gguf recipe apply - model-f16.gguf model.gguf --imatrix imatrix.gguf")]
struct ApplyArgs {
    /// The recipe; - for standard input
    recipe: PathBuf,

    /// The model in GGUF; of a split one, any shard
    input: PathBuf,

    /// The file to write
    #[arg(required_unless_present = "dry_run")]
    out: Option<PathBuf>,

    /// The file type, in place of the one that the recipe begins with
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
        let model = Model::open(&self.model)?;
        let mut tensors: Vec<TensorInfo> = model.tensors().map(|t| t.info().to_owned()).collect();
        tensors.sort_by(|a, b| processing_order(&a.name, &b.name));
        let facts: Vec<TensorFacts<'_>> =
            tensors.iter().map(|t| TensorFacts { name: Str(&t.name), shape: &t.shape, ty: t.ty }).collect();
        let gguf = model.gguf();
        let says = gguf.get(keys::GENERAL_FILE_TYPE).and_then(|v| v.get::<u32>().ok()).map(FileType);
        let of_model = ModelFacts::of(|key| gguf.get(key));
        let recipe = match self.rules {
            true => Recipe::of_rules(&of_model, &facts),
            false => Recipe::of(&of_model, &facts, says),
        };
        recipe.map_err(|e| Failure::Bad(format!("{}: {e}{}", self.model.display(), hints::for_recipe(&e))))
    }
}

impl ApplyArgs {
    fn run(&self, ui: &mut Ui) -> Outcome {
        let wrong = |e: &dyn std::fmt::Display| Failure::CouldNotRun(format!("{}: {e}", self.recipe.display()));
        let text = read_text(&self.recipe)?;
        let recipe = Recipe::parse(&text).map_err(|e| wrong(&format!("{e}{}", hints::for_recipe(&e))))?;
        let target = match (self.ty, recipe.file_type) {
            (Some(target), _) => target,
            (None, Some(ty)) => Target::FileType(ty),
            (None, None) => {
                return Err(wrong(
                    &"it does not begin with a file type; name one with --type, for tensors that no rule fits",
                ));
            }
        };
        match target {
            Target::Copy => return Err(wrong(&RecipeError::Copy)),
            Target::FileType(ty) if !recipe.goes_with(ty) => return Err(wrong(&RecipeError::Float(ty))),
            Target::FileType(_) => {}
        }
        self.how.run(ui, &self.input, self.out.as_deref(), target, Some((&self.recipe, recipe.rules)))
    }
}
