"use strict";

/** What to do about an error, by its type. `unreachable` and `lost` are this page's own. */
const ADVICE = {
  authentication_error: "Check the key, or make one: manage.py createkey NAME.",
  permission_error: "Ask an operator for a key that may do this: it needs the scope inference.",
  not_found_error: "Choose another model, or send the message again.",
  invalid_request_error: "Change what it names. A conversation that became too long begins anew with New chat.",
  request_too_large: "Shorten the message, or begin a new chat.",
  rate_limit_error: "A limit of this key or its organisation is used up. Wait, then send again.",
  overloaded_error: "The queue is full. Send again in a moment.",
  timeout_error: "It took too long. Send again, or allow fewer tokens.",
  api_error: "Send again in a moment. If that does not help, give an operator the request id.",
  unreachable: "Check the network, and that the server runs. Then send again: your text is kept.",
  lost: "Send the message again.",
};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Something that the server refused, or that did not reach it. */
class Refused extends Error {
  constructor(kind, message, { status = 0, requestId = "", waitS = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, status, requestId, waitS });
  }

  /** Says what to do. */
  get advice() {
    const wait = this.waitS ? ` There is room again in ${this.waitS} s.` : "";
    return (ADVICE[this.kind] ?? ADVICE.api_error) + wait;
  }
}

/** The API, as the holder of one key sees it. The key is in no address, no cookie and no log. */
class Api {
  static TRIES = 6;
  #key;

  constructor(key) {
    if (!/^[\x21-\x7e]+$/.test(key)) throw new Refused("authentication_error", "A key has no spaces or accents in it.");
    this.#key = key;
  }

  /** Returns the names of the models that this key may use. */
  async models() {
    const { body } = await this.#call("GET", "/v1/models?limit=1000");
    return body.data.map((model) => model.id);
  }

  /** Begins an answer. Asking again after a lost reply joins what was begun: it carries the same idempotency key. */
  async create(asked) {
    const words = crypto.getRandomValues(new Uint32Array(4));
    const headers = { "idempotency-key": `demo-${[...words].map((word) => word.toString(36)).join("")}` };
    for (let tried = 1; ; tried++) {
      try {
        return (await this.#call("POST", "/v1/streams", { headers, body: JSON.stringify(asked) })).body;
      } catch (error) {
        const passing = error.kind === "unreachable" || error.status === 503;
        if (!passing || tried === Api.TRIES) throw error;
        await pause(250 * 2 ** tried);
      }
    }
  }

  /** Asks for the end of an answer. */
  async cancel(id) {
    await this.#call("DELETE", `/v1/streams/${encodeURIComponent(id)}`);
  }

  /** Throws where a stream cannot be read any more, or where the server cannot be reached. */
  async look(url) {
    try {
      await this.#call("GET", url);
    } catch (error) {
      if ([0, 401, 403, 404, 410, 503].includes(error.status)) throw error;
      // The message ended with an error, and the stream tells of that.
    }
  }

  async #call(method, path, { headers = {}, body } = {}) {
    const json = body === undefined ? {} : { "content-type": "application/json" };
    const sent = { "x-api-key": this.#key, ...json, ...headers };
    let answer, text;
    try {
      answer = await fetch(path, { method, headers: sent, body, credentials: "omit", cache: "no-store" });
      text = await answer.text();
    } catch {
      throw new Refused("unreachable", "The server cannot be reached.");
    }
    const found = parsed(text);
    if (answer.ok) return { status: answer.status, body: found };
    throw new Refused(found?.error?.type ?? "api_error", found?.error?.message ?? `The server answered ${answer.status}.`, {
      status: answer.status,
      requestId: answer.headers.get("request-id") ?? "",
      waitS: Number(answer.headers.get("retry-after")) || 0,
    });
  }
}

/** Returns what JSON says, or nothing where it is none: a proxy may answer with a page. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
