package actions

import (
	"context"
	"errors"
	"strings"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/onsi/gomega"
)

func TestNewClientChecksItsArguments(t *testing.T) {
	var invalid *InvalidConfigURLError
	if _, err := NewClient("github.com/acme", Credentials{Token: "t"}, Options{}); !errors.As(err, &invalid) {
		t.Errorf("got %v, want *InvalidConfigURLError", err)
	}
	_, err := NewClient("https://github.com/acme", Credentials{}, Options{})
	if !errors.Is(err, ErrInvalidCredentials) || !strings.Contains(err.Error(), "https://github.com/acme") {
		t.Errorf("got %v, want ErrInvalidCredentials that names the config URL", err)
	}
	client, err := NewClient("https://github.com/acme/web/", Credentials{Token: "t"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := client.service.Config; got.Repository != "web" || got.String() != "https://github.com/acme/web" {
		t.Errorf("got %+v", got)
	}
}

func TestContextThatEndsDuringAPauseEndsTheCall(t *testing.T) {
	s := newServer(t)
	still := clocktesting.NewFakeClock(epoch) // its pauses last forever
	s.on("GET "+runnersURL+"/5", reply{status: 500, body: `{"message":"overloaded"}`})
	client := s.connected(func(o *Options) { o.Clock = still })
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := client.GetRunner(ctx, 5)
		result <- err
	}()
	gomega.NewWithT(t).Eventually(still.HasWaiters).WithTimeout(patience).Should(gomega.BeTrue())
	cancel()
	err := <-result
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "overloaded") {
		t.Errorf("got %v, want context.Canceled after the 500", err)
	}
	if still.HasWaiters() {
		t.Error("the pause's timer still runs")
	}
}
