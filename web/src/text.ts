// Numbers for people.

/** Digits in groups of three. */
export function grouped(n: string | number): string {
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** A size in bytes, such as `1.50 GiB`. */
export function size(bytes: string | number): string {
  let n = Number(bytes);
  let unit = 0;
  while (n >= 1024 && unit < UNITS.length - 1) {
    n /= 1024;
    unit++;
  }
  if (unit === 0) return n === 1 ? "1 byte" : `${n} bytes`;
  return `${n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)} ${UNITS[unit]}`;
}

/** Bits per weight. */
export function bits(bytes: string | null, elements: string | null): string {
  if (bytes === null || elements === null || elements === "0") return "?";
  return ((Number(bytes) * 8) / Number(elements)).toFixed(2);
}

/** `1 tensor`, `2 tensors`. */
export function count(n: number | string, noun: string): string {
  return `${grouped(n)} ${noun}${String(n) === "1" ? "" : "s"}`;
}

/** A number with a few digits. */
export function short(n: number): string {
  return Number.isNaN(n) ? "NaN" : Number(n.toPrecision(5)).toString();
}
