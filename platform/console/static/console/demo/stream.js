"use strict";

/**
 * One message's stream, read to its end over as many connections as that takes.
 *
 * A page learns no status from an EventSource: one that gave up looks the same after 204, 401, 404, 410 and 503, and
 * the name `error` is that of a lost connection as well as of an event. So `last` counts what was read, an event is
 * taken only if it follows, and before a new EventSource is made `look` finds out whether there is anything to read.
 */
class MessageStream {
  static KINDS = [
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "ping", "server_shutdown", "error",
  ];
  static FINAL = new Set([401, 403, 404, 410]);
  static FRUITLESS = 6; // so many connections in a row without an event, and it is given up

  last = 0;
  #url;
  #silenceMs;
  #on;
  #source = null;
  #watch = 0;
  #tries = 0;
  #over = false;
  #settle;

  /** `on` has: `event`, `open` and `lost`, to be told of those, and `look`, to ask the server. */
  constructor(url, { silenceMs, on }) {
    this.#url = url;
    this.#silenceMs = silenceMs;
    this.#on = on;
    this.ended = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.#open();
  }

  /** Stops reading. The message goes on without a reader for a while. */
  leave(reason) {
    this.#finish(() => this.#settle.reject(reason));
  }

  #open() {
    const source = new EventSource(this.last ? `${this.#url}&last_event_id=${this.last}` : this.#url);
    this.#source = source;
    source.addEventListener("open", () => this.#on.open());
    for (const kind of MessageStream.KINDS) {
      source.addEventListener(kind, (event) => {
        if (source !== this.#source) return;
        if (event instanceof MessageEvent) this.#hear(event);
        else this.#lose(source);
      });
    }
    this.#listen();
  }

  #hear(event) {
    this.#listen();
    const { type } = event;
    const id = Number(event.lastEventId); // of the last event that had one
    const follows = id === this.last + 1;
    const begins = type === "message_start" && id > 0; // again, where the server did not know our last id
    if (id > this.last + 1 && !begins) return this.#renew();
    const logged = begins || follows;
    if (logged) {
      this.last = id;
      this.#tries = 0;
    } else if (!["ping", "server_shutdown", "error"].includes(type)) {
      return; // we have it
    }
    const data = JSON.parse(event.data);
    this.#on.event({ type, id: logged ? id : null, data });
    if (logged && (type === "message_stop" || type === "error")) this.#finish(() => this.#settle.resolve());
    else if (type === "server_shutdown" || type === "error") this.#renew();
  }

  /** Waits for the browser's own next try, unless it makes none. */
  #lose(source) {
    if (source.readyState === EventSource.CLOSED) this.#renew();
    else this.#on.lost();
  }

  /** Counts a connection as lost when nothing comes, not even a ping: a pulled cable closes none. */
  #listen() {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => this.#renew(), this.#silenceMs);
  }

  async #renew() {
    this.#drop();
    this.#on.lost();
    while (!this.#over) {
      await this.#rest();
      try {
        await this.#on.look();
        break;
      } catch (error) {
        if (MessageStream.FINAL.has(error.status)) return this.leave(error);
      }
    }
    if (this.#over) return;
    if (this.#tries > MessageStream.FRUITLESS) this.leave(new Refused("lost", "The stream cannot be read any more."));
    else this.#open();
  }

  /** Waits longer each time, with jitter, and no longer once the network is back. */
  #rest() {
    const ms = Math.min(5000, 250 * 2 ** this.#tries++) * (0.75 + Math.random() / 2);
    return new Promise((resolve) => {
      const done = () => {
        removeEventListener("online", done);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(done, ms);
      addEventListener("online", done);
    });
  }

  #drop() {
    clearTimeout(this.#watch);
    this.#source?.close();
    this.#source = null;
  }

  #finish(settle) {
    if (this.#over) return;
    this.#over = true;
    this.#drop();
    settle();
  }
}
