"use strict";

for (const figure of document.querySelectorAll("figure:not(.answer)")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = figure.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // Without HTTPS a page has no clipboard of its own.
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  figure.querySelector("figcaption").append(button);
}

const contents = document.querySelector(".contents");
const narrow = matchMedia("(max-width: 60rem)");
const fold = () => (contents.open = !narrow.matches);
narrow.addEventListener("change", fold);
fold();
contents.addEventListener("click", (event) => {
  if (narrow.matches && event.target.closest("a")) contents.open = false;
});

const links = new Map([...contents.querySelectorAll("a[href^='#']")].map((link) => [link.hash.slice(1), link]));
const seen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      const link = links.get(target.id);
      link.setAttribute("aria-current", "true");
      if (!narrow.matches) link.scrollIntoView({ block: "nearest" });
    }
  },
  { rootMargin: "-10% 0px -80% 0px" },
);
for (const id of links.keys()) {
  const target = document.getElementById(id);
  if (target) seen.observe(target);
}
