r"""Regular expressions over topic names, in RE2's syntax and in linear time (KIP-848).

``google-re2`` is used if it is installed. Otherwise this module matches, for the part of the syntax that is used for
names: literals, ``.``, classes (``[a-z]``, ``[^_]``, ``[[:alpha:]]``, ``\d \w \s`` and their opposites), groups,
alternatives, repetitions up to 1000 and anchors. It also knows ``\Q...\E`` and the flags ``i``, ``s`` and ``U``. Any
other syntax is an error. Python's ``re`` is not used: it backtracks, so one expression could block the whole broker.

A nondeterministic automaton is simulated on all paths at once. Each compiled expression has a cache of the sets of
states that it has met. There is no other state.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Final, NamedTuple

from pyconsumer.errors import InvalidRegularExpressionError

try:
    import re2  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:
    re2 = None

__all__ = ["compile_topic_regex"]

_MOST_REPEATS: Final = 1000
_MOST_STATES: Final = 20_000
_MOST_CACHED: Final = 2_000
_MOST_DEPTH: Final = 200

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGIT: Final = frozenset(string.digits)
_SPACE: Final = frozenset("\t\n\f\r ")
_ESCAPES: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": _DIGIT,
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}


class _Set(NamedTuple):
    """A set of characters. With ``negated``, the set of all others."""

    chars: frozenset[str]
    negated: bool = False

    def __contains__(self, char: object) -> bool:
        return (char in self.chars) != self.negated


def compile_topic_regex(text: str) -> Callable[[str], bool]:
    """Return a function that tells whether the whole name of a topic matches.

    Raises:
        InvalidRegularExpressionError: the text is not valid in RE2's syntax. Without ``google-re2`` only a part of this
            syntax is supported.
    """
    if re2 is not None:
        options = re2.Options()
        options.log_errors = False
        try:
            pattern = re2.compile(text, options)
        except re2.error as error:
            reason = error.args[0] if error.args else ""
            raise _invalid(
                text, reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            ) from None
        return lambda name: pattern.fullmatch(name) is not None
    try:
        return _Automaton(_Parser(text).parse()).matches
    except _SyntaxError as error:
        raise _invalid(text, str(error)) from None


def _invalid(text: str, reason: str) -> InvalidRegularExpressionError:
    return InvalidRegularExpressionError(f"SubscribedTopicRegex `{text}` is not a valid regular expression: {reason}.")


class _SyntaxError(Exception):
    """The syntax of an expression is invalid or not supported. The message says why."""


class _Node(NamedTuple):
    """A part of an expression.

    ``kind`` is ``set``, ``begin``, ``end``, ``cat``, ``alt`` or ``repeat``: ``low`` to ``high`` times, None for any.
    """

    kind: str
    chars: _Set | None = None
    parts: tuple[_Node, ...] = ()
    low: int = 0
    high: int | None = None


class _Parser:
    """Parses an expression by recursive descent."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignore_case = False
        self._dot_all = False

    def parse(self) -> _Node:
        node = self._alternatives()
        if self._at < len(self._text):
            raise _SyntaxError("unexpected )")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        self._at += 1
        return char

    def _skip(self, prefix: str) -> bool:
        if self._text.startswith(prefix, self._at):
            self._at += len(prefix)
            return True
        return False

    def _alternatives(self) -> _Node:
        flags = self._ignore_case, self._dot_all
        branches = [self._sequence()]
        while self._skip("|"):
            branches.append(self._sequence())
        self._ignore_case, self._dot_all = flags
        return branches[0] if len(branches) == 1 else _Node("alt", parts=tuple(branches))

    def _sequence(self) -> _Node:
        items: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            if self._skip("\\Q"):
                end = self._text.find("\\E", self._at)
                literal = self._text[self._at : end if end >= 0 else None]
                self._at = len(self._text) if end < 0 else end + 2
                items += [self._literal(char) for char in literal]
                continue
            atom = self._atom()
            if atom is not None:
                items.append(self._repeated(atom))
        return _Node("cat", parts=tuple(items))

    def _repeated(self, atom: _Node) -> _Node:
        found = self._repetition()
        if found is None:
            return atom
        self._skip("?")
        if self._repetition() is not None:
            raise _SyntaxError("invalid nested repetition operator")
        return _Node("repeat", parts=(atom,), low=found[0], high=found[1])

    def _repetition(self) -> tuple[int, int | None] | None:
        start = self._at
        char = self._peek()
        if char in ("*", "+", "?") and char:
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if char != "{":
            return None
        end = self._text.find("}", start)
        body = self._text[start + 1 : end] if end >= 0 else ""
        low, comma, high = body.partition(",")
        if not (low.isascii() and low.isdigit()) or not (high == "" or (high.isascii() and high.isdigit())):
            return None  # a literal brace
        self._at = end + 1
        least = int(low[:6])
        most = least if not comma else int(high[:6]) if high else None
        if least > _MOST_REPEATS or (most is not None and (most > _MOST_REPEATS or most < least)):
            raise _SyntaxError("invalid repeat count")
        return least, most

    def _literal(self, char: str) -> _Node:
        chars = {char, char.lower(), char.upper()} if self._ignore_case else {char}
        return _Node("set", _Set(frozenset(one for one in chars if len(one) == 1)))

    def _atom(self) -> _Node | None:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return _Node("set", self._class())
        if char == ".":
            return _Node("set", _Set(frozenset() if self._dot_all else frozenset("\n"), True))
        if char == "^":
            return _Node("begin")
        if char == "$":
            return _Node("end")
        if char in "*+?":
            raise _SyntaxError("missing argument to repetition operator")
        if char == "\\":
            if self._skip("A"):
                return _Node("begin")
            if self._skip("z"):
                return _Node("end")
            escaped = self._escape()
            return self._literal(escaped) if isinstance(escaped, str) else _Node("set", escaped)
        return self._literal(char)

    def _group(self) -> _Node | None:
        flags = self._ignore_case, self._dot_all
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise _SyntaxError("expression nests too deeply")
        if self._skip("?"):
            if self._skip("P<") or (self._text[self._at + 1 : self._at + 2] not in ("=", "!") and self._skip("<")):
                end = self._text.find(">", self._at)
                name = self._text[self._at : end] if end >= 0 else ""
                if not name or not set(name) <= _WORD:
                    raise _SyntaxError("invalid named capture")
                self._at = end + 1
            elif not self._flags():
                self._depth -= 1
                return None  # the flags apply to the rest of the enclosing group
        node = self._alternatives()
        if not self._skip(")"):
            raise _SyntaxError("missing closing )")
        self._depth -= 1
        self._ignore_case, self._dot_all = flags
        return node

    def _flags(self) -> bool:
        """Read ``flags)`` or ``flags:`` and return whether a group follows."""
        value = True
        while True:
            char = self._take()
            if char == "-" and value:
                value = False
            elif char == "i":
                self._ignore_case = value
            elif char == "s":
                self._dot_all = value
            elif char == "U":
                pass  # greedy or not does not matter if the whole name has to match
            elif char in (":", ")") and char:
                return char == ":"
            else:
                raise _SyntaxError("invalid or unsupported Perl syntax")

    def _escape(self) -> str | _Set:
        char = self._take()
        if char.lower() in _ESCAPES and char:
            return _Set(_ESCAPES[char.lower()], char.isupper())
        if char in _CONTROLS and char:
            return _CONTROLS[char]
        if char == "x":
            digits = self._text[self._at : self._at + 2]
            if len(digits) == 2 and set(digits) <= set(string.hexdigits):
                self._at += 2
                return chr(int(digits, 16))
        if not char:
            raise _SyntaxError("trailing backslash at end of expression")
        if char.isascii() and not char.isalnum():
            return char
        raise _SyntaxError(f"invalid or unsupported escape sequence: \\{char}")

    def _class(self) -> _Set:
        negated = self._skip("^")
        chars: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            if self._skip("[:"):
                chars |= self._posix()
                continue
            low = self._class_item()
            if isinstance(low, _Set):
                if low.negated:
                    low = _Set(frozenset(map(chr, range(128))) - low.chars)
                chars |= low.chars
                continue
            high = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                found = self._class_item()
                if isinstance(found, _Set) or found < low:
                    raise _SyntaxError("invalid character class range")
                high = found
            if ord(high) - ord(low) > 0x3000:
                raise _SyntaxError("character class range is too large")
            chars.update(map(chr, range(ord(low), ord(high) + 1)))
        self._at += 1
        if self._ignore_case:
            chars |= {one.lower() for one in chars} | {one.upper() for one in chars}
        return _Set(frozenset(chars), negated)

    def _class_item(self) -> str | _Set:
        char = self._take()
        if not char:
            raise _SyntaxError("missing closing ]")
        return self._escape() if char == "\\" else char

    def _posix(self) -> frozenset[str]:
        end = self._text.find(":]", self._at)
        name = self._text[self._at : end] if end >= 0 else ""
        plain = name.removeprefix("^")
        if plain not in _POSIX:
            raise _SyntaxError("invalid character class range")
        self._at = end + 2
        return _POSIX["ascii"] - _POSIX[plain] if name.startswith("^") else _POSIX[plain]


