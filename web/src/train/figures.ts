// The charts of a training.
import { drawBars, type Bar } from "../chart/bars";
import { Chart, type Drawing } from "../chart/chart";
import { figure } from "../chart/figure";
import { drawLines, type Point } from "../chart/lines";
import * as format from "../format";
import type { Context } from "../bench/figures";
import { number, type Row } from "../bench/model";
import { provenance, table, type Column } from "../bench/table";

interface Content {
  kind: string;
  title: string;
  caption: string;
  columns: Column[];
  draw: (rows: Row[], width: number) => Drawing;
}

function build({ bench, visibility }: Context, rows: Row[], content: Content): HTMLElement {
  const chart = new Chart(content.title, (width) => {
    const shown = rows.filter((row) => visibility.shows(row.series));
    return shown.length > 0 ? content.draw(shown, width) : undefined;
  });
  visibility.onChange(() => chart.redraw());
  return figure({ ...content, chart, rows: rows.length, table: table(bench, rows, `${content.title}, as a table`, content.columns),
    provenance: provenance(bench, rows) });
}

const list = (row: Row, field: string): number[] => (Array.isArray(row.fields[field]) ? (row.fields[field] as number[]) : []);

// Losses of the warm-up come first; the clock starts after it.
function curve(row: Row): Point[] {
  const [losses, ends] = [list(row, "losses"), list(row, "step_ends")];
  const before = losses.length - ends.length;
  return [0, ...ends].map((x, i) => ({ x, y: losses[before + i - 1], step: before + i })).filter((point) => point.y !== undefined)
    .map(({ x, y, step }) => ({ series: row.series, x, y: y!, lines: [`step ${step}`, `after ${format.seconds(x)}`, `loss ${format.significant(y!, 4)}`] }));
}

export function lossFigure(context: Context, all: Row[]): HTMLElement | undefined {
  const rows = all.filter((row) => curve(row).length > 1);
  if (rows.length === 0) return undefined;
  return build(context, rows, {
    kind: "loss",
    title: "Loss against time",
    caption: "The mean loss of all ranks after each step. All curves have the same steps: who is further left is there earlier.",
    columns: [{ title: "Final loss", field: "final_loss", show: (value) => format.significant(value, 4) },
      { title: "Steps", field: "steps", show: String }, { title: "Whole step", field: "step_seconds", show: format.seconds }],
    draw: (shown, width) => drawLines({ looks: context.looks, limits: false, dense: true, points: shown.flatMap(curve),
      x: { label: "Time", log: false, format: (value) => `${format.plain(value)} s` },
      y: { label: "Loss", log: false, format: (value) => format.plain(value) } }, width),
  });
}

function bars(context: Context, all: Row[], field: string, content: Omit<Content, "draw" | "columns">, label: string, show: (value: number) => string,
              unit: { size: number; tick: (value: number) => string }): HTMLElement | undefined {
  const rows = all.filter((row) => number(row, field) !== undefined);
  if (rows.length === 0) return undefined;
  return build(context, rows, { ...content, columns: [{ title: content.title, field, show }],
    draw: (shown, width) => drawBars({ looks: context.looks, label, format: unit.tick,
      bars: shown.map((row): Bar => {
        const value = number(row, field)!;
        return { series: row.series, value: value / unit.size, label: show(value), lines: [show(value)] };
      }) }, width) });
}

const plain = { size: 1, tick: (value: number): string => format.plain(value) };

export const speedFigure = (context: Context, rows: Row[]): HTMLElement | undefined => bars(context, rows, "steps_per_second",
  { kind: "speed", title: "Steps per second", caption: "Of the whole training: compute, and communication that does not hide behind it; more is better." },
  "Steps per second", (value) => format.significant(value), plain);

export const communicationFigure = (context: Context, rows: Row[]): HTMLElement | undefined => bars(context, rows, "exposed_communication_seconds",
  { kind: "communication", title: "Exposed communication", caption: "By how much a step is longer than its compute; less is better." },
  "Milliseconds", format.seconds, { size: 1e-3, tick: (value) => format.plain(value) });

export const linkFigure = (context: Context, rows: Row[]): HTMLElement | undefined => bars(context, rows, "busiest_link_bytes",
  { kind: "link", title: "Bytes on the busiest link", caption: "What it carries one way in a step, headers included; less is better." },
  "MB", (value) => format.bytes(Number(value.toPrecision(3))), { size: 1e6, tick: (value) => format.plain(value) });
