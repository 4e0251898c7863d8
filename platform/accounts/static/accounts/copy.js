"use strict";

async function copy(element) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(element.textContent);
    return;
  }
  // Without HTTPS a page has no clipboard of its own.
  getSelection().selectAllChildren(element);
  if (!document.execCommand("copy")) throw new Error("refused");
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const element = document.getElementById(button.dataset.copy);
    try {
      await copy(element);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(element);
      button.textContent = "Press Ctrl-C";
    }
  });
}
