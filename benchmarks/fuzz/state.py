"""Long fuzzing of the groups' state with hostile histories: random and injured records, restored states, wild times.

    python benchmarks/fuzz/state.py --histories 200000 [--first 1000000] [--seconds 3600]
    small: --histories 5

Each history goes through ``pack`` and ``advance`` in batches, with a restored state for every call. The messages of
every twentieth go through the schemas, the terminal, ``describe`` and the exporter. Prints histories, calls, the
dearest call, the largest state; ends with status 1, the seed and the reason at the first failure.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from page import flag_parser, show_progress

from support.tools.hostile import history
from support.tools.survival import Readers, Survivor, harm

_READ_EVERY = 20
_SHOW_EVERY = 5_000


def main() -> int:
    """Prints the figures."""
    parser = flag_parser(__doc__)
    parser.add_argument("--histories", type=int, default=200_000)
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    flags = parser.parse_args()
    logging.disable(logging.ERROR)
    readers, begun = Readers(), time.monotonic()
    calls = records = messages = largest = done = 0
    dearest = 0.0
    for seed in range(flags.first, flags.first + flags.histories):
        survivor, batches = Survivor(), history(seed, brief=True)
        try:
            survivor.live(batches)
            found = harm(survivor)
            if seed % _READ_EVERY == 0:
                readers.read(survivor)
        except Exception:
            found = [traceback.format_exc()]
        if found:
            print(f"seed {seed}:", *found, sep="\n")
            return 1
        done, calls, messages = done + 1, calls + survivor.calls, messages + len(survivor.rows)
        records += sum(len(one.log) + len(one.probes) for one in batches)
        dearest = max(dearest, survivor.dearest_seconds)
        largest = max(largest, *map(len, survivor.blobs.values()), 0)
        if done % _SHOW_EVERY == 0:
            show_progress(f"{done:,} histories, {time.monotonic() - begun:.0f} s")
        if time.monotonic() - begun > flags.seconds:
            break
    print(
        f"{done:,} histories, {records:,} records and messages, {calls:,} calls: nothing quarantined; dearest call "
        f"{1_000 * dearest:.0f} ms of CPU, largest state {largest:,} bytes, {messages:,} messages written"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
