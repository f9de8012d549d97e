// A figure: what it shows, the chart, its table, and where the numbers come from.
import { fresh, h } from "../dom";
import type { Chart } from "./chart";

export interface FigureParts {
  kind: string;
  title: string;
  /** One or two sentences: how to read it. */
  caption: string;
  chart: Chart;
  /** A choice that the chart depends on, such as the size. */
  choice?: HTMLElement;
  table: HTMLElement;
  rows: number;
  provenance: HTMLElement;
}

export function figure(parts: FigureParts): HTMLElement {
  const id = fresh("figure");
  return h("figure", { class: "card", "data-figure": parts.kind, "aria-labelledby": id },
    h("figcaption", {},
      h("div", { class: "heading" }, h("h3", { id }, parts.title), parts.choice),
      h("p", {}, parts.caption)),
    parts.chart.element,
    h("details", {},
      h("summary", {}, "Table", h("span", { class: "count" }, ` ${parts.rows}`), h("span", { class: "unseen" }, ` of ${parts.title}`)),
      parts.table),
    parts.provenance);
}

/** A choice among numbers; the one chosen first is `chosen`. */
export function choice(label: string, options: number[], chosen: number, say: (value: number) => string,
                       onChange: (value: number) => void): HTMLElement {
  const select = h("select", {}, ...options.map((value) =>
    h("option", { value, selected: value === chosen }, say(value))));
  select.addEventListener("change", () => onChange(Number(select.value)));
  return h("label", { class: "choice" }, h("span", {}, label), select);
}
