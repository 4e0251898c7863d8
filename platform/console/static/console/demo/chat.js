"use strict";

const SILENCE_MS = Number(document.body.dataset.silenceMs);
const KEPT = "sluice-demo-key";
const ENDS = {
  max_tokens: "Cut at its limit of tokens",
  cancelled: "Stopped",
  stop_sequence: "Ended at a stop sequence",
  tool_use: "Asks for a tool, and this page has none",
};
const STATES = {
  idle: "Ready",
  asking: "Asking",
  queued: "Waiting for the first token",
  streaming: "Streaming",
  stopping: "Stopping",
  lost: "Connection lost: coming back",
  done: "Complete",
  failed: "Failed",
};

/** Sends messages, and shows what becomes of them. */
class Chat {
  #api = null;
  #history = [];
  #conversation = new Conversation();
  #log = new EventLog();
  #figures = new Figures();
  #running = null;

  /** Uses a key that works; throws `Refused` for one that does not. */
  async connect(key) {
    const api = new Api(key);
    const models = await api.models();
    if (!models.length) throw new Refused("api_error", "No model is served.");
    element("model").replaceChildren(...models.map((name) => make("option", { value: name, text: name })));
    this.#api = api;
  }

  get busy() {
    return this.#running !== null;
  }

  /** Forgets the conversation, and stops what runs of it. */
  clear() {
    void this.stop();
    this.#history = [];
    this.#conversation.clear();
  }

  /** Sends a message with more of its body, and shows the answer to the end; resolves to whether it was taken at all. */
  async send(text, more) {
    const history = this.#history;
    const turn = { stopped: false, stream: null, id: "", stopReason: "", details: null, error: null };
    this.#running = turn;
    this.#conversation.ask(text);
    const answer = this.#conversation.answer();
    this.#log.begin();
    this.#figures.begin();
    this.#state("asking");
    try {
      const messages = [...history, { role: "user", content: text }];
      const made = await this.#api.create({ ...more, messages });
      turn.id = answer.message = made.id;
      this.#state(turn.stopped ? "stopping" : "queued");
      if (turn.stopped) await this.#cancel(turn);
      await this.#read(turn, made, answer);
    } catch (error) {
      turn.error = error;
    }
    this.#running = null;
    if (answer.text) history.push({ role: "user", content: text }, { role: "assistant", content: answer.text });
    answer.end([this.#ending(turn), this.#figures.line].filter(Boolean).join(" · "), turn.error);
    this.#state(turn.error ? "failed" : "done", turn.stopReason === "cancelled" ? "Stopped" : undefined);
    return turn.id !== "";
  }

  /** Asks for the end of the answer that runs. What has come of it stays. */
  async stop() {
    const turn = this.#running;
    if (!turn || turn.stopped) return;
    turn.stopped = true;
    this.#state("stopping");
    if (turn.id) await this.#cancel(turn);
  }

  async #cancel(turn) {
    try {
      await this.#api.cancel(turn.id);
    } catch (error) {
      // Without a reader the server abandons it after a while.
      turn.stream?.leave(new Refused(error.kind, `It could not be stopped, and is read no more. ${error.message}`));
    }
  }

  async #read(turn, made, answer) {
    let isLost = false;
    turn.stream = new MessageStream(made.stream_url, {
      silenceMs: SILENCE_MS,
      on: {
        event: (event) => this.#take(event, turn, answer),
        look: () => this.#api.look(made.message_url),
        open: () => {
          if (isLost) {
            this.#figures.resume();
            this.#log.note(`resumed after event ${turn.stream.last}`);
            this.#state(turn.stopped ? "stopping" : answer.text ? "streaming" : "queued");
          }
          isLost = false;
        },
        lost: () => {
          if (!isLost) this.#log.note(`lost after event ${turn.stream.last}`);
          isLost = true;
          this.#state("lost");
        },
      },
    });
    await turn.stream.ended;
  }

