// Classifies texts with onnxruntime and a tokenizer, without transformers.js: what any language with an onnxruntime can do.
//
//   node plain-onnxruntime.mjs work/student < texts.txt
//   node plain-onnxruntime.mjs work/student/web model_int8.onnx < texts.txt
//
// The folder is any export: the directory itself, or the one for transformers.js in it. The graph is one of its onnx/, the int8 one unless it is named.
// A line is a text, or two with a tab between them. Prints an object of labels and scores for each line.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { InferenceSession, Tensor } from "onnxruntime-node";

const [folder, named] = process.argv.slice(2);
const graph = named ?? ["model_int8.onnx", "model.onnx"].find((file) => existsSync(join(folder, "onnx", file)));
const json = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
const config = json("config.json");
const settings = json("tokenizer_config.json");
const tokenizer = new Tokenizer(json("tokenizer.json"), settings);
const session = await InferenceSession.create(join(folder, "onnx", graph));

// The inputs of a graph are int64 [batch, sequence]; one text at a time needs no padding.
function inputsOf(line) {
  const [text, text_pair] = line.split("\t");
  const { ids, attention_mask, token_type_ids } = tokenizer.encode(text, { text_pair, return_token_type_ids: true });
  if (ids.length > settings.model_max_length) throw new Error(`${ids.length} tokens, ${settings.model_max_length} at most: ${line}`);
  const named = { input_ids: ids, attention_mask, token_type_ids: token_type_ids ?? ids.map(() => 0) };
  const tensor = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  return Object.fromEntries(session.inputNames.map((name) => [name, tensor(named[name])]));
}

// Each label's own probability where there may be several, else those of labels that exclude each other; the number of a regression as it is.
const kind = config.problem_type ?? (Object.keys(config.id2label).length === 1 ? "regression" : "single_label_classification");
function scoresOf(logits) {
  if (kind === "regression") return logits;
  if (kind === "multi_label_classification") return logits.map((logit) => 1 / (1 + Math.exp(-logit)));
  const largest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - largest));
  const sum = powers.reduce((one, other) => one + other);
  return powers.map((power) => power / sum);
}

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { logits } = await session.run(inputsOf(line));
  const scores = scoresOf([...logits.data]).map((score, number) => [config.id2label[number], score]);
  console.log(JSON.stringify(Object.fromEntries(scores)));
}
