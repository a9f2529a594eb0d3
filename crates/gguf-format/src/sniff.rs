//! Identifies files that are not GGUF by their first bytes.

use core::fmt;

/// The format of a file that does not start with the magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum FileKind {
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

impl FileKind {
    /// Identifies a file by its first bytes. 512 are enough; fewer are allowed.
    pub fn of(start: &[u8]) -> FileKind {
        let text = start.trim_ascii_start();
        let contains = |part: &[u8]| start.windows(part.len()).any(|window| window == part);
        let begins = |prefix: &[u8]| text.get(..prefix.len()).is_some_and(|t| t.eq_ignore_ascii_case(prefix));
        match start {
            [] => FileKind::Empty,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => FileKind::Zip,
            [0x1f, 0x8b, ..] => FileKind::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => FileKind::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => FileKind::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => FileKind::Bzip2,
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => FileKind::SevenZip,
            _ if start.get(257..262) == Some(b"ustar") => FileKind::Tar,
            // The legacy magics are 32-bit numbers, so they are reversed in little-endian files.
            [b'l', b'm', b'g', b'g', ..] => FileKind::Ggml,
            [b'f', b'm', b'g', b'g', ..] => FileKind::Ggmf,
            [b't', b'j', b'g', b'g', ..] => FileKind::Ggjt,
            [b'c', b'c', b'g', b'g', ..] => FileKind::Ggcc,
            [b'a', b'l', b'g', b'g', ..] => FileKind::Ggla,
            [b'n', b's', b'g', b'g', ..] => FileKind::Ggsn,
            [0x80, 2..=5, ..] => FileKind::Pickle,
            _ if start.starts_with(b"version https://git-lfs.github.com/spec/") => FileKind::GitLfsPointer,
            _ if begins(b"<!doctype") || begins(b"<html") || begins(b"<head") => FileKind::Html,
            [_, _, _, _, _, 0, 0, 0, b'{', ..] => FileKind::Safetensors,
            _ if begins(b"{") && contains(b"\"schemaVersion\"") => FileKind::OllamaManifest,
            _ if begins(b"{") || begins(b"[") => FileKind::Json,
            _ if ERRORS.iter().any(|text| begins(text)) => FileKind::ErrorText,
            _ if start.starts_with(b"FROM ") || (start.starts_with(b"#") && contains(b"\nFROM ")) => {
                FileKind::Modelfile
            }
            _ if is_old_matrix(start) => FileKind::OldMatrix,
            _ if start.len() >= 4 && start.iter().all(|&b| b == 0) => FileKind::Zeros,
            _ => FileKind::Unknown,
        }
    }

