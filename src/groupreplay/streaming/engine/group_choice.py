"""Which groups are asked for, by their ids or by globs, and which ids there are instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from fnmatch import translate
from heapq import nlargest
from typing import Final

#: Characters that make a text a glob; a group's id may contain them, too.
_GLOB: Final = frozenset("*?[")
#: A worse match is a name of something else.
_LEAST_RATIO: Final = 0.6
#: Longer ids are not compared: strangers choose them.
_MOST_COMPARED: Final = 256


class GroupChoice:
    """The groups whose id is one of these texts or matches it as a glob (``*``, ``?``, ``[ab]``); without any, all.

    A container of ids for ``in``. It remembers the ids that it was asked about.
    """

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self._globs = [(one, re.compile(translate(one))) for one in self.patterns if is_glob(one)]
        self._known: dict[str, bool] = {}
        self._unmatched = dict.fromkeys(self.patterns)

    def __contains__(self, group_id: object) -> bool:
        assert isinstance(group_id, str)
        found = self._known.get(group_id)
        if found is None:
            found = self._known[group_id] = self._matches(group_id)
        return found

    def learn(self, known: Iterable[str]) -> None:
        """Add ids to those that were seen; they do not count as matched."""
        for group_id in known:
            self._known.setdefault(group_id, False)

    @property
    def ids(self) -> frozenset[str] | None:
        """The ids, if every text is one; None if there are globs, or if all groups are chosen."""
        return None if self._globs or not self.patterns else frozenset(self.patterns)

    @property
    def seen(self) -> list[str]:
        """The ids that it was asked about, in order."""
        return sorted(self._known)

    @property
    def matched(self) -> list[str]:
        """Those of them that are chosen, in order."""
        return sorted(group_id for group_id, found in self._known.items() if found)

    @property
    def unmatched(self) -> list[str]:
        """The texts that no id has matched so far, as they were given."""
        return list(self._unmatched)

    def _matches(self, group_id: str) -> bool:
        if not self.patterns:
            return True
        found = [one for one, glob in self._globs if glob.match(group_id)]
        found += [one for one in self.patterns if one == group_id]
        for one in found:
            self._unmatched.pop(one, None)
        return bool(found)


def is_glob(text: str) -> bool:
    """Whether the text has a character of a glob."""
    return not _GLOB.isdisjoint(text)


def nearest(name: str, known: Sequence[str], count: int = 3) -> list[str]:
    """The known names that resemble a name (or a glob) most, ignoring case; the best first."""
    wanted = "".join(char for char in name.lower() if char not in _GLOB)
    if not wanted or len(wanted) > _MOST_COMPARED:
        return []
    matcher = SequenceMatcher(b=wanted)
    found = []
    for one in known:
        if len(one) > _MOST_COMPARED:
            continue
        matcher.set_seq1(one.lower())
        # Cheap upper bounds first: there may be many names.
        if matcher.real_quick_ratio() >= _LEAST_RATIO and matcher.quick_ratio() >= _LEAST_RATIO:
            ratio = matcher.ratio()
            if ratio >= _LEAST_RATIO:
                found.append((ratio, one))
        elif len(wanted) > 2 and wanted in one.lower():
            found.append((_LEAST_RATIO, one))
    return [one for _, one in nlargest(count, found)]
