import { useEffect, useState } from "preact/hooks";
import type { Client } from "../client";
import type { Template } from "../types";

export function TemplateView({ client }: { client: Client }) {
  const [templates, setTemplates] = useState<Template[]>([]);
  useEffect(() => {
    void client.ask<Template[]>({ kind: "templates" }).then(setTemplates);
  }, [client]);
  return (
    <>
      {templates.map((template) => (
        <article key={template.name}>
          <h3>{template.name === "" ? "Default template" : template.name}</h3>
          <pre tabIndex={0}>{template.text}</pre>
        </article>
      ))}
    </>
  );
}
