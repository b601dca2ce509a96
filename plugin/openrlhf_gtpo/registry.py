"""The estimators that this project computes, by the names of ``--algo.advantage.estimator``: the one table that the
parser, the checks, `compare`, the report and the quickstart read. It needs no torch; the functions of the same names
are in `openrlhf_gtpo.algorithms.estimators`."""

from dataclasses import dataclass

ALPHAS = ("alpha1", "alpha2", "over", "scope", "entropy_clip")
"""What both of the paper's estimators read."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of an estimator without its function; the defaults are those of a user's function."""

    label: str = ""
    """Its name in tables and pictures."""
    needs_correctness: bool = False
    """Whether it treats correct and wrong responses differently, so that scores have to be binary."""
    openrlhfs_own: bool = False
    """Whether OpenRLHF has one of this name. Then OpenRLHF's is used, and ours only for groups of different sizes."""
    per_response: bool = False
    """Whether its objective is GRPO-S's: a mean over responses, with one ratio and one clip for each."""
    options: tuple[str, ...] = ()
    """The flags ``--shaping.*`` that it reads."""


RECORDS = {
    "group_norm": Record(label="GRPO", openrlhfs_own=True),
    "gtpo": Record(label="GTPO", needs_correctness=True, options=(*ALPHAS, "until")),
    "grpo_s": Record(label="GRPO-S", needs_correctness=True, per_response=True, options=ALPHAS),
}
OTHER_NAMES = {"grpo": "group_norm"}
"""Names that a user may give -> OpenRLHF's name for it."""
OURS = tuple(name for name, record in RECORDS.items() if not record.openrlhfs_own)
"""Those that OpenRLHF does not have."""


def label_of(name: str) -> str:
    """What a table calls an estimator: GTPO for gtpo; of a user's function, or one of OpenRLHF's, its name."""
    record = RECORDS.get(OTHER_NAMES.get(name, name))
    return record.label if record else name.rpartition("/")[2]
