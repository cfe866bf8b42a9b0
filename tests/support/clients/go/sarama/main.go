// Uses most of what sarama can ask a broker for, at one version of the protocol, and prints what it saw as JSON.
//
// Arguments: the address of a broker, the version of Kafka that sarama takes it for, a topic that does not exist yet.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

const records = 500

var seen = map[string]any{}

func check(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

type reader struct{ values chan string }

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		r.values <- string(message.Value)
	}
	return nil
}

func topics(admin sarama.ClusterAdmin, version sarama.KafkaVersion, topic string) {
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}
	check("create", admin.CreateTopic(topic, detail, false))
	retention := "3600000"
	check("alter", admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &retention}, false))
	if version.IsAtLeast(sarama.V2_3_0_0) {
		retention = "7200000"
		entry := sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention}
		check("alter incrementally", admin.IncrementalAlterConfig(
			sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}, false))
	}
	entries, err := admin.DescribeConfig(sarama.ConfigResource{
		Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	check("describe configs", err)
	seen["retention as set"] = len(entries) == 1 && entries[0].Value == retention
	_, _, err = admin.DescribeCluster()
	check("describe cluster", err)
	check("add partitions", admin.CreatePartitions(topic, 4, nil, false))
}

func produce(address string, config *sarama.Config, topic string) {
	producer, err := sarama.NewSyncProducer([]string{address}, config)
	check("producer", err)
	for number := range records {
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic, Key: sarama.StringEncoder(fmt.Sprint(number % 7)), Value: sarama.StringEncoder(fmt.Sprint(number)),
			Headers: []sarama.RecordHeader{{Key: []byte("header"), Value: []byte("value")}}})
		check("send", err)
	}
	check("close producer", producer.Close())
}

func transactions(address string, config sarama.Config, topic string) {
	config.Producer.Transaction.ID = "transaction-" + topic
	config.Producer.Transaction.Timeout = 10 * time.Second
	producer, err := sarama.NewSyncProducer([]string{address}, &config)
	check("transactional producer", err)
	send := func(value string) {
		check("begin", producer.BeginTxn())
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		check("send in a transaction", err)
	}
	send("aborted")
	check("abort", producer.AbortTxn())
	send("committed")
	check("send offsets", producer.AddOffsetsToTxn(
		map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 1}}}, "sends-"+topic))
	check("commit", producer.CommitTxn())
	check("close transactional producer", producer.Close())
}

func consume(address string, config *sarama.Config, admin sarama.ClusterAdmin, topic string) {
	group, err := sarama.NewConsumerGroup([]string{address}, topic, config)
	check("group", err)
	read := &reader{values: make(chan string, records)}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for running.Err() == nil {
			err := group.Consume(running, []string{topic}, read)
			if err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				check("consume", err)
			}
		}
	}()
	values := map[string]int{}
	limit := time.After(60 * time.Second)
	for len(values) < records+1 {
		select {
		case value := <-read.values:
			values[value]++
		case <-limit:
			check("consume", fmt.Errorf("only %d values within 60 s", len(values)))
		}
	}
	described, err := admin.DescribeConsumerGroups([]string{topic})
	check("describe group", err)
	time.Sleep(500 * time.Millisecond) // anything that comes twice, or was aborted
	for len(read.values) > 0 {
		values[<-read.values]++
	}
	stop()
	<-ended
	check("close group", group.Close())
	seen["read"], seen["aborted"], seen["committed"] = len(values), values["aborted"], values["committed"]
	seen["group"] = described[0].State
	twice := 0
	for _, count := range values {
		twice += count - 1
	}
	seen["twice"] = twice
}

func groups(admin sarama.ClusterAdmin, version sarama.KafkaVersion, topic string) {
	partitions := map[string][]int32{topic: {0, 1, 2, 3}}
	offsets, err := admin.ListConsumerGroupOffsets(topic, partitions)
	check("group's offsets", err)
	behind := int64(0) // of the partitions' ends, the markers of the two transactions and the record that was aborted
	client := int64(0)
	for _, block := range offsets.Blocks[topic] {
		client += block.Offset
	}
	behind = records + 1 - client
	seen["offsets"] = behind <= 0 && behind >= -4
	offsets, err = admin.ListConsumerGroupOffsets("sends-"+topic, partitions)
	check("offsets of a transaction", err)
	seen["offset of a transaction"] = offsets.Blocks[topic][0].Offset
	all, err := admin.ListConsumerGroups()
	check("list groups", err)
	seen["listed"] = all[topic]
	if version.IsAtLeast(sarama.V2_4_0_0) {
		check("delete offset", admin.DeleteConsumerGroupOffset(topic, topic, 0))
	}
	check("delete group", admin.DeleteConsumerGroup(topic))
	check("delete records", admin.DeleteRecords(topic, map[int32]int64{0: 1}))
	check("delete topic", admin.DeleteTopic(topic))
}

func main() {
	address, topic := os.Args[1], os.Args[3]
	version, err := sarama.ParseKafkaVersion(os.Args[2])
	check("version", err)
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Compression = sarama.CompressionZSTD
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	admin, err := sarama.NewClusterAdmin([]string{address}, config)
	check("admin", err)
	topics(admin, version, topic)
	produce(address, config, topic)
	transactions(address, *config, topic)
	consume(address, config, admin, topic)
	groups(admin, version, topic)
	check("close admin", admin.Close())
	check("print", json.NewEncoder(os.Stdout).Encode(seen))
}
