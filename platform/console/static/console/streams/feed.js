"use strict";

// One connection for the whole page, open only while somebody can see it.

const STALE_MS = 12_000; // the server says something each few seconds
const AGAIN_MS = 30_000; // after a refusal

/** Tells of the table's changes: `onWhole`, `onChanges`, and `onState` of how the connection is. */
class Feed {
  #url;
  #heed;
  #source = null;
  #timer = 0;
  #over = false; // whoever watches may not any more

  constructor(url, heed) {
    [this.#url, this.#heed] = [url, heed];
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close("paused") : this.#open()));
    window.addEventListener("pagehide", () => this.#close("paused"));
    window.addEventListener("pageshow", () => this.#open());
    this.#open();
  }

  #open() {
    if (this.#source || this.#over || document.hidden) return;
    clearTimeout(this.#timer);
    this.#heed.onState("opening");
    const source = (this.#source = new EventSource(this.#url));
    const hear = (name, act) =>
      source.addEventListener(name, (event) => {
        this.#watch();
        act(event);
      });
    hear("whole", (event) => this.#take("onWhole", event));
    hear("changes", (event) => this.#take("onChanges", event));
    hear("silent", () => this.#heed.onState("silent"));
    hear("over", () => {
      this.#over = true;
      this.#close("over");
    });
    source.addEventListener("error", () => this.#fail(source));
    this.#watch();
  }

  #take(name, event) {
    this.#heed.onState("live");
    this.#heed[name](JSON.parse(event.data));
  }

  #fail(source) {
    if (source.readyState !== EventSource.CLOSED) return this.#heed.onState("lost"); // the browser tries again
    this.#close("refused");
    this.#timer = setTimeout(() => this.#open(), AGAIN_MS);
  }

  /** Begin anew when nothing is heard: a connection may be dead without saying so. */
  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#close("lost");
      this.#open();
    }, STALE_MS);
  }

  #close(state) {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#heed.onState(this.#over ? "over" : state);
  }
}
