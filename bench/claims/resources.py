"""Claims about what the project costs those who use it: processor time, threads, memory, and minutes of `make test`."""

import json
import os
import shutil
import subprocess
import tempfile
import time

from lab import ROOT, in_lab
from switch import ours


def idle(field):
    """What a communicator costs that does nothing: the worst of 4 ranks, through the switch."""
    def measure(build):
        output = subprocess.check_output(
            [os.path.join(ROOT, build, "passing"), "lab", "run", "--hosts", "4", "--plain", "--",
             os.path.join(ROOT, build, "peer_passing"), "idle", "4"], text=True, stderr=subprocess.STDOUT,
            env={**os.environ, "PASSING_STRATEGY": "in_network"})
        return max(json.loads(line)[field] for line in output.splitlines() if line.startswith("{"))
    return measure


def switch_memory(build):
    """Peak resident memory of a switch whose slots have nearly all been used, in MB."""
    command = os.path.join(ROOT, build, "passing")
    lab = subprocess.Popen([command, "lab", "run", "--hosts", "2", "--plain", "--", command, "all-reduce", "--elements", "8000000",
                            "--lanes", "10", "--slots", "1024", "--repeat", "2", "--pause", "3"], stdout=subprocess.DEVNULL)
    peak = 0
    while lab.poll() is None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    words = file.read().split("\0")
                with open(f"/proc/{pid}/status") as file:
                    status = dict(line.split(":", 1) for line in file if ":" in line)
            except OSError:
                continue
            if words[1:2] == ["switch"] and int(status["PPid"]) == lab.pid:
                peak = max(peak, int(status["VmHWM"].split()[0]))
        time.sleep(0.2)
    if lab.returncode != 0 or peak == 0:
        raise RuntimeError("the job failed, or no switch was seen")
    return peak / 1024


def member_memory(build):
    """What a member needs beyond its tensors, in MB."""
    rows = in_lab(build, [], ours(build, 4_000_000, 5))
    return max(row["resident_kb"] - row["tensor_kb"] for row in rows) / 1024


def many_jobs(build):
    """How many jobs one switch was seen to run at the same time, all of them right on both members."""
    script = ("for j in $(seq 64); do PASSING_JOB=j$j @ all-reduce --elements 20000 --repeat 4 --pause 6 --slots 64"
              " --join-timeout 120 --timeout 120 --json & done;"
              "if [ $PASSING_RANK = 0 ]; then for i in $(seq 40); do @ status $PASSING_CONTROLLER --json; sleep 0.5; done; fi; wait")
    output = subprocess.run([os.path.join(ROOT, build, "passing"), "lab", "run", "--hosts", "2", "--plain", "--", "sh", "-c",
                             script.replace("@", os.path.join(ROOT, build, "passing"))], text=True, stdout=subprocess.PIPE).stdout
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    right = sum(row.get("ok", False) for row in rows) / 2
    running = max(sum(job["state"] == "running" for job in row["jobs"]) for row in rows if "jobs" in row)
    return min(right, running)


def clean_clone(_build):
    """Minutes that `make test` takes in a fresh clone, compiler cache off."""
    scratch = tempfile.mkdtemp(prefix="passing-clone-")
    try:
        subprocess.check_call(["git", "clone", "-q", ROOT, scratch + "/clone"])
        begin = time.monotonic()
        subprocess.check_call(["make", "test"], cwd=scratch + "/clone", stdout=subprocess.DEVNULL,
                              env={**os.environ, "CCACHE_DISABLE": "1"})
        return (time.monotonic() - begin) / 60
    finally:
        shutil.rmtree(scratch)


def claims():
    return [
        ("idle-cpu", "an idle communicator: CPU", "<=", 0.5, "% of a core", idle("cpu_percent")),
        ("idle-threads", "threads of a communicator", "<=", 2, "threads", idle("threads")),
        ("switch-memory", "memory of a switch with the default slots", "<", 64, "MB", switch_memory),
        ("member-memory", "memory of a member beyond its tensor", "<", 16, "MB", member_memory),
        ("many-jobs", "64 jobs at once on one switch, all right", ">=", 64, "jobs", many_jobs),
        ("clean-clone", "make test from a clean clone, dependencies installed", "<", 20, "minutes", clean_clone),
    ]
