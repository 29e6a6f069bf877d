"""Whether prediction and E-step run in progressive rounds, chosen by validation score.

Rounds cost many times a single run. They are tried at every evaluation until they have not helped a model for some
evaluations in a row; a model that still guesses can be helped by nothing and is not counted.
"""

from __future__ import annotations

from collections.abc import Callable

GAIN = 0.01
"""Validation score that rounds must gain: less may be chance."""
SHARE = 0.1
"""Share of the unknown rows that each round adopts where rounds are tried."""
PATIENCE = 3
"""Evaluations without help after which rounds are no longer tried."""
BEYOND_GUESSING = 0.1
"""How much better than the best constant answer a model must be for its evaluation to count."""
STATE = ("share", "best_share", "shares", "unhelpful")


class ProgressiveChoice:
    """The share of rows that each round adopts: 0 for a single run, or as asked for, or chosen ("auto")."""

    def __init__(self, asked: float | str, can_choose: bool, guess: float) -> None:
        """`guess` is the score of the best constant answer."""
        self.shares = [asked] if isinstance(asked, (int, float)) else [0.0, SHARE] if can_choose else [0.0]
        self.share = self.best_share = self.shares[0]
        self.guess, self.unhelpful = guess, 0

    def choose(self, score: Callable[[float], float]) -> float:
        """Score every share that is still tried, keep the better one, and return its score."""
        scores = {share: score(share) for share in self.shares}
        best = max(scores, key=lambda share: scores[share])
        helped = scores[best] > scores[self.shares[0]] + GAIN - 1e-6  # scores are rounded
        self.share = best if helped else self.shares[0]
        if len(scores) > 1 and scores[0.0] > self.guess + BEYOND_GUESSING:
            self.unhelpful = 0 if helped else self.unhelpful + 1
        if self.unhelpful == PATIENCE:
            self.shares = [0.0]
        return scores[self.share]

    def keep(self) -> None:
        """Remember the share of the best evaluation so far."""
        self.best_share = self.share
