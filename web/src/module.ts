// The WebAssembly module of crates/gguf-wasm: one instance for one model.

/** Reads bytes of a file, synchronously. `null` if they cannot be read. */
export type Read = (file: number, offset: number, length: number) => Uint8Array | null;

interface Exports {
  memory: WebAssembly.Memory;
  input(bytes: number): number;
  output(): number;
  output_bytes(): number;
  scan_start(fileBytes: number): void;
  scan_room(bytes: number): number;
  scan(): number;
  scan_likely(): number;
  add_file(bytes: number): void;
  open(): void;
  findings(): void;
  kvs(from: number, n: number): void;
  text(kv: number): void;
  elements(kv: number, from: number, n: number): void;
  find_kvs(): number;
  find_tensors(order: number, descending: number): number;
  tensors(from: number, n: number): void;
  tokenizer(): void;
  find_tokens(type: number): number;
  tokens(from: number, n: number): void;
  templates(): void;
  estimate(context: number, typeK: number, typeV: number, flash: number, gpuLayers: number): void;
  add_other_file(bytes: number): void;
  compare(): void;
  compared_keys(from: number, n: number): void;
  compared_tensors(from: number, n: number): void;
  describe(shard: number, index: number): void;
  values(shard: number, index: number, row: number, nRows: number, column: number, nColumns: number): void;
  survey(shard: number, index: number, bins: number): void;
  survey_add(second: number, from: number, bytes: number): void;
  map(ofError: number, shard: number, index: number, column: number, end: number, lines: number, cells: number): void;
  map_rows(line: number, row: number, n: number): void;
  difference(index: number): void;
  compare_rows(row: number, n: number): void;
  types(shard: number, index: number): void;
  cost(shard: number, index: number, type: number): void;
  cost_rows(row: number, n: number): void;
  result(): void;
  edits(): void;
  edited_head(): void;
}

/** The functions with an answer. */
export type Question = Exclude<
  keyof Exports,
  "memory" | "input" | "output" | "output_bytes" | "scan_start" | "scan_room" | "scan" | "scan_likely" | "add_file" | "add_other_file" | `find_${string}`
>;

export class Module {
  private constructor(private readonly exports: Exports) {}

  static async start(module: WebAssembly.Module, read: Read): Promise<Module> {
    let memory: WebAssembly.Memory;
    const imports = {
      page: {
        read(file: number, offset: number, to: number, length: number): number {
          const bytes = read(file, offset, length);
          if (bytes === null || bytes.length !== length) return 0;
          new Uint8Array(memory.buffer, to >>> 0, length).set(bytes);
          return 1;
        },
      },
    };
    const exports = (await WebAssembly.instantiate(module, imports)).exports as unknown as Exports;
    memory = exports.memory;
    return new Module(exports);
  }

  /** The bytes of the module's memory, which grows. */
  get memoryBytes(): number {
    return this.exports.memory.buffer.byteLength;
  }

  private input(text: string): void {
    const bytes = new TextEncoder().encode(text);
    const at = this.exports.input(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
  }

  addFile(name: string, bytes: number, other = false): void {
    this.input(name);
    if (other) this.exports.add_other_file(bytes);
    else this.exports.add_file(bytes);
  }

  /** An answer in bytes: those of the module, which the next question replaces. */
  private answer(question: Question, input: string, numbers: number[]): Uint8Array<ArrayBuffer> {
    this.input(input);
    (this.exports[question] as (...numbers: number[]) => void)(...numbers);
    return new Uint8Array(this.exports.memory.buffer as ArrayBuffer, this.exports.output() >>> 0, this.exports.output_bytes() >>> 0);
  }

  /** An answer in JSON. */
  ask<T>(question: Question, input: string, ...numbers: number[]): T {
    return JSON.parse(new TextDecoder().decode(this.answer(question, input, numbers))) as T;
  }

  /** An answer in bytes. */
  bytes(question: Question, input: string): Uint8Array<ArrayBuffer> {
    return this.answer(question, input, []).slice();
  }

  /** A step of some work, which throws what went wrong. */
  step(question: Question, ...numbers: number[]): void {
    const { error } = this.ask<{ error?: string }>(question, "", ...numbers);
    if (error !== undefined) throw new Error(error);
  }

  findKvs(part: string): number {
    this.input(part);
    return this.exports.find_kvs() >>> 0;
  }

  findTensors(part: string, order: number, descending: boolean): number {
    this.input(part);
    return this.exports.find_tensors(order, descending ? 1 : 0) >>> 0;
  }

  findTokens(part: string, type: number): number {
    this.input(part);
    return this.exports.find_tokens(type) >>> 0;
  }

  scanStart(fileBytes: number | null): void {
    this.exports.scan_start(fileBytes ?? -1);
  }

  /** Continues with more bytes of a head. Returns the number of bytes that it has at least, negative once it is complete, and 0 if it is invalid or too long. */
  scan(bytes: Uint8Array): number {
    const at = this.exports.scan_room(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
    return this.exports.scan();
  }

  /** The probable number of bytes of the head that is arriving. */
  get likelyBytes(): number {
    return this.exports.scan_likely();
  }
}
