// The program pages serves the pages of `manager history` with a day of an invented installation, for people who change
// the pages and for hack/browser. Each line that it reads becomes the name of a job that has just started; it ends
// with its input.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/operations/history/ledger"
	"github.com/harrier-ci/harrier/operations/history/page"
	"github.com/harrier-ci/harrier/operations/history/page/pagetest"
	"github.com/harrier-ci/harrier/operations/history/server"
)

func main() {
	address := flag.String("address", "127.0.0.1:8090", "where the pages are")
	flag.Parse()
	if err := run(context.Background(), *address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	directory, err := os.MkdirTemp("", "pages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	store, err := ledger.Open(ctx, filepath.Join(directory, "history.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	now := time.Now()
	if err := pagetest.Fill(ctx, store, now); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	log := funcr.New(func(_, line string) { fmt.Fprintln(os.Stderr, line) }, funcr.Options{})
	pages := server.New(server.Handler(server.Options{
		Ledger: store, Prices: pagetest.Prices, Budgets: pagetest.Budgets, Clock: clock.RealClock{}, Log: log,
		Registry: prometheus.NewRegistry(),
		Pages: page.Handler(page.Options{
			Ledger: store, Prices: pagetest.Prices, Budgets: pagetest.Budgets, Cluster: pagetest.Cluster{At: now}, Name: pagetest.Name,
			Clock: clock.RealClock{}, Log: log,
		}),
	}))
	fmt.Printf("http://%s/\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- pages.Serve(listener) }()
	lines := bufio.NewScanner(os.Stdin)
	for number := 1; lines.Scan(); number++ {
		at := time.Now()
		job := ledger.Job{RunnerUID: fmt.Sprintf("line-%d", number), Cluster: pagetest.Name, Namespace: "team-web",
			Set:    "linux",
			Runner: fmt.Sprintf("linux-line%d", number), At: at, Started: at, Repository: "acme/web",
			Name: lines.Text()}
		if err := store.Put(ctx, []ledger.Job{job}); err != nil {
			return err
		}
	}
	select {
	case err := <-ended:
		return err
	default:
		return pages.Close()
	}
}
