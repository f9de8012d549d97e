// The charts of a benchmark, each from some of its rows.
import { drawBars, type Bar } from "../chart/bars";
import { Chart } from "../chart/chart";
import { choice, figure } from "../chart/figure";
import { drawLines, type Axis, type Point } from "../chart/lines";
import type { Visibility } from "../chart/visibility";
import * as format from "../format";
import type { Look } from "./look";
import { bandwidth, bandwidthLimit, number, positive, values, type Bench, type CaseField, type Row } from "./model";
import { columns, inTensors, provenance, ratioColumns, table, type Column } from "./table";

/** What all figures of a page share. */
export interface Context {
  bench: Bench;
  looks: Map<string, Look>;
  visibility: Visibility;
}

/** The legend's name for the limits, beside those of series. */
export const limitsName = "limits";

interface Content {
  kind: string;
  title: string;
  caption: string;
  columns: Column[];
  /** Sizes to choose from, where the chart shows one at a time. */
  sizes?: number[];
  draw: (rows: Row[], width: number) => ReturnType<typeof drawLines>;
}

function build(context: Context, rows: Row[], content: Content): HTMLElement {
  const { bench, visibility } = context;
  let size = content.sizes?.[content.sizes.length - 1];
  const chart = new Chart(content.title, (width) => {
    const shown = rows.filter((row) => visibility.shows(row.series) && (size === undefined || number(row, "bytes") === size));
    return shown.length > 0 ? content.draw(shown, width) : undefined;
  });
  visibility.onChange(() => chart.redraw());
  const select = content.sizes && content.sizes.length > 1
    ? choice("Size", content.sizes, size!, format.bytes, (chosen) => { size = chosen; chart.redraw(); })
    : undefined;
  return figure({ ...content, chart, choice: select, rows: rows.length,
    table: table(bench, rows, `${content.title}, as a table`, content.columns), provenance: provenance(bench, rows) });
}

const having = (rows: Row[], value: (row: Row) => number | undefined): Row[] =>
  rows.filter((row) => value(row) !== undefined);

// One unit for a whole axis.
function rateAxis(rows: Row[]): { unit: number; axis: Axis } {
  const most = Math.max(...rows.map((row) => Math.max(bandwidth(row) ?? 0, number(row, "rate_bps") ?? 0)));
  const [unit, label] = most >= 1e9 ? [1e9, "Gbit/s"] : [1e6, "Mbit/s"];
  return { unit, axis: { label, log: false, format: (value) => format.plain(value) } };
}

const told = (label: string, value: number | undefined, show: (value: number) => string): string[] =>
  value === undefined ? [] : [`${label}${show(value)}`];

function bandwidthLines(context: Context, rows: Row[], along: CaseField | "bytes", x: Axis, width: number): ReturnType<typeof drawLines> {
  const { unit, axis } = rateAxis(rows);
  const points = rows.map((row): Point => {
    const limit = bandwidthLimit(row);
    return {
      series: row.series,
      x: number(row, along)!,
      y: bandwidth(row)! / unit,
      limit: limit && limit / unit,
      lines: [
        x.format(number(row, along)!) + (along === "hosts" ? " hosts" : along === "ranks_per_host" ? " ranks per host" : ""),
        format.speed(bandwidth(row)!),
        ...told("", positive(row, "limit_ratio"), (ratio) => `${format.percent(ratio)} of its limit`),
      ],
    };
  });
  const rate = rows.length > 0 ? positive(rows[0]!, "rate_bps") : undefined;
  return drawLines({ points, looks: context.looks, x, y: axis, limits: context.visibility.shows(limitsName),
    across: rate ? { y: rate / unit, label: `link rate ${format.rate(rate)}` } : undefined }, width);
}

const sizeAxis: Axis = { label: "Tensor size", log: true, format: format.bytes };
const shapedCaption = " Dotted: the most that the links allow that strategy.";
const shaped = (rows: Row[]): boolean => rows.some((row) => bandwidthLimit(row) !== undefined);

