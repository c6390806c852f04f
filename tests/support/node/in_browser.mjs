// Runs jobs in a headless Chromium on the page of examples/browser, then uses the page as a visitor does, with its server and without.
//
// Standard input: {chromium, folders: {name: folder}, jobs, visit: {model, text}}. Standard output: {answers, online, offline, requests}, where
// online and offline are what the page shows, and requests what the server was asked for.

import { createReadStream } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const PAGE = fileURLToPath(new URL("../../../examples/browser", import.meta.url));
const HERE = fileURLToPath(new URL(".", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

const { chromium } = createRequire(join(PAGE, "package.json"))("playwright-core");
const given = JSON.parse(await text(process.stdin));
const requests = [];

function place(path) {
  const [, first, second, ...rest] = path.split("/");
  if (first === "models" && given.folders[second]) return join(given.folders[second], ...rest);
  return first === "tests" ? join(HERE, second) : join(PAGE, path.endsWith("/") ? `${path}index.html` : path);
}

async function serve(request, response) {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://page").pathname));
  const file = place(path);
  const facts = await stat(file).catch(() => null);
  requests.push({ path, bytes: facts?.size ?? 0 });
  if (!facts?.isFile()) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-length": facts.size });
  createReadStream(file).pipe(response);
}

async function visit(page, { model, text }) {
  await page.goto(`${origin}/?model=${model}`);
  await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("ready"), null, { timeout: 60000 });
  await page.locator("#text").pressSequentially(text);
  await page.waitForFunction(() => / ms$/.test(document.getElementById("status").textContent) && document.querySelector("td"));
  await page.waitForTimeout(500);
  const rows = await page.locator("#scores tr").allInnerTexts();
  return { rows: rows.map((row) => row.trim().split(/\s+/)), status: await page.locator("#status").innerText() };
}

const server = createServer(serve);
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${server.address().port}`;
const profile = await mkdtemp(join(tmpdir(), "chromium-"));
const browser = await chromium.launchPersistentContext(profile, { executablePath: given.chromium, args: FLAGS });
try {
  const page = await browser.newPage();
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  const online = await visit(page, given.visit);
  const answers = [];
  for (const job of given.jobs) {
    answers.push(
      await page.evaluate(async (job) => (await import("/tests/answers.mjs")).answers(await import("@huggingface/transformers"), job), job),
    );
  }
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  const offline = await visit(page, given.visit);
  console.log(JSON.stringify({ answers, online, offline, requests }));
} finally {
  await browser.close();
  await rm(profile, { recursive: true, force: true });
  server.close();
}
