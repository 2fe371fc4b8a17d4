package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// A daemon answers after startDelay: long enough for a runner that does not wait to come too early.
	startDelay = 3 * time.Second
	// farewellLimit bounds the end of requests under way.
	farewellLimit = time.Second
	// answerLimit bounds an answer: a busy machine may delay one. A missing daemon takes no connection.
	answerLimit = 30 * time.Second
	// The init container of the pod must have copied sharedProgram to where the daemon's containers see it.
	sharedProgram = "/home/runner/externals/node"
	unixScheme    = "unix://"
	defaultHost   = unixScheme + "/var/run/docker.sock"
)

// daemon answers at its socket until it is asked to end. It fails without the files of the init container.
func daemon(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("dockerd", flag.ContinueOnError)
	host := flags.String("host", defaultHost, "where to listen")
	group := flags.Int("group", 0, "id of the group that may connect")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if _, err := os.Stat(sharedProgram); err != nil {
		return fmt.Errorf("the runner's programs are not shared: %w", err)
	}
	select {
	case <-time.After(startDelay):
	case <-ctx.Done():
		return nil
	}
	return serve(ctx, strings.TrimPrefix(*host, unixScheme), *group)
}

func serve(ctx context.Context, socket string, group int) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chown(socket, -1, group), os.Chmod(socket, 0o660)); err != nil {
		return fmt.Errorf("hand the socket to group %d: %w", group, err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), farewellLimit)
		defer cancel()
		_ = server.Shutdown(ending) // the process ends whatever is left
	})
	log.Printf("listening at %s", socket)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	log.Print("asked to end")
	return nil
}

// info fails unless the daemon is there and answers.
func info(ctx context.Context) error {
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = defaultHost
	}
	client := http.Client{Timeout: answerLimit, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(host, unixScheme))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/info", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
