// The page as `gguf view` serves it: with files beside it, as long as it is open.

import type { RepositoryFile } from "./address";

/** Whether the program serves this page. */
export const isServed = document.getElementById("app")?.dataset.served !== undefined;

/** The models that the program was given. */
export async function servedModels(): Promise<RepositoryFile[]> {
  const response = await fetch(new URL("models", document.baseURI));
  if (!response.ok) throw new Error(`the program did not list its models (HTTP ${response.status})`);
  const models = (await response.json()) as { path: string; name: string; bytes: number }[];
  return models.map(({ path, name, bytes }) => ({ name, bytes, address: new URL(path, document.baseURI).href }));
}

/** Failures in a row after which the program has ended. */
const MOST_FAILURES = 5;

/** Holds a request open, by which the program knows that the page is. Returns once the program has ended. */
export async function stay(): Promise<void> {
  for (let failures = 0; failures < MOST_FAILURES; ) {
    try {
      const response = await fetch(new URL("alive", document.baseURI), { cache: "no-store" });
      failures = 0;
      await response.text();
    } catch {
      failures++;
    }
    await new Promise((go) => setTimeout(go, 1000));
  }
}
