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
    /// `convnext.N`: the ConvNeXt blocks of WavTokenizer.
    ConvNext,
    /// `v.blk.N`: an image encoder.
    Vision,
    /// `v.deepstack.N`: the outputs of an image encoder after intermediate blocks.
    DeepStack,
    /// `a.blk.N`: an audio encoder.
    Audio,
}

impl Stack {
    /// Every run of a language model.
    pub const ALL: [Stack; 4] = [Stack::Only, Stack::Encoder, Stack::Decoder, Stack::ConvNext];

    /// The prefix before the number of a block.
    pub const fn prefix(self) -> &'static str {
        match self {
            Stack::Only => "blk.",
            Stack::Encoder => "enc.blk.",
            Stack::Decoder => "dec.blk.",
            Stack::ConvNext => "convnext.",
            Stack::Vision => "v.blk.",
            Stack::DeepStack => "v.deepstack.",
            Stack::Audio => "a.blk.",
        }
    }
}
