import { Table } from "../table";
import { count } from "../text";
import { type Diff, plain, shown } from "./answer";
import { ChangedTensors, Total } from "./tensors";

export function DiffReport({ answer: { a, b, same, n_same_keys, keys, tensors, total } }: { answer: Diff }) {
  const different = tensors.filter((tensor) => !tensor.same);
  const changed = different.map((tensor) => {
    const shape = (tensor.b ?? tensor.a)?.shape ?? [];
    const isMoved = tensor.a && tensor.b && tensor.a.shape.join() !== tensor.b.shape.join();
    const result = !tensor.b ? "only in A" : !tensor.a ? "only in B" : isMoved ? `A: ${tensor.a.shape.join(" × ")}` : tensor.data.replace("_", " ");
    return {
      name: plain(tensor.name),
      shape,
      from: tensor.a?.type ?? "",
      to: tensor.b?.type ?? "",
      elements: shape.reduce((n, m) => n * m, 1),
      bytes: null,
      result,
      error: tensor.error,
    };
  });
  return (
    <main>
      <h1>gguf diff</h1>
      <p>
        A: {plain(a)}
        <br />
        B: {plain(b)}
      </p>
      <p>
        {same ? "The models are the same. " : ""}
        {count(n_same_keys, "equal key")}, {count(keys.length, "different key")}; {count(tensors.length - different.length, "equal tensor")},{" "}
        {count(different.length, "different tensor")}.
      </p>
      {total && <Total total={total} />}
      {keys.length > 0 && (
        <>
          <h2>{count(keys.length, "key")}</h2>
          <Table<Diff["keys"][number]>
            label="Keys"
            version=""
            least="48rem"
            count={keys.length}
            load={(from, n) => Promise.resolve(keys.slice(from, from + n))}
            columns={[
              { head: "Key", width: "minmax(14rem, 2fr)", mono: true, cell: (row) => plain(row.key) },
              { head: "A", width: "minmax(10rem, 3fr)", mono: true, cell: (row) => <span title={shown(row.a).slice(0, 2000)}>{shown(row.a).slice(0, 400)}</span> },
              { head: "B", width: "minmax(10rem, 3fr)", mono: true, cell: (row) => <span title={shown(row.b).slice(0, 2000)}>{shown(row.b).slice(0, 400)}</span> },
            ]}
          />
        </>
      )}
      {different.length > 0 && <ChangedTensors tensors={changed} />}
    </main>
  );
}
