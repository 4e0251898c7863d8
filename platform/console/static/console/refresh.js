"use strict";

// Keeps what has `data-fresh` (and an id) as the server shows it, while somebody can see it, until a part says
// `data-over`; then sends the document `refreshed`. What does not change is not touched: a button that is pressed in
// that moment, the focus and what is selected stay.

(() => {
  const standing = document.getElementById("freshness");
  const periodMs = 1000 * Number(document.currentScript.dataset.refreshS);
  const ANSWER_MS = 15_000;
  const ENDS = {
    403: "You may no longer see this. What is shown is old.",
    404: "This is gone. What is shown is the last that was seen of it.",
  };
  let timer = 0;
  let askedAt = Date.now();
  let freshAt = new Date();
  let isAsking = false;
  let isOver = periodMs === 0;

  const clock = (date) => date.toISOString().slice(11, 19);
  const say = (text) => {
    if (standing.textContent !== text) standing.textContent = text;
  };
  const end = (text) => {
    isOver = true;
    say(text);
  };

  async function refresh() {
    isAsking = true;
    askedAt = Date.now();
    try {
      await ask();
    } catch (error) {
      say(`Not up to date since ${clock(freshAt)} UTC: ${error.message}. Trying again.`);
    }
    isAsking = false;
    plan();
  }

  async function ask() {
    const asked = fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    const answer = await asked.catch(() => {
      throw new Error("nothing answers");
    });
    if (answer.redirected) return end("You are signed out. Reload the page to sign in.");
    if (answer.status in ENDS) return end(ENDS[answer.status]);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const parts = [...document.querySelectorAll("[data-fresh]")].map((part) => [part, page.getElementById(part.id)]);
    const alert = page.querySelector("#content [role=alert]");
    if (!parts.some(([, fresh]) => fresh)) throw new Error(alert?.textContent.trim() || "the page is another one");
    keepingPlace(() => parts.forEach(([part, fresh]) => fresh && liken(part, fresh)));
    freshAt = new Date();
    say("");
    isOver = document.querySelector("[data-fresh][data-over]") !== null;
    document.dispatchEvent(new Event("refreshed"));
  }

  /** Give focus and selection back where a change took them. */
  function keepingPlace(change) {
    const focused = document.activeElement;
    const chosen = getSelection();
    const { anchorNode, anchorOffset, focusNode, focusOffset } = chosen;
    const isText = !chosen.isCollapsed && [anchorNode, focusNode].every((node) => node.nodeType === Node.TEXT_NODE);
    change();
    if (document.activeElement !== focused) {
      const now = focused.isConnected ? focused : focused.id && document.getElementById(focused.id);
      now?.focus?.({ preventScroll: true });
    }
    const moved = chosen.anchorNode !== anchorNode || chosen.anchorOffset !== anchorOffset || chosen.focusOffset !== focusOffset;
    if (isText && moved && anchorNode.isConnected && focusNode.isConnected) {
      const within = (node, offset) => [node, Math.min(offset, node.length)];
      chosen.setBaseAndExtent(...within(anchorNode, anchorOffset), ...within(focusNode, focusOffset));
    }
  }

  /** Make a node like another of its kind. */
  function liken(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    const isOurs = (name) => name === "open" && old.localName === "details"; // whoever looks has opened it
    for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name) && !isOurs(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    likenChildren(old, fresh);
  }

  /** What has an id is found by it; all else by its place. */
  function likenChildren(old, fresh) {
    const known = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
    const staying = new Set([...fresh.children].map((one) => one.id));
    for (const [id, one] of known) if (!staying.has(id)) one.remove();
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const byId = known.get(child.id);
      while (byId && at && at !== byId && !at.id) at = drop(at);
      const same = [byId, !child.id && at].find((one) => one && alike(one, child));
      if (!same) old.insertBefore(child, at);
      else if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      if (same) liken(same, child);
    }
    while (at) at = drop(at);
  }

  function alike(one, other) {
    return one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "");
  }

  /** Remove a node, and return the next one. */
  function drop(node) {
    const next = node.nextSibling;
    node.remove();
    return next;
  }

  function plan() {
    clearTimeout(timer);
    if (isAsking || isOver || document.hidden) return;
    timer = setTimeout(refresh, Math.max(0, askedAt + periodMs - Date.now()));
  }

  isOver ||= document.querySelector("[data-fresh][data-over]") !== null;
  document.addEventListener("visibilitychange", plan);
  plan();
})();
