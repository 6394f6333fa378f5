"""``python -m groupreplay.streaming``: the same program as ``groupreplay``."""

from groupreplay.streaming.cli.program import main

if __name__ == "__main__":
    main()
