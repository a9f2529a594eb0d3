// The page that the program writes with `--html`. Its data is the answer that `--json` prints, in the page itself.

import { render } from "preact";
import "../style.css";
import type { Answer } from "./answer";
import { CheckReport } from "./check";
import { DiffReport } from "./diff";
import { QuantizeReport } from "./quantize";

const answer = JSON.parse(document.getElementById("data")!.textContent!) as Answer;

function Report() {
  switch (answer.schema) {
    case "gguf.check/1":
      return <CheckReport answer={answer} />;
    case "gguf.diff/1":
      return <DiffReport answer={answer} />;
    case "gguf.quantize/1":
      return <QuantizeReport answer={answer} />;
  }
}

render(<Report />, document.getElementById("app")!);
