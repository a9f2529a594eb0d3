// The browser of the tests, Chromium or with GGUF_BROWSER=firefox Firefox, and what all of them need.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, firefox } from "playwright-core";

export const root = join(import.meta.dirname, "..");
export const folder = join(root, "dist", "folder");
export const single = join(root, "dist", "gguf-viewer.html");
export const examples = join(root, "..", "crates", "ggufkit", "examples");
export const temporary = mkdtempSync(join(tmpdir(), "gguf-web-"));
process.on("exit", () => rmSync(temporary, { recursive: true, force: true }));

const program = process.env.GGUF_PROGRAM;

/** The answer of the program `gguf` as JSON. */
export function gguf(...args) {
  try {
    return JSON.parse(execFileSync(program, args, { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"] }));
  } catch (error) {
    // The exit code is 1 where there are errors in a file.
    if (error.stdout?.length) return JSON.parse(error.stdout);
    throw error;
  }
}

/** Whether the tests run in Firefox. It is driven by WebDriver BiDi, which cannot do all that the tests do in Chromium. */
export const isFirefox = process.env.GGUF_BROWSER === "firefox";

/** Where Chromium is. */
export function chromiumPath() {
  const paths = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  return paths.find((path) => path && existsSync(path));
}

/** Most milliseconds to wait for something. Machines that run tests may be slow, so this only recognizes what never comes. */
const LATEST = 120_000;

/** Starts the browser, with more variables of its environment than those of the tests. */
export async function launch(variables = {}) {
  if (isFirefox) {
    const paths = [process.env.FIREFOX, "/usr/bin/firefox-esr", "/usr/bin/firefox"];
    const executablePath = paths.find((path) => path && existsSync(path));
    return firefox.launch({ channel: "moz-firefox", executablePath, env: { ...process.env, ...variables } });
  }
  return chromium.launch({ executablePath: chromiumPath(), args: ["--no-sandbox"] });
}

/** Gives a page `until(look)`: it waits until `look` returns something, which is looked for again at each change of the page, and returns that. Loops over
 * many files or tensors run in the page with it: each call from outside takes a driver some time, above all Firefox's, and it looks ten times a second. */
function addUntil(latest) {
  window.until = (look) =>
    new Promise((go, fail) => {
      const again = () => {
        const found = look();
        if (!found) return;
        observer.disconnect();
        clearTimeout(late);
        go(found);
      };
      const late = setTimeout(() => fail(new Error(`not in ${latest} ms: ${look}`)), latest);
      const observer = new MutationObserver(again);
      observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      again();
    });
}

/** A page in a context of its own. */
export async function newPage(browser, options = undefined) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(LATEST);
  return context.newPage();
}

/** Pages that tests have left, of each browser: another page takes a second of processor time. */
const left = new WeakMap();

/** A page that fails the test at an error of its scripts, or where the policy is violated. `requests` are those to other places than the page's. `close` leaves
 * the page to other tests, unless it has a context of its own, which it has with `options`. */
export async function open(browser, address, options = undefined) {
  const pages = left.get(browser) ?? [];
  left.set(browser, pages);
  let page = options === undefined ? pages.pop() : undefined;
  if (!page) {
    page = await newPage(browser, options);
    await page.addInitScript(addUntil, LATEST);
  }
  const context = page.context();
  const problems = [];
  const requests = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  const asked = (request) => requests.push(request.url());
  context.on("request", asked);
  await page.goto(address);
  await page.getByRole("heading", { name: "GGUF viewer" }).waitFor();
  const close = async () => {
    if (options !== undefined) return context.close();
    page.removeAllListeners();
    context.off("request", asked);
    // This ends its workers.
    await page.goto("about:blank");
    pages.push(page);
  };
  return { page, context, problems, requests, close };
}

/** The bytes that the page saves. Firefox does not tell the tests of downloads, and gives them the focus: there, the bytes are those of the blob, and nothing is
 * downloaded. */
export async function saved(page, act) {
  if (!isFirefox) {
    const download = page.waitForEvent("download");
    await act();
    return readFileSync(await (await download).path());
  }
  await page.evaluate(() => {
    const { click } = HTMLAnchorElement.prototype;
    HTMLAnchorElement.prototype.click = () => (HTMLAnchorElement.prototype.click = click);
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      [window.blob, URL.createObjectURL] = [blob, make];
      return make.call(URL, blob);
    };
  });
  await act();
  const text = await page.evaluate(async () => {
    while (!window.blob) await new Promise((go) => setTimeout(go, 20));
    const bytes = new Uint8Array(await window.blob.arrayBuffer());
    delete window.blob;
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  });
  return Buffer.from(text, "base64");
}

/** Gives the page files, and waits for the first screen. */
export async function give(page, files, name) {
  await page.getByLabel("Open a file…").setInputFiles(files);
  await page.getByRole("heading", { level: 2, name }).waitFor();
}

/** The texts of the cells that a table shows now, by rows. */
export async function rows(page, label) {
  const table = page.getByRole("table", { name: label, exact: true });
  // Rows that are not there yet show an ellipsis.
  await table.getByRole("cell", { name: "…", exact: true }).first().waitFor({ state: "detached" });
  return table.getByRole("row").evaluateAll((rows) =>
    rows.filter((row) => row.querySelector('[role="cell"]')).map((row) => [...row.querySelectorAll('[role="cell"]')].map((cell) => cell.textContent)),
  );
}

/** The bytes of memory that the largest tab has for itself; `null` if the browser or the system does not tell. */
export async function tabMemory(browser) {
  if (isFirefox || !existsSync("/proc/self/status")) return null;
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const own = (id) => Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0) * 1024;
  return Math.max(...processInfo.filter(({ type }) => type === "renderer").map(({ id }) => own(id)));
}
