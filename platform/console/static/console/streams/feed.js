"use strict";

// One connection for the whole page, open only while somebody can see it.

const STALE_MS = 12_000; // the server says something each few seconds
const LEAST_PAUSE_MS = 1000;
const MOST_PAUSE_MS = 30_000;
const SPREAD = 1.25; // so that many pages do not come at the same moment

/**
 * Tells of the table's changes: `onWhole`, `onChanges`, and `onState` of how the connection is.
 *
 * An EventSource learns no status, and gives up after a refusal. So a lost connection is not left to it: after a pause,
 * which grows with each try in vain, it is asked what the server says, and then a new one is made.
 */
class Feed {
  #url;
  #heed;
  #source = null;
  #asking = null;
  #timer = 0;
  #tries = 0; // since something was heard
  #over = false; // whoever watches may not any more

  constructor(url, heed) {
    [this.#url, this.#heed] = [url, heed];
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#pause() : this.#open()));
    window.addEventListener("pagehide", () => this.#pause());
    window.addEventListener("pageshow", () => this.#open());
    window.addEventListener("online", () => this.#open());
    this.#open();
  }

  #open() {
    if (this.#source || this.#over || document.hidden) return;
    this.#close();
    if (!this.#tries) this.#heed.onState("opening");
    const source = (this.#source = new EventSource(this.#url));
    const hear = (name, act) =>
      source.addEventListener(name, (event) => {
        if (source !== this.#source) return;
        this.#tries = 0;
        this.#watch();
        act(event);
      });
    hear("whole", (event) => this.#heed.onWhole(JSON.parse(event.data)));
    hear("changes", (event) => this.#heed.onChanges(JSON.parse(event.data)));
    hear("silent", () => this.#heed.onState("silent"));
    hear("leaving", () => this.#again("leaving"));
    hear("over", () => this.#end());
    source.addEventListener("error", () => source === this.#source && this.#again("lost"));
    this.#watch();
  }

  /** Try again after a pause, of no less than `leastMs`. */
  #again(state, why = "", leastMs = LEAST_PAUSE_MS) {
    this.#close();
    this.#heed.onState(state, why);
    this.#timer = setTimeout(() => this.#ask(), pauseMs(this.#tries++, leastMs));
  }

  /** Ask what an EventSource would not tell: whether the server takes us. */
  async #ask() {
    const asking = (this.#asking = new AbortController());
    this.#timer = setTimeout(() => asking.abort(), STALE_MS);
    let answer, why;
    try {
      answer = await fetch(this.#url, { cache: "no-store", signal: asking.signal });
      why = isOurs(answer) && !answer.ok ? await answer.text() : "";
    } catch {
      if (asking === this.#asking) this.#again("lost");
      return;
    }
    if (asking !== this.#asking) return;
    if (answer.ok) this.#open();
    else if (answer.status === 403 && isOurs(answer)) this.#end();
    else this.#again("refused", why, 1000 * Number(answer.headers.get("retry-after")));
  }

  /** Begin anew when nothing is heard: a connection may be dead without saying so. */
  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#again("lost"), STALE_MS);
  }

  #pause() {
    if (this.#over) return;
    this.#close();
    this.#tries = 0;
    this.#heed.onState("paused");
  }

  #end() {
    this.#over = true;
    this.#close();
    this.#heed.onState("over");
  }

  #close() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#source?.close();
    this.#asking = this.#source = null;
  }
}

function pauseMs(tries, leastMs) {
  const wanted = Math.max(leastMs || 0, LEAST_PAUSE_MS * 2 ** tries); // a date is no number
  return Math.min(MOST_PAUSE_MS / SPREAD, wanted) * (1 + Math.random() * (SPREAD - 1));
}

/** Whether an answer was written by the feed, not by something on the way. */
function isOurs(answer) {
  return answer.ok || (answer.headers.get("content-type") ?? "").startsWith("text/plain");
}
