"""Writes the manifests in ``deploy/kubernetes`` that are made from the chart: ``python -m golden.refresh_manifests``.

Helm is that of the machine or of the cache, or is built with Go.
"""

from __future__ import annotations

from support.tools.helm_chart import MANIFESTS, helm, manifests


def main() -> None:
    """All of them."""
    helm(build=True)
    for name, text in manifests().items():
        (MANIFESTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
