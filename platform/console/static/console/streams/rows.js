"use strict";

// The rows of the table: what the server sends, how they are sorted and searched, and how they read. The server does
// the same for the first page (console/live/listing.py, shown.py).

const FIELDS = [
  "id", "key", "organization", "model", "worker", "gateway", "state", "came", "ttft", "unsent", "held", "attempt",
  "turn", "prefilled", "tokens",
];
const SHAPE = `1:${FIELDS}`; // what the server has to send (console/live/rows.py)
const FILTERS = ["state", "model", "worker", "organization"];
const STATES = JSON.parse(document.getElementById("states").textContent);
const STATE_ORDER = Object.keys(STATES);
const LEAST_MS = 500; // a pace over less says little
const COUNT = new Intl.NumberFormat("en-US");
const ENDING = { one: "st", two: "nd", few: "rd", other: "th" };
const ORDINAL = new Intl.PluralRules("en-US", { type: "ordinal" });
const PACE = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** All open streams, by the numbers that the server gave them; time is by its clock. */
class Rows {
  total = 0;
  #rows = new Map();
  #queues = {}; // how many wait for each model
  #places = null; // in the queues, by message: counted when they are asked for
  #at = 0;
  #heardAt = 0;

  get now() {
    return this.#at + performance.now() - this.#heardAt;
  }

  /** Take the whole table. */
  replace({ rows, ...facts }) {
    this.#rows.clear();
    this.#note(facts);
    this.#set(rows);
  }

  /** Take what has changed: rows that are new or other, pairs of number and tokens, the numbers of those that went. */
  change({ rows, tokens, gone, ...facts }) {
    this.#note(facts);
    if (gone.length) this.#places = null;
    for (const number of gone) this.#rows.delete(number);
    this.#set(rows);
    for (let i = 0; i < tokens.length; i += 2) {
      const row = this.#rows.get(tokens[i]);
      if (row) row.tokens = tokens[i + 1];
    }
  }

  /** Return those that fit, in order. */
  found({ search, filters, sort }) {
    const text = search.trim().toLowerCase();
    const rows = [...this.#rows.values()].filter((row) => fits(row, text, filters));
    return rows.sort(orderOf(sort, this.now));
  }

  /** Return the values of a field that there are. */
  valuesOf(field) {
    return [...new Set([...this.#rows.values()].map((row) => row[field]))].filter(Boolean).sort();
  }

  /** Return the ids of all. */
  ids() {
    return new Set([...this.#rows.values()].map((row) => row.id));
  }

  /** Return a row's place in its queue, and of how many; null where it does not wait. */
  placeOf(row) {
    const place = (this.#places ??= placesOf(this.#rows.values())).get(row.id);
    return place ? [place, Math.max(place, this.#queues[row.model] ?? 0)] : null;
  }

  #note({ at, total, queues }) {
    [this.#at, this.#heardAt, this.total, this.#queues] = [at, performance.now(), total, queues];
  }

  #set(rows) {
    if (rows.length) this.#places = null;
    for (const [number, ...values] of rows) {
      const row = Object.fromEntries(FIELDS.map((field, i) => [field, values[i]]));
      this.#rows.set(number, row);
    }
  }
}

function fits(row, text, filters) {
  if (FILTERS.some((name) => filters[name] && filters[name] !== row[name])) return false;
  return !text || [row.id, row.key, row.organization].some((value) => value.toLowerCase().includes(text));
}

/** Return where in its model's queue each stands that waits, from 1. */
function placesOf(rows) {
  const [places, ahead] = [new Map(), {}];
  for (const row of [...rows].filter((row) => row.turn >= 0).sort(byTurn)) {
    ahead[row.model] = (ahead[row.model] ?? 0) + 1;
    places.set(row.id, ahead[row.model]);
  }
  return places;
}

function byTurn(a, b) {
  return a.turn - b.turn || (a.id < b.id ? -1 : 1);
}

/** Without a wish: those that run first, the oldest first, then those that wait, in the order of their queues. */
function byDefault(a, b) {
  const [x, y] = [a.state === "queued", b.state === "queued"];
  if (x !== y) return x ? 1 : -1;
  return x ? byTurn(a, b) : a.came - b.came || (a.id < b.id ? -1 : 1);
}

function orderOf(sort, now) {
  if (!sort) return byDefault;
  const down = sort.startsWith("-") ? -1 : 1;
  const value = SORTS[sort.replace("-", "")];
  return (a, b) => {
    const [x, y] = [value(a, now), value(b, now)];
    return x === y ? byDefault(a, b) : (x < y ? -1 : 1) * down;
  };
}

const SORTS = {
  id: (row) => row.id,
  key: (row) => row.key.toLowerCase(),
  organization: (row) => row.organization.toLowerCase(),
  model: (row) => row.model,
  worker: (row) => row.worker,
  gateway: (row) => row.gateway,
  state: (row) => STATE_ORDER.indexOf(row.state),
  tokens: (row) => row.tokens,
  rate: (row, now) => paceOf(row, now) ?? 0,
  age: (row, now) => now - row.came,
  ttft: (row) => row.ttft,
  unsent: (row) => row.unsent,
  attempt: (row) => row.attempt,
};

function paceOf(row, now) {
  const ms = now - row.came - row.ttft;
  return row.ttft >= 0 && ms >= LEAST_MS ? (1000 * row.tokens) / ms : null;
}

/** Return what stands in the cells of a row, by their columns; `place` is that in its queue, and of how many. */
function textsOf(row, now, place) {
  const pace = paceOf(row, now);
  return {
    id: row.id,
    key: row.key,
    organization: row.organization,
    model: row.model,
    worker: row.worker,
    gateway: row.gateway,
    state: stateText(row, place),
    tokens: COUNT.format(row.tokens),
    rate: pace === null ? "" : PACE.format(pace),
    age: ageText((now - row.came) / 1000),
    ttft: row.ttft < 0 ? "" : msText(row.ttft),
    unsent: row.gateway ? COUNT.format(row.unsent) : "",
    attempt: String(row.attempt || ""),
  };
}

function stateText({ state, held, prefilled }, place) {
  const text = STATES[state] ?? state;
  if (state === "held") return `${text} (${COUNT.format(held)})`;
  if (state === "prefill" && prefilled >= 0) return `${text} ${prefilled} %`;
  if (state === "queued" && place) return `${text}, ${ordinal(place[0])} of ${COUNT.format(place[1])}`;
  return text;
}

function ordinal(number) {
  return COUNT.format(number) + ENDING[ORDINAL.select(number)];
}

function ageText(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  for (const [size, unit] of [[86_400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= 2 * size) return `${(seconds / size).toFixed(0)} ${unit}`;
  }
  return `${seconds.toFixed(0)} s`;
}

function msText(ms) {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
