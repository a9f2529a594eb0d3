// The page shows what the program says, of the forms of files that exist, in both builds.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { after, before, describe, test } from "node:test";
import { examples, folder, gguf, give, launch, newPage, open, root, rows, saved, single, temporary } from "./browser.mjs";
import { head, kv, writeSparse } from "./files.mjs";
import { serve } from "./server.mjs";

let browser;
let server;
before(async () => {
  browser = await launch();
  server = await serve({ "/x/y/": folder });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const view = (page, name) => page.getByRole("navigation").getByRole("button", { name }).click();
const plain = (text) => text.replaceAll(",", "");

/** Every number and text of the views, against `gguf show --json`, `gguf check --json` and `gguf estimate --json`. */
async function compare(page, path) {
  const [file] = gguf("show", "--json", "--full", path).files;
  const field = async (name) => {
    const cell = page.locator(`tr[data-field="${name}"] td`);
    return (await cell.count()) ? cell.textContent() : undefined;
  };
  for (const [name, value] of Object.entries(file.summary)) {
    if (name === "types" || name === "n_chat_templates" || (name === "n_tensors_of_unknown_size" && value === 0)) continue;
    const shown = await field(name);
    assert.notEqual(shown, undefined, name);
    if (name === "tensor_bytes") assert.equal(plain(shown.split(" (")[0]), String(value));
    else if (name === "bits_per_weight") assert.equal(shown, value.toFixed(2));
    else if (typeof value === "object") assert.equal(shown, `${value.min} to ${value.max}`);
    else assert.equal(plain(shown), plain(String(value)), name);
  }
  const types = await page.getByRole("table", { name: "Types of tensors" }).getByRole("row").allTextContents();
  assert.equal(types.length, file.summary.types.length + 1);
  file.summary.types.forEach((type, i) => assert.ok(types[i + 1].startsWith(type.type), types[i + 1]));

  await view(page, "Metadata");
  await page.getByText(`${file.metadata.length} keys`).waitFor();
  const kvs = await rows(page, "Metadata");
  file.metadata.slice(0, kvs.length).forEach((pair, i) => {
    const [key, type, value] = kvs[i];
    assert.equal(key, pair.key);
    assert.equal(plain(type), pair.element_type ? `${pair.element_type}[${pair.length}]` : pair.type);
    if (typeof pair.value === "number") assert.equal(Number(value), pair.value, key);
    if (typeof pair.value === "boolean") assert.equal(value, String(pair.value), key);
    if (typeof pair.value === "string" && pair.value.length < 40) assert.equal(value, pair.value, key);
  });

  await view(page, "Tensors");
  await page.getByText(new RegExp(`^${file.tensors.length.toLocaleString("en")} tensors?$`)).waitFor();
  await page.getByRole("cell", { name: file.tensors[0].name, exact: true }).waitFor();
  const tensors = await rows(page, "Tensors");
  tensors.slice(0, file.tensors.length).forEach(([name, shape, type, weights, , , offset], i) => {
    const tensor = file.tensors[i];
    assert.equal(name, tensor.name);
    assert.equal(shape, tensor.shape.join(" × "));
    assert.equal(type, tensor.type);
    assert.equal(plain(weights), String(tensor.shape.reduce((n, m) => n * m, 1)));
    assert.equal(plain(offset), String(tensor.offset));
  });

  const checked = gguf("check", "--json", path);
  const expected = checked.files.flatMap((section) => section.findings);
  await view(page, `Findings (${expected.length})`);
  const found = await page.locator(".finding").evaluateAll((articles) =>
    articles.flatMap((article) => {
      const [severity, code] = article.querySelector("h3").textContent.split(" ");
      return [...article.querySelectorAll("li")].map((item) => ({ severity, code, text: item.textContent }));
    }),
  );
  assert.equal(found.length, expected.length);
  for (const finding of expected) {
    const same = found.find((f) => f.code === finding.code && f.severity === finding.severity && f.text.includes(finding.message));
    assert.ok(same, JSON.stringify(finding));
    assert.ok(same.text.includes(`Expected: ${finding.expected}`), same.text);
    if (finding.offset !== null) assert.ok(plain(same.text).includes(`(byte ${finding.offset})`), same.text);
  }
}

for (const [form, address] of [
  ["the folder", () => `${server.origin}/x/y/`],
  ["the single file", () => pathToFileURL(single).href],
]) {
  describe(form, () => {
    test("has the numbers of the program", async () => {
      const { page, close, problems, requests } = await open(browser, address());
      for (const name of ["tiny.gguf", "tiny-00001-of-00002.gguf"]) {
        const files = name === "tiny.gguf" ? [name] : [name, "tiny-00002-of-00002.gguf"];
        await give(page, files.map((name) => join(examples, name)), name);
        await compare(page, join(examples, name));
        await view(page, "Summary");
      }
      await give(page, [join(root, "..", "examples", "imatrix.gguf")], "imatrix.gguf");
      await compare(page, join(root, "..", "examples", "imatrix.gguf"));
      assert.deepEqual(problems, []);
      const others = requests.filter((url) => !url.startsWith(address()) && !url.startsWith("blob:") && !url.startsWith("data:"));
      assert.deepEqual(others, []);
      await close();
    });

    test("names missing shards", async () => {
      const { page, close } = await open(browser, address());
      await give(page, [join(examples, "tiny-00002-of-00002.gguf")], "tiny-00002-of-00002.gguf");
      await page.getByText("Missing shards: tiny-00001-of-00002.gguf").waitFor();
      await close();
    });

    test("shows what a file says as text, never as markup", async () => {
      const evil = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`;
      const made = head(
        [
          kv("general.architecture", "string", "llama"),
          kv("general.name", "string", evil),
          kv(evil, "string", evil),
          kv("tokenizer.ggml.model", "string", "llama"),
          kv("tokenizer.ggml.tokens", "string[]", [evil, "b"]),
          kv("tokenizer.chat_template", "string", evil),
        ],
        [{ name: evil.slice(0, 60), shape: [4] }],
      );
      const name = `<b>evil<b>.gguf`;
      const { page, close, problems } = await open(browser, address());
      await page.getByLabel("Open a file…").setInputFiles([{ name, mimeType: "", buffer: Buffer.concat([made.head, Buffer.alloc(16)]) }]);
      await page.getByRole("heading", { level: 2, name }).waitFor();
      for (const tab of ["Summary", "Metadata", "Tensors", "Findings", "Tokens", "Chat template", "Memory", "Compare", "Edit"]) {
        await view(page, tab);
        await page.waitForTimeout(100);
        assert.equal(await page.locator("main img, main script, main b, dialog img").count(), 0, tab);
      }
      await view(page, "Chat template");
      await page.locator("pre", { hasText: evil }).waitFor();
      await view(page, "Report");
      const report = await page.getByLabel("Report in Markdown").textContent();
      // Outside of code, nothing is markup.
      assert.doesNotMatch(report.replace(/(`+)[^\n]*?[^`]\1(?!`)/g, ""), /[<>]/);
      assert.equal(await page.title(), "GGUF viewer");
      assert.deepEqual(problems, []);
      await close();
    });
  });
}

