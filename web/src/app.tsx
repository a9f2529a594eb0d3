import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type RepositoryFile, listRepository, parseAddress } from "./address";
import { Client, prepare } from "./client";
import { Problem } from "./facts";
import { type LocalModel, dropped, models } from "./files";
import { Picker } from "./picker";
import { isServed, servedModels, stay } from "./served";
import { count, size } from "./text";
import type { FilesOf, Findings, Opened, TensorRow } from "./types";
import { CompareView } from "./views/compare";
import { EditView } from "./views/edit";
import { FindingsView } from "./views/findings";
import { MemoryView } from "./views/memory";
import { MetadataView } from "./views/metadata";
import { ReportView } from "./views/report";
import { SummaryView } from "./views/summary";
import { TemplateView } from "./views/template";
import { TensorsView } from "./views/tensors";
import { TokensView } from "./views/tokens";
import { WeightsView } from "./views/weights";

/** The model that the page shows. */
interface Shown {
  client: Client;
  opened: Opened;
  from: FilesOf;
}

const VIEWS = ["summary", "metadata", "tensors", "weights", "findings", "tokens", "template", "memory", "compare", "edit", "report"] as const;
export type View = (typeof VIEWS)[number];
const TITLES: Record<View, string> = {
  summary: "Summary",
  metadata: "Metadata",
  tensors: "Tensors",
  weights: "Weights",
  findings: "Findings",
  tokens: "Tokens",
  template: "Chat template",
  memory: "Memory",
  compare: "Compare",
  edit: "Edit",
  report: "Report",
};

/** What a link says: `#view=tensors&url=https://…`. */
function link(): URLSearchParams {
  return new URLSearchParams(location.hash.slice(1));
}

/** The view that a link names. */
function linkedView(): View | undefined {
  return VIEWS.find((name) => name === link().get("view"));
}

/** Makes the address of the page a link to what it shows. Files of this machine have none. */
function setLink(view: View, address: string | undefined): void {
  const parts = new URLSearchParams({ view, ...(address === undefined ? {} : { url: address }) });
  history.replaceState(null, "", `#${parts}`);
}

