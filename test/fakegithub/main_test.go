package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/fakegithub"
)

func TestParse(t *testing.T) {
	set, err := parse([]string{"-flow", "acquire", "-pats", "a, b,", "-runner-groups", "second", "-poll-length", "2s",
		"-seed", "4"})
	if err != nil {
		t.Fatal(err)
	}
	o := set.options
	if o.Flow != fakegithub.Acquire || o.PollLength != 2*time.Second || o.Seed != 4 || !o.MultiLabel {
		t.Errorf("options %+v", o)
	}
	if diff := cmp.Diff([]string{"a", "b"}, o.PATs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"second"}, o.RunnerGroups); diff != "" {
		t.Error(diff)
	}
	if set, err = parse(nil); err != nil || set.options.PATs != nil || set.options.Flow != fakegithub.AutoAssign {
		t.Errorf("defaults: %+v, %v", set, err)
	}
}

func TestParseRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-flow", "odd"}, {"-poll-length", "x"}, {"left-over"}, {"-app-public-key", empty + "-none"}, {"-app-public-key", empty},
		{"-tls-cert", empty}, {"-unknown"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestAppKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := parse([]string{"-app-public-key", file, "-app-id", "7"})
	if err != nil {
		t.Fatal(err)
	}
	if apps := set.options.Apps; len(apps) != 1 || apps[0].ID != "7" || !apps[0].PublicKey.Equal(&key.PublicKey) {
		t.Errorf("apps %+v", apps)
	}
}

func TestRunStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, []string{"-addr", "127.0.0.1:0"}); err != nil {
		t.Error(err)
	}
	if err := run(ctx, []string{"-addr", "nowhere:x"}); err == nil {
		t.Error("a bad address was accepted")
	}
}
