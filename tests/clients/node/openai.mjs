// openai: a stream with usage, the stream helper, one JSON, typed errors.
import OpenAI from "openai";

const { SLUICE_URL, SLUICE_KEY: apiKey, SAY } = process.env;
const baseURL = `${SLUICE_URL}/v1`;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const body = { model: "default", max_tokens: 100, messages: [{ role: "user", content: SAY }] };

async function refusal(make) {
  try {
    await make();
  } catch (error) {
    return [error.constructor.name, error.status, error.type];
  }
}

let text = "";
let finishReason = null;
const usages = [];
for await (const chunk of await client.chat.completions.create({
  ...body,
  stream: true,
  stream_options: { include_usage: true },
})) {
  text += chunk.choices[0]?.delta.content ?? "";
  finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
  if (chunk.usage) usages.push(chunk.usage);
}

const stranger = new OpenAI({ baseURL, apiKey: "sk-sluice-nobody", maxRetries: 0 });
const models = [];
for await (const model of client.models.list()) models.push(model.id);
console.log(
  JSON.stringify({
    text,
    finishReason,
    models,
    usage: usages[0],
    usages: usages.length,
    finalText: await client.chat.completions.stream(body).finalContent(),
    created: (await client.chat.completions.create(body)).choices[0].message.content,
    errors: [
      await refusal(() => client.chat.completions.create({ ...body, temperature: 9, stream: true })),
      await refusal(() => stranger.chat.completions.create(body)),
      await refusal(() => client.chat.completions.create({ ...body, model: "no-such-model" })),
    ],
  }),
);