export function bandwidthFigure(context: Context, all: Row[]): HTMLElement | undefined {
  const rows = having(having(all, bandwidth), (row) => positive(row, "bytes"));
  if (rows.length === 0) return undefined;
  const content = {
    kind: "bandwidth",
    title: "Bandwidth",
    columns: [columns.size, columns.bandwidth, columns.lineRatio, columns.ceilingRatio, columns.limitRatio, columns.inFlight, ...ratioColumns(rows, true)],
  };
  const explained = `Bytes of the tensor over the time of one all-reduce; more is better.`;
  if (values(rows, "bytes").length > 1) {
    return build(context, rows, { ...content, title: "Bandwidth by size",
      caption: explained + (shaped(rows) ? shapedCaption : ""),
      draw: (shown, width) => bandwidthLines(context, shown, "bytes", sizeAxis, width) });
  }
  return build(context, rows, { ...content, title: `Bandwidth at ${format.bytes(number(rows[0]!, "bytes")!)}`,
    caption: explained + (shaped(rows) ? " The tick: the most that the links allow that strategy." : ""),
    draw: (shown, width) => {
      const { unit, axis } = rateAxis(shown);
      return drawBars({ looks: context.looks, label: axis.label, format: axis.format,
        bars: shown.map((row): Bar => {
          const limit = bandwidthLimit(row);
          return { series: row.series, value: bandwidth(row)! / unit, mark: limit && limit / unit,
            label: format.speed(bandwidth(row)!),
            lines: [format.speed(bandwidth(row)!), ...told("", positive(row, "limit_ratio"), (ratio) => `${format.percent(ratio)} of its limit`)] };
        }) }, width);
    } });
}

export function timeFigure(context: Context, all: Row[]): HTMLElement | undefined {
  const rows = having(having(all, (row) => positive(row, "median_seconds")), (row) => positive(row, "bytes"));
  // With one size the bars of bandwidth say it already.
  if (values(rows, "bytes").length < 2) return undefined;
  return build(context, rows, {
    kind: "time",
    title: "Time by size",
    caption: "Median time of one all-reduce, with the least and the most of the samples; less is better.",
    columns: [columns.size, columns.median, columns.min, columns.max, columns.latency, columns.limit, columns.repeat, columns.samples, columns.verified],
    draw: (shown, width) => drawLines({
      looks: context.looks, limits: false, x: sizeAxis,
      y: { label: "Time", log: true, format: format.secondsTick },
      points: shown.map((row): Point => ({
        series: row.series,
        x: number(row, "bytes")!,
        y: number(row, "median_seconds")!,
        low: positive(row, "min_seconds"),
        high: positive(row, "max_seconds"),
        lines: [
          format.bytes(number(row, "bytes")!),
          format.seconds(number(row, "median_seconds")!),
          ...told("at least ", positive(row, "min_seconds"), format.seconds),
          ...told("at most ", positive(row, "max_seconds"), format.seconds),
        ],
      })),
    }, width),
  });
}

export function linkFigure(context: Context, all: Row[]): HTMLElement | undefined {
  const rows = having(all, (row) => inTensors(row, "busiest_link_bytes"));
  if (rows.length === 0) return undefined;
  const sizes = values(rows, "bytes");
  return build(context, rows, {
    kind: "link",
    title: "Bytes on the busiest link",
    caption: "What it carries one way for one all-reduce, headers included, in tensors; less is better. The tick: the least possible for that strategy.",
    columns: [columns.size, columns.busiest, columns.busiestTensors, columns.busiestLink, columns.least],
    sizes,
    draw: (shown, width) => drawBars({
      looks: context.looks, label: "Tensors", format: (value) => format.plain(value),
      bars: shown.map((row): Bar => {
        const value = inTensors(row, "busiest_link_bytes")!;
        const least = inTensors(row, "least_link_bytes") || undefined;
        const link = row.fields.busiest_link;
        return { series: row.series, value, mark: least, label: format.significant(value),
          lines: [format.tensors(value), ...told("at least ", least, format.significant), ...(typeof link === "string" ? [link] : [])] };
      }),
    }, width),
  });
}

