"""Samples in the lab: runs a command in some hosts and reads what ranks and links say; the peers of bench/peers by name."""

import json
import os
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOSTS = 4
ROUNDS = 5

# Payload over wire bytes at MTU 1500: 352 elements, our header, UDP, IPv4, Ethernet.
PAYLOAD = 352 * 4
CEILING = PAYLOAD / (PAYLOAD + 36 + 8 + 20 + 14)

# What every link of two `hosts` or more must carry at least, (up, down) of each in tensors, whatever the algorithm.
LEAST = {
    "all_reduce": lambda hosts, host: (2 * (hosts - 1) / hosts,) * 2,
    "broadcast": lambda hosts, host: (1, 0) if host == 0 else (0, 1),
    "all_gather": lambda hosts, host: (1 / hosts, (hosts - 1) / hosts),
    "reduce_scatter": lambda hosts, host: ((hosts - 1) / hosts, 1 / hosts),
    "all_to_all": lambda hosts, host: ((hosts - 1) / hosts,) * 2,
}


def program(build, name):
    path = os.path.join(ROOT, build, name)
    if not os.path.exists(path):
        raise RuntimeError(f"{path} is absent: was its library found when it was built?")
    return path


def with_links(build, arguments, command, least=1.0, environment={}, hosts=HOSTS, ranks=1):
    """Runs a command in a lab of `hosts` with `ranks` each; returns the ranks' JSON lines, and what links carried. `least`:
    what each link must carry at least in each direction, in tensors, or a function of the host that returns (up, down)."""
    with tempfile.TemporaryDirectory(prefix="passing-claim-") as scratch:
        links = os.path.join(scratch, "links.json")
        output = subprocess.check_output(
            [program(build, "passing"), "lab", "run", "--hosts", str(hosts), "--ranks", str(ranks), "--plain", "--json", links,
             *arguments, "--", *[word.replace("@SCRATCH@", scratch) for word in command]], text=True, stderr=subprocess.STDOUT,
            env={**os.environ, **{name: value.replace("@SCRATCH@", scratch) for name, value in environment.items()}})
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        with open(links) as file:
            carried = json.load(file)["links"]
    if len(rows) != hosts * ranks or not all(row["ok"] and row["verified"] for row in rows):
        raise RuntimeError("a rank did not report a right result: " + output)
    # A link that carried less than its strategy's minimum did not do what the strategy is.
    moved = rows[0]["bytes"] * rows[0]["repeat"]
    for link in carried:
        if link["kind"] == "rack":
            continue  # what an uplink must carry depends on the strategy: those who measure it say so
        up, down = least(link["host"]) if callable(least) else (least, least)
        if link["up_bytes"] < up * moved or link["down_bytes"] < down * moved:
            raise RuntimeError(f"link of host {link['host']} carried fewer than {up * moved:.0f} bytes up, {down * moved:.0f} down: {link}")
    return rows, carried


def in_lab(*arguments, **options):
    """The ranks' lines of with_links()."""
    return with_links(*arguments, **options)[0]


def median_seconds(rows):
    return statistics.median(row["median_seconds"] for row in rows)


def slowest_total(rows):
    return max(row["total_seconds"] for row in rows)


MPI = ["mpirun.openmpi", "--allow-run-as-root",
       "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader", "--mca", "btl_tcp_if_include", "eth0",
       "--mca", "oob_tcp_if_include", "eth0", "--mca", "plm_rsh_no_tree_spawn", "1", "--bind-to", "none",
       "-x", "PASSING_LAB", "-x", "PEER_ALGORITHM", "--mca", "coll_tuned_use_dynamic_rules", "1"]

# What Open MPI is told beyond its defaults; all its settings for an algorithm begin with coll_tuned_. "polling" is no
# algorithm: its ranks then keep their cores while they wait, which is its default where there are cores enough.
MCA = {
    "default": {},
    "polling": {},
    "all_reduce ring": {"allreduce_algorithm": 4},
    # Segments above its eager limit, 64 KB, are slower by far.
    "broadcast pipeline": {"bcast_algorithm": 3, "bcast_algorithm_segmentsize": 32768},
    "broadcast scatter_allgather_ring": {"bcast_algorithm": 9},
    "all_gather ring": {"allgather_algorithm": 4},
    "all_gather neighbor": {"allgather_algorithm": 5},
    "reduce_scatter block": {"reduce_scatter_block_algorithm": 3},
    "all_to_all pairwise": {"alltoall_algorithm": 2},
}


def peer_with_links(build, name, collective, elements, repeat, rate=None, in_flight=1, warm_up=2, least=None, hosts=HOSTS, ranks=1):
    """The rows and links of one of bench/peers, by a name such as "gloo bcube" or "passing ring": the library, and its
    algorithm. "passing ... allocated" has its data in memory that the communicator gives."""
    library, algorithm = name.split(" ", 1)
    command = [program(build, "peer_" + library), collective, str(elements), str(repeat), str(warm_up), str(in_flight)]
    arguments = ["--rate", rate] if rate else []
    environment = {"PASSING_DIRECTORY": "@SCRATCH@", "PEER_ALGORITHM": ""}
    if library == "passing":
        strategy, *allocated = algorithm.split()
        environment = {"PASSING_STRATEGY": strategy}
        if allocated:
            # All buffers, and some for what is not allocated.
            environment |= {"PEER_ALLOCATED": "1", "PASSING_SHARED_BYTES": str((in_flight + 1) * 4 * elements + (32 << 20))}
        if strategy == "ps":
            # Strategies are the ranks' business: the servers must not see them.
            command = ["env", "PASSING_STRATEGY=ps", *command]
            environment = {}
            arguments += ["--servers", "1"]
        elif strategy != "in_network" and (strategy not in ("passing", "auto") or hosts == 1):
            environment["PASSING_DIRECTORY"] = "@SCRATCH@"
            arguments += ["--no-switch"]
    elif library == "gloo":
        environment["PEER_ALGORITHM"] = algorithm
        arguments += ["--no-switch"]
    else:
        if algorithm.endswith(" block"):
            environment["PEER_ALGORITHM"] = "block"
        settings = [word for key, value in MCA[algorithm].items() for word in ("--mca", "coll_tuned_" + key, str(value))]
        command = [*MPI, "-np", str(hosts * ranks), "--host", ",".join(f"10.77.0.{h + 2}:{ranks}" for h in range(hosts)),
                   "--mca", "mpi_yield_when_idle", "0" if algorithm == "polling" else "1", *settings,
                   "--mca", "plm_rsh_agent", program(build, "passing") + " lab agent", *command]
        arguments += ["--no-switch", "--once"]
    if least is None:
        def least(host):
            return LEAST[collective](hosts, host) if hosts > 1 else (0, 0)
    return with_links(build, arguments, command, least, environment, hosts, ranks)


def peer(*arguments, **options):
    """The rows of peer_with_links()."""
    return peer_with_links(*arguments, **options)[0]
