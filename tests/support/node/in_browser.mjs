// Runs jobs in a headless Chromium on the page of examples/browser, then uses the page as a visitor does, with its server and without.
//
// Standard input: {chromium, folders: {name: folder}, jobs, visit: {model, text}}. Standard output: {answers, online, offline, requests}, where
// online and offline are what the page shows, and requests what the server was asked for.

import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { inChromium } from "../../../examples/browser/chromium.mjs";
import { servePage } from "../../../examples/browser/page-server.mjs";

const given = JSON.parse(await text(process.stdin));
const mounts = Object.entries(given.folders).map(([name, folder]) => [`/models/${name}/`, folder]);
const { origin, requests, close } = await servePage({
  ...Object.fromEntries(mounts),
  "/tests/": fileURLToPath(new URL(".", import.meta.url)),
});

async function visit(page, { model, text }) {
  await page.goto(`${origin}/?model=${model}`);
  await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("ready"));
  await page.locator("#text").pressSequentially(text);
  await page.waitForFunction(() => / ms$/.test(document.getElementById("status").textContent) && document.querySelector("td"));
  await page.waitForTimeout(500);
  const rows = await page.locator("#scores tr").allInnerTexts();
  return { rows: rows.map((row) => row.trim().split(/\s+/)), status: await page.locator("#status").innerText() };
}

await inChromium(given.chromium, async (browser) => {
  const page = await browser.newPage();
  page.setDefaultTimeout(120000);
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  const online = await visit(page, given.visit);
  const answers = [];
  for (const job of given.jobs) {
    answers.push(
      await page.evaluate(async (job) => (await import("/tests/answers.mjs")).answers(await import("@huggingface/transformers"), job), job),
    );
  }
  await close();
  const offline = await visit(page, given.visit);
  console.log(JSON.stringify({ answers, online, offline, requests }));
});
