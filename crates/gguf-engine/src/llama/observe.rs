//! Sums of the squared inputs of matrix products, collected while the library evaluates: `IMatrixCollector::collect_imatrix` in
//! `tools/imatrix/imatrix.cpp`, including the order of additions.

use std::collections::BTreeMap;
use std::ffi::c_void;

use super::abi::{Abi, TYPE_F32, Tensor, text};
use crate::engine::{Observe, Observed, Sums};
use crate::{Error, ErrorKind};

/// Inputs with fewer rows are those of single tokens, which are not collected.
const MIN_ROWS: i64 = 16;

/// The sums so far, and what the callback needs.
pub struct Observer<'a> {
    abi: &'a Abi,
    what: Observe,
    pub sums: Observed,
    /// The sums of finished groups of evaluations, for one that is cancelled.
    finished: Observed,
    /// The first problem.
    pub failure: Option<Error>,
    inputs: Vec<f32>,
    ids: Vec<i32>,
}

/// The callback of the library.
///
/// # Safety
/// `user` is an [`Observer`], which no one else uses during the call.
pub unsafe extern "C" fn callback(tensor: *mut Tensor, ask: bool, user: *mut c_void) -> bool {
    // SAFETY: guaranteed by the caller.
    let observer = unsafe { &mut *user.cast::<Observer<'_>>() };
    // SAFETY: the library passes operations of its graph.
    let Some(seen) = (unsafe { observer.seen(tensor) }) else { return !ask };
    if ask {
        return true;
    }
    // SAFETY: as above; the inputs have been computed.
    match unsafe { observer.add(tensor, &seen) } {
        Ok(()) => true,
        Err(e) => {
            observer.failure.get_or_insert(e);
            false
        }
    }
}

/// A matrix product of interest.
struct Seen {
    name: Vec<u8>,
    /// Whether each token has its own experts.
    is_of_experts: bool,
}

fn unusable(name: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::Evaluation, format!("{}: {why}", String::from_utf8_lossy(name)))
}

