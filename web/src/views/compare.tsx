import { useEffect, useState } from "preact/hooks";
import { parseAddress } from "../address";
import type { Client } from "../client";
import { Problem } from "../facts";
import { models } from "../files";
import { Picker } from "../picker";
import { Table } from "../table";
import { count, grouped, short } from "../text";
import type { Compared, ComparedKey, ComparedTensor, Difference, FilesOf } from "../types";
import { MapSection, Progress, Whole } from "./map";

export function CompareView({ client, token }: { client: Client; token: string }) {
  const [name, setName] = useState("");
  const [compared, setCompared] = useState<Compared>();
  const [problem, setProblem] = useState("");
  const [results, setResults] = useState(new Map<number, Difference | string>());
  const [share, setShare] = useState<number>();
  const [chosen, setChosen] = useState<ComparedTensor>();
  const [busy, setBusy] = useState(false);
  const [whole, setWhole] = useState(false);
  useEffect(() => () => client.stop(), [client]);
  const open = (name: string, from: FilesOf) => {
    setProblem("");
    setCompared(undefined);
    setResults(new Map());
    setChosen(undefined);
    setName(name);
    setBusy(true);
    client
      .ask<Compared>({ kind: "compare", from })
      .then((compared) => (compared.error === undefined ? setCompared(compared) : setProblem(compared.error)))
      .catch((error: Error) => setProblem(error.message))
      .finally(() => setBusy(false));
  };
  const openFiles = (files: File[]) => {
    const [model] = models(files);
    if (model) open(model.name, { files: model.files, name: model.name });
  };
  const openAddress = (text: string) => {
    const place = parseAddress(text);
    if (place?.kind === "file") open(place.address, { address: place.address, token });
    else setProblem("This is not the address of a file: expected https://… or hf:ORG/REPO/FILE.");
  };
  /** Compares the data of all tensors, one after the other. */
  const compareData = async (n: number) => {
    const found = new Map<number, Difference | string>();
    setProblem("");
    setShare(0);
    try {
      for (let index = 0; index < n; index++) {
        const [row] = await client.ask<ComparedTensor[]>({ kind: "comparedTensors", from: index, n: 1 });
        if (row && status(row, undefined) === "not compared") {
          const done = (share: number) => setShare((index + share) / n);
          const result = await client.ask<Difference>({ kind: "difference", index, whole }, done).catch((error: Error) => {
            if (error.message === "stopped") throw error;
            return error.message;
          });
          found.set(index, result);
        }
        if (index % 16 === 15 || index === n - 1) setResults(new Map(found));
      }
    } catch (error) {
      if ((error as Error).message !== "stopped") setProblem((error as Error).message);
    }
    setResults(new Map(found));
    setShare(undefined);
  };
  const figures = (row: ComparedTensor, of: (difference: Difference) => number | string) => {
    const result = results.get(row.index);
    if (result === undefined || typeof result === "string") return "";
    const value = of(result);
    return <span title={String(value)}>{typeof value === "number" ? short(value) : value}</span>;
  };
  const differing = [...results.values()].filter((result) => typeof result !== "string" && !result.same).length;
  return (
    <>
      <div class="tools">
        <Picker label="Choose the other file…" onFiles={openFiles} />
        <form
          class="tools"
          onSubmit={(event) => {
            event.preventDefault();
            openAddress(String(new FormData(event.currentTarget).get("other")));
          }}
        >
          <label>
            or its address <input name="other" size={34} placeholder="https://… or hf:ORG/REPO/FILE" autocomplete="off" spellcheck={false} />
          </label>
          <button>Compare</button>
        </form>
        {compared && (
          <button type="button" onClick={() => void compareData(compared.n_tensors)}>
            Compare the data
          </button>
        )}
        {compared?.remote && <Whole whole={whole} onWhole={setWhole} />}
        <Progress client={client} share={share} />
      </div>
      <Problem text={problem} />
      {busy && <p role="status">Opening {name}…</p>}
      {!compared && !problem && !busy && <p class="hint">The other file is compared with this one: its metadata, its tensors, and the error of its values.</p>}
      {compared && (
        <>
          <p role="status">
            {name}: {count(compared.n_keys, "different key")}, {count(compared.n_same_keys, "equal key")}, {count(compared.n_tensors, "tensor")}
            {results.size > 0 && `, ${count(results.size, "compared tensor")}, ${grouped(differing)} with other data`}
            {[...results.values()].some((result) => typeof result !== "string" && result.sample) && ". Of long tensors, a sample was compared"}.
          </p>
          {compared.n_keys > 0 && (
            <Table<ComparedKey>
              label="Different keys"
              version={name}
              least="52rem"
              count={compared.n_keys}
              load={(from, n) => client.ask<ComparedKey[]>({ kind: "comparedKeys", from, n })}
              columns={[
                { head: "Key", width: "minmax(14rem, 2fr)", mono: true, cell: (row) => row.key },
                { head: "This file", width: "minmax(12rem, 3fr)", mono: true, cell: (row) => row.a ?? "missing" },
                { head: "Other file", width: "minmax(12rem, 3fr)", mono: true, cell: (row) => row.b ?? "missing" },
                { head: "Elements", width: "9rem", cell: (row) => (row.elements ? `${grouped(row.elements.different)} differ` : "") },
              ]}
            />
          )}
          <Table<ComparedTensor>
            label="Compared tensors"
            version={name}
            least="64rem"
            count={compared.n_tensors}
            load={(from, n) => client.ask<ComparedTensor[]>({ kind: "comparedTensors", from, n })}
            columns={[
              {
                head: "Name",
                width: "minmax(14rem, 3fr)",
                mono: true,
                cell: (row) =>
                  status(row, undefined) === "not compared" ? (
                    <button type="button" class="value" onClick={() => setChosen(row)} title={`Map of the error of ${row.name}`}>
                      {row.name}
                    </button>
                  ) : (
                    row.name
                  ),
              },
              { head: "This type", width: "6rem", cell: (row) => row.types[0] ?? "" },
              { head: "Other type", width: "7rem", cell: (row) => row.types[1] ?? "" },
              { head: "Result", width: "minmax(9rem, 1fr)", cell: (row) => status(row, results.get(row.index)) },
              { head: "Relative", width: "7rem", right: true, cell: (row) => figures(row, (d) => d.error.relative) },
              { head: "RMSE", width: "7rem", right: true, cell: (row) => figures(row, (d) => d.error.rmse) },
              { head: "Cosine", width: "7rem", right: true, cell: (row) => figures(row, (d) => d.error.cosine) },
              { head: "Largest", width: "7rem", right: true, cell: (row) => figures(row, (d) => d.error.largest?.error ?? 0) },
            ]}
          />
          {chosen && chosen.data[0] && (
            <MapSection
              client={client}
              place={{ shard: 0, index: chosen.index, compared: true, whole }}
              nRows={Number(chosen.data[0].n_rows)}
              rowLen={Number(chosen.data[0].row_len)}
              title={`Map of the error of ${chosen.name}`}
            />
          )}
        </>
      )}
    </>
  );
}

/** What is known about both sides of a tensor. */
function status(row: ComparedTensor, result: Difference | string | undefined): string {
  const [a, b] = row.shapes;
  if (!a) return "only in the other file";
  if (!b) return "only in this file";
  if (a.join() !== b.join()) return `shapes differ: ${a.join(" × ")} and ${b.join(" × ")}`;
  if (!row.data[0] || !row.data[1]) return "cannot be decoded";
  if (result === undefined) return "not compared";
  if (typeof result === "string") return result;
  if (result.sample) return result.same ? "sample identical" : "changed (sample)";
  return result.same ? "identical" : "changed";
}
