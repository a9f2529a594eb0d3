// Weights, comparisons and edits: every figure and byte is that of the program.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { examples, folder, gguf, give, launch, open, saved, tabMemory, temporary } from "./browser.mjs";
import { head, kv } from "./files.mjs";
import { serve } from "./server.mjs";

let browser;
let server;
before(async () => {
  browser = await launch();
  server = await serve({ "/page/": folder, "/files/": temporary, "/examples/": examples });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const view = (page, name) => page.getByRole("navigation").getByRole("button", { name, exact: true }).click();

/** The types: number, values of a block, bytes of a block. */
const TYPES = [
  [0, 1, 4], [1, 1, 2], [2, 32, 18], [3, 32, 20], [6, 32, 22], [7, 32, 24], [8, 32, 34], [10, 256, 84], [11, 256, 110], [12, 256, 144],
  [13, 256, 176], [14, 256, 210], [16, 256, 66], [17, 256, 74], [18, 256, 98], [19, 256, 50], [20, 32, 18], [21, 256, 110], [22, 256, 82],
  [23, 256, 136], [24, 1, 1], [25, 1, 2], [26, 1, 4], [27, 1, 8], [28, 1, 8], [29, 256, 56], [30, 1, 2], [34, 256, 54], [35, 256, 66],
  [39, 32, 17], [40, 64, 36], [41, 128, 18], [42, 64, 18],
];

/** Pseudo-random bytes. */
function noise(n, seed) {
  const bytes = Buffer.alloc(n);
  let state = seed >>> 0 || 1;
  for (let i = 0; i < n; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** A file with tensors of one row of 512 values and of random blocks. */
function writeTypes(path, types, rows = 3, columns = 512) {
  const tensors = types.map(([type, length, bytes]) => ({ name: `t${type}`, shape: [columns, rows], type, bytes: ((rows * columns) / length) * bytes }));
  const made = head([kv("general.architecture", "string", "llama"), kv("general.name", "string", "Types")], tensors);
  const data = tensors.map(({ bytes }, i) => Buffer.concat([noise(bytes, i + 7), Buffer.alloc((32 - (bytes % 32)) % 32)]));
  writeFileSync(path, Buffer.concat([made.head, ...data]));
}

async function choose(page, name) {
  await view(page, "Tensors");
  await page.getByLabel("Filter").fill(name);
  await page.getByRole("button", { name, exact: true }).click();
  await page.getByRole("heading", { level: 3, name, exact: true }).waitFor();
}

/** The statistics of a tensor in the page. */
async function statistics(page, n) {
  await page.getByRole("button", { name: "Compute the statistics" }).click();
  await page.getByRole("table", { name: "Statistics" }).waitFor();
  if (n !== undefined) await page.locator('tr[data-stat="n"]', { hasText: n }).waitFor();
  return Object.fromEntries(await page.locator("tr[data-stat]").evaluateAll((rows) => rows.map((row) => [row.dataset.stat, row.cells[1].textContent])));
}

/** For each of some tensors, what the page shows: its statistics, and the values of a part of it. */
function shownTensors(page, names) {
  return page.evaluate(async (names) => {
    const one = (selector, text) => [...document.querySelectorAll(selector)].find((element) => element.textContent.trim() === text);
    const press = async (text, selector = "button") => (await until(() => one(selector, text))).click();
    const fill = (label, value, at = 0) => {
      const input = [...document.querySelectorAll("label")].filter((element) => element.textContent.trim() === label).at(at).control;
      input.value = value;
      for (const type of ["input", "change"]) input.dispatchEvent(new Event(type, { bubbles: true }));
      // The next field is filled once the page has taken this one.
      return new Promise((go) => setTimeout(go));
    };
    const table = (caption) => one("table > caption", caption)?.parentElement;
    const found = {};
    for (const name of names) {
      await press("Tensors", "nav button");
      await until(() => one("label", "Filter"));
      await fill("Filter", name);
      await press(name, '[role="table"] button');
      await until(() => one("h3", name) && !table("Statistics") && !table("Values"));
      await press("Compute the statistics");
      const statistics = await until(() => table("Statistics"));
      await fill("Rows from", 1);
      await fill("to", 3, 0);
      await fill("Columns from", 300);
      await fill("to", 316, 1);
      await press("Draw the map");
      const values = await until(() => table("Values")?.tBodies[0].rows.length && table("Values"));
      found[name] = {
        statistics: Object.fromEntries([...statistics.querySelectorAll("tr[data-stat]")].map((row) => [row.dataset.stat, row.cells[1].textContent])),
        values: [...values.tBodies[0].rows].map((row) => [...row.cells].slice(1).map((cell) => cell.textContent)),
      };
    }
    return found;
  }, names);
}

test("values and statistics of all types are those of the program, to the bit", async () => {
  const path = join(temporary, "types.gguf");
  writeTypes(path, TYPES);
  const { page, close, problems } = await open(browser, `${server.origin}/page/`);
  await give(page, [path], "types.gguf");
  const shown = await shownTensors(page, TYPES.map(([type]) => `t${type}`));
  for (const [name, { statistics, values }] of Object.entries(shown)) {
    const expected = gguf("cat", "--json", "--bins", "256", path, name);
    for (const field of ["n", "nan", "infinite", "zeros", "outliers"]) assert.equal(statistics[field].replaceAll(",", ""), String(expected[field]), `${name} ${field}`);
    for (const field of ["min", "max", "mean", "stddev", "rms"]) {
      if (expected[field] === null) assert.equal(statistics[field], "none", `${name} ${field}`);
      // Two decimal forms of a number in single precision can be equally short.
      else if (field === "min" || field === "max") assert.equal(Math.fround(Number(statistics[field])), Math.fround(expected[field]), `${name} ${field}`);
      else assert.equal(Number(statistics[field]), expected[field], `${name} ${field}`);
    }
    const printed = execFileSync(process.env.GGUF_PROGRAM, ["cat", "--values", "--rows", "1..3", path, name], { encoding: "utf8" });
    assert.deepEqual(values, printed.trimEnd().split("\n").map((line) => line.split(" ").slice(300, 316)), name);
  }
  assert.equal(Object.keys(shown).length, TYPES.length);
  assert.deepEqual(problems, []);
  await close();
});

test("64 million weights of Q4_K are surveyed from the disk, and the work can be stopped", async (t) => {
  const path = join(temporary, "large-weights.gguf");
  const [columns, rows] = [8192, 8192];
  writeTypes(path, [[12, 256, 144]], rows, columns);
  const { page, context } = await open(browser, `${server.origin}/page/`, {});
  await give(page, [path], "large-weights.gguf");
  await choose(page, "t12");
  await statistics(page);
  const milliseconds = await page.getByRole("table", { name: "Statistics" }).getAttribute("data-milliseconds");
  t.diagnostic(`${columns * rows} weights in ${Number(milliseconds).toFixed(0)} ms`);
  await page.getByRole("button", { name: "Compute the statistics" }).click();
  const from = Date.now();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  t.diagnostic(`stopped after ${Date.now() - from} ms`);
  const memory = await tabMemory(browser);
  t.diagnostic(`memory of the tab: ${memory === null ? "not known" : `${(memory / 2 ** 20).toFixed(0)} MiB`}`);
  assert.ok(memory === null || memory < 256 << 20, String(memory));
  await page.getByRole("button", { name: "Draw the map" }).click();
  await page.getByRole("img", { name: /^Map of the values/ }).waitFor();
  await page.getByRole("button", { name: "Zoom in" }).click();
  await page.getByText("rows 3,072 to 5,119 and columns 3,072 to 5,119").waitFor();
  await page.goto(`${server.origin}/page/#view=tensors&url=${encodeURIComponent(`${server.origin}/files/large-weights.gguf`)}`);
  await page.reload();
  await choose(page, "t12");
  server.log.length = 0;
  await statistics(page);
  await page.getByText(/^A sample: 7,3\d\d,\d\d\d of 67,108,864 values were read\.$/).waitFor();
  const asked = server.log.filter((entry) => entry.path === "/files/large-weights.gguf");
  const sent = asked.reduce((sum, entry) => sum + entry.sent, 0);
  t.diagnostic(`a sample from a server: ${asked.length} requests, ${sent} bytes`);
  assert.ok(asked.length <= 16 && sent < 5 << 20, `${asked.length} requests, ${sent} bytes`);
  await page.getByLabel("Read whole tensors, not samples").first().check();
  await statistics(page, "67,108,864");
  assert.equal(await page.getByText(/^A sample:/).count(), 0);
  await context.close();
});

test("two files are compared as the program compares them", async () => {
  const [a, b] = ["a.gguf", "b.gguf"].map((name) => join(temporary, name));
  const values = Float32Array.from({ length: 512 }, (_, i) => Math.sin(i));
  const floats = Buffer.from(values.buffer);
  const write = (path, name, second, data) => {
    const made = head([kv("general.architecture", "string", "llama"), kv("general.name", "string", name)], [{ name: "same", shape: [512] }, second]);
    writeFileSync(path, Buffer.concat([made.head, floats, data]));
  };
  write(a, "A", { name: "other", shape: [512] }, floats);
  write(b, "B", { name: "other", shape: [512], type: 1, bytes: 1024 }, noiseHalves(512));
  const { page, close, problems } = await open(browser, `${server.origin}/page/`);
  await give(page, [a], "a.gguf");
  await view(page, "Compare");
  await page.getByLabel("Choose the other file…").setInputFiles(b);
  await page.getByText("1 different key, 1 equal key, 2 tensors").waitFor();
  await page.getByRole("cell", { name: "general.name" }).waitFor();
  await page.getByRole("button", { name: "Compare the data" }).click();
  await page.getByText("2 compared tensors, 1 with other data").waitFor();
  const table = page.getByRole("table", { name: "Compared tensors" });
  await table.getByText("identical").waitFor();
  const figures = await table.locator('[role="row"]', { hasText: "changed" }).locator("span").evaluateAll((spans) => spans.map((span) => Number(span.title)));
  const { tensors } = gguf("diff", "--json", a, b);
  const expected = tensors.find((tensor) => tensor.name === "other").error;
  assert.deepEqual(figures.slice(0, 3), [expected.relative, expected.rmse, expected.cosine]);
  await page.getByRole("button", { name: "other", exact: true }).click();
  await page.getByRole("button", { name: "Draw the map" }).click();
  await page.getByRole("img", { name: /^Map of the error of other/ }).waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("a file is compared with one of a server, and shards of a server are one model", async () => {
  const { page, close, problems } = await open(browser, `${server.origin}/page/`);
  server.log.length = 0;
  await page.getByLabel("Address", { exact: true }).fill(`${server.origin}/examples/tiny-00002-of-00002.gguf`);
  await page.getByRole("button", { name: "Open", exact: true }).click();
  await page.getByRole("heading", { level: 2, name: "tiny-00002-of-00002.gguf" }).waitFor();
  assert.equal(await page.getByText(/^Missing shards/).count(), 0);
  await view(page, "Compare");
  await page.getByLabel("or its address").fill(`${server.origin}/examples/tiny.gguf`);
  await page.getByRole("region", { name: "Compare" }).getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByRole("button", { name: "Compare the data" }).click();
  await page.getByText("12 compared tensors, 0 with other data").waitFor();
  assert.equal(server.log.filter((entry) => entry.range?.startsWith("bytes=0-")).length, 3);
  await page.getByLabel("or its address").fill("hf:org/repo");
  await page.getByRole("region", { name: "Compare" }).getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: "not the address of a file" }).waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("other types cost what the program reports", async () => {
  const path = join(temporary, "costs.gguf");
  const values = Float32Array.from({ length: 8 * 512 }, (_, i) => Math.sin(i * 1.7) * (1 + (i % 7)));
  const made = head([kv("general.architecture", "string", "llama"), kv("llama.block_count", "u32", 1)], [{ name: "blk.0.ffn_up.weight", shape: [512, 8] }]);
  writeFileSync(path, Buffer.concat([made.head, Buffer.from(values.buffer)]));
  const { page, close, problems } = await open(browser, `${server.origin}/page/`);
  await give(page, [path], "costs.gguf");
  await choose(page, "blk.0.ffn_up.weight");
  await page.getByRole("button", { name: "Measure all types" }).click();
  await page.getByRole("progressbar").waitFor({ state: "detached" });
  const rows = await page.locator("tr[data-type]").evaluateAll((rows) =>
    Object.fromEntries(rows.map((row) => [row.dataset.type, { error: row.dataset.error && JSON.parse(row.dataset.error), text: row.textContent }])),
  );
  assert.ok(Object.keys(rows).length > 20, Object.keys(rows).join());
  assert.ok(rows.iq2_xxs.text.includes("needs an importance matrix"), rows.iq2_xxs.text);
  for (const type of ["f16", "bf16", "q8_0", "q4_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs", "iq3_s", "tq2_0", "mxfp4"]) {
    const out = join(temporary, `costs-${type}.gguf`);
    const { tensors } = gguf("quantize", path, out, "Q8_0", "--tensor-type", `ffn_up=${type}`, "--report", "--json", "--force");
    const { rmse, relative, cosine, largest } = tensors[0];
    assert.deepEqual(rows[type].error, { n: String(values.length), not_finite: "0", rmse, relative, cosine, largest: largest && { error: largest.error, row: String(largest.row), column: String(largest.column) } }, type);
  }
  assert.deepEqual(problems, []);
  await close();
});

/** Halves of moderate size. */
function noiseHalves(n) {
  const bytes = noise(2 * n, 3);
  for (let i = 1; i < bytes.length; i += 2) bytes[i] = (bytes[i] & 0x83) | 0x30;
  return bytes;
}

test("an edited file has the bytes that the program writes", async () => {
  const tiny = join(examples, "tiny.gguf");
  const { page, close } = await open(browser, `${server.origin}/page/`);
  await give(page, [tiny], "tiny.gguf");
  await view(page, "Edit");
  const set = async (key, value, type = "") => {
    await page.getByLabel("Key", { exact: true }).fill(key);
    await page.getByLabel("Type").selectOption(type);
    await page.getByLabel("Value or new name").fill(value);
    await page.getByRole("button", { name: "Set", exact: true }).click();
  };
  await set("llama.context_length", "many");
  await page.getByRole("alert").filter({ hasText: "llama.context_length" }).waitFor();
  await set("llama.context_length", "64");
  await page.getByRole("row", { name: "llama.context_length" }).waitFor();
  await set("test.list", "[1, 2]", "[u8]");
  await page.getByRole("row", { name: "test.list" }).waitFor();
  const edited = await saved(page, () => page.getByRole("button", { name: "Save the file" }).click());
  const out = join(temporary, "expected.gguf");
  writeFileSync(out, readFileSync(tiny));
  execFileSync(process.env.GGUF_PROGRAM, ["set", out, "llama.context_length=64", "test.list:[u8]=[1, 2]", "--rewrite", "--quiet"]);
  assert.deepEqual(edited, readFileSync(out));
  const bytes = await saved(page, () => page.getByRole("button", { name: "Save the head" }).click());
  assert.deepEqual(bytes, readFileSync(out).subarray(0, bytes.length));
  await close();
});
