// The page's side of the worker.

import PageWorker from "./worker?worker&inline";
import type { Ask } from "./types";

type Part = "gguf" | "gguf-model" | "gguf-encode";

/** A module: in the page itself, or beside it. */
async function load(part: Part): Promise<WebAssembly.Module> {
  const inlined = document.getElementById(part)?.textContent?.trim();
  if (inlined) {
    const text = atob(inlined);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return WebAssembly.compile(bytes);
  }
  const response = await fetch(new URL(`${part}.wasm`, document.baseURI));
  if (!response.ok) throw new Error(`${part}.wasm, a part of this page, could not be loaded (HTTP ${response.status})`);
  return WebAssembly.compile(await response.arrayBuffer());
}

const loaded = new Map<Part, Promise<WebAssembly.Module>>();

/** Loads and compiles a module once, for all workers. The first one is loaded before a file is given, so that no file waits for it. */
export function prepare(part: Part): Promise<WebAssembly.Module> {
  const known = loaded.get(part);
  if (known) return known;
  const module = load(part).catch((error: unknown) => {
    loaded.delete(part);
    throw error;
  });
  loaded.set(part, module);
  return module;
}

/** A worker for one model. */
export class Client {
  private readonly worker = new PageWorker();
  private readonly waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void; on: (share: number) => void }>();
  private last = 0;
  private readonly ready: Promise<void>;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<{ id: number; value?: unknown; error?: string; share?: number }>) => {
      const waiting = this.waiting.get(data.id);
      if (data.share !== undefined) return waiting?.on(data.share);
      this.waiting.delete(data.id);
      if (data.error !== undefined) waiting?.reject(new Error(data.error));
      else waiting?.resolve(data.value as never);
    };
    this.worker.onerror = (event) => this.fail(new Error(event.message || "the worker could not be started"));
    this.ready = prepare("gguf").then((first) => this.worker.postMessage({ first }));
  }

  private fail(error: Error): void {
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  /** `on` is called with the share of long work that is done. */
  async ask<T>(ask: Ask, on: (share: number) => void = () => {}): Promise<T> {
    await this.ready;
    return new Promise<T>((resolve, reject) => {
      const id = ++this.last;
      this.waiting.set(id, { resolve: resolve as (value: never) => void, reject, on });
      this.worker.postMessage({ id, ask });
    });
  }

  /** Gives the worker the module for findings, tokens, memory and weights. */
  async giveSecond(): Promise<void> {
    this.worker.postMessage({ second: await prepare("gguf-model") });
  }

  /** Gives the worker the module that also encodes. */
  async giveThird(): Promise<void> {
    this.worker.postMessage({ third: await prepare("gguf-encode") });
  }

  /** Stops the long work, if any. */
  stop(): void {
    this.worker.postMessage({ stop: true });
  }

  /** Ends the worker, whatever it does. */
  end(): void {
    this.worker.terminate();
    this.fail(new Error("cancelled"));
  }
}
