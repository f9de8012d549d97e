"""What launchers say about ranks, in torchrun's words."""

import os
import re
import zlib

from . import _backend

# Who sets one of these knows how many ranks are on this host.
_LOCAL_SIZES = ("PASSING_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


def rendezvous_from_environment():
    """Lets init_process_group() find its ranks where srun, mpirun or mpiexec has started this process, not torchrun.

    Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; what is set already stays, so that under
    torchrun nothing changes. The rank is the one that the library itself takes: that of the launcher nearest to the process.
    The master is the first node of the Slurm step or allocation, or else this host; for ranks on several hosts that no Slurm
    knows of, set MASTER_ADDR. Its port comes from the name of the job, so that two jobs on one host do not meet;
    MPICH outside Slurm has no names for jobs: set MASTER_PORT for the second one.

    Raises ValueError if nothing says which rank this is, or where the master is.
    """
    place = _backend.place_from_environment()
    for name in ("rank", "world_size", "local_rank", "local_world_size"):
        os.environ.setdefault(name.upper(), str(place[name]))
    if "MASTER_ADDR" not in os.environ:
        os.environ["MASTER_ADDR"] = _master(os.environ, place)
    os.environ.setdefault("MASTER_PORT", str(_port(place["job"])))


def _master(environment, place):
    # mpirun and mpiexec start their own daemons as a step, which may leave out the node that they are on.
    step = environment.get("SLURM_STEP_NUM_TASKS") == str(place["world_size"])
    nodes = environment.get("SLURM_STEP_NODELIST" if step else "SLURM_JOB_NODELIST")
    if nodes:
        return first_node(nodes)
    if place["local_world_size"] < place["world_size"] and any(name in environment for name in _LOCAL_SIZES):
        raise ValueError(f"{place['local_world_size']} of {place['world_size']} ranks are on this host, but MASTER_ADDR is not set: "
                         "set it to the host of rank 0 (mpirun -x MASTER_ADDR=HOST, mpiexec -genv MASTER_ADDR HOST)")
    return "127.0.0.1"


def first_node(nodes):
    """Of a list as Slurm writes it: gpu[07-09,12],login is gpu07 and others."""
    name = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)[0]
    return re.sub(r"\[([^\]\-,]*)[^\]]*\]", r"\1", name)


def _port(job):
    """torch's own for a process without a launcher; else below those that systems give away."""
    return 29500 if job == "default" else 20000 + zlib.crc32(job.encode()) % 9000
