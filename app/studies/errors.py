"""Errors of requests for a study."""


class StudyNotFound(LookupError):  # noqa: N818 - an answer that callers expect, not a fault
    """There is no such study."""


class PlanNotFound(LookupError):  # noqa: N818
    """The study has no such plan."""


class StudyConflict(Exception):  # noqa: N818
    """The study's state does not allow it; the message is one sentence."""


class StudyChanged(Exception):  # noqa: N818
    """The study is no longer the version that the caller saw."""
