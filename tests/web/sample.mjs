// Results as `passing bench --json` writes them: made up from a seed, but plausible. sample.mjs prints a file.
import { fileURLToPath } from "node:url";

/** Numbers from 0 to 1 (mulberry32). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// By strategy: tensors on the busiest link of H hosts with G ranks, share of its limit that it reaches, microseconds that
// an operation takes at least, CPU seconds per GB.
const strategies = {
  passing: [() => 1, 0.985, 160, 2.1],
  auto: [() => 1, 0.983, 150, 2.1],
  in_network: [(h, g) => g, 0.97, 140, 3.4],
  ring_hierarchical: [(h) => (2 * (h - 1)) / h, 0.96, 330, 2.9],
  ring: [(h, g) => (2 * (h * g - 1)) / (h * g), 0.95, 620, 3.8],
  halving_doubling: [(h, g) => (2 * g * (h - 1)) / h, 0.9, 210, 3.6],
  ps_sharded: [(h, g) => (2 * g * (h - 1)) / h, 0.93, 400, 4.1],
  ps_hierarchical: [(h) => h, 0.95, 380, 2.4],
  ps: [(h, g) => h * g, 0.94, 560, 3.9],
  gloo: [(h, g) => (2 * (h * g - 1)) / (h * g), 0.87, 900, 5.2, true],
  gloo_hd: [(h, g) => (2 * g * (h - 1)) / h, 0.88, 520, 5.6, true],
  openmpi: [(h, g) => (2 * g * (h - 1)) / h, 0.55, 240, 6.1, true],
  openmpi_ring: [(h, g) => (2 * (h * g - 1)) / (h * g), 0.8, 820, 4.9, true],
};
export const allStrategies = Object.keys(strategies);

function result(random, strategy, { hosts, ranks, rate, bytes }) {
  const [tensors, reach, latency, cpu, peer = false] = strategies[strategy];
  const payload = strategy === "passing" || strategy === "auto" || strategy === "in_network" ? 1408 / 1486 : 1448 / 1514;
  const noise = () => 1 + 0.03 * (random() - 0.5);
  const least = Math.round((bytes * tensors(hosts, ranks)) / payload);
  const limit = rate === 0 ? 0 : (8 * least) / rate;
  const median = (rate === 0 ? bytes * 1.6e-9 * cpu * ranks : limit / reach) * noise() + latency * 1e-6 * noise();
  return {
    strategy, peer, hosts, ranks_per_host: ranks, racks: 1, servers: 1, local_domain: "host", rate_bps: rate, spine_rate_bps: 0, mtu: 1500,
    bytes, repeat: Math.max(2, Math.ceil(32e6 / bytes)), in_flight: peer ? 1 : bytes < 1e6 ? 2 : 8, samples: 5,
    median_seconds: median, min_seconds: median * (1 - 0.02 * random()), max_seconds: median * (1 + 0.09 * random()),
    latency_seconds: median * (1.1 + 0.2 * random()),
    algorithm_bandwidth: bytes / median,
    line_ratio: rate === 0 ? 0 : (8 * bytes) / median / rate,
    ceiling_ratio: rate === 0 ? 0 : (8 * bytes) / median / rate / payload,
    limit_seconds: limit, limit_ratio: limit / median,
    cpu_seconds_per_gb: cpu * noise() * (1 + 3e5 / bytes), busiest_link_bytes: Math.round(least * (1.003 + 0.01 * random())),
    busiest_link: strategy.startsWith("ps") ? "server0 up" : `host${Math.floor(random() * hosts)} up`,
    least_link_bytes: least, verified: true,
  };
}

/** Every strategy in every case: all of `hosts`, `ranks`, `rates` and `sizes`. */
export function sample({ seed = 1, hosts = [4], ranks = [2], rates = [1e9], sizes = [16e6], only = allStrategies, commit = "example" } = {}) {
  const random = generator(seed);
  const results = [];
  for (const rate of rates) for (const h of hosts) for (const g of ranks) for (const bytes of sizes) {
    const rows = only.map((strategy) => result(random, strategy, { hosts: h, ranks: g, rate, bytes }));
    for (const row of rows) {
      row.ratio_to = Object.fromEntries(rows.filter((each) => each !== row)
        .map((other) => [other.strategy, other.median_seconds / row.median_seconds]));
    }
    results.push(...rows);
  }
  return {
    format: "passing-bench", version: 1, date: "2026-11-16T11:00:00Z", commit,
    machine: { cpu: "made-up processor", cores: 2, kernel: "Linux 6.18", memory_bytes: 25274638336 },
    command: `passing bench --hosts ${hosts} --ranks ${ranks} --rate ${rates.map((rate) => `${rate / 1e9}gbit`)} --size ${sizes}`,
    results,
    absent: [{ strategy: "gloo_bcube", reason: "bcube needs a power of two" }],
  };
}

/** One strategy through every switch there is. */
export function dataplanes() {
  const file = sample({ ranks: [1], rates: [0], only: ["passing", "passing", "passing", "passing"] });
  ["userspace", "mmsg", "tc", "xdp"].forEach((dataplane, i) => Object.assign(file.results[i], {
    dataplane, machine_cpu_seconds_per_gb: 5 + 3 * i, program_seconds_per_gb: i < 2 ? 0 : 1.5, ratio_to: {},
  }));
  return file;
}

