// Files of web servers: the start of a file is read as a stream, which ends where its head ends.

import type { Module } from "./module";

export interface RemoteHead {
  name: string;
  /** The length of the file, or of what was read if the server does not tell it. */
  fileBytes: number;
  /** The start of the file: at least its head. */
  bytes: Uint8Array;
  /** Bytes of the head; if it is invalid, those that were received. */
  headBytes: number;
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

/** There is no such file. */
export class Missing extends Error {}

/** The address of another file in the same folder. */
export function beside(address: string, name: string): string {
  const url = new URL(address);
  url.pathname = url.pathname.replace(/[^/]*$/, encodeURIComponent(name));
  return url.href;
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

/** A request that ends if no byte comes for some time. */
class Request {
  private readonly stop = new AbortController();
  private timer = 0;
  private got = 0;

  constructor(
    private readonly patience: number,
    stop?: AbortSignal,
  ) {
    stop?.addEventListener("abort", () => this.stop.abort(stop.reason), { signal: this.stop.signal });
    this.wait();
  }

  private wait(): void {
    clearTimeout(this.timer);
    this.timer = self.setTimeout(() => this.stop.abort(new Error(`${this.got ? "no byte came" : "the server did not answer"} in ${this.patience / 1000} s`)), this.patience);
  }

  end(): void {
    clearTimeout(this.timer);
    this.stop.abort();
  }

  async start(address: string, range: string, token: string): Promise<Response> {
    const headers: Record<string, string> = { Range: range };
    if (token !== "") headers.Authorization = `Bearer ${token}`;
    const signal = this.stop.signal;
    const response = await fetch(address, { headers, signal, credentials: "omit", referrerPolicy: "no-referrer" }).catch((error: unknown) => {
      if (signal.aborted) throw signal.reason;
      throw new Error(
        `the browser could not fetch the file (${String(error)}). The address may be wrong, or the server may not allow other pages to read it (CORS)`,
      );
    });
    if (response.status === 404) throw new Missing(reason(404));
    if (!response.ok || response.body === null) throw new Error(reason(response.status));
    return response;
  }

  /** Gives the bytes of an answer to `take`, until it returns `false`. Returns their number. */
  async receive(response: Response, take: (bytes: Uint8Array) => boolean): Promise<number> {
    const reader = response.body!.getReader();
    for (;;) {
      this.wait();
      const next = await reader.read().catch((error: unknown) => {
        const { aborted, reason } = this.stop.signal;
        if (reason instanceof DOMException) throw reason;
        throw new Error(`the server stopped after ${this.got} bytes: ${aborted ? (reason as Error).message : String(error)}`);
      });
      if (next.done) return this.got;
      this.got += next.value.length;
      if (!take(next.value)) return this.got;
    }
  }
}

/** Reads the head of a file: one request, which is ended as soon as the head is there. */
export async function readHead(address: string, module: Module, token: string, patience = PATIENCE): Promise<RemoteHead> {
  const request = new Request(patience);
  const parts: Uint8Array[] = [];
  try {
    const response = await request.start(address, "bytes=0-", token);
    const length = wholeLength(response);
    module.scanStart(length);
    let scanned = 0;
    const got = await request.receive(response, (bytes) => {
      parts.push(bytes);
      scanned = module.scan(bytes);
      return scanned > 0;
    });
    if (length !== null && got > length) throw new Error(`the server sent ${got} bytes of a file that has ${length}, as it said`);
    const bytes = new Uint8Array(got);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    const headBytes = scanned < 0 ? -scanned : got;
    return { name: fileName(address), fileBytes: length ?? got, bytes, headBytes, address: response.url || address, requests: 1, tag: response.headers.get("etag") };
  } finally {
    request.end();
  }
}

/** A part of a file. */
export async function readPart(head: RemoteHead, start: number, length: number, token: string, stop: AbortSignal): Promise<Uint8Array> {
  const request = new Request(PATIENCE, stop);
  try {
    const response = await request.start(head.address, `bytes=${start}-${start + length - 1}`, token);
    if (response.status !== 206) throw new Error("the server does not send parts of files");
    const tag = response.headers.get("etag");
    if (tag !== null && head.tag !== null && tag !== head.tag) throw new Error("the file has changed on the server: open it again");
    const bytes = new Uint8Array(length);
    let at = 0;
    const got = await request.receive(response, (part) => {
      if (at + part.length <= length) bytes.set(part, at);
      at += part.length;
      return at <= length;
    });
    if (got !== length) throw new Error(`the server sent ${got} bytes where ${length} were asked for`);
    return bytes;
  } finally {
    request.end();
  }
}
