// Uses a registry with franz-go's client of it, reads a value that others wrote, and prints what it saw as JSON.
//
// Arguments: the address of the registry, a subject, a value of JSON Schema in hexadecimal.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

type order struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
}

const (
	ofJSON = `{"type":"object","properties":{"id":{"type":"integer"},"customer":{"type":"string"}}}`
	first  = `{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}`
	second = `{"type":"record","name":"R","fields":[{"name":"id","type":"long"},{"name":"n","type":"int","default":0}]}`
	third  = `{"type":"record","name":"R","fields":[{"name":"n","type":"string"}]}`
	inner  = `{"type":"enum","name":"E","symbols":["A"]}`
	outer  = `{"type":"record","name":"O","fields":[{"name":"e","type":"E"}]}`
)

func check(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

func code(err error) int {
	var found *sr.ResponseError
	if errors.As(err, &found) {
		return found.ErrorCode
	}
	return 0
}

func main() {
	address, subject := os.Args[1], os.Args[2]
	value, err := hex.DecodeString(os.Args[3])
	check("hex", err)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := sr.NewClient(sr.URLs(address))
	check("client", err)
	seen := map[string]any{}

	one, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: first})
	check("create", err)
	seen["version"] = one.Version
	again, err := client.LookupSchema(ctx, subject, sr.Schema{Schema: first})
	check("lookup", err)
	seen["looked up"] = again.ID == one.ID && again.GUID == one.GUID && one.GUID != ""
	byID, err := client.SchemaByID(ctx, one.ID)
	check("id", err)
	byGUID, err := client.SchemaByGUID(ctx, one.GUID)
	check("guid", err)
	text, err := client.SchemaTextByID(ctx, one.ID)
	check("text", err)
	seen["texts"] = byID.Schema == first && byGUID.Schema.Schema == first && text == first
	ids, err := client.SchemaIDsByGUID(ctx, one.GUID)
	check("ids", err)
	seen["ids of guid"] = len(ids) == 1 && ids[0].ID == one.ID && ids[0].Context == "."

	for name, schema := range map[string]string{"compatible": second, "incompatible": third} {
		found, err := client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, -1, sr.Schema{Schema: schema})
		check(name, err)
		seen[name] = found.Is
		if !found.Is {
			seen["reasons"] = len(found.Messages) > 0
		}
	}
	_, err = client.CreateSchema(ctx, subject, sr.Schema{Schema: third})
	seen["refused"] = code(err)
	_, err = client.CreateSchema(ctx, subject, sr.Schema{Schema: second})
	check("second", err)
	seen["versions"], err = client.SubjectVersions(ctx, subject)
	check("versions", err)
	latest, err := client.SchemaByVersion(ctx, subject, -1)
	check("latest", err)
	seen["latest"] = latest.Version

	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, subject)
	check("set", set[0].Err)
	got := client.Compatibility(ctx, subject)
	check("get", got[0].Err)
	seen["level"] = got[0].Level.String()
	check("reset", client.ResetCompatibility(ctx, subject)[0].Err)
	mode := client.SetMode(ctx, sr.ModeReadOnly, subject)
	check("mode", mode[0].Err)
	_, err = client.CreateSchema(ctx, subject, sr.Schema{Schema: `"bytes"`})
	seen["read only"] = code(err)
	check("reset mode", client.ResetMode(ctx, subject)[0].Err)

	_, err = client.CreateSchema(ctx, subject+"-e", sr.Schema{Schema: inner})
	check("inner", err)
	references := []sr.SchemaReference{{Name: "E", Subject: subject + "-e", Version: 1}}
	_, err = client.CreateSchema(ctx, subject+"-o", sr.Schema{Schema: outer, References: references})
	check("outer", err)
	referrers, err := client.SchemaReferences(ctx, subject+"-e", 1)
	check("references", err)
	seen["referrers"] = len(referrers) == 1 && referrers[0].Subject == subject+"-o"

	ofJSONs, err := client.CreateSchema(ctx, subject+"-json", sr.Schema{Schema: ofJSON, Type: sr.TypeJSON})
	check("json", err)
	var serde sr.Serde
	serde.Register(ofJSONs.ID, order{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	written, err := serde.Encode(order{ID: 7, Customer: "alice"})
	check("encode", err)
	seen["written"] = hex.EncodeToString(written)
	var read order
	check("decode", serde.Decode(value, &read))
	seen["read"] = read

	deleted, err := client.DeleteSubject(ctx, subject, sr.SoftDelete)
	check("delete", err)
	seen["deleted"] = deleted
	_, err = client.SubjectVersions(ctx, subject)
	seen["gone"] = code(err)
	_, err = client.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), subject)
	check("deleted versions", err)
	_, err = client.DeleteSubject(ctx, subject, sr.HardDelete)
	check("for good", err)
	_, err = client.SchemaByID(ctx, 999999)
	seen["unknown id"] = code(err)
	check("print", json.NewEncoder(os.Stdout).Encode(seen))
}
