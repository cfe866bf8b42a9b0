// Writes, reads in a group and commits with kafka-go of Segment, and prints what it saw as JSON.
//
// Arguments: the address of a broker, a topic that does not exist yet.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

const records = 300

func check(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

func main() {
	address, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	connection, err := kafka.Dial("tcp", address)
	check("dial", err)
	check("create", connection.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}))
	check("close", connection.Close())
	writer := &kafka.Writer{
		Addr: kafka.TCP(address), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: kafka.Lz4,
		BatchTimeout: 5 * time.Millisecond, MaxAttempts: 50}
	messages := make([]kafka.Message, records)
	for number := range messages {
		messages[number] = kafka.Message{Key: []byte(fmt.Sprint(number)), Value: []byte(fmt.Sprint(number))}
	}
	check("write", writer.WriteMessages(ctx, messages...))
	check("close writer", writer.Close())
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{address}, GroupID: topic, Topic: topic, MaxWait: 200 * time.Millisecond,
		StartOffset: kafka.FirstOffset})
	values := map[string]bool{}
	for range records {
		message, err := reader.FetchMessage(ctx)
		check("fetch", err)
		values[string(message.Value)] = true
		check("commit", reader.CommitMessages(ctx, message))
	}
	check("close reader", reader.Close())
	client := &kafka.Client{Addr: kafka.TCP(address)}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: topic, Topics: map[string][]int{topic: {0, 1}}})
	check("offsets", err)
	committed := int64(0)
	for _, partition := range offsets.Topics[topic] {
		committed += partition.CommittedOffset
	}
	_, err = client.Metadata(ctx, &kafka.MetadataRequest{})
	check("metadata", err)
	check("print", json.NewEncoder(os.Stdout).Encode(map[string]any{"read": len(values), "committed": committed}))
}
