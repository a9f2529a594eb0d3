#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::indexing_slicing,
        clippy::print_stdout,
        clippy::too_many_lines,
        clippy::unwrap_used
    )
)]

#[cfg(feature = "http")]
mod ahead;
#[cfg(feature = "http")]
mod attempts;
#[cfg(feature = "http")]
mod budget;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod error;
#[cfg(feature = "http")]
mod file;
#[cfg(feature = "http")]
mod hub;
#[cfg(feature = "http")]
mod identity;
mod location;
#[cfg(feature = "http")]
mod open;
#[cfg(feature = "http")]
mod proxy;
#[cfg(feature = "http")]
mod ranged;
#[cfg(feature = "http")]
mod settings;
#[cfg(feature = "cloud")]
mod store;
#[cfg(feature = "http")]
mod sum;

#[cfg(feature = "http")]
pub use client::Client;
#[cfg(feature = "http")]
pub use error::{Error, Problem};
#[cfg(feature = "http")]
pub use file::HttpFile;
#[cfg(feature = "http")]
pub use hub::{Repo, RepoFile, RepoFolder};
pub use location::{Location, LocationError, RepoModel, Store, Url};
#[cfg(feature = "http")]
pub use open::Opener;
#[cfg(feature = "http")]
pub use proxy::Proxy;
#[cfg(feature = "http")]
pub use settings::{Event, Observer, Secret, Settings};
#[cfg(feature = "cloud")]
pub use store::{StoreFile, StoreFolder, StoreOptions, StorePlace, StoreSink};
