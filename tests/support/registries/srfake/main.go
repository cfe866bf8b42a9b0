// Serves the registry of franz-go that its users test with, until it is killed.
//
// Arguments: the address to listen on.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

func main() {
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[1], srfake.NewRegistry().Handler()))
	os.Exit(1)
}
