package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
)

// A command's output and end as the API server sends them: the first byte of a message is its channel.
func TestOutputCountsOnlyWithASuccessfulEnd(t *testing.T) {
	for name, test := range map[string]struct {
		messages []string
		output   string
		fails    bool
	}{
		"success":       {[]string{"\x01a ", "\x01", "\x02b", "\x03" + `{"status":"Success"}`}, "a b", false},
		"failure":       {[]string{"\x01a", "\x03" + `{"status":"Failure","reason":"NonZeroExitCode"}`}, "a", true},
		"broken status": {[]string{"\x03{"}, "", true},
		"no status":     {[]string{"\x01a"}, "a", true},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := readOutput(dialSender(t, test.messages))
			if output != test.output || (err != nil) != test.fails {
				t.Errorf("output %q, error %v", output, err)
			}
		})
	}
}

// dialSender returns a connection to a server that sends the messages and closes.
func dialSender(t *testing.T, messages []string) *websocket.Conn {
	t.Helper()
	server := httptest.NewServer(websocket.Handler(func(connection *websocket.Conn) {
		for _, message := range messages {
			if err := websocket.Message.Send(connection, []byte(message)); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	connection, err := websocket.Dial("ws"+strings.TrimPrefix(server.URL, "http"), "", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}
