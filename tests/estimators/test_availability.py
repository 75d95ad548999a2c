"""Methods that say why they are not there."""

from __future__ import annotations

import pytest

from clusterwise.estimators.availability import available_unless
from clusterwise.exceptions import UnknownWeightsError


def _reason(door: Door) -> str | None:
    if door.broken:
        raise UnknownWeightsError("no such door")
    return "the door is closed; open it" if door.closed else None


class Door:
    def __init__(self, closed: bool, broken: bool = False) -> None:
        self.closed = closed
        self.broken = broken

    @available_unless(_reason)
    def pass_through(self, steps: int = 1) -> int:
        """Walk."""
        return steps + 1


def test_available() -> None:
    assert Door(closed=False).pass_through(3) == 4
    assert hasattr(Door(closed=False), "pass_through")
    assert Door(closed=False).pass_through.__doc__ == Door.pass_through.__doc__ == "Walk."


def test_not_available() -> None:
    door = Door(closed=True)
    assert not hasattr(door, "pass_through")
    with pytest.raises(AttributeError, match="the door is closed; open it"):
        door.pass_through()


def test_our_errors_become_attribute_errors() -> None:
    assert not hasattr(Door(closed=False, broken=True), "pass_through")
    with pytest.raises(AttributeError, match="no such door"):
        Door(closed=False, broken=True).pass_through()
