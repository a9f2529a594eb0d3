//! A graph of tensors without data, and the size of the buffer that ggml's graph allocator needs for it.
//!
//! The rules are those of `ggml-alloc.c`: leaves first, then each node in order; freed blocks are reused, best fit first; some operations
//! overwrite their input. Sizes are those of the CPU backend, in multiples of 32 bytes.

/// Alignment of tensors in a buffer of the CPU backend (`TENSOR_ALIGNMENT` in `ggml-impl.h`).
const ALIGNMENT: u64 = 32;

/// The index of a tensor in its graph.
pub(super) type Id = usize;

/// The element types of intermediate values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ty {
    F32,
    F16,
    I32,
    I64,
}

impl Ty {
    fn bytes(self) -> u64 {
        match self {
            Ty::F32 | Ty::I32 => 4,
            Ty::F16 => 2,
            Ty::I64 => 8,
        }
    }
}

#[derive(Debug, Clone)]
struct Tensor {
    ty: Ty,
    ne: [u64; 4],
    nb: [u64; 4],
    /// Whether the tensor is a weight or a cache, with separate memory.
    is_external: bool,
    /// The base tensor of a view, never a view itself.
    view_of: Option<Id>,
    /// Whether the operation may overwrite its input.
    in_place: bool,
    /// Whether the tensor is an input.
    is_leaf: bool,
    src: Vec<Id>,
}

/// Tensors, and their order of computation.
#[derive(Debug, Default)]
pub(super) struct Graph {
    tensors: Vec<Tensor>,
    is_visited: Vec<bool>,
    nodes: Vec<Id>,
    leafs: Vec<Id>,
}

fn strides(ty: Ty, ne: [u64; 4]) -> [u64; 4] {
    let mut stride = ty.bytes();
    ne.map(|n| {
        let next = stride.saturating_mul(n);
        std::mem::replace(&mut stride, next)
    })
}

impl Graph {
    fn add(&mut self, tensor: Tensor) -> Id {
        self.tensors.push(tensor);
        self.is_visited.push(false);
        self.tensors.len() - 1
    }

    fn new_tensor(&mut self, ty: Ty, ne: [u64; 4]) -> Tensor {
        let nb = strides(ty, ne);
        Tensor { ty, ne, nb, is_external: false, view_of: None, in_place: false, is_leaf: false, src: Vec::new() }
    }

    /// A weight or a cache.
    pub(super) fn external(&mut self) -> Id {
        let tensor = self.new_tensor(Ty::F32, [0, 1, 1, 1]);
        self.add(Tensor { is_external: true, is_leaf: true, ..tensor })
    }

    /// An input of the graph.
    pub(super) fn input(&mut self, ty: Ty, ne: [u64; 4]) -> Id {
        let tensor = self.new_tensor(ty, ne);
        self.add(Tensor { is_leaf: true, ..tensor })
    }

    /// The result of an operation that allocates memory.
    pub(super) fn op(&mut self, ty: Ty, ne: [u64; 4], src: &[Id]) -> Id {
        let tensor = self.new_tensor(ty, ne);
        self.add(Tensor { src: src.to_vec(), ..tensor })
    }

    /// The result of an operation that may overwrite an input of the same layout, such as an addition; it has the shape of the first.
    pub(super) fn in_place(&mut self, src: &[Id]) -> Id {
        let first = src.first().and_then(|&id| self.tensors.get(id));
        let (ty, ne) = first.map_or((Ty::F32, [0, 1, 1, 1]), |first| (first.ty, first.ne));
        let tensor = self.new_tensor(ty, ne);
        self.add(Tensor { in_place: true, src: src.to_vec(), ..tensor })
    }

    /// Another view of a tensor's elements, with the strides of a tensor of that shape.
    pub(super) fn view(&mut self, of: Id, ne: [u64; 4]) -> Id {
        let (ty, root) = self.tensors.get(of).map_or((Ty::F32, of), |t| (t.ty, t.view_of.unwrap_or(of)));
        let tensor = self.new_tensor(ty, ne);
        self.add(Tensor { view_of: Some(root), src: vec![of], ..tensor })
    }

    /// A view whose rows are non-contiguous rows of another tensor.
    pub(super) fn strided_view(&mut self, of: Id, ne: [u64; 4]) -> Id {
        let id = self.view(of, ne);
        let row = self.tensors.get(of).map_or(0, |t| t.nb[1]);
        if let Some(view) = self.tensors.get_mut(id) {
            view.nb = [view.nb[0], view.nb[1], row, row.saturating_mul(ne[2])];
        }
        id
    }

