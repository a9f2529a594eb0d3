import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { Problem } from "../facts";
import { Histogram } from "../plots";
import { Table } from "../table";
import { bits, grouped, short } from "../text";
import type { Statistics, TensorRow } from "../types";
import { MapSection, Progress } from "./map";

const BINS = 256;

export function WeightsView({ client, tensor, remote }: { client: Client; tensor: TensorRow | undefined; remote: boolean }) {
  const [stats, setStats] = useState<Statistics>();
  const [share, setShare] = useState<number>();
  const [problem, setProblem] = useState("");
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
      .ask<Statistics>({ kind: "statistics", shard: tensor.shard, index: tensor.index, bins: BINS }, setShare)
      .then(setStats)
      .catch((error: Error) => error.message !== "stopped" && setProblem(error.message))
      .finally(() => setShare(undefined));
  };
  return (
    <>
      <h3 class="mono">{tensor.name}</h3>
      <p>
        {tensor.shape.join(" × ")}, {tensor.type}, {bits(tensor.bytes, tensor.n_elements)} bits per weight.
        {remote && " Of a tensor with more than 4 MiB on a server, only a sample is read."}
      </p>
      <div class="tools">
        <button type="button" onClick={compute}>
          Compute the statistics
        </button>
        <Progress client={client} share={share} />
      </div>
      <Problem text={problem} />
      {stats && <Figures stats={stats} of={tensor.n_elements ?? "?"} />}
      <MapSection
        client={client}
        place={{ shard: tensor.shard, index: tensor.index, compared: false }}
        nRows={nRows}
        rowLen={rowLen}
        title="Map of the values"
      />
    </>
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
