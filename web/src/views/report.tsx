import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { type Layer, typesText } from "../layers";
import { code, row, escaped } from "../markdown";
import { save } from "../save";
import { bits, count, grouped, size } from "../text";
import type { Findings, KvRow, Overview, TensorRow } from "../types";
import { fields } from "./summary";

/** Rows that are asked for at once. */
const STEP = 1024;
/** Most keys, layers and findings of a report in Markdown, which is for reading. */
const MOST = 1000;

interface Found {
  keys: KvRow[];
  nKeys: number;
  layers: Layer[];
  nLayers: number;
}

/** Rows of a list of the module, up to a number. */
async function list<Row>(n: number, load: (from: number, n: number) => Promise<Row[]>): Promise<Row[]> {
  const rows: Row[] = [];
  while (rows.length < n) {
    const more = await load(rows.length, Math.min(STEP, n - rows.length));
    if (more.length === 0) break;
    for (const row of more) rows.push(row);
  }
  return rows;
}

/** What is known of a model, as a document to attach to an issue. */
export function ReportView({ client, overview, findings }: { client: Client; overview: Overview; findings: Findings | undefined }) {
  const [found, setFound] = useState<Found>();
  useEffect(() => {
    void (async () => {
      const nKeys = await client.ask<number>({ kind: "findKvs", part: "" });
      const keys = await list(Math.min(MOST, nKeys), (from, n) => client.ask<KvRow[]>({ kind: "kvs", from, n }));
      const nLayers = await client.ask<number>({ kind: "findLayers" });
      const layers = await list(Math.min(MOST, nLayers), (from, n) => client.ask<Layer[]>({ kind: "layers", from, n }));
      setFound({ keys, nKeys, layers, nLayers });
    })();
  }, [client]);
  if (!findings || !found) return <p>Collecting…</p>;
  const text = markdown(overview, findings, found);
  const saveJson = async () => {
    const nKeys = await client.ask<number>({ kind: "findKvs", part: "" });
    const metadata = await list(nKeys, (from, n) => client.ask<KvRow[]>({ kind: "kvs", from, n }));
    const nTensors = await client.ask<number>({ kind: "findTensors", part: "", order: 0, descending: false });
    const tensors = await list(nTensors, (from, n) => client.ask<TensorRow[]>({ kind: "tensors", from, n }));
    const document = JSON.stringify({ ...overview, findings, metadata, tensors }, null, 1);
    save(`${overview.name}.json`, [document], "application/json");
  };
  return (
    <>
      <div class="tools">
        <button type="button" onClick={() => save(`${overview.name}.md`, [text], "text/markdown")}>
          Save as Markdown
        </button>
        <button type="button" onClick={() => void saveJson()}>
          Save as JSON
        </button>
        <span>The JSON has all keys and tensors; long values are cut in both.</span>
      </div>
      <pre tabIndex={0} aria-label="Report in Markdown">
        {text}
      </pre>
    </>
  );
}

function markdown({ name, files, missing, format, summary }: Overview, findings: Findings, { keys, nKeys, layers, nLayers }: Found): string {
  const more = (n: number, noun: string) => (n > 0 ? [`${count(n, noun)} more.`, ""] : []);
  const lines = [
    `# ${escaped(name)}`,
    "",
    row(["", ""]),
    row(["---", "---"]),
    ...fields(summary).map(([, title, value]) => row([title, escaped(value)])),
    row(["Format", `GGUF version ${format.version}${format.draft ? " (draft)" : ""}, ${format.byte_order}, alignment ${format.alignment}`]),
    "",
    row(["File", "Bytes", "Head", "Tensors"]),
    row(["---", "---:", "---:", "---:"]),
    ...files.map((file) => row([code(file.name), grouped(file.file_bytes), grouped(file.head_bytes), grouped(file.n_tensors)])),
    "",
  ];
  if (missing.length > 0) lines.push(`Missing shards: ${missing.map(code).join(", ")}`, "");
  lines.push("## Findings", "");
  if (findings.error !== undefined) lines.push(escaped(findings.error), "");
  else {
    lines.push(`${count(findings.errors, "error")}, ${count(findings.warnings, "warning")}, ${count(findings.notes, "note")}.`, "");
    for (const finding of findings.findings.slice(0, MOST)) {
      const place = finding.name === null ? "" : `${finding.place} ${code(finding.name)}: `;
      const at = finding.offset === null ? "" : ` (byte ${grouped(finding.offset)})`;
      lines.push(`* **${finding.severity}** ${code(finding.code)}: ${place}${escaped(finding.message)}${at}. Hint: ${escaped(finding.hint)}`);
    }
    lines.push("", ...more(findings.findings.length - MOST, "finding"));
  }
  lines.push("## Layers", "", row(["Layer", "Tensors", "Types", "Weights", "Bits", "Bytes"]), row(["---", "---:", "---", "---:", "---:", "---:"]));
  for (const layer of layers) {
    const weights = [grouped(layer.elements), bits(String(layer.bytes), String(layer.elements)), size(layer.bytes)];
    lines.push(row([layer.name === "" ? "outside of layers" : code(layer.name), grouped(layer.tensors), escaped(typesText(layer.types)), ...weights]));
  }
  lines.push("", ...more(nLayers - layers.length, "layer"), "## Metadata", "", row(["Key", "Type", "Value"]), row(["---", "---", "---"]));
  for (const key of keys) {
    const type = key.element_type === undefined ? key.type : `${key.element_type}[${key.length}]`;
    const value = key.length !== undefined && Number(key.length) > 8 ? `${key.value}, …` : key.value;
    lines.push(row([code(key.key), type, code(value)]));
  }
  lines.push("", ...more(nKeys - keys.length, "key"));
  return lines.join("\n");
}
