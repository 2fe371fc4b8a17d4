package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// closeLimit bounds the wait for requests that are under way when the server ends.
const closeLimit = 5 * time.Second

// serveRegistry plays what a release is published to, on loopback, until ctx ends: a registry that knows OCI's
// referrers, and a directory's files as their downloads. It prints its address, and keeps everything in memory.
func serveRegistry(ctx context.Context, directory string, to io.Writer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve a registry on loopback: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/v2/", registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	mux.Handle("/downloads/", http.StripPrefix("/downloads/", http.FileServer(http.Dir(directory))))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: closeLimit}
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		_ = server.Shutdown(closing)
	})
	defer stop()
	if _, err := fmt.Fprintln(to, listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
