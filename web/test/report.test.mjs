// The pages that the program writes with `--html`.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, test } from "node:test";
import { examples, gguf, launch, newPage, root, rows, temporary } from "./browser.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

const tiny = join(examples, "tiny.gguf");
const small = join(temporary, "small.gguf");
const run = (...args) => spawnSync(process.env.GGUF_PROGRAM, args, { encoding: "utf8" });

/** Opens a page of the program. It asks for nothing else, and axe finds nothing. */
async function show(path, heading, options = {}) {
  const page = await newPage(browser, { bypassCSP: true, ...options });
  const context = page.context();
  const [problems, requests] = [[], []];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  context.on("request", (request) => requests.push(request.url()));
  await page.goto(pathToFileURL(path).href);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  assert.deepEqual(requests.filter((url) => !url.startsWith("data:")), [pathToFileURL(path).href]);
  await page.addScriptTag({ path: join(root, "node_modules", "axe-core", "axe.min.js") });
  for (const summary of await page.locator("summary").all()) await summary.click();
  const found = await page.evaluate(() => axe.run());
  assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html.slice(0, 120)).join("; ")}`), []);
  assert.deepEqual(problems, []);
  return { page, context };
}

test("quantize: the error of each tensor and layer", async () => {
  const path = join(temporary, "quantize.html");
  const { status, stderr } = run("quantize", tiny, small, "Q4_0", "--html", path, "--quiet");
  assert.equal(status, 0, stderr);
  assert.ok(readFileSync(path).length < 70_000);
  const { tensors, total } = gguf("quantize", tiny, join(temporary, "again.gguf"), "Q4_0", "--report", "--json", "--quiet");
  for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 400, height: 700 } }]) {
    const { page, context } = await show(path, "gguf quantize", options);
    await page.getByRole("row", { name: `RMSE ${Number(total.rmse.toPrecision(5))}` }).waitFor();
    const shown = await rows(page, "Tensors");
    assert.deepEqual(shown.map(([name]) => name), tensors.map(({ name }) => name));
    assert.deepEqual(shown.map((row) => row[3]), tensors.map(({ to }) => to));
    await page.getByRole("img", { name: "Relative error by layer" }).waitFor();
    await page.getByRole("img", { name: /^Types of the tensors by layer/ }).waitFor();
    await page.getByRole("button", { name: "Relative" }).click();
    const worst = tensors.toSorted((a, b) => b.relative - a.relative)[0].name;
    await page.waitForTimeout(200);
    assert.equal((await rows(page, "Tensors"))[0][0], worst);
    await context.close();
  }
  assert.match(run("quantize", tiny, join(temporary, "x.gguf"), "Q4_0", "--html", path).stderr, /exists/);
  assert.match(run("quantize", tiny, small, "Q4_0", "--html", small, "--force").stderr, /two outputs have this path/);
  assert.match(run("quantize", tiny, join(temporary, "{ftype}.gguf"), "Q4_0", "Q8_0", "--html", join(temporary, "two.html")).stderr, /one file type/);
});

test("diff: keys and tensors", async () => {
  execFileSync(process.env.GGUF_PROGRAM, ["quantize", tiny, small, "Q4_0", "--quiet", "--force"]);
  const path = join(temporary, "diff.html");
  assert.equal(run("diff", tiny, small, "--html", path, "--quiet").status, 1);
  const { keys, tensors } = gguf("diff", "--json", tiny, small);
  const { page, context } = await show(path, "gguf diff");
  assert.deepEqual((await rows(page, "Keys")).map(([key]) => key), keys.map(({ key }) => key));
  const different = tensors.filter((tensor) => !tensor.same);
  assert.deepEqual((await rows(page, "Tensors")).map(([name]) => name), different.map(({ name }) => name));
  await context.close();
  assert.match(run("diff", tiny, small, "--html", tiny, "--force").stderr, /would overwrite an input file/);
});

test("check: findings", async () => {
  const path = join(temporary, "check.html");
  const broken = join(root, "..", "examples", "imatrix.gguf");
  run("check", tiny, broken, join(temporary, "none.gguf"), "--html", path, "--quiet");
  const { files } = gguf("check", "--json", tiny, broken, join(temporary, "none.gguf"));
  const { page, context } = await show(path, "gguf check");
  assert.equal(await page.locator(".finding li").count(), files.flatMap((file) => file.findings ?? []).length);
  await page.getByRole("alert").filter({ hasText: "none.gguf" }).waitFor();
  await context.close();
});
