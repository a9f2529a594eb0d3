// The worker: it owns the module and the files. Each model gets a worker of its own.

import { siblings } from "./files";
import { type Layer, Layers } from "./layers";
import { Module } from "./module";
import { Missing, type RemoteHead, beside, readHead, readPart } from "./remote";
import type { Ask, Compared, Cost, Described, Difference, FilesOf, HeatMap, Opened, Overview, Statistics, TensorRow } from "./types";

interface Source {
  name: string;
  bytes: number;
  read(offset: number, length: number): Uint8Array | null;
  /** Reads bytes ahead, for `read`. */
  load(offset: number, length: number): Promise<void>;
  /** Whether bytes are expensive: of long tensors, a sample is read. */
  remote: boolean;
  /** Parts that are read ahead at once: of a disk, the reads of several overlap; a server gets one request at a time. All of
   * them, and the one before, fit in what is kept. */
  ahead: number;
}

/** Reads are answered from windows of the file: reading is dear, whatever the length. The windows of a head become larger. */
const WINDOW = 256 * 1024;
const MOST_WINDOW = 4 << 20;
/** Bytes of a tensor that are read ahead. */
const AHEAD = 8 << 20;
/** Most bytes of a remote tensor that are read at once; of more, a sample. */
const REMOTE_BYTES = 4 << 20;
/** Most values of a tensor that are encoded to measure a type; of more, a sample. */
const COST_VALUES = 1 << 20;
/** Parts of a sample: each is a request. */
const PARTS = 16;
/** Most bytes of a file that are kept, besides the head of a remote one: those of a tensor of 64 million weights in four bits, for the second pass. */
const KEPT = 40 << 20;
/** Milliseconds of work between two looks at the messages. */
const TURN = 10;
/** Milliseconds between two messages of progress: the page draws each, on a core that reads files, too. */
const TELL = 100;
/** Shards of a server are looked for until so many are missing. */
const MOST_MISSING = 8;

const reader = new FileReaderSync();

function local(file: File): Source {
  // The last parts that were read, the newest first; at least two: one is in use while the next one is read.
  let windows: { start: number; bytes: Uint8Array }[] = [];
  const find = (offset: number, length: number) =>
    windows.find(({ start, bytes }) => offset >= start && offset + length <= start + bytes.length);
  const keep = (start: number, bytes: Uint8Array) => {
    const kept = { start, bytes };
    let sum = 0;
    windows = [kept, ...windows].filter(({ bytes }, i) => (sum += bytes.length) <= KEPT || i < 2);
    return kept;
  };
  const slice = (from: number, to: number) => new Uint8Array(reader.readAsArrayBuffer(file.slice(from, to)));
  /** The window from here: twice as large as the one before, if it continues that. */
  const next = (offset: number, length: number) => {
    const before = windows[0];
    const isNext = before !== undefined && offset >= before.start && offset <= before.start + before.bytes.length;
    const size = Math.max(length, isNext ? Math.min(2 * before.bytes.length, MOST_WINDOW) : WINDOW);
    return keep(offset, slice(offset, Math.min(file.size, offset + size)));
  };
  return {
    name: file.name,
    bytes: file.size,
    remote: false,
    ahead: 3,
    read(offset, length) {
      try {
        const { start, bytes } = find(offset, length) ?? next(offset, length);
        return bytes.subarray(offset - start, offset - start + length);
      } catch {
        return null;
      }
    },
    async load(offset, length) {
      const kept = find(offset, length);
      // It is needed soon, and what is read meanwhile must not replace it.
      if (kept) windows = [kept, ...windows.filter((window) => window !== kept)];
      else keep(offset, new Uint8Array(await file.slice(offset, offset + length).arrayBuffer()));
    },
  };
}

