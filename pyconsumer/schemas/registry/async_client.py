"""The registry's client for asyncio, made by ``python -m tests.support.make_async_registry``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas.registry.driver import GRACE_S, RegistryDriver
from pyconsumer.schemas.registry.exchange import Steps
from pyconsumer.schemas.registry.values import (
    ConfigCompatibilityLevel,
    RegisteredSchema,
    Schema,
    SchemaVersion,
    ServerConfig,
)

__all__ = ["AsyncSchemaRegistryClient"]

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSchemaRegistryClient(RegistryDriver):
    """A client of a Schema Registry, for event loops. It never blocks the loop, and several loops may share it.

    Its calls are those of :class:`~pyconsumer.schemas.SchemaRegistryClient`, as coroutines, with the same arguments and
    errors. The requests are made in a few threads. A call that is cancelled leaves its request to the others that wait
    for the same schema.

    Args:
        conf: the registry's URL, several URLs of one registry, or confluent-kafka's dictionary. ``docs/schemas.md`` has
            the keys.
        clock: the source of time, for tests.

    Raises:
        ConfigurationError: a setting is unknown or not legal.
    """

    async def _wait(
        self,
        timeout_ms: float | None,
        call: Callable[Concatenate[float, P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        deadline = self._deadline(timeout_ms)
        result = self._begin(deadline, call, *args, **kwargs)
        if result.done():
            return result.result()
        waited = asyncio.wrap_future(result)
        done, _ = await asyncio.wait([waited], timeout=max(deadline - self._clock.now(), 0) + GRACE_S)
        if not done:
            waited.cancel()
            raise self._late()
        return waited.result()

    async def close(self) -> None:
        """End the client's threads and close its connections. Calls that wait end with an error."""
        self._end()

    async def aclose(self) -> None:
        """Close the client, by the name of confluent-kafka."""
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- schemas

    async def register_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        *,
        timeout_ms: float | None = None,
    ) -> int:
        """Register a schema under a subject and return its id. The id of a known schema is returned without a change.

        Args:
            subject_name: the subject.
            schema: the schema.
            normalize_schemas: let the registry normalize the schema, so that a different order of attributes, for
                example, makes no new version.

        Raises:
            IncompatibleSchemaError: the subject's compatibility level forbids it.
            InvalidSchemaError: it is no valid schema, or a reference is missing.
        """
        return await self._wait(timeout_ms, self._calls.register_schema, subject_name, schema, normalize_schemas)

    async def register_schema_full_response(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        *,
        timeout_ms: float | None = None,
    ) -> RegisteredSchema:
        """Register a schema as :meth:`register_schema`, and return all that the registry says about it."""
        return await self._wait(
            timeout_ms, self._calls.register_schema_full_response, subject_name, schema, normalize_schemas
        )

    async def get_schema(
        self,
        schema_id: int,
        subject_name: str | None = None,
        fmt: str | None = None,
        reference_format: str | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Schema:
        """Return the schema with an id.

        Args:
            schema_id: the id.
            subject_name: a subject. Its context is the one that the id belongs to.
            fmt: the form of the schema's text, such as ``serialized`` for Protobuf.
            reference_format: the same for references.

        Raises:
            SchemaNotFoundError: there is no such id.
        """
        return await self._wait(timeout_ms, self._calls.get_schema, schema_id, subject_name, fmt, reference_format)

    async def get_schema_by_guid(self, guid: str, fmt: str | None = None, *, timeout_ms: float | None = None) -> Schema:
        """Return the schema with a GUID. Arguments and errors as :meth:`get_schema`."""
        return await self._wait(timeout_ms, self._calls.get_schema_by_guid, guid, fmt)

    async def get_schema_types(self, *, timeout_ms: float | None = None) -> list[str]:
        """Return the types of schemas that the registry has, such as ``AVRO``."""
        return await self._wait(timeout_ms, self._calls.get_schema_types)

    async def get_subjects_by_schema_id(
        self,
        schema_id: int,
        subject_name: str | None = None,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
        *,
        timeout_ms: float | None = None,
    ) -> list[str]:
        """Return the subjects with a version that has this id.

        Args:
            schema_id: the id.
            subject_name: return this subject alone.
            deleted: True includes deleted versions.
            offset, limit: the part of the list. -1: no limit.
        """
        return await self._wait(
            timeout_ms, self._calls.get_subjects_by_schema_id, schema_id, subject_name, deleted, offset, limit
        )

    async def get_schema_versions(
        self,
        schema_id: int,
        subject_name: str | None = None,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
        *,
        timeout_ms: float | None = None,
    ) -> list[SchemaVersion]:
        """Return the subjects and versions that have this id. Arguments as :meth:`get_subjects_by_schema_id`."""
        return await self._wait(
            timeout_ms, self._calls.get_schema_versions, schema_id, subject_name, deleted, offset, limit
        )

    async def lookup_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        fmt: str | None = None,
        deleted: bool = False,
        *,
        timeout_ms: float | None = None,
    ) -> RegisteredSchema:
        """Return the version of a subject that has this schema.

        Args:
            subject_name: the subject.
            schema: the schema.
            normalize_schemas: see :meth:`register_schema`.
            fmt: see :meth:`get_schema`.
            deleted: True includes deleted versions.

        Raises:
            SchemaNotFoundError: the subject has no such version, or there is no such subject.
        """
        return await self._wait(
            timeout_ms, self._calls.lookup_schema, subject_name, schema, normalize_schemas, fmt, deleted
        )

    # --- subjects and versions

    async def get_subjects(
        self,
        subject_prefix: str | None = None,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
        *,
        timeout_ms: float | None = None,
    ) -> list[str]:
        """Return the subjects.

        Args:
            subject_prefix: the beginning of their names. ``:.name:`` stands for a context, empty for the default one.
            deleted: True includes deleted subjects.
            deleted_only: True returns deleted subjects alone.
            offset, limit: the part of the list. -1: no limit.
        """
        return await self._wait(
            timeout_ms, self._calls.get_subjects, subject_prefix, deleted, deleted_only, offset, limit
        )

    async def delete_subject(
        self, subject_name: str, permanent: bool = False, *, timeout_ms: float | None = None
    ) -> list[int]:
        """Delete a subject and return its versions.

        Args:
            subject_name: the subject.
            permanent: True deletes for good. The subject must have been deleted without it before.

        Raises:
            SchemaNotFoundError: there is no such subject, or it was not deleted before.
            InvalidSchemaError: other schemas refer to it.
        """
        return await self._wait(timeout_ms, self._calls.delete_subject, subject_name, permanent)

    async def get_latest_version(
        self, subject_name: str, fmt: str | None = None, *, timeout_ms: float | None = None
    ) -> RegisteredSchema:
        """Return the latest version of a subject. It is kept for ``cache.latest.ttl.sec``, 60 s by default.

        Args:
            subject_name: the subject.
            fmt: see :meth:`get_schema`.
        """
        return await self._wait(timeout_ms, self._calls.get_latest_version, subject_name, fmt)

    async def get_latest_with_metadata(
        self,
        subject_name: str,
        metadata: Mapping[str, str],
        deleted: bool = False,
        fmt: str | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> RegisteredSchema:
        """Return the latest version of a subject that has these properties. It is kept as :meth:`get_latest_version`.

        Args:
            subject_name: the subject.
            metadata: properties by name.
            deleted: True includes deleted versions.
            fmt: see :meth:`get_schema`.
        """
        return await self._wait(timeout_ms, self._calls.get_latest_with_metadata, subject_name, metadata, deleted, fmt)

    async def get_version(
        self,
        subject_name: str,
        version: int | str = "latest",
        deleted: bool = False,
        fmt: str | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> RegisteredSchema:
        """Return a version of a subject.

        Args:
            subject_name: the subject.
            version: its number, or ``latest``, which always asks the registry.
            deleted: True also finds a deleted version.
            fmt: see :meth:`get_schema`.

        Raises:
            SchemaNotFoundError: there is no such subject or version.
        """
        return await self._wait(timeout_ms, self._calls.get_version, subject_name, version, deleted, fmt)

    async def get_referenced_by(
        self,
        subject_name: str,
        version: int | str = "latest",
        offset: int = 0,
        limit: int = -1,
        *,
        timeout_ms: float | None = None,
    ) -> list[int]:
        """Return the ids of schemas that refer to a version.

        Args:
            subject_name: the subject.
            version: its number, or ``latest``.
            offset, limit: the part of the list. -1: no limit.
        """
        return await self._wait(timeout_ms, self._calls.get_referenced_by, subject_name, version, offset, limit)

    async def get_versions(
        self,
        subject_name: str,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
        *,
        timeout_ms: float | None = None,
    ) -> list[int]:
        """Return the versions of a subject. Arguments as :meth:`get_subjects`."""
        return await self._wait(
            timeout_ms, self._calls.get_versions, subject_name, deleted, deleted_only, offset, limit
        )

    async def delete_version(
        self, subject_name: str, version: int | str, permanent: bool = False, *, timeout_ms: float | None = None
    ) -> int:
        """Delete a version of a subject and return its number. Arguments and errors as :meth:`delete_subject`."""
        return await self._wait(timeout_ms, self._calls.delete_version, subject_name, version, permanent)

    # --- compatibility

    async def set_compatibility(
        self,
        subject_name: str | None = None,
        level: ConfigCompatibilityLevel | str | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> str:
        """Set the compatibility level and return it.

        Args:
            subject_name: the subject. None for the whole registry.
            level: see :class:`ConfigCompatibilityLevel`.
        """
        if level is None:
            raise ConfigurationError("set_compatibility needs a level, such as BACKWARD")
        return await self._wait(timeout_ms, self._calls.set_compatibility, subject_name, str(level).upper())

    async def get_compatibility(self, subject_name: str | None = None, *, timeout_ms: float | None = None) -> str:
        """Return the compatibility level of a subject, or of the whole registry.

        Raises:
            SchemaNotFoundError: the subject has no level of its own.
        """
        return await self._wait(timeout_ms, self._calls.get_compatibility, subject_name)

    async def test_compatibility(
        self,
        subject_name: str,
        schema: Schema,
        version: int | str = "latest",
        normalize: bool = False,
        verbose: bool = False,
        *,
        timeout_ms: float | None = None,
    ) -> bool:
        """Return whether a schema is compatible with a version, by the subject's level.

        Args:
            subject_name: the subject.
            schema: the schema.
            version: the number of the version, or ``latest``.
            normalize: see :meth:`register_schema`.
            verbose: ask the registry for reasons, which :meth:`incompatibilities` returns.
        """
        return not await self._wait(
            timeout_ms, self._calls.incompatibilities, subject_name, schema, version, normalize, verbose
        )

    async def test_compatibility_all_versions(
        self,
        subject_name: str,
        schema: Schema,
        normalize: bool = False,
        verbose: bool = False,
        *,
        timeout_ms: float | None = None,
    ) -> bool:
        """Return whether a schema is compatible with all versions that the level names.

        Arguments as :meth:`test_compatibility`.
        """
        return not await self._wait(
            timeout_ms, self._calls.incompatibilities, subject_name, schema, None, normalize, verbose
        )

    async def incompatibilities(
        self,
        subject_name: str,
        schema: Schema,
        version: int | str | None = None,
        normalize: bool = False,
        *,
        timeout_ms: float | None = None,
    ) -> list[str]:
        """Return the reasons for which a schema is not compatible, as the registry words them. Empty if it is.

        Args:
            subject_name: the subject.
            schema: the schema.
            version: the number of a version or ``latest``. None: all that the level names.
            normalize: see :meth:`register_schema`.
        """
        return await self._wait(
            timeout_ms, self._calls.incompatibilities, subject_name, schema, version, normalize, True
        )

    # --- settings and modes

    async def set_config(
        self,
        subject_name: str | None = None,
        config: ServerConfig | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> ServerConfig:
        """Change settings of a subject, or of the whole registry, and return what was sent."""
        if config is None:
            raise ConfigurationError("set_config needs a ServerConfig")
        return await self._wait(timeout_ms, self._calls.set_config, subject_name, config)

    async def delete_config(self, subject_name: str | None = None, *, timeout_ms: float | None = None) -> ServerConfig:
        """Remove the settings of a subject and return them. The registry's own apply again."""
        return await self._wait(timeout_ms, self._calls.delete_config, subject_name)

    async def get_config(self, subject_name: str | None = None, *, timeout_ms: float | None = None) -> ServerConfig:
        """Return the settings of a subject, or of the whole registry.

        Raises:
            SchemaNotFoundError: the subject has none of its own.
        """
        return await self._wait(timeout_ms, self._calls.get_config, subject_name)

    async def get_mode(self, subject_name: str, *, timeout_ms: float | None = None) -> str:
        """Return the mode of a subject: ``READWRITE``, ``READONLY`` or ``IMPORT``."""
        return await self._wait(timeout_ms, self._calls.get_mode, subject_name)

    async def update_mode(
        self, subject_name: str, mode: str, force: bool = False, *, timeout_ms: float | None = None
    ) -> str:
        """Set the mode of a subject and return it.

        Args:
            subject_name: the subject.
            mode: see :meth:`get_mode`.
            force: True permits ``IMPORT`` although the subject has schemas.
        """
        return await self._wait(timeout_ms, self._calls.update_mode, subject_name, mode, force)

    async def delete_mode(self, subject_name: str, *, timeout_ms: float | None = None) -> str:
        """Remove the mode of a subject and return it."""
        return await self._wait(timeout_ms, self._calls.delete_mode, subject_name)

    async def get_global_mode(self, *, timeout_ms: float | None = None) -> str:
        """Return the mode of the whole registry."""
        return await self._wait(timeout_ms, self._calls.get_mode, None)

    async def update_global_mode(self, mode: str, force: bool = False, *, timeout_ms: float | None = None) -> str:
        """Set the mode of the whole registry and return it. Arguments as :meth:`update_mode`."""
        return await self._wait(timeout_ms, self._calls.update_mode, None, mode, force)

    async def get_contexts(self, offset: int = 0, limit: int = -1, *, timeout_ms: float | None = None) -> list[str]:
        """Return the names of contexts, such as ``.`` for the default one.

        Args:
            offset, limit: the part of the list. -1: no limit.
        """
        return await self._wait(timeout_ms, self._calls.get_contexts, offset, limit)
