// What the worker answers. Integers that may be large are decimal texts with all digits.

export interface FileRow {
  name: string;
  file_bytes: string;
  head_bytes: string;
  data_offset: string;
  n_keys: number;
  n_tensors: number;
}

export interface TypeShare {
  type: string;
  n_tensors: number;
  n_parameters: string;
  bytes: string;
}

export interface Summary {
  [field: string]: string | number | null | TypeShare[];
  types: TypeShare[];
}

export interface Overview {
  error?: string;
  name: string;
  files: FileRow[];
  missing: string[];
  format: { version: number; draft: boolean; byte_order: string; alignment: string };
  summary: Summary;
  n_tokens: number;
  n_templates: number;
}

export interface Finding {
  file: string;
  code: string;
  severity: "error" | "warning" | "note";
  structural: boolean;
  place: string;
  name: string | null;
  offset: string | null;
  message: string;
  expected: string;
  hint: string;
}

export interface Findings {
  error?: string;
  errors: number;
  warnings: number;
  notes: number;
  safe: boolean;
  findings: Finding[];
}

export interface KvRow {
  index: number;
  key: string;
  type: string;
  offset: string;
  value: string;
  /** Of arrays. */
  element_type?: string;
  length?: string;
  /** Of strings. */
  bytes?: number;
  doc?: string;
  unit?: string;
}

export interface TensorRow {
  name: string;
  shape: string[];
  type: string;
  type_id: number;
  n_elements: string | null;
  bytes: string | null;
  offset: string | null;
  shard: number;
  index: number;
}

/** What is needed to ask for parts of a tensor. */
export interface Described {
  error?: string;
  row_len: string;
  n_rows: string;
  row_bytes: string;
  /** The byte of the file at which the data starts. */
  start: string;
  bytes: string;
  /** Bytes whose sums are added up. */
  step: string;
}

export interface Statistics {
  n: string;
  nan: string;
  infinite: string;
  zeros: string;
  outliers: string;
  min: string | null;
  max: string | null;
  mean: number | null;
  stddev: number | null;
  rms: number | null;
  histogram: number[];
  /** Whether these are the figures of a part of the tensor. */
  sample: boolean;
  milliseconds: number;
}

/** A part of a tensor. */
export interface Region {
  rows: [number, number];
  columns: [number, number];
}

export interface HeatMap extends Region {
  lines: number;
  cells: number;
  /** For each cell, line by line: root mean square, smallest, largest. */
  numbers: Float32Array;
  /** Whether only one row of each line was read. */
  sample: boolean;
}

export interface Figures {
  n: string;
  not_finite: string;
  rmse: number;
  relative: number | "infinite";
  cosine: number;
  largest: { error: number; row: string; column: string } | null;
}

/** The comparison of a tensor's data. */
export interface Difference {
  same: boolean;
  error: Figures;
  sample: boolean;
}

/** A type that a tensor can have. */
export interface OfferedType {
  id: number;
  type: string;
  /** Of the tensor. */
  bytes: string;
}

/** The error of a tensor as another type. */
export interface Cost {
  error: Figures;
  sample: boolean;
}

export interface Compared {
  error?: string;
  n_keys: number;
  n_same_keys: number;
  n_tensors: number;
  /** Whether files of a server are among those compared. */
  remote: boolean;
}

type Both<T> = [T | null, T | null];

export interface ComparedKey {
  key: string;
  a: string | null;
  b: string | null;
  types: Both<string>;
  elements: { different: string; first: string | null } | null;
}

export interface ComparedTensor {
  index: number;
  name: string;
  shapes: Both<string[]>;
  types: Both<string>;
  n_elements: string | null;
  data: Both<Described>;
  places: Both<[number, number]>;
}

/** An edit, as the page stages it. */
export type Edit = { set: string } | { unset: string } | { rename: [string, string] };

export interface Edited {
  error?: string;
  /** The index of the edit that cannot be made. */
  edit?: number | null;
  changes: { key: string; from?: string; before?: string; after?: string }[];
  findings: { severity: string; message: string; hint: string }[];
  file_bytes: string;
  data_offset: string;
}

export interface TokenRow {
  id: number;
  text: string;
  bytes: string | null;
  type: number | null;
  score: string | null;
}

export interface Tokenizer {
  error?: string;
  model: string;
  pre: string | null;
  n_tokens: number;
  n_merges: number;
  special: { role: string; id: number }[];
  add_bos: boolean | null;
  add_eos: boolean | null;
  add_space_prefix: boolean | null;
  bytes_known: boolean;
}

export interface Template {
  name: string;
  text: string;
}

export interface Memory {
  weights: string;
  kv_cache: string;
  states: string;
  compute: string;
  output: string;
  total: string;
}

export interface Estimate {
  error?: string;
  n_ctx: string;
  n_ctx_train: string | null;
  n_layers: number;
  n_gpu_layers: number;
  host: Memory;
  gpu: Memory;
  assumptions: string[];
}

/** A model: files of this machine, of which one has the name, or an address. */
export type FilesOf = { files: File[]; name: string } | { address: string; token: string };

/** What the page asks the worker. */
export type Ask =
  | { kind: "open"; from: FilesOf }
  | { kind: "findings" }
  | { kind: "findKvs"; part: string }
  | { kind: "kvs"; from: number; n: number }
  | { kind: "text"; kv: number }
  | { kind: "elements"; kv: number; from: number; n: number }
  | { kind: "findTensors"; part: string; order: number; descending: boolean }
  | { kind: "tensors"; from: number; n: number }
  | { kind: "findLayers" }
  | { kind: "layers"; from: number; n: number }
  | { kind: "tokenizer" }
  | { kind: "findTokens"; part: string; type: number }
  | { kind: "tokens"; from: number; n: number }
  | { kind: "templates" }
  | { kind: "statistics"; shard: number; index: number; bins: number; whole: boolean }
  | ({ kind: "map"; shard: number; index: number; lines: number; cells: number; compared: boolean; whole: boolean } & Region)
  | { kind: "values"; shard: number; index: number; row: number; nRows: number; column: number; nColumns: number }
  | { kind: "compare"; from: FilesOf }
  | { kind: "comparedKeys" | "comparedTensors"; from: number; n: number }
  | { kind: "difference"; index: number; whole: boolean }
  | { kind: "types"; shard: number; index: number }
  | { kind: "cost"; shard: number; index: number; type: number; whole: boolean }
  | { kind: "edits"; edits: Edit[] }
  | { kind: "editedHead"; edits: Edit[] }
  | { kind: "estimate"; context: number; typeK: number; typeV: number; flash: boolean; gpuLayers: number };

export interface Opened {
  overview: Overview;
  /** Whether the file is that of a server. */
  remote: boolean;
  /** Bytes of the module's memory. */
  memory: number;
  /** Milliseconds from the question to the answer. */
  milliseconds: number;
  /** Milliseconds in which the module waited for bytes of the file. */
  reading: number;
  /** Milliseconds in the module, without those. */
  parsing: number;
}