  #take(event, turn, answer) {
    this.#log.add(event);
    const { type, id, data } = event;
    if (type === "message_start" && answer.text) {
      answer.restart();
      this.#figures.restart();
    } else if (type === "content_block_delta" && data.delta.type === "text_delta") {
      if (!answer.text && !turn.stopped) this.#state("streaming");
      answer.append(data.delta.text);
      this.#figures.release();
    } else if (type === "message_delta") {
      turn.stopReason = data.delta.stop_reason;
      turn.details = data.delta.stop_details;
      this.#figures.count(data.usage.output_tokens);
    } else if (type === "error" && id !== null) {
      turn.error = new Refused(data.error.type, data.error.message, { requestId: data.request_id });
    }
  }

  #ending({ stopReason, details }) {
    if (stopReason === "safety" || stopReason === "refusal") {
      return `Ended by the safety policy${details?.category ? `: ${details.category}` : ""}`;
    }
    return ENDS[stopReason] ?? "";
  }

  #state(name, text = STATES[name]) {
    element("state").dataset.state = name;
    element("state-text").textContent = text;
  }
}

const chat = new Chat();
const writing = element("prompt");

function fit() {
  writing.rows = 1;
  while (writing.scrollHeight > writing.clientHeight + 2 && writing.rows < 8) writing.rows += 1;
}

/** Shows the place for a key, or the chat. */
function show(isConnected) {
  element("connect").hidden = isConnected;
  for (const id of ["composer", "ideas", "change", "side"]) element(id).hidden = !isConnected;
  document.body.classList.toggle("connected", isConnected);
  element(isConnected ? "prompt" : "key").focus();
}

async function connect(key) {
  const problem = element("key-problem");
  problem.hidden = true;
  element("enter").disabled = true;
  try {
    await chat.connect(key);
    if (element("keep").checked) sessionStorage.setItem(KEPT, key);
    else sessionStorage.removeItem(KEPT);
    element("key").value = "";
    show(true);
  } catch (error) {
    showProblem(problem, error);
    element("key").focus();
  } finally {
    element("enter").disabled = false;
  }
}

async function send(text) {
  const [limit, temperature] = ["limit", "temperature"].map(element);
  if (chat.busy || !text.trim() || !limit.reportValidity() || !temperature.reportValidity()) return;
  const more = { model: element("model").value, max_tokens: limit.valueAsNumber, temperature: temperature.valueAsNumber };
  writing.value = "";
  fit();
  element("welcome").hidden = element("send").hidden = true;
  element("again").hidden = element("stop").hidden = false;
  const taken = await chat.send(text, more);
  if (!taken && !writing.value) writing.value = text;
  fit();
  const wasOnStop = document.activeElement === element("stop");
  element("stop").hidden = true;
  element("send").hidden = false;
  if (wasOnStop || document.activeElement === document.body) writing.focus();
}

element("connect").addEventListener("submit", (event) => {
  event.preventDefault();
  void connect(element("key").value.trim());
});
element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  void send(writing.value);
});
element("ideas").addEventListener("click", ({ target }) => {
  if (target instanceof HTMLButtonElement) void send(target.textContent);
});
writing.addEventListener("input", fit);
writing.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  void send(writing.value);
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing) void chat.stop();
});
element("stop").addEventListener("click", () => void chat.stop());
element("again").addEventListener("click", () => {
  chat.clear();
  element("again").hidden = true;
  element("welcome").hidden = false;
  writing.focus();
});
element("change").addEventListener("click", () => {
  sessionStorage.removeItem(KEPT);
  chat.clear();
  element("again").hidden = true;
  element("welcome").hidden = false;
  show(false);
});

if (matchMedia("(max-width: 60rem)").matches) element("events").open = false;
element("unscripted").hidden = true;
show(false);
const kept = sessionStorage.getItem(KEPT);
if (kept) {
  element("keep").checked = true;
  void connect(kept);
}
