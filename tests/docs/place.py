"""Where the commands of a page run: a directory that looks like the repository, and as root namespaces of their own."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ["PASSING_BUILD"])
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# As `passing lab` does without root. Ports, labs and processes of a page are then its own, and go with it.
HOLD = "mount -t tmpfs -o mode=755 page /run && mkdir /run/netns && ip link set lo up && echo ready && exec sleep infinity"
SEPARATE = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]

# What a launcher or a test around us said is not for the page.
FOREIGN = re.compile(r"PASSING|OMPI_|PMIX?_|SLURM_|MPI_|(LOCAL_)?RANK$|(LOCAL_)?WORLD_SIZE$|MASTER_|CTEST_")


class Started:
    """A block that runs, its output in a file: what it leaves in the background may hold that open."""

    def __init__(self, process, output):
        self.process, self._output = process, output

    def output(self):
        return pathlib.Path(self._output).read_text(errors="replace")

    def listens(self):
        """Whether a process of its session does, on TCP."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if int(process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[3]) != self.process.pid:
                    continue
                listening = {row.split()[9] for table in ("tcp", "tcp6") for row in
                             process.joinpath("net", table).read_text().splitlines()[1:] if row.split()[3] == "0A"}
                held = {os.readlink(file)[8:-1] for file in process.joinpath("fd").iterdir()}
            except OSError:
                continue  # it has ended meanwhile
            if listening & held:
                return True
        return False

    def stop(self):
        """With everything that it left in its group."""
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Place:
    def __init__(self, source):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="passing-docs-"))
        self.root = self.scratch / "passing"
        self.root.mkdir()
        for entry in source.iterdir():
            if entry.name not in ("build", ".git"):
                (self.root / entry.name).symlink_to(entry)
        (self.root / "build").mkdir()
        (self.root / "build" / "release").symlink_to(BUILD)
        (self.scratch / "tmp").mkdir()
        kept = {key: value for key, value in os.environ.items() if not FOREIGN.match(key)}
        self.variables = {**kept, "PATH": f"{BUILD}:{PATH}", "TMPDIR": str(self.scratch / "tmp"),
                          "PYTHONDONTWRITEBYTECODE": "1"}
        self.started = []
        self.holder = self._hold() if os.geteuid() == 0 else None

    def _hold(self):
        holder = subprocess.Popen([*SEPARATE, "sh", "-c", HOLD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ready = holder.stdout.readline() == "ready\n"
        holder.stdout.close()
        if ready:
            return holder
        holder.wait()
        return None

    def _inside(self):
        """The first process of the namespaces."""
        return int(pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()[0])

    def start(self, text):
        """Runs commands."""
        number = len(self.started)
        script = self.scratch / f"block{number}"
        exported = self.scratch / f"exported{number}"
        script.write_text(f"set -eu -o pipefail\ntrap 'env -0 > {exported}' EXIT\n{text}\n")
        enter = ["nsenter", "--target", str(self._inside()), "--mount", "--pid", "--net", f"--wd={self.root}"] if self.holder else []
        output = self.scratch / f"output{number}"
        with open(output, "wb") as file:
            process = subprocess.Popen([*enter, "bash", script], cwd=self.root, env=self.variables, stdin=subprocess.DEVNULL,
                                       stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        self.started.append(Started(process, output))
        return self.started[-1]

    def take_exports(self):
        """What the last block exported is there for the next."""
        exported = self.scratch / f"exported{len(self.started) - 1}"
        if exported.exists():
            pairs = (pair.partition("=")[::2] for pair in exported.read_text().split("\0") if pair)
            self.variables = {key: value for key, value in pairs if key not in ("PWD", "OLDPWD", "SHLVL", "_")}

    def labs(self):
        """That were left up."""
        if not self.holder:
            return []
        try:
            found = os.listdir(f"/proc/{self._inside()}/root/run/passing-lab")
        except FileNotFoundError:
            return []
        return [name for name in found if not name.startswith(".")]

    def end(self):
        for each in reversed(self.started):
            each.stop()
        if self.holder:
            os.kill(self._inside(), signal.SIGKILL)  # and with it everything in its namespace
            self.holder.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)
