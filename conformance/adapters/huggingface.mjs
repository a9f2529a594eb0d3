// The package @huggingface/gguf of npm: node huggingface.mjs FILE. It reads neither tensor data nor the ends of files.
import { gguf } from "@huggingface/gguf";

const NAMES = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];

function plain(x) {
  if (typeof x === "bigint") return x.toString();
  if (typeof x === "number" && !Number.isFinite(x)) return String(x).toLowerCase().replace("infinity", "inf");
  return Object.is(x, -0) ? "-0" : x;
}

// Nested arrays have no types of their own, so that they are lists.
function value(x, depth = 0) {
  if (!Array.isArray(x)) return plain(x);
  if (x.length > 65536) return null;
  return { items: x.map((item) => value(item, depth + 1)) };
}

// Node ends with 1 after an exception, which is a rejection here.
process.on("uncaughtException", (e) => {
  console.error(e);
  process.exit(2);
});

const path = process.argv[2];
let out;
try {
  out = await gguf(path, { typedMetadata: true, allowLocalFile: true });
} catch (e) {
  if (e instanceof RangeError && /stack|Array buffer|string length/.test(e.message)) throw e;
  console.error(`${e.name}: ${e.message}`);
  process.exit(1);
}
const head = ["version", "tensor_count", "kv_count"];
const kv = Object.entries(out.typedMetadata).filter(([key]) => !head.includes(key));
console.log(JSON.stringify({
  version: out.typedMetadata.version.value,
  byte_order: out.littleEndian ? "little" : "big",
  data_offset: Number(out.tensorDataOffset),
  kv: kv.map(([key, entry]) => ({ key, type: NAMES[entry.type], value: value(entry.value) })),
  tensors: out.tensorInfos.map((t) => ({ name: t.name, type: t.dtype, shape: t.shape.map(Number), offset: Number(t.offset) })),
}));
