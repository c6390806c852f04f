// Runs jobs in a headless Chromium on the page of examples/browser, then uses the page as a visitor does: on a disk without room, with its server
// and without.
//
// Standard input: {chromium, folders: {name: folder}, jobs, visit: {model, text}}. Standard output: {answers, crowded, online, offline, requests},
// where crowded, online and offline are what the page shows, and requests what the server was asked for while there was room. Where this machine
// has no room itself, offline is null.

import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { inChromium } from "../../../examples/browser/chromium.mjs";
import { servePage } from "../../../examples/browser/page-server.mjs";

const given = JSON.parse(await text(process.stdin));
const mounts = Object.fromEntries(Object.entries(given.folders).map(([name, folder]) => [`/models/${name}/`, folder]));
const { origin, requests, close } = await servePage({ ...mounts, "/tests/": fileURLToPath(new URL(".", import.meta.url)) });
const ROOM_OF_A_VISIT = 50e6;

async function visit(page, origin, { model, text }) {
  await page.goto(`${origin}/?model=${model}`);
  await page.waitForFunction(() => /^ready|does not open/.test(document.getElementById("status").textContent));
  const opened = await page.locator("#status").innerText();
  if (!opened.startsWith("ready")) throw new Error(opened);
  await page.locator("#text").pressSequentially(text);
  await page.waitForFunction(() => / ms$/.test(document.getElementById("status").textContent) && document.querySelector("td"));
  await page.waitForTimeout(500);
  const rows = await page.locator("#scores tr").allInnerTexts();
  return { rows: rows.map((row) => row.trim().split(/\s+/)), status: await page.locator("#status").innerText() };
}

async function newPage(browser) {
  const page = await browser.newPage();
  page.setDefaultTimeout(120000);
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  return page;
}

// The page fits, the runtime does not.
async function visitWithoutRoom(browser) {
  const crowded = await servePage(mounts);
  try {
    const page = await newPage(browser);
    const session = await browser.newCDPSession(page);
    await session.send("Storage.overrideQuotaForOrigin", { origin: crowded.origin, quotaSize: 5e6 });
    return await visit(page, crowded.origin, given.visit);
  } finally {
    await crowded.close();
  }
}

await inChromium(given.chromium, async (browser) => {
  const crowded = await visitWithoutRoom(browser);
  const page = await newPage(browser);
  const online = await visit(page, origin, given.visit);
  const answers = [];
  for (const job of given.jobs) {
    answers.push(
      await page.evaluate(async (job) => (await import("/tests/answers.mjs")).answers(await import("@huggingface/transformers"), job), job),
    );
  }
  const { quota } = await page.evaluate(() => navigator.storage.estimate());
  await close();
  const offline = quota > ROOM_OF_A_VISIT ? await visit(page, origin, given.visit) : null;
  console.log(JSON.stringify({ answers, crowded, online, offline, requests }));
});