function remote(head: RemoteHead, token: string): Source {
  const first = { start: 0, bytes: head.bytes };
  // The head, then the last parts of the file, the newest first.
  let parts = [first];
  const has = (offset: number, length: number) =>
    parts.find((part) => offset >= part.start && offset + length <= part.start + part.bytes.length);
  return {
    name: head.name,
    bytes: head.fileBytes,
    remote: true,
    ahead: 1,
    read(offset, length) {
      const part = has(offset, length);
      if (part) return part.bytes.subarray(offset - part.start, offset - part.start + length);
      if (offset >= head.headBytes) return null;
      // The module reads heads in large pieces, and does not look at what is behind them, which may not be there.
      const bytes = new Uint8Array(length);
      bytes.set(head.bytes.subarray(offset, offset + length));
      return bytes;
    },
    async load(offset, length) {
      if (has(offset, length)) return;
      const bytes = await readPart(head, offset, length, token, stop.signal);
      let kept = 0;
      parts = [first, { start: offset, bytes }, ...parts.slice(1)].filter((part, i) => i < 2 || (kept += part.bytes.length) + length <= KEPT);
    },
  };
}

/** The files of a model. Of a server, its other shards are looked for beside the named one. */
async function filesOf(from: FilesOf, module: Module): Promise<{ name: string; files: Source[] }> {
  if ("files" in from) return { name: from.name, files: from.files.map(local) };
  const named = await readHead(from.address, module, from.token);
  const heads: RemoteHead[] = [];
  let missing = 0;
  for (const name of siblings(named.name)) {
    if (name === named.name) heads.push(named);
    else if (missing < MOST_MISSING) {
      const head = await readHead(beside(from.address, name), module, from.token).catch((error: unknown) => {
        if (!(error instanceof Missing)) throw error;
        missing++;
      });
      if (head) heads.push(head);
    }
  }
  return { name: named.name, files: heads.map((head) => remote(head, from.token)) };
}

let sources: Source[] = [];
/** The number of sources of the model; those after it are of models that it was compared with, the last of them from here. */
let own = 0;
let other = 0;
let module: Module | undefined;
let name = "";
let layers: Layer[] = [];

/** The module for findings, tokens, memory and weights, which is loaded after the first screen. */
let second: Promise<Module> | undefined;
let giveSecond: (wasm: WebAssembly.Module) => void;
const secondModule = new Promise<WebAssembly.Module>((resolve) => (giveSecond = resolve));

/** The module that also encodes, which is loaded when it is asked for. */
let third: Promise<Module> | undefined;
let giveThird: (wasm: WebAssembly.Module) => void;
const thirdModule = new Promise<WebAssembly.Module>((resolve) => (giveThird = resolve));

/** Milliseconds in which the module waited for bytes. */
let reading = 0;

function start(wasm: WebAssembly.Module): Promise<Module> {
  return Module.start(wasm, (file, offset, length) => {
    const from = performance.now();
    const bytes = sources[file]?.read(offset, length) ?? null;
    reading += performance.now() - from;
    return bytes;
  });
}

function open(module: Module): Pick<Opened, "overview" | "reading" | "parsing"> {
  for (const source of sources.slice(0, own)) module.addFile(source.name, source.bytes);
  reading = 0;
  const from = performance.now();
  const overview = module.ask<Overview>("open", name);
  return { overview, reading, parsing: performance.now() - from - reading };
}

async function openMore(wasm: Promise<WebAssembly.Module>): Promise<Module> {
  const module = await start(await wasm);
  open(module);
  return module;
}

let giveFirst: (wasm: WebAssembly.Module) => void;
const first = new Promise<WebAssembly.Module>((resolve) => (giveFirst = resolve));

/** Ends the long work that runs, if any. */
let stop = new AbortController();
const STOPPED = "stopped";

const channel = new MessageChannel();
/** Lets messages in between two steps. */
const pause = () =>
  new Promise<void>((go) => {
    channel.port1.onmessage = () => go();
    channel.port2.postMessage(null);
  });

/** Long work: it replaces that before. Each step waits for the result, which throws if the work has ended; the module has only one work at a time. */
function work(): () => Promise<void> {
  stop.abort();
  const mine = new AbortController();
  stop = mine;
  let paused = performance.now();
  return async () => {
    if (performance.now() - paused >= TURN) {
      await pause();
      paused = performance.now();
    }
    if (mine.signal.aborted) throw new Error(STOPPED);
  };
}

