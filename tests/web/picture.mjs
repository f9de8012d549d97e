// picture.mjs REPORT.html PICTURE.png: the top of a report as a picture, for the documentation.
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const [report, picture] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
const page = await browser.newPage({ viewport: { width: 1040, height: 1240 }, colorScheme: "light" });
await page.goto(pathToFileURL(resolve(report)).href);
await page.waitForFunction(() => [...document.querySelectorAll(".chart")].every((chart) => chart.querySelector("svg")));
await page.screenshot({ path: picture });
await browser.close();
