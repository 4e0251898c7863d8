// The `ai` package with @ai-sdk/anthropic: streamText, generateText, and what a refusal looks like.
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, streamText } from "ai";

const { SLUICE_URL, SLUICE_KEY: apiKey, SAY } = process.env;
const anthropic = createAnthropic({ baseURL: `${SLUICE_URL}/v1`, apiKey });
const asked = { model: anthropic("default"), prompt: SAY, maxOutputTokens: 100, maxRetries: 0 };

const errors = [];
const result = streamText({ ...asked, onError: ({ error }) => errors.push(String(error)) });
let streamed = "";
for await (const part of result.textStream) streamed += part;

let refused;
try {
  await generateText({ ...asked, model: anthropic("no-such-model") });
} catch (error) {
  refused = error.statusCode;
}

console.log(
  JSON.stringify({
    streamed,
    errors,
    refused,
    finishReason: await result.finishReason,
    usage: await result.usage,
    generated: (await generateText(asked)).text,
  }),
);
