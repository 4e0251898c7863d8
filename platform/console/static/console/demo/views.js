"use strict";

const element = (id) => document.getElementById(id);

/** Makes an element. What models and users wrote comes in as text, never as HTML. */
function make(tag, { text, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

/** Collects what comes within a frame of the screen, so that a fast stream costs one change of the page in each. */
function framed(show) {
  let waiting = [];
  return (item) => {
    if (waiting.push(item) > 1) return;
    const flush = () => {
      const items = waiting;
      waiting = [];
      show(items);
    };
    if (document.hidden) setTimeout(flush); // a hidden page has no frames
    else requestAnimationFrame(flush);
  };
}

/** Shows what is wrong, and what to do about it. */
function showProblem(place, error) {
  const told = error instanceof Refused ? error : new Refused("api_error", String(error));
  place.replaceChildren(make("strong", { text: told.message }), make("span", { text: told.advice }));
  if (told.requestId) place.append(make("code", { text: told.requestId }));
  place.hidden = false;
}

/** The conversation, which follows its end unless the reader has scrolled away from that. */
class Conversation {
  #scroll = element("scroll");
  #turns = element("turns");

  ask(text) {
    this.#turns.append(make("article", { className: "turn user" }, make("p", { className: "text", text })));
    this.toEnd();
  }

  answer() {
    return new Answer(this, this.#turns);
  }

  clear() {
    this.#turns.replaceChildren();
  }

  /** Changes something, and stays at the end if that is where the reader was. */
  change(make) {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroll;
    const atEnd = scrollHeight - scrollTop - clientHeight < 48;
    make();
    if (atEnd) this.toEnd();
  }

  toEnd() {
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
}

/** One answer. `text` is all that has come of it. */
class Answer {
  text = "";
  #conversation;
  #text = make("p", { className: "text" });
  #note = make("p", { className: "note" });
  #problem = make("div", { className: "problem", hidden: true });
  #article = make("article", { className: "turn assistant running" }, this.#text, this.#problem, this.#note);
  #drawn = 0;
  #show = framed(() => {
    this.#conversation.change(() => this.#text.append(this.text.slice(this.#drawn)));
    this.#drawn = this.text.length;
  });

  constructor(conversation, turns) {
    this.#conversation = conversation;
    this.#article.setAttribute("aria-busy", "true");
    turns.append(this.#article);
    conversation.toEnd();
  }

  set message(id) {
    this.#article.dataset.message = id;
  }

  append(text) {
    this.text += text;
    this.#show();
  }

  /** Forgets what came: the stream begins again. */
  restart() {
    this.text = "";
    this.#drawn = 0;
    this.#text.replaceChildren();
  }

  end(note, error) {
    this.#conversation.change(() => {
      this.#article.classList.remove("running");
      this.#article.setAttribute("aria-busy", "false");
      this.#note.textContent = note;
      if (error) {
        this.#problem.setAttribute("role", "alert");
        showProblem(this.#problem, error);
      }
    });
  }
}

/** The log of events: the newest ones, for a long answer has thousands. What they carry is shown without `type`. */
class EventLog {
  static MOST = 500;
  #list = element("event-list");
  #count = 0;
  #began = 0;
  #show = framed((rows) => {
    const atEnd = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 48;
    this.#list.append(...rows.slice(-EventLog.MOST));
    while (this.#list.childElementCount > EventLog.MOST) this.#list.firstElementChild.remove();
    if (atEnd) this.#list.scrollTop = this.#list.scrollHeight;
    element("event-count").textContent = String(this.#count);
  });

  begin() {
    this.#began = performance.now();
    this.#count = 0;
    this.#list.replaceChildren();
    element("no-events").hidden = true;
    element("event-count").textContent = "0";
  }

  add({ id, type, data }) {
    this.#count += 1;
    const { type: _, ...carried } = data;
    this.#row(type, id === null ? "" : String(id), Object.keys(carried).length ? JSON.stringify(carried) : "");
  }

  /** Notes what happened to the connection. */
  note(text) {
    this.#row("connection", "", text);
  }

  #row(type, id, text) {
    const seconds = ((performance.now() - this.#began) / 1000).toFixed(2);
    const row = make(
      "li",
      {},
      make("span", { className: "id", text: id }),
      make("span", { className: "type", text: type }),
      make("time", { text: `${seconds} s` }),
      make("code", { text }),
    );
    row.dataset.type = type;
    this.#show(row);
  }
}

/** TTFT, pace, tokens and resumes of the answer that runs or ran last. */
class Figures {
  #began = 0;
  #first = 0;
  #newest = 0;
  #releases = 0;
  #resumed = 0;
  #show = framed(() => this.#draw());
  #tokens = 0;

  begin() {
    this.#began = performance.now();
    this.restart();
    this.#first = 0;
    this.#resumed = 0;
    this.#draw();
  }

  /** Counts anew: the stream begins again. */
  restart() {
    this.#releases = this.#tokens = this.#newest = 0;
  }

  release() {
    this.#newest = performance.now();
    this.#first ||= this.#newest;
    this.#releases += 1;
    this.#show();
  }

  /** Takes the count that is billed, in place of the one of deltas. */
  count(tokens) {
    this.#tokens = tokens;
    this.#show();
  }

  resume() {
    this.#resumed += 1;
    this.#show();
  }

  /** Says all of it in a line. */
  get line() {
    const { ttft, rate, tokens, resumed } = this.#said();
    const parts = [ttft && `first token after ${ttft}`, rate && `${rate} tokens/s`, tokens && `${tokens} tokens`];
    if (this.#resumed) parts.push(`resumed ${this.#resumed === 1 ? "once" : `${resumed} times`}`);
    return parts.filter(Boolean).join(" · ");
  }

  #said() {
    const tokens = this.#tokens || this.#releases;
    const seconds = (this.#newest - this.#first) / 1000;
    return {
      ttft: this.#first ? `${Math.round(this.#first - this.#began)} ms` : "",
      rate: tokens > 1 && seconds > 0 ? ((tokens - 1) / seconds).toFixed(1) : "",
      tokens: tokens ? String(tokens) : "",
      resumed: String(this.#resumed),
    };
  }

  #draw() {
    for (const [name, value] of Object.entries(this.#said())) element(name).textContent = value || "–";
  }
}
