import { bits, count, grouped } from "../text";
import { type Quantize, plain } from "./answer";
import { ChangedTensors, Total } from "./tensors";

export function QuantizeReport({ answer: { files, tensors, total } }: { answer: Quantize }) {
  const changed = tensors.map((tensor) => ({
    name: plain(tensor.name),
    shape: tensor.shape,
    from: tensor.from,
    to: tensor.to,
    elements: tensor.n_weights,
    bytes: tensor.bytes,
    result: "changed",
    error: tensor,
  }));
  return (
    <main>
      <h1>gguf quantize</h1>
      <p>{files.map((file) => plain(file.path)).join(", ")}</p>
      <p>
        {count(tensors.length, "tensor")} changed, {grouped(total.n_weights)} weights, {bits(String(total.bytes), String(total.n_weights))} bits each.
      </p>
      {tensors.length > 0 && <Total total={total} />}
      <ChangedTensors tensors={changed} />
    </main>
  );
}
