// What transformers.js answers, in Node and in a page: texts in, JSON out.

const BATCH = 8;

// job: {model, dtype, texts} with {task, options} of a pipeline; with {auto, outputs} of a model class and the names of the outputs that are given,
// and {pairs} where there are; or with {ids}, for those of the tokenizer.
export async function answers(transformers, job) {
  const options = job.dtype ? { dtype: job.dtype } : {};
  const run = await (job.task ? ofPipeline : job.ids ? ofTokenizer : ofModel)(transformers, job, options);
  const found = [];
  for (let at = 0; at < job.texts.length; at += BATCH) found.push(...(await run(at, at + BATCH)));
  return found;
}

async function ofPipeline({ pipeline }, job, options) {
  const run = await pipeline(job.task, job.model, options);
  return async (from, to) => {
    const answer = await run(job.texts.slice(from, to), job.options);
    return answer.tolist ? answer.tolist() : answer;
  };
}

async function ofModel(transformers, job, options) {
  const tokenizer = await transformers.AutoTokenizer.from_pretrained(job.model);
  const model = await transformers[job.auto].from_pretrained(job.model, options);
  return async (from, to) => {
    const texts = job.texts.slice(from, to);
    const outputs = await model(tokenizer(texts, { text_pair: job.pairs?.slice(from, to), padding: true, truncation: true }));
    return texts.map((_, row) => Object.fromEntries(job.outputs.map((name) => [name, outputs[name][row].tolist()])));
  };
}

async function ofTokenizer(transformers, job) {
  const tokenizer = await transformers.AutoTokenizer.from_pretrained(job.model);
  return (from, to) => job.texts.slice(from, to).map((text) => tokenizer.encode(text));
}
