// What reports of tensors have in common: pictures by layer, and the table.

import { useState } from "preact/hooks";
import { layerOf } from "../layers";
import { type Cell, Grid } from "../grid";
import { Bars } from "../plots";
import { type Column, Table } from "../table";
import { bits, count, grouped, short, size } from "../text";
import { type Figures, percent } from "./answer";

/** A tensor that has changed. */
export interface Changed {
  name: string;
  shape: number[];
  from: string;
  to: string;
  elements: number;
  /** Of its new data, if they are known. */
  bytes: number | null;
  result: string;
  error: Figures | null;
}

const relative = (error: Figures | null): number => (error === null ? NaN : Number(error.relative === "Infinity" ? Infinity : error.relative));

interface LayerError {
  name: string;
  tensors: number;
  relative: number;
}

/** The relative error of the values of each layer together. */
function byLayer(tensors: Changed[]): LayerError[] {
  const layers = new Map<string, { tensors: number; errors: number; squares: number }>();
  for (const { name, elements, error } of tensors) {
    if (error === null || !Number.isFinite(relative(error))) continue;
    const key = layerOf(name);
    const sum = layers.get(key) ?? { tensors: 0, errors: 0, squares: 0 };
    layers.set(key, sum);
    const errors = error.rmse ** 2 * elements;
    sum.tensors++;
    sum.errors += errors;
    if (relative(error) > 0) sum.squares += errors / relative(error) ** 2;
  }
  return [...layers].map(([name, { tensors, errors, squares }]) => ({ name, tensors, relative: squares > 0 ? Math.sqrt(errors / squares) : 0 }));
}

const ORDERS = {
  file: () => 0,
  name: (a: Changed, b: Changed) => (a.name < b.name ? -1 : 1),
  error: (a: Changed, b: Changed) => (Number.isNaN(relative(b.error)) ? -1 : 0) || (relative(b.error) || 0) - (relative(a.error) || 0),
};

export function ChangedTensors({ tensors }: { tensors: Changed[] }) {
  const [order, setOrder] = useState<keyof typeof ORDERS>("file");
  const sorted = [...tensors].sort(ORDERS[order]);
  const layers = byLayer(tensors);
  const cells: Cell[] = tensors.map((tensor) => {
    const layer = layerOf(tensor.name);
    const row = layer === "" ? tensor.name : tensor.name.slice(layer.length + 1);
    return { column: layer, row, type: tensor.to, error: relative(tensor.error) };
  });
  const sort = (by: keyof typeof ORDERS) => ({
    sort: () => setOrder(order === by ? "file" : by),
    ...(order === by ? { sorted: by === "error" ? ("descending" as const) : ("ascending" as const) } : {}),
  });
  const figure = (of: (error: Figures) => number | string | undefined) => (row: Changed) => {
    const value = row.error === null ? undefined : of(row.error);
    return value === undefined ? "" : <span title={String(value)}>{typeof value === "number" ? short(value) : value}</span>;
  };
  const weighted = tensors.some(({ error }) => error?.weighted);
  const columns: Column<Changed>[] = [
    { head: "Name", width: "minmax(14rem, 3fr)", mono: true, cell: (row) => row.name, ...sort("name") },
    { head: "Shape", width: "minmax(8rem, 1fr)", cell: (row) => row.shape.join(" × ") },
    { head: "From", width: "6rem", cell: (row) => row.from },
    { head: "To", width: "6rem", cell: (row) => row.to },
    { head: "Result", width: "8rem", cell: (row) => row.result },
    { head: "Relative", width: "7rem", right: true, cell: (row) => (row.error ? percent(row.error.relative) : ""), ...sort("error") },
    { head: "RMSE", width: "7rem", right: true, cell: figure((error) => error.rmse) },
    { head: "Cosine", width: "7rem", right: true, cell: figure((error) => error.cosine) },
    { head: "Largest", width: "7rem", right: true, cell: figure((error) => error.largest?.error) },
  ];
  if (tensors.some(({ bytes }) => bytes !== null)) {
    columns.splice(
      4,
      1,
      { head: "Bits", width: "5rem", right: true, cell: (row) => bits(String(row.bytes), String(row.elements)) },
      { head: "Bytes", width: "7rem", right: true, cell: (row) => size(row.bytes ?? 0) },
    );
  }
  if (weighted) columns.push({ head: "Weighted", width: "7rem", right: true, cell: (row) => (row.error?.weighted ? percent(row.error.weighted.relative) : "") });
  return (
    <>
      {layers.length > 0 && (
        <section aria-label="Error by layer">
          <h2>Error by layer</h2>
          <p>Relative error of the values of each layer. The table has the numbers.</p>
          <Bars values={layers.map((layer) => layer.relative)} names={layers.map((layer) => layer.name || "other")} label="Relative error by layer" percent />
          <details>
            <summary>As a table</summary>
            <Table<LayerError>
              label="Error by layer"
              version=""
              count={layers.length}
              load={(from, n) => Promise.resolve(layers.slice(from, from + n))}
              columns={[
                { head: "Layer", width: "1fr", mono: true, cell: (row) => row.name || "outside of layers" },
                { head: "Tensors", width: "7rem", right: true, cell: (row) => grouped(row.tensors) },
                { head: "Relative", width: "8rem", right: true, cell: (row) => percent(row.relative) },
              ]}
            />
          </details>
        </section>
      )}
      {cells.length > 0 && (
        <section aria-label="Types and errors of tensors by layer">
          <h2>Tensors by layer</h2>
          <Grid cells={cells} by="type" label="Types of the tensors by layer: the table of the tensors has them" />
          {layers.length > 0 && <Grid cells={cells} by="error" label="Relative errors of the tensors by layer: the table of the tensors has them" />}
        </section>
      )}
      <h2>{count(tensors.length, "tensor")}</h2>
      <Table<Changed>
        label="Tensors"
        version={order}
        least="66rem"
        count={sorted.length}
        load={(from, n) => Promise.resolve(sorted.slice(from, from + n))}
        columns={columns}
      />
    </>
  );
}

/** The figures of all tensors together. */
export function Total({ total }: { total: Figures }) {
  const rows: [string, string][] = [
    ["Relative error", percent(total.relative)],
    ["RMSE", short(total.rmse)],
    ["Cosine", String(total.cosine)],
    ["Pairs that are not finite", grouped(total.not_finite)],
  ];
  if (total.weighted) rows.push(["Relative error, weighted by importance", percent(total.weighted.relative)]);
  return (
    <table class="facts">
      <caption>All compared tensors</caption>
      <tbody>
        {rows.map(([title, value]) => (
          <tr key={title}>
            <th scope="row">{title}</th>
            <td class="right">{value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
