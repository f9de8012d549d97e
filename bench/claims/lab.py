"""Samples in the lab: runs a command in 4 hosts and reads what ranks and links say; the peers of bench/peers by name."""

import json
import os
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOSTS = 4
ROUNDS = 5

# What every link must carry at least, (up, down) of each host in tensors, whatever the algorithm.
LEAST = {
    "all_reduce": lambda host: (2 * (HOSTS - 1) / HOSTS,) * 2,
    "broadcast": lambda host: (1, 0) if host == 0 else (0, 1),
    "all_gather": lambda host: (1 / HOSTS, (HOSTS - 1) / HOSTS),
    "reduce_scatter": lambda host: ((HOSTS - 1) / HOSTS, 1 / HOSTS),
    "all_to_all": lambda host: ((HOSTS - 1) / HOSTS,) * 2,
}


def program(build, name):
    path = os.path.join(ROOT, build, name)
    if not os.path.exists(path):
        raise RuntimeError(f"{path} is absent: was its library found when it was built?")
    return path


def in_lab(build, arguments, command, least=1.0, environment={}, **options):
    """Runs a command in a lab of 4 hosts; returns the ranks' JSON lines. `least`: what each link must carry at least
    in each direction, in tensors, or a function of the host that returns (up, down)."""
    with tempfile.TemporaryDirectory(prefix="passing-claim-") as scratch:
        links = os.path.join(scratch, "links.json")
        output = subprocess.check_output(
            [program(build, "passing"), "lab", "run", "--hosts", str(HOSTS), "--plain", "--json", links, *arguments,
             "--", *[word.replace("@SCRATCH@", scratch) for word in command]], text=True, stderr=subprocess.STDOUT,
            env={**os.environ, **{name: value.replace("@SCRATCH@", scratch) for name, value in environment.items()}}, **options)
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        with open(links) as file:
            carried = json.load(file)["links"]
    if len(rows) != HOSTS or not all(row["ok"] and row["verified"] for row in rows):
        raise RuntimeError("a rank did not report a right result: " + output)
    # A link that carried less than its strategy's minimum did not do what the strategy is.
    moved = rows[0]["bytes"] * rows[0]["repeat"]
    for link in carried:
        up, down = least(link["host"]) if callable(least) else (least, least)
        if link["up_bytes"] < up * moved or link["down_bytes"] < down * moved:
            raise RuntimeError(f"link of host {link['host']} carried fewer than {up * moved:.0f} bytes up, {down * moved:.0f} down: {link}")
    return rows


def median_seconds(rows):
    return statistics.median(row["median_seconds"] for row in rows)


def slowest_total(rows):
    return max(row["total_seconds"] for row in rows)


MPI = ["mpirun.openmpi", "--allow-run-as-root", "-np", str(HOSTS), "--host", ",".join(f"10.77.0.{h + 2}:1" for h in range(HOSTS)),
       "--mca", "pml", "ob1", "--mca", "btl", "tcp,self,vader", "--mca", "btl_tcp_if_include", "eth0",
       "--mca", "oob_tcp_if_include", "eth0", "--mca", "plm_rsh_no_tree_spawn", "1", "--bind-to", "none",
       "--mca", "mpi_yield_when_idle", "1", "-x", "PASSING_LAB", "-x", "PEER_ALGORITHM",
       "--mca", "coll_tuned_use_dynamic_rules", "1"]

# What Open MPI is told beyond its defaults; all its settings for an algorithm begin with coll_tuned_.
MCA = {
    "default": {},
    "all_reduce ring": {"allreduce_algorithm": 4},
    # Segments above its eager limit, 64 KB, are slower by far.
    "broadcast pipeline": {"bcast_algorithm": 3, "bcast_algorithm_segmentsize": 32768},
    "broadcast scatter_allgather_ring": {"bcast_algorithm": 9},
    "all_gather ring": {"allgather_algorithm": 4},
    "all_gather neighbor": {"allgather_algorithm": 5},
    "reduce_scatter block": {"reduce_scatter_block_algorithm": 3},
    "all_to_all pairwise": {"alltoall_algorithm": 2},
}


def peer(build, name, collective, elements, repeat, rate=None, in_flight=1, warm_up=2, least=None):
    """The rows of one of bench/peers, by a name such as "gloo bcube" or "passing ring": the library, and its algorithm."""
    library, algorithm = name.split(" ", 1)
    command = [program(build, "peer_" + library), collective, str(elements), str(repeat), str(warm_up), str(in_flight)]
    arguments = ["--rate", rate] if rate else []
    environment = {"PASSING_DIRECTORY": "@SCRATCH@", "PEER_ALGORITHM": ""}
    if library == "passing":
        environment = {"PASSING_STRATEGY": algorithm}
        if algorithm == "ps":
            # Strategies are the ranks' business: the servers must not see them.
            command = ["env", "PASSING_STRATEGY=ps", *command]
            environment = {}
            arguments += ["--servers", "1"]
        elif algorithm != "in_network":
            environment["PASSING_DIRECTORY"] = "@SCRATCH@"
            arguments += ["--no-switch"]
    elif library == "gloo":
        environment["PEER_ALGORITHM"] = algorithm
        arguments += ["--no-switch"]
    else:
        if algorithm.endswith(" block"):
            environment["PEER_ALGORITHM"] = "block"
        settings = [word for key, value in MCA[algorithm].items() for word in ("--mca", "coll_tuned_" + key, str(value))]
        command = [*MPI, *settings, "--mca", "plm_rsh_agent", program(build, "passing") + " lab agent", *command]
        arguments += ["--no-switch", "--once"]
    return in_lab(build, arguments, command, least or LEAST[collective], environment)
