import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { Problem } from "../facts";
import { Heat } from "../plots";
import { Table } from "../table";
import { grouped, short } from "../text";
import type { HeatMap, Region } from "../types";

/** Most lines and cells of a map. */
const LINES = 96;
const CELLS = 128;
/** Most rows and columns whose values are shown. */
const VALUE_ROWS = 64;
const VALUE_COLUMNS = 16;

interface Place {
  shard: number;
  index: number;
  compared: boolean;
  /** Whether all of a tensor on a server is read. */
  whole: boolean;
}

/** A map of a tensor, or of the error of one, with zoom to its values. All of it is drawn on request. */
export function MapSection({ client, place, nRows, rowLen, title }: { client: Client; place: Place; nRows: number; rowLen: number; title: string }) {
  const whole: Region = { rows: [0, nRows], columns: [0, rowLen] };
  const [region, setRegion] = useState(whole);
  const [map, setMap] = useState<HeatMap>();
  const [share, setShare] = useState<number>();
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setRegion(whole);
    setMap(undefined);
  }, [client, place.shard, place.index]);
  const draw = (rows: [number, number], columns: [number, number]) => {
    const fit = ([from, to]: [number, number], n: number): [number, number] => {
      const start = Math.min(Math.max(0, Math.floor(from)), Math.max(0, n - 1));
      return [start, Math.min(n, Math.max(start + 1, Math.floor(to)))];
    };
    const region: Region = { rows: fit(rows, nRows), columns: fit(columns, rowLen) };
    setRegion(region);
    setProblem("");
    setShare(0);
    client
      .ask<HeatMap>({ kind: "map", ...place, ...region, lines: LINES, cells: CELLS }, setShare)
      .then(setMap)
      .catch((error: Error) => error.message !== "stopped" && setProblem(error.message))
      .finally(() => setShare(undefined));
  };
  const { rows, columns } = region;
  /** The region scaled around its middle, or moved by a part of its length. */
  const scaled = ([from, to]: [number, number], by: number, move = 0): [number, number] => {
    const [middle, half] = [(from + to) / 2 + move * (to - from), ((to - from) * by) / 2];
    return [Math.round(middle - half), Math.round(middle + Math.max(half, 0.5))];
  };
  const button = (label: string, rows: [number, number], columns: [number, number]) => (
    <button type="button" onClick={() => draw(rows, columns)}>
      {label}
    </button>
  );
  const field = (label: string, value: number, set: (n: number) => void) => (
    <label>
      {label} <input type="number" min={0} value={value} onChange={(event) => set(Number(event.currentTarget.value) || 0)} />
    </label>
  );
  const isSmall = !place.compared && map && map.columns[1] - map.columns[0] <= VALUE_COLUMNS && map.rows[1] - map.rows[0] <= VALUE_ROWS;
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {nRows === 0 || rowLen === 0 ? (
        <p>The tensor has no values.</p>
      ) : (
        <>
          <div class="tools">
            {field("Rows from", rows[0], (n) => setRegion({ ...region, rows: [n, Math.max(n + 1, rows[1])] }))}
            {field("to", rows[1], (n) => setRegion({ ...region, rows: [rows[0], n] }))}
            {field("Columns from", columns[0], (n) => setRegion({ ...region, columns: [n, Math.max(n + 1, columns[1])] }))}
            {field("to", columns[1], (n) => setRegion({ ...region, columns: [columns[0], n] }))}
            {button("Draw the map", rows, columns)}
            {map && (
              <>
                {button("Zoom in", scaled(rows, 0.25), scaled(columns, 0.25))}
                {button("Zoom out", scaled(rows, 4), scaled(columns, 4))}
                {button("Up", scaled(rows, 1, -0.5), columns)}
                {button("Down", scaled(rows, 1, 0.5), columns)}
                {button("Left", rows, scaled(columns, 1, -0.5))}
                {button("Right", rows, scaled(columns, 1, 0.5))}
                {button("Whole", whole.rows, whole.columns)}
              </>
            )}
            <Progress client={client} share={share} />
          </div>
          <Problem text={problem} />
          {map && (
            <>
              <p>
                Root mean square of each of {grouped(map.lines)} × {grouped(map.cells)} cells of the rows {grouped(map.rows[0])} to{" "}
                {grouped(map.rows[1] - 1)} and columns {grouped(map.columns[0])} to {grouped(map.columns[1] - 1)}.
                {map.sample && " A sample: one row of each line was read."} A click zooms to a cell.
              </p>
              <Heat
                map={map}
                label={`${title}: the table below has the numbers`}
                onCell={(line, cell) => {
                  const [row, column] = [edges(map.rows, map.lines, line), edges(map.columns, map.cells, cell)];
                  draw(row, column);
                }}
              />
              <details>
                <summary>The map as a table</summary>
                <CellTable map={map} title={title} />
              </details>
              {isSmall && <Values client={client} place={place} map={map} />}
            </>
          )}
        </>
      )}
    </section>
  );
}

