// A table of any length. Rows are asked for when they come into view; there are never more elements than a screen shows.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  head: string;
  /** A track of the grid, such as `6rem` or `minmax(8rem, 1fr)`. */
  width: string;
  cell: (row: Row) => ComponentChildren;
  right?: boolean;
  mono?: boolean;
  /** Sorts by the column. */
  sort?: () => void;
  sorted?: "ascending" | "descending";
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  count: number;
  load: (from: number, n: number) => Promise<Row[]>;
  /** Another value is another list: rows are asked for again. */
  version: string;
  /** The least width of the rows; a narrower screen scrolls. */
  least?: string;
}

/** Height of a row in pixels, as in the style sheet. */
const ROW = 30;
/** Rows that are asked for at once. */
const PAGE = 64;
/** Firefox drops elements that are higher than 17.9 million pixels. Longer lists map the position of the scroll bar to rows. */
const MOST = 12_000_000;
/** Most pages that are kept. */
const KEPT = 40;

export function Table<Row>({ label, columns, count, load, version, least = "20rem" }: Props<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const pages = useRef(new Map<number, Row[] | null>());
  const current = useRef(version);
  const [, redraw] = useState(0);

  if (current.current !== version) {
    current.current = version;
    pages.current = new Map();
  }
  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setTop(0);
  }, [version]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const whole = count * ROW;
  const tall = Math.min(whole, MOST);
  const room = Math.max(1, tall - (height - ROW));
  // The pixel of the whole list at the upper edge.
  const pixel = whole > MOST ? (Math.min(top, room) / room) * Math.max(0, whole - (height - ROW)) : top;
  const first = Math.max(0, Math.floor(pixel / ROW) - 4);
  const last = Math.min(count, Math.ceil((pixel + height) / ROW) + 4);
  const shift = top - pixel;

  useEffect(() => {
    const known = pages.current;
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) {
      if (known.has(page)) continue;
      known.set(page, null);
      load(page * PAGE, PAGE).then(
        (rows) => {
          if (pages.current !== known) return;
          known.set(page, rows);
          for (const old of known.keys()) {
            if (known.size <= KEPT) break;
            if (old !== page) known.delete(old);
          }
          redraw((n) => n + 1);
        },
        () => known.delete(page),
      );
    }
  });

  const template = columns.map((column) => column.width).join(" ");
  const rows = [];
  for (let i = first; i < last; i++) {
    const row = pages.current.get(Math.floor(i / PAGE))?.[i % PAGE];
    rows.push(
      <div
        role="row"
        key={i}
        aria-rowindex={i + 2}
        class={i % 2 ? "row odd" : "row"}
        style={{ gridTemplateColumns: template, transform: `translateY(${i * ROW + shift}px)` }}
      >
        {columns.map((column) => (
          <div role="cell" key={column.head} class={`cell${column.right ? " right" : ""}${column.mono ? " mono" : ""}`}>
            {row === undefined ? "…" : column.cell(row)}
          </div>
        ))}
      </div>,
    );
  }
  return (
    <div
      ref={box}
      class="table"
      role="table"
      aria-label={label}
      aria-rowcount={count + 1}
      aria-colcount={columns.length}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div role="rowgroup" class="thead" style={{ minWidth: least }}>
        <div role="row" aria-rowindex={1} class="row" style={{ gridTemplateColumns: template }}>
          {columns.map((column) => (
            <div
              role="columnheader"
              key={column.head}
              class={`cell${column.right ? " right" : ""}`}
              {...(column.sort ? { "aria-sort": column.sorted ?? "none" } : {})}
            >
              {column.sort ? (
                <button type="button" onClick={column.sort}>
                  {column.head}
                  <span aria-hidden="true">{column.sorted === "ascending" ? " ▲" : column.sorted === "descending" ? " ▼" : ""}</span>
                </button>
              ) : (
                column.head
              )}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="tbody" style={{ height: `${tall}px`, minWidth: least }}>
        {rows}
      </div>
    </div>
  );
}
