"""Logins of clouds for ``sasl_oauth_token_provider``, and what a mechanism of your own must have.

A provider is an object with ``token() -> str``. Other providers than those below are examples of some lines: see the
guide, "TLS and logins".
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pyconsumer.background_log import stay_in_background
from pyconsumer.errors import ConfigurationError
from pyconsumer.generic import SaslMechanism, TokenProvider

__all__ = ["AwsMskIam", "SaslMechanism", "TokenProvider"]


class AwsMskIam:
    """Logs in to Amazon MSK by IAM. It needs the extra ``aws``: Amazon's own package signs the tokens.

    One may serve several clients. A token is used again until most of its life is over. It is made in a thread of its
    own, since finding credentials may take requests: no call and no event loop waits for it.

    Args:
        region: the region of the cluster, such as ``eu-west-1``.
        profile: the profile of the AWS configuration to take credentials from. By default AWS's usual search.
        role_arn: a role to assume.
        role_session_name: the name of that session in AWS's logs.

    Raises:
        ConfigurationError: the extra is not installed, or both a profile and a role are given.

    Source: the package ``aws-msk-iam-sasl-signer-python``.

    Example::

        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers="b-1.example.kafka.eu-west-1.amazonaws.com:9098",
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=AwsMskIam("eu-west-1"),
        )
    """

    def __init__(
        self,
        region: str,
        *,
        profile: str | None = None,
        role_arn: str | None = None,
        role_session_name: str = "pyconsumer",
    ) -> None:
        if profile is not None and role_arn is not None:
            raise ConfigurationError("AwsMskIam: profile and role_arn are both given: each says whose credentials")
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        except ImportError:
            raise ConfigurationError("AwsMskIam needs Amazon's signer: pip install 'pyconsumer[aws]'") from None
        self._signer: Any = MSKAuthTokenProvider
        self._region = region
        self._profile = profile
        self._role = (role_arn, role_session_name)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._token = ""
        self._fresh_until = 0.0
        self._pending: Future[str] | None = None

    def __repr__(self) -> str:
        return f"AwsMskIam({self._region!r})"

    def token(self) -> str | Future[str]:
        """Return the token, or a future of a new one."""
        if self._process != os.getpid():  # a forked child has not the thread, which may have held the lock
            self._begin()
        with self._lock:
            if time.time() < self._fresh_until:
                return self._token
            if self._pending is None or self._pending.done():
                with_thread = ThreadPoolExecutor(1, "pyconsumer-aws", stay_in_background)
                self._pending = with_thread.submit(self._sign)
                with_thread.shutdown(wait=False)
            # Each login has a future of its own: one that gives up cancels it.
            found: Future[str] = Future()
            self._pending.add_done_callback(lambda done: _pass_on(done, found))
            return found

    def _sign(self) -> str:
        role, session = self._role
        if role is not None:
            token, expires_ms = self._signer.generate_auth_token_from_role_arn(self._region, role, session)
        elif self._profile is not None:
            token, expires_ms = self._signer.generate_auth_token_from_profile(self._region, self._profile)
        else:
            token, expires_ms = self._signer.generate_auth_token(self._region)
        now = time.time()
        with self._lock:
            self._token, self._fresh_until = token, now + 0.8 * (expires_ms / 1000 - now)
        return str(token)


def _pass_on(done: Future[str], found: Future[str]) -> None:
    if not found.set_running_or_notify_cancel():
        return
    error = None if done.cancelled() else done.exception()
    if error is not None:
        found.set_exception(error)
    else:
        found.set_result(done.result())
