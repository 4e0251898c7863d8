// @anthropic-ai/sdk: the stream helper with its accumulator, typed errors; `abort` leaves a stream early.
import Anthropic from "@anthropic-ai/sdk";

const { SLUICE_URL: baseURL, SLUICE_KEY: apiKey, SAY } = process.env;
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const body = { model: "default", max_tokens: 100, messages: [{ role: "user", content: SAY }] };

async function refusal(make) {
  try {
    await make();
  } catch (error) {
    return [error.constructor.name, error.status, error.error?.error?.type];
  }
}

async function whole() {
  const kinds = [];
  let heard = "";
  const stream = client.messages
    .stream(body)
    .on("streamEvent", (event) => kinds.push(event.type))
    .on("text", (delta) => (heard += delta));
  const message = await stream.finalMessage();
  const stranger = new Anthropic({ baseURL, apiKey: "sk-sluice-nobody", maxRetries: 0 });
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  return {
    kinds,
    heard,
    models,
    text: message.content[0].text,
    finalText: await stream.finalText(),
    stopReason: message.stop_reason,
    usage: message.usage,
    requestId: stream.request_id,
    counted: (await client.messages.countTokens({ model: body.model, messages: body.messages })).input_tokens,
    errors: [
      await refusal(() => client.messages.stream({ ...body, max_tokens: 0 }).finalMessage()),
      await refusal(() => stranger.messages.create({ ...body, stream: true })),
      await refusal(() => client.messages.create({ ...body, model: "no-such-model" })),
    ],
  };
}

async function abort() {
  const stream = client.messages.stream({ ...body, max_tokens: 4000, messages: [{ role: "user", content: "Talk." }] });
  stream.on("text", () => stream.abort());
  try {
    await stream.finalMessage();
  } catch (error) {
    return { aborted: stream.aborted, error: error.constructor.name };
  }
}

console.log(JSON.stringify(await (process.argv[2] === "abort" ? abort() : whole())));
