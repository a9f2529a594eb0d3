//! Test programs whose tests need something that not every machine has.
//!
//! Rust's own harness knows at compile time only what is ignored. Here a test whose need is not met is listed as ignored, with the
//! need beside its name. Under `CI=true` missing peers or data fail the test: what decides must not be skipped unseen.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::peers;

/// What a test needs.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// llama.cpp, in the folder that `GGUF_PEERS` names.
    Peers,
    /// The reference data, in the folder that `GGUF_SHARED` names.
    Shared,
    /// The right to mount a small file system.
    SmallDisk,
    /// The right to mount a file system of ext4 in a file, and the program that makes one.
    SmallExt4,
    /// PyTorch, in the Python of llama.cpp's folder: gigabytes, which the machine that decides can do without.
    Torch,
    /// Programs that load image models, as sources in a folder of llama.cpp's; see CONTRIBUTING.md.
    ImageLoaders,
    /// The packages that define formats of packed weights, in the folder that `GGUF_PACKAGES` names; see CONTRIBUTING.md.
    Packages,
    /// The right to mount, and `mkfs.btrfs`.
    SmallBtrfs,
    /// Somebody who asks for it with `--ignored`, for this reason.
    Asking(&'static str),
}

impl Need {
    /// What is missing, if anything is.
    fn missing(self) -> Option<&'static str> {
        let unset = |variable| peers::folder(variable).is_none();
        match self {
            Need::Peers => unset(peers::PEERS).then_some("needs GGUF_PEERS"),
            Need::Shared => unset(peers::SHARED).then_some("needs GGUF_SHARED"),
            Need::SmallDisk => (!crate::disk::is_possible()).then_some("needs the right to mount"),
            Need::Torch => (!peers::has_torch()).then_some("needs PyTorch in the Python of GGUF_PEERS"),
            Need::ImageLoaders => peers::image_loaders().is_none().then_some("needs image-loaders in GGUF_PEERS"),
            Need::Packages => peers::packages().is_none().then_some("needs GGUF_PACKAGES"),
            Need::SmallBtrfs => {
                (!crate::disk::is_btrfs_possible()).then_some("needs the right to mount, and mkfs.btrfs")
            }
            Need::SmallExt4 => (!crate::disk::is_ext4_possible()).then_some("needs the right to mount, and mkfs.ext4"),
            Need::Asking(reason) => Some(reason),
        }
    }

    /// Whether the machine that decides has it.
    fn is_required(self) -> bool {
        matches!(self, Need::Peers | Need::Shared)
    }
}

/// Tests that need the same: what, and each with its name.
pub type Group = (&'static [Need], &'static [(&'static str, fn())]);

/// Runs the tests that the command line asks for, as Rust's own harness does.
pub fn run(groups: &[Group]) -> ExitCode {
    let is_ci = std::env::var_os("CI").is_some_and(|v| !v.is_empty());
    let mut trials = Vec::new();
    for (needs, tests) in groups {
        let missing = needs.iter().find_map(|need| Some((need, need.missing()?)));
        trials.extend(tests.iter().map(|&(name, test)| match missing {
            Some((need, missing)) if is_ci && need.is_required() => {
                Trial::test(name, move || Err(Failed::from(missing)))
            }
            _ => {
                let run = move || {
                    test();
                    Ok(())
                };
                let kind = missing.map_or("", |(_, missing)| missing);
                Trial::test(name, run).with_kind(kind).with_ignored_flag(missing.is_some())
            }
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The `main` of a test program without Rust's own harness: lists of tests, each behind what they need.
///
/// A function that is in no list is unused, which the compiler says.
#[macro_export]
macro_rules! tests {
    ($([$($need:expr),*] $($name:ident),+;)+) => {
        /// Runs the tests.
        pub fn main() -> std::process::ExitCode {
            #[allow(unused_imports, reason = "some tests need nothing")]
            use $crate::harness::Need::*;
            $crate::harness::run(&[$((&[$($need),*], &[$((stringify!($name), $name)),+])),+])
        }
    };
}
