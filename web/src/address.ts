// The spellings of addresses that people copy.

/** An address of the Hub, or of any file. */
export type Place = { kind: "file"; address: string } | { kind: "repository"; repo: string; revision: string };

const HUB = "https://huggingface.co";
const HUB_HOSTS = new Set(["huggingface.co", "www.huggingface.co", "hf.co"]);
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

function path(parts: string[]): string {
  return parts.map((part) => encodeURIComponent(decodeURIComponent(part))).join("/");
}

/** A file or a repository of the Hub, by the parts of its path. */
function onHub(parts: string[]): Place | null {
  const [org, repo, verb, revision, ...file] = parts;
  if (!org || !repo || !NAME.test(org) || !NAME.test(repo)) return null;
  if (verb === undefined) return { kind: "repository", repo: `${org}/${repo}`, revision: "main" };
  if (verb === "tree" && revision) return { kind: "repository", repo: `${org}/${repo}`, revision };
  if ((verb === "blob" || verb === "resolve" || verb === "raw") && revision && file.length > 0) {
    return { kind: "file", address: `${HUB}/${org}/${repo}/resolve/${encodeURIComponent(decodeURIComponent(revision))}/${path(file)}` };
  }
  return null;
}

/** What a text means: `https://…`, `hf:ORG/REPO[/FILE]`, `ORG/REPO`, or a page of the Hub. `null` if it is no address. */
export function parseAddress(text: string): Place | null {
  const given = text.trim();
  try {
    const short = /^hf:(?:\/\/)?(.+)$/i.exec(given);
    if (short?.[1] !== undefined) {
      const [org, repo, ...file] = short[1].split("/").filter((part) => part !== "");
      const [name, revision = "main"] = (repo ?? "").split("@");
      if (!org || !name) return null;
      return file.length > 0 ? onHub([org, name, "resolve", revision, ...file]) : onHub([org, name, "tree", revision]);
    }
    if (/^https?:\/\//i.test(given)) {
      const url = new URL(given);
      if (!HUB_HOSTS.has(url.hostname)) return { kind: "file", address: url.href };
      const parts = url.pathname.split("/").filter((part) => part !== "");
      const linked = url.searchParams.get("show_file_info");
      if (linked && parts.length >= 2) return onHub([...parts.slice(0, 2), "resolve", parts[3] ?? "main", ...linked.split("/")]);
      return onHub(parts) ?? { kind: "file", address: url.href };
    }
    const parts = given.split("/");
    return parts.length === 2 ? onHub(parts) : null;
  } catch {
    return null;
  }
}

export interface RepositoryFile {
  name: string;
  bytes: number;
  address: string;
}

/** The GGUF files of a repository, at the commit that it has now. */
export async function listRepository(repo: string, revision: string, token: string): Promise<RepositoryFile[]> {
  const headers: Record<string, string> = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const address = `${HUB}/api/models/${repo}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const response = await fetch(address, { headers, credentials: "omit", referrerPolicy: "no-referrer" });
  if (!response.ok) throw new Error(`the Hub did not list ${repo} (HTTP ${response.status}): it may not exist, or be private`);
  const answer = (await response.json()) as { sha?: string; siblings?: { rfilename: string; size?: number }[] };
  const commit = answer.sha ?? revision;
  return (answer.siblings ?? [])
    .filter((file) => file.rfilename.endsWith(".gguf"))
    .map((file) => ({
      name: file.rfilename,
      bytes: file.size ?? 0,
      address: `${HUB}/${repo}/resolve/${commit}/${path(file.rfilename.split("/"))}`,
    }));
}
