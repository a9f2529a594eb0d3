// Builds the page twice: dist/folder, for a web server, and dist/gguf-viewer.html, one file that works without one.
//
// node build.mjs [--quick]     --quick compresses less, and checks no sizes
// node build.mjs --report      only the page of the program's `--html`, which is committed; otherwise it must be current

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build } from "vite";

/** Most bytes of the first module, and of all that is loaded before a file is opened, as brotli compresses them. */
const MOST_MODULE = 160_000;
const MOST_FIRST = 230_000;
/** Most bytes of the page of reports, which is a part of the program. */
const MOST_REPORT = 60_000;

const root = import.meta.dirname;
const dist = join(root, "dist");
const quick = process.argv.includes("--quick");

/** Builds a form of the module, and returns its bytes. */
function wasm(...flags) {
  const cargo = ["build", "--quiet", "--release", "--target", "wasm32-unknown-unknown", "-p", "gguf-wasm", ...flags];
  execFileSync("cargo", cargo, { cwd: join(root, ".."), stdio: "inherit", env: { ...process.env, RUSTFLAGS: "-Ctarget-feature=+simd128" } });
  const target = JSON.parse(execFileSync("cargo", ["metadata", "--format-version", "1", "--no-deps"], { cwd: join(root, "..") })).target_directory;
  return readFileSync(join(target, "wasm32-unknown-unknown", "release", "gguf_wasm.wasm"));
}

function brotli(bytes) {
  return brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length;
}

const sha = (text) => createHash("sha256").update(text).digest("base64");

/** The policy: no scripts but the page's own, no other styles, requests only for files at addresses that the user gives. */
function policy(script, style, worker) {
  return [
    "default-src 'none'",
    `script-src ${script}${worker === undefined ? "" : " 'wasm-unsafe-eval'"}`,
    `style-src ${style}`,
    // A page of reports has no workers, and asks nobody.
    ...(worker === undefined ? [] : [`worker-src ${worker}`, "connect-src 'self' https: http:"]),
    "img-src data:",
    "manifest-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
}

const withPolicy = (html, text) => html.replace('<meta charset="utf-8" />', `<meta charset="utf-8" />\n    <meta http-equiv="Content-Security-Policy" content="${text}" />`);

async function bundle(mode, out, input = "index.html") {
  await build({
    root,
    mode,
    base: "./",
    configFile: false,
    logLevel: "warn",
    build: {
      outDir: out,
      emptyOutDir: true,
      target: "es2022",
      modulePreload: false,
      assetsInlineLimit: 0,
      rollupOptions: { input: join(root, input), output: { entryFileNames: "viewer.js", assetFileNames: "[name][extname]" } },
    },
    worker: { format: "iife" },
  });
}

/** The page of a bundle with its style sheet in it, so that the first paint does not wait for another file; and the source of that in the policy. */
function styled(parts, html) {
  const name = readdirSync(parts).find((name) => name.endsWith(".css"));
  const style = readFileSync(join(parts, name), "utf8");
  rmSync(join(parts, name));
  const page = readFileSync(join(parts, html), "utf8").replace(/\s*<link rel="stylesheet"[^>]*>/, "");
  return [page.replace("</head>", () => `<style>${style}</style>\n  </head>`), `'sha256-${sha(style)}'`];
}

/** A page of one file from the parts of a bundle, and its policy. `more` is put before the script. */
function joined(parts, html, more = "", worker = undefined) {
  const script = readFileSync(join(parts, "viewer.js"), "utf8").replaceAll("</script", "<\\/script");
  let [page, style] = styled(parts, html);
  page = page.replace(/\s*<script type="module"[^>]*><\/script>/, "");
  page = withPolicy(page, policy(`'sha256-${sha(script)}'`, style, worker));
  return page.replace("</body>", () => `${more}<script type="module">${script}</script>\n  </body>`);
}

/** The page of reports: the program puts the data into the empty element. */
async function report() {
  const parts = join(root, "dist-report");
  await bundle("report", parts, "report.html");
  const page = joined(parts, "report.html", `<script type="application/json" id="data"></script>\n`);
  rmSync(parts, { recursive: true });
  if (page.length > MOST_REPORT) throw new Error(`the page of reports has ${page.length} bytes, more than ${MOST_REPORT}`);
  const path = join(root, "..", "crates", "gguf-cli", "src", "cmd", "html", "page.html");
  if (process.argv.includes("--report")) writeFileSync(path, page);
  else if (!existsSync(path) || readFileSync(path, "utf8") !== page) throw new Error(`${path} is stale: run \`npm run report\``);
  console.log(`page of reports: ${page.length} bytes of ${MOST_REPORT}`);
}

await report();
if (process.argv.includes("--report")) process.exit(0);

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
const modules = { gguf: wasm("--no-default-features"), "gguf-model": wasm(), "gguf-encode": wasm("--features", "encode") };

// The folder.
const folder = join(dist, "folder");
await bundle("folder", folder);
for (const [name, bytes] of Object.entries(modules)) writeFileSync(join(folder, `${name}.wasm`), bytes);
const [html, style] = styled(folder, "index.html");
writeFileSync(join(folder, "index.html"), withPolicy(html, policy("'self'", style, "'self' blob:")));
const names = readdirSync(folder).filter((name) => name !== "sw.js");
const version = sha(Buffer.concat(names.map((name) => readFileSync(join(folder, name))))).slice(0, 16);
const worker = readFileSync(join(root, "sw.js"), "utf8");
writeFileSync(
  join(folder, "sw.js"),
  worker.replace('"VERSION"', JSON.stringify(`gguf-viewer-${version}`)).replace('"FILES"', JSON.stringify(["./", ...names])),
);

// The single file.
const parts = join(dist, "parts");
await bundle("single", parts);
const data = Object.entries(modules).map(([name, bytes]) => `<script type="application/octet-stream" id="${name}">${bytes.toString("base64")}</script>\n`);
const single = joined(parts, "index.html", data.join(""), "blob:");
writeFileSync(join(dist, "gguf-viewer.html"), single);
// As `gguf view` serves it.
writeFileSync(join(dist, "served.html.gz"), gzipSync(single.replace('<div id="app">', '<div id="app" data-served="">'), { level: 9 }));
rmSync(parts, { recursive: true });

if (!quick) {
  const sizes = Object.fromEntries(readdirSync(folder).map((name) => [name, brotli(readFileSync(join(folder, name)))]));
  const first = Object.entries(sizes).filter(([name]) => !["gguf-model.wasm", "gguf-encode.wasm", "sw.js"].includes(name));
  const sum = first.reduce((sum, [, bytes]) => sum + bytes, 0);
  console.log("bytes with brotli:", sizes);
  console.log(`first module: ${sizes["gguf.wasm"]} of ${MOST_MODULE}; all that is loaded first: ${sum} of ${MOST_FIRST}; one file: ${single.length} bytes, plain`);
  if (sizes["gguf.wasm"] > MOST_MODULE || sum > MOST_FIRST) {
    console.error("the page is too large");
    process.exit(1);
  }
}