impl<'a> Observer<'a> {
    pub fn new(abi: &'a Abi, what: Observe) -> Observer<'a> {
        Observer {
            abi,
            what,
            sums: BTreeMap::new(),
            finished: BTreeMap::new(),
            failure: None,
            inputs: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Begins a group of evaluations: all before are finished.
    pub fn begin(&mut self) {
        if self.what != Observe::Nothing {
            copy(&self.sums, &mut self.finished);
        }
    }

    /// Drops what was added since the group began.
    pub fn roll_back(&mut self) {
        if self.what != Observe::Nothing {
            copy(&self.finished, &mut self.sums);
        }
    }

    /// The weight of a product whose inputs are collected.
    ///
    /// # Safety
    /// The tensor is an operation of the library.
    unsafe fn seen(&self, tensor: *const Tensor) -> Option<Seen> {
        let (f, layout) = (&self.abi.functions, self.abi.layout);
        // SAFETY: guaranteed by the caller; products have two or three inputs.
        unsafe {
            let operation = text((f.ggml_op_desc)(tensor))?;
            let is_of_experts = operation == "MUL_MAT_ID";
            if !is_of_experts && operation != "MUL_MAT" {
                return None;
            }
            let [weight, inputs, _] = layout.src(tensor);
            let name = name_of(&text((f.ggml_get_name)(weight))?).as_bytes().to_vec();
            let wanted = is_of_experts
                || layout.ne(inputs)[1] >= MIN_ROWS
                    && layout.ty(inputs) == TYPE_F32
                    && (name.starts_with(b"blk.") || self.is_output(&name));
            wanted.then_some(Seen { name, is_of_experts })
        }
    }

    /// Whether the weight is that of the output. A tied one has the name of the token embedding.
    fn is_output(&self, name: &[u8]) -> bool {
        self.what == Observe::BlocksAndOutput && (name == b"output.weight" || name == b"token_embd.weight")
    }

    /// Adds the inputs of a product.
    ///
    /// # Safety
    /// The tensor is a product of the library whose inputs have been computed.
    unsafe fn add(&mut self, tensor: *const Tensor, seen: &Seen) -> Result<(), Error> {
        let layout = self.abi.layout;
        // SAFETY: guaranteed by the caller.
        let (weight_ne, inputs_ne, inputs_nb, ids) = unsafe {
            let [weight, inputs, ids] = layout.src(tensor);
            if layout.ty(inputs) != TYPE_F32 || layout.nb(inputs)[0] != 4 {
                return Err(unusable(&seen.name, "its inputs are not rows of F32 values"));
            }
            read(self.abi, inputs, &mut self.inputs)?;
            let ids = if seen.is_of_experts {
                read(self.abi, ids, &mut self.ids)?;
                Some((layout.ne(ids), layout.nb(ids)))
            } else {
                None
            };
            (layout.ne(weight), layout.ne(inputs), layout.nb(inputs), ids)
        };
        let rows = Rows { values: &self.inputs, ne: inputs_ne.map(count), nb: inputs_nb };
        let sums = self.sums.entry(seen.name.clone()).or_default();
        let weight_ne = weight_ne.map(count);
        match ids {
            Some((ne, nb)) => {
                let ids = Ids { values: &self.ids, ne: ne.map(count), nb };
                sums.add_of_experts(&rows, &ids, weight_ne[2]).map_err(|why| unusable(&seen.name, why))?;
            }
            None => sums.add_rows(&rows, weight_ne).map_err(|why| unusable(&seen.name, why))?,
        }
        if sums.values.iter().any(|v| !v.is_finite()) {
            let name = String::from_utf8_lossy(&seen.name);
            return Err(Error::new(
                ErrorKind::NotFinite,
                format!("{name}: its inputs have values that are not finite"),
            ));
        }
        Ok(())
    }
}

/// Copies sums into the memory of others: those of a large mixture of experts take a gigabyte, and are copied before each batch.
fn copy(from: &Observed, to: &mut Observed) {
    to.retain(|name, _| from.contains_key(name));
    for (name, sums) in from {
        match to.get_mut(name) {
            Some(Sums { values, counts }) => {
                values.clone_from(&sums.values);
                counts.clone_from(&sums.counts);
            }
            None => drop(to.insert(name.clone(), sums.clone())),
        }
    }
}

fn count(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// The name of a weight, which has a prefix and a suffix if it was copied to a device: `CUDA0#blk.0.attn_k.weight#0`.
fn name_of(name: &str) -> &str {
    match name.split_once('#') {
        Some((_, rest)) => rest.split_once('#').map_or(rest, |(name, _)| name),
        None => name,
    }
}

/// Reads the data of a tensor, wherever it is.
///
/// # Safety
/// The tensor is one of the library, and its data has been computed.
unsafe fn read<T: Copy + Default>(abi: &Abi, tensor: *const Tensor, into: &mut Vec<T>) -> Result<(), Error> {
    // SAFETY: guaranteed by the caller; the room has at least the number of bytes that are written, and any bits are numbers.
    unsafe {
        let bytes = (abi.functions.ggml_nbytes)(tensor);
        into.clear();
        into.resize(bytes.div_ceil(size_of::<T>()), T::default());
        (abi.functions.ggml_backend_tensor_get)(tensor, into.as_mut_ptr().cast(), 0, bytes);
    }
    Ok(())
}

/// Rows of inputs, with the strides of ggml in bytes.
struct Rows<'a> {
    values: &'a [f32],
    ne: [usize; 4],
    nb: [usize; 4],
}

impl Rows<'_> {
    fn row(&self, i1: usize, i2: usize, i3: usize) -> Result<&[f32], &'static str> {
        let at = (i1 * self.nb[1] + i2 * self.nb[2] + i3 * self.nb[3]) / 4;
        self.values.get(at..at + self.ne[0]).ok_or("its inputs end early")
    }
}

/// The experts of tokens.
struct Ids<'a> {
    values: &'a [i32],
    ne: [usize; 4],
    nb: [usize; 4],
}

