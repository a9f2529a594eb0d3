//! Test programs with tests that have special requirements.
//!
//! Rust's own harness only supports ignoring tests at compile time. Here, a test with a missing requirement is listed as ignored, with the
//! requirement. With `CI=true`, missing peers or data fail the test, so that it is never skipped unnoticed.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::peers;

/// A requirement of a test.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// llama.cpp, in the directory `GGUF_PEERS`.
    Peers,
    /// The reference data, in the directory `GGUF_SHARED`.
    Shared,
    /// Servers of object stores, in the folder `GGUF_STORES` that `.ci/servers` fills.
    Stores,
    /// The permission to mount a small file system.
    SmallDisk,
    /// The permission to mount a file system of ext4 in a file, and `mkfs.ext4`.
    SmallExt4,
    /// PyTorch, in the Python of llama.cpp's directory: gigabytes, so optional on the CI machine.
    Torch,
    /// Sources of programs that load image models, in llama.cpp's directory; see CONTRIBUTING.md.
    ImageLoaders,
    /// The packages that define formats of packed weights, in the folder that `GGUF_PACKAGES` names; see CONTRIBUTING.md.
    Packages,
    /// The permission to mount, and `mkfs.btrfs`.
    SmallBtrfs,
    /// The permission to mount, and `mkfs.xfs`.
    SmallXfs,
    /// `strace`, and the right to trace.
    Strace,
    /// An explicit request with `--ignored`, for this reason.
    Asking(&'static str),
}

impl Need {
    /// The missing requirement, if any.
    fn missing(self) -> Option<&'static str> {
        let unset = |variable| peers::folder(variable).is_none();
        match self {
            Need::Peers => unset(peers::PEERS).then_some("needs GGUF_PEERS"),
            Need::Shared => unset(peers::SHARED).then_some("needs GGUF_SHARED"),
            Need::Stores => peers::stores().is_none().then_some("needs GGUF_STORES"),
            Need::SmallDisk => (!crate::disk::is_possible()).then_some("needs the right to mount"),
            Need::Torch => (!peers::has_torch()).then_some("needs PyTorch in the Python of GGUF_PEERS"),
            Need::ImageLoaders => peers::image_loaders().is_none().then_some("needs image-loaders in GGUF_PEERS"),
            Need::Packages => peers::packages().is_none().then_some("needs GGUF_PACKAGES"),
            Need::SmallBtrfs => {
                (!crate::disk::is_btrfs_possible()).then_some("needs the right to mount, and mkfs.btrfs")
            }
            Need::SmallXfs => (!crate::disk::is_xfs_possible()).then_some("needs the right to mount, and mkfs.xfs"),
            Need::SmallExt4 => (!crate::disk::is_ext4_possible()).then_some("needs the right to mount, and mkfs.ext4"),
            Need::Strace => (!crate::disk::can_trace()).then_some("needs strace, and the right to trace"),
            Need::Asking(reason) => Some(reason),
        }
    }

    /// Whether the CI machine must meet it.
    fn is_required(self) -> bool {
        matches!(self, Need::Peers | Need::Shared | Need::Stores)
    }
}

/// Tests with the same requirements: the requirements, and each test with its name.
pub type Group = (&'static [Need], &'static [(&'static str, fn())]);

/// Runs the tests selected on the command line, like Rust's own harness: the tests of each module, by the name of the module.
pub fn run(modules: &[(&str, &[Group])]) -> ExitCode {
    let is_ci = std::env::var_os("CI").is_some_and(|v| !v.is_empty());
    let mut trials = Vec::new();
    let groups = modules.iter().flat_map(|(module, groups)| groups.iter().map(move |group| (module, group)));
    for (module, (needs, tests)) in groups {
        let missing = needs.iter().find_map(|need| Some((need, need.missing()?)));
        let tests = tests.iter().map(|&(name, test)| (format!("{module}::{name}"), test));
        trials.extend(tests.map(|(name, test)| match missing {
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

/// The tests of a module, as its constant `TESTS`: lists of tests, each with its requirements.
///
/// The compiler warns about a function that is in no list, because it is unused.
#[macro_export]
macro_rules! tests {
    ($([$($need:expr),*] $($name:ident),+;)+) => {
        /// The tests of this module.
        pub const TESTS: &[$crate::harness::Group] = {
            #[allow(unused_imports, reason = "some tests have no requirements")]
            use $crate::harness::Need::*;
            &[$((&[$($need),*], &[$((stringify!($name), $name)),+])),+]
        };
    };
}

/// The `main` of a test program without Rust's own harness: the modules with its tests.
///
/// The compiler warns about a module that is not in the list, because its tests are unused.
#[macro_export]
macro_rules! main {
    ($($module:ident),+) => {
        fn main() -> std::process::ExitCode {
            $crate::harness::run(&[$((stringify!($module), $module::TESTS)),+])
        }
    };
}