const kernel = (row: Row): boolean => row.fields.dataplane === "tc" || row.fields.dataplane === "xdp";

export function cpuFigure(context: Context, all: Row[]): HTMLElement | undefined {
  // What a switch in the kernel costs is nobody's CPU time: beside one, the whole machine counts for all.
  const whole = all.some(kernel);
  const field = whole ? "machine_cpu_seconds_per_gb" : "cpu_seconds_per_gb";
  const rows = having(having(all, (row) => number(row, field)), (row) => number(row, "bytes"));
  if (rows.length === 0) return undefined;
  return build(context, rows, {
    kind: "cpu",
    title: "CPU cost",
    caption: `CPU seconds of ${whole ? "the whole machine" : "all processes"} for each GB of tensor; less is better.`
      + (rows.some((row) => positive(row, "program_seconds_per_gb")) ? " The tick: of that, the run time of programs in the kernel." : ""),
    columns: [columns.size, columns.cpu, ...(whole ? [columns.machineCpu, columns.program] : [])],
    sizes: values(rows, "bytes"),
    draw: (shown, width) => drawBars({
      looks: context.looks, label: "CPU seconds per GB", format: (value) => format.plain(value),
      bars: shown.map((row): Bar => {
        const value = number(row, field)!;
        return { series: row.series, value, mark: positive(row, "program_seconds_per_gb"), label: `${format.significant(value)} s`, lines: [`${format.significant(value)} s per GB`] };
      }),
    }, width),
  });
}

/** One operation at a time where that was measured: dataplanes differ most there. */
export function latencyFigure(context: Context, all: Row[]): HTMLElement | undefined {
  const rows = all.some(kernel) ? having(having(all, (row) => positive(row, "latency_seconds")), (row) => number(row, "bytes")) : [];
  if (rows.length === 0) return undefined;
  return build(context, rows, {
    kind: "latency",
    title: "Latency",
    caption: "Median time from the start of an all-reduce to its end; with several in flight, the wait for those before it counts. Less is better.",
    columns: [columns.size, columns.latency, columns.inFlight],
    sizes: values(rows, "bytes"),
    draw: (shown, width) => drawBars({
      looks: context.looks, label: "Latency", format: format.secondsTick,
      bars: shown.map((row): Bar => {
        const value = number(row, "latency_seconds")!;
        return { series: row.series, value, label: format.seconds(value), lines: [format.seconds(value)] };
      }),
    }, width),
  });
}

/** Bandwidth against hosts or ranks per host; the rows differ in that and in size only. */
export function scalingFigure(context: Context, all: Row[], along: "hosts" | "ranks_per_host", title: string): HTMLElement | undefined {
  const rows = having(having(all, bandwidth), (row) => number(row, along));
  const sizes = values(rows, "bytes").filter((size) =>
    values(rows.filter((row) => number(row, "bytes") === size), along).length > 1);
  const used = rows.filter((row) => sizes.includes(number(row, "bytes") ?? NaN));
  if (used.length === 0) return undefined;
  const label = along === "hosts" ? "Hosts" : "Ranks per host";
  return build(context, used, {
    kind: along === "hosts" ? "hosts" : "ranks",
    title,
    caption: "Bandwidth of one all-reduce; a level line scales perfectly." + (shaped(used) ? shapedCaption : ""),
    columns: [along === "hosts" ? columns.hosts : columns.ranks, columns.size, columns.bandwidth, columns.median, columns.limitRatio],
    sizes,
    draw: (shown, width) => bandwidthLines(context, shown, along, { label, log: false, format: String }, width),
  });
}
