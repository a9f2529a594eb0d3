//! The files of tensors: their division, their heads, and the index.

use serde_json::{Map, Value as Json, json};

use super::parameters::Parameter;
use super::sources::NewTensor;
use crate::dtype::Dtype;

/// A file of tensors.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) head: Vec<u8>,
    pub(super) n_tensors: usize,
    pub(super) n_bytes: u64,
}

/// The most files that are written to keep an unusual order of tensors.
const MAX_RUNS: usize = 200;

/// Divides the tensors into files, so that a conversion, which reads those of a file by name, finds them in the order of the GGUF file. Each
/// group is sorted by name and becomes a file, or several if it is longer than `max_bytes`. Without `keeps_order` there is one group.
pub(super) fn grouped(
    tensors: Vec<(NewTensor, Dtype)>,
    max_bytes: u64,
    keeps_order: bool,
) -> Vec<Vec<(NewTensor, Dtype)>> {
    // The place of a tensor of the GGUF file is that of its last source by name.
    let mut last: Vec<&str> = Vec::new();
    for (tensor, _) in &tensors {
        if last.len() <= tensor.of {
            last.resize(tensor.of + 1, "");
        }
        if let Some(place) = last.get_mut(tensor.of)
            && *place < tensor.name.as_str()
        {
            *place = &tensor.name;
        }
    }
    let (mut run, mut before) = (0usize, "");
    let runs: Vec<usize> = last
        .iter()
        .map(|name| {
            if !name.is_empty() {
                run += usize::from(*name < before && !is_stacked(name, before));
                before = name;
            }
            run
        })
        .collect();
    let n_runs = if keeps_order && run < MAX_RUNS { run + 1 } else { 1 };
    let mut groups: Vec<Vec<(NewTensor, Dtype)>> = (0..n_runs).map(|_| Vec::new()).collect();
    let place = |of: usize| if n_runs == 1 { 0 } else { runs.get(of).copied().unwrap_or(0) };
    for (tensor, dtype) in tensors {
        if let Some(group) = groups.get_mut(place(tensor.of)) {
            group.push((tensor, dtype));
        }
    }
    let mut divided = Vec::new();
    for mut group in groups {
        group.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let (mut part, mut bytes): (Vec<(NewTensor, Dtype)>, u64) = (Vec::new(), 0);
        for (tensor, dtype) in group {
            let own = dtype.tensor_bytes(&tensor.shape).unwrap_or(0);
            if bytes.saturating_add(own) > max_bytes && !part.is_empty() {
                divided.push(std::mem::take(&mut part));
                bytes = 0;
            }
            bytes = bytes.saturating_add(own);
            part.push((tensor, dtype));
        }
        if !part.is_empty() {
            divided.push(part);
        }
    }
    divided
}

/// Whether two names are those of experts of one block, which a conversion writes together.
fn is_stacked(a: &str, b: &str) -> bool {
    let before = |name: &str| name.rfind("experts.").map(|at| name.get(..at).unwrap_or_default().to_owned());
    before(a).is_some() && before(a) == before(b)
}

/// The files of the groups and of the parameters, and the index of several.
pub(super) fn shards(groups: &[Vec<(NewTensor, Dtype)>], parameters: &[Parameter]) -> (Vec<Shard>, Option<Json>) {
    let of_parameters: Vec<(NewTensor, Dtype)> =
        parameters.iter().map(|parameter| (parameter.tensor.clone(), parameter.dtype)).collect();
    let groups: Vec<&[_]> =
        groups.iter().map(Vec::as_slice).chain((!of_parameters.is_empty()).then_some(&*of_parameters)).collect();
    let n = groups.len();
    let (mut shards, mut places, mut total) = (Vec::new(), Map::new(), 0u64);
    for (i, group) in groups.into_iter().enumerate() {
        let name = match n {
            1 => "model.safetensors".to_owned(),
            _ => format!("model-{:05}-of-{n:05}.safetensors", i + 1),
        };
        let mut file = shard(name, group);
        total += file.n_bytes - file.head.len() as u64;
        // The data of the parameters is known: it follows the head, and no tensor is left to write.
        if i + 1 == n && !parameters.is_empty() {
            file.head.extend(parameters.iter().flat_map(|parameter| &parameter.data));
            file.n_tensors = 0;
        }
        places.extend(group.iter().map(|(tensor, _)| (tensor.name.clone(), json!(file.name))));
        shards.push(file);
    }
    let index = (n > 1).then(|| json!({ "metadata": { "total_size": total }, "weight_map": places }));
    (shards, index)
}

/// A file of tensors, in their order.
pub(super) fn shard(name: String, tensors: &[(NewTensor, Dtype)]) -> Shard {
    let (mut entries, mut end) = (Map::new(), 0u64);
    entries.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    for (tensor, dtype) in tensors {
        let bytes = dtype.tensor_bytes(&tensor.shape).unwrap_or(0);
        let entry = json!({ "dtype": dtype.name, "shape": tensor.shape, "data_offsets": [end, end + bytes] });
        end += bytes;
        entries.insert(tensor.name.clone(), entry);
    }
    let mut text = Json::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.append(&mut text);
    Shard { name, n_bytes: head.len() as u64 + end, head, n_tensors: tensors.len() }
}
