"""What is wrong with a configuration: every problem, each with where it stands."""

from __future__ import annotations


class ConfigError(Exception):
    """The configuration cannot be used.

    Attributes:
        problems: one line each: where (a file and its line, a flag, an environment variable), which
            setting, what is wrong, what is allowed.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
