"use strict";

// Keeps the list up to date. However many streams there are, only one page of them is in the document.

const LIVE = {
  opening: "Connecting",
  live: "Live",
  paused: "Paused while hidden",
  lost: "Connection lost: trying again",
  leaving: "This server is going away: reconnecting",
  silent: "Nobody computes the table: do Celery and Redis run?",
  refused: "No live updates now: trying again",
  over: "No live updates any more: log in again",
  outdated: "This page and the server are of different versions: reload it",
};
const RELOADED = "streams-reloaded-for"; // the version for which that was tried

const page = document.getElementById("streams");
const form = document.getElementById("filters");
const body = document.getElementById("rows");
const blank = document.getElementById("row").content.querySelector("tr");
const all = document.getElementById("all");
const mayCancel = all !== null;
const detailUrl = new URL(".", location.href).pathname;
const pageSize = Number(page.dataset.pageSize);
const mostCancelled = Number(page.dataset.mostCancelled);
const element = (id) => document.getElementById(id);

const rows = new Rows();
const drawn = new Map(); // by message: the row of the document, its cells, what they say
const selected = new Set(history.state?.selected); // of all pages; it outlives reloads, and ways back to this page
const wish = { search: "", filters: {}, sort: page.dataset.sort, page: Number(page.dataset.page) };
let isLive = false; // whether we know more than the document
let at = 1; // the page that is shown

function readForm() {
  const data = new FormData(form);
  wish.search = data.get("q") ?? "";
  wish.filters = Object.fromEntries(FILTERS.map((name) => [name, data.get(name) ?? ""]));
}

/** Put what is wished for into the address, for reloads, bookmarks and other people. */
function noteWish() {
  const query = new URLSearchParams();
  if (wish.search) query.set("q", wish.search);
  for (const name of FILTERS) if (wish.filters[name]) query.set(name, wish.filters[name]);
  if (wish.sort) query.set("o", wish.sort);
  if (wish.page > 1) query.set("page", wish.page);
  history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
}

function noteSelection() {
  history.replaceState({ selected: [...selected] }, "");
}

function draw() {
  if (!isLive) return;
  const found = rows.found(wish);
  const pages = Math.max(1, Math.ceil(found.length / pageSize));
  at = Math.min(wish.page, pages);
  drawRows(found.slice((at - 1) * pageSize, at * pageSize));
  setText(element("total"), COUNT.format(rows.total));
  setText(element("found"), COUNT.format(found.length));
  element("found-part").hidden = found.length === rows.total;
  drawPages(pages);
  const nothing = element("nothing");
  nothing.hidden = found.length > 0;
  if (rows.total) setText(nothing, "No open stream fits these filters.");
  else setText(nothing, "Nothing is open. Each message that waits for a worker, runs, or can be resumed stands here while it does.");
  drawSelection();
}

function drawRows(shown) {
  const ids = new Set(shown.map((row) => row.id));
  for (const [id, { line }] of drawn) {
    if (!ids.has(id)) {
      line.remove();
      drawn.delete(id);
    }
  }
  const now = rows.now;
  const focused = document.activeElement; // a row that is moved loses it
  let place = body.firstElementChild;
  for (const row of shown) {
    const { line, cells } = drawn.get(row.id) ?? begin(row.id);
    const texts = textsOf(row, now, rows.placeOf(row));
    for (const name in cells) setText(cells[name], texts[name]);
    if (cells.state.dataset.state !== row.state) cells.state.dataset.state = row.state;
    if (line === place) place = place.nextElementSibling;
    else body.insertBefore(line, place);
  }
  if (document.activeElement !== focused && body.contains(focused)) focused.focus({ preventScroll: true });
}

function begin(id) {
  const line = blank.cloneNode(true);
  line.dataset.id = id;
  for (const control of line.querySelectorAll("input, button")) {
    control.value = id;
    control.setAttribute("aria-label", `${control.type === "checkbox" ? "Select" : "Cancel"} ${id}`);
    if (control.type === "checkbox") control.checked = selected.has(id);
  }
  line.querySelector("a").href = `${detailUrl}${encodeURIComponent(id)}/`;
  return keep(id, line);
}

function keep(id, line) {
  const cells = {};
  for (const cell of line.querySelectorAll("td[data-column]")) cells[cell.dataset.column] = cell.firstElementChild ?? cell;
  drawn.set(id, { line, cells });
  return drawn.get(id);
}

function drawPages(pages) {
  element("pages").hidden = pages === 1;
  setText(element("page"), `Page ${at} of ${pages}`);
  element("before").hidden = at === 1;
  element("after").hidden = at === pages;
}

function drawOptions() {
  for (const name of FILTERS.filter((name) => name !== "state")) {
    const select = form.elements[name];
    const known = new Set([...select.options].map((option) => option.value));
    const values = rows.valuesOf(name);
    for (const value of values) if (!known.has(value)) select.add(new Option(value, value));
    for (const option of [...select.options]) {
      if (option.value && option.value !== select.value && !values.includes(option.value)) option.remove();
    }
  }
}