function describe(module: Module, shard: number, index: number): Described {
  const described = module.ask<Described>("describe", "", shard, index);
  if (described.error !== undefined) throw new Error(described.error);
  return described;
}

type Share = (share: number) => void;

async function statistics(module: Module, ask: Ask & { kind: "statistics" }, share: Share): Promise<Statistics> {
  const go = work();
  const from = performance.now();
  const tensor = describe(module, ask.shard, ask.index);
  const source = sources[ask.shard]!;
  const [start, bytes, step, rowBytes] = [tensor.start, tensor.bytes, tensor.step, tensor.row_bytes].map(Number) as [number, number, number, number];
  const sample = !ask.whole && source.remote && bytes > REMOTE_BYTES;
  const ahead = Math.max(1, Math.floor(AHEAD / step)) * step;
  const parts: [number, number][] = [];
  if (sample) {
    // Whole rows, if they are short.
    const unit = rowBytes <= step ? Math.floor(step / rowBytes) * rowBytes : step;
    const last = Math.floor(bytes / unit) - 1;
    for (let i = 0; i < PARTS; i++) parts.push([Math.round((last * i) / (PARTS - 1)) * unit, unit]);
  } else {
    // The first part is short, so that the work begins soon.
    const first = Math.min(4 * step, bytes);
    parts.push([0, first]);
    for (let at = first; at < bytes; at += ahead) parts.push([at, Math.min(ahead, bytes - at)]);
  }
  const all = parts.reduce((sum, [, n]) => sum + n, 0) * 2;
  let done = 0;
  module.step("survey", ask.shard, ask.index, ask.bins);
  /** Begins to read a part. What fails is thrown where the part is waited for. */
  const load = ([at, length]: [number, number]) => {
    const loading = source.load(start + at, length);
    loading.catch(() => {});
    return loading;
  };
  // Parts are read while those before them are added up; after the last one, the first ones again.
  const twice = [...parts, ...parts];
  const loading: Promise<void>[] = [];
  for (const [i, [at, length]] of twice.entries()) {
    await (loading[i] ??= load([at, length]));
    while (loading.length < Math.min(i + 1 + source.ahead, twice.length)) loading.push(load(twice[loading.length]!));
    for (let part = at; part < at + length; part += 4 * step) {
      const n = Math.min(4 * step, at + length - part);
      await go();
      module.step("survey_add", i < parts.length ? 0 : 1, part, n);
      done += n;
    }
    share(done / all);
  }
  const figures = module.ask<Statistics>("result", "");
  return { ...figures, sample, milliseconds: performance.now() - from };
}

/** Reads rows ahead: of one tensor, or of both sides. */
function loadRows(sides: { source: Source; tensor: Described }[], row: number, n: number): Promise<unknown> {
  const load = ({ source, tensor }: { source: Source; tensor: Described }) =>
    source.load(Number(tensor.start) + row * Number(tensor.row_bytes), n * Number(tensor.row_bytes));
  return Promise.all(sides.map(load));
}

/** Both sides of a tensor of two models. */
function sidesOf(module: Module, index: number): { source: Source; tensor: Described }[] {
  const [row] = module.ask<{ data: (Described | null)[]; places: ([number, number] | null)[] }[]>("compared_tensors", "", index, 1);
  return [0, 1].map((side) => {
    const [tensor, place] = [row?.data[side], row?.places[side]];
    if (!tensor || !place) throw new Error("only one of the models has values for this tensor");
    return { tensor, source: sources[place[0] + (side ? other : 0)]! };
  });
}

