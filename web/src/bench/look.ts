// How a strategy looks: colour by family, shape by member, solid for ours and dashed for peers, so that nobody has
// to tell them apart by colour alone. Colours are variables of style/page.css, one set per theme.
import type { SymbolType } from "@observablehq/plot";
import type { Row } from "./model";

export interface Look {
  color: string;
  symbol: SymbolType;
  /** Stroke pattern; none for ours. */
  dash?: string;
  hollow: boolean;
  width: number;
}

const ours = (color: string, symbol: SymbolType, width = 1.8): Look =>
  ({ color: `var(--${color})`, symbol, hollow: false, width });
const peer = (color: string, symbol: SymbolType, dash: string): Look =>
  ({ color: `var(--${color})`, symbol, dash, hollow: true, width: 1.6 });

const looks: Record<string, Look> = {
  passing: ours("blue", "circle", 2.8),
  auto: ours("ink", "diamond"),
  in_network: ours("sky", "square"),
  ring_hierarchical: ours("vermilion", "triangle"),
  ring: ours("amber", "diamond"),
  halving_doubling: ours("green", "star"),
  ps: ours("purple", "square"),
  ps_hierarchical: ours("purple", "triangle"),
  ps_sharded: ours("purple", "cross"),
  gloo: peer("brown", "circle", "7 3"),
  gloo_bcube: peer("brown", "square", "2 3"),
  gloo_hd: peer("brown", "triangle", "7 3 2 3"),
  openmpi: peer("slate", "diamond", "7 3"),
  openmpi_ring: peer("slate", "star", "2 3"),
};
const spareColors = ["green", "vermilion", "sky", "amber", "purple", "ink"];
const spareSymbols: SymbolType[] = ["wye", "cross", "star", "triangle", "diamond"];

// The order of legends and bars: ours from the plain to the best, then the peers.
const order = ["passing", "auto", "in_network", "ring_hierarchical", "ring", "halving_doubling", "ps_sharded",
  "ps_hierarchical", "ps", "gloo", "gloo_bcube", "gloo_hd", "openmpi", "openmpi_ring"];

const base = (row: Row): string => row.name.replace(/@.*$/, "").replace(/:rack$/, "");

// The same strategy through another switch: its colour stays, the shape tells which.
const dataplanes: Record<string, { symbol: SymbolType; dash: string }> = {
  mmsg: { symbol: "cross", dash: "2 3" },
  tc: { symbol: "square", dash: "9 3" },
  xdp: { symbol: "triangle", dash: "5 2" },
};
const through = (row: Row): { symbol: SymbolType; dash: string } | undefined => {
  const dataplane = row.name.split("@")[1];
  return dataplane !== undefined && Object.hasOwn(dataplanes, dataplane) ? dataplanes[dataplane] : undefined;
};

/** The looks of all series of a page, in the order of its legends. */
export function lookUp(rows: Row[]): Map<string, Look> {
  const first = new Map<string, Row>();
  for (const row of rows) if (!first.has(row.series)) first.set(row.series, row);
  const rank = (row: Row): number => {
    const at = order.indexOf(base(row));
    return at >= 0 ? at + (row.name === base(row) ? 0 : 0.5) : row.peer ? 1000 : 8.5;
  };
  const sorted = [...first.values()].sort((a, b) => rank(a) - rank(b));
  const found = new Map<string, Look>();
  let spare = 0;
  for (const row of sorted) {
    let look = Object.hasOwn(looks, base(row)) ? looks[base(row)]! : undefined;
    if (look && row.name !== base(row)) look = { ...look, symbol: "wye", width: 1.8, ...through(row) };
    if (!look) {
      const color = spareColors[spare % spareColors.length]!;
      const symbol = spareSymbols[spare++ % spareSymbols.length]!;
      look = row.peer ? peer(color, symbol, "4 2") : ours(color, symbol);
    }
    // The same strategy of a later file: the same colour and shape, but with gaps, and open where the first is solid.
    const later = row.report > 0 && row.series !== row.name;
    found.set(row.series, later ? { ...look, dash: look.dash ? "12 3 2 3" : "12 4", hollow: !look.hollow } : look);
  }
  return found;
}
