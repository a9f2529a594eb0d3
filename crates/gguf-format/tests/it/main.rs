//! The plain tests of this crate: one program, because linking takes longer than compiling most of them.

mod check;
mod corpus;
mod features;
mod hostile;
mod layout;
mod likely;
mod lossless;
mod sort;
mod values;
