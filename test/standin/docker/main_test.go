package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

func TestDaemonAnswersUntilItIsAskedToEnd(t *testing.T) {
	g := gomega.NewWithT(t)
	socket := filepath.Join(t.TempDir(), "docker.sock")
	t.Setenv("DOCKER_HOST", unixScheme+socket)
	if err := info(t.Context()); err == nil {
		t.Error("there is an answer before the daemon")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, socket, os.Getgid()) }()
	g.Eventually(func() error { return info(t.Context()) }).WithTimeout(time.Minute).Should(gomega.Succeed())
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := info(t.Context()); err == nil {
		t.Error("there is an answer after the daemon")
	}
}

func TestCopyOfATree(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "node"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := play(t.Context(), []string{"cp", "-r", from + "/.", to + "/"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, "node")); err != nil {
		t.Error(err)
	}
}

func TestUnknownWordsAreRefused(t *testing.T) {
	for _, words := range [][]string{{"docker"}, {"docker", "run"}, {"cp", "a", "b"}} {
		if play(t.Context(), words) == nil {
			t.Errorf("%q was played", words)
		}
	}
}
