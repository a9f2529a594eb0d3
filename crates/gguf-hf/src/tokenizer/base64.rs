//! Base64 decoding, for vocabularies that store bytes.

/// Decodes base64 in the standard alphabet; `None` if the text is invalid. Padding is optional, and leftover bits are ignored.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for digit in group {
            bits = bits << 6 | u32::from(value(*digit)?);
        }
        match group.len() {
            4 => bytes.extend(bits.to_be_bytes().into_iter().skip(1)),
            3 => bytes.extend((bits >> 2).to_be_bytes().into_iter().skip(2)),
            2 => bytes.extend((bits >> 4).to_be_bytes().into_iter().skip(3)),
            _ => return None,
        }
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_rfc_4648_and_others() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("Zm9vYmE=", b"fooba"),
            ("Zm9vYmFy", b"foobar"),
            ("Zm8", b"fo"),
            ("+/+/", b"\xfb\xff\xbf"),
            ("AP8=", b"\0\xff"),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zm9v!", "Zm=v", "Zm9vY", "===", "Zm 9"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
