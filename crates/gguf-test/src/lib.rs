//! Shared test support of the workspace. Not published; other crates use it only as a development dependency.
#![allow(missing_docs, reason = "the names of tests describe them")]

#[cfg(all(feature = "capi", unix))]
pub mod capi;
pub mod cases;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod corpus;
pub mod counting;
#[cfg(feature = "data")]
pub mod data;
pub mod http;
pub mod legacy;
pub mod parallel;
pub mod peers;
pub mod random;

#[cfg(feature = "files")]
pub mod checkpoint;
#[cfg(feature = "files")]
pub mod files;
#[cfg(feature = "files")]
pub mod hostile;
#[cfg(feature = "files")]
pub mod program;
#[cfg(feature = "files")]
pub mod recipe;
#[cfg(feature = "files")]
pub mod tensor_files;
#[cfg(feature = "files")]
pub mod torch;

#[cfg(feature = "harness")]
pub mod disk;
#[cfg(feature = "harness")]
pub mod harness;
