"""A Slurm of two nodes in a lab of its own: host0 and host1, with a controller on host0. Nothing of it outlives the lab."""

import os
import secrets
import shutil
import subprocess
import sys
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")

CONFIGURATION = """
ClusterName=lab
SlurmctldHost=host0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PropagateResourceLimits=NONE
MpiDefault=none
ReturnToService=2
NodeName=host[0-1] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
"""


def missing():
    """Programs that are not installed; daemons are often not on the path of users."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [program for program in PROGRAMS if not shutil.which(program, path=path)]


class Slurm:
    def __init__(self, passing, directory):
        self.passing, self.directory = passing, directory
        self.lab = f"slurm-{os.getpid()}"
        self.environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
                            "SLURM_CONF": f"{directory}/slurm.conf"}

    def start(self):
        os.mkdir(f"{self.directory}/state")
        with open(f"{self.directory}/slurm.conf", "w") as file:
            file.write(CONFIGURATION.format(directory=self.directory))
        with open(os.open(f"{self.directory}/key", os.O_CREAT | os.O_WRONLY, 0o400), "wb") as file:
            file.write(secrets.token_bytes(128))
        subprocess.run([self.passing, "lab", "up", "--name", self.lab, "--hosts", "2"], check=True, stdout=subprocess.DEVNULL)
        munge = [f"--{what}={self.directory}/munge.{what}" for what in ("socket", "pid-file", "log-file", "seed-file")]
        self.run("host0", "munged", "--force", f"--key-file={self.directory}/key", *munge).check_returncode()
        self.run("host0", "slurmctld", "-c").check_returncode()
        for host in ("host0", "host1"):
            self.run(host, "slurmd").check_returncode()
        deadline = time.monotonic() + 60
        while self.run("host0", "sinfo", "-h", "-o", "%T").stdout.split() != ["idle"]:
            if time.monotonic() > deadline:
                raise TimeoutError("Slurm does not come up:\n" + self.logs())
            time.sleep(0.2)

    def run(self, host, *command, timeout=120, **variables):
        return subprocess.run([self.passing, "lab", "exec", "--name", self.lab, host, "--", *command], text=True, timeout=timeout,
                              capture_output=True, stdin=subprocess.DEVNULL, env={**self.environment, **variables})

    def logs(self):
        return "".join(open(f"{self.directory}/{name}").read()[-3000:] for name in sorted(os.listdir(self.directory)) if name.endswith(".log"))

    def stop(self):
        subprocess.run([self.passing, "lab", "down", self.lab], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit("no tests in here")
