"""The error classes of the compat layers, compared with the originals, and the translation at the border."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import inspect
import pickle
import traceback
from itertools import product
from types import ModuleType
from typing import Any

import pytest

from pyconsumer import errors as ours
from pyconsumer.compat.aiokafka import border as aiokafka_border
from pyconsumer.compat.border import Border, crosses
from pyconsumer.compat.error_classes import Translated, pair
from pyconsumer.compat.kafka.border import border as kafka_border
from pyconsumer.structs import TopicPartition

LAYERS = ["kafka", "aiokafka"]
OWN_TEXT = {"CommitFailedError", "ProducerFenced"}
OURS = [
    cls
    for cls in (getattr(ours, name) for name in ours.__all__)
    if inspect.isclass(cls) and issubclass(cls, ours.KafkaError)
]
BORDERS = {
    "kafka": kafka_border,
    "aiokafka": aiokafka_border.border,
    "aiokafka's consumer": aiokafka_border.consumer_border,
    "aiokafka's producer": aiokafka_border.producer_border,
}


@pytest.fixture(params=LAYERS)
def modules(request: pytest.FixtureRequest) -> tuple[ModuleType, ModuleType]:
    """The errors of the original, and those of the layer."""
    pytest.importorskip(request.param, reason="needs the original, which pyconsumer[peers] installs")
    return (
        importlib.import_module(f"{request.param}.errors"),
        importlib.import_module(f"pyconsumer.compat.{request.param}.errors"),
    )


def classes(original: ModuleType) -> dict[str, type[Exception]]:
    return {
        name: value
        for name, value in vars(original).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == original.__name__
    }


def test_the_tree_is_that_of_the_original(modules: tuple[ModuleType, ModuleType]) -> None:
    original, layer = modules
    theirs = classes(original)
    assert len(theirs) > 100
    for name, value in theirs.items():
        assert inspect.isclass(getattr(layer, name)), name
        assert getattr(layer, name).__name__ == value.__name__
    builtin = {"Exception": Exception, "RuntimeError": RuntimeError, "OSError": OSError, "ValueError": ValueError}
    for one, other in product([*theirs, *builtin], repeat=2):
        wanted = issubclass(theirs.get(one) or builtin[one], theirs.get(other) or builtin[other])
        mine = issubclass(
            builtin.get(one) or getattr(layer, one),
            builtin.get(other) or getattr(layer, other),
        )
        assert mine == wanted, f"{one} is {'no' if mine else 'a'} {other}"


def test_attributes_are_those_of_the_original(modules: tuple[ModuleType, ModuleType]) -> None:
    original, layer = modules
    for name, value in classes(original).items():
        mine = getattr(layer, name)
        for attribute in ("errno", "message", "description", "retriable", "invalid_metadata"):
            assert hasattr(mine, attribute) == hasattr(value, attribute), f"{name}.{attribute}"
            wanted, found = getattr(value, attribute, None), getattr(mine, attribute, None)
            if attribute == "description" or (attribute == "message" and wanted and " " in wanted):
                assert type(found) is type(wanted) or not wanted, f"{name}.{attribute}"  # the words are ours
            else:
                assert found == wanted, f"{name}.{attribute}"


def test_text_and_arguments_are_those_of_the_original(modules: tuple[ModuleType, ModuleType]) -> None:
    original, layer = modules
    for name, value in classes(original).items():
        mine = getattr(layer, name)
        for args in ((), ("text",), ({"a": 1},), ("two", 2)):
            if name == "LogTruncationError" and not args:
                continue
            if name == "ProducerFenced" and len(args) > 1:
                continue
            if not hasattr(value, "errno") and name == "BrokerResponseError":
                continue  # its str raises in aiokafka
            wanted, found = value(*args), mine(*args)
            assert len(found.args) == len(wanted.args)
            if found.args == wanted.args:
                assert str(found) == str(wanted)
                assert repr(found) == repr(wanted)
            else:
                assert name in OWN_TEXT | {"LogTruncationError"}
                assert str(found).startswith(f"{name}: ")


def test_codes_are_those_of_the_original(modules: tuple[ModuleType, ModuleType]) -> None:
    original, layer = modules
    assert {code: cls.__name__ for code, cls in layer.kafka_errors.items()} == {
        code: cls.__name__ for code, cls in original.kafka_errors.items()
    }
    for code in (-1, 0, 3, 36, 74, 4711):
        wanted, found = original.for_code(code), layer.for_code(code)
        assert (found.__name__, found.errno) == (wanted.__name__, wanted.errno)
        assert issubclass(found, layer.UnknownError) == issubclass(wanted, original.UnknownError)


def test_equality_is_that_of_the_original(modules: tuple[ModuleType, ModuleType]) -> None:
    for errors in modules:
        by_value = "aiokafka" not in errors.__name__
        assert (errors.KafkaError("a") == errors.KafkaError("a")) is by_value
        assert errors.KafkaError("a") != errors.KafkaError("b")
        assert errors.KafkaError("a") != errors.IllegalStateError("a")


@pytest.mark.parametrize("layer", LAYERS)
def test_errors_of_a_layer_pickle_and_copy(layer: str) -> None:
    errors = importlib.import_module(f"pyconsumer.compat.{layer}.errors")
    for name in errors.__all__:
        cls = getattr(errors, name)
        if not inspect.isclass(cls):
            continue
        error = cls("text")
        error.more = [1]
        pickled = pickle.dumps(error)
        assert b"pyconsumer.compat." in pickled
        for other in (pickle.loads(pickled), copy.copy(error), copy.deepcopy(error)):
            assert type(other) is cls
            assert (other.args, other.more, str(other)) == (error.args, [1], str(error))
        hash(error)


@pytest.mark.parametrize("layer", LAYERS)
def test_names_of_ours_are_there_too_and_none_is_a_tuple(layer: str) -> None:
    errors = importlib.import_module(f"pyconsumer.compat.{layer}.errors")
    assert errors.ConcurrentAccessError is ours.ConcurrentAccessError
    assert {name for name in dir(errors) if isinstance(getattr(errors, name), tuple)} == set()
    with pytest.raises(AttributeError, match="has no error 'Nonsense'"):
        errors.Nonsense  # noqa: B018


def made(cls: type[ours.KafkaError]) -> ours.KafkaError:
    if issubclass(cls, ours.RecordDeserializationError):
        return cls("text", topic_partition=TopicPartition("t", 0), offset=1)
    if issubclass(cls, ours.InvalidOffsetError):
        return cls("text", partitions={TopicPartition("t", 0): 5})
    return cls("text")


@pytest.mark.parametrize("name", BORDERS)
def test_each_error_crosses(name: str) -> None:
    assert len(OURS) > 130
    for cls in OURS:
        check_crossing(BORDERS[name], cls)


def check_crossing(border: Border, cls: type[ours.KafkaError]) -> None:
    theirs = TypeError if issubclass(cls, ours.SerializationError) else border.kind(made(cls))
    error = made(cls)
    error.more = "kept"  # type: ignore[attr-defined]
    error.add_note("a note")
    text = str(error)
    with pytest.raises(ours.KafkaError) as caught:
        raise error
    frames = traceback.format_tb(caught.value.__traceback__)
    assert border.crossed(error) is error
    assert traceback.format_tb(error.__traceback__) == frames
    assert isinstance(error, Translated)
    assert isinstance(error, theirs)
    assert isinstance(error, cls)
    assert type(error).__name__ == theirs.__name__
    kept = type(error)
    assert border.crossed(error) is error
    assert type(error) is kept
    again = made(cls)
    assert type(border.crossed(again)) is kept
    assert "text" in str(error)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kept
        assert (other.args, str(other)) == (error.args, str(error))
        assert vars(other) == vars(error)
        assert other.more == "kept"
    if issubclass(theirs, Exception) and issubclass(cls, ours.InvalidOffsetError):
        assert error.args[0] == TopicPartition("t", 0) or TopicPartition("t", 0) in error.args[0]
        assert text in str(error)
    for flag in ("retriable", "invalid_metadata"):
        if hasattr(theirs, flag):
            assert getattr(error, flag) == getattr(theirs, flag)


def test_codes_that_the_original_does_not_know_stay() -> None:
    errors = importlib.import_module("pyconsumer.compat.aiokafka.errors")
    error = aiokafka_border.border.crossed(ours.FencedInstanceIdError("there is another"))
    assert isinstance(error, errors.UnknownError)
    assert (error.errno, error.message) == (82, "FENCED_INSTANCE_ID")
    assert str(error) == "[Error 82] UnknownError: there is another"


def test_the_text_has_the_explanation_if_there_is_no_other() -> None:
    error = kafka_border.crossed(ours.TopicAlreadyExistsError())
    assert str(error).startswith("[Error 36] TopicAlreadyExistsError: ")
    assert len(str(error)) > 50


@pytest.mark.parametrize(
    ("error", "kind", "name"),
    [
        (ours.IllegalStateError("x"), "kafka", "IllegalStateError"),
        (ours.NoBrokersAvailableError("x"), "kafka", "NoBrokersAvailable"),
        (ours.NoBrokersAvailableError("x"), "aiokafka", "KafkaConnectionError"),
        (ours.BufferExhaustedError("x"), "kafka", "KafkaTimeoutError"),
        (ours.AuthenticationError("x", stage="SASL"), "kafka", "SaslAuthenticationFailedError"),
        (ours.AuthenticationError("x", stage="TLS"), "kafka", "KafkaConnectionError"),
        (ours.AuthenticationError("x"), "aiokafka", "AuthenticationFailedError"),
        (ours.InvalidGroupIdError("a group_id is needed"), "kafka", "IllegalStateError"),
        (ours.InvalidGroupIdError(), "kafka", "InvalidGroupIdError"),
        (ours.InvalidGroupIdError("a group_id is needed"), "aiokafka's consumer", "IllegalOperation"),
        (ours.RecordTooLargeError("x"), "kafka", "MessageSizeTooLargeError"),
        (ours.ProducerFencedError("x"), "aiokafka", "ProducerFenced"),
        (ours.InvalidProducerEpochError("x"), "aiokafka", "ProducerFenced"),
        (ours.ProducerFencedError("x"), "kafka", "ProducerFencedError"),
        (ours.IllegalStateError("the producer is closed"), "aiokafka's producer", "ProducerClosed"),
        (ours.IllegalStateError("no transaction is open"), "aiokafka's producer", "IllegalOperation"),
        (ours.IllegalStateError("x"), "aiokafka's consumer", "IllegalStateError"),
        (ours.WakeupError(), "kafka", "KafkaError"),
        (ours.RetriableCommitFailedError("x"), "kafka", "RetriableError"),
        (ours.RetriableCommitFailedError("x"), "aiokafka", "KafkaError"),
        (ours.ConfigurationError("x"), "kafka", "KafkaConfigurationError"),
        (ours.CorruptMessageError("x"), "aiokafka", "CorruptRecordException"),
    ],
    ids=lambda value: getattr(value, "args", value),
)
def test_some_kinds(error: ours.KafkaError, kind: str, name: str) -> None:
    border = BORDERS[kind]
    assert border.kind(error).__name__ == name
    assert type(border.crossed(error)).__name__ == name


def test_a_producer_that_cannot_go_on_raises_the_cause_again() -> None:
    error = ours.IllegalStateError("the producer cannot be used any more: fenced")
    error.__cause__ = ours.ProducerFencedError("fenced")
    assert type(aiokafka_border.producer_border.crossed(error)).__name__ == "ProducerFenced"


def test_what_is_no_kafka_error_there_is_none_here() -> None:
    errors = importlib.import_module("pyconsumer.compat.aiokafka.errors")
    stopped = aiokafka_border.ConsumerStoppedError("stopped")
    illegal = aiokafka_border.producer_border.crossed(ours.IllegalStateError("no transaction"))
    for error, cls in ((stopped, errors.ConsumerStoppedError), (illegal, errors.IllegalOperation)):
        assert isinstance(error, cls)
        assert isinstance(error, ours.IllegalStateError)
        assert not isinstance(error, errors.KafkaError)
    caught = (errors.ProducerFenced, errors.IllegalOperation, errors.KafkaError)
    with pytest.raises(errors.ConsumerStoppedError), contextlib.suppress(*caught):
        raise stopped


class OwnError(Exception):
    """An exception of the program, with an argument that is not in ``args``."""

    def __init__(self, number: int, *, kind: str) -> None:
        super().__init__(number)
        self.kind = kind


@pytest.mark.parametrize("cls", [ours.SerializationError, ours.RecordDeserializationError])
def test_an_exception_of_a_serializer_crosses_as_it_is(cls: type[ours.SerializationError]) -> None:
    def serialize() -> None:
        raise OwnError(1, kind="own")

    def call() -> None:
        try:
            serialize()
        except Exception as cause:
            raise made(cls) from cause

    with pytest.raises(OwnError) as caught:
        kafka_border.guarded(call)()
    error = caught.value
    assert (error.args, error.kind) == ((1,), "own")
    assert error.__notes__ == ["pyconsumer: text"]
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "in serialize" in "".join(traceback.format_tb(error.__traceback__))
    kafka_border.crossed(_with_cause(made(cls), error))
    assert error.__notes__ == ["pyconsumer: text"]


def _with_cause(error: ours.KafkaError, cause: Exception) -> ours.KafkaError:
    error.__cause__ = cause
    return error


@kafka_border.guard
class Client:
    """Each kind of call."""

    def __init__(self, *, fails: bool = False) -> None:
        if fails:
            raise ours.ConfigurationError("init")

    def call(self, error: Exception, more: int = 1) -> None:
        """Raise."""
        raise error

    async def coroutine(self, error: Exception) -> None:
        raise error

    @property
    def value(self) -> int:
        """A property."""
        raise ours.IllegalStateError("value")

    def __iter__(self) -> Client:
        return self

    def __next__(self) -> int:
        raise ours.WakeupError("next")

    def __aiter__(self) -> Client:
        return self

    async def __anext__(self) -> int:
        raise ours.WakeupError("anext")

    @crosses
    def hot(self) -> None:
        raise ours.WakeupError("hot")

    @staticmethod
    def plain() -> int:
        return 1

    def _internal(self) -> None:
        raise ours.WakeupError("internal")


def test_a_guarded_class_translates_each_kind_of_call() -> None:
    client = Client()
    error = ours.KafkaTimeoutError("late")
    for call in (
        lambda: Client(fails=True),
        lambda: client.call(error),
        lambda: asyncio.run(client.coroutine(error)),
        lambda: client.value,
        lambda: next(client),
        lambda: asyncio.run(anext(client)),  # type: ignore[arg-type]
    ):
        with pytest.raises(Translated):
            call()
    for method in (client.hot, client._internal):
        with pytest.raises(ours.WakeupError) as caught:
            method()
        assert not isinstance(caught.value, Translated)
    with pytest.raises(LookupError):
        client.call(LookupError())
    assert Client.plain() == 1
    assert str(inspect.signature(Client.call)) == "(self, error: 'Exception', more: 'int' = 1) -> 'None'"
    assert Client.call.__doc__ == "Raise."
    assert Client.value.__doc__ == "A property."
    assert inspect.iscoroutinefunction(Client.coroutine)


class Manager:
    """A context manager of both kinds, which fails at its end."""

    def __enter__(self) -> int:
        return 5

    def __exit__(self, *given: object) -> None:
        if given[0] is None:
            raise ours.CommitFailedError("end")

    async def __aenter__(self) -> int:
        return 5

    async def __aexit__(self, *given: object) -> None:
        self.__exit__(*given)


def test_contexts_callbacks_and_awaitables_translate() -> None:
    with pytest.raises(Translated, match="end"), kafka_border.context(Manager()) as value:
        assert value == 5
    with pytest.raises(ours.WakeupError) as own, kafka_border.context(Manager()):
        raise ours.WakeupError("of the block")
    assert not isinstance(own.value, Translated)

    async def main() -> None:
        with pytest.raises(Translated, match="end"):
            async with kafka_border.context(Manager()):
                pass
        with pytest.raises(Translated, match="late"):
            await kafka_border.awaited(fails())

    async def fails() -> None:
        raise ours.KafkaTimeoutError("late")

    asyncio.run(main())
    seen: list[Any] = []
    kafka_border.callback(lambda *given: seen.append(given))({"offsets": 1}, ours.CommitFailedError("no"))
    assert isinstance(seen[0][1], Translated)


def test_a_class_of_two_bases_is_made_once() -> None:
    assert pair(ValueError, ours.WakeupError) is pair(ValueError, ours.WakeupError)
    assert isinstance(kafka_border, Border)