    /// A view with its second and third dimensions swapped.
    pub(super) fn permuted(&mut self, of: Id) -> Id {
        let (ne, nb) = self.tensors.get(of).map_or(([0, 1, 1, 1], [0; 4]), |t| (t.ne, t.nb));
        let id = self.view(of, [ne[0], ne[2], ne[1], ne[3]]);
        if let Some(view) = self.tensors.get_mut(id) {
            view.nb = [nb[0], nb[2], nb[1], nb[3]];
        }
        id
    }

    /// A write into a part of a tensor; the result is a view of it.
    pub(super) fn write_into(&mut self, of: Id, src: &[Id]) -> Id {
        let id = self.view(of, [0, 1, 1, 1]);
        if let Some(view) = self.tensors.get_mut(id) {
            view.src = src.to_vec();
        }
        id
    }

    /// The shape of a tensor.
    pub(super) fn ne(&self, id: Id) -> [u64; 4] {
        self.tensors.get(id).map_or([0, 1, 1, 1], |t| t.ne)
    }

    /// Adds a tensor to the order, after all its inputs.
    pub(super) fn expand(&mut self, id: Id) {
        // Iterative, because a chain of operations is as long as the model is deep.
        let mut stack = vec![(id, 0)];
        while let Some((id, next)) = stack.pop() {
            if next == 0 {
                match self.is_visited.get_mut(id) {
                    Some(visited) if !*visited => *visited = true,
                    _ => continue,
                }
            }
            let Some(tensor) = self.tensors.get(id) else { continue };
            match tensor.src.get(next) {
                Some(&src) => {
                    stack.push((id, next + 1));
                    stack.push((src, 0));
                }
                None if tensor.is_leaf => self.leafs.push(id),
                None => self.nodes.push(id),
            }
        }
    }

    /// Number of operations.
    #[cfg(test)]
    pub(super) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    fn bytes(&self, id: Id) -> u64 {
        self.tensors.get(id).map_or(0, |t| t.ne.iter().fold(t.ty.bytes(), |n, &ne| n.saturating_mul(ne)))
    }

    /// The size of the buffer for all tensors without separate memory.
    pub(super) fn buffer_bytes(&self) -> u64 {
        let n = self.tensors.len();
        let mut alloc = Allocation { graph: self, blocks: Blocks::default(), state: vec![State::default(); n] };
        alloc.run();
        alloc.blocks.most
    }
}

/// The state of a tensor during allocation.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    n_children: u32,
    n_views: u32,
    /// The offset, if it is allocated in the buffer.
    at: Option<u64>,
    is_allocated: bool,
}

struct Allocation<'a> {
    graph: &'a Graph,
    blocks: Blocks,
    state: Vec<State>,
}

#[expect(clippy::indexing_slicing, reason = "tensors have a state each")]
impl Allocation<'_> {
    fn state(&self, id: Id) -> &State {
        &self.state[id]
    }

    fn state_mut(&mut self, id: Id) -> &mut State {
        &mut self.state[id]
    }
}

impl Allocation<'_> {
    fn run(&mut self) {
        for &leaf in &self.graph.leafs {
            self.allocate(leaf);
        }
        for &node in &self.graph.nodes {
            let Some(tensor) = self.graph.tensors.get(node) else { continue };
            if let Some(root) = tensor.view_of {
                self.state_mut(root).n_views += 1;
            }
            for &src in &tensor.src {
                self.state_mut(src).n_children += 1;
            }
        }
        for &node in &self.graph.nodes {
            let Some(tensor) = self.graph.tensors.get(node) else { continue };
            for &src in &tensor.src {
                self.allocate(src);
            }
            self.allocate(node);
            for &src in &tensor.src {
                self.let_go(src);
            }
        }
    }

    fn allocate(&mut self, id: Id) {
        let Some(tensor) = self.graph.tensors.get(id) else { return };
        if tensor.is_external || tensor.view_of.is_some() || self.state(id).is_allocated {
            return;
        }
        self.state_mut(id).is_allocated = true;
        if tensor.in_place {
            for &src in &tensor.src {
                if self.take_over(id, src) {
                    return;
                }
            }
        }
        let at = self.blocks.take(self.graph.bytes(id));
        self.state_mut(id).at = Some(at);
    }

    /// Reuses the memory of an input that no other node needs.
    fn take_over(&mut self, id: Id, src: Id) -> bool {
        let graph = self.graph;
        let (Some(tensor), Some(parent)) = (graph.tensors.get(id), graph.tensors.get(src)) else { return false };
        let is_same = tensor.ty == parent.ty && tensor.ne == parent.ne && tensor.nb == parent.nb;
        // A view has no memory to reuse.
        let state = *self.state(src);
        if !is_same || !state.is_allocated || state.n_children != 1 || state.n_views != 0 {
            return false;
        }
        self.state_mut(id).at = state.at;
        self.state_mut(src).is_allocated = false;
        true
    }

    /// Called when a node that reads a tensor is done.
    fn let_go(&mut self, id: Id) {
        let Some(tensor) = self.graph.tensors.get(id) else { return };
        let state = self.state_mut(id);
        state.n_children = state.n_children.saturating_sub(1);
        if state.n_children > 0 || state.n_views > 0 {
            return;
        }
        let owner = match tensor.view_of {
            Some(root) => {
                let state = self.state_mut(root);
                state.n_views = state.n_views.saturating_sub(1);
                if state.n_views > 0 || state.n_children > 0 {
                    return;
                }
                root
            }
            None => id,
        };
        let state = self.state_mut(owner);
        if let (true, Some(at)) = (state.is_allocated, state.at) {
            state.is_allocated = false;
            self.blocks.free(at, aligned(self.graph.bytes(owner)));
        }
    }
}

