"""Pages of the API reference: every public name with its signature and docstring.

Names in the ``__all__`` of a package are public. Each package has a page, and so has a class with many methods.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from pyconsumer import errors
from pyconsumer.assignors import Assignor
from pyconsumer.protocol.records.record import ConsumerRecord
from tests.support.site.docstrings import markdown

__all__ = ["PACKAGES", "api_pages"]

PACKAGES = (
    "pyconsumer",
    "pyconsumer.aio",
    "pyconsumer.admin",
    "pyconsumer.schemas",
    "pyconsumer.assignors",
    "pyconsumer.broker",
    "pyconsumer.structs",
    "pyconsumer.errors",
    "pyconsumer.spark",
    "pyconsumer.testing",
    "pyconsumer.workers",
    "pyconsumer.compat.kafka",
    "pyconsumer.compat.aiokafka",
)

_MANY = 8  # a class with more methods than this gets a page


def api_pages() -> dict[str, str]:
    """Return the pages by their path in the site, in the order of the navigation."""
    documented = [(package, name, _get(package, name)) for package in PACKAGES for name in _names(package)]
    homes: dict[int, tuple[str, str]] = {}  # the first package that lists an object documents it
    for package, name, value in documented:
        if not inspect.ismodule(value):
            homes.setdefault(id(value), (package, name))
    index = _Index()
    for package, name, value in documented:
        if homes.get(id(value)) == (package, name):
            index.add(package, name, value)
    pages: dict[str, str] = {}
    for package in PACKAGES:
        own = [(name, _get(package, name)) for name in _names(package)]
        own = [(name, value) for name, value in own if not inspect.ismodule(value)]
        pages[f"api/{package}.md"] = _package_page(package, own, index, homes)
        for name, value in own:
            if homes[id(value)] == (package, name) and _has_page(value):
                pages[f"api/{package}.{name}.md"] = _class_page(package, name, value, index)
    return pages


def _heading(name: str) -> str:
    """Return a name as a heading: Markdown would take the underscores of ``__version__`` for emphasis."""
    return f"`{name}`" if name.startswith("__") else name


def _anchor(package: str, name: str) -> str:
    return f"{package}.{name.strip('_')}"


def _names(package: str) -> list[str]:
    return list(importlib.import_module(package).__all__)


def _get(package: str, name: str) -> Any:
    if name == "ConsumerRecord":
        return ConsumerRecord  # the one with docstrings; that of the compiled decoder behaves the same
    return getattr(importlib.import_module(package), name)


class _Index:
    """The addresses of documented names, by full and by short name."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def add(self, package: str, name: str, value: Any) -> None:
        page = f"{package}.{name}.md" if _has_page(value) else f"{package}.md"
        anchor = _anchor(package, name)
        if package == "pyconsumer.errors":
            anchor = ""  # a table
        target = page if _has_page(value) or not anchor else f"{page}#{anchor}"
        for known in {f"{package}.{name}", f"{getattr(value, '__module__', package)}.{name}", name}:
            self._addresses.setdefault(known, target)
        if inspect.isclass(value) and anchor:
            for member, _ in _members(value):
                self._addresses.setdefault(f"{package}.{name}.{member}", f"{page}#{anchor}.{member}")
                self._addresses.setdefault(f"{name}.{member}", f"{page}#{anchor}.{member}")

    def find(self, name: str, inside: str = "") -> str | None:
        """Return the address of a name as a docstring writes it.

        Args:
            name: such as ``poll`` or ``pyconsumer.KafkaConsumer.poll``.
            inside: the class whose docstring it is.
        """
        name = name.removesuffix("()")
        if name.endswith("_SETTINGS"):
            return "../settings.md"
        for known in (f"{inside}.{name}", name):
            if known in self._addresses:
                return self._addresses[known]
        return None


