"""Replication: copies of followers, acknowledgements, reads, and deaths of brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyconsumer.broker.elections import NO_LEADER
from pyconsumer.broker.partition import FollowerProgress, Partition
from pyconsumer.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
)
from pyconsumer.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import iter_records
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import TP, batch, fill_disk, log_in, records_of


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """Three brokers with files, and the topic t with one partition of three replicas, led by node 0."""
    made = Brokers(tmp_path)
    made.controller.create_topic("t", 1, 3)
    made.run()
    yield made
    made.stop()


def values(partition: Partition) -> list[bytes | None]:
    return [record.value for record in records_of(partition.log)]


def produce(brokers: Brokers, node: int, data: bytes, *, acks: int = -1, timeout_ms: int = 30_000, version: int = 12):
    """The list that will receive the response for the partition."""
    parts = [PartitionProduceData(0, bytes(data))]
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData("t", partition_data=parts)])
    return brokers.request(node, request, version)


def part_of(answers: list):
    (response,) = answers
    return response.responses[0].partition_responses[0]


class TestCopying:
    def test_followers_have_the_leaders_batches_with_offsets_and_epochs(self, brokers: Brokers) -> None:
        for value in (b"a", b"b", b"c"):
            brokers.leader().append(batch(value, value))
            brokers.run()
        leader = brokers.replica(0).log
        data = leader.read(0, 1 << 20, 6, at_least_one=True)
        for node in (1, 2):
            follower = brokers.replica(node)
            assert follower.log.read(0, 1 << 20, 6, at_least_one=True) == data
            assert follower.log.epochs.entries() == leader.epochs.entries() == [(0, 0)]
            assert follower.high_watermark == 6

    def test_the_high_watermark_waits_for_the_slowest_in_sync(self, brokers: Brokers) -> None:
        brokers.alive[2].fetcher.pause()
        leader = brokers.leader()
        leader.append(batch(b"a"))
        brokers.run()
        assert (brokers.replica(1).log.log_end_offset, leader.high_watermark) == (1, 0)
        brokers.alive[2].fetcher.resume()
        brokers.run()
        assert leader.high_watermark == 1

    def test_no_call_runs_without_new_records(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        assert not brokers.step()

    def test_segments_of_followers_reach_their_full_length(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path, 2)
        made.controller.create_topic("t", 1, 2, {"internal.segment.bytes": "200"})
        made.alive[1].fetcher.pause()
        for _ in range(9):
            made.leader().append(batch(b"x" * 10))
        made.alive[1].fetcher.resume()
        made.run()
        sizes = [[segment.size_bytes for segment in made.replica(node).log.segments] for node in (0, 1)]
        assert sizes[0] == sizes[1]
        assert len(sizes[0]) == 5
        made.stop()

    def test_a_batch_larger_than_a_fetch_is_copied(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path, 2, replica_fetch_max_bytes=100)
        made.controller.create_topic("t", 1, 2)
        for _ in range(3):
            made.leader().append(batch(b"x" * 1000))
        made.run()
        assert made.leader().high_watermark == 3
        made.stop()

    def test_a_follower_remembers_producers(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a", producer_id=7, epoch=0, sequence=0))
        brokers.run()
        brokers.kill(0)
        brokers.run()
        again = brokers.leader().append(batch(b"a", producer_id=7, epoch=0, sequence=0))
        assert again.duplicate
        assert again.first_offset == 0

    def test_a_raised_log_start_offset_reaches_all_replicas(self, brokers: Brokers) -> None:
        for value in (b"a", b"b", b"c"):
            brokers.leader().append(batch(value))
        brokers.run()
        brokers.alive[1].fetcher.pause()
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])], timeout_ms=5_000
        )
        answers = brokers.request(0, request, 2)
        brokers.run()
        assert not answers
        brokers.alive[1].fetcher.resume()
        brokers.run()
        result = answers[0].topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (0, 2)
        assert [brokers.replica(node).log.log_start_offset for node in range(3)] == [2, 2, 2]

    def test_delete_records_times_out_if_a_replica_lags(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.alive[1].fetcher.pause()
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], timeout_ms=5_000
        )
        answers = brokers.request(0, request, 2)
        brokers.advance(5.0)
        result = answers[0].topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (RequestTimedOutError.errno, -1)

    def test_a_follower_far_behind_starts_at_the_leaders_log_start_offset(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.kill(2)
        for value in (b"b", b"c"):
            brokers.leader().append(batch(value))
        brokers.run()
        brokers.leader().start_at(2)
        brokers.restart(2)
        brokers.run()
        log = brokers.replica(2).log
        assert (log.log_start_offset, log.log_end_offset) == (2, 3)
        assert brokers.state() == (0, 0, (0, 1, 2))


class TestAcks:
    def test_all_waits_for_all_in_sync(self, brokers: Brokers) -> None:
        brokers.alive[2].fetcher.pause()
        answers = produce(brokers, 0, batch(b"a"))
        brokers.run()
        assert not answers
        brokers.alive[2].fetcher.resume()
        brokers.run()
        part = part_of(answers)
        assert (part.error_code, part.base_offset) == (0, 0)

    @pytest.mark.parametrize("acks", [0, 1])
    def test_acks_0_and_1_wait_for_no_follower(self, brokers: Brokers, acks: int) -> None:
        answers = produce(brokers, 0, batch(b"a"), acks=acks)
        assert len(answers) == 1

    def test_acks_all_times_out(self, brokers: Brokers) -> None:
        brokers.alive[1].fetcher.pause()
        answers = produce(brokers, 0, batch(b"a"), timeout_ms=2_000)
        brokers.advance(1.9)
        assert not answers
        brokers.advance(0.2)
        assert part_of(answers).error_code == RequestTimedOutError.errno

    def test_too_few_in_sync_replicas_before_the_append(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path)
        made.controller.create_topic("t", 1, 3, {"min.insync.replicas": "2"})
        made.kill(1)
        made.kill(2)
        made.run()
        assert part_of(produce(made, 0, batch(b"a"))).error_code == NotEnoughReplicasError.errno
        # Records below min.insync.replicas are replicated, but stay invisible until there are enough replicas.
        assert part_of(produce(made, 0, batch(b"b"), acks=1)).error_code == 0
        assert made.leader().high_watermark == 0
        made.restart(1)
        made.run()
        assert made.leader().high_watermark == 1
        made.stop()

    def test_too_few_in_sync_replicas_after_the_append(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path)
        made.controller.create_topic("t", 1, 3, {"min.insync.replicas": "3"})
        made.run()
        leader = made.leader()
        leader.append(batch(b"a"))
        made.run()
        assert leader.replicated(1, 0) == 0
        made.kill(2)
        assert leader.replicated(1, 0) == NotEnoughReplicasAfterAppendError.errno
        made.stop()

    def test_replicas_removed_from_the_isr_are_not_waited_for(self, brokers: Brokers) -> None:
        brokers.alive[2].fetcher.pause()
        answers = produce(brokers, 0, batch(b"a"))
        brokers.kill(2)
        brokers.run()
        assert part_of(answers).error_code == 0

    def test_a_replaced_leader_acknowledges_no_records(self, brokers: Brokers) -> None:
        for node in (1, 2):
            brokers.alive[node].fetcher.pause()
        answers = produce(brokers, 0, batch(b"a"))
        brokers.controller.move_leader("t", 0, 1)
        brokers.run()
        part = part_of(answers)
        assert part.error_code == NotLeaderOrFollowerError.errno
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 1)
        assert [(node.node_id, node.port) for node in answers[0].node_endpoints] == [(1, 9001)]
        # Not even if it leads again before anybody looks, and has the record.
        answers = produce(brokers, 1, batch(b"b"))
        brokers.controller.move_leader("t", 0, 2)
        brokers.controller.move_leader("t", 0, 1)
        brokers.run()
        assert part_of(answers).error_code == NotLeaderOrFollowerError.errno

    def test_a_duplicate_waits_as_the_original_does(self, brokers: Brokers) -> None:
        brokers.alive[2].fetcher.pause()
        data = batch(b"a", producer_id=7, epoch=0, sequence=0)
        first, second = produce(brokers, 0, data), produce(brokers, 0, data)
        brokers.run()
        assert (first, second) == ([], [])
        brokers.alive[2].fetcher.resume()
        brokers.run()
        assert part_of(first).base_offset == part_of(second).base_offset == 0

    def test_a_produce_request_to_a_follower(self, brokers: Brokers) -> None:
        part = part_of(produce(brokers, 1, batch(b"a")))
        assert (part.error_code, part.current_leader.leader_id) == (NotLeaderOrFollowerError.errno, 0)
        # Versions that cannot say who leads leave it out.
        assert part_of(produce(brokers, 1, batch(b"a"), version=9)).current_leader.leader_id == -1


class TestReading:
    def fetch(self, brokers: Brokers, node: int, version: int, epoch: int = -1, offset: int = 0, last_epoch: int = -1):
        wanted = FetchPartition(
            0,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(topics=[FetchTopic("t", partitions=[wanted])], max_wait_ms=0, session_epoch=-1)
        (answer,) = brokers.request(node, request, version)
        return answer.responses[0].partitions[0]

    def test_only_up_to_the_high_watermark(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.alive[2].fetcher.pause()
        brokers.leader().append(batch(b"b"))
        brokers.run()
        part = self.fetch(brokers, 0, 12)
        assert [record.value for record in iter_records(part.records)] == [b"a"]
        assert part.high_watermark == 1

    def test_a_delayed_fetch_is_answered_once_the_replicas_have_the_records(self, brokers: Brokers) -> None:
        brokers.alive[2].fetcher.pause()
        wanted = FetchPartition(0, partition_max_bytes=1 << 20)
        data = batch(b"a")
        request = FetchRequest(
            topics=[FetchTopic("t", partitions=[wanted])], max_wait_ms=500, min_bytes=len(data), session_epoch=-1
        )
        answers = brokers.request(0, request, 12)
        brokers.leader().append(data)
        brokers.run()
        assert not answers
        brokers.alive[2].fetcher.resume()
        brokers.run()
        assert answers[0].responses[0].partitions[0].records

    def test_followers_serve_consumers_that_know_of_it(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        assert [record.value for record in iter_records(self.fetch(brokers, 1, 11).records)] == [b"a"]
        assert self.fetch(brokers, 1, 10).error_code == NotLeaderOrFollowerError.errno

    def test_epochs_are_compared(self, brokers: Brokers) -> None:
        brokers.controller.move_leader("t", 0, 1)
        brokers.run()
        old = self.fetch(brokers, 0, 12, epoch=0)
        assert old.error_code == FencedLeaderEpochError.errno
        assert (old.current_leader.leader_id, old.current_leader.leader_epoch) == (1, 1)
        assert self.fetch(brokers, 1, 12, epoch=2).error_code == UnknownLeaderEpochError.errno
        assert self.fetch(brokers, 1, 12, epoch=1).error_code == 0

    def test_a_node_without_a_replica_names_the_leader(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path)
        made.controller.create_topic("t", 1, 2)
        part = self.fetch(made, 2, 12)
        assert (part.error_code, part.current_leader.leader_id) == (NotLeaderOrFollowerError.errno, 0)
        assert self.fetch(made, 2, 11).error_code == NotLeaderOrFollowerError.errno
        made.stop()

    def test_the_end_offset_is_not_reported_before_it_is_known(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.leader().append(batch(b"b"))
        while brokers.replica(1).log.log_end_offset < 2 or brokers.replica(2).log.log_end_offset < 2:
            brokers.step()
        assert brokers.replica(1).high_watermark == 1
        brokers.controller.move_leader("t", 0, 1)
        wanted = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])])
        codes = []
        for version in (4, 5):
            (answer,) = brokers.request(1, wanted, version)
            codes.append(answer.topics[0].partitions[0].error_code)
        assert codes == [5, OffsetNotAvailableError.errno]
        brokers.run()
        (answer,) = brokers.request(1, wanted, 5)
        assert answer.topics[0].partitions[0].offset == 2

    def test_the_end_offset_of_an_epoch(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a", b"b"))
        brokers.run()
        brokers.controller.move_leader("t", 0, 1)
        brokers.run()
        brokers.leader().append(batch(b"c"))
        brokers.run()
        found = []
        for node, current, epoch in ((1, 1, 0), (1, 1, 1), (1, 0, 0), (0, 1, 0)):
            part = OffsetForLeaderPartition(0, current_leader_epoch=current, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [part])])
            (answer,) = brokers.request(node, request, 4)
            end = answer.topics[0].partitions[0]
            found.append((end.error_code, end.leader_epoch, end.end_offset))
        fenced, not_leader = FencedLeaderEpochError.errno, NotLeaderOrFollowerError.errno
        assert found == [(0, 0, 2), (0, 1, 3), (fenced, -1, -1), (not_leader, -1, -1)]


class TestDeath:
    def test_another_in_sync_replica_leads_in_a_higher_epoch_and_all_records_stay(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.kill(0)
        brokers.run()
        assert brokers.state() == (1, 1, (1, 2))
        brokers.leader().append(batch(b"b"))
        brokers.run()
        assert values(brokers.replica(2)) == [b"a", b"b"]
        assert brokers.replica(2).log.epochs.entries() == [(0, 0), (1, 1)]

    def test_records_only_on_the_dead_leader_are_truncated_before_it_is_in_sync(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.replica(0).append(batch(b"only here", b"and here"), acks=1)
        brokers.kill(0)
        brokers.leader().append(batch(b"b"))
        brokers.run()
        isrs: list[tuple[tuple[int, ...], bytes]] = []
        back = brokers.restart(0).partitions[TP]
        assert values(back) == [b"a", b"only here", b"and here"]
        brokers.controller.on_change.insert(
            0, lambda name: isrs.append((brokers.state()[2], back.log.read(0, 1 << 20, 9, at_least_one=True)))
        )
        brokers.run()
        assert [isr for isr, _ in isrs] == [(0, 1, 2)]
        assert values(back) == [b"a", b"b"]
        assert [record.value for record in iter_records(isrs[0][1])][:2] == [b"a", b"b"]
        assert back.log.epochs.entries() == [(0, 0), (1, 1)]

    def test_a_partition_without_in_sync_replicas_has_no_leader(self, brokers: Brokers) -> None:
        brokers.kill(1)
        brokers.kill(2)
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.kill(0)
        brokers.restart(1)
        brokers.run()
        assert brokers.state() == (NO_LEADER, 1, (0,))
        assert part_of(produce(brokers, 1, batch(b"x"))).error_code == NotLeaderOrFollowerError.errno
        (answer,) = brokers.request(1, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        part = answer.topics[0].partitions[0]
        assert (part.error_code, part.leader_id, part.leader_epoch) == (5, -1, 1)
        assert (part.replica_nodes, part.isr_nodes, part.offline_replicas) == ([0, 1, 2], [0], [0, 2])
        assert (answer.controller_id, [node.node_id for node in answer.brokers]) == (1, [1])
        brokers.restart(0)
        brokers.run()
        assert brokers.state() == (0, 2, (0, 1))
        assert values(brokers.replica(1)) == [b"a"]

    def test_an_unclean_leader_makes_followers_truncate_to_its_log(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path, 2)
        made.controller.create_topic("t", 1, 2, {"unclean.leader.election.enable": "true"})
        made.leader().append(batch(b"a"))
        made.run()
        made.kill(1)
        made.leader().append(batch(b"lost"))
        made.kill(0)
        made.restart(1)
        made.leader().append(batch(b"b"))
        made.restart(0)
        made.run()
        assert values(made.replica(0)) == values(made.replica(1)) == [b"a", b"b"]
        assert made.leader().high_watermark == made.replica(0).high_watermark == 2
        made.stop()

    def test_a_log_that_parts_more_than_once_is_cut_step_by_step(self, brokers: Brokers) -> None:
        # Node 0 leads epochs 0 and 2 and dies each time with a batch that nobody else has.
        brokers.leader().append(batch(b"a"))
        brokers.run()
        for node in (1, 2):
            brokers.alive[node].fetcher.pause()
        brokers.replica(0).append(batch(b"x", b"x", b"x"), acks=1)
        brokers.kill(0)  # node 1 leads epoch 1
        brokers.leader().append(batch(b"b"), acks=1)
        brokers.kill(1)  # node 2 leads epoch 2
        brokers.leader().append(batch(b"c"), acks=1)
        for node in (0, 1):
            brokers.restart(node)
        brokers.alive[2].fetcher.resume()
        brokers.run()
        assert values(brokers.replica(0)) == values(brokers.replica(1)) == values(brokers.replica(2)) == [b"a", b"c"]
        assert brokers.replica(1).log.epochs.entries() == brokers.leader().log.epochs.entries() == [(0, 0), (2, 1)]
        assert brokers.state() == (2, 2, (0, 1, 2))

    def test_a_topic_recreated_in_between_is_another_one(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"old"))
        brokers.run()
        brokers.kill(2)
        brokers.controller.delete_topic("t")
        brokers.controller.create_topic("t", 1, 3)
        brokers.run()
        brokers.restart(2)
        assert values(brokers.replica(2)) == []
        brokers.run()
        assert brokers.state()[2] == tuple(sorted(brokers.state()[2]))

    def test_a_single_broker_continues_and_the_others_catch_up(self, brokers: Brokers) -> None:
        brokers.kill(1)
        brokers.kill(2)
        for number in range(50):
            brokers.leader().append(batch(b"%d" % number))
        brokers.restart(1)
        brokers.restart(2)
        brokers.run()
        assert brokers.state() == (0, 0, (0, 1, 2))
        assert len(values(brokers.replica(2))) == 50

    def test_all_records_are_there_after_all_brokers_were_killed(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path)
        made.controller.create_topic("t", 1, 3)
        made.leader().append(batch(b"a"))
        made.run()
        for broker in made.alive.values():
            broker.abandon()
        again = Brokers(tmp_path)
        assert again.state() == (0, 1, (0, 1, 2))
        assert [again.replica(node).high_watermark for node in range(3)] == [1, 1, 1]
        again.stop()


class TestIsr:
    def test_a_lagging_replica_leaves_the_isr_and_returns_when_it_catches_up(self, tmp_path: Path) -> None:
        made = Brokers(tmp_path, replica_lag_time_max_ms=1_000)
        made.controller.create_topic("t", 1, 3)
        made.run()
        made.alive[2].fetcher.pause()
        made.leader().append(batch(b"a"))
        made.advance(0.9)
        made.alive[0].shrink_isrs()
        assert made.state() == (0, 0, (0, 1, 2))
        made.advance(0.2)
        made.alive[0].shrink_isrs()
        assert made.state() == (0, 0, (0, 1))
        assert made.leader().high_watermark == 1
        made.alive[2].fetcher.resume()
        made.run()
        assert made.state() == (0, 0, (0, 1, 2))
        made.stop()

    def test_an_isr_change_that_cannot_be_written_is_retried(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        brokers.alive[2].fetcher.pause()
        brokers.leader().append(batch(b"a"))
        brokers.advance(31)
        brokers.alive[0].shrink_isrs()
        assert brokers.state() == (0, 0, (0, 1))

        fill_disk(monkeypatch)
        brokers.alive[2].fetcher.resume()
        brokers.advance(3)
        assert brokers.state() == (0, 0, (0, 1))
        monkeypatch.undo()
        brokers.advance(1)
        assert brokers.state() == (0, 0, (0, 1, 2))

    def test_a_caught_up_replica_never_lags(self, brokers: Brokers) -> None:
        brokers.leader().append(batch(b"a"))
        brokers.run()
        brokers.advance(3600.0)
        brokers.alive[0].shrink_isrs()
        assert brokers.state() == (0, 0, (0, 1, 2))

    def test_progress_of_a_follower_that_is_never_quite_at_the_end(self) -> None:
        progress = FollowerProgress(now=0.0)
        for second in range(1, 100):
            progress.update(10 * (second - 1), 0, 10 * second, float(second))
        assert progress.caught_up_at == 98.0
        assert progress.is_caught_up(990, 100.0, 3.0)
        assert not progress.is_caught_up(990, 102.0, 3.0)
        assert progress.is_caught_up(980, 1000.0, 3.0)

    def test_a_replica_below_the_start_of_the_epoch_does_not_join_the_isr(self) -> None:
        wanted: list[tuple[int, ...]] = []
        partition = Partition(0, TP, bytes(16), log_in(None))
        partition.on_isr = lambda _, isr: wanted.append(isr)
        partition.lead(0, 0, (0, 1, 2), (0, 2))
        partition.append(batch(b"a"))
        partition.lead(0, 1, (0, 1, 2), (0, 2))  # the high watermark is still at 0, as far as is known
        arguments = {"leader_epoch": 1, "last_epoch": -1, "log_start_offset": 0, "max_bytes": 1000, "now": 0.0}
        partition.read_for_follower(1, 0, **arguments)
        assert wanted == []
        partition.read_for_follower(1, 1, **arguments)
        assert wanted == [(0, 2, 1)]

    def test_unknown_replicas_and_old_epochs_are_rejected(self) -> None:
        partition = Partition(0, TP, bytes(16), log_in(None))
        partition.lead(0, 3, (0, 1), (0, 1))
        arguments = {"last_epoch": -1, "log_start_offset": 0, "max_bytes": 1000, "now": 0.0}
        with pytest.raises(NotLeaderOrFollowerError):
            partition.read_for_follower(2, 0, leader_epoch=3, **arguments)
        with pytest.raises(FencedLeaderEpochError):
            partition.read_for_follower(1, 0, leader_epoch=2, **arguments)
        with pytest.raises(OffsetOutOfRangeError):
            partition.read_for_follower(1, 5, leader_epoch=3, **arguments)
