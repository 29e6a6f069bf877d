"""Pictures as files, whole or absent."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from dpmsnc.errors import InputError
from dpmsnc.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png", ".pdf")


def check_picture(path: Path) -> None:
    """Raise `InputError` unless the ending of a file says what kind of picture it is to be."""
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path} does not say what kind of picture it is; end it with {', '.join(ENDINGS)}")


def write_picture(figure: Figure, path: Path) -> None:
    """As its ending says."""
    from dpmsnc.plots.figures import svg

    check_picture(path)
    if path.suffix.lower() == ".svg":
        write_whole(path, svg(figure))
        return
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower(), dpi=150, facecolor="white")
    write_whole(path, buffer.getvalue())
