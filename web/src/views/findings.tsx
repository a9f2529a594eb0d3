import type { View } from "../app";
import { count, grouped } from "../text";
import type { Finding, Findings } from "../types";

/** Most findings of one rule that are listed at once. */
const MOST = 100;

export function FindingsView({ findings, onPlace }: { findings: Findings | undefined; onPlace?: (view: View, filter: string) => void }) {
  if (!findings) return <p>Checking…</p>;
  if (findings.error !== undefined) return <p class="problem">{findings.error}</p>;
  const rules = new Map<string, Finding[]>();
  for (const severity of ["error", "warning", "note"]) {
    for (const finding of findings.findings) {
      if (finding.severity === severity) rules.set(finding.code, [...(rules.get(finding.code) ?? []), finding]);
    }
  }
  return (
    <>
      <p>
        {count(findings.errors, "error")}, {count(findings.warnings, "warning")}, {count(findings.notes, "note")}.{" "}
        {findings.safe ? "Any reader can read the structure safely." : "The structure is not safe to read."}
      </p>
      {[...rules].map(([code, list]) => (
        <article key={code} class="finding">
          <h3>
            <span class={`severity ${list[0]?.severity}`}>{list[0]?.severity}</span> <code>{code}</code>
          </h3>
          <ul>
            {list.slice(0, MOST).map((finding, i) => (
              <li key={i}>
                {finding.name !== null && <Place finding={finding} {...(onPlace ? { onPlace } : {})} />}
                {finding.message}
                {finding.offset !== null && <span class="dim"> (byte {grouped(finding.offset)})</span>}
                <div class="dim">Expected: {finding.expected}</div>
                <div>Hint: {finding.hint}</div>
              </li>
            ))}
          </ul>
          {list.length > MOST && <p>{grouped(list.length - MOST)} more like these.</p>}
        </article>
      ))}
    </>
  );
}

function Place({ finding, onPlace }: { finding: Finding; onPlace?: (view: View, filter: string) => void }) {
  const view = finding.place === "key" ? "metadata" : finding.place === "tensor" ? "tensors" : undefined;
  const name = finding.name ?? "";
  if (!view || !onPlace || finding.offset === null) return <code>{name}: </code>;
  return (
    <>
      <button type="button" class="place" onClick={() => onPlace(view, name)}>
        {name}
      </button>
      {": "}
    </>
  );
}
