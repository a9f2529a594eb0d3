// Files of web servers: the start of a file is read as a stream, which ends where its head ends.

import type { Module } from "./module";

export interface RemoteHead {
  name: string;
  /** The length of the file, or of what was read if the server does not tell it. */
  fileBytes: number;
  /** The start of the file. */
  bytes: Uint8Array;
  /** The address after redirects. */
  address: string;
  requests: number;
  /** What tells this file from another one at the same address, if the server says it. */
  tag: string | null;
}

/** Most seconds without a byte. */
const PATIENCE = 15_000;

const WORDS: Record<number, string> = {
  401: "the server wants a token: the file may be private or gated",
  403: "the server refuses access: the file may be private or gated, or the address has expired",
  404: "there is no such file on the server",
  416: "the server says that the file is empty, or has no such part",
  429: "the server has had too many requests; try again in some minutes",
};

/** The reason why a request failed, in words. */
export function reason(status: number): string {
  const words = WORDS[status] ?? (status >= 500 ? "the server failed" : "the server did not send the file");
  return `${words} (HTTP ${status})`;
}

/** The last part of an address. */
export function fileName(address: string): string {
  const last = new URL(address).pathname.split("/").pop() ?? "";
  try {
    return decodeURIComponent(last) || "model.gguf";
  } catch {
    return last || "model.gguf";
  }
}

/** The length of the file from `Content-Range: bytes 0-99/1234`, if the server lets the page see it. */
function wholeLength(response: Response): number | null {
  const range = /^bytes \d+-\d+\/(\d+)$/.exec(response.headers.get("content-range") ?? "");
  if (range) return Number(range[1]);
  // The request asks for everything, so the length of the answer is that of the file; but not of one that is compressed.
  const length = response.headers.get("content-length");
  return length !== null && response.headers.get("content-encoding") === null ? Number(length) : null;
}

/** Reads the head of a file: one request, which is ended as soon as the head is there. */
export async function readHead(address: string, module: Module, token: string, patience = PATIENCE): Promise<RemoteHead> {
  const stop = new AbortController();
  let timer = setTimeout(() => stop.abort(), patience);
  const headers: Record<string, string> = { Range: "bytes=0-" };
  if (token !== "") headers.Authorization = `Bearer ${token}`;
  const parts: Uint8Array[] = [];
  let got = 0;
  try {
    let response: Response;
    try {
      response = await fetch(address, { headers, signal: stop.signal, credentials: "omit", referrerPolicy: "no-referrer" });
    } catch (error) {
      if (stop.signal.aborted) throw new Error(`the server did not answer in ${patience / 1000} s`);
      throw new Error(
        `the browser could not fetch the file (${String(error)}). The address may be wrong, or the server may not allow other pages to read it (CORS)`,
      );
    }
    if (!response.ok || response.body === null) throw new Error(reason(response.status));
    const length = wholeLength(response);
    module.scanStart(length);
    const reader = response.body.getReader();
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), patience);
      let next: ReadableStreamReadResult<Uint8Array>;
      try {
        next = await reader.read();
      } catch (error) {
        const why = stop.signal.aborted ? `no byte came in ${patience / 1000} s` : String(error);
        throw new Error(`the server stopped after ${got} bytes: ${why}`);
      }
      if (next.done) break;
      parts.push(next.value);
      got += next.value.length;
      if (!module.scan(next.value)) break;
    }
    if (length !== null && got > length) throw new Error(`the server sent ${got} bytes of a file that has ${length}, as it said`);
    const bytes = new Uint8Array(got);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return { name: fileName(address), fileBytes: length ?? got, bytes, address: response.url || address, requests: 1, tag: response.headers.get("etag") };
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

/** A part of a file. */
export async function readPart(head: RemoteHead, start: number, length: number, token: string, stop: AbortSignal): Promise<Uint8Array> {
  const headers: Record<string, string> = { Range: `bytes=${start}-${start + length - 1}` };
  if (token !== "") headers.Authorization = `Bearer ${token}`;
  const signal = AbortSignal.any([stop, AbortSignal.timeout(PATIENCE)]);
  const slow = (error: unknown): never => {
    throw error instanceof DOMException && error.name === "TimeoutError" ? new Error(`the server did not answer in ${PATIENCE / 1000} s`) : error;
  };
  const response = await fetch(head.address, { headers, signal, credentials: "omit", referrerPolicy: "no-referrer" }).catch(slow);
  if (response.status === 200) {
    await response.body?.cancel();
    throw new Error("the server does not send parts of files");
  }
  if (response.status !== 206) throw new Error(reason(response.status));
  const tag = response.headers.get("etag");
  if (tag !== null && head.tag !== null && tag !== head.tag) throw new Error("the file has changed on the server: open it again");
  const bytes = new Uint8Array(await response.arrayBuffer().catch(slow));
  if (bytes.length !== length) throw new Error(`the server sent ${bytes.length} bytes where ${length} were asked for`);
  return bytes;
}
