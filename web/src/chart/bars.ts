// Bars to the right, one per series, with a tick where the least possible is.
// From 0 to a value, not just a value: Plot would put two bars of a series on top of each other.
import { axisX, barX, gridX, plot, ruleX, text, tickX, axisY } from "@observablehq/plot";
import type { Look } from "../bench/look";
import type { Drawing, Target } from "./chart";

export interface Bar {
  series: string;
  value: number;
  /** The least, or the most, that is possible. */
  mark?: number;
  /** What is written at the end of the bar. */
  label: string;
  lines: string[];
}

export interface BarSpec {
  bars: Bar[];
  looks: Map<string, Look>;
  label: string;
  format: (value: number) => string;
}

export function drawBars(spec: BarSpec, width: number): Drawing {
  const order = [...spec.looks.keys()];
  const bars = [...spec.bars].sort((a, b) => order.indexOf(a.series) - order.indexOf(b.series));
  const longest = Math.max(4, ...bars.map((bar) => bar.series.length));
  const left = Math.min(width * 0.42, 12 + 6.9 * longest);
  const right = 12 + 6.6 * Math.max(...bars.map((bar) => bar.label.length));
  const most = Math.max(...bars.flatMap((bar) => [bar.value, bar.mark ?? 0])) || 1;
  const color = (series: string): string => spec.looks.get(series)?.color ?? "currentColor";
  // Peers are open bars: told apart without colour.
  const hollow = (bar: Bar): boolean => spec.looks.get(bar.series)?.hollow ?? false;
  const solid = bars.filter((bar) => !hollow(bar));
  const open = bars.filter(hollow);
  const marked = bars.filter((bar) => bar.mark !== undefined);
  const paint = (bar: Bar): string => color(bar.series);
  const drawn = plot({
    width, height: 26 * bars.length + 62,
    marginLeft: left, marginRight: right, marginTop: 6, marginBottom: 40,
    style: { background: "none", fontSize: "12px", fontFamily: "inherit", color: "var(--quiet)", overflow: "visible" },
    x: { domain: [0, most] },
    y: { domain: bars.map((bar) => bar.series), padding: 0.3 },
    color: { type: "identity" },
    marks: [
      gridX({ ticks: 5, stroke: "var(--grid)", strokeOpacity: 1 }),
      axisX({ ticks: Math.max(2, Math.floor((width - left - right) / 50)), tickFormat: (value: number) => spec.format(value), label: spec.label, labelArrow: "none", tickSize: 0 }),
      axisY({ label: null, tickSize: 0, fill: "var(--ink)" }),
      barX(solid, { y: "series", x1: 0, x2: "value", fill: paint, rx: 2, className: "bar" }),
      barX(open, { y: "series", x1: 0, x2: "value", fill: paint, fillOpacity: 0.18, stroke: paint, strokeWidth: 1.5, strokeDasharray: "5 2", rx: 2, className: "bar" }),
      tickX(marked, { y: "series", x: "mark", stroke: "var(--ink)", strokeWidth: 2.4, insetTop: -3, insetBottom: -3, className: "least" }),
      ruleX([0], { stroke: "var(--quiet)" }),
      text(bars, { y: "series", x: (bar: Bar) => Math.max(bar.value, bar.mark ?? 0), text: "label", dx: 7, textAnchor: "start", fill: "var(--ink)" }),
    ],
  }) as SVGSVGElement & ReturnType<typeof plot>;
  const px = drawn.scale("x")!;
  const py = drawn.scale("y")!;
  const targets = bars.map((bar): Target => ({
    x: px.apply(bar.value) as number,
    y: (py.apply(bar.series) as number) + (py.bandwidth ?? 0) / 2,
    series: bar.series,
    color: color(bar.series),
    title: bar.series,
    lines: bar.lines,
  }));
  return { svg: drawn, targets };
}
