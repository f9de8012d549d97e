// The page of `passing bench` results.
import { fresh, h } from "../dom";
import { legend, Visibility } from "../chart/visibility";
import type { Page } from "../page";
import { bandwidthFigure, cpuFigure, latencyFigure, limitsName, linkFigure, scalingFigure, timeFigure, type Context } from "./figures";
import { lookUp } from "./look";
import { bandwidthLimit, caseKey, caseTitle, groups, read, values, type Row } from "./model";
import { origin } from "./origin";
import { keyFigures } from "./summary";
import { columns, provenance, ratioColumns, table } from "./table";

interface Section {
  id: string;
  title: string;
  element: HTMLElement;
}

function section(title: string, ...children: (Node | undefined)[]): Section {
  const id = fresh("section");
  const heading = fresh("heading");
  const element = h("section", { id, "aria-labelledby": heading }, h("h2", { id: heading }, title), ...children);
  return { id, title, element };
}

function legendOf(context: Context, rows: Row[]): HTMLElement {
  const present = new Set(rows.map((row) => row.series));
  const limits = rows.some((row) => bandwidthLimit(row) !== undefined) ? [{ name: limitsName, label: "limits" }] : [];
  return legend([...context.looks].filter(([series]) => present.has(series)), context.visibility, limits);
}

// Three figures side by side where they fit: two and one would leave a hole.
const grid = (figures: (HTMLElement | undefined)[]): HTMLElement =>
  h("div", { class: figures.filter(Boolean).length === 3 ? "grid three" : "grid" }, ...figures);

function scaling(context: Context, along: "hosts" | "ranks_per_host", title: string): Section | undefined {
  const figures = groups(context.bench.rows, (row) => caseKey(row, along))
    .map((rows) => ({ rows, element: scalingFigure(context, rows, along, caseTitle(rows[0]!, along)) }))
    .filter(({ element }) => element !== undefined);
  if (figures.length === 0) return undefined;
  return section(title, legendOf(context, figures.flatMap(({ rows }) => rows)), grid(figures.map(({ element }) => element)));
}

function cases(context: Context): Section[] {
  return groups(context.bench.rows, (row) => caseKey(row)).map((rows) => section(caseTitle(rows[0]!), legendOf(context, rows),
    grid([bandwidthFigure(context, rows), timeFigure(context, rows), linkFigure(context, rows), cpuFigure(context, rows),
      latencyFigure(context, rows)])));
}

function everything({ bench }: Context): Section {
  const all = [columns.hosts, columns.ranks, columns.racks, columns.servers, columns.domain, columns.dataplane, columns.rate, columns.spine, columns.mtu, columns.size,
    columns.median, columns.min, columns.max, columns.latency, columns.repeat, columns.inFlight, columns.samples, columns.bandwidth, columns.lineRatio,
    columns.ceilingRatio, columns.limit, columns.limitRatio, columns.cpu, columns.machineCpu, columns.program, columns.busiest, columns.busiestTensors,
    columns.busiestLink, columns.least, columns.verified, columns.error, ...ratioColumns(bench.rows)];
  return section("Every result", h("div", { class: "card", id: "everything" },
    h("details", {}, h("summary", {}, "Table", h("span", { class: "count" }, ` ${bench.rows.length}`)),
      table(bench, bench.rows, "Every result", all)),
    provenance(bench, bench.rows)));
}

export const benchPage: Page = {
  format: "passing-bench",
  title: "All-reduce benchmark",
  render(reports, root) {
    const bench = read(reports);
    const context: Context = { bench, looks: lookUp(bench.rows), visibility: new Visibility() };
    const several = values(bench.rows, "hosts").length > 1 || values(bench.rows, "ranks_per_host").length > 1;
    const sections = [
      ...cases(context),
      several ? scaling(context, "hosts", "Scaling with hosts") : undefined,
      several ? scaling(context, "ranks_per_host", "Scaling with ranks per host") : undefined,
      everything(context),
    ].filter((each): each is Section => each !== undefined);
    root.append(
      origin(bench),
      keyFigures(bench),
      h("nav", { class: "contents", "aria-label": "Contents" }, h("ol", {},
        ...sections.map(({ id, title }) => h("li", {}, h("a", { href: `#${id}` }, title))))),
      ...sections.map(({ element }) => element));
  },
};
