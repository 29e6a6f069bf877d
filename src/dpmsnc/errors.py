"""What a user can do wrong, said in a way that tells what to do about it.

Every error that is the user's to mend is an `InputError` (a `ValueError`), so that the command line can print its
message without a traceback; anything else that escapes is ours. What may be right but looks wrong is a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class InputError(ValueError):
    """The input cannot be used as it is; the message says why and what to do."""


class ModelFileError(InputError):
    """A model folder is missing, truncated, or was not written by this package."""


class FitWarning(UserWarning):
    """What a fit found is of little use, or part of what it was given is of none; the message says what to try."""


if TYPE_CHECKING:

    class NotFittedError(InputError, AttributeError):
        """A verb was used that needs `fit` first; it is scikit-learn's error of that name, too."""


def __getattr__(name: str) -> Any:
    """`NotFittedError` is made when it is first asked for, since scikit-learn takes a second to import."""
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError

    doc = "A verb was used that needs `fit` first; it is scikit-learn's error of that name, too."
    kind = type(name, (InputError, SklearnNotFittedError), {"__module__": __name__, "__doc__": doc})
    globals()[name] = kind
    return kind
