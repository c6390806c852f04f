// Loads a student from the folder that `albert-plus export --to web` wrote, and classifies while one types.

const MODEL = new URLSearchParams(location.search).get("model") ?? "student";
const [text, scores, status] = ["text", "scores", "status"].map((id) => document.getElementById(id));

// All that is fetched from here on goes through the worker, which keeps it.
async function keepForOffline() {
  if (!("serviceWorker" in navigator)) return;
  const controlled = new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve));
  await navigator.serviceWorker.register("service-worker.js");
  if (!navigator.serviceWorker.controller) await controlled;
}

async function load() {
  const { env, pipeline } = await import("@huggingface/transformers");
  env.allowLocalModels = true;
  env.allowRemoteModels = false;
  env.localModelPath = new URL("models/", location.href).pathname;
  env.useBrowserCache = env.useWasmCache = false; // the worker's cache is enough
  env.backends.onnx.wasm.wasmPaths = new URL("node_modules/onnxruntime-web/dist/", location.href).href;
  return pipeline("text-classification", MODEL);
}

function show(answers, milliseconds) {
  const rows = answers.map(({ label, score }) => {
    const row = document.createElement("tr");
    const meter = Object.assign(document.createElement("meter"), { value: score });
    for (const content of [label, score.toFixed(3), meter]) row.insertCell().append(content);
    return row;
  });
  scores.replaceChildren(...rows);
  status.textContent = `${milliseconds.toFixed(1)} ms`;
}

// One text at a time: while one is classified, only the latest of those that follow it waits.
let waiting = false;
let running = false;
async function classify(classifier) {
  waiting = true;
  if (running) return;
  running = true;
  try {
    while (waiting) {
      waiting = false;
      if (!text.value.trim()) {
        scores.replaceChildren();
        status.textContent = "ready";
        continue;
      }
      const begin = performance.now();
      const answers = await classifier(text.value, { top_k: null });
      show(answers, performance.now() - begin);
    }
  } finally {
    running = false;
  }
}

try {
  await keepForOffline();
  const begin = performance.now();
  const classifier = await load();
  text.addEventListener("input", () => classify(classifier));
  text.disabled = false;
  text.focus();
  status.textContent = `ready, loaded in ${(performance.now() - begin).toFixed(0)} ms`;
} catch (error) {
  status.textContent = `models/${MODEL} does not open: ${error.message}`;
}
