"""Starts groupreplay under spark-submit, with the libraries of the archive that is unpacked in ./environment.

``groupreplay bundle`` writes this file as job.py. Executors find the same folder by spark.executorEnv.PYTHONPATH. The
syntax is old, so that an interpreter of another version can report what is wrong.
"""

import importlib
import json
import os
import platform
import sys
from typing import NoReturn

FOLDER = "environment"
ABOUT = "groupreplay-bundle.json"


def refuse(sentence: str) -> NoReturn:
    """Ends with the exit code for wrong usage."""
    sys.stderr.write(f"error: {sentence}\n")
    sys.exit(2)


def use_archive(folder: str) -> None:
    """Puts the folder in front of the platform's libraries, for this process and those that it starts."""
    with open(os.path.join(folder, ABOUT), encoding="utf-8") as file:
        made_for = json.load(file)
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if made_for["python"] != python:
        refuse(
            f"the archive was made for Python {made_for['python']}, but the driver runs on Python {python} "
            f"({sys.executable}): set spark.pyspark.python, or make the archive with "
            f"groupreplay bundle --python {python}"
        )
    if made_for["platform"] != platform.machine():
        refuse(
            f"the archive was made for {made_for['platform']}, but this machine is {platform.machine()}: "
            f"make the archive with groupreplay bundle --platform {platform.machine()}"
        )
    sys.path.insert(0, folder)
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def main() -> None:
    """Runs the program."""
    folder = os.path.abspath(FOLDER)
    if os.path.exists(os.path.join(folder, ABOUT)):
        use_archive(folder)
    try:
        # By name, because this file is no part of the package when it runs.
        program = importlib.import_module("groupreplay.app.cli.program")
    except ImportError as error:
        refuse(
            f"{error}, and the archive is not unpacked in {folder}: unpack it there before spark-submit "
            f"(--deploy-mode client), or send it with --archives NAME#{FOLDER} (--deploy-mode cluster)"
        )
    program.main()


if __name__ == "__main__":
    main()
