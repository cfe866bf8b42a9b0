"""Reads the login in Java's ``sasl.jaas.config``. No part of it is ever shown in a message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyconsumer.errors import ConfigurationError

__all__ = ["Login", "parse_jaas", "quoted"]

#: What Java's ``StreamTokenizer`` skips: blanks and comments.
_BLANK: Final = re.compile(r"(?:[\x00-\x20]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
#: A quoted string, which ends at the end of its line at the latest, then a sign, or a word.
_TOKEN: Final = re.compile(
    r"""(?:"((?:[^"\\\r\n]|\\.)*)(?:"|(?=[\r\n]))|'((?:[^'\\\r\n]|\\.)*)(?:'|(?=[\r\n]))"""
    r"""|([=;])|((?:(?!/[/*])[^\x00-\x20=;"'])+))""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

_FLAGS: Final = {"required", "requisite", "sufficient", "optional"}

_MECHANISMS: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "Krb5LoginModule": ("GSSAPI",),
}
_NAMED_LOGIN: Final = ("username", "password")


class Login(NamedTuple):
    """The options of a login module.

    ``mechanisms`` are the SASL mechanisms that the module can be used with.
    """

    mechanisms: tuple[str, ...]
    options: Mapping[str, str]

    @property
    def tokenauth(self) -> bool:
        """Return whether user name and password are those of a delegation token (KIP-48)."""
        return self.options.get("tokenauth", "false").lower() == "true"

    def __repr__(self) -> str:
        return f"Login({'/'.join(self.mechanisms)})"


def parse_jaas(text: str) -> Login:
    """Read ``...PlainLoginModule required username="u" password="p";``.

    ScramLoginModule, OAuthBearerLoginModule and Krb5LoginModule work, too, and so does any package.

    The errors never show a part of the value, because in a malformed value any word may be a password.

    Raises:
        ConfigurationError: the module or the notation is not supported.
    """
    tokens = _tokens(text)
    module = tokens[0].rpartition(".")[2] if tokens else ""
    mechanisms = _MECHANISMS.get(module)
    if mechanisms is None:
        raise ConfigurationError(
            "the login modules that can be used are PlainLoginModule, ScramLoginModule,"
            " OAuthBearerLoginModule and Krb5LoginModule, but the value begins with another name"
        )
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise _malformed()
    given: dict[str, str] = {}
    rest = tokens[2:-1]
    if len(rest) % 3:
        raise _malformed()
    for name, equals, value in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != "=":
            raise _malformed()
        given[name] = value
    if module == "OAuthBearerLoginModule":
        if any(name.startswith("unsecuredLogin") for name in given):
            raise ConfigurationError("unsecured tokens are not made: anyone could make them")
        return Login(mechanisms, given)
    if module == "Krb5LoginModule":
        return Login(mechanisms, _kerberos(given))
    missing = [name for name in _NAMED_LOGIN if name not in given]
    if missing:
        raise ConfigurationError(f"the login module is given no {' and no '.join(missing)}")
    return Login(mechanisms, given)


def _kerberos(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a login by Kerberos that have a meaning here: where tickets come from, and whose."""

    def says(name: str) -> bool:
        return given.get(name, "false").lower() == "true"

    if given.get("isInitiator", "true").lower() == "false":
        raise ConfigurationError("isInitiator=false is for brokers: a client begins the login")
    wanted = {"serviceName", "principal"}
    if says("useKeyTab"):
        if "keyTab" not in given or "principal" not in given:
            raise ConfigurationError("useKeyTab=true needs keyTab and principal")
        wanted.add("keyTab")
    elif says("useTicketCache"):
        wanted.add("ticketCache")
    else:
        raise ConfigurationError(
            "Krb5LoginModule needs useKeyTab=true with keyTab and principal, or useTicketCache=true: nobody is asked"
            " for a password"
        )
    found = {name: text for name, text in given.items() if name in wanted}
    if "keyTab" in found:
        found["keyTab"] = re.sub(r"^(?:FILE|file):(?://(?=/))?", "", found["keyTab"])
    return found


def quoted(text: str) -> str:
    """Return a text as a string of ``sasl.jaas.config``. It stays one value, whatever is in it."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = _end_of_blank(text, 0)
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigurationError("a quote is not closed, or a comment")
        double, single, sign, word = match.groups()
        string = double if double is not None else single
        found.append(_ESCAPE.sub(_unescaped, string) if string is not None else sign or word)
        position = _end_of_blank(text, match.end())
    return found


def _end_of_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _unescaped(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)


def _malformed() -> ConfigurationError:
    return ConfigurationError('write it as  ...LoginModule required username="..." password="...";  with the semicolon')
