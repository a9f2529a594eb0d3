import { FactsHead } from "../facts";
import { grouped, size } from "../text";
import type { Opened, Summary } from "../types";

/** The rows: a field of the summary, and what it is called. */
const FIELDS: [string, string][] = [
  ["type", "Kind"],
  ["architecture", "Architecture"],
  ["name", "Name"],
  ["size_label", "Size"],
  ["license", "License"],
  ["base_model", "Base model"],
  ["quantized_by", "Quantized by"],
  ["file_type", "File type"],
  ["imatrix", "Importance matrix"],
  ["n_parameters", "Parameters"],
  ["tensor_bytes", "Bytes of the tensors"],
  ["bits_per_weight", "Bits per weight"],
  ["n_tensors", "Tensors"],
  ["n_tensors_of_unknown_size", "Tensors of unknown size"],
  ["n_keys", "Keys"],
  ["n_shards", "Shards"],
  ["n_shards_expected", "Shards expected"],
  ["context_length", "Context length"],
  ["embedding_length", "Embedding length"],
  ["block_count", "Blocks"],
  ["feed_forward_length", "Feed-forward length"],
  ["head_count", "Heads"],
  ["head_count_kv", "Heads of keys and values"],
  ["expert_count", "Experts"],
  ["expert_used_count", "Experts used"],
  ["rope_scaling", "Rope scaling"],
  ["rope_scaling_factor", "Factor of the rope scaling"],
  ["rope_freq_base", "Base frequency of the rope"],
  ["sliding_window", "Sliding window"],
  ["vocabulary_size", "Vocabulary"],
  ["tokenizer_model", "Tokenizer"],
  ["tokenizer_pre", "Pre-tokenizer"],
  ["quantization_version", "Quantization version"],
  ["lora_rank", "Rank of the adapter"],
  ["lora_alpha", "Alpha of the adapter"],
];

function text(field: string, value: string | number): string {
  if (field === "tensor_bytes") return `${grouped(value)} (${size(value)})`;
  if (field === "bits_per_weight") return Number(value).toFixed(2);
  return /^\d+$/.test(String(value)) ? grouped(value) : String(value);
}

/** The fields of a summary that a model has: name, title and value. */
export function fields(summary: Summary): [string, string, string][] {
  return FIELDS.flatMap(([field, title]): [string, string, string][] => {
    const value = summary[field];
    const isPlain = typeof value === "string" || typeof value === "number";
    return isPlain && !(field === "n_tensors_of_unknown_size" && value === 0) ? [[field, title, text(field, value)]] : [];
  });
}

export function SummaryView({ opened }: { opened: Opened }) {
  const { overview } = opened;
  const { format, summary } = overview;
  const rows = fields(summary);
  return (
    <>
      <table class="facts">
        <caption>Summary</caption>
        <tbody>
          {rows.map(([field, title, value]) => (
            <tr key={field} data-field={field}>
              <th scope="row">{title}</th>
              <td>{value}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">Format</th>
            <td>
              GGUF version {format.version}
              {format.draft && " (draft)"}, {format.byte_order}, alignment {format.alignment}
            </td>
          </tr>
          <tr data-field="time">
            <th scope="row">Opened in</th>
            <td>
              {opened.milliseconds.toFixed(0)} ms, of these {opened.reading.toFixed(0)} ms of reading and {opened.parsing.toFixed(0)} ms of parsing
            </td>
          </tr>
        </tbody>
      </table>
      <table class="facts">
        <caption>Types of tensors</caption>
        <FactsHead columns={["Type", "Tensors", "Parameters", "Bytes"]} />
        <tbody>
          {summary.types.map((share) => (
            <tr key={share.type}>
              <th scope="row">{share.type}</th>
              <td class="right">{grouped(share.n_tensors)}</td>
              <td class="right">{grouped(share.n_parameters)}</td>
              <td class="right">{size(share.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <table class="facts">
        <caption>Files</caption>
        <FactsHead columns={["File", "Bytes", "Head", "Data from byte", "Tensors"]} />
        <tbody>
          {overview.files.map((file) => (
            <tr key={file.name}>
              <th scope="row">{file.name}</th>
              <td class="right">{grouped(file.file_bytes)}</td>
              <td class="right">{grouped(file.head_bytes)}</td>
              <td class="right">{grouped(file.data_offset)}</td>
              <td class="right">{grouped(file.n_tensors)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
