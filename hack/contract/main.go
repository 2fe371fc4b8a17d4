// The program contract tries, on a real GitHub, the facts of the protocol on which Harrier stands: it makes a scale
// set, a session and a runner's registration, looks what becomes of them, and removes them. It says which facts held.
// main.go has the command line, facts.go the facts, contract.go what they share, runner.go runs a runner's program.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/output"
)

// Exit codes.
const (
	exitHeld    = 0 // all facts that were tried held
	exitRefuted = 1 // GitHub does something else
	exitUsage   = 2
	exitUnknown = 3 // something could not be tried, was interrupted, or could not be removed
)

const usage = `Usage: GITHUB_CONFIG_URL=https://github.com/ORG GITHUB_TOKEN=… contract [flags]

Tries on a real organization, repository or enterprise what Harrier believes of GitHub's protocol, and says what held.
The token needs the permissions of a scale set's credentials. All that is made has a name of its own that begins with
harrier-contract-, and is removed at the end, also after Ctrl-C. No existing object is touched.

Exit codes: 0 all that was tried held, 1 GitHub does something else, 2 wrong usage, 3 something could not be tried or
removed.

`

type settings struct {
	configURL, token string
	wait             time.Duration
	runner           string
	group            string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run is the whole program.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	s := settings{configURL: getenv("GITHUB_CONFIG_URL"), token: getenv("GITHUB_TOKEN")}
	flags := flag.NewFlagSet("contract", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	form := flags.String("o", "text", "output: text or json")
	flags.DurationVar(&s.wait, "wait", 0, "wait for a job of yours for so long, and acquire it; the labels are shown")
	flags.StringVar(&s.runner, "runner", "", "directory of an unpacked runner; it is started, to see whether GitHub "+
		"refuses its version and what its record says. It must be a runner that you trust")
	flags.StringVar(&s.group, "group", "", "runner group to use instead of the default one")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitHeld
		}
		return exitUsage
	}
	if wrong := s.wrong(*form, flags.Args()); wrong != "" {
		fmt.Fprintln(stderr, "contract: "+wrong)
		return exitUsage
	}
	client, err := actions.NewClient(s.configURL, actions.Credentials{Token: s.token}, actions.Options{
		UserAgent: actions.UserAgent{System: "harrier-contract", Version: build.Version, CommitSHA: build.CommitSHA},
	})
	if err != nil {
		fmt.Fprintln(stderr, "contract: "+output.OneLine(err.Error()))
		return exitUsage
	}
	defer client.Close()
	r := newContract(client, s, stderr).try(ctx)
	if err := r.write(stdout, *form); err != nil {
		fmt.Fprintln(stderr, "contract: write the result: "+err.Error())
		return exitUnknown
	}
	return r.exitCode()
}

// wrong says what is wrong with the command line or the environment.
func (s *settings) wrong(form string, rest []string) string {
	switch {
	case len(rest) > 0:
		return fmt.Sprintf("unexpected argument %q; -h shows the usage", rest[0])
	case form != "text" && form != "json":
		return fmt.Sprintf("-o %q: text or json", form)
	case s.configURL == "":
		return "GITHUB_CONFIG_URL is not set: the address of an organization, repository or enterprise"
	case s.token == "":
		return "GITHUB_TOKEN is not set: a token with the permissions of a scale set's credentials"
	}
	return ""
}

// result is what the program prints.
type result struct {
	ConfigURL string    `json:"configUrl"`
	At        time.Time `json:"at"`
	Version   string    `json:"version"`
	Facts     []verdict `json:"facts"`
	// LeftBehind names what could not be removed.
	LeftBehind []string `json:"leftBehind,omitempty"`
}

func (r *result) exitCode() int {
	code := exitHeld
	for _, v := range r.Facts {
		switch v.State {
		case refuted:
			return exitRefuted
		case unknown:
			code = exitUnknown
		}
	}
	if len(r.LeftBehind) > 0 {
		return exitUnknown
	}
	return code
}

func (r *result) write(to io.Writer, form string) error {
	if form == "json" {
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "STATE\tFACT\tWHAT WAS SEEN (%s, %s)\n", r.ConfigURL, r.At.Format(time.RFC3339))
	for _, v := range r.Facts {
		fmt.Fprintf(table, "%s\t%s\t%s\n", v.State, v.Claim, v.Seen)
	}
	for _, left := range r.LeftBehind {
		fmt.Fprintf(table, "LEFT BEHIND\t%s\tremove it by hand\n", left)
	}
	return table.Flush()
}
