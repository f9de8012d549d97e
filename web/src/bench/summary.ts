// The figures that matter most, the unfavourable ones among them: every case counts, best against best.
import { h } from "../dom";
import * as format from "../format";
import { caseKey, caseTitle, groups, number, positive, ratioTo, type Bench, type Row } from "./model";
import { inTensors } from "./table";

interface Match {
  rows: Row[];
  ours: Row;
  peer?: Row;
  ratio?: number;
}

const time = (row: Row): number => positive(row, "median_seconds") ?? Infinity;
const fastest = (rows: Row[]): Row | undefined =>
  rows.filter((row) => time(row) < Infinity).reduce<Row | undefined>((best, row) => (best && time(best) <= time(row) ? best : row), undefined);

function matches(bench: Bench): Match[] {
  const found: Match[] = [];
  // Files are not mixed: a ratio is taken within one run.
  for (const rows of groups(bench.rows, (row) => JSON.stringify([row.report, caseKey(row), number(row, "bytes") ?? null]))) {
    const ours = fastest(rows.filter((row) => !row.peer));
    const peer = fastest(rows.filter((row) => row.peer));
    if (ours) found.push({ rows, ours, peer, ratio: peer && ratioTo(ours, peer) });
  }
  return found;
}

function middle(numbers: number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

function range(numbers: number[], show: (value: number) => string): string {
  const [least, most] = [show(Math.min(...numbers)), show(Math.max(...numbers))];
  return least === most ? `each ${least}` : `from ${least} to ${most}`;
}

export function card(kind: string, figure: string, what: string, detail: string, bad = false): HTMLElement {
  const [, number, unit] = /^([\d.,]*)(.*)$/.exec(figure)!;
  return h("div", { class: bad ? "key card bad" : "key card", "data-key": kind },
    h("p", { class: "figure" }, number, unit && h("small", {}, unit)), h("p", { class: "what" }, what), h("p", { class: "detail" }, detail));
}

// The strategy that the cards speak of: passing, or else the one that is fastest most often.
function hero(found: Match[]): string | undefined {
  if (found.some(({ rows }) => rows.some((row) => row.name === "passing"))) return "passing";
  const wins = groups(found.map(({ ours }) => ours), (row) => row.name).sort((a, b) => b.length - a.length);
  return wins[0]?.[0]?.name;
}

function cards(bench: Bench, found: Match[]): HTMLElement[] {
  const name = hero(found);
  const result: HTMLElement[] = [];
  const ratios = found.flatMap(({ rows, peer }) => {
    const row = peer && fastest(rows.filter((each) => each.name === name));
    const ratio = row && ratioTo(row, peer);
    return ratio === undefined ? [] : [ratio];
  });
  if (ratios.length > 0) {
    const wins = ratios.filter((ratio) => ratio > 1).length;
    result.push(card("ratio", format.times(middle(ratios)), `the speed of the fastest peer, by ${name}`,
      ratios.length === 1 ? "In one comparison."
        : `Median of ${ratios.length} comparisons, ${range(ratios, format.times)}; faster in ${wins}.`));
  }
  // The largest size of each case: there links decide, not latency.
  const largest = groups(bench.rows.filter((row) => row.name === name), (row) => JSON.stringify([row.report, caseKey(row)]))
    .map((rows) => rows.reduce((best, row) => ((number(row, "bytes") ?? 0) > (number(best, "bytes") ?? 0) ? row : best)));
  const limits = largest.map((row) => positive(row, "limit_ratio")).filter((value): value is number => value !== undefined);
  if (limits.length > 0) {
    result.push(card("limit", format.percent(middle(limits)), `of what the links allow ${name}`,
      limits.length === 1 ? "At the largest size." : `At the largest size of ${limits.length} cases, ${range(limits, format.percent)}.`));
  }
  const links = largest.map((row) => inTensors(row, "busiest_link_bytes")).filter((value): value is number => value !== undefined);
  if (links.length > 0) {
    const least = largest.map((row) => inTensors(row, "least_link_bytes")).filter((value): value is number => Boolean(value));
    result.push(card("link", format.tensors(middle(links)), `over the busiest link, by ${name}`,
      [links.length > 1 && `${range(links, format.significant)}`, least.length > 0 && `least possible ${format.significant(middle(least))}`]
        .filter(Boolean).join("; ").replace(/^./, (letter) => letter.toUpperCase()) + "."));
  }
  const known = bench.rows.filter((row) => typeof row.fields.verified === "boolean");
  if (known.length > 0) {
    const right = known.filter((row) => row.fields.verified === true).length;
    const bad = right < known.length;
    result.push(card("verified", `${right} of ${bench.rows.length}`, "results verified",
      bad ? `${known.length - right} failed, or had wrong sums.` : "Compared with the exact sums.", bad));
  }
  return result;
}

function winners(bench: Bench, found: Match[]): HTMLElement {
  const head = ["Size", "Fastest of ours", "Time", "Of its limit", "Fastest peer", "Its time", "Speed against it"];
  const several = bench.rows.some((row) => row.series !== row.name);
  const value = (row: Row | undefined, field: string, show: (value: number) => string): HTMLElement => {
    const its = row && positive(row, field);
    return its === undefined ? h("td", { class: "missing" }, format.dash)
      : h("td", { "data-report": row!.report, "data-row": row!.index, "data-field": field, "data-value": its, title: its }, show(its));
  };
  const title = (row: Row): string => caseTitle(row) + (several ? ` (${bench.sources[row.report]!.name})` : "");
  const row = ({ ours, peer, ratio }: Match): HTMLElement => h("tr", {},
    h("th", { scope: "row", "data-report": ours.report, "data-row": ours.index, "data-field": "bytes", "data-value": number(ours, "bytes") },
      format.bytes(number(ours, "bytes") ?? NaN)),
    h("td", { class: "word" }, ours.name),
    value(ours, "median_seconds", format.seconds),
    value(ours, "limit_ratio", format.percent),
    h("td", { class: peer ? "word" : "missing" }, peer?.name ?? format.dash),
    value(peer, "median_seconds", format.seconds),
    ratio === undefined ? h("td", { class: "missing" }, format.dash)
      : h("td", { class: ratio >= 1 ? "ratio ahead" : "ratio behind", "data-ratio": ratio }, format.times(ratio),
        h("span", { class: "unseen" }, ratio >= 1 ? " ahead" : " behind")));
  // A heading for each case: on a phone there is no room for it as a column.
  const bodies = groups(found.map(({ ours }) => ours), title).map((cases) => h("tbody", {},
    h("tr", {}, h("th", { scope: "rowgroup", colspan: head.length }, title(cases[0]!))),
    ...found.filter(({ ours }) => cases.includes(ours)).map(row)));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The fastest in each case" },
    h("table", { id: "fastest" },
      h("caption", { class: "unseen" }, "The fastest in each case"),
      h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col", class: /^Fastest/.test(text) && "word" }, text)))), ...bodies));
}

export function keyFigures(bench: Bench): HTMLElement {
  const found = matches(bench);
  return h("section", { class: "summary", "aria-label": "Key figures" },
    h("div", { class: "keys" }, ...cards(bench, found)),
    found.length > 0 && h("div", { class: "card" }, h("h2", {}, "The fastest in each case"), winners(bench, found)));
}
