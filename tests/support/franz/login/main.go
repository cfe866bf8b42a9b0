// Logs in by each mechanism, writes a record and reads it back, and prints what became of each login as JSON.
//
// Argument: JSON with a topic and a list of logins, each with an address, a mechanism, a user, a password, and perhaps a
// file with the authority of a TLS listener. Of OAUTHBEARER the password is the token.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type login struct {
	Address, Mechanism, User, Password, Authority string
}

func (l login) mechanism() sasl.Mechanism {
	switch l.Mechanism {
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()
	}
	return oauth.Auth{Token: l.Password}.AsMechanism()
}

func (l login) play(topic string) (string, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(l.Address),
		kgo.SASL(l.mechanism()),
		kgo.ConsumeTopics(topic),
		kgo.AllowAutoTopicCreation(),
	}
	if l.Authority != "" {
		pem, err := os.ReadFile(l.Authority)
		if err != nil {
			return "", err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return "", err
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(l.Mechanism)}).FirstErr(); err != nil {
		return "", err
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		found := ""
		fetches.EachRecord(func(r *kgo.Record) { found = string(r.Value) })
		if found != "" {
			return found, nil
		}
	}
}

func main() {
	var given struct {
		Topic  string
		Logins []login
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		panic(err)
	}
	seen := []string{}
	for number, l := range given.Logins {
		found, err := l.play(fmt.Sprintf("%s-%d", given.Topic, number))
		if err != nil {
			found = "error: " + err.Error()
		}
		seen = append(seen, found)
	}
	json.NewEncoder(os.Stdout).Encode(seen)
}
