package databasetest

import (
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// Hanging returns the URL of a way to a PostgreSQL that can be made to hang: between hang and resume nothing comes
// through, and no connection ends, as if the server or the network had stopped in the middle of its work.
func Hanging(t testing.TB, at string) (through string, hang, resume func()) {
	t.Helper()
	address, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	server := filepath.Join(address.Query().Get("host"), socket)
	directory := t.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(directory, socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var gate sync.RWMutex // held for reading while something is passed on
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).DialContext(t.Context(), "unix", server)
			if err != nil {
				client.Close()
				continue
			}
			go pass(&gate, client, to)
			go pass(&gate, to, client)
		}
	}()
	query := address.Query()
	query.Set("host", directory)
	address.RawQuery = query.Encode()
	return address.String(), gate.Lock, gate.Unlock
}

// pass passes on what comes from one side as long as nothing hangs.
func pass(gate *sync.RWMutex, from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		read, err := from.Read(buffer)
		gate.RLock()
		_, failed := to.Write(buffer[:read])
		gate.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}