test("a 40 GB file opens, and a file that is none is named", async () => {
  const { page, close } = await open(browser, `${server.origin}/x/y/`);
  const made = head([kv("general.architecture", "string", "llama")], [{ name: "output.weight", shape: [1e10] }]);
  const path = join(temporary, "forty.gguf");
  writeSparse(path, made.head, made.length);
  await give(page, [path], "forty.gguf");
  await page.locator("td", { hasText: "40,000,000,000 (37.3 GiB)" }).waitFor();
  const other = join(temporary, "other.gguf");
  writeFileSync(other, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  await page.getByLabel("Open a file…").setInputFiles(other);
  await page.getByRole("alert").filter({ hasText: "git-lfs pointer" }).waitFor();
  await page.locator(".finding", { hasText: "git lfs pull" }).waitFor();
  await close();
});

test("the memory is that of the program's estimate", async (t) => {
  const path = join(process.env.GGUF_SHARED ?? "", "data", "glossary-bf16.gguf");
  if (!process.env.GGUF_SHARED) return t.skip("no shared test data");
  const { page, close } = await open(browser, `${server.origin}/x/y/`);
  await give(page, [path], "glossary-bf16.gguf");
  await view(page, "Memory");
  await page.getByLabel("Context in tokens").fill("4096");
  await page.getByLabel("Keys").selectOption("Q8_0");
  await page.getByText("with a context of 4,096 tokens").waitFor();
  await page.waitForTimeout(200);
  const { host } = gguf("estimate", "--json", "--ctx", "4096", "--kv-k", "q8_0", path);
  for (const part of ["weights", "kv_cache", "states", "compute", "output", "total"]) {
    assert.equal(plain(await page.locator(`tr[data-part="${part}"] td`).first().getAttribute("title")), `${host[part]} bytes`, part);
  }
  await close();
});

test("layers have the sums of their tensors", async () => {
  const path = join(examples, "tiny.gguf");
  const { page, close } = await open(browser, `${server.origin}/x/y/`);
  await give(page, [path], "tiny.gguf");
  await view(page, "Tensors");
  await page.getByLabel("By layer").check();
  await page.getByRole("cell", { name: "blk.0", exact: true }).waitFor();
  const found = await rows(page, "Layers");
  const { tensors } = gguf("show", "--json", "--full", path).files[0];
  const of = (layer) => tensors.filter(({ name }) => (/^blk\.\d+/.exec(name)?.[0] ?? "outside of layers") === layer);
  assert.deepEqual(found.map(([layer]) => layer), ["outside of layers", "blk.0"]);
  for (const [layer, n, types, weights] of found) {
    assert.equal(Number(n), of(layer).length);
    assert.equal(Number(plain(weights)), of(layer).reduce((sum, { shape }) => sum + shape.reduce((n, m) => n * m, 1), 0));
    for (const part of types.split(", ")) {
      const [type, n] = part.split(" × ");
      assert.equal(Number(n), of(layer).filter((tensor) => tensor.type === type).length, part);
    }
  }
  await page.getByRole("button", { name: "blk.0", exact: true }).click();
  await page.getByText(`${of("blk.0").length} tensors`, { exact: true }).waitFor();
  await close();
});

test("the report has all that is known", async () => {
  const path = join(examples, "tiny.gguf");
  const { page, close } = await open(browser, `${server.origin}/x/y/`);
  await give(page, [path], "tiny.gguf");
  await view(page, "Report");
  const text = await page.getByLabel("Report in Markdown").textContent();
  const [file] = gguf("show", "--json", "--full", path).files;
  for (const { key } of file.metadata) assert.ok(text.includes(`| \`${key}\` |`), key);
  for (const finding of gguf("check", "--json", path).files.flatMap((file) => file.findings)) assert.ok(text.includes(`\`${finding.code}\``), finding.code);
  const get = async (name) => String(await saved(page, () => page.getByRole("button", { name }).click()));
  assert.equal(await get("Save as Markdown"), text);
  const json = JSON.parse(await get("Save as JSON"));
  assert.deepEqual(json.tensors.map(({ name, type }) => [name, type]), file.tensors.map(({ name, type }) => [name, type]));
  assert.deepEqual(json.metadata.map(({ key }) => key), file.metadata.map(({ key }) => key));
  assert.equal(json.findings.safe, true);
  await close();
});

test("the page is painted before its script has come, and works before the module has", async () => {
  const never = () => {};
  for (const missing of ["viewer.js", "gguf.wasm"]) {
    const slow = await serve({ "/x/y/": folder }, { [`/x/y/${missing}`]: never });
    const page = await newPage(browser);
    await page.goto(`${slow.origin}/x/y/`, { waitUntil: "commit" });
    await page.getByRole("heading", { name: "GGUF viewer" }).waitFor();
    if (missing === "gguf.wasm") await page.getByText(/^Drop a GGUF file here/).waitFor();
    assert.equal(await page.getByRole("heading").count(), 1);
    await page.context().close();
    await slow.close();
  }
});

test("the folder works without a network after one visit", async () => {
  const { page, context } = await open(browser, `${server.origin}/x/y/`, {});
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.reload();
  await give(page, [join(examples, "tiny.gguf")], "tiny.gguf");
  await view(page, "Findings");
  await page.getByText("0 errors").waitFor();
  await context.close();
});

test("no source makes markup of text", () => {
  for (const name of ["app.tsx", "table.tsx", "views/metadata.tsx", "views/template.tsx", "views/tokens.tsx", "views/tensors.tsx", "views/findings.tsx"]) {
    const text = readFileSync(join(root, "src", name), "utf8");
    assert.ok(!/innerHTML|insertAdjacentHTML|document\.write/.test(text), name);
  }
});
