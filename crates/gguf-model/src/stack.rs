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
    /// `v.sam.blk.N`: a SAM encoder in front of an image encoder.
    Sam,
    /// `v.proj_blk.N`: projectors of an image encoder.
    ImageProjector,
    /// `a.proj_blk.N`: the blocks of a projector of an audio encoder.
    AudioProjector,
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
            Stack::Sam => "v.sam.blk.",
            Stack::ImageProjector => "v.proj_blk.",
            Stack::AudioProjector => "a.proj_blk.",
        }
    }

    /// The position of its prefix in a checkpoint (`Checkpoint::layers`): 0, or 1 for this and all further positions.
    pub const fn place(self) -> usize {
        match self {
            Stack::Only | Stack::Encoder | Stack::ConvNext | Stack::Vision | Stack::Audio => 0,
            Stack::Decoder | Stack::DeepStack | Stack::Sam | Stack::ImageProjector | Stack::AudioProjector => 1,
        }
    }
}
