// Tensors grouped by layer.

/** What is known of a tensor. */
export interface Sized {
  name: string;
  type: string;
  elements: number;
  bytes: number;
}

export interface Layer {
  /** Such as `blk.3`; empty for tensors that belong to no layer. */
  name: string;
  tensors: number;
  /** Types and their numbers of tensors, the most frequent first. */
  types: [string, number][];
  elements: number;
  bytes: number;
}

/** The layer of a tensor: its name up to the first part that is a number. */
export function layerOf(name: string): string {
  return /^(?:[^.]+\.)*?\d+(?=\.)/.exec(name)?.[0] ?? "";
}

/** Adds up tensors by layer, in the order in which layers appear. */
export class Layers {
  private readonly known = new Map<string, Omit<Layer, "types"> & { types: Map<string, number> }>();

  add({ name, type, elements, bytes }: Sized): void {
    const key = layerOf(name);
    const layer = this.known.get(key) ?? { name: key, tensors: 0, types: new Map<string, number>(), elements: 0, bytes: 0 };
    this.known.set(key, layer);
    layer.tensors++;
    layer.elements += elements;
    layer.bytes += bytes;
    layer.types.set(type, (layer.types.get(type) ?? 0) + 1);
  }

  list(): Layer[] {
    return [...this.known.values()].map((layer) => ({ ...layer, types: [...layer.types].sort((a, b) => b[1] - a[1]) }));
  }
}

/** Types with their numbers of tensors: `q4_K × 5, f32 × 2`. */
export function typesText(types: [string, number][]): string {
  return types.map(([type, n]) => `${type} × ${n}`).join(", ");
}
