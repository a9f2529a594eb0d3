//! The tensors of the output, and the rows of the file that they consist of.
//!
//! Most tensors are unchanged. Some matrices have their rows in another order, which is lossless for quantized rows too; and some early
//! converters forgot to transpose.

use gguf_format::GgmlType;

use crate::block::Encoding;
use crate::error::Error;
use crate::file::{LegacyFile, Piece, Tensor};
use crate::layout::{Family, Hparam};
use crate::names::{Name, Named, name};
use crate::source::Run;

/// A tensor of the output.
#[derive(Debug)]
pub(crate) struct Arranged<'f> {
    pub(crate) tensor: &'f Tensor,
    pub(crate) named: Named,
    pub(crate) shape: Vec<u64>,
    /// Length of the unit of reordering: a row, or the part of a vector for one head.
    pub(crate) row_len: u64,
    pub(crate) order: Vec<Run>,
    /// Whether rows and columns are swapped.
    pub(crate) transposed: bool,
}

/// The tensors of the output, and the omitted tensors of the file, with the reason.
pub(crate) struct Arrangement<'f> {
    pub(crate) tensors: Vec<Arranged<'f>>,
    pub(crate) left_out: Vec<(String, &'static str)>,
    /// Number of key-value heads, if the file has it.
    pub(crate) n_head_kv: Option<u32>,
    /// Width of the feed-forward layers.
    pub(crate) n_ff: Option<u64>,
}

/// Arranges the tensors of a model.
///
/// # Errors
/// If tensors do not belong to the architecture, or their shapes do not match the hyperparameters.
pub(crate) fn arrange(file: &LegacyFile) -> Result<Arrangement<'_>, Error> {
    let family = file.family;
    let int = |hparam| file.hparams.int(hparam);
    let (n_embd, n_head) = (u64::from(int(Hparam::Embd)), u64::from(int(Hparam::Head)).max(1));
    let head_len = n_embd / n_head;
    let mut arranged = Vec::new();
    let mut left_out = Vec::new();
    for tensor in &file.tensors {
        match name(family, &tensor.name) {
            Name::Output(named) => arranged.push(Arranged::new(tensor, named)),
            Name::LeftOut(reason) => left_out.push((tensor.name.clone(), reason)),
            Name::Unknown => {
                let (path, tensor) = (file.path().to_owned(), tensor.name.clone());
                return Err(Error::UnknownTensor { path, tensor, family });
            }
        }
    }
    let shared = family == Family::StarCoder && has_one_key(file, &arranged, n_embd, head_len)?;
    let is_transposed = is_transposed(family, &arranged, n_embd);
    for item in &mut arranged {
        let wants = |expected: String| Error::Shape {
            path: file.path().to_owned(),
            tensor: item.tensor.name.clone(),
            found: item.tensor.shape.clone(),
            expected,
        };
        if is_transposed && is_one_of_transposed(family, &item.named) && item.shape.len() == 2 {
            if !matches!(item.tensor.encoding, Encoding::Present(GgmlType::F32 | GgmlType::F16)) {
                let what =
                    "matrices that are not transposed, as before March 29, 2023, can be migrated only as F16 or F32";
                return Err(Error::Unsupported { path: file.path().to_owned(), what });
            }
            item.transposed = true;
            item.shape.reverse();
        }
        if item.named.stem != "attn_qkv" {
            continue;
        }
        let n_rows = if item.named.name.ends_with(".bias") {
            item.shape.first().copied().unwrap_or(0)
        } else {
            item.shape.get(1).copied().unwrap_or(0)
        };
        match family {
            Family::GptNeox => {
                if n_rows != 3 * n_embd {
                    return Err(wants(format!("three times {n_embd} rows")));
                }
                // The file has queries, keys and values of each head; the output has all queries, all keys, all values.
                let of_head = |part: u64| (0..n_head).map(move |head| (3 * head + part) * head_len);
                let starts = (0..3).flat_map(of_head);
                item.reorder(head_len, starts.map(|from| Run { from, n: head_len }).collect());
            }
            Family::StarCoder if shared => {
                let rows = [(0, n_embd), (n_embd, head_len), (2 * n_embd, head_len)];
                item.reorder(head_len, rows.iter().map(|&(from, n)| Run { from, n }).collect());
            }
            _ => {}
        }
    }
    let n_head_kv = match family {
        Family::StarCoder if shared => Some(1),
        Family::Falcon => Some(int(Hparam::HeadKv)),
        Family::Llama => keys_of_llama(file, &arranged, head_len)?,
        _ => None,
    };
    let find =
        |stem: &str| arranged.iter().find(|item| item.named.stem == stem && item.named.name.ends_with(".weight"));
    let up = find("ffn_up").or_else(|| find("channel_mix_key"));
    let n_ff = up.and_then(|item| item.shape.get(1).copied());
    Ok(Arrangement { tensors: arranged, left_out, n_head_kv, n_ff })
}

