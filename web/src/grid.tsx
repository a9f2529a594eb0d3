// Tensors as a grid: a column for each layer, a row for each kind of tensor.

import { color, useCanvas } from "./plots";

export interface Cell {
  column: string;
  row: string;
  type: string;
  error: number;
}

/** Most rows and columns of a picture. */
const ROWS = 60;
const COLUMNS = 400;
const ROW = 14;
const LEFT = 230;
const WIDTH = 960;
/** Hues of types, the most frequent first. */
const HUES = [212, 30, 140, 275, 350, 185, 55, 320, 100, 245];

/** Types are told by hue, errors by shade. */
export function Grid({ cells, by, label }: { cells: Cell[]; by: "type" | "error"; label: string }) {
  const columns = [...new Set(cells.map((cell) => cell.column))].slice(0, COLUMNS);
  const rows = [...new Set(cells.map((cell) => cell.row))].slice(0, ROWS);
  const [left, top] = [new Map(columns.map((name, i) => [name, i])), new Map(rows.map((name, i) => [name, i]))];
  const counts = new Map<string, number>();
  for (const { type } of cells) counts.set(type, (counts.get(type) ?? 0) + 1);
  const types = [...counts].sort((a, b) => b[1] - a[1]);
  const fill = (type: string) => `hsl(${HUES[types.findIndex(([name]) => name === type) % HUES.length]} 60% 50%)`;
  const most = Math.max(0, ...cells.map((cell) => cell.error).filter(Number.isFinite));
  const width = Math.min(28, (WIDTH - LEFT) / Math.max(1, columns.length));
  const ref = useCanvas((context, canvas) => {
    context.font = "12px system-ui";
    context.textBaseline = "middle";
    context.fillStyle = color(canvas, "--fore");
    rows.forEach((name, i) => context.fillText(name.length > 34 ? `${name.slice(0, 33)}…` : name, 2, i * ROW + ROW / 2, LEFT - 8));
    columns.forEach((name, i) => {
      const each = Math.ceil(24 / width);
      const number = name.split(".").pop() ?? "";
      if (i % each === 0) context.fillText(number, LEFT + i * width, rows.length * ROW + 9);
    });
    const accent = color(canvas, "--accent");
    for (const cell of cells) {
      const [x, y] = [left.get(cell.column), top.get(cell.row)];
      if (x === undefined || y === undefined || (by === "error" && Number.isNaN(cell.error))) continue;
      context.fillStyle = by === "type" ? fill(cell.type) : accent;
      context.globalAlpha = by === "type" ? 1 : 0.08 + 0.92 * (most > 0 && cell.error < most ? cell.error / most : 1);
      context.fillRect(LEFT + x * width, y * ROW, Math.max(1, width - 1), ROW - 1);
    }
    context.globalAlpha = 1;
  });
  return (
    <figure>
      <figcaption>
        {by === "error" && "Relative errors: the darker, or in dark mode the brighter, the larger."}
        {by === "type" &&
          types.slice(0, HUES.length).map(([type, n]) => (
            <span key={type} class="key">
              <span class="swatch" style={{ background: fill(type) }} aria-hidden="true" /> {type} × {n}
            </span>
          ))}
      </figcaption>
      <div class="wide" tabIndex={0} role="group" aria-label={label}>
        <canvas ref={ref} width={WIDTH} height={rows.length * ROW + 18} role="img" aria-label={label} class="grid" />
      </div>
    </figure>
  );
}
