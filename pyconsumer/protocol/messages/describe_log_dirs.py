"""DescribeLogDirs: the folders with the logs of a broker, and the sizes of its replicas (KIP-113)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class DescribableLogDirTopic(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(ApiKey.DESCRIBE_LOG_DIRS, "request", versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+", factory=list)


@structure
class DescribeLogDirsPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    partition_size: int = field(INT64, "0+", default=0)
    offset_lag: int = field(INT64, "0+", default=0)
    is_future_key: bool = field(BOOL, "0+", default=False)


@structure
class DescribeLogDirsTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+", factory=list)


@structure
class DescribeLogDirsResult(Struct):
    error_code: int = field(INT16, "0+", default=0)
    log_dir: str = field(STRING, "0+", default="")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+", factory=list)
    total_bytes: int = field(INT64, "4+", default=-1, ignorable=True)
    usable_bytes: int = field(INT64, "4+", default=-1, ignorable=True)
    is_cordoned: bool = field(BOOL, "5+", default=False, ignorable=True)


@message(ApiKey.DESCRIBE_LOG_DIRS, "response", versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+", factory=list)
