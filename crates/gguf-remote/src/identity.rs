//! What must be the same in all responses for a file.

use std::time::SystemTime;

use crate::error::Problem;

/// The largest length of a file that is believed: 1 EB.
const LONGEST: u64 = 1_000_000_000_000_000_000;

/// What the responses for a file say about it.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) length: u64,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

impl Identity {
    /// Checks the first response against the length that a listing says.
    pub(crate) fn check_stated(&self, stated: Option<u64>) -> Result<(), Problem> {
        if self.length > LONGEST {
            return Err(Problem::Length { found: format!("{} bytes", self.length) });
        }
        match stated.filter(|stated| *stated != self.length) {
            Some(stated) => Err(changed_length(stated, self.length)),
            None => Ok(()),
        }
    }

    /// What distinguishes the file from later ones of the same name: its ETag, or the time of its last change; otherwise a text that no other
    /// file has.
    pub(crate) fn version(&self) -> String {
        match (&self.etag, &self.modified) {
            (Some(etag), _) => format!("ETag {}", shown(etag)),
            (None, Some(modified)) => format!("Last-Modified {}", shown(modified)),
            (None, None) => unknown_version(),
        }
    }

    /// Checks a later response.
    pub(crate) fn check(&self, later: &Identity) -> Result<(), Problem> {
        let differs = |before: &Option<String>, after: &Option<String>| match (before, after) {
            (Some(before), Some(after)) if before != after => Some((shown(before), shown(after))),
            _ => None,
        };
        let what = differs(&self.etag, &later.etag).map(|found| ("ETag", found));
        let modified = || differs(&self.modified, &later.modified).filter(|_| self.etag.is_none());
        match what.or_else(|| modified().map(|found| ("Last-Modified", found))) {
            Some((what, (before, after))) => Err(Problem::Changed { what, before, after }),
            None if self.length != later.length => Err(changed_length(self.length, later.length)),
            None => Ok(()),
        }
    }
}

/// The version of a file of which none is known: it differs from all others.
pub(crate) fn unknown_version() -> String {
    format!("unknown at {:?}", SystemTime::now())
}

pub(crate) fn changed_length(before: u64, after: u64) -> Problem {
    Problem::Changed { what: "its length", before: before.to_string(), after: after.to_string() }
}

/// A header for display.
pub(crate) fn shown(text: &str) -> String {
    match text {
        "" => "missing".to_owned(),
        text => text.chars().filter(|c| !c.is_control()).take(100).collect(),
    }
}
