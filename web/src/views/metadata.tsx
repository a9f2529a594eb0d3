import { useEffect, useRef, useState } from "preact/hooks";
import type { Client } from "../client";
import { Table } from "../table";
import { count, grouped, size } from "../text";
import type { KvRow } from "../types";

export function MetadataView({ client, filter }: { client: Client; filter: string }) {
  const [part, setPart] = useState(filter);
  const [list, setList] = useState({ n: 0, version: "" });
  const [detail, setDetail] = useState<KvRow>();
  useEffect(() => {
    let isCurrent = true;
    void client.ask<number>({ kind: "findKvs", part }).then((n) => isCurrent && setList({ n, version: part }));
    return () => {
      isCurrent = false;
    };
  }, [client, part]);
  return (
    <>
      <div class="tools">
        <label>
          Filter <input type="search" value={part} onInput={(event) => setPart(event.currentTarget.value)} />
        </label>
        <span role="status">{count(list.n, "key")}</span>
      </div>
      <Table<KvRow>
        label="Metadata"
        version={list.version}
        least="52rem"
        count={list.n}
        load={(from, n) => client.ask<KvRow[]>({ kind: "kvs", from, n })}
        columns={[
          { head: "Key", width: "minmax(14rem, 2fr)", mono: true, cell: (row) => <span title={row.doc}>{row.key}</span> },
          { head: "Type", width: "8rem", cell: (row) => (row.element_type ? `${row.element_type}[${grouped(row.length ?? "")}]` : row.type) },
          {
            head: "Value",
            width: "minmax(12rem, 4fr)",
            mono: true,
            cell: (row) =>
              row.length !== undefined || (row.bytes ?? 0) > 40 ? (
                <button type="button" class="value" onClick={() => setDetail(row)} title={`Show ${row.key}`}>
                  {row.value}
                  {row.length !== undefined && Number(row.length) > 8 && " …"}
                </button>
              ) : (
                row.value
              ),
          },
          { head: "Meaning", width: "minmax(8rem, 3fr)", cell: (row) => row.doc ?? "" },
        ]}
      />
      {detail && <Detail client={client} row={detail} onClose={() => setDetail(undefined)} />}
    </>
  );
}

/** An array or a long string, as a whole. */
function Detail({ client, row, onClose }: { client: Client; row: KvRow; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  useEffect(() => {
    dialog.current?.showModal();
    if (row.length === undefined) void client.ask<string>({ kind: "text", kv: row.index }).then(setText);
  }, [client, row]);
  return (
    <dialog ref={dialog} aria-label={row.key} onClose={onClose}>
      <form method="dialog" class="tools">
        <h3>{row.key}</h3>
        <span>{row.length === undefined ? size(row.bytes ?? 0) : count(row.length, "element")}</span>
        <button>Close</button>
      </form>
      {row.doc && <p>{row.doc}</p>}
      {row.length === undefined ? (
        <pre tabIndex={0}>{text}</pre>
      ) : (
        <Table<{ i: number; value: string }>
          label={`Elements of ${row.key}`}
          version={String(row.index)}
          count={Number(row.length)}
          load={async (from, n) => {
            const values = await client.ask<string[]>({ kind: "elements", kv: row.index, from, n });
            return values.map((value, i) => ({ i: from + i, value }));
          }}
          columns={[
            { head: "Index", width: "7rem", right: true, cell: (row) => grouped(row.i) },
            { head: "Value", width: "1fr", mono: true, cell: (row) => row.value },
          ]}
        />
      )}
    </dialog>
  );
}
