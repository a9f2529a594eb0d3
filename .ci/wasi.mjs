// Runs a WASI program under node, as cargo's runner does: `node .ci/wasi.mjs program.wasm arguments...` It can access only the checkout.
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { WASI } from "node:wasi";

const [program, ...rest] = process.argv.slice(2);
const checkout = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
const wasi = new WASI({
  version: "preview1",
  args: [program, ...rest],
  preopens: { [checkout]: checkout },
  returnOnExit: true,
});
const { instance } = await WebAssembly.instantiate(await readFile(program), wasi.getImportObject());
process.exitCode = wasi.start(instance);
