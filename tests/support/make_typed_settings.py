"""Writes the settings of each client as a ``TypedDict``, so that editors complete them and type checkers check them.

``python -m tests.support.make_typed_settings`` writes all of them from the tables of settings. A test generates
the modules again and compares. ``Kind.annotation`` has the type of each kind of setting.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import CLIENT_SETTINGS, Setting

__all__ = ["COMMAND", "ROOT", "modules"]

COMMAND = "python -m tests.support.make_typed_settings"
ROOT = Path(__file__).parents[2]
_WIDTH = 120

#: Parameters of their own: they decide the types of keys and values.
_APART = {"key_deserializer", "value_deserializer", "key_serializer", "value_serializer"}


class _Part(NamedTuple):
    path: str
    name: str
    client: str
    settings: list[Setting]
    base: str = ""


_HEAD = '''"""The settings of {client} for type checkers.

Made of the table of settings by ``{command}``: change the table, not this module.
"""

from __future__ import annotations

{imports}
__all__ = ["{name}"]


class {name}({base}, total=False):
    """Keyword arguments of {client}{apart}."""
'''

#: Names that an annotation may use, and where they come from.
_HOMES = {
    "os": "import os",
    "ssl": "import ssl",
    "Callable": "collections.abc",
    "Iterable": "collections.abc",
    "Mapping": "collections.abc",
    "SaslMechanism": "pyconsumer.generic",
    "Sequence": "collections.abc",
    "Literal": "typing",
    "TypedDict": "typing",
    "Assignor": "pyconsumer.assignors.base",
    "ClientSettings": "pyconsumer.settings.typed_settings",
    "RecordDeserializationError": "pyconsumer.errors",
    "TokenProvider": "pyconsumer.generic",
    "DeadLetterSink": "pyconsumer.consumer.interface",
    "MetricsReporter": "pyconsumer.metrics.source",
}


def _parts() -> list[_Part]:
    common = list(CLIENT_SETTINGS)
    shared = {setting.name: setting for setting in common}

    def own(settings: Iterable[Setting]) -> list[Setting]:
        found = []
        for setting in settings:
            other = shared.get(setting.name)
            if other is None:
                found.append(setting)
            else:
                assert annotation(setting) == annotation(other), f"{setting.name} has another type than in all clients"
        return found

    return [
        _Part("pyconsumer/settings/typed_settings.py", "ClientSettings", "every client", common),
        _Part(
            "pyconsumer/consumer/typed_settings.py",
            "ConsumerSettings",
            "a consumer",
            own(CONSUMER_SETTINGS),
            "ClientSettings",
        ),
        _Part(
            "pyconsumer/consumer/share/typed_settings.py",
            "ShareConsumerSettings",
            "a share consumer",
            own(SHARE_CONSUMER_SETTINGS),
            "ClientSettings",
        ),
        _Part(
            "pyconsumer/producer/typed_settings.py",
            "ProducerSettings",
            "a producer",
            own(PRODUCER_SETTINGS),
            "ClientSettings",
        ),
        _Part(
            "pyconsumer/admin/typed_settings.py",
            "AdminSettings",
            "an admin client",
            own(ADMIN_SETTINGS),
            "ClientSettings",
        ),
    ]


def annotation(setting: Setting) -> str:
    """Return the type that a user may give for a setting."""
    found = setting.kind.annotation
    for blank in setting.blanks:
        kind = "None" if blank is None else "float"
        if kind not in found.split(" | "):
            found += f" | {kind}"
    if found.endswith("None | float"):
        found = found.removesuffix("None | float") + "float | None"
    return found


def _field(name: str, kind: str, doc: str) -> str:
    line = f"    {name}: {kind}"
    if len(line) > _WIDTH:
        inner = kind.removesuffix(" | None")
        head, _, rest = inner.partition("[")
        tail = " | None" if kind != inner else ""
        line = f"    {name}: {head}[\n        {rest[:-1]}\n    ]{tail}"
        if not rest.endswith("]"):
            line = f"    {name}: (\n        {kind}\n    )"
    text = re.sub(r"(?<!`)`(?!`)", "``", doc)
    quoted = f'"""{text}"""'
    if len(quoted) + 4 > _WIDTH:
        quoted = "\n".join(textwrap.wrap(f'"""{text}', _WIDTH - 4, break_on_hyphens=False, break_long_words=False))
        quoted += '\n"""'
    return line + "\n" + textwrap.indent(quoted, "    ") + "\n"


def _imports(text: str) -> str:
    used = {name for name in _HOMES if re.search(rf"\b{name}\b", text)}
    plain = sorted(_HOMES[name] for name in used if _HOMES[name].startswith("import "))
    homes: dict[str, list[str]] = {}
    for name in used:
        if not _HOMES[name].startswith("import "):
            homes.setdefault(_HOMES[name], []).append(name)
    lines = [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(homes.items())]
    ours = [line for line in lines if line.startswith("from pyconsumer")]
    standard = plain + [line for line in lines if line not in ours]
    return "\n\n".join("\n".join(block) for block in (standard, ours) if block) + "\n"


def modules() -> dict[Path, str]:
    """Return the text of each module by its path."""
    found = {}
    for part in _parts():
        fields = []
        apart = [f"``{setting.name}``" for setting in part.settings if setting.name in _APART]
        for setting in part.settings:
            if setting.name in _APART:
                continue
            kind = annotation(setting)
            fields.append(_field(setting.name, kind, setting.doc))
            others = [alias for alias in setting.aliases if alias.isidentifier()]
            fields += [_field(alias, kind, f"The same as `{setting.name}`.") for alias in others]
        body = "\n".join(fields)
        base = part.base or "TypedDict"
        imports = _imports(body + base)
        head = _HEAD.format(
            client=part.client,
            command=COMMAND,
            imports=imports,
            name=part.name,
            base=base,
            apart=f", besides {' and '.join(apart)}" if apart else "",
        )
        found[ROOT / part.path] = head + "\n" + body
    return found


if __name__ == "__main__":
    for path, text in modules().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT), file=sys.stderr)
