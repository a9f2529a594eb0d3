//! Identifies files that are not GGUF by their first bytes.

use core::fmt;

/// The format of a file that does not start with the magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Empty,
    /// A git-lfs pointer instead of the content.
    GitLfsPointer,
    Html,
    Json,
    Safetensors,
    /// A zip archive, the format of `torch.save`.
    Zip,
    /// A Python pickle, from `torch.save` before 2020.
    Pickle,
    Gzip,
    Zstd,
    Tar,
    Xz,
    Bzip2,
    SevenZip,
    /// The response of a server instead of a file: `Entry not found` and the like.
    ErrorText,
    /// A manifest of Ollama or an OCI registry, which names the file by its digest.
    OllamaManifest,
    /// An Ollama Modelfile.
    Modelfile,
    /// An importance matrix in llama.cpp's old format.
    OldMatrix,
    /// Unversioned GGML from before August 2023.
    Ggml,
    Ggmf,
    Ggjt,
    /// ggllm.cpp's container.
    Ggcc,
    /// A llama.cpp LoRA adapter of 2023.
    Ggla,
    /// A llama.cpp session file.
    Ggsn,
    /// Zero bytes at the start, from a preallocated or sparse download.
    Zeros,
    Unknown,
}

/// Responses of servers instead of a file, in lower case.
const ERRORS: &[&[u8]] = &[
    b"entry not found",
    b"not found",
    b"404",
    b"403",
    b"401",
    b"access to ",
    b"repository not found",
    b"invalid username or password",
    b"access denied",
    b"forbidden",
    b"unauthorized",
];

/// Whether a file begins like an old importance matrix: the number of entries, then the length and the text of a tensor's name.
fn is_old_matrix(start: &[u8]) -> bool {
    let Some((n_entries, rest)) = start.split_first_chunk::<4>() else { return false };
    let Some((len, rest)) = rest.split_first_chunk::<4>() else { return false };
    let (n_entries, len) = (u32::from_le_bytes(*n_entries), u32::from_le_bytes(*len));
    let name = usize::try_from(len).ok().and_then(|len| rest.get(..len));
    let is_name = |name: &[u8]| name.ends_with(b".weight") && name.iter().all(|b| b.is_ascii_graphic());
    (1..=1 << 20).contains(&n_entries) && name.is_some_and(is_name)
}

impl Kind {
    /// Identifies a file by its first bytes. 512 are enough; fewer are allowed.
    pub fn of(start: &[u8]) -> Kind {
        let text = start.trim_ascii_start();
        let contains = |part: &[u8]| start.windows(part.len()).any(|window| window == part);
        let begins = |prefix: &[u8]| text.get(..prefix.len()).is_some_and(|t| t.eq_ignore_ascii_case(prefix));
        match start {
            [] => Kind::Empty,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Kind::Zip,
            [0x1f, 0x8b, ..] => Kind::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Kind::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Kind::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Kind::Bzip2,
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Kind::SevenZip,
            _ if start.get(257..262) == Some(b"ustar") => Kind::Tar,
            // The legacy magics are 32-bit numbers, so they are reversed in little-endian files.
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
            _ if begins(b"{") && contains(b"\"schemaVersion\"") => Kind::OllamaManifest,
            _ if begins(b"{") || begins(b"[") => Kind::Json,
            _ if ERRORS.iter().any(|text| begins(text)) => Kind::ErrorText,
            _ if start.starts_with(b"FROM ") || (start.starts_with(b"#") && contains(b"\nFROM ")) => Kind::Modelfile,
            _ if is_old_matrix(start) => Kind::OldMatrix,
            _ if start.len() >= 4 && start.iter().all(|&b| b == 0) => Kind::Zeros,
            _ => Kind::Unknown,
        }
    }

    /// The remedy for a user with such a file.
    pub fn hint(self) -> &'static str {
        match self {
            Kind::Empty | Kind::Zeros => "the download did not finish; fetch the file again",
            Kind::GitLfsPointer => "fetch the content with `git lfs pull`, or download the file itself",
            Kind::Html | Kind::Json => {
                "a web page or an error message was saved in place of the file; check the link and the access rights"
            }
            Kind::Safetensors => "convert the checkpoint folder to GGUF",
            Kind::Zip | Kind::Pickle => "a PyTorch checkpoint must be converted to GGUF",
            Kind::Gzip | Kind::Zstd | Kind::Tar | Kind::Xz | Kind::Bzip2 | Kind::SevenZip => "unpack it first",
            Kind::ErrorText => {
                "a server's error message was saved in place of the file; check the link and the access rights"
            }
            Kind::OllamaManifest => {
                "the model is the layer of type application/vnd.ollama.image.model: look for the file named by its digest \
                    in Ollama's blobs folder"
            }
            Kind::Modelfile => "use the model named in its FROM line",
            Kind::OldMatrix => "this is an importance matrix, not a model",
            Kind::Ggml | Kind::Ggmf | Kind::Ggjt | Kind::Ggcc => {
                "models from before August 2023 must be migrated to GGUF"
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
            Kind::Tar => "a tar archive",
            Kind::Xz => "an xz archive",
            Kind::Bzip2 => "a bzip2 archive",
            Kind::SevenZip => "a 7z archive",
            Kind::ErrorText => "the text of an error",
            Kind::OllamaManifest => "a manifest of Ollama",
            Kind::Modelfile => "an Ollama Modelfile",
            Kind::OldMatrix => "an importance matrix in the .dat format",
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
            (b"\xfd7zXZ\0....", Kind::Xz),
            (b"BZh9....", Kind::Bzip2),
            (b"7z\xbc\xaf\x27\x1c", Kind::SevenZip),
            (&[[b'a'; 257].as_slice(), b"ustar\0"].concat(), Kind::Tar),
            (b"Entry not found", Kind::ErrorText),
            (b"Access to model x is restricted", Kind::ErrorText),
            (b"{\"schemaVersion\":2,\"layers\":[]}", Kind::OllamaManifest),
            (b"FROM ./model.gguf\nTEMPLATE x", Kind::Modelfile),
            (b"# Mine\nFROM llama3", Kind::Modelfile),
            (b"\x02\0\0\0\x15\0\0\0blk.0.ffn_down.weight", Kind::OldMatrix),
            (b"\x02\0\0\0\x15\0\0\0blk.0.ffn_down.wei", Kind::Unknown),
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
