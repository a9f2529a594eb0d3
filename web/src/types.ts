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

/** What the page asks the worker. */
export type Ask =
  | { kind: "files"; files: File[]; name: string }
  | { kind: "address"; address: string; token: string }
  | { kind: "findings" }
  | { kind: "findKvs"; part: string }
  | { kind: "kvs"; from: number; n: number }
  | { kind: "text"; kv: number }
  | { kind: "elements"; kv: number; from: number; n: number }
  | { kind: "findTensors"; part: string; order: number; descending: boolean }
  | { kind: "tensors"; from: number; n: number }
  | { kind: "tokenizer" }
  | { kind: "findTokens"; part: string; type: number }
  | { kind: "tokens"; from: number; n: number }
  | { kind: "templates" }
  | { kind: "estimate"; context: number; typeK: number; typeV: number; flash: boolean; gpuLayers: number };

export interface Opened {
  overview: Overview;
  /** Bytes of the module's memory. */
  memory: number;
  /** Milliseconds from the question to the answer. */
  milliseconds: number;
  /** Milliseconds in the module. */
  parsing: number;
}
