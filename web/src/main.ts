// The report: a page for each format of results among the files.
import { benchPage } from "./bench/page";
import { h } from "./dom";
import type { Page, Report } from "./page";
import { simulatePage } from "./simulate/page";
import { themeButton } from "./theme";
import { trainPage } from "./train/page";

const pages: Page[] = [trainPage, simulatePage, benchPage];

function start(): void {
  const root = document.getElementById("page")!;
  const data = JSON.parse(document.getElementById("data")!.textContent ?? "") as { made_by: string; reports: Report[] };
  const shown = pages.filter((page) => data.reports.some((report) => report.content.format === page.format));
  const heading = shown.length === 1 ? shown[0]!.title : "Results";
  document.title = `${heading} · PASSING`;
  root.append(
    h("a", { class: "skip", href: "#content" }, "Skip to the results"),
    h("header", { class: "top" },
      h("p", { class: "brand" }, "PASSING"),
      h("h1", {}, heading),
      themeButton()));
  const content = h("main", { id: "content", tabindex: -1 });
  root.append(content);
  for (const page of shown) {
    const own = data.reports.filter((report) => report.content.format === page.format);
    if (shown.length > 1) content.append(h("h2", { class: "kind" }, page.title));
    page.render(own, content);
  }
  root.append(h("footer", { class: "bottom" }, `Made by ${data.made_by}. This file is complete: it loads nothing.`));
}

start();
