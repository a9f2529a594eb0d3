// The package hyllama of npm: node hyllama.mjs FILE. It parses the head in the first 10 MB, as its documentation says, and no types of values.
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { ggufMetadata } from "hyllama";

function value(x) {
  if (Array.isArray(x)) return x.length > 65536 ? null : { items: x.map(value) };
  if (typeof x === "bigint") return x.toString();
  if (typeof x === "number" && !Number.isFinite(x)) return String(x).toLowerCase().replace("infinity", "inf");
  return Object.is(x, -0) ? "-0" : x;
}

// Node ends with 1 after an exception, which is a rejection here.
process.on("uncaughtException", (e) => {
  console.error(e);
  process.exit(2);
});

const file = openSync(process.argv[2]);
const start = new Uint8Array(Math.min(10_000_000, fstatSync(file).size));
readSync(file, start, 0, start.length, 0);
closeSync(file);
let out;
try {
  out = ggufMetadata(start.buffer);
} catch (e) {
  if (e instanceof RangeError && !/outside the bounds/.test(e.message)) throw e;
  console.error(`${e.name}: ${e.message}`);
  process.exit(1);
}
const { version, tensorCount, ...metadata } = out.metadata;
console.log(JSON.stringify({
  version,
  n_tensors: Number(tensorCount),
  kv: Object.entries(metadata).map(([key, x]) => ({ key, value: value(x) })),
  tensors: out.tensorInfos.map((t) => ({ name: t.name, type: t.type, shape: t.shape.map(Number), offset: Number(t.offset) })),
}));
