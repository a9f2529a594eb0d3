// Files of web servers: the start of a file is read in a few parts, of which the last one ends a little behind the head.

import type { Module } from "./module";

export interface RemoteHead {
  name: string;
  /** The length of the file, or of what was read if the server does not tell it. */
  fileBytes: number;
  /** The start of the file: at least its head. */
  bytes: Uint8Array;
  /** Bytes of the head; if it is invalid, those that were received. */
  headBytes: number;
  /** The address that was given, and that after redirects. */
  given: string;
  address: string;
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

/** The server refuses, with a status. */
class Refused extends Error {
  constructor(readonly status: number) {
    super(reason(status));
  }
}

/** There is no such file. */
export class Missing extends Refused {}

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

/** Where an answer starts and how long the file is, if the server lets the page see it: `Content-Range: bytes 0-99/1234`. */
function placeOf(response: Response): { start: number; whole: number } | null {
  const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get("content-range") ?? "");
  return range && { start: Number(range[1]), whole: Number(range[2]) };
}

/** The length of an answer that is not compressed, if it is known. */
function lengthOf(response: Response): number | null {
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
    // A cache could join parts of two versions of a file.
    const response = await fetch(address, { headers, signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" }).catch((error: unknown) => {
      if (signal.aborted) throw signal.reason;
      throw new Error(
        `the browser could not fetch the file (${String(error)}). The address may be wrong, or the server may not allow other pages to read it (CORS)`,
      );
    });
    if (response.status === 404) throw new Missing(404);
    if (!response.ok || response.body === null) throw new Refused(response.status);
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

/** Bytes of the first part. Many heads are shorter. */
const FIRST = 64 << 10;

/** The end of the next part. The second one stops early, to learn the size of the rest; what follows it is a little larger than the head probably is. */
function nextEnd(module: Module, need: number, got: number, isSecond: boolean): number {
  const likely = Math.ceil(module.likelyBytes * (isSecond ? 0.7 : 1.05));
  return Math.max(need, likely, got + FIRST);
}

/** Reads the head of a file. Usual heads need three requests, and at most a tenth more than their length. */
export async function readHead(address: string, module: Module, token: string, patience = PATIENCE): Promise<RemoteHead> {
  const parts: Uint8Array[] = [];
  const head: Omit<RemoteHead, "bytes"> = { name: fileName(address), fileBytes: 0, headBytes: 0, given: address, address, tag: null };
  let length: number | null = null;
  let [got, scanned, end] = [0, 1, FIRST];
  for (let part = 0; ; part++) {
    const request = new Request(patience);
    try {
      const range = `bytes=${got}-${end === Infinity ? "" : end - 1}`;
      const response = await request.start(head.address, range, tokenFor(head, token)).catch((error: unknown) => {
        // The file ends where the first part did.
        if (part > 0 && end === Infinity && error instanceof Refused && error.status === 416) return null;
        throw error;
      });
      if (response === null) {
        length = got;
        break;
      }
      const place = placeOf(response);
      const rest = lengthOf(response);
      if (part === 0) {
        [head.address, head.tag] = [response.url || address, response.headers.get("etag")];
        // A server without ranges sends the whole file.
        if (response.status !== 206) [length, end] = [rest, Infinity];
        else length = place?.whole ?? null;
        module.scanStart(length);
      } else {
        checkPart(head, response, got);
        if (end === Infinity && rest !== null) length = got + rest;
      }
      const from = got;
      if (scanned > 0) {
        await request.receive(response, (bytes) => {
          parts.push(bytes);
          got += bytes.length;
          scanned = module.scan(bytes);
          return scanned > 0;
        });
      }
      if (length !== null && got > length) throw new Error(`the server sent ${got} bytes of a file that has ${length}, as it said`);
      if (part === 0 && response.status === 206 && place === null) {
        // The server does not say how long the file is: what is asked for without an end tells it, unless this was all.
        if (got >= FIRST) {
          end = Infinity;
          continue;
        }
        length = got;
      }
      const isAll = end === Infinity || got === from || (length !== null && got >= length);
      if (scanned <= 0 || isAll) break;
      end = Math.min(nextEnd(module, scanned, got, part === 0), length ?? Infinity);
    } finally {
      request.end();
    }
  }
  const bytes = new Uint8Array(got);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return { ...head, bytes, fileBytes: length ?? got, headBytes: scanned < 0 ? -scanned : got };
}

/** The token is for the host that was named, and not for those that it redirects to. */
function tokenFor({ given, address }: { given: string; address: string }, token: string): string {
  return new URL(given).origin === new URL(address).origin ? token : "";
}

/** Checks that an answer is the part of the file that was asked for. */
function checkPart(head: { tag: string | null }, response: Response, start: number): void {
  if (response.status !== 206) throw new Error("the server does not send parts of files");
  const place = placeOf(response);
  if (place !== null && place.start !== start) throw new Error(`the server sent the bytes from ${place.start} where those from ${start} were asked for`);
  const tag = response.headers.get("etag");
  if (tag !== null && head.tag !== null && tag !== head.tag) throw new Error("the file has changed on the server: open it again");
}

/** A part of a file. Addresses after redirects expire; then the given one leads to a new one. */
export async function readPart(head: RemoteHead, start: number, length: number, token: string, stop: AbortSignal): Promise<Uint8Array> {
  const request = new Request(PATIENCE, stop);
  try {
    const ask = (address: string) =>
      request.start(address, `bytes=${start}-${start + length - 1}`, tokenFor({ given: head.given, address }, token));
    // Another part that is read meanwhile may change the address of the head.
    const { address } = head;
    const response = await ask(address).catch((error: unknown) => {
      if (!(error instanceof Refused) || address === head.given) throw error;
      return ask(head.given);
    });
    if (response.url) head.address = response.url;
    checkPart(head, response, start);
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
