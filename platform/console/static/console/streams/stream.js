"use strict";

// Shows one stream anew every few seconds, while it runs and somebody can see it.

const shown = document.getElementById("stream");
const pauseMs = 1000 * Number(shown.dataset.refreshS);
let timer = 0;

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (answer.redirected) return location.reload(); // to the login page, which comes back here
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("stream");
    if (found) replace(found);
    shown.classList.toggle("stale", !found);
  } catch {
    shown.classList.add("stale"); // the gateway is away: what is shown was so when it was seen
  }
  wait();
}

function replace(found) {
  const focused = shown.contains(document.activeElement) ? document.activeElement.id : "";
  shown.replaceChildren(...found.childNodes);
  shown.toggleAttribute("data-over", "over" in found.dataset);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function wait() {
  clearTimeout(timer);
  if (!document.hidden && !("over" in shown.dataset)) timer = setTimeout(refresh, pauseMs);
}

document.addEventListener("visibilitychange", wait);
wait();
