// A picture of the cluster, with the link that one strategy keeps the busiest.
import { s } from "../dom";
import * as format from "../format";
import type { Drawing } from "../chart/chart";
import { number, type Row } from "../bench/model";

const shown = { racks: 4, hosts: 4, servers: 2 };

type Kind = "host" | "rack" | "server" | "bus" | "slots" | "ingest";

function busiest(row: Row): { kind: Kind | undefined; text: string } {
  const text = typeof row.fields.busiest_link === "string" ? row.fields.busiest_link : "";
  const kind = (["bus", "slots", "ingest", "server", "rack", "host"] as const).find((each) => text.includes(each));
  return { kind, text };
}

/** The first few of many, and whether there are more. */
const first = (count: number, most: number): { count: number; more: boolean } => ({ count: Math.min(count, most), more: count > most });

export function drawCluster(row: Row, width: number): Drawing {
  const of = (field: string): number => number(row, field) ?? 1;
  const { kind, text } = busiest(row);
  const [hosts, allRacks, gpus] = [of("hosts"), of("racks"), of("gpus_per_host")];
  const racks = first(allRacks, shown.racks);
  const inRack = first(Math.ceil(hosts / allRacks), Math.max(1, Math.floor(shown.hosts * 4 / Math.max(2, racks.count) / 2)));
  const servers = first(row.name.startsWith("ps") && row.name !== "ps_sharded" ? of("servers") : 0, shown.servers);
  const height = 250;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "cluster", "font-size": 12, "font-family": "inherit" });
  const line = (x1: number, y1: number, x2: number, y2: number, of: Kind): void => {
    const hot = of === kind;
    svg.append(s("line", { x1, y1, x2, y2, class: hot ? "link busiest" : "link", stroke: hot ? "var(--bad)" : "var(--quiet)", "stroke-width": hot ? 5 : 1.5 }));
  };
  const box = (x: number, y: number, w: number, label: string, of?: Kind): void => {
    const hot = of !== undefined && (of === kind || (of === "slots" && kind === "ingest"));
    svg.append(
      s("rect", { x: x - w / 2, y: y - 13, width: w, height: 26, rx: 5, class: hot ? "busiest" : undefined, fill: "var(--card)",
        stroke: hot ? "var(--bad)" : "var(--quiet)", "stroke-width": hot ? 4 : 1.2 }),
      s("text", { x, y: y + 4, "text-anchor": "middle", fill: "var(--ink)" }, label));
  };
  const note = (x: number, y: number, label: string): void => {
    svg.append(s("text", { x, y, "text-anchor": "middle", fill: "var(--quiet)" }, label));
  };
  const sums = row.fields.placement !== "none" && (row.name.startsWith("passing") || row.name === "in_network");
  const tree = row.fields.placement === "tree";
  const [top, middle, low] = [30, 110, 190];
  const left = servers.count > 0 ? width * 0.78 : width;
  const center = left / 2;
  const several = allRacks > 1;
  const rackAt = (i: number): number => (left * (i + 0.5)) / (racks.count + (racks.more ? 0.4 : 0));
  const space = left / (racks.count + (racks.more ? 0.4 : 0));
  const boxWidth = Math.max(26, Math.min(58, (space * 0.9) / (inRack.count + (inRack.more ? 0.5 : 0)) - 6));
  for (let rack = 0; rack < racks.count; ++rack) {
    const x = several ? rackAt(rack) : center;
    if (several) line(center, top, x, middle, "rack");
    for (let host = 0; host < inRack.count; ++host) {
      const at = x + (host - (inRack.count - 1) / 2) * (boxWidth + 6);
      line(x, several ? middle : top, at, low, "host");
      box(at, low, boxWidth, boxWidth < 40 ? `${gpus}` : `${gpus} GPU${gpus === 1 ? "" : "s"}`, "bus");
    }
    if (inRack.more) note(x + ((inRack.count + 0.3) / 2) * (boxWidth + 6) + 6, low + 4, "…");
    if (several) box(x, middle, Math.min(96, space * 0.9), sums && tree ? "sums" : "forwards", sums && tree ? "slots" : undefined);
  }
  if (racks.more) note(left - 14, middle + 4, "…");
  for (let server = 0; server < servers.count; ++server) {
    const x = width * 0.86;
    const y = top + 40 + server * 46;
    line(center, top, x, y, "server");
    box(x, y, 74, `server ${server}`);
    if (servers.more && server === servers.count - 1) note(x, y + 34, "…");
  }
  box(center, top, Math.min(150, width * 0.5), sums ? "switch: sums" : several ? "spine" : "switch", sums ? "slots" : undefined);
  note(width / 2, height - 14, `${format.plural(hosts, "host")} × ${gpus} in ${format.plural(allRacks, "rack")}, links ${format.rate(of("rate_bps"))}`);
  const share = number(row, "busiest_link_share");
  return { svg, targets: [{ x: center, y: top, series: row.series, color: "var(--bad)", title: row.series,
    lines: [`busiest: ${text || format.dash}`, ...(share === undefined ? [] : [`busy ${format.percent(share)} of the iteration`])] }] };
}
