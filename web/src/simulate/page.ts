// The page of `passing simulate` results: per model and cluster, how strategies grow with the number of GPUs.
import { legend, Visibility } from "../chart/visibility";
import { fresh, h } from "../dom";
import * as format from "../format";
import type { Page } from "../page";
import type { Context } from "../bench/figures";
import { lookUp } from "../bench/look";
import { groups, number, read, type Row } from "../bench/model";
import { origin } from "../bench/origin";
import { card } from "../bench/summary";
import { provenance, table } from "../bench/table";
import { columns, everything } from "./columns";
import { clusterFigure, efficiencyFigure, iterationFigure, overPsFigure, overRingFigure, slotsFigure, timeFigure } from "./figures";

// All but the GPUs, along which charts go.
const caseKey = (row: Row): string => JSON.stringify([row.report, ...["model", "cluster", "rate_bps", "servers", "slots", "oversubscription", "beside", "gpus_per_host"]
  .map((field) => row.fields[field] ?? null)]);

function title(row: Row): string {
  const rate = number(row, "rate_bps");
  const beside = row.fields.beside;
  return [`${String(row.fields.model ?? format.dash)} on ${String(row.fields.cluster ?? format.dash)}`,
    number(row, "gpus_per_host") !== undefined && `${format.plural(number(row, "gpus_per_host")!, "GPU")} per host`,
    rate !== undefined && format.rate(rate), typeof beside === "string" && beside !== "" && `beside ${beside}`].filter(Boolean).join(", ");
}

// passing with the most GPUs of each case, against what there was before.
function keyFigures(cases: Row[][]): HTMLElement {
  const last = cases.flatMap((rows) => rows.filter((row) => row.name === "passing")
    .sort((a, b) => (number(b, "gpus") ?? 0) - (number(a, "gpus") ?? 0)).slice(0, 1));
  const cards = [["ps", "a parameter server"], ["ring", "a ring"], ["ring_hierarchical", "a hierarchical ring"]].flatMap(([other, words]) => {
    const ratios = last.flatMap((row) => {
      const ratio = number(row, `speedup_over.${other}`);
      return ratio === undefined ? [] : [{ ratio, gpus: number(row, "gpus") ?? 0 }];
    }).sort((a, b) => a.ratio - b.ratio);
    if (ratios.length === 0) return [];
    const [least, most] = [ratios[0]!, ratios[ratios.length - 1]!];
    return [card(`over-${other}`, format.times(ratios[ratios.length >> 1]!.ratio), `the speed of ${words}, by passing`,
      ratios.length === 1 ? `With ${format.plural(least.gpus, "GPU")}.` : `Median of ${ratios.length} cases, from ${format.times(least.ratio)} to ${format.times(most.ratio)}.`)];
  });
  return h("section", { class: "summary", "aria-label": "Key figures" }, h("div", { class: "keys" }, ...cards));
}

export const simulatePage: Page = {
  format: "passing-simulate",
  title: "Simulation",
  render(reports, root) {
    const bench = read(reports);
    const context: Context = { bench, looks: lookUp(bench.rows), visibility: new Visibility() };
    const cases = groups(bench.rows, caseKey);
    const sections = cases.map((rows) => {
      const [id, heading] = [fresh("section"), fresh("heading")];
      const present = new Set(rows.map((row) => row.series));
      const figures = [iterationFigure, efficiencyFigure, overPsFigure, overRingFigure, timeFigure, slotsFigure, clusterFigure].map((make) => make(context, rows));
      const element = h("section", { id, "aria-labelledby": heading },
        h("h2", { id: heading }, title(rows[0]!)),
        legend([...context.looks].filter(([series]) => present.has(series)), context.visibility),
        h("div", { class: "grid" }, ...figures),
        h("div", { class: "card" }, h("details", {}, h("summary", {}, "All of it as a table", h("span", { class: "count" }, ` ${rows.length}`)),
          table(bench, rows, `${title(rows[0]!)}: all strategies`, columns))));
      return { id, name: title(rows[0]!), element };
    });
    root.append(
      origin(bench),
      h("p", { class: "note" }, "Simulated, not measured: docs/simulation.md says what is assumed."),
      keyFigures(cases),
      sections.length > 1 && h("nav", { class: "contents", "aria-label": "Contents" },
        h("ol", {}, ...sections.map(({ id, name }) => h("li", {}, h("a", { href: `#${id}` }, name))))) || "",
      ...sections.map(({ element }) => element),
      h("section", {}, h("h2", {}, "Every result"), h("div", { class: "card", id: "everything" },
        h("details", {}, h("summary", {}, "Table", h("span", { class: "count" }, ` ${bench.rows.length}`)),
          table(bench, bench.rows, "Every result", everything(bench.rows))),
        provenance(bench, bench.rows))));
  },
};
