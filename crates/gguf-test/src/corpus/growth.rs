//! Reads a head in pieces of any size, with the same result as at once.

use gguf_format::{Error, Gguf, HeadScan, Problem, ScanState};

/// The result of a scan over all bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Bytes of the head.
    Complete(u64),
    Need(u64),
    Error(Error),
}

/// Scans `bytes` in pieces of the given sizes; the rest follows at the end.
pub fn scan(bytes: &[u8], total: Option<u64>, sizes: impl IntoIterator<Item = usize>) -> End {
    let mut scan = HeadScan::new(total);
    let mut sizes = sizes.into_iter();
    let (mut given, mut needed) = (0, 0);
    loop {
        given = sizes.next().map_or(bytes.len(), |n| given.max(n)).min(bytes.len());
        let head = &bytes[..given];
        match scan.advance(head) {
            Ok(ScanState::Complete) => {
                let gguf = Gguf::from_scan(head, &scan);
                let at_once = Gguf::parse_within(head, total);
                assert_eq!(gguf.map(|g| facts(&g)), at_once.map(|g| facts(&g)));
                return End::Complete(scan.head_bytes());
            }
            Ok(ScanState::Need(need)) => {
                assert!(need > given as u64, "{need} bytes are asked for, {given} are there");
                assert!(need >= needed, "{need} bytes are asked for after {needed}");
                assert!(total.is_none_or(|total| need <= total), "{need} bytes of {total:?} are asked for");
                assert!(scan.head_bytes() <= given as u64);
                needed = need;
                if given == bytes.len() {
                    return End::Need(need);
                }
            }
            // The kind of a foreign file depends on the available bytes.
            Err(mut e) if matches!(e.problem, Problem::NotGguf(_)) => {
                e.problem = Problem::UnknownVersion(0);
                return End::Error(e);
            }
            Err(e) => {
                assert!(e.need().is_none(), "{e}");
                return End::Error(e);
            }
        }
    }
}

fn facts(gguf: &Gguf<'_>) -> impl PartialEq + core::fmt::Debug + use<> {
    let offsets: Vec<u64> = gguf.kvs().map(|kv| kv.value_offset).collect();
    let infos: Vec<u64> = gguf.tensors().map(|t| t.info_offset).collect();
    (gguf.dialect(), gguf.head_bytes(), gguf.alignment(), offsets, infos)
}

/// Scans with the minimum number of requested bytes each time: that always suffices for progress.
pub fn scan_as_needed(bytes: &[u8], total: Option<u64>) -> End {
    let mut scan = HeadScan::new(total);
    let mut given = 0;
    loop {
        match scan.advance(&bytes[..given]) {
            Ok(ScanState::Complete) => return End::Complete(scan.head_bytes()),
            Ok(ScanState::Need(need)) => {
                assert!(need > given as u64, "{need} bytes are asked for, {given} are there");
                match usize::try_from(need) {
                    Ok(need) if need <= bytes.len() => given = need,
                    _ if given == bytes.len() => return End::Need(need),
                    _ => given = bytes.len(),
                }
            }
            Err(mut e) if matches!(e.problem, Problem::NotGguf(_)) => {
                e.problem = Problem::UnknownVersion(0);
                return End::Error(e);
            }
            Err(e) => return End::Error(e),
        }
    }
}
