import { render } from "preact";
import { App } from "./app";
import "./style.css";

render(<App />, document.getElementById("app")!);

// The folder works without a network after one visit.
if (import.meta.env.MODE === "folder" && "serviceWorker" in navigator) {
  navigator.serviceWorker.register("sw.js").catch(() => {
    // Without it, the page works as long as its server answers.
  });
}
