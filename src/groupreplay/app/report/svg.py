"""The picture of a timeline as SVG, by the page's own script in a JavaScript engine of this process."""

from __future__ import annotations

import json
from typing import Final

from groupreplay.app.report.assets import PICTURE_SCRIPTS, asset, echarts
from groupreplay.app.report.page import data_island
from groupreplay.streaming.base.errors import unusable
from groupreplay.timeline.document import TimelineDocument

_WIDTH: Final = 1400


def timeline_svg(document: TimelineDocument, *, width: int = _WIDTH, dark: bool = False) -> str:
    """The whole picture with its verdict, ``width`` pixels wide.

    Raises:
        GroupReplayError: the JavaScript engine is not installed.
    """
    try:
        from py_mini_racer import MiniRacer
    except ImportError:
        fix = "install it: pip install 'groupreplay[svg]'; or save the picture from the HTML report"
        raise unusable("SVG needs the package mini-racer", None, fix) from None
    engine = MiniRacer()
    try:
        engine.eval(f"{echarts()};0")
        for name in PICTURE_SCRIPTS:
            engine.eval(f"{asset(name)};0")
        call = f"Picture.svg({data_island(document)}, {json.dumps(width)}, {json.dumps(dark)})"
        return str(engine.eval(call))
    finally:
        engine.close()
