"""Adds the present layout of stored states to stored_layouts.json: ``python -m golden.refresh_stored_layouts``.

A layout that differs needs a higher ``reader`` in its ``FORM``, so that earlier releases refuse it. Where an earlier
release may lose the new fields, ``--harmless`` replaces the last layout instead.
"""

from __future__ import annotations

import json
import sys

from support.stored.layouts import FILE, FORMS, entry, load, lost_places


def main(words: list[str]) -> None:
    """Adds to the file, or ends with the reason why not."""
    stored = load()
    for form in FORMS:
        entries, now = stored.setdefault(form.what, []), entry(form)
        last = entries[-1] if entries else None
        if last == now:
            continue
        if last and (last["version"], last["reader"]) == (now["version"], now["reader"]):
            if moved := lost_places(last["layout"], now["layout"]):
                sys.exit(
                    f"{form.what}: fields are only added at the end; another version is needed for {moved}"
                )
            if "--harmless" not in words:
                sys.exit(
                    f"{form.what}: raise `reader`, or give --harmless if earlier releases may lose the field"
                )
            entries.pop()
        entries.append(now)
    FILE.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
