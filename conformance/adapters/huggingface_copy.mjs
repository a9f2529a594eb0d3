// The package @huggingface/gguf of npm writes heads: node huggingface_copy.mjs IN.gguf OUT.gguf replaces the metadata of a file by itself.
import { readFile, writeFile } from "node:fs/promises";
import { buildGgufHeader, gguf } from "@huggingface/gguf";

// Node ends with 1 after an exception, which is a rejection here.
process.on("uncaughtException", (e) => {
  console.error(e);
  process.exit(2);
});

const [path, out] = process.argv.slice(2);
const file = new Blob([await readFile(path)]);
let head, read;
try {
  read = await gguf(path, { typedMetadata: true, allowLocalFile: true });
  const alignment = Number(read.typedMetadata["general.alignment"]?.value ?? 32);
  head = await buildGgufHeader(file, read.typedMetadata, { littleEndian: read.littleEndian, tensorInfoByteRange: read.tensorInfoByteRange, alignment });
} catch (e) {
  console.error(`${e.name}: ${e.message}`);
  process.exit(1);
}
const data = read.tensorInfos.length ? file.slice(Number(read.tensorDataOffset)) : new Blob();
await writeFile(out, new Uint8Array(await new Blob([head, data]).arrayBuffer()));