impl<'f> Arranged<'f> {
    pub(crate) fn new(tensor: &'f Tensor, named: Named) -> Arranged<'f> {
        let mut shape = tensor.shape.clone();
        // Some vectors were stored as matrices of one column or row.
        while shape.len() > 1 && shape.last() == Some(&1) {
            shape.pop();
        }
        if shape.len() == 2 && shape.first() == Some(&1) && !matches!(named.stem, "ffn_gate_inp") {
            shape.remove(0);
        }
        let row_len = tensor.shape.first().copied().unwrap_or(1);
        let n_rows = tensor.shape.iter().skip(1).product();
        let order = vec![Run { from: 0, n: n_rows }];
        Arranged { tensor, named, shape, row_len, order, transposed: false }
    }

    /// The pieces of the file, in rows of the length of the reordering unit.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let cut = |piece: &Piece| match piece.row_len.checked_div(self.row_len) {
            Some(n) if piece.row_len > self.row_len => {
                Piece { row_len: self.row_len, n_rows: piece.n_rows.saturating_mul(n), ..*piece }
            }
            _ => *piece,
        };
        match self.tensor.are_columns {
            true => self.tensor.pieces.clone(),
            false => self.tensor.pieces.iter().map(cut).collect(),
        }
    }

    /// Reorders the rows of a matrix, or the elements of a vector in pieces of `part`.
    fn reorder(&mut self, part: u64, order: Vec<Run>) {
        let n_rows: u64 = order.iter().map(|run| run.n).sum();
        if self.named.name.ends_with(".bias") {
            self.row_len = part;
            let part = part.max(1);
            self.order = order.iter().map(|run| Run { from: run.from / part, n: run.n / part }).collect();
            self.shape = vec![n_rows];
        } else {
            self.order = order;
            if let Some(rows) = self.shape.get_mut(1) {
                *rows = n_rows;
            }
        }
    }
}

/// Whether the matrices of a model are stored as in the checkpoint of GPT-2 or GPT-J: then the widest of them is transposed.
fn is_transposed(family: Family, tensors: &[Arranged<'_>], n_embd: u64) -> bool {
    let (stem, factor) = match family {
        Family::Gpt2 => ("attn_qkv", 3),
        Family::GptJ => ("ffn_up", 4),
        _ => return false,
    };
    let on_its_side = [factor * n_embd, n_embd];
    tensors.iter().any(|item| item.named.stem == stem && item.shape == on_its_side)
}

/// The matrices that early converters did not transpose: `convert-h5-to-ggml.py` of GPT-2 and GPT-J in the examples of ggml.
fn is_one_of_transposed(family: Family, named: &Named) -> bool {
    match family {
        Family::Gpt2 => matches!(named.stem, "attn_qkv" | "attn_output" | "ffn_up"),
        _ => matches!(named.stem, "attn_q" | "attn_k" | "attn_v" | "attn_output" | "ffn_up"),
    }
}

/// The number of key heads of a Llama, from the shapes of its key matrices.
fn keys_of_llama(file: &LegacyFile, tensors: &[Arranged<'_>], head_len: u64) -> Result<Option<u32>, Error> {
    let mut found = None;
    for item in tensors.iter().filter(|item| item.named.stem == "attn_k") {
        let rows = item.shape.get(1).copied().unwrap_or(0);
        let n = rows.checked_div(head_len).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let n_head = file.hparams.int(Hparam::Head);
        let is_right = n > 0 && rows.is_multiple_of(head_len) && n_head.is_multiple_of(n);
        if !is_right || found.is_some_and(|found| found != n) {
            return Err(Error::Shape {
                path: file.path().to_owned(),
                tensor: item.tensor.name.clone(),
                found: item.tensor.shape.clone(),
                expected: format!("whole heads of {head_len} rows, as many as divide {n_head}, the same in all blocks"),
            });
        }
        found = Some(n);
    }
    Ok(found)
}

/// Whether a StarCoder has a single head of keys and values, which its converter repeated for each query head.
fn has_one_key(file: &LegacyFile, tensors: &[Arranged<'_>], n_embd: u64, head_len: u64) -> Result<bool, Error> {
    let n_head = n_embd.checked_div(head_len).unwrap_or(0);
    let mut is_any = false;
    for item in tensors.iter().filter(|item| item.named.stem == "attn_qkv") {
        let is_bias = item.named.name.ends_with(".bias");
        let n_rows = item.shape.get(usize::from(!is_bias)).copied().unwrap_or(0);
        let Some(piece) = item.tensor.pieces.first() else { return Ok(false) };
        if n_rows != 3 * n_embd || n_head < 2 {
            return Ok(false);
        }
        let (block_len, block_bytes) = item.tensor.encoding.block();
        let row_bytes = if is_bias { block_bytes } else { piece.row_len / block_len * block_bytes };
        let bytes = usize::try_from(head_len * row_bytes).unwrap_or(usize::MAX);
        // No head is that large.
        if bytes > 32 << 20 {
            return Ok(false);
        }
        let (mut first, mut other) = (vec![0; bytes], vec![0; bytes]);
        for part in [n_embd, 2 * n_embd] {
            file.read(piece.part, piece.offset + part * row_bytes, &mut first)?;
            for head in 1..n_head {
                file.read(piece.part, piece.offset + (part + head * head_len) * row_bytes, &mut other)?;
                if first != other {
                    return Ok(false);
                }
            }
        }
        is_any = true;
    }
    Ok(is_any)
}