class _Automaton:
    """A nondeterministic automaton. States are numbered.

    A state moves to ``_next`` on a character of its ``_sets``, and to those of ``_epsilon`` without one. Some of these
    only at the beginning or the end of the name.
    """

    def __init__(self, node: _Node) -> None:
        self._sets: list[_Set | None] = []
        self._next: list[int] = []
        self._epsilon: list[list[tuple[int, str]]] = []
        self._cache: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        start = self._state()
        self._accepting = self._add(node, start)
        self._start = self._closure({start}, begin=True)

    def _state(self) -> int:
        if len(self._sets) >= _MOST_STATES:
            raise _SyntaxError("expression is too large")
        self._sets.append(None)
        self._next.append(-1)
        self._epsilon.append([])
        return len(self._sets) - 1

    def _add(self, node: _Node, start: int) -> int:
        """Add the states of a node after a state and return the state that is reached when the node has matched."""
        if node.kind == "set":
            end = self._state()
            self._sets[start], self._next[start] = node.chars, end
            after = self._state()
            self._epsilon[end].append((after, ""))
            return after
        if node.kind in ("begin", "end"):
            end = self._state()
            self._epsilon[start].append((end, node.kind))
            return end
        if node.kind == "cat":
            for part in node.parts:
                start = self._add(part, start)
            return start
        if node.kind == "alt":
            end = self._state()
            for part in node.parts:
                begin = self._state()
                self._epsilon[start].append((begin, ""))
                self._epsilon[self._add(part, begin)].append((end, ""))
            return end
        return self._repeat(node, start)

    def _repeat(self, node: _Node, start: int) -> int:
        (part,) = node.parts
        for _ in range(node.low):
            start = self._add(part, start)
        end = self._state()
        if node.high is None:
            loop = self._state()
            self._epsilon[start].append((loop, ""))
            begin = self._state()
            self._epsilon[loop] += [(begin, ""), (end, "")]
            self._epsilon[self._add(part, begin)].append((loop, ""))
            return end
        for _ in range(node.high - node.low):
            self._epsilon[start].append((end, ""))
            begin = self._state()
            self._epsilon[start].append((begin, ""))
            start = self._add(part, begin)
        self._epsilon[start].append((end, ""))
        return end

    def _closure(self, states: set[int], *, begin: bool = False, end: bool = False) -> frozenset[int]:
        todo, found = list(states), set(states)
        while todo:
            for target, condition in self._epsilon[todo.pop()]:
                allowed = not condition or (condition == "begin" and begin) or (condition == "end" and end)
                if allowed and target not in found:
                    found.add(target)
                    todo.append(target)
        return frozenset(found)

    def matches(self, name: str) -> bool:
        """Return whether the whole of ``name`` matches."""
        states = self._start
        for char in name:
            following = self._cache.get((states, char))
            if following is None:
                moved = {
                    self._next[state]
                    for state in states
                    if self._next[state] >= 0 and char in (self._sets[state] or ())
                }
                following = self._closure(moved)
                if len(self._cache) >= _MOST_CACHED:
                    self._cache.clear()
                self._cache[states, char] = following
            if not following:
                return False
            states = following
        return self._accepting in self._closure(set(states), begin=not name, end=True)
