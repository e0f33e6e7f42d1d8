"""What steers a run; no handler of ordinary errors may eat these."""

from __future__ import annotations


class RunSuspended(BaseException):
    """Steers a run that must wait; sticky, raised again by every later call of the run (DESIGN 7)."""

    def __init__(self, message: str, *, cause: str, waits_for: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.cause = cause
        self.waits_for = waits_for


class LeaseLost(BaseException):
    """This worker no longer owns the conversation; whatever it still does is not recorded as the run's."""

    def __init__(self, message: str, *, token: int) -> None:
        super().__init__(message)
        self.token = token


class RunCancelled(BaseException):
    """The run was cancelled from outside, or its deadline has passed; ``terminal`` says which."""

    def __init__(self, message: str = "the run was cancelled", *, terminal: str = "cancelled") -> None:
        super().__init__(message)
        self.terminal = terminal
