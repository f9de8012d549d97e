// The page of `passing train` results: per model, how the loss falls, and how fast the steps are.
import { legend, Visibility } from "../chart/visibility";
import { fresh, h } from "../dom";
import * as format from "../format";
import type { Page } from "../page";
import type { Context } from "../bench/figures";
import { lookUp } from "../bench/look";
import { caseTitle, groups, number, positive, read, type Row } from "../bench/model";
import { origin } from "../bench/origin";
import { card } from "../bench/summary";
import { provenance, table } from "../bench/table";
import { columns, everything } from "./columns";
import { communicationFigure, linkFigure, lossFigure, speedFigure } from "./figures";

const caseKey = (row: Row): string => JSON.stringify(["mode", "model", "gpu", "equivalent_bps", "hosts", "ranks_per_host", "servers", "rate_bps", "mtu",
  "batch"].map((field) => row.fields[field] ?? null));

function title(row: Row): string {
  const stands = positive(row, "equivalent_bps");
  return [String(row.fields.model ?? format.dash), row.fields.mode === "replay" ? "replay" : "real training", caseTitle(row),
    stands && `for ${String(row.fields.gpu ?? "GPU")}s at ${format.rate(stands)}`].filter(Boolean).join(", ");
}

// Against what there was before, each comparison within one case of one file.
function keyFigures(rows: Row[]): HTMLElement {
  const name = "passing";
  const cards = [["ps", "a parameter server"], ["gloo", "gloo"], ["ring_hierarchical", "a hierarchical ring"]].flatMap(([other, words]) => {
    const ratios = rows.filter((row) => row.name === name).map((row) => number(row, `speedup_over.${other}`))
      .filter((ratio): ratio is number => ratio !== undefined).sort((a, b) => a - b);
    if (ratios.length === 0) return [];
    const [least, most] = [format.times(ratios[0]!), format.times(ratios[ratios.length - 1]!)];
    return [card(`over-${other}`, format.times(ratios[ratios.length >> 1]!), `the steps per second of ${words}, by ${name}`,
      ratios.length === 1 ? "In one comparison." : `Median of ${ratios.length} comparisons, from ${least} to ${most}.`)];
  });
  return h("section", { class: "summary", "aria-label": "Key figures" }, h("div", { class: "keys" }, ...cards));
}

export const trainPage: Page = {
  format: "passing-train",
  title: "Training",
  render(reports, root) {
    const bench = read(reports);
    const context: Context = { bench, looks: lookUp(bench.rows), visibility: new Visibility() };
    const sections = groups(bench.rows, caseKey).map((rows) => {
      const [id, heading] = [fresh("section"), fresh("heading")];
      const present = new Set(rows.map((row) => row.series));
      const figures = [lossFigure(context, rows), speedFigure(context, rows), communicationFigure(context, rows), linkFigure(context, rows)];
      const element = h("section", { id, "aria-labelledby": heading },
        h("h2", { id: heading }, title(rows[0]!)),
        legend([...context.looks].filter(([series]) => present.has(series)), context.visibility),
        h("div", { class: figures.filter(Boolean).length === 3 ? "grid three" : "grid" }, ...figures),
        h("div", { class: "card" }, table(bench, rows, `${title(rows[0]!)}: all strategies`, columns)));
      return { id, name: title(rows[0]!), element };
    });
    root.append(
      origin(bench),
      keyFigures(bench.rows),
      sections.length > 1 && h("nav", { class: "contents", "aria-label": "Contents" },
        h("ol", {}, ...sections.map(({ id, name }) => h("li", {}, h("a", { href: `#${id}` }, name))))) || "",
      ...sections.map(({ element }) => element),
      h("section", {}, h("h2", {}, "Every result"), h("div", { class: "card", id: "everything" },
        h("details", {}, h("summary", {}, "Table", h("span", { class: "count" }, ` ${bench.rows.length}`)),
          table(bench, bench.rows, "Every result", everything(bench.rows))),
        provenance(bench, bench.rows))));
  },
};
