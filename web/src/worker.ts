// The worker: it owns the module and the files. Each model gets a worker of its own.

import { Module } from "./module";
import { readHead } from "./remote";
import type { Ask, Opened, Overview } from "./types";

interface Source {
  name: string;
  bytes: number;
  read(offset: number, length: number): Uint8Array | null;
}

/** Reads of less than this are answered from a window of the file. */
const WINDOW = 256 * 1024;

const reader = new FileReaderSync();

function local(file: File): Source {
  let window = new Uint8Array();
  let start = 0;
  const slice = (from: number, to: number) => new Uint8Array(reader.readAsArrayBuffer(file.slice(from, to)));
  return {
    name: file.name,
    bytes: file.size,
    read(offset, length) {
      try {
        if (length >= WINDOW) return slice(offset, offset + length);
        if (offset < start || offset + length > start + window.length) {
          start = offset;
          window = slice(offset, Math.min(file.size, offset + WINDOW));
        }
        return window.subarray(offset - start, offset - start + length);
      } catch {
        return null;
      }
    },
  };
}

let sources: Source[] = [];
let module: Module | undefined;
let name = "";

/** The module for findings, tokens and memory, which is loaded after the first screen. */
let second: Promise<Module> | undefined;
let giveSecond: (wasm: ArrayBuffer) => void;
const secondBytes = new Promise<ArrayBuffer>((resolve) => (giveSecond = resolve));

function start(wasm: WebAssembly.Module): Promise<Module> {
  return Module.start(wasm, (file, offset, length) => sources[file]?.read(offset, length) ?? null);
}

function open(module: Module): { overview: Overview; parsing: number } {
  for (const source of sources) module.addFile(source.name, source.bytes);
  const from = performance.now();
  const overview = module.ask<Overview>("open", name);
  return { overview, parsing: performance.now() - from };
}

async function openSecond(): Promise<Module> {
  const module = await start(await WebAssembly.compile(await secondBytes));
  open(module);
  return module;
}

let giveFirst: (wasm: ArrayBuffer) => void;
const first = new Promise<ArrayBuffer>((resolve) => (giveFirst = resolve)).then((bytes) => WebAssembly.compile(bytes));

async function answer(ask: Ask): Promise<unknown> {
  const from = performance.now();
  const opened = (): Opened => {
    if (!module) throw new Error("no module");
    const answer = open(module);
    return { ...answer, memory: module?.bytes ?? 0, milliseconds: performance.now() - from };
  };
  if (ask.kind === "files") {
    sources = ask.files.map(local);
    name = ask.name;
    module = await start(await first);
    return opened();
  }
  if (ask.kind === "address") {
    const head = await readHead(ask.address, (module = await start(await first)), ask.token);
    name = head.name;
    sources = [
      {
        name,
        bytes: head.fileBytes,
        read: (offset, length) => (offset + length <= head.bytes.length ? head.bytes.subarray(offset, offset + length) : null),
      },
    ];
    return opened();
  }
  if (!module) throw new Error("no file is open");
  switch (ask.kind) {
    case "kvs":
    case "tensors":
      return module.ask(ask.kind, "", ask.from, ask.n);
    case "text":
      return module.ask("text", "", ask.kv);
    case "elements":
      return module.ask("elements", "", ask.kv, ask.from, ask.n);
    case "findTensors":
      return module.findTensors(ask.part, ask.order, ask.descending);
    case "findKvs":
      return module.findKvs(ask.part);
    case "templates":
      return module.ask("templates", "");
  }
  const more = await (second ??= openSecond());
  switch (ask.kind) {
    case "findings":
      return more.ask("findings", name);
    case "tokenizer":
      return more.ask("tokenizer", "");
    case "findTokens":
      return more.findTokens(ask.part, ask.type);
    case "tokens":
      return more.ask("tokens", "", ask.from, ask.n);
    case "estimate":
      return more.ask("estimate", "", ask.context, ask.typeK, ask.typeV, ask.flash ? 1 : 0, ask.gpuLayers);
  }
}

self.onmessage = ({ data }: MessageEvent<{ first: ArrayBuffer } | { second: ArrayBuffer } | { id: number; ask: Ask }>) => {
  if ("first" in data) return giveFirst(data.first);
  if ("second" in data) return giveSecond(data.second);
  answer(data.ask).then(
    (value) => self.postMessage({ id: data.id, value }),
    (error: unknown) => {
      // A trap of the module ends it; the page starts another worker for the next file.
      const said = error instanceof Error ? error.message : String(error);
      self.postMessage({ id: data.id, error: said });
    },
  );
};
