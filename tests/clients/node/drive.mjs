// A browser page at the end of a pipe: each line of stdin names a method of Playwright's Page and its arguments, and
// what it returns is printed as a line of JSON, or what it threw.
import { createInterface } from "node:readline";
import axe from "axe-core";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const page = await browser.newPage();
page.setDefaultTimeout(15_000);
const complaints = [];
page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
page.on("pageerror", (error) => complaints.push(String(error)));
page.on("request", (request) => {
  if (!request.url().startsWith(process.env.ORIGIN)) complaints.push(`another host: ${request.url()}`);
});

// What breaks the rules of WCAG 2.2, A and AA, that a machine can look after. Left out: what Django's admin makes
// for choices, and the size of links in lists, which are close to one another by intent.
const RULES = { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };
const LEFT_OUT = [".select2-container", ".selector"];
async function barriers() {
  const before = complaints.length;
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(([leftOut, rules]) => axe.run({ exclude: leftOut }, rules), [LEFT_OUT, RULES]);
  complaints.length = before; // axe styles what it makes, against the policy
  const all = violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target}: ${failureSummary}`));
  return all.filter((one) => !/^target-size: .*field-/.test(one));
}

const more = { complaints: () => complaints.splice(0), barriers };

try {
  for await (const line of createInterface({ input: process.stdin })) {
    const [method, ...given] = JSON.parse(line);
    try {
      const value = await (more[method] ?? page[method].bind(page))(...given);
      const isData = ["string", "number", "boolean"].includes(typeof value) || Array.isArray(value);
      console.log(JSON.stringify({ value: isData || method === "evaluate" ? value ?? null : null }));
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }));
    }
  }
} finally {
  await browser.close();
}
