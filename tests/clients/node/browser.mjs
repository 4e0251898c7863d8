// Opens each page whose address stands on a line of stdin, and prints what the page found out as a line of JSON.
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
try {
  for await (const address of createInterface({ input: process.stdin })) {
    const page = await browser.newPage();
    page.on("console", (message) => console.error(message.text()));
    page.on("pageerror", (error) => console.error(error));
    await page.goto(address);
    console.log(JSON.stringify(await page.evaluate(() => window.outcome)));
    await page.close();
  }
} finally {
  await browser.close();
}
