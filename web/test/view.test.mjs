// The page as `gguf view` serves it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { examples, launch, open } from "./browser.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Starts the program. `said` is what it prints to standard error. */
async function start(t, args, env = {}) {
  const child = spawn(process.env.GGUF_PROGRAM, ["view", ...args], { env: { ...process.env, SSH_CONNECTION: "", ...env } });
  t.after(() => child.kill());
  const said = [];
  child.stderr.on("data", (bytes) => said.push(bytes));
  const ended = once(child, "close").then(([code]) => assert.fail(`the program ended with ${code}: ${Buffer.concat(said)}`));
  ended.catch(() => {});
  const [line] = await Promise.race([once(child.stdout, "data"), ended]);
  return { child, address: String(line).trim(), said: () => Buffer.concat(said).toString() };
}

/** The status, headers and body of an answer. */
async function get(address, headers = {}, method = "GET") {
  const asked = request(address, { headers, method });
  asked.end();
  const [response] = await once(asked, "response");
  const parts = [];
  for await (const part of response) parts.push(part);
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) };
}

// Most of their time is waiting.
describe("at once", { concurrency: true }, () => {
  test("a model is shown, and the program ends with the page", async (t) => {
    const { child, address } = await start(t, ["--no-open", join(examples, "tiny-00001-of-00002.gguf")]);
    assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/$/);
    const { page, context, problems, requests } = await open(browser, address);
    await page.getByRole("heading", { level: 2, name: "tiny-00001-of-00002.gguf" }).waitFor();
    assert.equal(await page.getByText(/^Missing shards/).count(), 0);
    const view = (name) => page.getByRole("navigation").getByRole("button", { name }).click();
    await view("Tensors");
    await page.getByRole("button", { name: "token_embd.weight", exact: true }).click();
    await page.getByRole("button", { name: "Compute the statistics" }).click();
    await page.getByRole("table", { name: "Statistics" }).waitFor();
    await view("Findings");
    await page.getByText("0 errors").waitFor();
    assert.deepEqual(problems, []);
    assert.deepEqual(requests.filter((url) => !url.startsWith(address) && !url.startsWith("blob:") && !url.startsWith("data:")), []);
    // A page that is loaded again is the same one.
    await page.reload();
    await page.getByRole("heading", { level: 2, name: "tiny-00001-of-00002.gguf" }).waitFor();
    assert.equal(child.exitCode, null);
    const exit = once(child, "exit");
    await context.close();
    assert.deepEqual(await exit, [0, null]);
  });

  test("several models are listed", async (t) => {
    const { child, address } = await start(t, ["--no-open", join(examples, "tiny.gguf"), join(examples, "tiny-00002-of-00002.gguf")]);
    const { page, context } = await open(browser, address);
    await page.getByRole("button", { name: "tiny.gguf", exact: true }).click();
    await page.getByRole("heading", { level: 2, name: "tiny.gguf" }).waitFor();
    const exit = once(child, "exit");
    child.kill("SIGINT");
    await exit;
    await page.getByRole("alert").filter({ hasText: "gguf view has ended" }).waitFor();
    await context.close();
  });

  test("only this machine, and only who knows the address, is answered", async (t) => {
    const { child, address, said } = await start(t, ["--no-open", join(examples, "tiny.gguf")], { SSH_CONNECTION: "192.0.2.1 5 192.0.2.2 22", USER: "me" });
    const { origin, port, pathname } = new URL(address);
    const status = async (path, headers, method) => (await get(`${origin}${path}`, headers, method)).status;
    assert.equal(await status(pathname), 200);
    assert.equal(await status(pathname, { host: `localhost:${port}` }), 200);
    for (const host of ["evil.example", `evil.example:${port}`, "127.0.0.1.evil.example"]) assert.equal(await status(pathname, { host }), 421, host);
    for (const path of ["/", "/models", `${pathname.slice(0, -1)}`, "/0123456789abcdef0123456789abcdef/", `${pathname}files/0/../../etc/passwd`, `${pathname}files/1/tiny.gguf`, `${pathname}files/0/other.gguf`]) {
      assert.equal(await status(path), 404, path);
    }
    assert.equal(await status(pathname, {}, "POST"), 405);
    const file = `${address}files/0/tiny.gguf`;
    const whole = await get(file);
    assert.equal(whole.status, 200);
    const part = await get(file, { range: "bytes=100-199" });
    assert.equal(part.status, 206);
    assert.equal(part.headers["content-range"], `bytes 100-199/${whole.body.length}`);
    assert.deepEqual(part.body, whole.body.subarray(100, 200));
    assert.deepEqual((await get(file, { range: "bytes=100-" })).body, whole.body.subarray(100));
    assert.equal((await get(file, { range: `bytes=${whole.body.length}-` })).status, 416);
    assert.equal((await get(file, {}, "HEAD")).body.length, 0);
    assert.equal(part.headers["access-control-allow-origin"], undefined);
    assert.equal(await status(pathname, { "x-long": "x".repeat(20_000) }), 431);
    assert.ok(said().includes(`ssh -N -L ${port}:127.0.0.1:${port} me@192.0.2.2`), said());
    child.kill("SIGINT");
    await once(child, "exit");
  });
});