def _has_page(value: Any) -> bool:
    if not inspect.isclass(value) or issubclass(value, BaseException | Assignor):
        return False
    return len(list(_members(value))) > _MANY


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that are ours, in the order of the source, own ones first."""
    seen: set[str] = set()
    for base in value.__mro__:
        if not base.__module__.startswith("pyconsumer"):
            continue
        for name, member in vars(base).items():
            if name.startswith("_") or name in seen or isinstance(member, enum.Enum):
                continue
            plain = inspect.unwrap(getattr(member, "__func__", member))
            if inspect.isfunction(plain) or isinstance(member, property):
                seen.add(name)
                yield name, member


def _package_page(package: str, own: list[tuple[str, Any]], index: _Index, homes: dict[int, tuple[str, str]]) -> str:
    module = importlib.import_module(package)
    parts = [f"# {package}", markdown(inspect.getdoc(module) or "", index.find)]
    elsewhere: list[str] = []
    for name, value in own:
        home = homes[id(value)]
        if home != (package, name) or _has_page(value):
            summary = markdown(_summary(value), index.find).strip()
            elsewhere.append(f"| [`{name}`]({index.find('.'.join(home))}) | {summary.replace('|', chr(92) + '|')} |")
    if elsewhere:
        parts.append("| | |\n|---|---|\n" + "\n".join(elsewhere))
    if package == "pyconsumer.errors":
        parts.append(_errors(index))
        return "\n\n".join(parts) + "\n"
    for name, value in own:
        if homes[id(value)] == (package, name) and not _has_page(value):
            parts.append(f"## {_heading(name)} {{ #{_anchor(package, name)} }}")
            parts.append(_body(name, value, index))
            if inspect.isclass(value):
                parts.extend(_methods(package, name, value, index, "###"))
    return "\n\n".join(parts) + "\n"


def _class_page(package: str, name: str, value: type, index: _Index) -> str:
    parts = [f"# {name}", f"```python\nfrom {package} import {name}\n```", _body(name, value, index)]
    parts.extend(_methods(package, name, value, index, "##"))
    return "\n\n".join(parts) + "\n"


def _methods(package: str, owner: str, value: type, index: _Index, level: str) -> Iterator[str]:
    for name, member in _members(value):
        text = inspect.getdoc(getattr(value, name)) or ""
        yield f"{level} {name} {{ #{package}.{owner}.{name} }}"
        if isinstance(member, property):
            returns = inspect.signature(member.fget).return_annotation if member.fget else ""
            yield f"```python\n{name}: {_annotation(returns)}\n```" if returns else ""
        else:
            yield _signature(name, getattr(value, name), method=not isinstance(member, staticmethod | classmethod))
        yield markdown(text, lambda wanted: index.find(wanted, owner))


def _body(name: str, value: Any, index: _Index) -> str:
    text = markdown(inspect.getdoc(value) or "", lambda wanted: index.find(wanted, name))
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return text + "\n" + "\n".join(f"* `{each.name}` = `{each.value}`" for each in value)
    if callable(value):
        return _signature(name, value, method=False) + "\n\n" + text
    return text


def _signature(name: str, value: Any, *, method: bool) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = list(signature.parameters.values())
    if method and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    shown: list[str] = []
    for at, each in enumerate(parameters):
        before = parameters[at - 1].kind if at else None
        if each.kind is each.KEYWORD_ONLY and before not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            shown.append("*")
        if before is each.POSITIONAL_ONLY and each.kind is not each.POSITIONAL_ONLY:
            shown.append("/")
        shown.append(_parameter(each))
    returns = "" if inspect.isclass(value) else _annotation(signature.return_annotation)
    end = f" -> {returns}" if returns else ""
    waits = inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(inspect.unwrap(value))
    start = "async " if waits else ""
    line = f"{start}{name}({', '.join(shown)}){end}"
    if len(line) > 88:
        line = f"{start}{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){end}"
    return f"```python\n{line}\n```"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    text = stars + each.name
    annotation = _annotation(each.annotation)
    if annotation:
        text += f": {annotation}"
    if each.default is not each.empty:
        default = f"<{each.default.__name__}>" if inspect.isroutine(each.default) else repr(each.default)
        default = default.replace("<<lambda>>", "...")
        text += f" = {default}" if annotation else f"={default}"
    return text


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)
    return re.sub(r"\b(?:pyconsumer|collections|typing)\.(?:\w+\.)*", "", text)


def _summary(value: Any) -> str:
    text = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) ", text)[0].rstrip(":")


def _errors(index: _Index) -> str:
    lines = ["| error | code | retriable | |", "|---|---:|---|---|"]
    for name in errors.__all__:
        value = getattr(errors, name)
        if inspect.isclass(value) and issubclass(value, BaseException):
            bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
            code = getattr(value, "errno", None)
            retriable = "yes" if getattr(value, "retriable", False) is True else ""
            text = markdown(_summary(value), index.find).strip().replace("|", "\\|")
            cells = (f"`{name}`", str(code) if isinstance(code, int) else "", retriable, f"{text} Kind of {bases}.")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
