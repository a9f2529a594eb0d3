import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { Table } from "../table";
import { count, grouped } from "../text";
import type { TokenRow, Tokenizer } from "../types";

/** The types of tokens, by their numbers in `tokenizer.ggml.token_type`. */
const TYPES = ["", "normal", "unknown", "control", "user-defined", "unused", "byte"];

export function TokensView({ client }: { client: Client }) {
  const [tokenizer, setTokenizer] = useState<Tokenizer>();
  const [part, setPart] = useState("");
  const [type, setType] = useState(-1);
  const [list, setList] = useState({ n: 0, version: "" });
  useEffect(() => {
    void client.ask<Tokenizer>({ kind: "tokenizer" }).then(setTokenizer);
  }, [client]);
  useEffect(() => {
    let isCurrent = true;
    void client.ask<number>({ kind: "findTokens", part, type }).then((n) => isCurrent && setList({ n, version: `${type} ${part}` }));
    return () => {
      isCurrent = false;
    };
  }, [client, part, type]);
  if (tokenizer?.error !== undefined) return <p class="problem">{tokenizer.error}</p>;
  return (
    <>
      {tokenizer && (
        <p>
          {tokenizer.model}
          {tokenizer.pre !== null && `, pre-tokenizer ${tokenizer.pre}`}: {count(tokenizer.n_tokens, "token")}, {count(tokenizer.n_merges, "merge")}.{" "}
          {tokenizer.special.length > 0 && `Special: ${tokenizer.special.map(({ role, id }) => `${role} ${id}`).join(", ")}.`}
          {!tokenizer.bytes_known && " The bytes of the tokens are not known for this tokenizer."}
        </p>
      )}
      <div class="tools">
        <label>
          Text, bytes as text, or id <input type="search" value={part} onInput={(event) => setPart(event.currentTarget.value)} />
        </label>
        <label>
          Type{" "}
          <select value={type} onChange={(event) => setType(Number(event.currentTarget.value))}>
            <option value={-1}>all</option>
            {TYPES.map((name, i) => i > 0 && <option value={i}>{name}</option>)}
          </select>
        </label>
        <span role="status">{count(list.n, "token")}</span>
      </div>
      <Table<TokenRow>
        label="Tokens"
        version={list.version}
        least="46rem"
        count={list.n}
        load={(from, n) => client.ask<TokenRow[]>({ kind: "tokens", from, n })}
        columns={[
          { head: "Id", width: "6rem", right: true, cell: (row) => grouped(row.id) },
          { head: "Text", width: "minmax(10rem, 2fr)", mono: true, cell: (row) => row.text },
          { head: "Bytes", width: "minmax(10rem, 2fr)", mono: true, cell: (row) => row.bytes ?? "" },
          { head: "Type", width: "7rem", cell: (row) => (row.type === null ? "" : (TYPES[row.type] ?? row.type)) },
          { head: "Score", width: "8rem", right: true, cell: (row) => row.score ?? "" },
        ]}
      />
    </>
  );
}
