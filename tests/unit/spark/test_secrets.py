"""Secrets by reference."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.client_config import admin_settings, build_config
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.secrets import resolve_references
from pyconsumer.spark.sink_config import producer_settings

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="${env:TEST_SECRET}";'
OPTIONS = {
    "bootstrap.servers": "localhost:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.jaas.config": LOGIN,
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def test_places_of_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TEST_SECRET", "s3cret")
    (tmp_path / "secrets.properties").write_text("# a comment\n\n a = b=c \nuser=u\n")
    (tmp_path / "password").write_text("p:w\n")

    def resolved(text: str) -> str:
        return resolve_references("kafka.x", text)

    assert resolved("plain $HOME ${nothing} ${other:x}") == "plain $HOME ${nothing} ${other:x}"
    assert resolved("<${env:TEST_SECRET}>") == "<s3cret>"
    assert (
        resolved(f"${{file:{tmp_path}/secrets.properties:a}}-${{file:{tmp_path}/secrets.properties:user}}") == "b=c-u"
    )
    assert resolved(f"${{directory:{tmp_path}:password}}") == "p:w"


def test_an_unresolved_reference_is_named_without_its_surroundings(tmp_path: Path) -> None:
    for reference in ("${env:TEST_NO_SUCH}", "${directory:/no/such:x}", "${file:/no/such:x}"):
        with pytest.raises(
            ConfigurationError, match=r"option kafka.x: \$\{.*\} cannot be resolved on this machine"
        ) as caught:
            resolve_references("kafka.x", f"hidden {reference}")
        assert "hidden" not in str(caught.value)


def test_every_client_resolves_secrets_and_plans_hold_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SECRET", "s3cret")
    assert build_config(OPTIONS).sasl_plain_password == "s3cret"
    assert 'password="s3cret"' in admin_settings(OPTIONS)["sasl.jaas.config"]
    assert 'password="s3cret"' in producer_settings(OPTIONS)["sasl.jaas.config"]
    options = SourceOptions.parse({"subscribe": "a", **{f"kafka.{name}": text for name, text in OPTIONS.items()}})
    assert b"s3cret" not in pickle.dumps(options)
