import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { FactsHead, Problem } from "../facts";
import { grouped, size } from "../text";
import type { Estimate, Memory } from "../types";

/** The types of a cache that llama.cpp supports, by their numbers. */
const TYPES: [number, string][] = [
  [0, "F32"],
  [1, "F16"],
  [30, "BF16"],
  [8, "Q8_0"],
  [7, "Q5_1"],
  [6, "Q5_0"],
  [3, "Q4_1"],
  [2, "Q4_0"],
  [20, "IQ4_NL"],
];

const PARTS: [keyof Memory, string][] = [
  ["weights", "Weights"],
  ["kv_cache", "KV cache"],
  ["states", "States of recurrent layers"],
  ["compute", "Compute buffer"],
  ["output", "Output"],
  ["total", "Total"],
];

export function MemoryView({ client }: { client: Client }) {
  const [context, setContext] = useState(0);
  const [typeK, setTypeK] = useState(1);
  const [typeV, setTypeV] = useState(1);
  const [flash, setFlash] = useState(true);
  const [gpuLayers, setGpuLayers] = useState(0);
  const [estimate, setEstimate] = useState<Estimate>();
  useEffect(() => {
    let isCurrent = true;
    void client.ask<Estimate>({ kind: "estimate", context, typeK, typeV, flash, gpuLayers }).then((e) => isCurrent && setEstimate(e));
    return () => {
      isCurrent = false;
    };
  }, [client, context, typeK, typeV, flash, gpuLayers]);
  const select = (label: string, value: number, set: (type: number) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => set(Number(event.currentTarget.value))}>
        {TYPES.map(([id, name]) => (
          <option value={id}>{name}</option>
        ))}
      </select>
    </label>
  );
  const number = (label: string, value: number, set: (n: number) => void) => (
    <label>
      {label}{" "}
      <input
        type="number"
        min={0}
        step={1}
        value={value}
        onInput={(event) => set(Math.max(0, Math.floor(Number(event.currentTarget.value) || 0)))}
      />
    </label>
  );
  return (
    <>
      <div class="tools">
        {number("Context in tokens (0: that of the training)", context, setContext)}
        {select("Keys", typeK, setTypeK)}
        {select("Values", typeV, setTypeV)}
        <label>
          <input type="checkbox" checked={flash} onChange={(event) => setFlash(event.currentTarget.checked)} /> Flash attention
        </label>
        {number("Layers on the GPU", gpuLayers, setGpuLayers)}
      </div>
      <Problem text={estimate?.error} />
      {estimate && estimate.error === undefined && (
        <>
          <table class="facts">
            <caption>
              Memory of llama.cpp with a context of {grouped(estimate.n_ctx)} tokens, {estimate.n_gpu_layers} of {estimate.n_layers + 1} layers on the
              GPU
            </caption>
            <FactsHead columns={["Part", "Host", "GPU"]} />
            <tbody>
              {PARTS.map(([part, title]) => (
                <tr key={part} data-part={part}>
                  <th scope="row">{title}</th>
                  <td class="right" title={`${grouped(estimate.host[part])} bytes`}>
                    {size(estimate.host[part])}
                  </td>
                  <td class="right" title={`${grouped(estimate.gpu[part])} bytes`}>
                    {size(estimate.gpu[part])}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <ul>
            {estimate.assumptions.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
