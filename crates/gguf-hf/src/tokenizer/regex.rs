//! Regular expressions of tokenizers.

use fancy_regex::{Regex, RegexBuilder};

use super::StepProblem;

/// Compiles a pattern with the semantics of Oniguruma, the engine of the reference: `$` matches at the end of a line. The size of the program
/// and the search are bounded.
pub(crate) fn compile(pattern: &str) -> Result<Regex, StepProblem> {
    let mut builder = RegexBuilder::new(pattern);
    builder.oniguruma_mode(true).multi_line(true).backtrack_limit(1_000_000).delegate_size_limit(32 << 20);
    builder.build().map_err(|e| StepProblem::pattern(pattern, e))
}
