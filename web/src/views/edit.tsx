import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import { Problem } from "../facts";
import { save } from "../save";
import { grouped } from "../text";
import type { Edit, Edited } from "../types";

const TYPES = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", "bool", "string"];

/** An edit in words. */
function words(edit: Edit): string {
  if ("set" in edit) return `set ${edit.set}`;
  if ("unset" in edit) return `remove ${edit.unset}`;
  return `rename ${edit.rename[0]} to ${edit.rename[1]}`;
}

export function EditView({ client, name, file }: { client: Client; name: string; file: File | undefined }) {
  const [edits, setEdits] = useState<Edit[]>([]);
  const [edited, setEdited] = useState<Edited>();
  const [key, setKey] = useState("");
  const [type, setType] = useState("");
  const [value, setValue] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    setEdited(undefined);
    if (edits.length > 0) void client.ask<Edited>({ kind: "edits", edits }).then((edited) => isCurrent && setEdited(edited));
    return () => {
      isCurrent = false;
    };
  }, [client, edits]);
  /** Adds an edit if it can be made. */
  const add = (edit: Edit) => {
    setProblem("");
    void client.ask<Edited>({ kind: "edits", edits: [...edits, edit] }).then((edited) => {
      if (edited.error !== undefined) return setProblem(edited.error);
      setEdits([...edits, edit]);
      setValue("");
    });
  };
  const saveHead = async (rest?: Blob) => {
    const head = await client.ask<Uint8Array<ArrayBuffer>>({ kind: "editedHead", edits });
    if (rest) save(name, [head, rest]);
    else save(`${name}.head`, [head]);
  };
  const text = (label: string, value: string, set: (text: string) => void, size: number) => (
    <label>
      {label}{" "}
      <input value={value} size={size} autocomplete="off" spellcheck={false} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
  return (
    <>
      <form
        class="tools"
        onSubmit={(event) => {
          event.preventDefault();
          add({ set: `${key}${type === "" ? "" : `:${type}`}=${value}` });
        }}
      >
        {text("Key", key, setKey, 28)}
        <label>
          Type{" "}
          <select value={type} onChange={(event) => setType(event.currentTarget.value)}>
            <option value="">that of the key</option>
            {TYPES.map((name) => (
              <option value={name}>{name}</option>
            ))}
            {TYPES.map((name) => (
              <option value={`[${name}]`}>[{name}]</option>
            ))}
          </select>
        </label>
        {text("Value or new name", value, setValue, 34)}
        <button>Set</button>
        <button type="button" onClick={() => add({ rename: [key, value] })}>
          Rename
        </button>
        <button type="button" onClick={() => add({ unset: key })}>
          Remove
        </button>
      </form>
      <Problem text={problem} />
      <p class="hint">
        A list is written as in JSON: [1, 2]. The file itself is not changed: no browser can do that. The edited one is saved beside it.
      </p>
      {edits.length > 0 && (
        <ul aria-label="Edits">
          {edits.map((edit, i) => (
            <li key={i}>
              <code>{words(edit)}</code>{" "}
              <button type="button" aria-label={`Undo: ${words(edit)}`} onClick={() => setEdits(edits.filter((_, k) => k !== i))}>
                Undo
              </button>
            </li>
          ))}
        </ul>
      )}
      <Problem text={edited?.error} />
      {edited && edited.error === undefined && (
        <>
          <table class="facts">
            <caption>Changes</caption>
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">Before</th>
                <th scope="col">After</th>
              </tr>
            </thead>
            <tbody>
              {edited.changes.map((change) => (
                <tr key={change.key}>
                  <th scope="row">{change.key}</th>
                  <td>{change.from !== undefined ? `called ${change.from}` : (change.before ?? "missing")}</td>
                  <td>{change.from !== undefined ? `called ${change.key}` : (change.after ?? "removed")}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {edited.findings.map((finding) => (
            <p key={finding.message} class={`severity ${finding.severity}`}>
              {finding.severity}: {finding.message}. {finding.hint}
            </p>
          ))}
          <div class="tools">
            {file && (
              <button type="button" onClick={() => void saveHead(file.slice(Number(edited.data_offset)))}>
                Save the file
              </button>
            )}
            <button type="button" onClick={() => void saveHead()}>
              Save the head
            </button>
            <span>{grouped(edited.file_bytes)} bytes</span>
          </div>
          {!file && <p class="hint">Of a file on a server, only the head can be saved. Its data begins at byte {grouped(edited.data_offset)}.</p>}
        </>
      )}
    </>
  );
}
