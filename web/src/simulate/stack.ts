// Bars of several parts, one bar per strategy.
import { axisX, axisY, barX, gridX, legend, plot, ruleX, text } from "@observablehq/plot";
import { h } from "../dom";
import * as format from "../format";
import type { Look } from "../bench/look";
import type { Drawing, Target } from "../chart/chart";
import { number, type Row } from "../bench/model";

/** What an iteration's time goes to, from the left to the right. */
export const parts = [
  { field: "compute_seconds", name: "compute", color: "var(--slate)" },
  { field: "in_host_seconds", name: "in the host", color: "var(--green)" },
  { field: "network_seconds", name: "network", color: "var(--blue)" },
  { field: "switch_seconds", name: "switch limit", color: "var(--purple)" },
  { field: "latency_seconds", name: "latency", color: "var(--amber)" },
] as const;

export function stackLegend(): HTMLElement {
  const drawn = legend({ color: { domain: parts.map((part) => part.name), range: parts.map((part) => part.color) } }) as HTMLElement;
  return h("div", { class: "parts" }, drawn);
}

export function drawStacks(rows: Row[], looks: Map<string, Look>, width: number): Drawing {
  const order = [...looks.keys()];
  const sorted = [...rows].sort((a, b) => order.indexOf(a.series) - order.indexOf(b.series));
  const left = Math.min(width * 0.42, 12 + 6.9 * Math.max(4, ...sorted.map((row) => row.series.length)));
  const pieces = sorted.flatMap((row) => {
    let at = 0;
    return parts.map((part) => {
      const seconds = number(row, part.field) ?? 0;
      const piece = { series: row.series, from: 1e3 * at, to: 1e3 * (at + seconds), part, seconds };
      at += seconds;
      return piece;
    }).filter((piece) => piece.seconds > 0);
  });
  const ends = sorted.map((row) => ({ series: row.series, at: 1e3 * (number(row, "iteration_seconds") ?? 0) }));
  const right = 70;
  const drawn = plot({
    width, height: 26 * sorted.length + 62,
    marginLeft: left, marginRight: right, marginTop: 6, marginBottom: 40,
    style: { background: "none", fontSize: "12px", fontFamily: "inherit", color: "var(--quiet)", overflow: "visible" },
    x: { domain: [0, Math.max(...ends.map((end) => end.at)) || 1] },
    y: { domain: sorted.map((row) => row.series), padding: 0.3 },
    color: { type: "identity" },
    marks: [
      gridX({ ticks: 5, stroke: "var(--grid)", strokeOpacity: 1 }),
      axisX({ ticks: Math.max(2, Math.floor((width - left - right) / 60)), tickFormat: (value: number) => format.plain(value), label: "Milliseconds", labelArrow: "none", tickSize: 0 }),
      axisY({ label: null, tickSize: 0, fill: "var(--ink)" }),
      barX(pieces, { y: "series", x1: "from", x2: "to", fill: (piece: (typeof pieces)[number]) => piece.part.color, className: "bar" }),
      ruleX([0], { stroke: "var(--quiet)" }),
      text(ends, { y: "series", x: "at", text: (end: (typeof ends)[number]) => format.seconds(end.at / 1e3), dx: 7, textAnchor: "start", fill: "var(--ink)" }),
    ],
  }) as SVGSVGElement & ReturnType<typeof plot>;
  const px = drawn.scale("x")!;
  const py = drawn.scale("y")!;
  const targets = sorted.map((row): Target => ({
    x: px.apply(1e3 * (number(row, "iteration_seconds") ?? 0)) as number,
    y: (py.apply(row.series) as number) + (py.bandwidth ?? 0) / 2,
    series: row.series,
    color: looks.get(row.series)?.color ?? "currentColor",
    title: row.series,
    lines: parts.map((part) => `${part.name} ${format.seconds(number(row, part.field) ?? 0)}`),
  }));
  return { svg: drawn, targets };
}
