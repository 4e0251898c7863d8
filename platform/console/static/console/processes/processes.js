// Shows what runs anew every few seconds, for as long as somebody can see it.
const shown = document.getElementById("processes");
const pauseMs = 1000 * Number(shown.dataset.refreshS);
let timer = 0;

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (answer.redirected) return location.reload(); // to the login page, which comes back here
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("processes");
    if (fresh) replace(fresh);
    shown.classList.toggle("stale", !fresh);
  } catch {
    shown.classList.add("stale"); // the gateway is away: what is shown was so when it was seen
  }
  wait();
}

function replace(fresh) {
  const focused = shown.contains(document.activeElement) ? document.activeElement.id : "";
  shown.replaceChildren(...fresh.childNodes);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function wait() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, pauseMs);
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
wait();
