"""SCRAM users in the controller's state and in its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyconsumer.broker.cluster_file import ClusterFile
from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import Controller
from pyconsumer.broker.logins import ScramCredential
from pyconsumer.broker.scram_users import ScramDeletion, ScramUpsertion
from pyconsumer.errors import BrokerStartError
from pyconsumer.scram import ScramMechanism

SHA_256, SHA_512 = ScramMechanism


def controller(folder: Path | None) -> Controller:
    return Controller(folder, BrokerConfig({}))


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(name, mechanism, iterations, b"salt", b"salted")


def test_users_outlive_a_restart_with_and_without_a_clean_stop(tmp_path: Path) -> None:
    first = controller(tmp_path)
    first.scram.set_password("alice", "secret")
    first.scram.alter([], [upsertion("bob", SHA_512, 8192)])
    second = controller(tmp_path)  # as after kill -9
    assert second.scram.describe(None) == {"alice": {SHA_256: 4096, SHA_512: 4096}, "bob": {SHA_512: 8192}}
    assert second.scram.secret == first.scram.secret
    second.scram.alter([ScramDeletion("bob", SHA_512)], [])
    second.close()
    third = controller(tmp_path)
    assert list(third.scram.describe(None)) == ["alice"]
    found = third.scram.find("alice", SHA_256)
    assert found is not None
    assert found.fits(SHA_256, "secret")


def test_the_same_password_again_changes_nothing(tmp_path: Path) -> None:
    users = controller(tmp_path).scram
    users.set_password("alice", "secret")
    before = users.find("alice", SHA_512)
    users.set_password("alice", "secret")
    assert users.find("alice", SHA_512) is before
    users.set_password("alice", "other")
    assert users.find("alice", SHA_512) != before


def test_the_files_are_private_and_have_no_password(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    for name in ("cluster.json", "cluster.journal"):
        (folder / name).touch(0o644)
    (folder / "cluster.json").write_text(json.dumps({"format": 1, "cluster_id": "x", "topics": {}}))
    users = controller(folder)
    users.scram.set_password("alice", "very-secret")
    users.scram.set_password("bob", "very-secret")
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("cluster.json", "cluster.journal"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
        assert "very-secret" not in (folder / name).read_text()


def test_an_older_version_refuses_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = controller(tmp_path)
    made.create_topic("t") if made.brokers else made.set_broker_config("", {"log.retention.ms": "1"})
    assert json.loads((tmp_path / "cluster.json").read_text())["format"] == 2
    made.scram.set_password("alice", "secret")
    # The snapshot says so before a line of the journal does, which an older version would skip.
    assert json.loads((tmp_path / "cluster.json").read_text())["format"] == 3
    made.scram.alter([ScramDeletion("alice", SHA_256), ScramDeletion("alice", SHA_512)], [])
    monkeypatch.setattr("pyconsumer.broker.cluster_file._SECURITY_FORMAT", 2)
    with pytest.raises(BrokerStartError, match="has format 3"):
        ClusterFile(tmp_path).load()


def test_a_change_that_cannot_be_stored_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = controller(tmp_path)

    def fail(*args: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ClusterFile, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        made.scram.alter([], [upsertion("alice")])
    assert made.scram.describe(None) == {}


def test_credentials_show_nothing_in_a_repr() -> None:
    assert "salted" not in repr(upsertion("alice"))
    assert "salt" not in repr(ScramCredential.of_password(SHA_256, "secret", b"salt"))


def test_a_changed_user_of_the_start_has_no_old_password(caplog: pytest.LogCaptureFixture) -> None:
    users = controller(None).scram
    users.set_password("alice", "secret")
    users.alter([], [upsertion("bob")])
    assert caplog.text == ""
    assert users.fits_changed("alice", b"secret") is users.fits_changed("bob", b"secret") is None
    users.alter([ScramDeletion("alice", SHA_512)], [])
    assert "the credentials of 'alice' have changed; the password of the start is set again" in caplog.text
    checks = [users.fits_changed("alice", text) for text in (b"secret", b"other", b"\xff")]
    assert [check and check() for check in checks] == [True, False, False]
    users.alter([ScramDeletion("alice", SHA_256)], [])
    deleted = users.fits_changed("alice", b"secret")
    assert deleted is not None
    assert not deleted()


def test_an_earlier_state_comes_back() -> None:
    users = controller(None).scram
    users.set_password("alice", "secret")
    state = json.loads(json.dumps(users.snapshot()))
    users.alter([ScramDeletion("alice", SHA_512)], [upsertion("bob")])
    users.restore(state)
    assert (users.snapshot(), users.fits_changed("alice", b"secret")) == (state, None)
    users.restore({})
    assert users.snapshot() == {}