async function heatMap(module: Module, ask: Ask & { kind: "map" }, share: Share): Promise<HeatMap> {
  const go = work();
  const sides = ask.compared
    ? sidesOf(module, ask.index)
    : [{ source: sources[ask.shard]!, tensor: describe(module, ask.shard, ask.index) }];
  const rowBytes = Math.max(...sides.map(({ tensor }) => Number(tensor.row_bytes)));
  const [rows, columns] = [ask.rows, ask.columns];
  const nRows = rows[1] - rows[0];
  if (columns[1] - columns[0] > 1 << 24) throw new Error("a map has at most 16,777,216 columns");
  const sample = !ask.whole && sides.some(({ source }) => source.remote) && nRows * rowBytes > REMOTE_BYTES;
  const lines = Math.min(sample ? PARTS : ask.lines, nRows);
  const cells = Math.min(ask.cells, columns[1] - columns[0]);
  module.step("map", ask.compared ? 1 : 0, ask.shard, ask.index, columns[0], columns[1], lines, cells);
  const batch = Math.max(1, Math.floor((1 << 19) / Math.max(1, columns[1] - columns[0])));
  const ahead = Math.max(1, Math.floor(AHEAD / rowBytes));
  for (let line = 0; line < lines; line++) {
    const from = rows[0] + Math.floor((line * nRows) / lines);
    const until = sample ? from + 1 : rows[0] + Math.floor(((line + 1) * nRows) / lines);
    for (let row = from; row < until; row += batch) {
      const n = Math.min(batch, until - row);
      // The rows of the next lines come with these.
      await loadRows(sides, row, sample ? n : Math.max(n, Math.min(ahead, rows[1] - row)));
      await go();
      module.step("map_rows", line, row, n);
    }
    share((line + 1) / lines);
  }
  const bytes = module.bytes("result", "");
  return { rows, columns, lines, cells, sample, numbers: new Float32Array(bytes.buffer) };
}

/** The error of the rows of both models. */
async function compareRows(module: Module, sides: { source: Source; tensor: Described }[], whole: boolean, share: Share): Promise<Difference> {
  const go = work();
  const nRows = Number(sides[0]!.tensor.n_rows);
  const rowBytes = Math.max(1, ...sides.map(({ tensor }) => Number(tensor.row_bytes)));
  const values = Number(sides[0]!.tensor.row_len);
  const sample = !whole && sides.some(({ source }) => source.remote) && nRows * rowBytes > REMOTE_BYTES;
  const batch = Math.max(1, Math.floor((1 << 19) / values));
  const ahead = Math.max(batch, Math.floor(AHEAD / rowBytes));
  const starts = sample ? Array.from({ length: PARTS }, (_, i) => Math.floor((i * nRows) / PARTS)) : [0];
  const each = sample ? Math.max(1, Math.floor(REMOTE_BYTES / PARTS / rowBytes)) : nRows;
  for (const [i, start] of starts.entries()) {
    const end = Math.min(start + each, starts[i + 1] ?? nRows);
    for (let row = start; row < end; row += batch) {
      const n = Math.min(batch, end - row);
      await loadRows(sides, row, Math.min(Math.max(n, (row - start) % ahead === 0 ? ahead : n), end - row));
      await go();
      module.step("compare_rows", row, n);
      share((i + (row + n - start) / (end - start)) / starts.length);
    }
  }
  return { ...module.ask<Difference>("result", ""), sample };
}

/** The error of a tensor as another type: of all its rows, or of a sample of them. */
async function cost(module: Module, ask: Ask & { kind: "cost" }, share: Share): Promise<Cost> {
  const go = work();
  const tensor = describe(module, ask.shard, ask.index);
  const source = sources[ask.shard]!;
  const [nRows, values, rowBytes] = [tensor.n_rows, tensor.row_len, tensor.row_bytes].map(Number) as [number, number, number];
  const sample = !ask.whole && nRows * values > COST_VALUES;
  const each = sample ? Math.max(1, Math.floor(COST_VALUES / PARTS / values)) : nRows;
  const starts = sample ? Array.from({ length: PARTS }, (_, i) => Math.floor((i * (nRows - each)) / (PARTS - 1))) : [0];
  const batch = Math.max(1, Math.floor((1 << 16) / Math.max(1, values)));
  const ahead = Math.max(batch, Math.floor(AHEAD / rowBytes));
  module.step("cost", ask.shard, ask.index, ask.type);
  for (const [i, start] of starts.entries()) {
    for (let row = start; row < start + each; row += batch) {
      const n = Math.min(batch, start + each - row);
      const isEdge = (row - start) % (Math.floor(ahead / batch) * batch) === 0;
      await loadRows([{ source, tensor }], row, isEdge ? Math.min(Math.floor(ahead / batch) * batch, start + each - row) : n);
      await go();
      module.step("cost_rows", row, n);
      share((i + (row + n - start) / each) / starts.length);
    }
  }
  return { ...module.ask<Cost>("result", ""), sample };
}

