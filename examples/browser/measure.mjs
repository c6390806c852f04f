// What visitors wait for: the download, the first answer in a browser that has nothing kept, and the time of one text, in turns over models.
//
//   node measure.mjs [--chromium /usr/bin/chromium] [--rounds 5] [--json browser.json] work/student-web/web other/web < texts.txt
//
// A model is a folder that `albert-plus export --to web` wrote, and a line a text. Pages, models and runtime come from this machine, so the time
// to the first answer has no network in it. Prints JSON, and writes it where --json says: for each model bytes, milliseconds of each round, and how
// many times as fast as the last one it is, with what they were measured on.

import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { basename, dirname, resolve } from "node:path";
import { parseArgs } from "node:util";
import { inChromium } from "./chromium.mjs";
import { servePage } from "./page-server.mjs";

const USAGE = "usage: node measure.mjs [--chromium PATH] [--rounds N] [--json FILE] WEB_FOLDER… < texts.txt";
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    chromium: { type: "string", default: "/usr/bin/chromium" },
    rounds: { type: "string", default: "5" },
    json: { type: "string" },
  },
});
const texts = readFileSync(0, "utf8").split("\n").filter(Boolean);
const rounds = Number(values.rounds);
if (!positionals.length || !texts.length || !(Number.isInteger(rounds) && rounds > 0)) {
  console.error(`${USAGE}\nThere must be a model, a text, and a whole number of rounds above 0.`);
  process.exit(2);
}
const models = positionals.map((folder, number) => ({ folder, id: `model${number}` }));
const mounts = Object.fromEntries(models.map(({ folder, id }) => [`/models/${id}/`, resolve(folder)]));

const median = (numbers) => {
  const sorted = numbers.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// A first visit: from the address to the first answer on the page.
async function visit(id) {
  const server = await servePage(mounts);
  try {
    const firstMs = await inChromium(values.chromium, async (browser) => {
      const page = await browser.newPage();
      const begin = performance.now();
      await page.goto(`${server.origin}/?model=${id}`);
      const ready = () => /^ready|does not open/.test(document.getElementById("status").textContent);
      await page.waitForFunction(ready, null, { timeout: 120000, polling: 5 });
      const status = await page.locator("#status").innerText();
      if (!status.startsWith("ready")) throw new Error(status);
      await page.locator("#text").fill(texts[0]);
      await page.waitForFunction(() => document.querySelector("td"), null, { polling: 5 });
      return performance.now() - begin;
    });
    const bytes = (chosen) => server.requests.filter(({ path }) => path.startsWith("/models/") === chosen).reduce((sum, each) => sum + each.bytes, 0);
    return { firstMs, modelBytes: bytes(true), otherBytes: bytes(false) };
  } finally {
    await server.close();
  }
}

// All models in one page, one text at a time, in turns: [round][model][text] in milliseconds.
async function inTurns() {
  const server = await servePage(mounts);
  try {
    return await inChromium(values.chromium, async (browser) => {
      const page = await browser.newPage();
      await page.goto(`${server.origin}/?model=${models[0].id}`);
      return page.evaluate(
        async ({ ids, texts, rounds }) => {
          const { env, pipeline } = await import("@huggingface/transformers");
          env.allowLocalModels = true;
          env.allowRemoteModels = false;
          env.localModelPath = "/models/";
          env.useBrowserCache = env.useWasmCache = false;
          env.backends.onnx.wasm.wasmPaths = new URL("/node_modules/onnxruntime-web/dist/", location.href).href;
          const classifiers = [];
          for (const id of ids) classifiers.push(await pipeline("text-classification", id));
          for (const classify of classifiers) for (const text of texts.slice(0, 20)) await classify(text, { top_k: null });
          const taken = [];
          for (let round = 0; round < rounds; round += 1) {
            const ofRound = classifiers.map(() => []);
            for (const text of texts) {
              for (const [number, classify] of classifiers.entries()) {
                const begin = performance.now();
                await classify(text, { top_k: null });
                ofRound[number].push(performance.now() - begin);
              }
            }
            taken.push(ofRound);
          }
          return taken;
        },
        { ids: models.map(({ id }) => id), texts, rounds },
      );
    });
  } finally {
    await server.close();
  }
}

const load = loadavg()[0];
const visits = [];
for (const { id } of models) visits.push(await visit(id));
const taken = await inTurns();
const medians = models.map((_, number) => taken.map((ofRound) => median(ofRound[number])));
const last = medians.at(-1);
const rows = models.map(({ folder }, number) => ({
  model: basename(resolve(folder)) === "web" ? basename(dirname(resolve(folder))) : basename(resolve(folder)),
  model_bytes: visits[number].modelBytes,
  page_and_runtime_bytes: visits[number].otherBytes,
  first_answer_ms: Math.round(visits[number].firstMs),
  p50_ms: Number(median(medians[number]).toFixed(2)),
  p50_ms_of_rounds: medians[number].map((ms) => Number(ms.toFixed(2))),
  times_as_fast_as_the_last: Number(median(medians[number].map((ms, round) => last[round] / ms)).toFixed(2)),
}));
const packages = JSON.parse(readFileSync(new URL("package-lock.json", import.meta.url), "utf8")).packages;
const measuredOn = {
  processor: cpus()[0].model,
  cores: availableParallelism(),
  load_before: Number(load.toFixed(1)),
  chromium: await inChromium(values.chromium, async (browser) => browser.browser()?.version() ?? null),
  onnxruntime_web: packages["node_modules/onnxruntime-web"].version,
  date: new Date().toISOString().slice(0, 10),
};
const found = JSON.stringify({ texts: texts.length, rounds, measured_on: measuredOn, rows }, null, 2);
console.log(found);
if (values.json) writeFileSync(values.json, `${found}\n`);
