// Brings the page up to date while someone looks at it: what has `data-fresh` is replaced, and the charts are drawn anew.
"use strict";

(() => {
  const periodMs = Number(document.currentScript.dataset.refreshS) * 1000;
  if (!periodMs) return;
  let asked = Date.now();
  let timer = null;

  const say = (text) => {
    document.getElementById("updated").textContent = text;
  };

  const take = (fresh) => {
    for (const old of document.querySelectorAll("[data-fresh]")) {
      const found = fresh.getElementById(old.id);
      if (found) old.replaceWith(document.importNode(found, true));
    }
    document.getElementById("chart-data").textContent = fresh.getElementById("chart-data").textContent;
    Charts.draw();
  };

  const refresh = async () => {
    asked = Date.now();
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.redirected) return say("Signed out. Reload the page to sign in.");
      if (!response.ok) throw new Error(`status ${response.status}`);
      take(new DOMParser().parseFromString(await response.text(), "text/html"));
    } catch (error) {
      say(`Not up to date: ${error.message}. Trying again.`);
    }
    plan();
  };

  const plan = () => {
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(refresh, Math.max(0, asked + periodMs - Date.now()));
  };

  document.addEventListener("visibilitychange", plan);
  plan();
})();
