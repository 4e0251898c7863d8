"use strict";

// Keeps the list up to date. However many streams there are, only one page of them is in the document.

const LIVE = {
  opening: "Connecting",
  live: "Live",
  paused: "Paused while hidden",
  lost: "Connection lost: trying again",
  silent: "Nobody computes the table: do Celery and Redis run?",
  refused: "No live updates now: trying again. If this stays, reload the page",
  over: "No live updates any more: log in again",
};

const page = document.getElementById("streams");
const form = document.getElementById("filters");
const body = document.getElementById("rows");
const blank = document.getElementById("row").content.querySelector("tr");
const all = document.getElementById("all");
const detailUrl = new URL(".", location.href).pathname;
const pageSize = Number(page.dataset.pageSize);
const element = (id) => document.getElementById(id);

const rows = new Rows();
const drawn = new Map(); // by message: the row of the document, its cells, what they say
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
  history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
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
    const texts = textsOf(row, now);
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
  const button = element("cancel-selected");
  if (!button) return;
  const boxes = [...body.querySelectorAll("input")];
  const number = boxes.filter((box) => box.checked).length;
  button.disabled = number === 0;
  setText(element("num-selected"), number ? `${COUNT.format(number)} selected` : "");
  all.hidden = false;
  all.checked = number > 0 && number === boxes.length;
  all.indeterminate = number > 0 && number < boxes.length;
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
body.addEventListener("change", drawSelection);
all?.addEventListener("change", () => {
  for (const box of body.querySelectorAll("input")) box.checked = all.checked;
  drawSelection();
});

readForm();
for (const line of body.children) keep(line.dataset.id, line);
drawSelection();
new Feed(page.dataset.live, {
  onWhole(table) {
    rows.replace(table);
    isLive = true;
    drawOptions();
    draw();
  },
  onChanges(changes) {
    rows.change(changes);
    if (changes.rows.length || changes.gone.length) drawOptions();
    draw();
  },
  onState(state) {
    const live = element("live");
    if (live.dataset.state === state) return;
    live.dataset.state = state;
    setText(live, LIVE[state]);
  },
});
