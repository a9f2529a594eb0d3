//! What a model is quantized to: a file type, or a recipe with a name.

use std::fmt;
use std::path::{Path, PathBuf};

use gguf_quantize::QuantizeOptions;
use gguf_quantize::mix::recipe::{Recipe, RecipeError};
use gguf_quantize::mix::{Target, TensorTypeRule};

use super::read_text;
use crate::failure::Failure;
use crate::hints;

/// The extension of recipe files.
const EXTENSION: &str = ".recipe";

/// A file type, or a recipe with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// The file type; of a recipe, that of the tensors without a rule.
    pub target: Target,
    recipe: Option<Named>,
}

#[derive(Debug, Clone, PartialEq)]
struct Named {
    name: String,
    rules: Vec<TensorTypeRule>,
    /// The recipe file.
    file: Option<PathBuf>,
}

impl From<Target> for Goal {
    fn from(target: Target) -> Goal {
        Goal { target, recipe: None }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.recipe {
            Some(recipe) => f.pad(&recipe.name),
            None => fmt::Display::fmt(&self.target, f),
        }
    }
}

impl Goal {
    /// Parses a file type, the name of a larger mixture such as `Q4_K_L`, or a recipe file: `NAME=FILE`, or `NAME.recipe` in any folder.
    ///
    /// # Errors
    /// If the name is unknown, or the recipe file cannot be read or is not a recipe.
    pub fn parse(text: &str) -> Result<Goal, Failure> {
        if let Some((name, file)) = named_file(text) {
            return Goal::read(name, Path::new(file));
        }
        if let Some((name, recipe)) = Recipe::larger(text) {
            let target = recipe.file_type.map_or(Target::Copy, Target::FileType);
            return Ok(Goal { target, recipe: Some(Named { name: name.to_owned(), rules: recipe.rules, file: None }) });
        }
        Ok(Target::parse(text).map_err(|_| Failure::CouldNotRun(Recipe::unknown(text).to_string()))?.into())
    }

    /// As [`parse`](Goal::parse), for the parser of the command line.
    ///
    /// # Errors
    /// The message, without help.
    pub fn parse_option(text: &str) -> Result<Goal, String> {
        Goal::parse(text).map_err(|e| e.to_string())
    }

    /// Whether a text is meant as a goal rather than as a path.
    pub fn is_one(text: &str) -> bool {
        named_file(text).is_some() || Recipe::larger(text).is_some() || Target::parse(text).is_ok()
    }

    fn read(name: &str, file: &Path) -> Result<Goal, Failure> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(is_plain) {
            let problem = format!("the name of the recipe is {name:?}; expected letters, digits, -, _, . or +");
            return Err(Failure::CouldNotRun(format!("{}: {problem}", file.display())));
        }
        if Target::parse(name).is_ok() || Recipe::larger(name).is_some() {
            let problem = format!("{name} is a file type; a recipe needs a name of its own, as in UD-{name}=FILE");
            return Err(Failure::CouldNotRun(format!("{}: {problem}", file.display())));
        }
        Goal::of_file(name, file, None)
    }

    /// The recipe of a file; `-` is standard input. `target` replaces its file type.
    ///
    /// # Errors
    /// If it cannot be read, is not a recipe, or has no file type.
    pub fn of_file(name: &str, file: &Path, target: Option<Target>) -> Result<Goal, Failure> {
        let wrong = |e: &dyn fmt::Display| Failure::CouldNotRun(format!("{}: {e}", file.display()));
        let recipe = Recipe::parse(&read_text(file)?).map_err(|e| wrong(&e).with_help(hints::for_recipe(&e)))?;
        let target = match target.or(recipe.file_type.map(Target::FileType)) {
            Some(Target::Copy) => return Err(wrong(&RecipeError::Copy)),
            Some(Target::FileType(ty)) if !recipe.goes_with(ty) => return Err(wrong(&RecipeError::Float(ty))),
            Some(target) => target,
            None => return Err(wrong(&"it does not start with a file type, for the tensors that match no rule")),
        };
        // Without rules, it is the file type.
        if recipe.rules.is_empty() {
            return Ok(target.into());
        }
        Ok(Goal {
            target,
            recipe: Some(Named { name: name.to_owned(), rules: recipe.rules, file: Some(file.to_owned()) }),
        })
    }

    /// Adds the rules of the recipe, over which those of the options take precedence, and its name.
    pub fn apply(&self, options: &mut QuantizeOptions) {
        if let Some(Named { name, rules, .. }) = &self.recipe {
            options.mix.tensor_types.extend(rules.iter().cloned());
            options.mixture = Some(name.clone());
        }
    }

    /// The recipe file. No output may replace it.
    pub fn file(&self) -> Option<PathBuf> {
        self.recipe.as_ref()?.file.clone()
    }
}

/// The name and the file in `NAME=FILE` or `FOLDER/NAME.recipe`.
fn named_file(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').or_else(|| {
        let name = text.strip_suffix(EXTENSION)?;
        Some((name.rsplit(std::path::is_separator).next().unwrap_or(name), text))
    })
}
