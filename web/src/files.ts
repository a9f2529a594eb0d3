// Files that were dropped or chosen.

/** One model among them: a file, or shards. */
export interface LocalModel {
  /** The name of the file to open. */
  name: string;
  files: File[];
}

const SHARD = /^(.+)-\d{5}-of-(\d{5})\.gguf$/;

/** The names of all shards of the model that a file belongs to; only its own if it is none. */
export function siblings(name: string): string[] {
  const [, prefix, count] = SHARD.exec(name) ?? [];
  if (prefix === undefined || Number(count) === 0) return [name];
  return Array.from({ length: Number(count) }, (_, i) => `${prefix}-${String(i + 1).padStart(5, "0")}-of-${count}.gguf`);
}

/** Groups shards. A single file is taken whatever its name; of several, those called `.gguf`. */
export function models(files: File[]): LocalModel[] {
  const only = files.length === 1;
  const groups = new Map<string, File[]>();
  for (const file of files) {
    if (!only && !file.name.toLowerCase().endsWith(".gguf")) continue;
    const shard = SHARD.exec(file.name);
    const group = shard ? `${file.webkitRelativePath.replace(/[^/]*$/, "")}${shard[1]}/${shard[2]}` : `${file.webkitRelativePath}/${file.name}`;
    groups.set(group, [...(groups.get(group) ?? []), file]);
  }
  const named = [...groups.values()].map((group) => group.sort((a, b) => (a.name < b.name ? -1 : 1)));
  return named.map((group) => ({ name: group[0]?.name ?? "", files: group })).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** All files of what was dropped, folders included. */
export async function dropped(transfer: DataTransfer): Promise<File[]> {
  // Both lists must be read before the first pause.
  const entries = [...transfer.items].map((item) => (item.kind === "file" ? item.webkitGetAsEntry() : null));
  const plain = [...transfer.files];
  const found = entries.filter((entry) => entry !== null);
  if (found.length === 0 || found.every((entry) => entry.isFile)) return plain;
  const files: File[] = [];
  for (const entry of found) await walk(entry, files);
  return files;
}

/** Most files of a folder. */
const MOST = 20_000;

async function walk(entry: FileSystemEntry, files: File[]): Promise<void> {
  if (files.length >= MOST) return;
  if (entry.isFile) {
    files.push(await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)));
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // At most 100 entries come at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const inner of some) await walk(inner, files);
  }
}
