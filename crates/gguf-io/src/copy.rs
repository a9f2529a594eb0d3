//! Copies between files, inside the kernel if possible.

use std::fs::File;
use std::io;
use std::ops::Range;

use crate::{Error, ModelFile, Output, ReadAt};

/// Bytes to copy through memory at once.
const PIECE: u64 = 1 << 20;

impl Output {
    /// Copies the bytes `range` of `file` to `offset`. The kernel copies them if it can, and a file system may share the data between the
    /// files; otherwise they pass through memory, a megabyte at a time. Holes of the source remain holes in a new output that [has its
    /// length](Output::set_len) already. May be called from several threads at once.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (from, to) = (folder.path().join("a"), folder.path().join("b"));
    /// # std::fs::write(&from, b"0123456789")?;
    /// use gguf_io::Output;
    ///
    /// let output = Output::create(&to, false)?;
    /// output.copy_from(0, &std::fs::File::open(&from)?, 3..7)?;
    /// output.commit()?;
    /// assert_eq!(std::fs::read(&to)?, b"3456");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], also when `file` ends before the range does.
    pub fn copy_from(&self, offset: u64, file: &File, range: Range<u64>) -> Result<(), Error> {
        copy(file, range, self, offset).map_err(|e| match e {
            Failed::Reading(e) => self.io("copy to")(e),
            Failed::Writing(e) => e,
        })
    }
}

impl ModelFile {
    /// Copies the bytes `range`, counted from the start of the GGUF, to `offset` of an output; see [`Output::copy_from`].
    ///
    /// # Errors
    /// [`Error::Io`], also when the file ends before the range does.
    pub fn copy_to(&self, range: Range<u64>, output: &Output, offset: u64) -> Result<(), Error> {
        let at = |n: u64| self.start().checked_add(n);
        if let (Some(file), Some(start), Some(end)) = (self.source().as_file(), at(range.start), at(range.end)) {
            return copy(file, start..end, output, offset).map_err(|e| match e {
                Failed::Reading(e) => Error::io(self.path(), "read")(e),
                Failed::Writing(e) => e,
            });
        }
        let mut buffer = Vec::new();
        let mut done = range.start;
        while done < range.end {
            let piece = buffer_of(&mut buffer, range.end - done).map_err(Error::io(self.path(), "read"))?;
            self.read_at(done, piece)?;
            output.write_at(offset.saturating_add(done - range.start), piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }
}

/// The failing side of a copy.
enum Failed {
    Reading(io::Error),
    Writing(Error),
}

fn copy(from: &File, range: Range<u64>, output: &Output, to: u64) -> Result<(), Failed> {
    let mut copy = Copy { from, at: range.start, to, left: range.end.saturating_sub(range.start) };
    copy.inside_kernel(output)?;
    copy.through_memory(output)
}

/// The remaining part of a copy.
struct Copy<'a> {
    from: &'a File,
    at: u64,
    to: u64,
    left: u64,
}

impl Copy<'_> {
    fn advance(&mut self, bytes: u64) {
        self.at = self.at.saturating_add(bytes);
        self.to = self.to.saturating_add(bytes);
        self.left = self.left.saturating_sub(bytes);
    }

