"""kill -9 in the middle of changes of rules, users and quotas: what was acknowledged is there, and no half change."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.acls import AclBinding, AclFilter, parse_acl
from pyconsumer.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import KafkaError
from pyconsumer.quotas import QuotaEntity
from tests.behaviour.access_support import AUTHORIZED
from tests.support.process import wait_until

pytestmark = [pytest.mark.concurrent, pytest.mark.slow]

#: For each kind of change. `tox -e long` has 25.
_KILLS = int(os.environ.get("PYCONSUMER_ACCESS_KILLS", "1"))
_RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")


class Rules:
    """Three rules of a user, in one request."""

    def put(self, admin: KafkaAdminClient, name: str) -> None:
        admin.create_acls(self._of(name), timeout_ms=5000)

    def remove(self, admin: KafkaAdminClient, name: str) -> None:
        admin.delete_acls([AclFilter.of(acl) for acl in self._of(name)], timeout_ms=5000)

    def parts(self, admin: KafkaAdminClient) -> list[str]:
        return [acl.principal.removeprefix("User:") for acl in admin.describe_acls()]

    @staticmethod
    def _of(name: str) -> list[AclBinding]:
        return [
            acl for what in ("READ topic t", "WRITE topic t", "READ group g") for acl in parse_acl(f"{name}: {what}")
        ]


class Users:
    """The passwords of three users, in one request."""

    def put(self, admin: KafkaAdminClient, name: str) -> None:
        new = [
            UserScramCredentialUpsertion(f"{name}-{number}", ScramMechanism.SCRAM_SHA_256, "secret")
            for number in range(3)
        ]
        admin.alter_user_scram_credentials(new, timeout_ms=5000)

    def remove(self, admin: KafkaAdminClient, name: str) -> None:
        old = [UserScramCredentialDeletion(f"{name}-{number}", ScramMechanism.SCRAM_SHA_256) for number in range(3)]
        admin.alter_user_scram_credentials(old, timeout_ms=5000)

    def parts(self, admin: KafkaAdminClient) -> list[str]:
        return [user.partition("-")[0] for user in admin.describe_user_scram_credentials()]


class Quotas:
    """Three quotas of a user, in one request."""

    def put(self, admin: KafkaAdminClient, name: str) -> None:
        admin.alter_client_quotas({QuotaEntity(user=name): dict.fromkeys(_RATES, 5.0)}, timeout_ms=5000)

    def remove(self, admin: KafkaAdminClient, name: str) -> None:
        admin.alter_client_quotas({QuotaEntity(user=name): dict.fromkeys(_RATES)}, timeout_ms=5000)

    def parts(self, admin: KafkaAdminClient) -> list[str]:
        return [str(entity.user) for entity, values in admin.describe_client_quotas().items() for _ in values]


Kind = Rules | Users | Quotas


class Changes(threading.Thread):
    """Makes changes until one fails, and notes which were acknowledged.

    Attributes:
        there: the names whose parts are all there.
        open: the name whose change has no acknowledgement.
    """

    def __init__(self, kind: Kind, servers: str, run: int) -> None:
        super().__init__()
        self.there: set[str] = set()
        self.open = ""
        self.acknowledged = 0
        self._kind, self._servers, self._run = kind, servers, run

    def run(self) -> None:
        try:
            with KafkaAdminClient(bootstrap_servers=self._servers, default_api_timeout_ms=5000) as admin:
                number = 0
                while True:
                    self._change(self._kind.put, admin, f"u{self._run}x{number}")
                    if number % 2:
                        self._change(self._kind.remove, admin, f"u{self._run}x{number - 1}")
                    number += 1
        except KafkaError:
            pass  # the broker is killed

    def _change(self, change: Callable[[KafkaAdminClient, str], None], admin: KafkaAdminClient, name: str) -> None:
        self.open = name
        change(admin, name)
        self.open = ""
        self.there ^= {name}
        self.acknowledged += 1


@pytest.mark.embedded_only("Apache Kafka's own tests show that it stores them")
@pytest.mark.parametrize("kind", [Rules(), Users(), Quotas()], ids=lambda kind: type(kind).__name__.lower())
def test_a_killed_broker_has_each_change_whole_or_not_at_all(tmp_path: Path, kind: Kind) -> None:
    chance = random.Random(39)
    there: set[str] = set()
    with EmbeddedCluster(data_dir=tmp_path, config=AUTHORIZED, listeners=("PLAINTEXT",)) as cluster:
        for run in range(_KILLS):
            changes = Changes(kind, cluster.bootstrap_servers, run)
            changes.start()
            least = chance.randrange(3, 40)
            wait_until(lambda: changes.acknowledged >= least, 60, "changes")  # noqa: B023 - it is called here
            cluster.kill()
            changes.join()
            cluster.restart()
            there |= changes.there
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
                parts = kind.parts(admin)
            found = set(parts)
            assert found ^ there <= {changes.open}
            assert all(parts.count(name) == 3 for name in found), "half a change"
            there = found
