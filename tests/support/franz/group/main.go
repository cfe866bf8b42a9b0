// Two members of franz-go in one group. Its argument is JSON, see arguments; it prints what happened as one line of JSON.
//
// The first member gets all partitions; the second one comes and gets its share; the first one goes; a static one comes
// back. All the while records are written. In the end each of them was read, and it is counted how often.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = time.Minute

type arguments struct {
	Servers    string `json:"servers"`
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	Group      string `json:"group"`
	Strategy   string `json:"strategy"`
	Static     bool   `json:"static"`
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// ledger is what all members share.
type ledger struct {
	sync.Mutex
	sent   int
	read   map[string]int
	events []string
}

func (l *ledger) say(format string, values ...any) {
	l.Lock()
	defer l.Unlock()
	l.events = append(l.events, fmt.Sprintf(format, values...))
}

func (l *ledger) count() int {
	l.Lock()
	defer l.Unlock()
	return len(l.read)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func wait(what string, done func() bool) {
	for limit := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			check(fmt.Errorf("this did not happen within %v: %s", patience, what))
		}
	}
}

type member struct {
	client *kgo.Client
	ledger *ledger
	name   string
	owned  map[int32]bool
	stop   chan struct{}
	done   chan struct{}
}

func join(given arguments, shared *ledger, name, instance string) *member {
	m := &member{ledger: shared, name: name, owned: map[int32]bool{}, stop: make(chan struct{}), done: make(chan struct{})}
	gone := func(word string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			if len(lost[given.Topic]) == 0 {
				return
			}
			shared.say("%s %s %d", name, word, len(lost[given.Topic]))
			shared.Lock()
			defer shared.Unlock()
			for _, partition := range lost[given.Topic] {
				delete(m.owned, partition)
			}
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.Servers, ",")...),
		kgo.ClientID(name),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumerGroup(given.Group),
		kgo.Balancers(balancers[given.Strategy]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			if len(added[given.Topic]) == 0 {
				return
			}
			shared.say("%s assigned %d", name, len(added[given.Topic]))
			shared.Lock()
			defer shared.Unlock()
			for _, partition := range added[given.Topic] {
				m.owned[partition] = true
			}
		}),
		kgo.OnPartitionsRevoked(gone("revoked")),
		kgo.OnPartitionsLost(gone("lost")),
	}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	m.client = client
	go m.run()
	return m
}

func (m *member) run() {
	defer close(m.done)
	for {
		select {
		case <-m.stop:
			m.client.Close()
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		found := m.client.PollFetches(ctx)
		cancel()
		m.ledger.Lock()
		found.EachRecord(func(record *kgo.Record) {
			m.ledger.read[fmt.Sprintf("%d/%d", record.Partition, record.Offset)]++
		})
		m.ledger.Unlock()
		if err := m.client.CommitUncommittedOffsets(context.Background()); err != nil {
			m.ledger.say("%s could not commit: %v", m.name, err)
		}
		m.client.AllowRebalance()
	}
}

func (m *member) has(count int) func() bool {
	return func() bool {
		m.ledger.Lock()
		defer m.ledger.Unlock()
		return len(m.owned) == count
	}
}

func (m *member) leave() {
	close(m.stop)
	<-m.done
}

// write sends records until it is told to stop.
func write(given arguments, shared *ledger, stop, done chan struct{}) {
	defer close(done)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.Servers, ",")...),
		kgo.DefaultProduceTopic(given.Topic),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
	)
	check(err)
	defer client.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		check(client.ProduceSync(context.Background(), kgo.StringRecord("a record")).FirstErr())
		shared.Lock()
		shared.sent++
		shared.Unlock()
		time.Sleep(time.Millisecond)
	}
}

func main() {
	var given arguments
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	shared := &ledger{read: map[string]int{}}
	stop, done := make(chan struct{}), make(chan struct{})
	go write(given, shared, stop, done)
	progress := func(what string) {
		before := shared.count()
		wait(what, func() bool { return shared.count() > before+20 })
	}
	first, second := "", ""
	if given.Static {
		first, second = "one", "two"
	}
	all := given.Partitions

	one := join(given, shared, "one", first)
	wait("all partitions are the first member's", one.has(all))
	progress("the first member reads")
	two := join(given, shared, "two", second)
	wait("the first member gives some up", one.has(all/2))
	wait("the second member has some", two.has(all-all/2))
	progress("both read")
	one.leave()
	if given.Static {
		shared.say("one comes back")
		one = join(given, shared, "one", first)
		wait("the first member has what it had", one.has(all/2))
	} else {
		wait("all partitions are the second member's", two.has(all))
	}
	progress("reading goes on")
	close(stop)
	<-done
	wait("all is read", func() bool { return shared.count() >= shared.sent })
	if given.Static {
		one.leave()
	}
	two.leave()

	again := 0
	for _, times := range shared.read {
		again += times - 1
	}
	found, err := json.Marshal(map[string]any{
		"sent": shared.sent, "read": len(shared.read), "again": again, "events": shared.events,
	})
	check(err)
	fmt.Println(string(found))
}
