"""The function that the third subscription calls. This one reads a label; a real one would look at the pixels."""

from __future__ import annotations

from typing import Any

import situ


@situ.function(returns="string", name="FaceDetect")
def face_detect(video: dict[str, Any]) -> str | None:
    """Whose face is in a frame: the query passes the whole event.

    >>> face_detect({"location": "hall", "frame": b"face: Anna", "timestamp": None})
    'Anna'
    """
    label, _, name = video["frame"].decode().partition(": ")
    return name if label == "face" else None
