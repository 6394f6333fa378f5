"""Long fuzzing of the codecs with valid records that are cut, spliced, or have bits flipped.

    python benchmarks/fuzz/codecs.py --executions 10000000 --seed 1
    small: --executions 500

Prints executions, the slowest one and the growth of memory; ends with status 1 and the bytes at the first failure.
`fuzz_one_input` of tests/support/tools/fuzz_target.py is the entry for coverage-guided fuzzers:

    atheris.Setup(sys.argv, fuzz_one_input); atheris.Fuzz()
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from groupreplay.codecs import (
    REGISTRY,
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    Subscription,
    encode_blob,
    encode_key,
    encode_value,
)
from support.histories.record_samples import random_blob, random_record, random_value, with_unknown_tags
from support.tools.fuzz_target import KEYS, fuzz_one_input

BOMBS = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x81\x00",
    b"\x7f\xff",
    b"\x00",
    b"\x01",
    b"\xff",
    b"\xc3\x28",
)
#: As in `fuzz_one_input`: the first byte for keys, blobs, and values by their place in KEYS.
_AS_KEY, _AS_BLOB, _AS_VALUE = 0x00, 0x20, 0x40


def seeds(random: Random) -> list[bytes]:
    """Valid inputs of every kind."""
    found = []
    blobs = (Subscription, Assignment, ConnectMetadata, ConnectAssignment)
    for position, key in enumerate(KEYS):
        chosen = next(byte for byte in range(_AS_VALUE, 256) if byte % len(KEYS) == position)
        value_class = REGISTRY[key.KEY_TYPE][1]
        for _ in range(20):
            random_key, value = random_record(random, key.KEY_TYPE)
            found.append(bytes([_AS_KEY]) + encode_key(random_key))
            if value is not None:
                if value.FLEXIBLE_SINCE is not None and value.version >= value.FLEXIBLE_SINCE:
                    found.append(bytes([chosen]) + encode_value(with_unknown_tags(random, value)))
                found.append(bytes([chosen]) + encode_value(value))
            if value_class.EARLY_RELEASES:
                found.append(bytes([chosen]) + encode_value(random_value(random, value_class, 0, early=True)))
    for position, blob_class in enumerate(blobs):
        found += [
            bytes([_AS_BLOB + position]) + encode_blob(random_blob(random, blob_class)) for _ in range(20)
        ]
    return found


def mutated(random: Random, corpus: list[bytes]) -> bytes:
    """One valid input after one to three changes."""
    data = bytearray(random.choice(corpus))
    for _ in range(random.randint(1, 3)):
        at = random.randint(1, max(1, len(data) - 1))
        injury = random.randrange(6)
        if injury == 0:
            del data[at:]
        elif injury == 1 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif injury == 2:
            data[at:at] = random.choice(BOMBS)
        elif injury == 3:
            bomb = random.choice(BOMBS)
            data[at : at + len(bomb)] = bomb
        elif injury == 4:
            other = random.choice(corpus)
            data[at:] = other[random.randrange(len(other)) :]
        else:
            data[at : at + random.randint(1, 4)] = random.randbytes(random.randint(0, 4))
    return bytes(data)


def main() -> int:
    """Run until the wanted number of executions, or the first failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random = Random(arguments.seed)
    slowest = 0.0
    slowest_size = 0
    corpus = seeds(random)
    memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    for execution in range(arguments.executions):
        if execution % 200_000 == 0:
            corpus = seeds(random)
        data = mutated(random, corpus)
        before = time.process_time()
        try:
            fuzz_one_input(data)
        except Exception:
            traceback.print_exc()
            print(f"execution {execution} of seed {arguments.seed}: {data.hex()}")
            return 1
        took = time.process_time() - before
        if took > slowest:
            slowest, slowest_size = took, len(data)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before
    print(
        f"{arguments.executions} executions in {time.monotonic() - began:.0f} s, 0 failures; "
        f"slowest {1000 * slowest:.1f} ms ({slowest_size} bytes); resident memory grew by {grown} KiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