impl Sums {
    /// Makes room for `n_mat` matrices.
    fn expect(&mut self, n_values: usize, n_counts: usize) -> Result<(), &'static str> {
        if self.values.is_empty() {
            self.values.resize(n_values, 0.0);
            self.counts.resize(n_counts, 0);
        }
        if self.values.len() != n_values || self.counts.len() != n_counts {
            return Err("the size of its sums differs from those of the matrix that is continued");
        }
        Ok(())
    }

    fn add_of_experts(&mut self, rows: &Rows<'_>, ids: &Ids<'_>, n_experts: usize) -> Result<(), &'static str> {
        let n_columns = rows.ne[0];
        if ids.ne[1] != rows.ne[2] || rows.ne[3] != 1 || rows.ne[1] == 0 {
            return Err("its inputs have an unknown shape");
        }
        // A single count of an older file is that of each expert.
        if let [one] = self.counts.as_slice()
            && n_experts > 1
        {
            self.counts = vec![*one; n_experts];
        }
        self.expect(n_columns * n_experts, n_experts)?;
        for slot in 0..ids.ne[0] {
            for token in 0..rows.ne[2] {
                let id = ids.values.get((token * ids.nb[1] + slot * ids.nb[0]) / 4).ok_or("its experts end early")?;
                let expert = usize::try_from(*id).ok().filter(|&e| e < n_experts).ok_or("an expert does not exist")?;
                if let Some(count) = self.counts.get_mut(expert) {
                    *count += 1;
                }
                let sums = self.values.get_mut(expert * n_columns..(expert + 1) * n_columns).unwrap_or_default();
                add_squares(sums, rows.row(slot % rows.ne[1], token, 0)?);
            }
        }
        Ok(())
    }

    fn add_rows(&mut self, rows: &Rows<'_>, weight: [usize; 4]) -> Result<(), &'static str> {
        let n_columns = rows.ne[0];
        let n_matrices = weight[2] * weight[3];
        if n_matrices == 0 {
            return Err("it has no elements");
        }
        if self.counts.len() > 1 && self.counts.iter().all(|n| Some(n) == self.counts.first()) {
            self.counts.truncate(1);
        }
        let n_counts = self.counts.len().max(1);
        self.expect(n_columns * n_matrices, n_counts)?;
        for i3 in 0..rows.ne[3] {
            for i2 in 0..rows.ne[2] {
                let matrix = (i3 % weight[3]) * weight[2] + i2 % weight[2];
                let sums = self.values.get_mut(matrix * n_columns..(matrix + 1) * n_columns).unwrap_or_default();
                for i1 in 0..rows.ne[1] {
                    add_squares(sums, rows.row(i1, i2, i3)?);
                }
            }
        }
        let n_rows = rows.ne[1] * rows.ne[2] * rows.ne[3] / n_matrices;
        self.counts.iter_mut().for_each(|count| *count += i64::try_from(n_rows).unwrap_or(0));
        Ok(())
    }
}

fn add_squares(sums: &mut [f32], row: &[f32]) {
    for (sum, x) in sums.iter_mut().zip(row) {
        *sum += x * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_devices_add() {
        assert_eq!(name_of("CUDA0#blk.0.attn_k.weight#0"), "blk.0.attn_k.weight");
        assert_eq!(name_of("CUDA0#blk.0.attn_k.weight"), "blk.0.attn_k.weight");
        assert_eq!(name_of("blk.0.attn_k.weight"), "blk.0.attn_k.weight");
    }

    #[test]
    fn copies_of_sums_keep_their_memory() {
        let sums = |x: f32| Sums { values: vec![x; 100], counts: vec![1] };
        let mut from = Observed::from([(b"a".to_vec(), sums(1.0)), (b"b".to_vec(), sums(2.0))]);
        let mut to = Observed::from([(b"z".to_vec(), sums(3.0))]);
        copy(&from, &mut to);
        assert_eq!(to, from);
        let place = |of: &Observed| of[&b"a"[..]].values.as_ptr();
        let before = place(&to);
        from.get_mut(&b"a"[..]).unwrap().values[7] = 4.0;
        copy(&from, &mut to);
        assert_eq!((to == from, place(&to)), (true, before));
    }

    #[test]
    fn experts_get_the_inputs_of_their_tokens() {
        // Two columns, one input for both slots of each of three tokens.
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let rows = Rows { values: &values, ne: [2, 1, 3, 1], nb: [4, 8, 8, 24] };
        // Rows of experts have room for four.
        let ids = Ids { values: &[0, 2, 9, 9, 0, 1, 9, 9, 2, 0], ne: [2, 3, 1, 1], nb: [4, 16, 48, 48] };
        let mut sums = Sums::default();
        sums.add_of_experts(&rows, &ids, 4).unwrap();
        assert_eq!(sums.counts, [3, 1, 2, 0]);
        assert_eq!(sums.values, [35.0, 56.0, 9.0, 16.0, 26.0, 40.0, 0.0, 0.0]);
        assert!(sums.add_of_experts(&rows, &ids, 2).is_err());
    }

    #[test]
    fn matrices_of_a_tensor_share_a_count() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let rows = Rows { values: &values, ne: [1, 2, 2, 1], nb: [4, 4, 8, 16] };
        let mut sums = Sums::default();
        sums.add_rows(&rows, [1, 7, 2, 1]).unwrap();
        assert_eq!((sums.values.as_slice(), sums.counts.as_slice()), ([5.0, 25.0].as_slice(), [2].as_slice()));
        // Inputs of more dimensions are rows of a plain matrix.
        let mut sums = Sums::default();
        sums.add_rows(&rows, [1, 7, 1, 1]).unwrap();
        assert_eq!((sums.values.as_slice(), sums.counts.as_slice()), ([30.0].as_slice(), [4].as_slice()));
    }
}
