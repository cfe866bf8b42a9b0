"""The transaction coordinator's settings, under Kafka's names for brokers."""

from __future__ import annotations

from dataclasses import dataclass

from pyconsumer.broker.coordinator_config import CoordinatorConfig

__all__ = ["TransactionConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig(CoordinatorConfig):
    """Settings of one transaction coordinator.

    Each field is Kafka's setting, with underscores for dots. The defaults are Kafka's, too.

    Args:
        add_partitions_to_txn_retry_backoff_max_ms: how long a request that adds partitions may wait for the end of the
            previous transaction, or of another transition of the same id.
        request_timeout_ms: the time after which a request between brokers fails. No wait takes longer.
        transaction_max_timeout_ms: the longest transaction timeout that a producer may ask for.
        transactional_id_expiration_ms: the time without use after which a transactional id is removed.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: how often transactions that have timed out are
            aborted.
        transaction_remove_expired_transaction_cleanup_interval_ms: how often expired transactional ids are removed.
        transaction_state_log_load_buffer_size: how many bytes are read in one step when a partition is loaded.
    """

    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    request_timeout_ms: int = 30_000
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_state_log_load_buffer_size: int = 5_242_880
