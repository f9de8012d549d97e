// The fields of a result of `passing simulate`: how they are called and written.
import * as format from "../format";
import type { Row } from "../bench/model";
import type { Column } from "../bench/table";

export const column = {
  gpus: { title: "GPUs", field: "gpus", show: String },
  iteration: { title: "Iteration", field: "iteration_seconds", show: format.seconds },
  efficiency: { title: "Scaling efficiency", field: "scaling_efficiency", show: format.percent },
  overPs: { title: "Over ps", field: "speedup_over_ps", show: format.times },
  overRing: { title: "Over ring", field: "speedup_over.ring", show: format.times },
  compute: { title: "Compute", field: "compute_seconds", show: format.seconds },
  communication: { title: "Communication", field: "communication_seconds", show: format.seconds },
  exposed: { title: "Exposed", field: "exposed_communication_seconds", show: format.seconds },
  inHost: { title: "In the host", field: "in_host_seconds", show: format.seconds },
  network: { title: "Network", field: "network_seconds", show: format.seconds },
  switchLimit: { title: "Switch limit", field: "switch_seconds", show: format.seconds },
  latency: { title: "Latency", field: "latency_seconds", show: format.seconds },
  slots: { title: "Slots", field: "slots", show: String },
  slotsNeeded: { title: "Slots needed", field: "slots_needed", show: String },
  memory: { title: "Switch memory needed", field: "switch_memory_bytes", show: (value) => format.bytes(Number(value.toPrecision(3))) },
  levels: { title: "Levels of switches", field: "switch_levels", show: String },
  busiest: { title: "Busiest link", field: "busiest_link" },
  busiestShare: { title: "It is busy", field: "busiest_link_share", show: format.percent },
  level: { title: "Level", field: "level" },
} satisfies Record<string, Column>;

/** What the table of a case shows. */
export const columns: Column[] = [column.gpus, column.iteration, column.communication, column.exposed, column.efficiency, column.overPs,
  column.overRing, column.busiest, column.busiestShare, column.level];

/** All there is; a column for each strategy that others are compared with. */
export const everything = (rows: Row[]): Column[] => [
  { title: "Model", field: "model" },
  { title: "Cluster", field: "cluster" },
  { title: "Local domain", field: "local_domain" },
  { title: "Hosts", field: "hosts", show: String },
  { title: "GPUs per host", field: "gpus_per_host", show: String },
  { title: "Racks", field: "racks", show: String },
  { title: "Servers", field: "servers", show: String },
  { title: "Links", field: "rate_bps", show: format.rate },
  { title: "Oversubscription", field: "oversubscription", show: String },
  { title: "Switch", field: "placement" },
  { title: "Beside", field: "beside" },
  { title: "Gradients", field: "bytes", show: (value) => format.bytes(Number(value.toPrecision(3))) },
  { title: "Buckets", field: "buckets", show: String },
  ...columns.filter((each) => each !== column.overRing),
  column.compute, column.inHost, column.network, column.switchLimit, column.latency, column.slots, column.slotsNeeded, column.memory, column.levels,
  { title: "Bytes on the busiest link", field: "busiest_link_bytes", show: (value) => format.bytes(Number(value.toPrecision(3))) },
  ...[...new Set(rows.flatMap((row) => Object.keys((row.fields.speedup_over as object | undefined) ?? {})))].sort()
    .map((name): Column => ({ title: `Against ${name}`, field: `speedup_over.${name}`, show: format.times })),
];
