// Tables of rows. A cell names its row and field, and carries the number of the file unrounded.
import { h } from "../dom";
import * as format from "../format";
import { number, type Bench, type Row } from "./model";

export interface Column {
  title: string;
  /** Path in a result; undefined for what is computed here. */
  field?: string;
  value?: (row: Row) => number | undefined;
  show?: (value: number, row: Row) => string;
}

const limited = (show: (value: number) => string) => (value: number): string => (value === 0 ? format.dash : show(value));

const words = new Set(["local_domain", "dataplane", "busiest_link", "error", "mode", "model", "gpu", "cluster", "level", "placement", "beside"]);

/** Every field of a result: how it is called and written. */
export const columns = {
  hosts: { title: "Hosts", field: "hosts", show: String },
  ranks: { title: "Ranks per host", field: "ranks_per_host", show: String },
  servers: { title: "Servers", field: "servers", show: String },
  racks: { title: "Racks", field: "racks", show: String },
  domain: { title: "Local domain", field: "local_domain" },
  rate: { title: "Links", field: "rate_bps", show: format.rate },
  spine: { title: "Spine", field: "spine_rate_bps", show: limited(format.rate) },
  mtu: { title: "MTU", field: "mtu", show: String },
  size: { title: "Size", field: "bytes", show: format.bytes },
  repeat: { title: "Repeat", field: "repeat", show: String },
  inFlight: { title: "In flight", field: "in_flight", show: String },
  samples: { title: "Samples", field: "samples", show: String },
  median: { title: "Median time", field: "median_seconds", show: format.seconds },
  min: { title: "Least", field: "min_seconds", show: format.seconds },
  max: { title: "Most", field: "max_seconds", show: format.seconds },
  latency: { title: "Latency", field: "latency_seconds", show: format.seconds },
  limit: { title: "Limit", field: "limit_seconds", show: limited(format.seconds) },
  limitRatio: { title: "Of its limit", field: "limit_ratio", show: limited(format.percent) },
  bandwidth: { title: "Bandwidth", field: "algorithm_bandwidth", show: (value) => format.speed(8 * value) },
  lineRatio: { title: "Of the link rate", field: "line_ratio", show: limited(format.percent) },
  ceilingRatio: { title: "Of the ceiling", field: "ceiling_ratio", show: limited(format.percent) },
  dataplane: { title: "Dataplane", field: "dataplane" },
  cpu: { title: "CPU per GB", field: "cpu_seconds_per_gb", show: format.seconds },
  machineCpu: { title: "Whole machine per GB", field: "machine_cpu_seconds_per_gb", show: format.seconds },
  program: { title: "In programs per GB", field: "program_seconds_per_gb", show: limited(format.seconds) },
  busiest: { title: "Busiest link", field: "busiest_link_bytes", show: format.bytes },
  busiestLink: { title: "Which link", field: "busiest_link" },
  busiestTensors: {
    title: "In tensors",
    value: (row) => inTensors(row, "busiest_link_bytes"),
    show: (value) => format.significant(value, 4),
  },
  least: { title: "Least possible", field: "least_link_bytes", show: limited(format.bytes) },
  verified: { title: "Verified", field: "verified" },
  error: { title: "Error", field: "error" },
} satisfies Record<string, Column>;

export function inTensors(row: Row, field: string): number | undefined {
  const [link, size] = [number(row, field), number(row, "bytes")];
  return link !== undefined && size ? link / size : undefined;
}

/** A column for each that some row is compared with; of all, or of peers only. */
export function ratioColumns(rows: Row[], peersOnly = false): Column[] {
  const others = new Set(rows.flatMap((row) => Object.keys((row.fields.ratio_to as object | undefined) ?? {})));
  const peers = new Set(rows.filter((row) => row.peer).map((row) => row.name));
  return [...others].filter((name) => !peersOnly || peers.has(name)).sort().map((peer) => ({ title: `Against ${peer}`, field: `ratio_to.${peer}`, show: format.times }));
}

function cell(row: Row, column: Column): HTMLElement {
  const where = { "data-report": row.report, "data-row": row.index, "data-field": column.field };
  const value = column.field ? number(row, column.field) : column.value?.(row);
  if (value !== undefined) {
    return h("td", { ...where, "data-value": value, title: column.field && String(value) },
      column.show ? column.show(value, row) : format.significant(value));
  }
  const other = column.field ? row.fields[column.field] : undefined;
  if (typeof other === "boolean") {
    return h("td", { ...where, "data-value": String(other), class: other ? "yes" : "no" }, other ? "✓ yes" : "✗ no");
  }
  if (typeof other === "string" && other !== "") return h("td", { ...where, "data-value": other, class: "word" }, other);
  return h("td", { ...where, class: "missing" }, format.dash);
}

export function table(bench: Bench, rows: Row[], label: string, chosen: Column[]): HTMLElement {
  const several = bench.sources.length > 1;
  const head = h("tr", {}, h("th", { scope: "col" }, "Strategy"),
    ...chosen.map((column) => h("th", { scope: "col", class: words.has(column.field ?? "") && "word" }, column.title)), several && h("th", { scope: "col", class: "word" }, "Commit"));
  const body = rows.map((row) => h("tr", {},
    h("th", { scope: "row", "data-report": row.report, "data-row": row.index, "data-field": "strategy",
      "data-value": typeof row.fields.strategy === "string" ? row.fields.strategy : undefined }, row.name),
    ...chosen.map((column) => cell(row, column)),
    several && h("td", { class: "word" }, bench.sources[row.report]!.commit)));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", {}, h("caption", { class: "unseen" }, label), h("thead", {}, head), h("tbody", {}, ...body)));
}

/** The command and the commit of the files that these rows come from. */
export function provenance(bench: Bench, rows: Row[]): HTMLElement {
  const used = [...new Set(rows.map((row) => row.report))].sort((a, b) => a - b);
  return h("div", { class: "provenance" }, ...used.map((report) => {
    const source = bench.sources[report]!;
    return h("p", {}, h("code", { class: "command" }, source.command), " at ", h("code", { class: "commit" }, source.commit));
  }));
}
