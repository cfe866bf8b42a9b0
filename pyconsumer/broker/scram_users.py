"""The SCRAM credentials of users: a part of the controller's state. Rules and errors are those of Kafka's controller.

A change is in the cluster's files before it takes effect. What is stored does not lead back to a password.
"""

from __future__ import annotations

import base64
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.logins import ScramCredential
from pyconsumer.errors import (
    BrokerResponseError,
    DuplicateResourceError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnknownServerError,
    UnsupportedSaslMechanismError,
)
from pyconsumer.scram import ITERATIONS, ScramMechanism

__all__ = ["ScramDeletion", "ScramUpsertion", "ScramUsers"]

_log = Log(__name__)

_SECRET_BYTES: Final = 32
#: The most users that a warning names.
_MOST_NAMED: Final = 10

#: Stores a change, or calls the first argument and raises ``OSError``.
Save = Callable[[Callable[[], None], Mapping[str, Any]], None]
_Users = dict[str, dict[ScramMechanism, ScramCredential]]


class ScramDeletion(NamedTuple):
    """The removal of a user's credential. ``mechanism`` is Kafka's number, which may be unknown."""

    name: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A new or changed credential of a user, with a password that the client has salted."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.name!r}, {self.mechanism}, {self.iterations})"


class ScramUsers:
    """The users and their credentials.

    Args:
        save: makes a change durable.

    Attributes:
        secret: random bytes of this cluster, from which the salts of unknown users are derived.
    """

    def __init__(self, save: Save) -> None:
        self._save = save
        self._users: _Users = {}
        self._given: set[str] = set()  # names of set_password, which log in by PLAIN too
        self._changed: set[str] = set()  # those of them whose credentials have changed since
        self.secret = secrets.token_bytes(_SECRET_BYTES)

    # --- the files

    def load(self, change: Mapping[str, Any]) -> None:
        """Apply a change from the cluster's files."""
        if "scram_secret" in change:
            self.secret = base64.b64decode(change["scram_secret"])
        for name, credentials in change.get("scram_users", {}).items():
            found = {ScramMechanism[key]: ScramCredential.from_json(data) for key, data in credentials.items()}
            if found:
                self._users[name] = found
            else:
                self._users.pop(name, None)

    def snapshot(self) -> dict[str, Any]:
        """Return the state in the form for the files. Empty if there are no users."""
        return self._as_change(self._users) if self._users else {}

    def _as_change(self, names: Sequence[str] | _Users) -> dict[str, Any]:
        return {
            "scram_secret": base64.b64encode(self.secret).decode(),
            "scram_users": {
                name: {one.name: credential.to_json() for one, credential in self._users.get(name, {}).items()}
                for name in names
            },
        }

    # --- questions

    def find(self, name: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential of a user, or None."""
        return self._users.get(name, {}).get(mechanism)

    def describe(self, names: Sequence[str] | None) -> dict[str, dict[ScramMechanism, int] | BrokerResponseError]:
        """Return the iterations by mechanism of each user, or an error. Without names, of all users."""
        if not names:
            return {name: self._iterations(name) for name in self._users}
        found: dict[str, dict[ScramMechanism, int] | BrokerResponseError] = {}
        for name, count in Counter(names).items():
            if count > 1:
                found[name] = DuplicateResourceError(
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
                )
            elif name not in self._users:
                found[name] = ResourceNotFoundError(
                    f"Attempt to describe a user credential that does not exist: {name}"
                )
            else:
                found[name] = self._iterations(name)
        return found

    def _iterations(self, name: str) -> dict[ScramMechanism, int]:
        return {mechanism: credential.iterations for mechanism, credential in self._users[name].items()}

    # --- changes

    def set_password(self, name: str, password: str) -> None:
        """Give a user of the start credentials of all mechanisms, unless the present ones fit this password."""
        self._given.add(name)
        present = self._users.get(name, {})
        if all(one in present and present[one].fits(one, password) for one in ScramMechanism):
            return
        self._replace({name: {one: ScramCredential.of_password(one, password) for one in ScramMechanism}})

    def warn_of_others(self) -> None:
        """Log the users in the files that the start does not name. They log in by SCRAM as before."""
        others = sorted(self._users.keys() - self._given)
        if others:
            _log.warning(
                "%d SCRAM users in the data folder are not in the users of this start, and may still log in: %s",
                len(others),
                ", ".join(map(repr, others[:_MOST_NAMED])) + (", ..." if len(others) > _MOST_NAMED else ""),
            )

    def alter(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, BrokerResponseError | None]:
        """Change the credentials of users (KIP-554). Return the error of each user, or None.

        A user may occur once. Users with an error are not changed, and the others are changed in a single write.

        Raises:
            OSError: the change could not be stored. No user was changed.
        """
        results: dict[str, BrokerResponseError | None] = {}
        changed: _Users = {}
        items: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
        for item in items:
            if results.get(item.name) is not None:
                continue  # the first error counts
            if item.name in results:
                results[item.name] = DuplicateResourceError(
                    "A user credential cannot be altered twice in the same request"
                )
                del changed[item.name]
                continue
            try:
                changed[item.name] = self._after(item)
                results[item.name] = None
            except BrokerResponseError as error:
                results[item.name] = error
        self._replace(changed)
        for name in sorted(changed.keys() & self._given):
            self._changed.add(name)
            _log.warning("the credentials of %r have changed; the password of the start is set again at the next", name)
        return results

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to an earlier :meth:`snapshot`. Raises ``OSError`` if the change could not be stored."""
        before = ScramUsers(self._save)
        before.load(state)
        earlier = before._users
        names = {**self._users, **earlier}
        self._replace({name: earlier.get(name, {}) for name in names if earlier.get(name) != self._users.get(name)})
        self._changed.clear()

    def fits_changed(self, name: str, password: bytes) -> Callable[[], bool] | None:
        """Return the check of a password of a user whose credentials have changed. None: they have not.

        The check may run in any thread. A user who was deleted has no credentials, so that no password fits.
        """
        if name not in self._changed:
            return None
        present = self._users.get(name)
        credentials = present or {}

        def fits() -> bool:
            try:
                text = password.decode()
            except UnicodeDecodeError:
                return False
            fitting = any(credential.fits(one, text) for one, credential in credentials.items())
            return fitting and self._users.get(name) is present  # they may have been changed meanwhile

        return fits

    def _after(self, item: ScramDeletion | ScramUpsertion) -> dict[ScramMechanism, ScramCredential]:
        """Return the user's credentials after a change."""
        if not item.name:
            raise UnacceptableCredentialError("Username must not be empty")
        if item.mechanism not in tuple(ScramMechanism):
            raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
        mechanism, present = ScramMechanism(item.mechanism), self._users.get(item.name, {})
        if isinstance(item, ScramDeletion):
            if mechanism not in present:
                raise ResourceNotFoundError("Attempt to delete a user credential that does not exist")
            return {one: credential for one, credential in present.items() if one is not mechanism}
        if item.iterations < ITERATIONS[0]:
            raise UnacceptableCredentialError("Too few iterations")
        if item.iterations > ITERATIONS[1]:
            raise UnacceptableCredentialError("Too many iterations")
        if not item.salted_password:  # Java cannot make a key from it, and fails in this way
            raise UnknownServerError("the salted password is empty")
        fresh = ScramCredential.of_salted(mechanism, item.salted_password, item.salt, item.iterations)
        return {**present, mechanism: fresh}

    def _replace(self, changed: _Users) -> None:
        if not changed:
            return
        before = self._users
        self._users = {name: own for name, own in (before | changed).items() if own}

        def undo() -> None:
            self._users = before

        self._save(undo, self._as_change(list(changed)))