fn aligned(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT)
}

/// Free blocks of a buffer, by address; the last is unbounded.
#[derive(Debug)]
struct Blocks {
    free: Vec<(u64, u64)>,
    most: u64,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { free: vec![(0, u64::MAX / 2)], most: 0 }
    }
}

impl Blocks {
    /// Takes the smallest sufficient block, the last of equal ones; extends the buffer if there is none.
    fn take(&mut self, bytes: u64) -> u64 {
        let bytes = aligned(bytes);
        let last = self.free.len().saturating_sub(1);
        let mut best = last;
        let mut size = u64::MAX;
        for (i, &(_, len)) in self.free.iter().enumerate().take(last) {
            if len >= bytes && len <= size {
                (best, size) = (i, len);
            }
        }
        let Some(block) = self.free.get_mut(best) else { return 0 };
        let at = block.0;
        *block = (at.saturating_add(bytes), block.1.saturating_sub(bytes));
        if block.1 == 0 {
            self.free.remove(best);
        }
        self.most = self.most.max(at.saturating_add(bytes));
        at
    }

    fn free(&mut self, at: u64, bytes: u64) {
        let place = self.free.partition_point(|&(start, _)| start < at);
        self.free.insert(place, (at, bytes));
        // Merges with the next and with the previous block.
        for i in [place, place.saturating_sub(1)] {
            if let Some([(a, n), (b, m)]) = self.free.get_mut(i..i + 2)
                && a.saturating_add(*n) == *b
            {
                *n = n.saturating_add(*m);
                self.free.remove(i + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let mut graph = Graph::default();
        let input = graph.input(Ty::F32, [100, 1, 1, 1]);
        let weight = graph.external();
        // 100 floats, then a chain in which only two neighbours are live at a time.
        let mut cur = input;
        for _ in 0..10 {
            cur = graph.op(Ty::F32, [64, 1, 1, 1], &[weight, cur]);
        }
        graph.expand(cur);
        assert_eq!(graph.n_nodes(), 10);
        assert_eq!(graph.buffer_bytes(), 416 + 256);
    }

    #[test]
    fn an_addition_writes_over_its_input() {
        let mut graph = Graph::default();
        let input = graph.input(Ty::F32, [64, 1, 1, 1]);
        let a = graph.op(Ty::F32, [64, 1, 1, 1], &[input]);
        let b = graph.op(Ty::F32, [64, 1, 1, 1], &[input]);
        let sum = graph.in_place(&[a, b]);
        graph.expand(sum);
        assert_eq!(graph.buffer_bytes(), 3 * 256);
        // A view of an input cannot be overwritten.
        let view = graph.view(sum, [8, 8, 1, 1]);
        let last = graph.in_place(&[view]);
        let last = graph.in_place(&[last]);
        graph.expand(last);
        assert_eq!(graph.buffer_bytes(), 3 * 256);
        let kept = graph.in_place(&[sum, last]);
        graph.expand(kept);
        assert_eq!(graph.buffer_bytes(), 3 * 256);
    }

    #[test]
    fn the_best_block_is_taken() {
        let mut blocks = Blocks::default();
        let places: Vec<u64> = [64, 32, 96, 32, 32].map(|n| blocks.take(n)).into();
        assert_eq!(places, [0, 64, 96, 192, 224]);
        blocks.free(96, 96);
        blocks.free(0, 64);
        assert_eq!(blocks.take(40), 0);
        assert_eq!(blocks.take(33), 96);
        blocks.free(64, 32);
        blocks.free(0, 64);
        assert_eq!(blocks.take(96), 0);
        assert_eq!(blocks.most, 256);
    }
}
