//! Telling what a file is when it is not GGUF, from its first bytes.

use core::fmt;

/// What a file that does not start with the magic seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Empty,
    /// A pointer that git-lfs leaves in place of the content.
    GitLfsPointer,
    Html,
    Json,
    Safetensors,
    /// A zip archive, which is also what `torch.save` writes.
    Zip,
    /// A Python pickle, as `torch.save` wrote before 2020.
    Pickle,
    Gzip,
    Zstd,
    /// Unversioned GGML of before August 2023.
    Ggml,
    Ggmf,
    Ggjt,
    /// ggllm.cpp's container.
    Ggcc,
    /// A llama.cpp LoRA adapter of 2023.
    Ggla,
    /// A llama.cpp session file.
    Ggsn,
    /// All zero bytes at the start, as a preallocated or sparse download leaves them.
    Zeros,
    Unknown,
}

impl Kind {
    /// Looks at the first bytes of a file. 512 are enough; fewer are fine.
    pub fn of(start: &[u8]) -> Kind {
        let text = start.trim_ascii_start();
        let begins = |prefix: &[u8]| text.get(..prefix.len()).is_some_and(|t| t.eq_ignore_ascii_case(prefix));
        match start {
            [] => Kind::Empty,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Kind::Zip,
            [0x1f, 0x8b, ..] => Kind::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Kind::Zstd,
            // The legacy magics are 32-bit numbers, so they stand backwards in little-endian files.
            [b'l', b'm', b'g', b'g', ..] => Kind::Ggml,
            [b'f', b'm', b'g', b'g', ..] => Kind::Ggmf,
            [b't', b'j', b'g', b'g', ..] => Kind::Ggjt,
            [b'c', b'c', b'g', b'g', ..] => Kind::Ggcc,
            [b'a', b'l', b'g', b'g', ..] => Kind::Ggla,
            [b'n', b's', b'g', b'g', ..] => Kind::Ggsn,
            [0x80, 2..=5, ..] => Kind::Pickle,
            _ if start.starts_with(b"version https://git-lfs.github.com/spec/") => Kind::GitLfsPointer,
            _ if begins(b"<!doctype") || begins(b"<html") || begins(b"<head") => Kind::Html,
            [_, _, _, _, _, 0, 0, 0, b'{', ..] => Kind::Safetensors,
            _ if begins(b"{") || begins(b"[") => Kind::Json,
            _ if start.len() >= 4 && start.iter().all(|&b| b == 0) => Kind::Zeros,
            _ => Kind::Unknown,
        }
    }

    /// What a person who holds such a file can do.
    pub fn hint(self) -> &'static str {
        match self {
            Kind::Empty | Kind::Zeros => "the download did not finish; fetch the file again",
            Kind::GitLfsPointer => "fetch the content with `git lfs pull`, or download the file itself",
            Kind::Html | Kind::Json => {
                "a web page or an error message was saved in place of the file; check the link and the access rights"
            }
            Kind::Safetensors => "convert the folder it is in to GGUF",
            Kind::Zip | Kind::Pickle => "a PyTorch checkpoint must be converted to GGUF",
            Kind::Gzip | Kind::Zstd => "unpack it first",
            Kind::Ggml | Kind::Ggmf | Kind::Ggjt | Kind::Ggcc => {
                "a model of before August 2023 must be migrated to GGUF"
            }
            Kind::Ggla => "a LoRA adapter of 2023 must be migrated to GGUF",
            Kind::Ggsn => "this is saved state of a chat, not a model",
            Kind::Unknown => "a GGUF file starts with the bytes 47 47 55 46",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Empty => "an empty file",
            Kind::GitLfsPointer => "a git-lfs pointer",
            Kind::Html => "an HTML page",
            Kind::Json => "a JSON text",
            Kind::Safetensors => "a safetensors file",
            Kind::Zip => "a zip archive or PyTorch checkpoint",
            Kind::Pickle => "a Python pickle",
            Kind::Gzip => "a gzip archive",
            Kind::Zstd => "a zstd archive",
            Kind::Ggml => "a legacy GGML file",
            Kind::Ggmf => "a legacy GGMF file",
            Kind::Ggjt => "a legacy GGJT file",
            Kind::Ggcc => "a legacy GGCC file",
            Kind::Ggla => "a legacy GGLA adapter",
            Kind::Ggsn => "a llama.cpp session file",
            Kind::Zeros => "a file that starts with zero bytes",
            Kind::Unknown => "a file of unknown kind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let cases: &[(&[u8], Kind)] = &[
            (b"", Kind::Empty),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:", Kind::GitLfsPointer),
            (b"  \n<!DOCTYPE html><html>", Kind::Html),
            (b"<html lang=en>", Kind::Html),
            (b"{\"error\":\"Entry not found\"}", Kind::Json),
            (b"\x40\x02\0\0\0\0\0\0{\"__metadata__\"", Kind::Safetensors),
            (b"PK\x03\x04....", Kind::Zip),
            (b"\x80\x02}q\0", Kind::Pickle),
            (b"\x1f\x8b\x08", Kind::Gzip),
            (b"\x28\xb5\x2f\xfd", Kind::Zstd),
            (b"lmgg....", Kind::Ggml),
            (b"fmgg....", Kind::Ggmf),
            (b"tjgg....", Kind::Ggjt),
            (b"ccgg....", Kind::Ggcc),
            (b"algg....", Kind::Ggla),
            (b"nsgg....", Kind::Ggsn),
            (&[0; 64], Kind::Zeros),
            (b"GGU", Kind::Unknown),
            (b"hello", Kind::Unknown),
        ];
        for (bytes, kind) in cases {
            assert_eq!(Kind::of(bytes), *kind, "{bytes:?}");
        }
    }
}
