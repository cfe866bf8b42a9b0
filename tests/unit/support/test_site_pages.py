"""Pages of the site that are made from code, and the changes to those that are not."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.site.api import PACKAGES, api_pages
from tests.support.site.diagrams import DiagramError, svg
from tests.support.site.docstrings import markdown
from tests.support.site.pages import api_navigation, example_navigation, generated_pages, own_pages, render

pytest.importorskip("pyspark", reason="the reference has the pages of pyconsumer.spark")
PAGES = api_pages()


def _nowhere(name: str) -> None:
    return None


# -- API -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_is_on_its_page(package: str) -> None:
    module = importlib.import_module(package)
    page = PAGES[f"api/{package}.md"]
    missing = [
        name
        for name in module.__all__
        if not inspect.ismodule(getattr(module, name))
        and not (package == "pyconsumer.errors" and not inspect.isclass(getattr(module, name)))
        and f"## {name} {{" not in page
        and f"`{name}`" not in page
    ]
    assert missing == []


def test_a_method_has_signature_arguments_and_errors() -> None:
    page = PAGES["api/pyconsumer.KafkaConsumer.md"]
    poll = page.split("## poll {")[1].split("\n## ")[0]
    assert "poll(timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords" in poll
    assert "* `timeout_ms`: longest time to wait" in poll
    assert "* `RecordDeserializationError`: a record cannot be deserialized" in poll


def test_no_notation_of_docstrings_is_left() -> None:
    for path, page in PAGES.items():
        prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
        assert not re.search(r":(?:meth|class|func|data|mod|exc):`", prose), path
        assert "``" not in prose, path
        assert "ForwardRef" not in page, path
        assert " at 0x" not in page, path


def test_links_between_api_pages_lead_somewhere() -> None:
    for path, page in PAGES.items():
        for target in re.findall(r"\]\(([^)]+)\)", page):
            name, _, anchor = target.partition("#")
            if name.startswith("../"):
                continue
            assert f"api/{name}" in PAGES, (path, target)
            assert not anchor or f"{{ #{anchor} }}" in PAGES[f"api/{name}"], (path, target)


@pytest.mark.slow
def test_every_generated_page_is_in_the_navigation() -> None:
    named = re.findall(r"'((?:api|examples)/[^']+\.md)'", repr([api_navigation(), example_navigation()]))
    made = [path for path in generated_pages() if "/" in path]
    assert sorted(named) == sorted(made)


# -- docstrings ------------------------------------------------------------------------------------------------------


def test_a_docstring_becomes_markdown() -> None:
    text = """\
Return what ``x`` is; see :meth:`~a.b.poll`.

Args:
    size_bytes: how much,
        in all.
    *names: of topics.

Returns:
    The answer.

For example::

    call(1)

    call(2)

The end.
"""
    assert markdown(text, _nowhere) == (
        "Return what `x` is; see `poll`.\n\n**Arguments**\n\n* `size_bytes`: how much, in all.\n"
        "* `*names`: of topics.\n\n**Returns**\n\nThe answer.\n\n"
        "For example:\n\n```python\ncall(1)\n\ncall(2)\n```\n\nThe end.\n"
    )


def test_a_known_name_becomes_a_link() -> None:
    assert markdown("See :class:`Known`.", {"Known": "page.md#x"}.get) == "See [`Known`](page.md#x).\n"


# -- diagrams --------------------------------------------------------------------------------------------------------

_DIAGRAM = """\
sequenceDiagram
    participant A as you & me
    participant B
    A->>B: a <question>
    Note over A,B: both
    B-->>A: answer
    B->>B: thinks
"""


def test_a_diagram_is_drawn() -> None:
    drawn = ElementTree.fromstring(svg(_DIAGRAM))
    texts = [each.text for each in drawn.iter() if each.tag.endswith("text")]
    assert texts == ["you & me", "B", "a <question>", "both", "answer", "thinks"]
    there, back = (next(each for each in drawn.iter() if each.get("class") == kind) for kind in ("there", "back"))
    assert float(there.get("x1", "")) < float(there.get("x2", ""))
    assert float(back.get("x1", "")) > float(back.get("x2", ""))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("flowchart LR\n A-->B", "only sequence diagrams"),
        ("sequenceDiagram\n participant A\n loop x", "not understood: 'loop x'"),
        ("sequenceDiagram\n participant A\n A->>B: x", "'B' is used"),
        ("", "only sequence diagrams"),
    ],
)
def test_an_invalid_diagram_is_an_error(source: str, message: str) -> None:
    with pytest.raises(DiagramError, match=message):
        svg(source)


# -- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "text", "wanted"),
    [
        ("guide.md", "[a](../examples/exactly_once.py)", "[a](examples/exactly_once.md)"),
        ("guide.md", "[a](../README.md#produce)", "[a](index.md#produce)"),
        ("guide.md", "[a](groups.md#eager)", "[a](groups.md#eager)"),
        ("guide.md", "[a](https://kafka.apache.org)", "[a](https://kafka.apache.org)"),
        ("guide.md", "[a](proof/README.md)", "[a](proof/index.md)"),
        ("how-it-works.md", "[a](../tests/spec)", "a"),
        ("proof/README.md", "[a](../spark.md)", "[a](../spark.md)"),
        ("guide.md", "```sh\n[a](../tests/spec)\n```", "```sh\n[a](../tests/spec)\n```"),
        ("guide.md", "text\n* item", "text\n\n* item"),
    ],
)
def test_links_and_lists_of_a_page(
    page: str, text: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs" / page).parent.mkdir(parents=True)
    (tmp_path / "docs" / page).write_text(text)
    monkeypatch.setattr("tests.support.site.pages.ROOT", tmp_path)
    ((place, moved),) = own_pages().items()
    assert render(moved, place, lambda path: False) == wanted


def test_an_example_has_title_text_and_listing() -> None:
    page = generated_pages()["examples/fastapi_service.md"]
    assert page.startswith("# FastAPI service\n")
    assert "::" not in page
    assert "in another shell:\n\n    curl" in page
    assert '```python title="examples/fastapi_service.py"\nimport argparse' in page


def test_the_readme_is_the_home_page() -> None:
    home = generated_pages()["index.md"]
    assert "](guide.md)" in home
    assert "](changelog.md)" in home
    assert "](docs/" not in home
