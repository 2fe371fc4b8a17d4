// Command fakegithub serves an in-memory GitHub for demos and end-to-end tests:
// a scale set's config URL is the address it logs plus an organization. It is
// steered over HTTP under /_control/.
package main

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/golang-jwt/jwt/v4"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

// settings are the flags as given and the options made of them.
type settings struct {
	addr, flow, pats, groups      string
	appID, appClientID, appKeyPEM string
	tlsCert, tlsKey               string
	options                       fakegithub.Options
}

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatalf("fakegithub: %v", err)
	}
}

// run serves until the context ends. It fails on bad flags or an address that
// can't be listened on.
func run(ctx context.Context, args []string) error {
	set, err := parse(args)
	if err != nil {
		return err
	}
	server := fakegithub.New(set.options)
	defer server.Close()
	base, err := server.Start(set.addr)
	if err != nil {
		return err
	}
	if set.options.PublicURL != "" {
		base = strings.TrimRight(set.options.PublicURL, "/")
	}
	log.Printf("serving on %s, %s flow; use config URL %s/my-org", set.addr, set.options.Flow, base)
	<-ctx.Done()
	return nil
}

// parse leaves durations of 0 to the defaults of the fake: those of the real service.
func parse(args []string) (*settings, error) {
	set := &settings{}
	o := &set.options
	fs := flag.NewFlagSet("fakegithub", flag.ContinueOnError)
	fs.StringVar(&set.addr, "addr", "127.0.0.1:8080", "address to listen on")
	fs.StringVar(&set.flow, "flow", string(fakegithub.AutoAssign),
		"how jobs come to scale sets: auto-assign (hosted) or acquire (GHES)")
	fs.BoolVar(&o.MultiLabel, "multi-label", true, "let scale sets have more labels than their name")
	fs.StringVar(&set.pats, "pats", "", "comma-separated PATs to accept; empty accepts any")
	fs.StringVar(&set.appID, "app-id", "", "id of a GitHub App to accept")
	fs.StringVar(&set.appClientID, "app-client-id", "", "client id of that app")
	fs.StringVar(&set.appKeyPEM, "app-public-key", "", "file with the RSA public key of that app (PEM)")
	fs.StringVar(&set.groups, "runner-groups", "", "comma-separated runner groups beside Default")
	fs.StringVar(&set.tlsCert, "tls-cert", "", "file with the certificate to serve https with (PEM)")
	fs.StringVar(&set.tlsKey, "tls-key", "", "file with its private key (PEM)")
	fs.StringVar(&o.PublicURL, "public-url", "",
		"base URL put into answers; empty means the one the request was sent to")
	fs.StringVar(&o.RunnerURL, "runner-url", "", "base URL put into JIT configs; empty means as public-url")
	fs.DurationVar(&o.AdminTokenLifetime, "admin-token-lifetime", 0, "life of an admin token (0: 1h)")
	fs.DurationVar(&o.QueueTokenLifetime, "queue-token-lifetime", 0, "life of a queue token (0: 50m)")
	fs.DurationVar(&o.SessionLifetime, "session-lifetime", 0,
		"how long an abandoned session blocks its scale set (0: 90s)")
	fs.DurationVar(&o.PollLength, "poll-length", 0, "how long an empty long poll is held (0: 50s)")
	fs.DurationVar(&o.JITLatency, "jit-latency", 0, "delay of generatejitconfig")
	fs.DurationVar(&o.Latency, "latency", 0, "delay of every other call")
	fs.DurationVar(&o.PickupTimeout, "pickup-timeout", 0,
		"cancel an assigned job that no runner starts in that time (0: never)")
	fs.DurationVar(&o.OfferRepeat, "offer-repeat", 0,
		"offer jobs again that nobody has acquired in that time (0: only to new sessions)")
	fs.BoolVar(&o.ZeroIsFinal, "zero-is-final", false,
		"never give a scale set the jobs queued while its session announces a capacity of 0")
	fs.DurationVar(&o.RunnerLinger, "runner-linger", 0, "how long the record of a finished runner stays")
	fs.DurationVar(&o.RunnerLostAfter, "runner-lost-after", 0, "when a runner out of touch counts as lost (0: 1m)")
	fs.BoolVar(&o.RemoveUnknown404, "remove-unknown-404", false, "answer 404 to removing an unknown runner")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of random durations and faults")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return set, set.complete()
}

// complete checks values that flags can't check and puts them into the options.
func (set *settings) complete() error {
	o := &set.options
	o.Flow = fakegithub.Flow(set.flow)
	if o.Flow != fakegithub.AutoAssign && o.Flow != fakegithub.Acquire {
		return fmt.Errorf("flow %q is neither %q nor %q", set.flow, fakegithub.AutoAssign, fakegithub.Acquire)
	}
	o.PATs, o.RunnerGroups = split(set.pats), split(set.groups)
	if set.tlsCert != "" || set.tlsKey != "" {
		certificate, err := tls.LoadX509KeyPair(set.tlsCert, set.tlsKey)
		if err != nil {
			return fmt.Errorf("load the certificate to serve with: %w", err)
		}
		o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	if set.appKeyPEM == "" {
		return nil
	}
	key, err := readKey(set.appKeyPEM)
	if err != nil {
		return err
	}
	o.Apps = []fakegithub.App{{ID: set.appID, ClientID: set.appClientID, PublicKey: key}}
	return nil
}

func split(list string) []string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func readKey(path string) (*rsa.PublicKey, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the app's public key: %w", err)
	}
	key, err := jwt.ParseRSAPublicKeyFromPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("read the app's public key from %s: %w", path, err)
	}
	return key, nil
}