/** The layers of the model. */
function layersOf(module: Module): Layer[] {
  const all = new Layers();
  const n = module.findTensors("", 0, false);
  for (let at = 0; at < n; at += 1024) {
    for (const row of module.ask<TensorRow[]>("tensors", "", at, 1024)) {
      all.add({ name: row.name, type: row.type, elements: Number(row.n_elements ?? 0), bytes: Number(row.bytes ?? 0) });
    }
  }
  return all.list();
}

async function answer(ask: Ask, share: Share): Promise<unknown> {
  const from = performance.now();
  const opened = (): Opened => {
    if (!module) throw new Error("no module");
    own = sources.length;
    const answer = open(module);
    return { ...answer, remote: sources.some((source) => source.remote), memory: module?.memoryBytes ?? 0, milliseconds: performance.now() - from };
  };
  if (ask.kind === "open") {
    module = await start(await first);
    const found = await filesOf(ask.from, module);
    [name, sources] = [found.name, found.files];
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
    case "findLayers":
      layers = layersOf(module);
      return layers.length;
    case "layers":
      return layers.slice(ask.from, ask.from + ask.n);
  }
  const more = await (second ??= openMore(secondModule));
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
    case "statistics":
      return statistics(more, ask, share);
    case "map":
      return heatMap(more, ask, share);
    case "values": {
      const tensor = describe(more, ask.shard, ask.index);
      const n = Math.min(ask.nRows, Number(tensor.n_rows) - ask.row);
      if (sources[ask.shard]?.remote) await loadRows([{ source: sources[ask.shard]!, tensor }], ask.row, n);
      return more.ask("values", "", ask.shard, ask.index, ask.row, n, ask.column, ask.nColumns);
    }
    case "compare": {
      const found = await filesOf(ask.from, module);
      other = sources.length;
      sources = [...sources, ...found.files];
      for (const file of found.files) more.addFile(file.name, file.bytes, true);
      return { ...more.ask<Compared>("compare", found.name), remote: [...sources.slice(0, own), ...found.files].some((file) => file.remote) };
    }
    case "comparedKeys":
      return more.ask("compared_keys", "", ask.from, ask.n);
    case "comparedTensors":
      return more.ask("compared_tensors", "", ask.from, ask.n);
    case "difference":
      more.step("difference", ask.index);
      return compareRows(more, sidesOf(more, ask.index), ask.whole, share);
    case "types":
      return (await (third ??= openMore(thirdModule))).ask("types", "", ask.shard, ask.index);
    case "cost":
      return cost(await (third ??= openMore(thirdModule)), ask, share);
    case "edits":
      return more.ask("edits", JSON.stringify(ask.edits));
    case "editedHead":
      return more.bytes("edited_head", JSON.stringify(ask.edits));
  }
}

type Message = { first: WebAssembly.Module } | { second: WebAssembly.Module } | { third: WebAssembly.Module } | { stop: true } | { id: number; ask: Ask };

self.onmessage = ({ data }: MessageEvent<Message>) => {
  if ("first" in data) return giveFirst(data.first);
  if ("second" in data) return giveSecond(data.second);
  if ("third" in data) return giveThird(data.third);
  if ("stop" in data) return stop.abort();
  let told = 0;
  const share = (share: number) => {
    const now = performance.now();
    if (now - told < TELL) return;
    told = now;
    self.postMessage({ id: data.id, share });
  };
  answer(data.ask, share).then(
    (value) => self.postMessage({ id: data.id, value }),
    (error: unknown) => {
      // A trap of the module ends it; the page starts another worker for the next file.
      const isStopped = error instanceof DOMException && error.name === "AbortError";
      const said = isStopped ? STOPPED : error instanceof Error ? error.message : String(error);
      self.postMessage({ id: data.id, error: said });
    },
  );
};
