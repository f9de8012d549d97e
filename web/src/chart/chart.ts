// A chart that can be read by mouse, touch and keyboard: a drawing, and a cursor that goes from point to point.
import { h, s } from "../dom";

/** A point that the cursor can stand on, in pixels of the drawing. */
export interface Target {
  x: number;
  y: number;
  series: string;
  color: string;
  title: string;
  lines: string[];
}

export interface Drawing {
  svg: SVGSVGElement;
  targets: Target[];
}

const reach = 60; // pixels from the pointer to a point that it means

export class Chart {
  readonly element: HTMLElement;
  private readonly canvas = h("div", { class: "canvas" });
  private readonly tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  private readonly said = h("p", { class: "unseen", "aria-live": "polite" });
  private readonly ring = s("circle", { r: 8, fill: "none", "stroke-width": 2 });
  private targets: Target[] = [];
  private at: Target | undefined;
  private width = 0;

  constructor(label: string, private readonly draw: (width: number) => Drawing | undefined) {
    this.element = h("div", {
      class: "chart", tabindex: 0, role: "group", "aria-roledescription": "chart",
      "aria-label": `${label}. Arrow keys go from point to point; the table below has all numbers.`,
    }, this.canvas, this.tip, this.said);
    this.element.addEventListener("pointermove", (event) => this.point(event));
    this.element.addEventListener("pointerdown", (event) => this.point(event));
    this.element.addEventListener("pointerleave", () => this.leave());
    this.element.addEventListener("blur", () => this.leave());
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      if (Math.abs(this.element.clientWidth - this.width) > 1) this.redraw();
    }).observe(this.element);
  }

  redraw(): void {
    this.width = this.element.clientWidth;
    if (this.width < 50) return; // not laid out
    this.leave();
    const drawing = this.draw(this.width);
    this.targets = drawing?.targets ?? [];
    drawing?.svg.setAttribute("aria-hidden", "true");
    this.canvas.replaceChildren(drawing?.svg ?? h("p", { class: "empty" }, "Nothing to show: all is hidden in the legend."));
  }

  private show(target: Target): void {
    this.at = target;
    this.ring.setAttribute("cx", String(target.x));
    this.ring.setAttribute("cy", String(target.y));
    this.ring.setAttribute("stroke", target.color);
    this.canvas.querySelector("svg")?.append(this.ring);
    this.tip.replaceChildren(h("b", {}, target.title), ...target.lines.map((line) => h("span", {}, line)));
    this.tip.hidden = false;
    const room = this.width - this.tip.offsetWidth;
    const left = target.x + 14 <= room ? target.x + 14 : target.x - this.tip.offsetWidth - 14;
    this.tip.style.left = `${Math.max(0, Math.min(room, left))}px`;
    this.tip.style.top = `${Math.max(0, target.y - this.tip.offsetHeight / 2)}px`;
  }

  private leave(): void {
    this.at = undefined;
    this.tip.hidden = true;
    this.ring.remove();
  }

  private point(event: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const away = (target: Target): number =>
      Math.hypot(target.x - (event.clientX - box.left), target.y - (event.clientY - box.top));
    let nearest: Target | undefined;
    for (const target of this.targets) if (!nearest || away(target) < away(nearest)) nearest = target;
    if (!nearest || away(nearest) > reach) this.leave();
    else if (nearest !== this.at) this.show(nearest);
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") return this.leave();
    const next = this.step(event.key);
    if (!next) return;
    event.preventDefault();
    this.show(next);
    this.said.textContent = [next.title, ...next.lines].join(", ");
  }

  // Left and right along a series, up and down among the points above each other.
  private step(key: string): Target | undefined {
    const from = this.at ?? this.targets[0];
    if (!from || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key)) return undefined;
    if (!this.at) return from;
    const series = this.targets.filter((target) => target.series === from.series).sort((a, b) => a.x - b.x);
    if (key === "Home") return series[0];
    if (key === "End") return series[series.length - 1];
    const along = key === "ArrowLeft" || key === "ArrowRight";
    const line = along && series.length > 1 ? series : this.column(from);
    const step = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    return line[Math.max(0, Math.min(line.length - 1, line.indexOf(from) + step))];
  }

  private column(from: Target): Target[] {
    const bars = !this.targets.some((target) => target !== from && target.series === from.series);
    return this.targets.filter((target) => bars || Math.abs(target.x - from.x) < 1).sort((a, b) => a.y - b.y);
  }
}
