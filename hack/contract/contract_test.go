package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

const token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

// tried is a run of the program.
type tried struct {
	*testing.T
	github         *fakegithub.Server
	url            string
	stdout, stderr bytes.Buffer
	told           func(line string) // hears of progress
}

// Write takes in a line of progress.
func (r *tried) Write(line []byte) (int, error) {
	if r.told != nil {
		r.told(string(line))
	}
	return r.stderr.Write(line)
}

func newRun(t *testing.T, rules fakegithub.Rules) *tried {
	t.Helper()
	r := &tried{T: t, github: fakegithub.New(fakegithub.Options{
		Rules: rules, PATs: []string{token}, PollLength: 50 * time.Millisecond,
	})}
	t.Cleanup(r.github.Close)
	url, err := r.github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = url + "/acme"
	return r
}

func (r *tried) run(ctx context.Context, args ...string) int {
	r.Helper()
	env := map[string]string{"GITHUB_CONFIG_URL": r.url, "GITHUB_TOKEN": token}
	code := run(ctx, args, func(name string) string { return env[name] }, &r.stdout, r)
	if all := r.stdout.String() + r.stderr.String(); strings.Contains(all, token) {
		r.Errorf("the token is printed: %s", all)
	}
	return code
}

// states returns what became of each fact.
func (r *tried) states() map[string]string {
	r.Helper()
	var got result
	if err := json.Unmarshal(r.stdout.Bytes(), &got); err != nil {
		r.Fatalf("%v: %s", err, r.stdout.String())
	}
	states := map[string]string{}
	for _, v := range got.Facts {
		states[v.Name] = v.State
	}
	return states
}

// wantNothingLeft checks that GitHub has what it had before.
func (r *tried) wantNothingLeft() {
	r.Helper()
	if s := r.github.Snapshot(); len(s.ScaleSets)+len(s.Sessions)+len(s.Runners) != 0 {
		r.Errorf("left behind: %+v", s)
	}
	for _, a := range r.github.Anomalies() {
		if a.Kind != state.ZeroAdvertised { // which the program does on purpose
			r.Errorf("anomaly: %+v", a)
		}
	}
}

func TestTheFakeKeepsTheContract(t *testing.T) {
	r := newRun(t, fakegithub.Rules{MultiLabel: true})
	if code := r.run(t.Context(), "-o", "json"); code != exitHeld {
		t.Errorf("exit code %d: %s", code, r.stdout.String())
	}
	want := map[string]string{"acquire": notTried, "runner": notTried, "record-version": notTried}
	for _, f := range facts {
		if want[f.name] == "" {
			want[f.name] = held
		}
	}
	if got := r.states(); !maps.Equal(got, want) {
		t.Errorf("facts %v, want %v", got, want)
	}
	r.wantNothingLeft()
}

// An old Enterprise Server drops labels: that is what the program is to show.
func TestWhatGitHubDoesOtherwiseIsSaid(t *testing.T) {
	r := newRun(t, fakegithub.Rules{})
	if code := r.run(t.Context()); code != exitRefuted {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(r.stdout.String(), refuted+"    a scale set keeps several labels") {
		t.Errorf("printed %s", r.stdout.String())
	}
	r.wantNothingLeft()
}

func TestAJobIsAcquired(t *testing.T) {
	for _, flow := range []state.Flow{state.AutoAssign, state.Acquire} {
		t.Run(string(flow), func(t *testing.T) { acquireAJob(t, flow) })
	}
}

func acquireAJob(t *testing.T, flow state.Flow) {
	t.Helper()
	r := newRun(t, fakegithub.Rules{MultiLabel: true, Flow: flow})
	r.told = func(line string) { // somebody starts a job when told the label
		_, label, asked := strings.Cut(line, "runs-on: ")
		if label, _, _ = strings.Cut(label, "."); asked {
			if _, err := r.github.QueueJobs(fakegithub.JobRequest{Labels: []string{label}}); err != nil {
				t.Error(err)
			}
		}
	}
	code := r.run(t.Context(), "-o", "json", "-wait", "20s")
	if got := r.states()["acquire"]; code != exitHeld || got != held {
		t.Errorf("exit code %d, %s: %s", code, got, r.stdout.String())
	}
}

// The program is interrupted, or GitHub fails, at any call: what was made is removed all the same.
func TestNothingIsLeftAfterAnInterruption(t *testing.T) {
	const calls = 40
	for at := 1; at < calls; at += 3 {
		r := newRun(t, fakegithub.Rules{MultiLabel: true})
		ctx, cancel := context.WithCancel(t.Context())
		var seen atomic.Int32
		handler := r.github.Handler()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if seen.Add(1) == int32(at) {
				cancel()
			}
			handler.ServeHTTP(w, request)
		}))
		r.url = server.URL + "/acme"
		code := r.run(ctx, "-o", "json")
		if at < 10 && code == exitHeld {
			t.Errorf("interrupted at call %d: exit code %d", at, code)
		}
		server.Close()
		cancel()
		r.wantNothingLeft()
	}
}

func TestARefusedRunnerIsSeen(t *testing.T) {
	for name, test := range map[string]struct {
		script, want string
		code         int
	}{
		"refused, 7": {`test -z "$GITHUB_TOKEN" && test -n "$ACTIONS_RUNNER_INPUT_JITCONFIG" || exit 9
echo "Runner version v2.328.0 is deprecated and cannot receive messages."; exit 7`, held, exitRefuted},
		"refused, 0": {`echo "Runner version v2.330.0 is deprecated and cannot receive messages."`, held, exitRefuted},
		"broken":     {`echo "no such file"; exit 2`, refuted, exitRefuted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GITHUB_TOKEN", token)
			directory := t.TempDir()
			if err := os.WriteFile(filepath.Join(directory, "run.sh"), []byte("#!/bin/sh\n"+test.script+"\n"),
				0o700); err != nil {
				t.Fatal(err)
			}
			r := newRun(t, fakegithub.Rules{MultiLabel: true})
			code := r.run(t.Context(), "-o", "json", "-runner", directory)
			// the script never connects, so no record has its version
			if got := r.states(); got["runner"] != test.want || got["record-version"] != refuted || code != test.code {
				t.Errorf("exit code %d, %v", code, got)
			}
			r.wantNothingLeft()
		})
	}
}

func TestWrongUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown flag": {"-x"}, "an argument": {"now"}, "an unknown form": {"-o", "yaml"},
	} {
		r := newRun(t, fakegithub.Rules{MultiLabel: true})
		if code := r.run(t.Context(), args...); code != exitUsage || r.stderr.Len() == 0 {
			t.Errorf("%s: exit code %d, %q", name, code, r.stderr.String())
		}
	}
	for _, missing := range []string{"GITHUB_CONFIG_URL", "GITHUB_TOKEN"} {
		env := map[string]string{"GITHUB_CONFIG_URL": "https://github.com/acme", "GITHUB_TOKEN": token}
		delete(env, missing)
		var stderr bytes.Buffer
		code := run(t.Context(), nil, func(name string) string { return env[name] }, &bytes.Buffer{}, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), missing) {
			t.Errorf("without %s: exit code %d, %q", missing, code, stderr.String())
		}
	}
	r := newRun(t, fakegithub.Rules{MultiLabel: true})
	if code := r.run(t.Context(), "-h"); code != exitHeld || !strings.Contains(r.stderr.String(), "Exit codes") {
		t.Errorf("-h: exit code %d, %q", code, r.stderr.String())
	}
}
