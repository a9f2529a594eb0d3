// Long lists and large heads: 100,000 tensors and 400,000 tokens.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync, renameSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { folder, give, isFirefox, launch, open, rows, temporary } from "./browser.mjs";
import { largeModel, usualModel, writeSparse } from "./files.mjs";
import { serve } from "./server.mjs";

let browser;
let server;
const large = join(temporary, "large.gguf");
let made;
before(async () => {
  made = largeModel(400_000, 100_000);
  writeSparse(large, made.head, made.length);
  browser = await launch();
  server = await serve({ "/page/": folder, "/files/": temporary });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const view = (page, name) => page.getByRole("navigation").getByRole("button", { name }).click();

/** Tasks of a page's main thread that take more than 50 ms. Chromium tells them to the page; Firefox writes them to a profile when it ends. */
class LongTasks {
  #profile = join(temporary, "profile.json");
  #found = new Map();
  #browser;

  async launch() {
    // Without samples of stacks, the profile costs nothing to speak of.
    const profiler = { MOZ_PROFILER_STARTUP: "1", MOZ_PROFILER_STARTUP_FEATURES: "js,nostacksampling", MOZ_PROFILER_SHUTDOWN: this.#profile };
    return (this.#browser = await launch(profiler));
  }

  /** Runs `act`, and notes its tasks by a name. */
  async during(page, name, act) {
    await page.evaluate((name) => {
      performance.mark(name);
      window.tasks = [];
      if (!PerformanceObserver.supportedEntryTypes.includes("longtask")) return;
      window.observer = new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((entry) => entry.duration)));
      window.observer.observe({ type: "longtask" });
    }, name);
    await act();
    await page.waitForTimeout(200);
    const tasks = await page.evaluate((name) => {
      performance.measure(name, name);
      window.observer?.disconnect();
      return window.tasks;
    }, name);
    this.#found.set(name, tasks);
  }

  /** Ends the browser. Returns each name with its tasks, in milliseconds. */
  async end() {
    await this.#browser.close();
    if (!isFirefox) return this.#found;
    const noted = markers(JSON.parse(readFileSync(this.#profile, "utf8")));
    const long = noted.filter(({ kind }) => kind === "LongTask");
    assert.ok(long.length > 0, "Firefox starts without a long task, or does not tell them");
    for (const name of this.#found.keys()) {
      const measure = noted.find(({ data, end }) => data?.type === "UserTiming" && data.name === name && end > 0);
      assert.ok(measure, `the profile has no measure ${name}`);
      const tasks = long.filter(({ thread, start, end }) => thread === measure.thread && end > measure.start && start < measure.end);
      this.#found.set(name, tasks.map(({ start, end }) => end - start));
    }
    return this.#found;
  }
}

/** What a profile of Firefox has noted of the main threads of all processes. */
function markers(profile) {
  const main = profile.threads.filter((thread) => thread.name === "GeckoMain");
  const own = main.flatMap((thread) => {
    const { schema, data } = thread.markers;
    return data.map((row) => {
      const field = (name) => row[schema[name]];
      return { thread, kind: thread.stringTable[field("name")], start: field("startTime"), end: field("endTime"), data: field("data") };
    });
  });
  return [...own, ...(profile.processes ?? []).flatMap(markers)];
}

/** Scrolls a table from its start to its end in steps, and checks the last row. */
async function scroll(page, label, last) {
  const table = page.getByRole("table", { name: label, exact: true });
  await table.evaluate(async (element) => {
    for (let i = 0; i <= 60; i++) {
      element.scrollTop = (element.scrollHeight * i) / 60;
      await new Promise(requestAnimationFrame);
    }
  });
  await table.getByText(last, { exact: true }).first().waitFor();
}

test("100,000 tensors and 400,000 tokens are scrolled, sorted and filtered", async (t) => {
  const longTasks = new LongTasks();
  const { page, problems } = await open(await longTasks.launch(), `${server.origin}/page/`);
  await give(page, [large], "large.gguf");
  await view(page, "Tensors");
  await page.getByText("100,000 tensors").waitFor();
  assert.equal(await page.getByRole("table", { name: "Tensors" }).getAttribute("aria-rowcount"), "100001");
  await longTasks.during(page, "tensors", async () => {
    await scroll(page, "Tensors", "blk.12499.t99999.weight");
    await page.getByRole("button", { name: "Name" }).click();
    await page.getByRole("button", { name: "Name" }).click();
    await page.getByText("blk.9999.t79999.weight", { exact: true }).waitFor();
    assert.equal((await rows(page, "Tensors"))[0][0], "blk.9999.t79999.weight");
    await page.getByLabel("Filter").fill("t777.");
    await page.getByText("1 tensor", { exact: true }).waitFor();
  });
  await view(page, "Tokens");
  await page.getByText("400,000 tokens", { exact: true }).waitFor();
  await longTasks.during(page, "tokens", async () => {
    await scroll(page, "Tokens", "Ġtok399999");
    await page.getByLabel("Text, bytes as text, or id").fill(" tok39999");
    await page.getByText("11 tokens", { exact: true }).waitFor();
  });
  const bytes = (await rows(page, "Tokens"))[0][2];
  assert.equal(bytes, Buffer.from(" tok39999").toString("hex").replace(/..(?!$)/g, "$& "));
  assert.deepEqual(problems, []);
  for (const [name, tasks] of await longTasks.end()) t.diagnostic(`tasks above 50 ms, ${name}: ${JSON.stringify(tasks)}`);
});

/** The heads to fetch: one of the size of Llama 3's, and from the smallest to the largest every fourth of llama.cpp's vocabularies, if they are there. */
function heads() {
  const made = [["usual.gguf", usualModel().head]];
  const folder = join(process.env.GGUF_PEERS ?? "", "llama.cpp", "models");
  if (!process.env.GGUF_PEERS || !existsSync(folder)) return made;
  const names = readdirSync(folder).filter((name) => name.endsWith(".gguf"));
  const found = names.map((name) => [name, readFileSync(join(folder, name))]).toSorted(([, a], [, b]) => b.length - a.length);
  return [...made, ...found.filter((_, i) => i % 4 === 0 || i === found.length - 1)];
}

/** Milliseconds from the choice of a file to the painted first screen, as the page sees them. */
async function firstScreen(page, path, name) {
  await page.evaluate((name) => {
    addEventListener("change", () => (window.chosen = performance.now()), { capture: true, once: true });
    window.painted = new Promise((go) => {
      const look = () => {
        if (document.querySelector("h2")?.textContent !== name) return requestAnimationFrame(look);
        // The task after this frame.
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => go(performance.now());
        port2.postMessage(null);
      };
      look();
    });
  }, name);
  await page.getByLabel("Open a file…").setInputFiles(path);
  return page.evaluate(async () => Math.round((await painted) - chosen));
}

test("large heads are parsed at once, and at most three requests fetch them, with a tenth more at most", async (t) => {
  const { page, close } = await open(browser, `${server.origin}/page/`);
  let most = 0;
  for (const [name, bytes] of heads()) {
    // A model of 40 GB, under two names, so that each has a first screen of its own.
    const [path, local] = [join(temporary, name), join(temporary, `local-${name}`)];
    writeSparse(local, bytes, 40e9);
    const here = await firstScreen(page, local, `local-${name}`);
    const parsed = /[\d.]+ ms, of these [\d.]+ ms of reading and [\d.]+ ms of parsing/.exec(await page.locator("main").textContent())[0];
    renameSync(local, path);
    server.log.length = 0;
    await page.getByLabel("Address").fill(`${server.origin}/files/${name}`);
    const from = Date.now();
    await page.getByRole("button", { name: "Open", exact: true }).click();
    await page.getByRole("heading", { level: 2, name, exact: true }).waitFor();
    const there = Date.now() - from;
    const requests = server.log.filter((entry) => entry.path === `/files/${name}`);
    const sent = requests.reduce((sum, entry) => sum + entry.sent, 0);
    const more = (sent / bytes.length - 1) * 100;
    most = Math.max(most, more);
    t.diagnostic(`${name}: ${bytes.length} bytes; first screen ${here} ms after the choice (${parsed}), ${there} ms from the server with ${requests.length} requests and ${more.toFixed(1)} % more bytes`);
    assert.ok(requests.length <= 3, `${name}: ${requests.map((entry) => entry.range).join()}`);
    assert.ok(more <= 10, `${name}: ${sent} of ${bytes.length} bytes`);
    unlinkSync(path);
  }
  t.diagnostic(`at most ${most.toFixed(1)} % more`);
  await close();
});
