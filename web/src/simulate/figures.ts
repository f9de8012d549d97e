// The charts of a simulation.
import { Chart, type Drawing } from "../chart/chart";
import { choice, figure } from "../chart/figure";
import { drawLines, type Axis, type Point } from "../chart/lines";
import { h } from "../dom";
import * as format from "../format";
import type { Context } from "../bench/figures";
import { number, values, type Row } from "../bench/model";
import { provenance, table, type Column } from "../bench/table";
import { column } from "./columns";
import { drawCluster } from "./picture";
import { drawStacks, stackLegend } from "./stack";

interface Content {
  kind: string;
  title: string;
  caption: string;
  columns: Column[];
  choice?: HTMLElement;
  draw: (rows: Row[], width: number) => Drawing | undefined;
}

function build({ bench, visibility }: Context, rows: Row[], content: Content): { element: HTMLElement; chart: Chart } {
  const chart = new Chart(content.title, (width) => {
    const shown = rows.filter((row) => visibility.shows(row.series));
    return shown.length > 0 ? content.draw(shown, width) : undefined;
  });
  visibility.onChange(() => chart.redraw());
  const element = figure({ ...content, chart, rows: rows.length, table: table(bench, rows, `${content.title}, as a table`, [column.gpus, ...content.columns]),
    provenance: provenance(bench, rows) });
  return { element, chart };
}

const gpuAxis: Axis = { label: "GPUs", log: true, format: (value) => format.plain(value, 6) };

interface Lines {
  kind: string;
  title: string;
  caption: string;
  of: Column & { field: string; show: (value: number) => string };
  y: Axis;
  across?: (rows: Row[]) => { y: number; label: string } | undefined;
}

function lines(context: Context, all: Row[], what: Lines): HTMLElement | undefined {
  const rows = all.filter((row) => number(row, what.of.field) !== undefined && number(row, "gpus") !== undefined);
  if (rows.length === 0) return undefined;
  return build(context, rows, { ...what, columns: [what.of],
    draw: (shown, width) => drawLines({ looks: context.looks, limits: false, x: gpuAxis, y: what.y, across: what.across?.(shown),
      points: shown.map((row): Point => {
        const value = number(row, what.of.field)!;
        return { series: row.series, x: number(row, "gpus")!, y: value, lines: [format.plural(number(row, "gpus")!, "GPU"), what.of.show(value)] };
      }) }, width) }).element;
}

export const iterationFigure = (context: Context, rows: Row[]): HTMLElement | undefined => lines(context, rows, {
  kind: "iteration", title: "Iteration time", caption: "Compute, and communication that does not hide behind it; less is better.",
  of: column.iteration, y: { label: "Iteration", log: true, format: format.secondsTick } });

export const efficiencyFigure = (context: Context, rows: Row[]): HTMLElement | undefined => lines(context, rows, {
  kind: "efficiency", title: "Scaling efficiency", caption: "Throughput per GPU, over that of a GPU alone; more is better.",
  of: column.efficiency, y: { label: "Efficiency", log: false, format: (value) => `${format.plain(100 * value)} %` } });

const over = (name: string, of: Lines["of"]) => (context: Context, rows: Row[]): HTMLElement | undefined => lines(context, rows, {
  kind: `over-${name}`, title: `Speed-up over ${name}`, caption: `The iteration time of ${name}, over that of each strategy; more is better.`,
  of, y: { label: "Times as fast", log: true, format: (value) => format.plain(value) }, across: () => ({ y: 1, label: `as fast as ${name}` }) });
export const overPsFigure = over("ps", column.overPs);
export const overRingFigure = over("ring", column.overRing);

export const slotsFigure = (context: Context, rows: Row[]): HTMLElement | undefined => lines(context, rows, {
  kind: "slots", title: "Slots for full rate", caption: "What the switch must keep in flight, so that its slots are no limit; the line across is what it has.",
  of: column.slotsNeeded, y: { label: "Slots", log: true, format: (value) => format.plain(value, 6) },
  across: (shown) => {
    const has = number(shown[0]!, "slots");
    return has ? { y: has, label: `${format.plain(has, 6)} slots` } : undefined;
  } });

export function timeFigure(context: Context, rows: Row[]): HTMLElement | undefined {
  const sizes = values(rows, "gpus");
  if (sizes.length === 0) return undefined;
  let chosen = sizes[sizes.length - 1]!;
  const built = build(context, rows, {
    kind: "parts", title: "Where the time goes", caption: "Of an iteration: compute; then what does not hide behind it, by what limits the buckets.",
    columns: [column.compute, column.inHost, column.network, column.switchLimit, column.latency],
    choice: choice("GPUs", sizes, chosen, (value) => format.plain(value, 6), (value) => { chosen = value; built.chart.redraw(); }),
    draw: (shown, width) => {
      const those = shown.filter((row) => number(row, "gpus") === chosen);
      return those.length > 0 ? drawStacks(those, context.looks, width) : undefined;
    } });
  built.chart.element.before(stackLegend());
  return built.element;
}

export function clusterFigure(context: Context, rows: Row[]): HTMLElement | undefined {
  const sizes = values(rows, "gpus");
  const names = [...context.looks.keys()].filter((series) => rows.some((row) => row.series === series));
  if (sizes.length === 0 || names.length === 0) return undefined;
  let [size, name] = [sizes[sizes.length - 1]!, 0];
  const redraw = (): void => built.chart.redraw();
  const built = build(context, rows, {
    kind: "cluster", title: "The busiest link", caption: "Which link is busy for the longest part of an iteration: the thick one.",
    columns: [column.busiest, column.busiestShare],
    choice: h("span", { class: "choices" },
      choice("Strategy", names.map((_, i) => i), 0, (i) => names[i]!, (i) => { name = i; redraw(); }),
      choice("GPUs", sizes, size, (value) => format.plain(value, 6), (value) => { size = value; redraw(); })),
    draw: (shown, width) => {
      const row = shown.find((each) => each.series === names[name] && number(each, "gpus") === size);
      return row && drawCluster(row, width);
    } });
  return built.element;
}
