//! The answers of the module are those of the toolkit.

mod answers;
