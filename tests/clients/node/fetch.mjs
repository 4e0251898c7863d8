// Node's fetch with eventsource-parser: a detached stream, cut after 20 events and resumed by Last-Event-ID.
import { EventSourceParserStream } from "eventsource-parser/stream";

const { SLUICE_URL, SLUICE_KEY } = process.env;
const headers = { "x-api-key": SLUICE_KEY, "content-type": "application/json" };
const status = [];
const events = [];
let retry;

async function call(path, init = {}) {
  const response = await fetch(SLUICE_URL + path, { ...init, headers: { ...headers, ...init.headers } });
  status.push(response.status);
  return response;
}

async function read(path, most = Infinity) {
  const last = events.at(-1);
  const response = await call(path, { headers: last ? { "last-event-id": last.id } : {} });
  const parser = new EventSourceParserStream({ onError: "terminate", onRetry: (value) => (retry = value) });
  for await (const event of response.body.pipeThrough(new TextDecoderStream()).pipeThrough(parser)) {
    if (event.event !== "ping") events.push(event);
    if (events.length >= most) break;
  }
}

const body = { model: "default", max_tokens: 100, messages: [{ role: "user", content: "Tell me." }] };
const stream = await (await call("/v1/streams", { method: "POST", body: JSON.stringify(body) })).json();
const path = `/v1/streams/${stream.id}`;
await read(path, 20);
await read(path);
await call(path, { headers: { "last-event-id": events.at(-1).id } });
const message = await (await fetch(SLUICE_URL + stream.message_url, { headers })).json();

console.log(
  JSON.stringify({
    status,
    retry,
    ids: events.map((event) => event.id),
    last: events.at(-1).event,
    text: events.map((event) => JSON.parse(event.data).delta?.text ?? "").join(""),
    message: message.content[0].text,
  }),
);
