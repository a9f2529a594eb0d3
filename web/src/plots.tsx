// Histograms and heat maps on canvases. Each has a table beside it, so the pictures themselves are only named.

import { useEffect, useRef } from "preact/hooks";
import { short } from "./text";
import type { HeatMap } from "./types";

/** A color of the style sheet. */
export function color(element: Element, name: string): string {
  return getComputedStyle(element).getPropertyValue(name).trim();
}

/** Whether the page changes between light and dark. */
const DARK = matchMedia("(prefers-color-scheme: dark)");

/** Draws again when the drawing, or the color scheme, is another one. */
export function useCanvas(draw: (context: CanvasRenderingContext2D, canvas: HTMLCanvasElement) => void) {
  const ref = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const again = () => {
      const canvas = ref.current;
      const context = canvas?.getContext("2d");
      if (!canvas || !context) return;
      context.clearRect(0, 0, canvas.width, canvas.height);
      draw(context, canvas);
    };
    again();
    DARK.addEventListener("change", again);
    return () => DARK.removeEventListener("change", again);
  });
  return ref;
}

/** Counts of equal intervals. The heights are logarithms, so that single outliers are seen. */
export function Histogram({ counts, min, max, label }: { counts: number[]; min: number; max: number; label: string }) {
  const ref = useCanvas((context, canvas) => {
    const most = Math.log1p(Math.max(...counts));
    const [width, height] = [canvas.width, canvas.height - 20];
    context.fillStyle = color(canvas, "--accent");
    counts.forEach((n, i) => {
      if (n === 0) return;
      const tall = Math.max(1, (Math.log1p(n) / most) * height);
      const left = Math.floor((i * width) / counts.length);
      context.fillRect(left, height - tall, Math.max(1, Math.floor(((i + 1) * width) / counts.length) - left), tall);
    });
    context.fillStyle = color(canvas, "--fore");
    context.font = "14px system-ui";
    context.fillText(short(min), 0, height + 16);
    context.textAlign = "right";
    context.fillText(short(max), width, height + 16);
    context.textAlign = "start";
  });
  return <canvas ref={ref} width={768} height={220} role="img" aria-label={label} class="plot" />;
}

/** Bars from zero, with the names of some of them. */
export function Bars({ values, names, label, percent }: { values: number[]; names: string[]; label: string; percent?: boolean }) {
  const ref = useCanvas((context, canvas) => {
    const most = Math.max(...values);
    const [width, height] = [canvas.width / values.length, canvas.height - 40];
    context.font = "13px system-ui";
    context.fillStyle = color(canvas, "--fore");
    context.fillText(percent ? `${Number((most * 100).toPrecision(3))} %` : short(most), 2, 14);
    // As many names as have room.
    const each = Math.ceil(56 / width);
    names.forEach((name, i) => i % each === 0 && context.fillText(name, i * width, canvas.height - 6, 56));
    context.fillStyle = color(canvas, "--accent");
    values.forEach((value, i) => {
      const tall = most > 0 ? (value / most) * height : 0;
      context.fillRect(i * width, 20 + height - tall, Math.max(1, width - 1), tall);
    });
  });
  return <canvas ref={ref} width={960} height={220} role="img" aria-label={label} class="plot" />;
}

/** A color between the background and the accent, over a logarithm of a thousandfold. */
function shade(value: number, most: number): number {
  return Number.isFinite(value) && most > 0 ? Math.max(0, 1 + Math.log10(Math.max(value, 1e-45) / most) / 3) : 0;
}

/** The root mean squares of the cells of a map. A click names a cell. */
export function Heat({ map, label, onCell }: { map: HeatMap; label: string; onCell: (line: number, cell: number) => void }) {
  const { lines, cells, numbers } = map;
  const ref = useCanvas((context, canvas) => {
    let most = 0;
    for (let i = 0; i < numbers.length; i += 3) if (numbers[i]! > most) most = numbers[i]!;
    context.globalAlpha = 1;
    context.fillStyle = color(canvas, "--accent");
    const broken = color(canvas, "--error");
    const accent = color(canvas, "--accent");
    const at = (i: number, n: number, of: number) => Math.floor((i * of) / n);
    for (let line = 0; line < lines; line++) {
      const [top, bottom] = [at(line, lines, canvas.height), at(line + 1, lines, canvas.height)];
      for (let cell = 0; cell < cells; cell++) {
        const rms = numbers[(line * cells + cell) * 3]!;
        context.fillStyle = Number.isNaN(rms) ? broken : accent;
        context.globalAlpha = Number.isNaN(rms) ? 1 : shade(rms, most);
        const left = at(cell, cells, canvas.width);
        context.fillRect(left, top, at(cell + 1, cells, canvas.width) - left, bottom - top);
      }
    }
    context.globalAlpha = 1;
  });
  return (
    <canvas
      ref={ref}
      width={768}
      height={Math.max(24, Math.min(512, lines * 12))}
      role="img"
      aria-label={label}
      class="plot"
      onClick={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const of = (part: number, n: number) => Math.min(n - 1, Math.max(0, Math.floor(part * n)));
        onCell(of((event.clientY - box.top) / box.height, lines), of((event.clientX - box.left) / box.width, cells));
      }}
    />
  );
}
