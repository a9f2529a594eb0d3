// Markdown of texts from files, none of which becomes markup.

/** A text outside of code. */
export function escaped(text: string): string {
  const line = text.replace(/\s+/g, " ").replace(/[<>&@]/g, (c) => `&#${c.charCodeAt(0)};`);
  return line.replace(/[\\`*[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])/g, "\\$&");
}

/** A text as code, which may stand in a table. */
export function code(text: string): string {
  const line = text.replace(/\s+/g, " ").replaceAll("|", "\\|");
  if (line.trim() === "") return "";
  // More backticks than stand together in the text.
  const fence = "`".repeat(1 + Math.max(0, ...(line.match(/`+/g) ?? []).map((run) => run.length)));
  return line.includes("`") ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`;
}

/** A row of a table. */
export function row(cells: string[]): string {
  return `| ${cells.join(" | ")} |`;
}
