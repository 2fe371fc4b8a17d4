package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestTheRegistryOnLoopbackTakesImagesAndHasDownloads(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	directory := t.TempDir()
	write(t, filepath.Join(directory, "a.tgz"), "content")
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveRegistry(ctx, directory, writer) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(line)
	tag, err := name.NewTag(address + "/team/image:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if err := push(t.Context(), sampleIndex(t), tag); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]int{"/downloads/a.tgz": http.StatusOK, "/downloads/b.tgz": http.StatusNotFound} {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
