// The answers of the program in JSON, as far as the page shows them.

import type { Findings } from "../types";

/** A text of a file; bytes that are no text are in hexadecimal. */
export type Text = string | { hex: string };

export interface Figures {
  not_finite: number;
  rmse: number;
  relative: number | string;
  cosine: number;
  largest: { error: number; row: number; column: number } | null;
  weighted: { relative: number | string; cosine: number } | null;
}

interface Side {
  shape: number[];
  type: string;
}

interface Value {
  type: string;
  value: unknown;
}

export interface Check {
  schema: "gguf.check/1";
  good: boolean;
  files: (Findings & { path?: Text; shards?: Text[]; error?: { message: string; help?: string } })[];
}

export interface Diff {
  schema: "gguf.diff/1";
  a: Text;
  b: Text;
  same: boolean;
  n_same_keys: number;
  keys: { key: Text; a: Value | null; b: Value | null }[];
  tensors: { name: Text; same: boolean; a: Side | null; b: Side | null; data: string; first_different_byte: number | null; error: Figures | null }[];
  total: Figures | null;
}

export interface Quantize {
  schema: "gguf.quantize/1";
  files: { path: Text }[];
  tensors: ({ name: Text; shape: number[]; from: string; to: string; n_weights: number; bytes: number } & Figures)[];
  total: { n_weights: number; bytes: number } & Figures;
}

export type Answer = Check | Diff | Quantize;

export function plain(text: Text): string {
  return typeof text === "string" ? text : `bytes ${text.hex}`;
}

/** A value of a key on one line. */
export function shown(value: Value | null): string {
  if (value === null) return "missing";
  return typeof value.value === "string" ? value.value : JSON.stringify(value.value);
}

/** `6.21 %` */
export function percent(relative: number | string): string {
  return typeof relative === "number" ? `${Number((relative * 100).toPrecision(3))} %` : relative;
}
