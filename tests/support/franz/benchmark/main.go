// franz-go running the programs of tests/benchmarks/client_program.py: the same steps, the same answers. Its argument
// is the same JSON; it prints what it found as one line of JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience  = time.Minute
	inspected = 1000
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type arguments struct {
	Program    string  `json:"program"`
	Servers    string  `json:"servers"`
	Topic      string  `json:"topic"`
	Partitions int     `json:"partitions"`
	Records    int     `json:"records"`
	Keyed      bool    `json:"keyed"`
	Subscribe  bool    `json:"subscribe"`
	WarmUpS    float64 `json:"warm_up_s"`
	Times      int     `json:"times"`
	Passes     int     `json:"passes"`
}

type answer map[string]any

func main() {
	var given arguments
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	programs := map[string]func(arguments) answer{"read": read, "latency": latency, "first": first, "memory": memory}
	found, err := json.Marshal(programs[given.Program](given))
	check(err)
	fmt.Println(string(found))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func open(given arguments, at kgo.Offset) *kgo.Client {
	options := []kgo.Opt{kgo.SeedBrokers(given.Servers)}
	if given.Subscribe {
		group := fmt.Sprintf("benchmark-%d-%d", os.Getpid(), time.Now().UnixNano())
		options = append(options,
			kgo.ConsumeTopics(given.Topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(at))
	} else {
		offsets := map[int32]kgo.Offset{}
		for number := 0; number < given.Partitions; number++ {
			offsets[int32(number)] = at
		}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: offsets}))
	}
	client, err := kgo.NewClient(options...)
	check(err)
	return client
}

// poll waits for records and ends the program if none come for a minute.
func poll(client *kgo.Client) kgo.Fetches {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := client.PollFetches(ctx)
	for _, failed := range found.Errors() {
		check(failed.Err)
	}
	return found
}

type watch struct {
	start time.Time
	cpu   float64
}

func begin() watch { return watch{time.Now(), cpuSeconds()} }

func (w watch) stop(into answer) {
	into["seconds"] = time.Since(w.start).Seconds()
	into["cpu_s"] = cpuSeconds() - w.cpu
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// read reads a quarter of the topic to warm up, then with a new client all of it. The clock runs from before the
// client is made, because it begins to fetch then.
func read(given arguments) answer {
	readOnce(given, given.Records/4, true)
	found := readOnce(given, given.Records, false)
	found["peak_bytes"] = peakBytes()
	return found
}

func readOnce(given arguments, records int, inspect bool) answer {
	checksums, keyChecksums := make([]uint32, given.Partitions), make([]uint32, given.Partitions)
	count, size, seen := 0, 0, inspected
	if inspect && given.Keyed {
		seen = 0
	}
	clock := begin()
	client := open(given, kgo.NewOffset().AtStart())
	defer client.Close()
	for count < records {
		poll(client).EachPartition(func(found kgo.FetchTopicPartition) {
			checksum, keyChecksum := checksums[found.Partition], keyChecksums[found.Partition]
			for _, record := range found.Records {
				checksum = crc32.Update(checksum, castagnoli, record.Value)
				if given.Keyed {
					keyChecksum = crc32.Update(keyChecksum, castagnoli, record.Key)
				}
				size += len(record.Value)
				if seen < inspected {
					seen++
					check(headers(record))
				}
			}
			checksums[found.Partition], keyChecksums[found.Partition] = checksum, keyChecksum
			count += len(found.Records)
		})
	}
	found := answer{"records": count, "size_bytes": size, "checksums": checksums, "key_checksums": keyChecksums}
	clock.stop(found)
	return found
}

func headers(record *kgo.Record) error {
	found := record.Headers
	if len(found) == 2 && found[0].Key == "source" && string(found[0].Value) == "benchmark" &&
		found[1].Key == "id" && bytes.Equal(found[1].Value, record.Key) {
		return nil
	}
	return fmt.Errorf("headers of the record with key %q are %v", record.Key, found)
}

func latency(given arguments) answer {
	times := make([]float64, 0, given.Records+1000)
	numbers := map[int32]int64{}
	client := open(given, kgo.NewOffset().AtEnd())
	defer client.Close()
	warmUntil := time.Now().Add(time.Duration(given.WarmUpS * float64(time.Second)))
	clock := begin()
	for len(times) < given.Records {
		found := poll(client)
		now := time.Now()
		warm := now.Before(warmUntil)
		found.EachRecord(func(record *kgo.Record) {
			parts := strings.SplitN(string(record.Value), " ", 3)
			sent, err := strconv.ParseInt(parts[0], 10, 64)
			check(err)
			number, err := strconv.ParseInt(parts[1], 10, 64)
			check(err)
			if wanted, known := numbers[record.Partition]; known && number != wanted {
				check(fmt.Errorf("%d came, not %d", number, wanted))
			}
			numbers[record.Partition] = number + 1
			if !warm {
				times = append(times, float64(now.UnixNano()-sent)/1e6)
			}
		})
		if warm {
			clock = begin()
		}
	}
	result := answer{"records": len(times)}
	clock.stop(result)
	sort.Float64s(times)
	for name, share := range map[string]float64{"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999} {
		result[name] = times[min(len(times)-1, int(share*float64(len(times))))]
	}
	result["max_ms"] = times[len(times)-1]
	return result
}

func first(given arguments) answer {
	var times []float64
	for number := 0; number <= given.Times; number++ {
		start := time.Now()
		client := open(given, kgo.NewOffset().AtStart())
		for poll(client).NumRecords() == 0 {
		}
		times = append(times, float64(time.Since(start).Nanoseconds())/1e6)
		client.Close()
	}
	return answer{"first_ms": times[0], "next_ms": times[1:]}
}

func memory(given arguments) answer {
	open(given, kgo.NewOffset().AtEnd()).Close()
	forgetPeak()
	before := peakBytes()
	var peaks []int
	var found answer
	for pass := 0; pass < given.Passes; pass++ {
		found = readOnce(given, given.Records, false)
		peaks = append(peaks, peakBytes())
		forgetPeak()
	}
	found["before_bytes"], found["peaks_bytes"] = before, peaks
	return found
}

func peakBytes() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // only Linux has it
	}
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM:") {
			size, err := strconv.Atoi(strings.Fields(line)[1])
			check(err)
			return size << 10
		}
	}
	return 0
}

func forgetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
