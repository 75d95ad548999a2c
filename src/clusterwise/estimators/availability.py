"""Methods that only some estimators have, with an error that says why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from clusterwise.exceptions import ClusterwiseError

__all__ = ["available_unless"]


class _Conditional:
    """A method that is looked up only if there is no reason against it."""

    def __init__(self, method: Callable[..., Any], reason_against: Callable[[Any], str | None]) -> None:
        self.method = method
        self.reason_against = reason_against
        self.__doc__ = method.__doc__

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self.method
        try:
            reason = self.reason_against(estimator)
        except ClusterwiseError as error:  # weights that cannot be read; ``hasattr`` must not raise
            raise AttributeError(str(error)) from error
        if reason is not None:
            raise AttributeError(reason)
        return MethodType(self.method, estimator)


def available_unless(reason_against: Callable[[Any], str | None]) -> Callable[[Callable[..., Any]], Any]:
    """Hide a method from estimators for which ``reason_against`` gives a sentence.

    scikit-learn's ``available_if`` does the same, but keeps the reason in the cause of an error that
    does not say it.
    """

    def decorate(method: Callable[..., Any]) -> Any:
        return _Conditional(method, reason_against)

    return decorate
