// Reads a list of jobs on standard input and prints the list of their answers.

import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { answers } from "./answers.mjs";

const require = createRequire(new URL("../../../examples/browser/", import.meta.url));
const transformers = require("@huggingface/transformers");
transformers.env.allowRemoteModels = false;

const found = [];
for (const job of JSON.parse(await text(process.stdin))) found.push(await answers(transformers, job));
console.log(JSON.stringify(found));
