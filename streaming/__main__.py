"""``python -m groupreplay.streaming``: the same program as ``groupreplay``."""

from groupreplay.streaming.cli import main

if __name__ == "__main__":
    main()