    /// Copies as much as the kernel can; the rest must be copied through memory.
    #[cfg(target_os = "linux")]
    fn inside_kernel(&mut self, output: &Output) -> Result<(), Failed> {
        use rustix::io::Errno;
        let holes = self.may_leave_holes(output);
        while self.left > 0 {
            let mut most = self.left;
            if holes {
                match data_at(self.from, self.at, self.left) {
                    (0, hole) if hole > 0 => {
                        self.advance(hole);
                        continue;
                    }
                    (data, _) => most = data.max(1),
                }
            }
            let len = usize::try_from(most).unwrap_or(usize::MAX).min(1 << 30);
            let (mut at, mut to) = (self.at, self.to);
            match rustix::fs::copy_file_range(self.from, Some(&mut at), output.file(), Some(&mut to), len) {
                Ok(0) => return Err(Failed::Reading(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => self.advance(n as u64),
                Err(Errno::INTR) => {}
                // A full disk is an error for every way of copying.
                Err(e @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    return Err(Failed::Writing(output.io("write")(e.into())));
                }
                // Unsupported file systems, file types or kernels, and disk errors: reading determines the failing file.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "as on Linux")]
    fn inside_kernel(&mut self, _: &Output) -> Result<(), Failed> {
        Ok(())
    }

    /// Whether a hole of the input reads as zeros in the output without being written.
    #[cfg(target_os = "linux")]
    fn may_leave_holes(&self, output: &Output) -> bool {
        use std::os::unix::fs::MetadataExt;
        let has_holes = self.from.metadata().is_ok_and(|m| m.blocks().saturating_mul(512) < m.len());
        let end = self.to.saturating_add(self.left);
        has_holes && output.is_new() && output.file().metadata().is_ok_and(|m| m.len() >= end)
    }

    fn through_memory(&mut self, output: &Output) -> Result<(), Failed> {
        let mut buffer = Vec::new();
        while self.left > 0 {
            let piece = buffer_of(&mut buffer, self.left).map_err(Failed::Reading)?;
            self.from.read_exact_at(self.at, piece).map_err(Failed::Reading)?;
            output.write_at(self.to, piece).map_err(Failed::Writing)?;
            self.advance(piece.len() as u64);
        }
        Ok(())
    }
}

/// The length of the data at `at`, or of the hole there, at most `len` bytes.
#[cfg(target_os = "linux")]
fn data_at(file: &File, at: u64, len: u64) -> (u64, u64) {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) if data <= at => match seek(file, SeekFrom::Hole(at)) {
            Ok(hole) => (hole.saturating_sub(at).min(len), 0),
            Err(_) => (len, 0),
        },
        Ok(data) => (0, (data - at).min(len)),
        // No data from here on: a hole up to the end. Copying detects a range beyond the end.
        Err(Errno::NXIO) => {
            let end = file.metadata().map_or(at, |m| m.len());
            match end.saturating_sub(at) {
                0 => (len, 0),
                hole => (0, hole.min(len)),
            }
        }
        Err(_) => (len, 0),
    }
}

/// A buffer for the next piece of this many bytes.
fn buffer_of(buffer: &mut Vec<u8>, left: u64) -> io::Result<&mut [u8]> {
    let len = usize::try_from(left.min(PIECE)).unwrap_or(0);
    if buffer.len() < len {
        buffer.try_reserve_exact(len - buffer.len()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        buffer.resize(len, 0);
    }
    Ok(buffer.get_mut(..len).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file with data, a hole, and data again.
    fn sparse(path: &std::path::Path) -> Vec<u8> {
        let file = File::create(path).unwrap();
        file.set_len(3 << 20).unwrap();
        let output = |at: u64, bytes: &[u8]| {
            use std::io::{Seek, SeekFrom, Write};
            let mut file = &file;
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(bytes).unwrap();
        };
        output(0, &[1; 5000]);
        output(2 << 20, &[2; 70_000]);
        fs::read(path).unwrap()
    }

    #[test]
    fn ranges_arrive_whole_in_every_way() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        let all = sparse(&from);
        let file = File::open(&from).unwrap();
        let ranges = [0..all.len(), 0..0, 17..4_999, 4_990..5_010, 6_000..2_097_160, 2_100_000..all.len()];
        for (i, range) in ranges.into_iter().enumerate() {
            let bytes = range.start as u64..range.end as u64;
            for new in [true, false] {
                let to = dir.path().join(format!("to-{i}-{new}"));
                let output = if new { Output::create(&to, false) } else { Output::reopen(&to, false) }.unwrap();
                if !new {
                    output.write_at(0, &vec![9; range.len() + 7]).unwrap();
                }
                output.set_len(range.len() as u64 + 7).unwrap();
                output.copy_from(7, &file, bytes.clone()).unwrap();
                output.commit().unwrap();
                assert!(fs::read(&to).unwrap()[7..] == all[range.clone()], "{range:?} {new}");
            }
            let to = dir.path().join(format!("memory-{i}"));
            let output = Output::create(&to, false).unwrap();
            let mut copy = Copy { from: &file, at: bytes.start, to: 0, left: bytes.end - bytes.start };
            assert!(copy.through_memory(&output).is_ok());
            output.commit().unwrap();
            assert!(fs::read(&to).unwrap() == all[range.clone()], "{range:?}");
        }
    }

    #[test]
    fn a_source_that_ends_too_early_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        let len = sparse(&from).len() as u64;
        let file = File::open(&from).unwrap();
        for range in [0..len + 1, len - 1..len + 5_000_000, len + 3..len + 4] {
            let output = Output::create(dir.path().join("to"), false).unwrap();
            output.set_len(range.end - range.start).unwrap();
            match output.copy_from(0, &file, range.clone()) {
                Err(Error::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof, "{range:?}"),
                other => panic!("{range:?}: {other:?}"),
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_stay_holes() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        let len = sparse(&from).len() as u64;
        let file = File::open(&from).unwrap();
        let is_sparse = |m: fs::Metadata| m.blocks() * 512 < m.len() / 2;
        if !is_sparse(file.metadata().unwrap()) {
            return;
        }
        let output = Output::create(dir.path().join("to"), false).unwrap();
        output.set_len(len).unwrap();
        output.copy_from(0, &file, 0..len).unwrap();
        assert!(is_sparse(output.file().metadata().unwrap()));
    }
}
