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
}

/** The functions whose answer is JSON. */
export type Question = "open" | "findings" | "kvs" | "text" | "elements" | "tensors" | "tokenizer" | "tokens" | "templates" | "estimate";

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
  get bytes(): number {
    return this.exports.memory.buffer.byteLength;
  }

  private input(text: string): void {
    const bytes = new TextEncoder().encode(text);
    const at = this.exports.input(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
  }

  addFile(name: string, bytes: number): void {
    this.input(name);
    this.exports.add_file(bytes);
  }

  ask<T>(question: Question, input: string, ...numbers: number[]): T {
    this.input(input);
    (this.exports[question] as (...numbers: number[]) => void)(...numbers);
    const at = this.exports.output() >>> 0;
    const bytes = new Uint8Array(this.exports.memory.buffer, at, this.exports.output_bytes() >>> 0);
    return JSON.parse(new TextDecoder().decode(bytes)) as T;
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

  /** Whether more bytes of a head are needed after these. */
  scan(bytes: Uint8Array): boolean {
    const at = this.exports.scan_room(bytes.length) >>> 0;
    new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
    return this.exports.scan() > 0;
  }
}
