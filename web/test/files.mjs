// Small and large GGUF files for tests, made byte by byte.

import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";

const T = { u8: 0, u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9, u64: 10, f64: 12 };

const u32 = (n) => {
  const b = Buffer.alloc(4);
  b.writeUInt32LE(n);
  return b;
};
const u64 = (n) => {
  const b = Buffer.alloc(8);
  b.writeBigUInt64LE(BigInt(n));
  return b;
};
const f32 = (n) => {
  const b = Buffer.alloc(4);
  b.writeFloatLE(n);
  return b;
};
const f64 = (n) => {
  const b = Buffer.alloc(8);
  b.writeDoubleLE(n);
  return b;
};
const string = (text) => {
  const bytes = Buffer.isBuffer(text) ? text : Buffer.from(text);
  return Buffer.concat([u64(bytes.length), bytes]);
};

const scalar = {
  u8: (n) => Buffer.from([n]),
  u32,
  i32: (n) => u32(n >>> 0),
  f32,
  f64,
  bool: (b) => Buffer.from([Number(b)]),
  string,
  u64,
};

/** A key-value pair: `kv("general.name", "string", "a")`; an array has the type `string[]`. */
export function kv(key, type, value) {
  if (type.endsWith("[]")) {
    const element = type.slice(0, -2);
    return Buffer.concat([string(key), u32(T.array), u32(T[element]), u64(value.length), ...value.map(scalar[element])]);
  }
  return Buffer.concat([string(key), u32(T[type]), scalar[type](value)]);
}

/** The head of a file of version 3. Tensors are of the type F32, in a row. Returns the head with its padding, and the length of the file. */
export function head(kvs, tensors) {
  let offset = 0;
  const infos = tensors.map(({ name, shape, type = 0, bytes }) => {
    const size = bytes ?? shape.reduce((n, m) => n * m, 1) * 4;
    const info = Buffer.concat([string(name), u32(shape.length), ...shape.map(u64), u32(type), u64(offset)]);
    offset += Math.ceil(size / 32) * 32;
    return info;
  });
  const parts = Buffer.concat([Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(kvs.length), ...kvs, ...infos]);
  const padded = Buffer.concat([parts, Buffer.alloc((32 - (parts.length % 32)) % 32)]);
  return { head: padded, length: padded.length + offset };
}

/** Writes a head, and zeros up to a length, which take no room on the disk. */
export function writeSparse(path, head, length) {
  const file = openSync(path, "w");
  for (let at = 0; at < head.length; ) at += writeSync(file, head, at);
  ftruncateSync(file, length);
  closeSync(file);
}

/** A vocabulary of byte pairs with `n` tokens and `n` merges, and names of tensors: a head as of a large model. */
export function largeModel(nTokens, nTensors) {
  const tokens = Array.from({ length: nTokens }, (_, i) => (i < 256 ? String.fromCodePoint(0x100 + i) : `Ġtok${i}`));
  const kvs = [
    kv("general.architecture", "string", "llama"),
    kv("general.name", "string", "Large"),
    kv("llama.context_length", "u32", 4096),
    kv("llama.embedding_length", "u32", 32),
    kv("llama.block_count", "u32", 2),
    kv("llama.attention.head_count", "u32", 2),
    kv("tokenizer.ggml.model", "string", "gpt2"),
    kv("tokenizer.ggml.pre", "string", "gpt-2"),
    kv("tokenizer.ggml.tokens", "string[]", tokens),
    kv("tokenizer.ggml.token_type", "i32[]", tokens.map(() => 1)),
    kv("tokenizer.ggml.merges", "string[]", ["a b"]),
  ];
  const tensors = Array.from({ length: nTensors }, (_, i) => ({ name: `blk.${i >> 3}.t${i}.weight`, shape: [8] }));
  return head(kvs, tensors);
}

/** A head like that of Llama 3: 128,256 tokens and 280,147 merges, which become longer, and 291 tensors. */
export function usualModel() {
  // The lengths are those of the vocabulary of Llama 3, on average.
  const text = (i, more) => i.toString(36).padEnd(Math.round(Math.log2(i + 2) * 0.48) + more, "x");
  const kvs = [
    kv("general.architecture", "string", "llama"),
    kv("general.name", "string", "Usual"),
    kv("llama.block_count", "u32", 32),
    kv("tokenizer.ggml.model", "string", "gpt2"),
    kv("tokenizer.ggml.pre", "string", "llama-bpe"),
    kv("tokenizer.ggml.tokens", "string[]", Array.from({ length: 128_256 }, (_, i) => text(i, 0))),
    kv("tokenizer.ggml.token_type", "i32[]", new Array(128_256).fill(1)),
    kv("tokenizer.ggml.merges", "string[]", Array.from({ length: 280_147 }, (_, i) => `${text(i >> 1, 2)} x`)),
    kv("tokenizer.chat_template", "string", "{{ messages }}".repeat(40)),
  ];
  const tensors = Array.from({ length: 291 }, (_, i) => ({ name: `blk.${Math.floor(i / 9)}.attn_output${i}.weight`, shape: [64, 64] }));
  return head(kvs, tensors);
}
