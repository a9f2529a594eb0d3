// A server for tests: files with ranges, and servers that do not behave.

import { createReadStream, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join, normalize } from "node:path";
import { gzipSync } from "node:zlib";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** Serves folders: `mounts` maps the start of a path to a folder. `hooks` maps paths to functions that answer. Logs all requests. With `compressed`, whole
 * files are sent compressed. */
export async function serve(mounts, hooks = {}, compressed = false) {
  const log = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    const entry = { path: url.pathname, method: request.method, range: request.headers.range, authorization: request.headers.authorization, sent: 0 };
    log.push(entry);
    const write = response.write.bind(response);
    response.write = (chunk, ...rest) => {
      entry.sent += chunk.length;
      return write(chunk, ...rest);
    };
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("access-control-allow-headers", "authorization, range");
    response.setHeader("access-control-expose-headers", "content-range");
    if (request.method === "OPTIONS") return response.end();
    const hook = hooks[url.pathname];
    if (hook) return hook(request, response);
    const mount = Object.keys(mounts).find((start) => url.pathname.startsWith(start));
    if (mount === undefined) return response.writeHead(404).end();
    let path = join(mounts[mount], normalize(decodeURIComponent(url.pathname.slice(mount.length)) || "."));
    try {
      if (statSync(path).isDirectory()) path = join(path, "index.html");
      sendFile(request, response, path, compressed);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A test that fails does not close it.
  server.unref();
  const origin = `http://127.0.0.1:${server.address().port}`;
  const close = () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
  return { origin, log, close };
}

/** A file, or the part of it that is asked for. */
export function sendFile(request, response, path, compressed = false) {
  const { size } = statSync(path);
  const type = TYPES[/\.[a-z]+$/.exec(path)?.[0]] ?? "application/octet-stream";
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  if (!range) {
    if (compressed) return response.writeHead(200, { "content-type": type, "content-encoding": "gzip" }).end(gzipSync(readFileSync(path)));
    response.writeHead(200, { "content-type": type, "content-length": size });
    return createReadStream(path).pipe(response);
  }
  const [start, end] = [Number(range[1]), range[2] === "" ? size - 1 : Math.min(size - 1, Number(range[2]))];
  if (start >= size) return response.writeHead(416, { "content-range": `bytes */${size}` }).end();
  response.writeHead(206, { "content-type": type, "content-length": end - start + 1, "content-range": `bytes ${start}-${end}/${size}` });
  createReadStream(path, { start, end }).pipe(response);
}