/** The first and last of the rows, or columns, of a part. */
function edges([from, to]: [number, number], n: number, i: number): [number, number] {
  return [from + Math.floor((i * (to - from)) / n), from + Math.max(Math.floor(((i + 1) * (to - from)) / n), Math.floor((i * (to - from)) / n) + 1)];
}

function CellTable({ map, title }: { map: HeatMap; title: string }) {
  const row = (i: number) => {
    const [line, cell] = [Math.floor(i / map.cells), i % map.cells];
    const text = ([from, to]: [number, number]) => (to - from === 1 ? grouped(from) : `${grouped(from)} to ${grouped(to - 1)}`);
    return {
      rows: text(edges(map.rows, map.lines, line)),
      columns: text(edges(map.columns, map.cells, cell)),
      numbers: [0, 1, 2].map((k) => short(map.numbers[i * 3 + k]!)),
    };
  };
  return (
    <Table<ReturnType<typeof row>>
      label={`${title} as a table`}
      version={JSON.stringify([map.rows, map.columns])}
      count={map.lines * map.cells}
      load={(from, n) => Promise.resolve(Array.from({ length: Math.min(n, map.lines * map.cells - from) }, (_, i) => row(from + i)))}
      columns={[
        { head: "Rows", width: "1fr", cell: (row) => row.rows },
        { head: "Columns", width: "1fr", cell: (row) => row.columns },
        { head: "RMS", width: "8rem", right: true, cell: (row) => row.numbers[0] },
        { head: "Smallest", width: "8rem", right: true, cell: (row) => row.numbers[1] },
        { head: "Largest", width: "8rem", right: true, cell: (row) => row.numbers[2] },
      ]}
    />
  );
}

/** The values of a small region. */
function Values({ client, place, map }: { client: Client; place: Place; map: HeatMap }) {
  const [values, setValues] = useState<string[][]>([]);
  const [[row, endRow], [column, endColumn]] = [map.rows, map.columns];
  useEffect(() => {
    let isCurrent = true;
    const ask = { kind: "values", shard: place.shard, index: place.index, row, nRows: endRow - row, column, nColumns: endColumn - column } as const;
    client.ask<string[][]>(ask).then((values) => isCurrent && Array.isArray(values) && setValues(values), () => {});
    return () => {
      isCurrent = false;
    };
  }, [map]);
  return (
    <div class="wide" tabIndex={0} role="region" aria-label="Values">
      <table class="facts">
        <caption>Values</caption>
        <thead>
          <tr>
            <th scope="col">Row</th>
            {values[0]?.map((_, i) => (
              <th scope="col" class="right" key={i}>
                {grouped(column + i)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {values.map((line, i) => (
            <tr key={i}>
              <th scope="row">{grouped(row + i)}</th>
              {line.map((value, k) => (
                <td class="right mono" key={k}>
                  {value}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Whether long tensors of a server are read as a whole, or a sample of them. */
export function Whole({ whole, onWhole }: { whole: boolean; onWhole: (whole: boolean) => void }) {
  return (
    <label>
      <input type="checkbox" checked={whole} onChange={(event) => onWhole(event.currentTarget.checked)} /> Read whole tensors, not samples
    </label>
  );
}

/** The share of long work that is done, and a button that stops it. */
export function Progress({ client, share }: { client: Client; share: number | undefined }) {
  if (share === undefined) return null;
  return (
    <>
      <progress value={share} aria-label="Done" />
      <button type="button" onClick={() => client.stop()}>
        Stop
      </button>
    </>
  );
}
