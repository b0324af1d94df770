// One member of a group by franz-go: member BOOTSTRAP GROUP TOPIC STRATEGY NAME SESSION_MS CHOICES LOGIN
// It prints what Apache Kafka's VerifiableConsumer prints, commits what it read at once, and leaves on SIGTERM.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

type fields map[string]any

func say(name string, more fields) {
	line := fields{"timestamp": time.Now().UnixMilli(), "name": name}
	for field, value := range more {
		line[field] = value
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func partitions(name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
		places := []fields{}
		for topic, numbers := range given {
			for _, number := range numbers {
				places = append(places, fields{"topic": topic, "partition": number})
			}
		}
		if name == "partitions_assigned" || len(places) > 0 {
			say(name, fields{"partitions": places})
		}
	}
}

// One line for what a poll gave; the records that are to be committed.
func read(fetches kgo.Fetches) []*kgo.Record {
	places := []fields{}
	fetches.EachPartition(func(given kgo.FetchTopicPartition) {
		if len(given.Records) == 0 {
			return
		}
		for _, record := range given.Records {
			if string(record.Value) != fmt.Sprintf("%d:%d", record.Partition, record.Offset) {
				say("record_data", fields{"topic": record.Topic, "partition": record.Partition, "offset": record.Offset, "value": string(record.Value)})
			}
		}
		last := given.Records[len(given.Records)-1]
		places = append(places, fields{"topic": given.Topic, "partition": given.Partition, "count": len(given.Records),
			"minOffset": given.Records[0].Offset, "maxOffset": last.Offset})
	})
	if len(places) > 0 {
		say("records_consumed", fields{"partitions": places})
	}
	return fetches.Records()
}

// TLS and PLAIN, the mechanism that needs no other module.
func security(login string) []kgo.Opt {
	var user struct{ User, Mechanism, Password, Cafile string }
	if err := json.Unmarshal([]byte(login), &user); err != nil {
		panic(err)
	}
	if user.User == "" {
		return nil
	}
	authorities, err := os.ReadFile(user.Cafile)
	if err != nil || user.Mechanism != "PLAIN" {
		panic(fmt.Sprint(user.Mechanism, err))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(plain.Auth{User: user.User, Pass: user.Password}.AsMechanism())}
}

func main() {
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	bootstrap, group, topic, strategy, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	session, _ := strconv.Atoi(os.Args[6])
	balancer := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(), "uniform": kgo.CooperativeStickyBalancer()}[strategy]
	var choices struct {
		Instance, Reset, Note, Protocol string
		Pattern                         bool
		MetadataMs                      int64 `json:"metadata_ms"`
		PauseMs                         int64 `json:"pause_ms"`
	}
	if err := json.Unmarshal([]byte(os.Args[7]), &choices); err != nil {
		panic(err)
	}
	age := time.Duration(choices.MetadataMs) * time.Millisecond
	reset := kgo.NewOffset().AtStart()
	if choices.Reset == "latest" {
		reset = kgo.NewOffset().AtEnd()
	} else if back, found := strings.CutPrefix(choices.Reset, "by_duration:PT"); found {
		age, _ := time.ParseDuration(strings.ToLower(back))
		reset = kgo.NewOffset().AfterMilli(time.Now().Add(-age).UnixMilli())
	}
	first := map[string][]int32{topic: {0}}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID(name),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer),
		kgo.SessionTimeout(time.Duration(session) * time.Millisecond), kgo.HeartbeatInterval(400 * time.Millisecond),
		kgo.ConsumeResetOffset(reset), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, 2500*time.Millisecond)),
		// A rebalance waits until the application has committed what it was given.
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(ctx context.Context, client *kgo.Client, given map[string][]int32) {
			partitions("partitions_assigned")(ctx, client, given)
			time.AfterFunc(time.Duration(choices.PauseMs)*time.Millisecond, func() { client.ResumeFetchPartitions(first) })
		}),
		kgo.OnPartitionsRevoked(partitions("partitions_revoked")), kgo.OnPartitionsLost(partitions("partitions_lost")),
	}
	if choices.Protocol == "consumer" {
		// It asks for the range assignor by the balancer of that name, and for uniform by the sticky ones.
		options = append(options, kgo.WithContext(
			context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)))
	}
	if choices.Pattern {
		options = append(options, kgo.ConsumeRegex())
	}
	if choices.Instance != "" {
		options = append(options, kgo.InstanceID(choices.Instance))
	}
	client, err := kgo.NewClient(append(options, security(os.Args[8])...)...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if choices.PauseMs > 0 {
		client.PauseFetchPartitions(first)
	}
	for stopping.Err() == nil {
		fetches := client.PollFetches(stopping)
		if records := read(fetches); len(records) > 0 {
			ctx := kgo.PreCommitFnContext(context.Background(), func(request *kmsg.OffsetCommitRequest) error {
				for t := range request.Topics {
					for p := range request.Topics[t].Partitions {
						request.Topics[t].Partitions[p].Metadata = &choices.Note
					}
				}
				return nil
			})
			if err := client.CommitRecords(ctx, records...); err != nil {
				say("offsets_committed", fields{"success": false, "error": err.Error()})
			} else {
				say("offsets_committed", fields{"success": true})
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	say("shutdown_complete", nil)
}
