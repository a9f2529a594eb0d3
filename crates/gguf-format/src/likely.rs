//! How long a head probably is, from the part of it that has arrived: for readers of ranges, which would otherwise ask too often for too little, or
//! once for too much.

use crate::cursor::Cursor;
use crate::file::{Gguf, kv_header};
use crate::keys;
use crate::scan::{HeadScan, ScanState};
use crate::value::{ArrayRef, ValueType, read_array_header};

/// The usual sizes of a key-value pair that is not an array, and of a tensor info.
const KV_BYTES: u64 = 48;
const TENSOR_BYTES: u64 = 60;

/// The strings of an array.
#[derive(Debug, Clone, Copy, Default)]
struct Strings {
    /// Number of strings.
    n: u64,
    /// Number of those that have not arrived.
    left: u64,
    /// Bytes of a number of average strings, with their lengths.
    average: (u64, u64),
}

impl Strings {
    /// The key of the array in which the scan is, and its strings, if it has any. Vocabularies begin with short strings, so the later half of those that
    /// have arrived is the average.
    fn arriving<'h>(head: &'h [u8], scan: &HeadScan) -> Option<(&'h [u8], Strings)> {
        let (item, left) = scan.open_array_at()?;
        let mut c = Cursor::new(head, usize::try_from(item).ok()?, scan.dialect);
        let (key, _) = kv_header(&mut c)?;
        let (elem, n) = read_array_header(&mut c).ok()?;
        if elem != ValueType::STRING {
            return Some((key.as_bytes(), Strings::default()));
        }
        let scanned = n.saturating_sub(left);
        c.skip_strings(scanned / 2);
        let average = (scan.head_bytes().saturating_sub(c.pos() as u64), scanned - scanned / 2);
        Some((key.as_bytes(), Strings { n, left, average }))
    }

    /// All strings of an array.
    fn all(array: &ArrayRef<'_>) -> Strings {
        Strings { n: array.len(), left: 0, average: (array.encoded_bytes().len() as u64, array.len()) }
    }

    /// Bytes of `n` average strings.
    fn bytes_of(self, n: u64) -> u64 {
        n.saturating_mul(self.average.0) / self.average.1.max(1)
    }

    /// Bytes of `n` merges, if these are the tokens: a merge is the text of a token with a space in it, and long tokens have more merges than short ones.
    fn merge_bytes_of(self, n: u64) -> u64 {
        self.bytes_of(n).saturating_add(n.saturating_mul(3) / 2)
    }
}

impl HeadScan {
    /// The probable size of the head, of which `head` has arrived: at least that which [`advance`](HeadScan::advance) needs to continue.
    ///
    /// The first strings of an array predict the size of the others, and the tokens of a vocabulary that of the scores, types and merges, which
    /// llama.cpp's converters write after them. With the first 64 KiB, the result is between a half and the whole size of the heads of usual models; with
    /// the first half, it differs from it by a few percent.
    pub fn likely_bytes(&self, head: &[u8]) -> u64 {
        let mut scan = self.clone();
        let need = match scan.advance(head) {
            Ok(ScanState::Need(need)) => need,
            _ => return scan.head_bytes(),
        };
        let known = Gguf::partial(head, &scan);
        let arriving = Strings::arriving(head, &scan);
        let is_arriving = |key: &str| arriving.filter(|(name, _)| *name == key.as_bytes()).map(|(_, strings)| strings);
        let is_missing = |key: &str| known.kv(key).is_none() && is_arriving(key).is_none();

        let tokens = known.get_as(keys::TOKENIZER_GGML_TOKENS).ok().map(|array| Strings::all(&array));
        let tokens = tokens.or(is_arriving(keys::TOKENIZER_GGML_TOKENS)).unwrap_or_default();
        let mut rest = arriving.map_or(0, |(_, strings)| strings.bytes_of(strings.left));
        if let Some(merges) = is_arriving(keys::TOKENIZER_GGML_MERGES) {
            rest = rest.max(tokens.merge_bytes_of(merges.left));
        }
        let mut bytes = scan.head_bytes().saturating_add(rest).max(need);
        let kvs_left = scan.n_kv - scan.kvs_done;
        if kvs_left > 0 {
            let model: &str = known.get_as(keys::TOKENIZER_GGML_MODEL).unwrap_or_default();
            let has_scores = !matches!(model, "gpt2" | "bert" | "rwkv");
            let has_merges = matches!(model, "gpt2" | "gemma4");
            let numbers = u64::from(is_missing(keys::TOKENIZER_GGML_TOKEN_TYPE))
                + u64::from(has_scores && is_missing(keys::TOKENIZER_GGML_SCORES));
            bytes = bytes.saturating_add(tokens.n.saturating_mul(4 * numbers));
            if has_merges && is_missing(keys::TOKENIZER_GGML_MERGES) {
                bytes = bytes.saturating_add(tokens.merge_bytes_of(tokens.n));
            }
            bytes = bytes.saturating_add((kvs_left - u64::from(arriving.is_some())).saturating_mul(KV_BYTES));
        }
        let infos_bytes = scan.head_bytes().saturating_sub(scan.infos_start);
        let info_bytes = infos_bytes.checked_div(scan.tensors_done).unwrap_or(TENSOR_BYTES);
        bytes.saturating_add((scan.n_tensors - scan.tensors_done).saturating_mul(info_bytes))
    }
}
