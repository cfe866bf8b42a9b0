// Members of a consumer group in one process: what tests/support/member_program.py does, by franz-go.
//
// Arguments: servers, group, topic, balancer, session and heartbeat in ms, batch, work on a record in us.
// Commands on standard input: "join NAME PROTOCOL" (classic or consumer), "leave NAME".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	servers, group, topic string
	balancer              kgo.GroupBalancer
	session, heartbeat    time.Duration
	batch                 int
	work                  time.Duration
	saying                sync.Mutex
)

// now is the monotonic clock that all processes of the machine share.
func now() float64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return float64(at.Sec) + float64(at.Nsec)/1e9
}

func say(member, what string, more map[string]any) {
	line := map[string]any{"at": now(), "member": member, "what": what}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(string(text))
}

type member struct {
	name   string
	client *kgo.Client
	stop   chan struct{}
}

func join(name, protocol string) *member {
	m := &member{name: name, stop: make(chan struct{})}
	moved := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if found := partitions[topic]; len(found) > 0 {
				slices.Sort(found)
				say(name, what, map[string]any{"partitions": found})
			}
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ClientID(name),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(moved("assigned")),
		kgo.OnPartitionsRevoked(moved("revoked")),
		kgo.OnPartitionsLost(moved("lost")),
	}
	if protocol == "consumer" {
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.Balancers(balancer), kgo.SessionTimeout(session), kgo.HeartbeatInterval(heartbeat))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	m.client = client
	say(name, "started", nil)
	go m.run()
	return m
}

func (m *member) run() {
	for {
		select {
		case <-m.stop:
			m.client.Close()
			say(m.name, "left", nil)
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		found := m.client.PollRecords(ctx, batch)
		cancel()
		for _, problem := range found.Errors() {
			if problem.Err != context.DeadlineExceeded {
				say(m.name, "error", map[string]any{"detail": problem.Err.Error()})
			}
		}
		m.process(found.Records())
		m.client.AllowRebalance()
	}
}

func (m *member) process(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	var told [][3]int64
	positions := map[int32]kgo.EpochOffset{}
	for _, record := range records {
		number, err := strconv.ParseInt(string(record.Value), 10, 64)
		if err != nil {
			panic(err)
		}
		told = append(told, [3]int64{int64(record.Partition), record.Offset, number})
		positions[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
	}
	say(m.name, "processed", map[string]any{"records": told})
	time.Sleep(time.Duration(len(records)) * work)
	var offsets [][2]int64
	for partition, at := range positions {
		offsets = append(offsets, [2]int64{int64(partition), at.Offset})
	}
	err := m.commit(positions)
	if err != nil {
		text := map[string]any{"offsets": offsets, "error": "error", "detail": err.Error()}
		say(m.name, "refused", text)
		return
	}
	say(m.name, "committed", map[string]any{"offsets": offsets})
}

// commit names the member in the metadata of its commits.
func (m *member) commit(positions map[int32]kgo.EpochOffset) error {
	ctx := kgo.PreCommitFnContext(context.Background(), func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = kmsg.StringPtr(m.name)
			}
		}
		return nil
	})
	var failed error
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: positions},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if err != nil {
				return
			}
			for _, one := range response.Topics {
				for _, partition := range one.Partitions {
					if partition.ErrorCode != 0 {
						failed = fmt.Errorf("error code %d", partition.ErrorCode)
					}
				}
			}
		})
	return failed
}

func milliseconds(text string, unit time.Duration) time.Duration {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * unit
}

func main() {
	given := os.Args[1:]
	servers, group, topic = given[0], given[1], given[2]
	balancer = map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}[given[3]]
	session, heartbeat = milliseconds(given[4], time.Millisecond), milliseconds(given[5], time.Millisecond)
	batch = int(milliseconds(given[6], 1))
	work = milliseconds(given[7], time.Microsecond)
	members := map[string]*member{}
	say("franz-host", "ready", nil)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		if words[0] == "join" {
			members[words[1]] = join(words[1], words[2])
		} else {
			close(members[words[1]].stop)
		}
	}
}
