import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { type Column, Table } from "../table";
import { type Layer, typesText } from "../layers";
import { bits, count, grouped, size } from "../text";
import type { TensorRow } from "../types";

/** The numbers of the orders in the module. */
const ORDERS = { file: 0, name: 1, type: 2, elements: 3, bytes: 4 } as const;

interface Props {
  client: Client;
  sharded: boolean;
  filter: string;
  onTensor: (row: TensorRow) => void;
}

export function TensorsView({ client, sharded, filter, onTensor }: Props) {
  const [part, setPart] = useState(filter);
  const [order, setOrder] = useState<{ by: keyof typeof ORDERS; descending: boolean }>({ by: "file", descending: false });
  const [list, setList] = useState({ n: 0, version: "" });
  const [byLayer, setByLayer] = useState(false);
  useEffect(() => {
    if (byLayer) return;
    let isCurrent = true;
    const ask = { kind: "findTensors", part, order: ORDERS[order.by], descending: order.descending } as const;
    void client.ask<number>(ask).then((n) => isCurrent && setList({ n, version: JSON.stringify(ask) }));
    return () => {
      isCurrent = false;
    };
  }, [client, part, order, byLayer]);
  const sortable = (by: keyof typeof ORDERS) => ({
    sort: () => setOrder(order.by === by ? { by, descending: !order.descending } : { by, descending: by === "elements" || by === "bytes" }),
    ...(order.by === by ? { sorted: order.descending ? ("descending" as const) : ("ascending" as const) } : {}),
  });
  const columns: Column<TensorRow>[] = [
    {
      head: "Name",
      width: "minmax(14rem, 3fr)",
      mono: true,
      cell: (row) => (
        <button type="button" class="value" onClick={() => onTensor(row)} title={`Weights of ${row.name}`}>
          {row.name}
        </button>
      ),
      ...sortable("name"),
    },
    { head: "Shape", width: "minmax(9rem, 1fr)", cell: (row) => (row.shape.length ? row.shape.join(" × ") : "scalar") },
    { head: "Type", width: "6rem", cell: (row) => row.type, ...sortable("type") },
    { head: "Weights", width: "9rem", right: true, cell: (row) => (row.n_elements === null ? "?" : grouped(row.n_elements)), ...sortable("elements") },
    { head: "Bits", width: "5rem", right: true, cell: (row) => bits(row.bytes, row.n_elements) },
    { head: "Bytes", width: "7rem", right: true, cell: (row) => (row.bytes === null ? "?" : size(row.bytes)), ...sortable("bytes") },
    { head: "Offset", width: "10rem", right: true, cell: (row) => (row.offset === null ? "?" : grouped(row.offset)), ...sortable("file") },
  ];
  if (sharded) columns.push({ head: "Shard", width: "4rem", right: true, cell: (row) => row.shard + 1 });
  return (
    <>
      <div class="tools">
        <label>
          <input type="checkbox" checked={byLayer} onChange={(event) => setByLayer(event.currentTarget.checked)} /> By layer
        </label>
        {!byLayer && (
          <>
            <label>
              Filter <input type="search" value={part} onInput={(event) => setPart(event.currentTarget.value)} />
            </label>
            <span role="status">{count(list.n, "tensor")}</span>
          </>
        )}
      </div>
      {byLayer ? (
        <LayerTable
          client={client}
          onLayer={(name) => {
            setPart(`${name}.`);
            setByLayer(false);
          }}
        />
      ) : (
        <Table<TensorRow>
          label="Tensors"
          version={list.version}
          least="64rem"
          count={list.n}
          load={(from, n) => client.ask<TensorRow[]>({ kind: "tensors", from, n })}
          columns={columns}
        />
      )}
    </>
  );
}

function LayerTable({ client, onLayer }: { client: Client; onLayer: (name: string) => void }) {
  const [n, setN] = useState<number>();
  useEffect(() => {
    void client.ask<number>({ kind: "findLayers" }).then(setN);
  }, [client]);
  if (n === undefined) return <p>Adding up…</p>;
  return (
    <Table<Layer>
      label="Layers"
      version={String(n)}
      least="52rem"
      count={n}
      load={(from, n) => client.ask<Layer[]>({ kind: "layers", from, n })}
      columns={[
        {
          head: "Layer",
          width: "minmax(8rem, 1fr)",
          mono: true,
          cell: ({ name }) =>
            name === "" ? (
              "outside of layers"
            ) : (
              <button type="button" class="value" onClick={() => onLayer(name)} title={`Tensors of ${name}`}>
                {name}
              </button>
            ),
        },
        { head: "Tensors", width: "6rem", right: true, cell: (row) => grouped(row.tensors) },
        { head: "Types", width: "minmax(16rem, 3fr)", cell: (row) => typesText(row.types) },
        { head: "Weights", width: "9rem", right: true, cell: (row) => grouped(row.elements) },
        { head: "Bits", width: "5rem", right: true, cell: (row) => bits(String(row.bytes), String(row.elements)) },
        { head: "Bytes", width: "7rem", right: true, cell: (row) => size(row.bytes) },
      ]}
    />
  );
}