export function App() {
  const [shown, setShown] = useState<Shown>();
  const [busy, setBusy] = useState("");
  const [problem, setProblem] = useState("");
  const [findings, setFindings] = useState<Findings>();
  const [view, setView] = useState<View>(() => linkedView() ?? "summary");
  const [filter, setFilter] = useState("");
  const [choices, setChoices] = useState<LocalModel[]>([]);
  const [repository, setRepository] = useState<RepositoryFile[]>([]);
  const [token, setToken] = useState("");
  const [tensor, setTensor] = useState<TensorRow>();
  const current = useRef<Client>();
  const heading = useRef<HTMLHeadingElement>(null);

  /** Opens a model in a new worker, which replaces the one before. */
  const open = (what: string, from: FilesOf) => {
    current.current?.end();
    const client = new Client();
    current.current = client;
    setBusy(what);
    setProblem("");
    setFindings(undefined);
    setShown(undefined);
    setTensor(undefined);
    const isCurrent = () => current.current === client;
    client
      .ask<Opened>({ kind: "open", from })
      .then((opened) => {
        if (!isCurrent()) return;
        setBusy("");
        if (opened.overview.error !== undefined) setProblem(opened.overview.error);
        else setShown({ client, opened, from });
        client.giveSecond().catch((error: Error) => isCurrent() && setProblem(error.message));
        return client.ask<Findings>({ kind: "findings" }).then((found) => {
          if (isCurrent()) setFindings(found);
        });
      })
      .catch((error: Error) => {
        if (!isCurrent()) return;
        setBusy("");
        setProblem(error.message);
      });
  };
  const openFiles = (files: File[]) => {
    const found = models(files);
    setRepository([]);
    setChoices(found.length > 1 ? found : []);
    if (found.length === 1) openModel(found[0]!);
    else if (files.length > 0 && found.length === 0) setProblem("There is no file called .gguf among these.");
  };
  const openModel = (model: LocalModel) => open(model.name, { files: model.files, name: model.name });
  const openAddress = (text: string, token: string) => {
    const place = parseAddress(text);
    setChoices([]);
    setRepository([]);
    if (place === null) {
      setProblem("This is not an address: expected https://…, hf:ORG/REPO or ORG/REPO.");
    } else if (place.kind === "file") {
      open(place.address, { address: place.address, token });
    } else {
      setProblem("");
      setBusy(place.repo);
      listRepository(place.repo, place.revision, token)
        .then((files) => {
          setRepository(files);
          if (files.length === 0) setProblem(`There are no GGUF files in ${place.repo}.`);
        })
        .catch((error: Error) => setProblem(error.message))
        .finally(() => setBusy(""));
    }
  };
  const show = (view: View, filter = "") => {
    setView(view);
    setFilter(filter);
    heading.current?.focus();
  };

  useEffect(() => {
    void prepare("gguf").catch((error: Error) => setProblem(error.message));
    const follow = () => {
      const address = link().get("url");
      setView(linkedView() ?? "summary");
      if (address) openAddress(address, "");
      return address;
    };
    const isFollowed = follow();
    if (isServed) {
      void stay().then(() => setProblem("gguf view has ended: start it again to read more of its files."));
      servedModels().then((found) => {
        setRepository(found.length > 1 ? found : []);
        if (found.length === 1 && !isFollowed) open(found[0]!.name, { address: found[0]!.address, token: "" });
      }, (error: Error) => setProblem(error.message));
    }
    const stop = (event: Event) => event.preventDefault();
    const drop = (event: DragEvent) => {
      event.preventDefault();
      document.body.classList.remove("over");
      if (event.dataTransfer) dropped(event.dataTransfer).then(openFiles, (error: Error) => setProblem(error.message));
    };
    const over = (event: Event) => {
      stop(event);
      document.body.classList.add("over");
    };
    const leave = () => document.body.classList.remove("over");
    addEventListener("hashchange", follow);
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("hashchange", follow);
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);

  useEffect(() => {
    if (shown) setLink(view, "address" in shown.from ? shown.from.address : undefined);
  }, [shown, view]);

  const overview = shown?.opened.overview;
  const available = VIEWS.filter(
    (name) => (name !== "tokens" || (overview?.n_tokens ?? 0) > 0) && (name !== "template" || (overview?.n_templates ?? 0) > 0),
  );
  const selected = available.includes(view) ? view : "summary";
  return (
    <>
      <header>
        <h1>GGUF viewer</h1>
        <div class="open">
          <Picker label="Open a file…" onFiles={openFiles} />
          <Picker label="Open a folder…" folder onFiles={openFiles} />
          <form
            onSubmit={(event) => {
              event.preventDefault();
              openAddress(String(new FormData(event.currentTarget).get("address")), token);
            }}
          >
            <label>
              Address <input name="address" size={34} placeholder="https://… or hf:ORG/REPO" autocomplete="off" spellcheck={false} />
            </label>
            <label>
              Token{" "}
              <input
                type="password"
                size={10}
                placeholder="if needed"
                autocomplete="off"
                value={token}
                onInput={(event) => setToken(event.currentTarget.value)}
              />
            </label>
            <button>Open</button>
          </form>
        </div>
      </header>
      <div role="status" class="status">
        {busy && (
          <>
            Opening {busy}…{" "}
            <button
              type="button"
              onClick={() => {
                current.current?.end();
                setBusy("");
              }}
            >
              Cancel
            </button>
          </>
        )}
      </div>
      <main>
        <Problem text={problem} />
        {choices.length > 0 && (
          <Choices title={`${choices.length} models`}>
            {choices.map((model) => (
              <li key={model.name}>
                <button type="button" onClick={() => openModel(model)}>
                  {model.name}
                </button>{" "}
                {model.files.length > 1 && `${count(model.files.length, "shard")}, `}
                {size(model.files.reduce((sum, file) => sum + file.size, 0))}
              </li>
            ))}
          </Choices>
        )}
        {repository.length > 0 && (
          <Choices title={`${repository.length} files`}>
            {repository.map((file) => (
              <li key={file.name}>
                <button type="button" onClick={() => open(file.name, { address: file.address, token })}>
                  {file.name}
                </button>{" "}
                {size(file.bytes)}
              </li>
            ))}
          </Choices>
        )}
        {shown && overview ? (
          <>
            <h2 ref={heading} tabIndex={-1}>
              {overview.name}
            </h2>
            {overview.missing.length > 0 && <p class="problem">Missing shards: {overview.missing.join(", ")}</p>}
            <nav aria-label="Views">
              {available.map((name) => (
                <button type="button" key={name} aria-current={name === selected ? "page" : undefined} onClick={() => show(name)}>
                  {TITLES[name]}
                  {name === "findings" && findings && !findings.error && ` (${findings.findings.length})`}
                </button>
              ))}
            </nav>
            <section aria-label={TITLES[selected]}>
              {selected === "summary" && <SummaryView opened={shown.opened} />}
              {selected === "metadata" && <MetadataView key={filter} client={shown.client} filter={filter} />}
              {selected === "tensors" && (
                <TensorsView
                  key={filter}
                  client={shown.client}
                  sharded={overview.files.length > 1}
                  filter={filter}
                  onTensor={(row) => {
                    setTensor(row);
                    show("weights");
                  }}
                />
              )}
              {selected === "weights" && <WeightsView client={shown.client} tensor={tensor} remote={shown.opened.remote} />}
              {selected === "findings" && <FindingsView findings={findings} onPlace={show} />}
              {selected === "tokens" && <TokensView client={shown.client} />}
              {selected === "template" && <TemplateView client={shown.client} />}
              {selected === "memory" && <MemoryView client={shown.client} />}
              {selected === "compare" && <CompareView client={shown.client} token={token} />}
              {selected === "edit" && (
                <EditView client={shown.client} name={overview.name} file={"files" in shown.from ? shown.from.files[0] : undefined} />
              )}
              {selected === "report" && <ReportView client={shown.client} overview={overview} findings={findings} />}
            </section>
          </>
        ) : (
          <>
            {problem && findings && <FindingsView findings={findings} />}
            {!busy && choices.length === 0 && repository.length === 0 && (
              <p class="hint">
                Drop a GGUF file here, all shards of a model, or a folder. Files stay on this machine. An address is asked for nothing but the start of its
                file.
              </p>
            )}
          </>
        )}
      </main>
    </>
  );
}

function Choices({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <ul class="choices">{children}</ul>
    </section>
  );
}
