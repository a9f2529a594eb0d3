//! x
use crate::failure::*; use crate::ui::Ui;
/// Check
#[derive(Debug, clap::Args)]
pub struct Args {}
impl Args { pub fn run(&self, _ui: &mut Ui) -> Outcome { Ok(Verdict::Good) } }
