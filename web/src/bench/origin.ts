// What was run: command, commit, machine, date; and what could not be.
import { h } from "../dom";
import * as format from "../format";
import { caseTitle, number, type Bench, type Row, type Source } from "./model";

function machine(source: Source): string {
  const { cpu, cores, kernel, memory_bytes: memory } = source.machine;
  const parts = [
    typeof cpu === "string" ? (typeof cores === "number" ? `${cores} × ${cpu}` : cpu) : typeof cores === "number" && format.plural(cores, "core"),
    typeof memory === "number" && `${format.bytes(memory)} of memory`,
    typeof kernel === "string" && kernel,
  ];
  return parts.filter(Boolean).join(", ") || format.dash;
}

export function origin(bench: Bench): HTMLElement {
  const one = (source: Source, index: number): HTMLElement => {
    const rows = bench.rows.filter((row) => row.report === index).length;
    const entry = (term: string, ...value: (Node | string)[]): HTMLElement =>
      h("div", {}, h("dt", {}, term), h("dd", {}, ...value));
    return h("li", { "data-source": index },
      h("code", { class: "command" }, source.command),
      h("dl", {},
        entry("Commit", h("code", { class: "commit" }, source.commit)),
        entry("Date", format.date(source.date)),
        entry("Machine", machine(source)),
        entry("Results", `${rows} in ${source.file}`)));
  };
  const failed = bench.rows.filter((row) => typeof row.fields.error === "string");
  const where = (row: Row): string => `${caseTitle(row)}, ${format.bytes(number(row, "bytes") ?? NaN)}`;
  return h("div", { class: "origins" },
    h("ol", { class: "card", "aria-label": "What was run" }, ...bench.sources.map(one)),
    failed.length > 0 && h("div", { class: "notice failed", id: "failed" },
      h("b", {}, "Failed"),
      h("ul", {}, ...failed.map((row) => h("li", {}, h("b", {}, row.name), ` (${where(row)}): ${String(row.fields.error)}`)))),
    bench.absent.length > 0 && h("div", { class: "notice", id: "absent" },
      h("b", {}, "Not measured"),
      h("ul", {}, ...bench.absent.map((each) => h("li", {}, h("b", {}, each.strategy), `: ${each.reason}`)))));
}
