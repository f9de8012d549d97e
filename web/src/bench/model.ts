// The rows of all files in one list, and the cases that they belong to. Fields: docs/report.md.
import * as format from "../format";
import type { Report } from "../page";

/** One measured strategy of one case at one size. What an older file lacks is undefined. */
export interface Row {
  readonly report: number; // which file
  readonly index: number; // which of its results
  readonly fields: Readonly<Record<string, unknown>>;
  /** The strategy, whether hosts of a rack sum first, and the switch's dataplane unless it is the usual one: "passing:rack",
   * "passing@tc". As in ratio_to. */
  readonly name: string;
  readonly peer: boolean;
  /** What is drawn as one line: the name, and which file if several have the same. */
  series: string;
}

export interface Source {
  file: string;
  commit: string;
  command: string;
  date: string;
  machine: Record<string, unknown>;
  /** The shortest name that tells this file from the others. */
  name: string;
}

export interface Absent {
  strategy: string;
  reason: string;
}

export interface Bench {
  sources: Source[];
  rows: Row[];
  absent: Absent[];
}

const text = (value: unknown): string => (typeof value === "string" && value !== "" ? value : format.dash);

const own = (object: unknown, key: string): unknown =>
  typeof object === "object" && object !== null && Object.hasOwn(object, key) ? (object as Record<string, unknown>)[key] : undefined;

/** A number of a row, or undefined. "ratio_to.gloo" reaches into the object. */
export function number(row: Row, field: string): number | undefined {
  const dot = field.indexOf("."); // the first: names of strategies may have more
  const value = dot < 0 ? own(row.fields, field) : own(own(row.fields, field.slice(0, dot)), field.slice(dot + 1));
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** A number for which 0 means that there is none: limits of links that are not shaped. */
export const positive = (row: Row, field: string): number | undefined => number(row, field) || undefined;

export function read(reports: Report[]): Bench {
  const sources = reports.map(({ file, content }): Source => ({
    file,
    commit: text(content.commit),
    command: text(content.command),
    date: text(content.date),
    machine: (typeof content.machine === "object" && content.machine ? content.machine : {}) as Record<string, unknown>,
    name: file,
  }));
  const commits = new Set(sources.map((source) => source.commit));
  if (commits.size === sources.length) for (const source of sources) source.name = source.commit;
  const rows = reports.flatMap(({ content }, report) =>
    (content.results as Record<string, unknown>[]).map((fields, index): Row => {
      const elsewhere = typeof fields.dataplane === "string" && fields.dataplane !== "" && fields.dataplane !== "userspace";
      const name = text(fields.strategy) + (fields.local_domain === "rack" ? ":rack" : "") + (elsewhere ? `@${fields.dataplane}` : "");
      return { report, index, fields, name, peer: fields.peer === true, series: name };
    }));
  tellApart(rows, sources);
  const absent = new Map<string, Absent>();
  for (const { content } of reports) {
    for (const each of (content.absent ?? []) as Record<string, unknown>[]) {
      const one = { strategy: text(each.strategy), reason: text(each.reason) };
      absent.set(JSON.stringify(one), one);
    }
  }
  return { sources, rows, absent: [...absent.values()] };
}

// Two files with the same strategy in the same case are a comparison: before and after.
function tellApart(rows: Row[], sources: Source[]): void {
  const seen = new Map<string, number>();
  const clash = rows.some((row) => {
    const key = JSON.stringify([row.name, caseKey(row), number(row, "bytes")]);
    const first = seen.get(key) ?? row.report;
    seen.set(key, first);
    return first !== row.report;
  });
  if (clash) for (const row of rows) row.series = `${row.name} (${sources[row.report]!.name})`;
}

/** What makes two rows comparable, the size apart. Not what a strategy chooses: operations in flight, the local domain. */
export const caseFields =
  ["hosts", "ranks_per_host", "racks", "servers", "rate_bps", "spine_rate_bps", "mtu"] as const;
export type CaseField = (typeof caseFields)[number];

/** The case of a row as a key; without the field along which a chart goes. */
export function caseKey(row: Row, without?: CaseField): string {
  return JSON.stringify(caseFields.filter((field) => field !== without).map((field) => row.fields[field] ?? null));
}

export function caseTitle(row: Row, without?: CaseField): string {
  const say = (field: CaseField, words: (value: number) => string): string | false => {
    const value = number(row, field);
    return field !== without && value !== undefined && words(value);
  };
  const racks = number(row, "racks") ?? 1;
  const parts = [
    [say("hosts", (n) => format.plural(n, "host")), say("ranks_per_host", (n) => format.plural(n, "rank") + (without === "hosts" ? " per host" : ""))]
      .filter(Boolean).join(" × "),
    racks > 1 && say("racks", (n) => format.plural(n, "rack")),
    (number(row, "servers") ?? 0) > 1 && say("servers", (n) => format.plural(n, "server")),
    say("rate_bps", (n) => (n === 0 ? "links not shaped" : format.rate(n))),
    (number(row, "spine_rate_bps") ?? 0) > 0 && say("spine_rate_bps", (n) => `spine ${format.rate(n)}`),
    say("mtu", (n) => (n === 1500 ? "" : `MTU ${n}`)),
  ];
  return parts.filter(Boolean).join(", ") || "Unknown case";
}

/** Rows in groups, in the order in which the groups first appear. */
export function groups(rows: Row[], key: (row: Row) => string): Row[][] {
  const found = new Map<string, Row[]>();
  for (const row of rows) {
    const group = found.get(key(row));
    if (group) group.push(row);
    else found.set(key(row), [row]);
  }
  return [...found.values()];
}

/** The different values of a number, ascending. */
export function values(rows: Row[], field: string): number[] {
  const all = rows.map((row) => number(row, field)).filter((value) => value !== undefined);
  return [...new Set(all)].sort((a, b) => a - b);
}

/** Bandwidth in bits per second, by the file's own figure where it has one. */
export function bandwidth(row: Row): number | undefined {
  const measured = number(row, "algorithm_bandwidth");
  if (measured !== undefined) return 8 * measured;
  const size = number(row, "bytes");
  const time = positive(row, "median_seconds");
  return size !== undefined && time !== undefined ? (8 * size) / time : undefined;
}

/** The most that the links allow this strategy, in bits per second. */
export function bandwidthLimit(row: Row): number | undefined {
  const size = number(row, "bytes");
  const least = positive(row, "limit_seconds");
  return size !== undefined && least !== undefined ? (8 * size) / least : undefined;
}

/** How many times as fast as `peer`: by the file's own figure, else from the medians. */
export function ratioTo(row: Row, peer: Row): number | undefined {
  const measured = number(row, `ratio_to.${peer.name}`);
  if (measured !== undefined) return measured;
  const [ours, theirs] = [positive(row, "median_seconds"), positive(peer, "median_seconds")];
  return ours !== undefined && theirs !== undefined ? theirs / ours : undefined;
}
