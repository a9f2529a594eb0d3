// Accessibility: axe finds nothing on any view, in any mode.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { examples, folder, give, launch, open, root } from "./browser.mjs";
import { serve } from "./server.mjs";

let browser;
let server;
before(async () => {
  browser = await launch();
  server = await serve({ "/page/": folder });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const view = (page, name) => page.getByRole("navigation").getByRole("button", { name }).click();

const MODES = [
  ["light", {}],
  ["dark", { colorScheme: "dark" }],
  ["forced colours and reduced motion", { forcedColors: "active", reducedMotion: "reduce" }],
  ["200 % zoom", {}, { width: 640, height: 400 }],
];

test("axe finds nothing on any view, in any mode", async () => {
  // The policy of the page keeps other scripts out, and axe is one.
  const { page, context } = await open(browser, `${server.origin}/page/`, { bypassCSP: true });
  await page.addScriptTag({ path: join(root, "node_modules", "axe-core", "axe.min.js") });
  const usual = page.viewportSize();
  const check = async (name) => {
    for (const [mode, media, viewport = usual] of MODES) {
      await page.emulateMedia({ colorScheme: "light", forcedColors: "none", reducedMotion: "no-preference", ...media });
      await page.setViewportSize(viewport);
      // Of all that axe returns, only what the test prints leaves the page.
      const found = await page.evaluate(async () => {
        await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
        const { violations } = await axe.run();
        return violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.html.slice(0, 120)).join("; ")}`);
      });
      assert.deepEqual(found, [], `${name}, ${mode}`);
    }
    await page.setViewportSize(usual);
  };
  await check("empty");
  await give(page, ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"].map((name) => join(examples, name)), "tiny-00001-of-00002.gguf");
  await page.getByRole("button", { name: /Findings \(/ }).waitFor();
  for (const button of await page.getByRole("navigation").getByRole("button").all()) {
    await button.click();
    await page.waitForTimeout(150);
    await check(await button.textContent());
  }
  await view(page, "Tensors");
  await page.getByLabel("By layer").check();
  await page.getByRole("cell", { name: "blk.0", exact: true }).waitFor();
  await check("layers");
  await page.getByLabel("By layer").uncheck();
  await page.getByRole("button", { name: "token_embd.weight", exact: true }).click();
  await page.getByRole("button", { name: "Measure all types" }).click();
  await page.getByRole("progressbar").waitFor({ state: "detached" });
  await check("other types");
  await page.getByRole("button", { name: "Compute the statistics" }).click();
  await page.getByRole("table", { name: "Statistics" }).waitFor();
  await page.getByLabel("Columns from").fill("16");
  await page.getByLabel("Columns from").blur();
  await page.getByRole("button", { name: "Draw the map" }).click();
  await page.getByRole("table", { name: "Values" }).waitFor();
  for (const summary of await page.locator("summary").all()) await summary.click();
  await check("weights");
  await view(page, "Compare");
  await page.getByLabel("Choose the other file…").setInputFiles(join(examples, "tiny.gguf"));
  await page.getByRole("button", { name: "Compare the data" }).click();
  await page.getByText(/\d compared tensors/).waitFor();
  await check("comparison");
  await view(page, "Edit");
  await page.getByLabel("Key", { exact: true }).fill("general.name");
  await page.getByLabel("Value or new name").fill("Another");
  await page.getByRole("button", { name: "Set", exact: true }).click();
  await page.getByRole("table", { name: "Changes" }).waitFor();
  await check("edit");
  await view(page, "Metadata");
  await page.getByTitle("Show tokenizer.ggml.tokens").click();
  await check("array");
  await context.close();
});