    /// The remedy for a user with such a file.
    pub fn hint(self) -> &'static str {
        match self {
            FileKind::Empty | FileKind::Zeros => "the download did not finish; fetch the file again",
            FileKind::GitLfsPointer => "fetch the content with `git lfs pull`, or download the file itself",
            FileKind::Html | FileKind::Json => {
                "a web page or an error message was saved in place of the file; check the link and the access rights"
            }
            FileKind::Safetensors => "convert the checkpoint folder to GGUF",
            FileKind::Zip | FileKind::Pickle => "a PyTorch checkpoint must be converted to GGUF",
            FileKind::Gzip | FileKind::Zstd | FileKind::Tar | FileKind::Xz | FileKind::Bzip2 | FileKind::SevenZip => {
                "unpack it first"
            }
            FileKind::ErrorText => {
                "a server's error message was saved in place of the file; check the link and the access rights"
            }
            FileKind::OllamaManifest => {
                "the model is the layer of type application/vnd.ollama.image.model: look for the file named by its digest \
                    in Ollama's blobs folder"
            }
            FileKind::Modelfile => "use the model named in its FROM line",
            FileKind::OldMatrix => "this is an importance matrix, not a model",
            FileKind::Ggml | FileKind::Ggmf | FileKind::Ggjt | FileKind::Ggcc => "migrate it to GGUF",
            FileKind::Ggla => "migrate it to GGUF",
            FileKind::Ggsn => "this is the saved state of a chat, not a model",
            FileKind::Unknown => "a GGUF file starts with the bytes 47 47 55 46",
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Empty => "an empty file",
            FileKind::GitLfsPointer => "a git-lfs pointer",
            FileKind::Html => "an HTML page",
            FileKind::Json => "a JSON text",
            FileKind::Safetensors => "a safetensors file",
            FileKind::Zip => "a zip archive or PyTorch checkpoint",
            FileKind::Pickle => "a Python pickle",
            FileKind::Gzip => "a gzip archive",
            FileKind::Zstd => "a zstd archive",
            FileKind::Tar => "a tar archive",
            FileKind::Xz => "an xz archive",
            FileKind::Bzip2 => "a bzip2 archive",
            FileKind::SevenZip => "a 7z archive",
            FileKind::ErrorText => "the text of an error message",
            FileKind::OllamaManifest => "a manifest of Ollama",
            FileKind::Modelfile => "an Ollama Modelfile",
            FileKind::OldMatrix => "an importance matrix in the .dat format",
            FileKind::Ggml => "a legacy GGML file",
            FileKind::Ggmf => "a legacy GGMF file",
            FileKind::Ggjt => "a legacy GGJT file",
            FileKind::Ggcc => "a legacy GGCC file",
            FileKind::Ggla => "a legacy GGLA adapter",
            FileKind::Ggsn => "a llama.cpp session file",
            FileKind::Zeros => "a file that starts with zero bytes",
            FileKind::Unknown => "a file of unknown kind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let cases: &[(&[u8], FileKind)] = &[
            (b"", FileKind::Empty),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:", FileKind::GitLfsPointer),
            (b"  \n<!DOCTYPE html><html>", FileKind::Html),
            (b"<html lang=en>", FileKind::Html),
            (b"{\"error\":\"Entry not found\"}", FileKind::Json),
            (b"\x40\x02\0\0\0\0\0\0{\"__metadata__\"", FileKind::Safetensors),
            (b"PK\x03\x04....", FileKind::Zip),
            (b"\x80\x02}q\0", FileKind::Pickle),
            (b"\x1f\x8b\x08", FileKind::Gzip),
            (b"\x28\xb5\x2f\xfd", FileKind::Zstd),
            (b"\xfd7zXZ\0....", FileKind::Xz),
            (b"BZh9....", FileKind::Bzip2),
            (b"7z\xbc\xaf\x27\x1c", FileKind::SevenZip),
            (&[[b'a'; 257].as_slice(), b"ustar\0"].concat(), FileKind::Tar),
            (b"Entry not found", FileKind::ErrorText),
            (b"Access to model x is restricted", FileKind::ErrorText),
            (b"{\"schemaVersion\":2,\"layers\":[]}", FileKind::OllamaManifest),
            (b"FROM ./model.gguf\nTEMPLATE x", FileKind::Modelfile),
            (b"# Mine\nFROM llama3", FileKind::Modelfile),
            (b"\x02\0\0\0\x15\0\0\0blk.0.ffn_down.weight", FileKind::OldMatrix),
            (b"\x02\0\0\0\x15\0\0\0blk.0.ffn_down.wei", FileKind::Unknown),
            (b"lmgg....", FileKind::Ggml),
            (b"fmgg....", FileKind::Ggmf),
            (b"tjgg....", FileKind::Ggjt),
            (b"ccgg....", FileKind::Ggcc),
            (b"algg....", FileKind::Ggla),
            (b"nsgg....", FileKind::Ggsn),
            (&[0; 64], FileKind::Zeros),
            (b"GGU", FileKind::Unknown),
            (b"hello", FileKind::Unknown),
        ];
        for (bytes, kind) in cases {
            assert_eq!(FileKind::of(bytes), *kind, "{bytes:?}");
        }
    }
}
