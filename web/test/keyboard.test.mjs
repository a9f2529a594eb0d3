// The keyboard alone: files are opened, views changed, tables scrolled and sorted, and dialogs closed without a mouse.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { examples, folder, launch, open, saved } from "./browser.mjs";
import { serve } from "./server.mjs";

let browser;
let server;
before(async () => {
  browser = await launch();
  server = await serve({ "/page/": folder, "/files/": examples });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/** What has the focus: its role or element, and its name. */
const focused = (page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
    return { tag: element.tagName, name: label.trim(), outline: getComputedStyle(element).outlineStyle };
  });

/** Presses Tab until an element with this name has the focus; fails if there is none. */
async function tabTo(page, name, key = "Tab") {
  const seen = [];
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press(key);
    const found = await focused(page);
    if (typeof name === "string" ? found.name === name : name.test(found.name)) return found;
    seen.push(found.name.slice(0, 30));
  }
  throw new Error(`no ${name} among ${seen.join(" | ")}`);
}

/** Goes to a view. */
async function view(page, name) {
  await tabTo(page, name, "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: TITLES[name] ?? name, exact: true }).waitFor();
}
const TITLES = {};

test("the keyboard alone does everything", async () => {
  const { page, close, problems } = await open(browser, `${server.origin}/page/`);
  // A file: the button opens the dialog of the browser. To wait for it takes the driver a moment, after which the key may be pressed.
  const chooser = page.waitForEvent("filechooser");
  await tabTo(page, "Open a file…");
  await page.keyboard.press("Enter");
  await (await chooser).setFiles(join(examples, "tiny.gguf"));
  await page.getByRole("heading", { level: 2, name: "tiny.gguf" }).waitFor();
  // Every control shows that it has the focus. The last one is not passed: some browsers give the focus to their own controls then.
  const unmarked = [];
  for (let last = ""; last !== "Report"; ) {
    await page.keyboard.press("Tab");
    const { tag, name, outline } = await focused(page);
    assert.notEqual(tag, "BODY");
    if (tag !== "INPUT" && outline === "none") unmarked.push(`${tag} ${name}`);
    last = name;
  }
  assert.deepEqual(unmarked, []);
  // An address.
  await tabTo(page, "Address", "Shift+Tab");
  await page.keyboard.type(`${server.origin}/files/tiny.gguf`);
  await page.keyboard.press("Enter");
  await page.getByText(/tiny\.gguf/).first().waitFor();
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  // A table: it scrolls, its column sorts, its filter filters.
  await tabTo(page, "Tensors");
  await page.keyboard.press("Enter");
  await page.getByRole("table", { name: "Tensors" }).waitFor();
  await tabTo(page, "Filter");
  await page.keyboard.type("blk");
  await page.getByText(/^\d tensors$/).waitFor();
  await tabTo(page, "Tensors", "Tab");
  await page.keyboard.press("End");
  await tabTo(page, "Name");
  await page.keyboard.press("Enter");
  await page.getByRole("columnheader", { name: "Name" }).and(page.locator('[aria-sort="ascending"]')).waitFor();
  // A tensor, its statistics and map, which is zoomed.
  await tabTo(page, /^blk\.0\./);
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Weights" }).waitFor();
  await tabTo(page, "Compute the statistics");
  await page.keyboard.press("Enter");
  await page.getByRole("table", { name: "Statistics" }).waitFor();
  await tabTo(page, "Draw the map");
  await page.keyboard.press("Enter");
  await page.getByRole("img", { name: /^Map of/ }).or(page.getByRole("table", { name: "Values" })).first().waitFor();
  // An edit, which is saved.
  await tabTo(page, "Edit", "Shift+Tab");
  await page.keyboard.press("Enter");
  await tabTo(page, "Key");
  await page.keyboard.type("general.name");
  await tabTo(page, "Value or new name");
  await page.keyboard.type("Another");
  await page.keyboard.press("Enter");
  await page.getByRole("table", { name: "Changes" }).waitFor();
  await tabTo(page, "Save the head");
  const bytes = await saved(page, () => page.keyboard.press("Enter"));
  assert.ok(bytes.includes("Another"));
  // A dialog: it takes the focus, Escape closes it, and the focus returns.
  await tabTo(page, "Metadata", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("table", { name: "Metadata" }).waitFor();
  const long = await tabTo(page, /string\[|, … |…$/);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  assert.ok(await dialog.evaluate((element) => element.contains(document.activeElement)));
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal((await focused(page)).name, long.name);
  assert.deepEqual(problems, []);
  await close();
});
