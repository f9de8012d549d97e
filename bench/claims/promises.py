"""Everything that the project promises, by subject."""

import collections

import arithmetic
import bench
import collectives
import dataplanes
import hierarchy
import resources
import simulate
import switch
import train

Claim = collections.namedtuple("Claim", "name text comparison target unit measure")

SUBJECTS = {
    "Arithmetic": arithmetic.claims(),
    "The switch in userspace": switch.claims(),
    "The switch in the kernel": dataplanes.claims(),
    "Collectives and classic strategies": collectives.claims(),
    "Sums in one host": hierarchy.in_host_claims(),
    "Several ranks per host": hierarchy.across_claims(),
    "The choice of auto": hierarchy.auto_claims(),
    "passing beside its opponents": bench.claims(),
    "Training": train.claims(),
    "Simulation": simulate.claims(),
    "What it costs to have": resources.claims(),
}
SUBJECTS = {subject: [Claim(*each) for each in claims] for subject, claims in SUBJECTS.items()}
CLAIMS = [claim for claims in SUBJECTS.values() for claim in claims]

COMPARE = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "<": lambda a, b: a < b}


def asked(claim):
    """What a claim asks for, as results keep it."""
    return f"{claim.comparison} {claim.target}"


def verdict(claim, figure):
    return "pass" if COMPARE[claim.comparison](figure, claim.target) else "miss"
