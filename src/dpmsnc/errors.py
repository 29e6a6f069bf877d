"""What a user can do wrong, said in a way that tells what to do about it.

Every error that is the user's to mend is an `InputError` (a `ValueError`), so that the command line can print its
message without a traceback; anything else that escapes is ours.
"""

from __future__ import annotations


class InputError(ValueError):
    """The input cannot be used as it is; the message says why and what to do."""


class ModelFileError(InputError):
    """A model folder is missing, truncated, or was not written by this package."""
