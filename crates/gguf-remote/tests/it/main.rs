//! Tests with a server on this machine.

mod faults;
mod hub;
mod reading;
mod server;
#[cfg(feature = "cloud")]
mod stores;
#[cfg(feature = "cloud")]
mod uploads;
