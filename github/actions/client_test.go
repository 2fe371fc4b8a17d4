package actions_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/github/actions"
)

func TestNewClientChecksItsArguments(t *testing.T) {
	var invalid *actions.InvalidConfigURLError
	_, err := actions.NewClient("github.com/acme", actions.Credentials{Token: "t"}, actions.Options{})
	if !errors.As(err, &invalid) {
		t.Errorf("got %v, want *InvalidConfigURLError", err)
	}
	_, err = actions.NewClient("https://github.com/acme", actions.Credentials{}, actions.Options{})
	if !errors.Is(err, actions.ErrInvalidCredentials) || !strings.Contains(err.Error(), "https://github.com/acme") {
		t.Errorf("got %v, want ErrInvalidCredentials that names the config URL", err)
	}
	client, err := actions.NewClient("https://github.com/acme/web/", actions.Credentials{Token: "t"}, actions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := client.ConfigURL(); got.Repository != "web" || got.String() != "https://github.com/acme/web" {
		t.Errorf("got %+v", got)
	}
}

func TestContextThatEndsDuringAPauseEndsTheCall(t *testing.T) {
	s := newServer(t)
	still := clocktesting.NewFakeClock(epoch) // its pauses last forever
	s.on("GET "+runnersURL+"/5", reply{status: 500, body: `{"message":"overloaded"}`})
	client := s.connected(func(o *actions.Options) { o.Clock = still })
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := client.GetRunner(ctx, 5)
		result <- err
	}()
	gomega.NewWithT(t).Eventually(still.HasWaiters).WithTimeout(busyTimeout).Should(gomega.BeTrue())
	cancel()
	err := <-result
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "overloaded") {
		t.Errorf("got %v, want context.Canceled after the 500", err)
	}
	if still.HasWaiters() {
		t.Error("the pause's timer still runs")
	}
}

func TestCertPool(t *testing.T) {
	if pool, err := actions.CertPool(""); pool != nil || err != nil {
		t.Errorf("without PEM: %v, %v; want nil, which means the system's", pool, err)
	}
	if pool, err := actions.CertPool("no PEM"); pool != nil || !errors.Is(err, actions.ErrNoCertificate) {
		t.Errorf("without a certificate: %v, %v; want ErrNoCertificate", pool, err)
	}
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	own := server.Certificate()
	pool, err := actions.CertPool(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw})))
	if err != nil {
		t.Fatal(err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	system.AddCert(own)
	if !pool.Equal(system) {
		t.Error("the pool is not the system's certificates and the given one")
	}
}

// The User-Agent is a JSON object with its keys in order.
func TestUserAgent(t *testing.T) {
	s := newServer(t)
	s.on(getSetCall, reply{body: `{"id":7}`})
	if _, err := s.client().GetRunnerScaleSetByID(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	const start = `{"system":"test","version":"1.2.3","commit_sha":"abc","scale_set_id":`
	const end = `,"kind":"scaleset"}`
	for call, id := range map[string]string{registrationTokenCall: "0", registerCall: "0", getSetCall: "7"} {
		got := s.only(call).header.Get("User-Agent")
		if !strings.HasPrefix(got, start+id+`,"subsystem":"unit","build_version":"`) || !strings.HasSuffix(got, end) {
			t.Errorf("%s: %s", call, got)
		}
	}
}

// No goroutine is left behind by calls that hang, are repeated or are abandoned by their callers, or by renewals that
// many callers wait for.
func TestNothingRunsOnAfterTheCalls(t *testing.T) {
	before := runtime.NumGoroutine()
	s := newServer(t)
	client, session := s.opened()
	s.on(pollCall, reply{do: hang})
	s.on(acquireCall, cutShort("["), reply{status: 500}, reply{status: 401}, reply{body: `{"value":[1]}`})
	s.on(refreshSessionCall, reply{do: hang})
	s.on(getSetCall, reply{status: 401})
	var calls sync.WaitGroup
	for range 20 {
		ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer leave()
		calls.Go(func() { _, _ = session.GetMessage(ctx, 0, 1) })
		calls.Go(func() { _, _ = session.AcquireJobs(ctx, []int64{1}) })
		calls.Go(func() { _, _ = client.GetRunnerScaleSetByID(ctx, 7) })
	}
	calls.Wait()
	s.on(refreshSessionCall, reply{body: s.sessionBody("second", nil)})
	s.CloseClientConnections() // what the callers have left, a renewal, ends with its connection
	client.CloseIdleConnections()
	s.Close()
	gomega.NewWithT(t).Eventually(runtime.NumGoroutine).WithTimeout(busyTimeout).
		Should(gomega.BeNumerically("<=", before), func() string {
			stacks := make([]byte, 1<<20)
			return string(stacks[:runtime.Stack(stacks, true)])
		})
}