function drawHeads() {
  for (const head of document.querySelectorAll("th[data-column]")) {
    const name = head.dataset.column;
    const sorted = { [name]: "ascending", [`-${name}`]: "descending" }[wish.sort];
    if (sorted) head.setAttribute("aria-sort", sorted);
    else head.removeAttribute("aria-sort");
  }
}

function drawSelection() {
  if (!mayCancel) return;
  const boxes = [...body.querySelectorAll("input")];
  const shown = boxes.filter((box) => box.checked).length;
  const parts = [`${COUNT.format(selected.size)} selected`];
  if (selected.size > shown) parts.push(`${COUNT.format(selected.size - shown)} of them not shown here`);
  if (selected.size > mostCancelled) parts.push(`no more than ${COUNT.format(mostCancelled)} can be cancelled at once`);
  element("cancel-selected").disabled = selected.size === 0 || selected.size > mostCancelled;
  element("clear-selected").hidden = selected.size === 0;
  setText(element("num-selected"), selected.size ? parts.join(", ") : "");
  all.hidden = false;
  all.disabled = boxes.length === 0;
  all.checked = shown > 0 && shown === boxes.length;
  all.indeterminate = shown > 0 && shown < boxes.length;
}

/** Select rows of the document, or no longer. */
function select(boxes, isSelected) {
  for (const box of boxes) {
    box.checked = isSelected;
    if (isSelected) selected.add(box.value);
    else selected.delete(box.value);
  }
  noteSelection();
  drawSelection();
}

/** Forget what was selected and has ended. */
function dropEnded() {
  if (!selected.size) return;
  const [ids, before] = [rows.ids(), selected.size];
  for (const id of selected) if (!ids.has(id)) selected.delete(id);
  if (selected.size < before) noteSelection();
}

function setText(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

function wishFor(changes) {
  Object.assign(wish, { page: 1 }, changes);
  noteWish();
  draw();
}

form.addEventListener("input", () => {
  readForm();
  wishFor({});
});
form.addEventListener("submit", (event) => {
  if (!isLive) return;
  event.preventDefault();
});
for (const head of document.querySelectorAll("th[data-column]")) {
  head.addEventListener("click", (event) => {
    if (!isLive || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const name = head.dataset.column;
    const down = wish.sort === name || (head.classList.contains("number") && wish.sort !== `-${name}`);
    wishFor({ sort: down ? `-${name}` : name });
    drawHeads();
  });
}
for (const [id, step] of [["before", -1], ["after", 1]]) {
  element(id).addEventListener("click", (event) => {
    if (!isLive) return;
    event.preventDefault();
    wishFor({ page: at + step });
  });
}
if (mayCancel) {
  body.addEventListener("change", (event) => select([event.target], event.target.checked));
  all.addEventListener("change", () => select(body.querySelectorAll("input"), all.checked));
  element("clear-selected").addEventListener("click", () => {
    selected.clear();
    select(body.querySelectorAll("input"), false);
    all.focus();
  });
  element("selected").addEventListener("formdata", ({ formData }) => {
    if (selected.size > mostCancelled) return; // one alone is cancelled: its button needs none of them
    for (const id of selected) if (!drawn.has(id)) formData.append("message", id);
  });
}

/** Reload a page of another version, once: filters and selection stay. It may be the server that is older. */
function reload(shape) {
  isLive = false;
  if (sessionStorage.getItem(RELOADED) === shape) return showState("outdated");
  sessionStorage.setItem(RELOADED, shape);
  location.reload();
}

function showState(state, why = "") {
  const live = element("live");
  if (live.dataset.state !== state) live.dataset.state = state;
  setText(live, why ? `${why} Reconnecting` : LIVE[state]);
}

readForm();
for (const line of body.children) {
  const box = keep(line.dataset.id, line).line.querySelector("input");
  if (box) box.checked = selected.has(box.value); // not what the browser remembers of another row in its place
}
drawSelection();
new Feed(page.dataset.live, {
  onWhole(table) {
    if (table.shape !== SHAPE) return reload(String(table.shape)); // old servers name none
    sessionStorage.removeItem(RELOADED);
    rows.replace(table);
    isLive = true;
    form.querySelector("[type=submit]").hidden = true; // what is wished for is shown at once
    showState("live");
    dropEnded();
    drawOptions();
    draw();
  },
  onChanges(changes) {
    if (!isLive) return showState("outdated"); // they belong to a table that was not taken
    rows.change(changes);
    showState("live");
    if (changes.gone.length) dropEnded();
    if (changes.rows.length || changes.gone.length) drawOptions();
    draw();
  },
  onState: showState,
});
