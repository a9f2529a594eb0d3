// Judges the folder as a phone sees it, with Lighthouse: `npm run lighthouse`, after `npm run build`. Lighthouse is large, so it is no dependency: npm
// fetches it for this. Its figures depend on what else the machine does.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromiumPath, folder, temporary } from "./test/browser.mjs";
import { serve } from "./test/server.mjs";

/** Least scores, and most milliseconds. */
const LEAST = { performance: 95, accessibility: 100 };
const MOST = { "first-contentful-paint": 1200 };

// Compressed, as web servers send pages.
const server = await serve({ "/x/y/": folder }, {}, true);
const out = join(temporary, "lighthouse.json");
const flags = ["--quiet", "--chrome-flags=--headless=new --no-sandbox", "--output=json", `--output-path=${out}`, `--only-categories=${Object.keys(LEAST)}`];
const args = ["exec", "--yes", "--ignore-scripts", "--package=lighthouse@12.8.2", "--", "lighthouse", `${server.origin}/x/y/`, ...flags];
const run = spawn("npm", args, { env: { ...process.env, CHROME_PATH: chromiumPath() }, stdio: "inherit" });
await new Promise((end) => run.on("exit", end));
await server.close();

const { categories, audits } = JSON.parse(readFileSync(out));
const figures = [
  ...Object.entries(LEAST).map(([name, least]) => [name, Math.round(categories[name].score * 100), (n) => n >= least, `at least ${least}`]),
  ...Object.entries(MOST).map(([name, most]) => [name, Math.round(audits[name].numericValue), (n) => n <= most, `at most ${most} ms`]),
];
for (const [name, figure, , bound] of figures) console.log(`${name}: ${figure}, ${bound}`);
if (figures.some(([, figure, holds]) => !holds(figure))) process.exit(1);
