"""Writes ``docs/settings.md`` from the tables of settings, so that the reference agrees with the code.

``python -m tests.support.make_reference`` writes it. A test generates it again and compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.broker.config import BROKER_SETTINGS, TOPIC_SETTINGS
from pyconsumer.broker.settings import BrokerSetting, format_value
from pyconsumer.consumer.auto_offset_reset import ResetPolicy
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import CLIENT_SETTINGS, REQUIRED, Choice, Duration, Flag, Integer, Setting

__all__ = ["PATH", "reference"]

PATH = Path(__file__).parents[2] / "docs" / "settings.md"

_HEAD = """\
# Settings

This page is made of the tables in the code by `python -m tests.support.make_reference`.

Clients take settings as keyword arguments, or in a mapping, where Kafka's dotted names (`group.id`) work too and
strings are read as in a properties file. An unknown name is an error that names the nearest valid one. Names that end
in `_ms` are whole milliseconds, those that end in `_bytes` bytes. `from_file` takes them from a properties file and
from variables such as `PYCONSUMER_GROUP_ID`: see [the guide](guide.md#from-a-file-and-the-environment).
"""

_NOT_USED = """\
Accepted without effect, so that you can pass the settings of a Kafka broker unchanged:

{}
"""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _default(setting: Setting) -> str:
    value = setting.default
    if value is REQUIRED:
        return "**required**"
    if setting.name == "acks":
        return "`all`"  # kept as the number on the wire
    if isinstance(value, ResetPolicy):
        return f"`{value}`"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`" if value else "none"
    if value is None:
        return "none"
    if value == "":
        return "empty"
    return f"`{value}`"


def _values(setting: Setting) -> str:
    kind = setting.kind
    if isinstance(kind, Choice):
        return ", ".join(f"`{word}`" for word in kind.words)
    if isinstance(kind, Flag):
        return "`True`, `False`"
    if isinstance(kind, Integer):
        unit = " ms" if isinstance(kind, Duration) else ""
        bounds = f"{kind.low} or more" if kind.high >= 0x7FFFFFFF else f"{kind.low} to {kind.high}"
        return bounds + unit + "".join(f", or {number}" for number in kind.special)
    return ""


def _client_table(settings: Iterable[Setting]) -> str:
    lines = ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for setting in settings:
        also = f" Also: {', '.join(f'`{name}`' for name in setting.aliases)}." if setting.aliases else ""
        cells = (f"`{setting.name}`", _default(setting), _values(setting), _cell(setting.doc) + also)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _own(settings: Mapping[str, Setting]) -> list[Setting]:
    """The settings of one client that are not the same in all of them."""
    common = {setting.name: setting for setting in CLIENT_SETTINGS}
    return [setting for name, setting in settings.items() if common.get(name) is not setting]


def _broker_table(settings: Iterable[BrokerSetting]) -> str:
    lines = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for setting in settings:
        text = format_value(setting.default)
        default = "not set" if text is None else f"`{text}`" if text else "empty"
        lines.append(f"| `{setting.name}` | {setting.type.name.lower()} | {default} | {_cell(setting.doc)} |")
    return "\n".join(lines) + "\n"


def _broker_part(settings: Mapping[str, BrokerSetting]) -> str:
    used = [setting for setting in settings.values() if setting.used]
    rest = "\n".join(f"* `{setting.name}`" for setting in settings.values() if not setting.used)
    return _broker_table(used) + ("\n" + _NOT_USED.format(rest) if rest else "")


def reference() -> str:
    """The page."""
    parts = [
        _HEAD,
        "## All clients\n\n" + _client_table(CLIENT_SETTINGS),
        "## Consumer\n\n" + _client_table(_own(CONSUMER_SETTINGS.by_name)),
        "## Share consumer\n\nBesides those of all clients. A share consumer refuses the settings of a consumer that "
        "belong to the group on the broker, and names the group's setting.\n\n"
        + _client_table(_own(SHARE_CONSUMER_SETTINGS.by_name)),
        "## Producer\n\n" + _client_table(_own(PRODUCER_SETTINGS.by_name)),
        "## Admin client\n\n" + _client_table(_own(ADMIN_SETTINGS.by_name)),
        "## Embedded broker\n\nKafka's names and defaults, for `EmbeddedCluster(config=...)` and `pyconsumer broker "
        "--config`.\n\n" + _broker_part(BROKER_SETTINGS),
        "## Topics of the embedded broker\n\nGiven when a topic is created. The default is the broker's setting of the "
        "same meaning, if there is one.\n\n" + _broker_part(TOPIC_SETTINGS),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(reference(), encoding="utf-8")
    print(PATH.relative_to(Path.cwd()) if PATH.is_relative_to(Path.cwd()) else PATH, file=sys.stderr)
