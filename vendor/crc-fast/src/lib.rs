//! The part of the crate `crc-fast` that `object_store` uses, on the crate `crc`: the checksum CRC-64/NVME of requests to S3.

use crc::{CRC_64_NVME, Crc, Table};

static CRC: Crc<u64, Table<1>> = Crc::<u64, Table<1>>::new(&CRC_64_NVME);

/// The algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// CRC-64/NVME, whose check value for `123456789` is `0xae8b14860a799888`.
    Crc64Nvme,
}

/// The checksum of bytes that arrive in pieces.
pub struct Digest(crc::Digest<'static, u64, Table<1>>);

impl Digest {
    /// The checksum of no bytes yet.
    #[must_use]
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Self(CRC.digest()),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub fn finalize(&self) -> u64 {
        self.0.clone().finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_pieces_is_the_published_one() {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(b"1234");
        digest.update(b"56789");
        assert_eq!(digest.finalize(), 0xae8b_1486_0a79_9888);
    }
}
