import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { FactsHead, Problem } from "../facts";
import { Histogram } from "../plots";
import { Table } from "../table";
import { bits, grouped, short, size } from "../text";
import type { Cost, OfferedType, Statistics, TensorRow } from "../types";
import { MapSection, Progress, Whole } from "./map";

const BINS = 256;

export function WeightsView({ client, tensor, remote }: { client: Client; tensor: TensorRow | undefined; remote: boolean }) {
  const [stats, setStats] = useState<Statistics>();
  const [share, setShare] = useState<number>();
  const [problem, setProblem] = useState("");
  const [whole, setWhole] = useState(false);
  useEffect(() => {
    setStats(undefined);
    setProblem("");
    return () => client.stop();
  }, [client, tensor]);
  if (!tensor) return <p class="hint">Choose a tensor: its name in the view of the tensors is a button.</p>;
  const rowLen = Number(tensor.shape[0] ?? 1);
  const nRows = rowLen === 0 ? 0 : Number(tensor.n_elements ?? 0) / rowLen;
  const compute = () => {
    setProblem("");
    setShare(0);
    client
      .ask<Statistics>({ kind: "statistics", shard: tensor.shard, index: tensor.index, bins: BINS, whole }, setShare)
      .then(setStats)
      .catch((error: Error) => error.message !== "stopped" && setProblem(error.message))
      .finally(() => setShare(undefined));
  };
  return (
    <>
      <h3 class="mono">{tensor.name}</h3>
      <p>
        {tensor.shape.join(" × ")}, {tensor.type}, {bits(tensor.bytes, tensor.n_elements)} bits per weight.
        {remote && " Of a tensor with more than 4 MiB on a server, a sample is read."}
      </p>
      <div class="tools">
        <button type="button" onClick={compute}>
          Compute the statistics
        </button>
        {remote && <Whole whole={whole} onWhole={setWhole} />}
        <Progress client={client} share={share} />
      </div>
      <Problem text={problem} />
      {stats && <Figures stats={stats} of={tensor.n_elements ?? "?"} />}
      <MapSection
        client={client}
        place={{ shard: tensor.shard, index: tensor.index, compared: false, whole }}
        nRows={nRows}
        rowLen={rowLen}
        title="Map of the values"
      />
      <Costs key={tensor.name} client={client} tensor={tensor} />
    </>
  );
}

interface CostRow extends OfferedType {
  cost?: Cost;
  problem?: string;
}

/** What other types would cost the tensor: its bytes, and the error of its values. */
function Costs({ client, tensor }: { client: Client; tensor: TensorRow }) {
  const [rows, setRows] = useState<CostRow[]>([]);
  const [share, setShare] = useState<number>();
  const [whole, setWhole] = useState(false);
  const [problem, setProblem] = useState("");
  const place = { shard: tensor.shard, index: tensor.index };
  const measure = async () => {
    setProblem("");
    setShare(0);
    try {
      await client.giveThird();
      const offered = await client.ask<OfferedType[] | { error: string }>({ kind: "types", ...place });
      if (!Array.isArray(offered)) throw new Error(offered.error);
      let rows: CostRow[] = offered.sort((a, b) => Number(b.bytes) - Number(a.bytes) || a.id - b.id);
      setRows(rows);
      for (const [i, { id }] of rows.entries()) {
        const done = (share: number) => setShare((i + share) / rows.length);
        const found = await client.ask<Cost>({ kind: "cost", ...place, type: id, whole }, done).then(
          (cost) => ({ cost }),
          (error: Error) => {
            if (error.message === "stopped") throw error;
            return { problem: error.message };
          },
        );
        rows = rows.map((row, k) => (k === i ? { ...row, ...found } : row));
        setRows(rows);
      }
    } catch (error) {
      if ((error as Error).message !== "stopped") setProblem((error as Error).message);
    }
    setShare(undefined);
  };
  const figure = (value: number | string | undefined) => <td class="right mono">{value === undefined ? "" : typeof value === "number" ? short(value) : value}</td>;
  return (
    <section aria-label="Other types">
      <h3>Other types</h3>
      <p>
        What another type would cost this tensor: the error of its values, encoded as <code>gguf quantize</code> does without an importance matrix. Of more
        than {grouped(1 << 20)} values, a sample of rows is measured.
      </p>
      <div class="tools">
        <button type="button" onClick={() => void measure()}>
          Measure all types
        </button>
        <Whole whole={whole} onWhole={setWhole} />
        <Progress client={client} share={share} />
      </div>
      <Problem text={problem} />
      {rows.length > 0 && (
        <div class="wide" tabIndex={0} role="region" aria-label="Costs of other types">
          <table class="facts">
            <caption>Costs of other types{rows.some((row) => row.cost?.sample) && ", of a sample"}</caption>
            <FactsHead columns={["Type", "Bits", "Bytes", "Relative", "RMSE", "Cosine", "Largest"]} />
            <tbody>
              {rows.map((row) => (
                <tr key={row.id} data-type={row.type} data-error={JSON.stringify(row.cost?.error)}>
                  <th scope="row">{row.type}</th>
                  <td class="right mono">{bits(row.bytes, tensor.n_elements)}</td>
                  <td class="right mono">{size(row.bytes)}</td>
                  {row.problem !== undefined ? (
                    <td colSpan={4}>{row.problem}</td>
                  ) : (
                    [row.cost?.error.relative, row.cost?.error.rmse, row.cost?.error.cosine, row.cost?.error.largest?.error].map(figure)
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Figures({ stats, of }: { stats: Statistics; of: string }) {
  const rows: [string, string, string][] = [
    ["n", "Values", grouped(stats.n)],
    ["min", "Smallest", stats.min ?? "none"],
    ["max", "Largest", stats.max ?? "none"],
    ["mean", "Mean", String(stats.mean ?? "none")],
    ["stddev", "Deviation", String(stats.stddev ?? "none")],
    ["rms", "RMS", String(stats.rms ?? "none")],
    ["zeros", "Zeros", grouped(stats.zeros)],
    ["outliers", "Outliers (magnitude above 6 RMS)", grouped(stats.outliers)],
    ["nan", "NaN", grouped(stats.nan)],
    ["infinite", "Infinite", grouped(stats.infinite)],
  ];
  const [min, max] = [Number(stats.min), Number(stats.max)];
  const edge = (i: number) => min + ((max - min) * i) / stats.histogram.length;
  return (
    <>
      {stats.sample && (
        <p class="problem">
          A sample: {grouped(stats.n)} of {grouped(of)} values were read.
        </p>
      )}
      <table class="facts" data-milliseconds={stats.milliseconds}>
        <caption>Statistics</caption>
        <tbody>
          {rows.map(([field, title, text]) => (
            <tr key={field} data-stat={field}>
              <th scope="row">{title}</th>
              <td class="right mono">{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {stats.histogram.length > 0 && (
        <>
          <Histogram counts={stats.histogram} min={min} max={max} label="Histogram, with logarithmic heights: the table below has the numbers" />
          <details>
            <summary>The histogram as a table</summary>
            <Table<{ from: string; n: number }>
              label="Histogram"
              version={stats.n + stats.mean}
              count={stats.histogram.length}
              load={(from, n) => Promise.resolve(stats.histogram.slice(from, from + n).map((n, i) => ({ from: short(edge(from + i)), n })))}
              columns={[
                { head: "From", width: "1fr", right: true, cell: (row) => row.from },
                { head: "Values", width: "1fr", right: true, cell: (row) => grouped(row.n) },
              ]}
            />
          </details>
        </>
      )}
    </>
  );
}
