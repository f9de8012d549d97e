// Lines over a number: one per series, each with its limit as dots.
import { axisX, axisY, dot, gridX, gridY, lineY, plot, ruleX, ruleY, text } from "@observablehq/plot";
import type { Markish } from "@observablehq/plot";
import type { Look } from "../bench/look";
import type { Drawing, Target } from "./chart";

export interface Point {
  series: string;
  x: number;
  y: number;
  /** The best that the links allow at this x. */
  limit?: number;
  /** Least and most of the samples. */
  low?: number;
  high?: number;
  lines: string[];
}

export interface Axis {
  label: string;
  log: boolean;
  format: (value: number) => string;
}

export interface LineSpec {
  points: Point[];
  looks: Map<string, Look>;
  x: Axis;
  y: Axis;
  limits: boolean;
  /** Many points along the way: a mark at the end of each line only, and ticks at round numbers. */
  dense?: boolean;
  /** A line across that all share, such as the rate of the links. */
  across?: { y: number; label: string };
}

const margin = { left: 52, right: 18, top: 26, bottom: 38 };

// As many of the values as have room for their labels, the last one always among them.
function thinned(values: number[], log: boolean, width: number, format: (value: number) => string): number[] {
  const place = (value: number): number => (log ? Math.log(value) : value);
  const [first, last] = [values[0]!, values[values.length - 1]!];
  const scale = (width - margin.left - margin.right) / (place(last) - place(first) || 1);
  const room = 14 + 6.6 * Math.max(...values.map((value) => format(value).length));
  const kept: number[] = [];
  for (const value of [...values].reverse()) {
    const next = kept[kept.length - 1];
    if (next === undefined || (place(next) - place(value)) * scale >= room) kept.push(value);
  }
  return kept.reverse();
}

// Powers of ten between the least and the greatest, so that a logarithmic axis reads like one.
function decades(low: number, high: number): number[] {
  const from = Math.floor(Math.log10(low));
  const to = Math.ceil(Math.log10(high));
  return Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i)).filter((each) => each >= low && each <= high);
}

export function drawLines(spec: LineSpec, width: number): Drawing {
  const height = Math.round(Math.max(250, Math.min(340, width * 0.62)));
  const { points, looks, x, y } = spec;
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const ys = points.flatMap((point) => [point.y, point.low, point.high, spec.limits ? point.limit : undefined])
    .filter((value): value is number => value !== undefined && (!y.log || value > 0));
  if (spec.across) ys.push(spec.across.y);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const domain = y.log ? [low / 1.3, high * 1.3] : [0, high * 1.06];
  const ticks = y.log ? decades(domain[0]!, domain[1]!) : undefined;
  const marks: Markish[] = [
    gridY({ ticks: ticks ?? 5, stroke: "var(--grid)", strokeOpacity: 1 }),
    gridX({ ticks: spec.dense ? 6 : xs, stroke: "var(--grid)", strokeOpacity: 0.6 }),
    axisX({ ticks: spec.dense ? 6 : thinned(xs, x.log, width, x.format), text: (value: number) => x.format(value), label: x.label,
      tickSize: 4, labelAnchor: "right", labelArrow: "none" }),
    // As text, not as tickFormat: that would leave out labels of a logarithmic axis as it sees fit.
    axisY({ ticks: ticks ?? 5, text: (value: number) => y.format(value), label: y.label, tickSize: 0, labelArrow: "none" }),
  ];
  if (spec.across) {
    marks.push(ruleY([spec.across.y], { stroke: "var(--ink)", strokeOpacity: 0.7, strokeWidth: 1 }),
      text([spec.across], { y: "y", text: "label", frameAnchor: "left", dx: 4, dy: -7, textAnchor: "start", fill: "var(--ink)",
        stroke: "var(--card)", strokeWidth: 3 }));
  }
  const named = [...looks].filter(([series]) => points.some((point) => point.series === series)).reverse();
  const own = (series: string): Point[] =>
    points.filter((point) => point.series === series).sort((a, b) => a.x - b.x);
  if (spec.limits) {
    for (const [series, look] of named) {
      const limits = own(series).filter((point) => point.limit !== undefined);
      marks.push(lineY(limits, { x: "x", y: "limit", stroke: look.color, strokeWidth: 1.6, strokeDasharray: "0.1 4",
        strokeLinecap: "round", className: "limit" }));
    }
  }
  for (const [series, look] of named) {
    const line = own(series);
    const spread = line.filter((point) => point.low !== undefined && point.high !== undefined);
    marks.push(
      ruleX(spread, { x: "x", y1: "low", y2: "high", stroke: look.color, strokeOpacity: 0.5, strokeWidth: 1.2 }),
      lineY(line, { x: "x", y: "y", stroke: look.color, strokeWidth: look.width, strokeDasharray: look.dash, className: "series" }),
      dot(spec.dense ? line.slice(-1) : line, { x: "x", y: "y", symbol: look.symbol, r: look.width > 2 ? 4.5 : 3.6, stroke: look.color, strokeWidth: 1.4,
        fill: look.hollow ? "var(--card)" : look.color }));
  }
  const drawn = plot({
    width, height, marks,
    marginLeft: margin.left, marginRight: margin.right, marginTop: margin.top, marginBottom: margin.bottom,
    style: { background: "none", fontSize: "12px", fontFamily: "inherit", color: "var(--quiet)", overflow: "visible" },
    x: { type: x.log ? "log" : "linear", domain: xs.length > 1 ? [xs[0]!, xs[xs.length - 1]!] : [xs[0]! / 2, xs[0]! * 2], inset: 8 },
    y: { type: y.log ? "log" : "linear", domain },
  }) as SVGSVGElement & ReturnType<typeof plot>;
  const px = drawn.scale("x")!;
  const py = drawn.scale("y")!;
  const targets = points.map((point): Target => ({
    x: px.apply(point.x) as number,
    y: py.apply(point.y) as number,
    series: point.series,
    color: looks.get(point.series)?.color ?? "currentColor",
    title: point.series,
    lines: point.lines,
  })).sort((a, b) => [...looks.keys()].indexOf(a.series) - [...looks.keys()].indexOf(b.series) || a.x - b.x);
  return { svg: drawn, targets };
}
