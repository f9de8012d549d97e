// Which series are shown. One state for the whole page: who hides a slow strategy wants it out of every chart.
import { h, s } from "../dom";
import type { Look } from "../bench/look";
import { symbolPath } from "./symbol";

export class Visibility {
  private readonly hidden = new Set<string>();
  private readonly listeners: (() => void)[] = [];

  shows(series: string): boolean {
    return !this.hidden.has(series);
  }
  toggle(series: string): void {
    if (!this.hidden.delete(series)) this.hidden.add(series);
    for (const listener of this.listeners) listener();
  }
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }
}

/** A sample of a line with its mark, as it is drawn. */
export function swatch(look: Look): SVGSVGElement {
  return s("svg", { class: "swatch", viewBox: "0 0 30 14", width: 30, height: 14, "aria-hidden": "true" },
    s("line", { x1: 0, x2: 30, y1: 7, y2: 7, stroke: look.color, "stroke-width": look.width, "stroke-dasharray": look.dash }),
    s("path", { d: symbolPath(look.symbol), transform: "translate(15 7)", stroke: look.color, "stroke-width": 1.5,
      fill: look.hollow ? "var(--card)" : look.color }));
}

/** Buttons that show and hide series. */
export function legend(series: [string, Look][], visibility: Visibility, extra: { name: string; label: string }[] = []): HTMLElement {
  const list = h("div", { class: "legend", role: "group", "aria-label": "Show or hide" });
  const add = (name: string, label: string, sample: Node): void => {
    const button = h("button", { type: "button", "data-series": name }, sample, label);
    const show = (): void => button.setAttribute("aria-pressed", String(visibility.shows(name)));
    button.addEventListener("click", () => visibility.toggle(name));
    visibility.onChange(show);
    show();
    list.append(button);
  };
  for (const [name, look] of series) add(name, name, swatch(look));
  for (const { name, label } of extra) {
    add(name, label, s("svg", { class: "swatch", viewBox: "0 0 30 14", width: 30, height: 14, "aria-hidden": "true" },
      s("line", { x1: 1, x2: 30, y1: 7, y2: 7, stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": "0.5 3.5", "stroke-linecap": "round" })));
  }
  return list;
}
