// The fields of a result of `passing train`: how they are called and written.
import * as format from "../format";
import type { Row } from "../bench/model";
import type { Column } from "../bench/table";

const loss: Column = { title: "Final loss", field: "final_loss", show: (value) => format.significant(value, 4) };

/** What the table of a model shows. */
export const columns: Column[] = [
  { title: "Samples/s", field: "samples_per_second" },
  { title: "Compute", field: "compute_seconds", show: format.seconds },
  { title: "Exposed communication", field: "exposed_communication_seconds", show: format.seconds },
  { title: "Whole step", field: "step_seconds", show: format.seconds },
  { title: "Over ps", field: "speedup_over_ps", show: format.times },
  { title: "Busiest link", field: "busiest_link_bytes", show: (value) => format.bytes(Number(value.toPrecision(3))) },
  loss,
];

/** All there is; a column for each strategy that others are compared with. */
export const everything = (rows: Row[]): Column[] => [
  { title: "Mode", field: "mode" },
  { title: "Model", field: "model" },
  { title: "GPU", field: "gpu" },
  { title: "Stands for", field: "equivalent_bps", show: format.rate },
  { title: "Hosts", field: "hosts", show: String },
  { title: "Ranks per host", field: "ranks_per_host", show: String },
  { title: "Servers", field: "servers", show: String },
  { title: "Links", field: "rate_bps", show: format.rate },
  { title: "MTU", field: "mtu", show: String },
  { title: "Batch", field: "batch", show: String },
  { title: "Gradients", field: "bytes", show: format.bytes },
  { title: "Steps", field: "steps", show: String },
  { title: "Rounds", field: "rounds", show: String },
  { title: "Steps/s", field: "steps_per_second" },
  ...columns,
  { title: "Which link", field: "busiest_link" },
  ...[...new Set(rows.flatMap((row) => Object.keys((row.fields.speedup_over as object | undefined) ?? {})))].sort()
    .map((name): Column => ({ title: `Against ${name}`, field: `speedup_over.${name}`, show: format.times })),
];
