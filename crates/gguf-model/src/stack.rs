//! Runs of numbered blocks.

/// A run of numbered blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// `blk.N`
    Only,
    /// `enc.blk.N`
    Encoder,
    /// `dec.blk.N`
    Decoder,
}

impl Stack {
    /// Every run.
    pub const ALL: [Stack; 3] = [Stack::Only, Stack::Encoder, Stack::Decoder];

    /// What stands before the number of a block.
    pub const fn prefix(self) -> &'static str {
        match self {
            Stack::Only => "blk.",
            Stack::Encoder => "enc.blk.",
            Stack::Decoder => "dec.blk.",
        }
    }
}