/** What a day of measurements looks like: two cases by size, and scaling. */
export function day() {
  const sizes = [1e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6];
  return [
    sample({ seed: 1, hosts: [4], ranks: [1, 2], sizes }),
    sample({ seed: 2, hosts: [2, 3, 6, 8], ranks: [2], sizes: [1e6, 16e6] }),
  ];
}

/** Results as `passing train --json` writes them: a real training and a replay, with three strategies each. */
export function training() {
  const steps = 40;
  const seconds = { ps: 0.5, gloo: 0.1, passing: 0.07 };
  const result = (mode, strategy) => {
    const step = seconds[strategy];
    const losses = mode === "real" ? Array.from({ length: steps + 2 }, (_, i) => 2.3 * Math.exp(-i / 15)) : [];
    return {
      mode, model: mode === "real" ? "digits" : "vgg16", strategy, peer: strategy === "gloo", hosts: 4, ranks_per_host: 2, servers: 1, rate_bps: 2e8,
      mtu: 1500, batch: 16, steps, rounds: 1, bytes: 1204264, samples_per_second: 128 / step, steps_per_second: 1 / step, step_seconds: step,
      compute_seconds: 0.015, exposed_communication_seconds: step - 0.015, busiest_link_bytes: 1.3e6 * (step / 0.07), busiest_link: "host0 up",
      losses, step_ends: Array.from({ length: steps }, (_, i) => (i + 1) * step), speedup_over_ps: 0.5 / step, final_loss: losses.at(-1) ?? null,
      speedup_over: Object.fromEntries(Object.keys(seconds).filter((other) => other !== strategy).map((other) => [other, seconds[other] / step])),
      ...(mode === "replay" ? { gpu: "V100", equivalent_bps: 1e10 } : {}),
    };
  };
  return {
    format: "passing-train", version: 1, date: "2026-03-01T10:00:00Z", commit: "0123456789ab", command: "passing train --hosts 4 --ranks 2",
    machine: { cpu: "Some CPU", cores: 2, kernel: "Linux 6.1", memory_bytes: 8e9 },
    results: ["real", "replay"].flatMap((mode) => Object.keys(seconds).map((strategy) => result(mode, strategy))),
  };
}

/** Results as `passing simulate --json` writes them: two models, up to 65,536 GPUs, with all strategies but one beyond 1,024. */
export function simulation() {
  const names = ["ps", "ps_hierarchical", "ps_sharded", "halving_doubling", "ring", "ring_hierarchical", "in_network", "passing", "passing:rack"];
  const result = (model, gpus, name, i) => {
    const time = (index) => 0.25 + 0.01 * (names.length - index) * Math.log2(gpus);
    const iteration = time(i);
    const through = name === "in_network" || name.startsWith("passing");
    return {
      strategy: name.split(":")[0], local_domain: name.endsWith(":rack") ? "rack" : "host", model, cluster: "some", gpus, level: gpus > 1024 ? "folded" : "explicit",
      hosts: gpus / 8, gpus_per_host: 8, racks: Math.ceil(gpus / 128), servers: 8, rate_bps: 1e11, oversubscription: 2, placement: "tree", slots: 4096, beside: "",
      bytes: 553430176, buckets: 6, iteration_seconds: iteration, compute_seconds: 0.25, communication_seconds: iteration - 0.1, exposed_communication_seconds: iteration - 0.25,
      scaling_efficiency: 0.25 / iteration, speedup_over_ps: time(0) / iteration,
      busiest_link: gpus > 1024 ? "every host up" : ["server0 up", "rack0 down", "host0 bus", "switch slots"][i % 4], busiest_link_bytes: 1e9 + i, busiest_link_share: 0.5,
      in_host_seconds: 0.001 * i, network_seconds: iteration - 0.25 - 0.001 * i - 0.002, switch_seconds: 0.001, latency_seconds: 0.001,
      slots_needed: through ? 300 + i : null, switch_memory_bytes: through ? 512 * (300 + i) : null, switch_levels: through ? 2 : null,
      speedup_over: Object.fromEntries(names.flatMap((other, index) => (other === name ? [] : [[other, time(index) / iteration]]))),
    };
  };
  return {
    format: "passing-simulate", version: 1, date: "2026-03-01T10:00:00Z", commit: "0123456789ab", command: "passing simulate --cluster some --sweep gpus=8..65536",
    machine: { cpu: "Some CPU", cores: 2, kernel: "Linux 6.1", memory_bytes: 8e9 },
    absent: [{ strategy: "in_network", gpus: 65536, reason: "in_network would give a switch of some 256 members, and it takes 64" }],
    results: ["vgg16", "resnet50"].flatMap((model) => [8, 64, 1024, 65536].flatMap((gpus) =>
      names.map((name, i) => [name, i]).filter(([name]) => name !== "in_network" || gpus <= 1024).map(([name, i]) => result(model, gpus, name, i)))),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(JSON.stringify(day()[Number(process.argv[2] ?? 0)]));
}
