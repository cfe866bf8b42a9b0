"""``ssl.principal.mapping.rules``: the user of a client certificate's subject (KIP-371).

A rule is ``DEFAULT`` (the subject itself) or ``RULE:pattern/replacement/[LU]``. The first rule whose pattern matches
the whole subject counts. ``L`` and ``U`` make the result lower or upper case.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pyconsumer.errors import ConfigurationError

__all__ = ["PrincipalRules"]

_RULE: Final = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_BETWEEN: Final = re.compile(r"\s*,\s*|\s*$")
#: A part of a replacement: an escaped character, a group by number or name, or text.
_PART: Final = re.compile(r"\\(.)|\$(\d+)|\$\{([A-Za-z][A-Za-z0-9]*)\}|([^\\$]+)|(.)", re.DOTALL)


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalRules:
    """The rules of a listener.

    Args:
        text: the rules, separated by commas.

    Raises:
        ConfigurationError: a rule has another form.

    Example::

        PrincipalRules("RULE:^CN=([^,]*),.*$/$1/L, DEFAULT").user("CN=Alice,O=Example")  # alice
    """

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        text, position = text.strip(), 0
        while position < len(text):
            found = _RULE.match(text, position)
            between = None if found is None else _BETWEEN.match(text, found.end())
            if found is None or between is None:
                raise ConfigurationError(f"ssl.principal.mapping.rules: invalid rule {text[position:]!r}")
            position = between.end()
            if found[1]:
                self._rules.append(_Rule(None, "", ""))
                continue
            try:
                pattern = re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", found[2]), re.ASCII)
            except re.error as error:
                raise ConfigurationError(f"ssl.principal.mapping.rules: {found[2]!r}: {error}") from None
            self._rules.append(_Rule(pattern, found[3], found[4]))

    def user(self, subject: str) -> str | None:
        """Return the user of a subject, or None if no rule matches, or if the name would be empty."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return subject or None
            if pattern.fullmatch(subject):
                name = pattern.sub(lambda match, text=replacement: _expand(match, text), subject)  # type: ignore[misc]
                return (name.lower() if case == "L" else name.upper() if case == "U" else name) or None
        return None


def _expand(match: re.Match[str], replacement: str) -> str:
    """Return the replacement as Java does it. A number that is no group is text, or is shortened to one that is."""
    parts = []
    count = match.re.groups
    for escaped, digits, name, text, other in _PART.findall(replacement):
        if digits:
            number = int(digits)
            rest = ""
            while number > count and number >= 10:
                number, rest = number // 10, digits[len(str(number // 10)) :]
            parts.append(f"${digits}" if number > count else (match[number] or "") + rest)
        elif name:
            parts.append(match[name] or "")
        else:
            parts.append(escaped or text or other)
    return "".join(parts)
