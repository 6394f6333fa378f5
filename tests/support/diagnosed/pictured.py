"""Five incidents of the table as pictures: what the docs show, and what tests open in a browser."""

from __future__ import annotations

from typing import Final

from groupreplay.app.report.page import report_page
from support.diagnosed.incidents import INCIDENTS

#: Image, without its ending -> the incident of ``docs/simulations.md``.
PICTURED: Final = {
    "incident-silent-member": "a member hangs, a minute later another one joins, and the client gives up",
    "incident-slow-leader": "the leader needs a minute, each time",
    "incident-crash-loop": "a static member crashes every two minutes",
    "incident-coordinator-moved": "the coordinator moves, and the next one loads for five minutes",
    "incident-offsets-set": "somebody sets the offsets forward: records are skipped",
}


def pictured_page(image: str) -> str:
    """The page of the group, as ``report`` makes it."""
    (incident,) = (one for one in INCIDENTS if one.name == PICTURED[image])
    return report_page(incident.world(0))
