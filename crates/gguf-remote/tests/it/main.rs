//! Tests with a server on this machine.

mod faults;
mod hub;
mod reading;
mod server;
#[cfg(feature = "cloud")]
mod stores;
mod tls;
#[cfg(feature = "cloud")]
mod uploads;
