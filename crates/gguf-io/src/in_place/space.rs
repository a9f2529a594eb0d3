//! Optional features of file systems: inserting blocks into a file, and sharing them between files. Each is tested on an unnamed file in
//! the given directory.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::disk::folder;

/// The granularity of insertions and of sharing: the file system's block size.
///
/// # Errors
/// If the system does not report it.
pub fn block_bytes(path: &Path) -> io::Result<u64> {
    system::block_bytes(path)
}

/// Whether bytes can be inserted into files in the directory of `path`.
pub fn can_insert(path: &Path) -> bool {
    let probe = || {
        let block = block_bytes(path)?;
        let file = tempfile::tempfile_in(folder(path))?;
        file.set_len(block.saturating_mul(2))?;
        insert(&file, 0, block)
    };
    probe().is_ok()
}

/// Whether a new file in the directory of `new` can share blocks of the file `from`.
pub fn can_share(from: &File, new: &Path) -> bool {
    tempfile::tempfile_in(folder(new)).is_ok_and(|file| system::share_all(from, &file).is_ok())
}

/// Inserts zero bytes; the following bytes move up. No data is copied.
pub(super) fn insert(file: &File, at: u64, len: u64) -> io::Result<()> {
    system::insert(file, at, len)
}

/// Reverses [`insert`].
pub(super) fn collapse(file: &File, at: u64, len: u64) -> io::Result<()> {
    system::collapse(file, at, len)
}

/// Copies a range of a file to another, at most `len` bytes; returns the number of copied bytes. If the file system supports it, and both
/// offsets are multiples of its block size, the blocks are shared and nothing is copied.
///
/// # Errors
/// If the system cannot read or write; [`io::ErrorKind::UnexpectedEof`] if `from` ends before the range.
pub fn copy_range(from: &File, at: u64, to: &File, to_at: u64, len: u64) -> io::Result<u64> {
    system::copy_range(from, at, to, to_at, len)
}

/// Bytes to copy at once if the system cannot copy.
const PIECE: u64 = 1 << 20;

/// Copies through memory.
fn copy_through_memory(from: &File, at: u64, to: &File, to_at: u64, len: u64) -> io::Result<u64> {
    let n = len.min(PIECE);
    let mut buffer = vec![0; usize::try_from(n).unwrap_or(0)];
    crate::ReadAt::read_exact_at(from, at, &mut buffer)?;
    crate::disk::write_all_at(to, &buffer, to_at)?;
    Ok(n)
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::fs::{FallocateFlags, copy_file_range, fallocate, ioctl_ficlone, statfs};
    use rustix::io::Errno;

    use crate::disk::folder;

    pub(super) fn block_bytes(path: &Path) -> io::Result<u64> {
        let block = u64::try_from(statfs(folder(path))?.f_bsize).unwrap_or(0);
        // All file systems of Linux have block sizes of this form; 0 would be a divisor.
        if block.is_power_of_two() { Ok(block) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    pub(super) fn insert(file: &File, at: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::INSERT_RANGE, at, len)?)
    }

    pub(super) fn collapse(file: &File, at: u64, len: u64) -> io::Result<()> {
        Ok(fallocate(file, FallocateFlags::COLLAPSE_RANGE, at, len)?)
    }

    pub(super) fn share_all(from: &File, to: &File) -> io::Result<()> {
        Ok(ioctl_ficlone(to, from)?)
    }

    pub(super) fn copy_range(from: &File, at: u64, to: &File, to_at: u64, len: u64) -> io::Result<u64> {
        let (mut at_now, mut to_now) = (at, to_at);
        let n = usize::try_from(len).unwrap_or(usize::MAX);
        match copy_file_range(from, Some(&mut at_now), to, Some(&mut to_now), n) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => Ok(n as u64),
            // Not supported between these file systems, or by this one.
            Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                super::copy_through_memory(from, at, to, to_at, len)
            }
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn block_bytes(_: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn insert(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn collapse(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn share_all(_: &File, _: &File) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn copy_range(from: &File, at: u64, to: &File, to_at: u64, len: u64) -> io::Result<u64> {
        super::copy_through_memory(from, at, to, to_at, len)
    }
}
