//! Why llama.cpp's verdict of a file is another than ours.

use super::{File, Observed};

/// A cause, and the files that it explains.
pub struct Cause {
    pub id: &'static str,
    pub text: &'static str,
    /// Whether the file has what this cause is about.
    explains: fn(&File) -> bool,
}

pub const CAUSES: &[Cause] = &[];

/// The cause of the difference between our outcome and llama.cpp's, if they differ.
pub fn cause(file: &File, observed: &Observed) -> Option<&'static Cause> {
    let path = file.path();
    let (ours, theirs) = (observed.outcome(&path, "ggufkit")?, observed.outcome(&path, "llama.cpp")?);
    if ours == theirs {
        return None;
    }
    CAUSES.iter().find(|cause| (cause.explains)(file))
}
