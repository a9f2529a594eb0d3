import { Problem } from "../facts";
import { FindingsView } from "../views/findings";
import { type Check, plain } from "./answer";

export function CheckReport({ answer }: { answer: Check }) {
  return (
    <main>
      <h1>gguf check</h1>
      <p>{answer.good ? "Good." : "Bad: there are errors."}</p>
      {answer.files.map((file, i) => (
        <section key={i}>
          <h2>{file.path !== undefined ? plain(file.path) : "All shards together"}</h2>
          {file.error ? <Problem text={[file.error.message, file.error.help].filter(Boolean).join("; ")} /> : <FindingsView findings={file} />}
        </section>
      ))}
    </main>
  );
}
