// Transactions of franz-go. The argument is a JSON object; its "do" is one of
//
//	write: three transactions of ten records each; the second one is aborted
//	copy:  consume, transform, produce in a group, until "count" records were copied; every third batch is aborted
//	read:  all committed values of a topic, up to its last stable offset, as a JSON list
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type arguments struct {
	Do      string
	Servers string
	Topic   string
	Sink    string
	Id      string
	Count   int
}

func main() {
	var given arguments
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	switch given.Do {
	case "write":
		write(ctx, given)
	case "copy":
		copyAll(ctx, given)
	case "read":
		read(ctx, given)
	}
}

func write(ctx context.Context, given arguments) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(given.Servers, ",")...), kgo.TransactionalID(given.Id), kgo.DefaultProduceTopic(given.Topic))
	check(err)
	defer client.Close()
	for turn := 0; turn < 3; turn++ {
		check(client.BeginTransaction())
		for number := 0; number < 10; number++ {
			client.Produce(ctx, kgo.StringRecord(fmt.Sprintf("%d-%d", turn, number)), nil)
		}
		check(client.Flush(ctx))
		check(client.EndTransaction(ctx, kgo.TransactionEndTry(turn != 1)))
	}
}

func copyAll(ctx context.Context, given arguments) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(given.Servers, ",")...),
		kgo.TransactionalID(given.Id),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumerGroup(given.Id),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(),
	)
	check(err)
	defer session.Close()
	for copied, turn := 0, 0; copied < given.Count; turn++ {
		fetches := session.PollRecords(ctx, 20)
		check(fetches.Err())
		check(session.Begin())
		count := 0
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: given.Sink, Value: record.Value}, nil)
			count++
		})
		committed, err := session.End(ctx, kgo.TransactionEndTry(turn%3 != 2))
		check(err)
		if committed {
			copied += count
		}
	}
}

func read(ctx context.Context, given arguments) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(given.Servers, ",")...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer client.Close()
	values := []string{}
	for idle := 0; idle < 2; {
		short, cancel := context.WithTimeout(ctx, time.Second)
		fetches := client.PollFetches(short)
		cancel()
		if fetches.NumRecords() == 0 {
			idle++
		} else {
			idle = 0
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	check(json.NewEncoder(os.Stdout).Encode(values))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
