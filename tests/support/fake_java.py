"""A program that claims to be a Java, for tests of which Java is found."""

from __future__ import annotations

import shlex
from pathlib import Path

# What `java -XshowSettings:properties -version` prints, as far as we read it.
_FAKE = """\
#!/bin/sh
{refusal}
echo '    java.home = '{home} >&2
echo '    java.specification.version = {version}' >&2
for argument do echo "[$argument]"; done
"""


def fake_java(home: Path, version: str, refusal: str = "") -> Path:
    """A home whose `java` claims to be this version; ``refusal`` are lines of shell that it begins with."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(_FAKE.format(home=shlex.quote(str(home)), version=version, refusal=refusal))
    program.chmod(0o755)
    return home
