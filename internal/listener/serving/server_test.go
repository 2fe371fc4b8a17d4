package serving

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/testkube/ports"
)

func TestAServerThatMoves(t *testing.T) {
	bound := ""
	s := &server{
		name: "test",
		log:  funcr.New(func(_, line string) { bound = boundAddress(line) }, funcr.Options{Verbosity: 1}),
	}
	defer s.stop()
	hello := http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		_, _ = answer.Write([]byte("hello"))
	})
	var places []string
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} { // any free port, under two names
		s.serve(address, hello)
		places = append(places, bound)
		if got := ask(bound); got != "hello" {
			t.Errorf("at %s: %s", bound, got)
		}
	}
	if got := ask(places[0]); got == "hello" {
		t.Error("the old address still answers")
	}
	s.serve("no address", hello)
	s.serve("", hello)
	if got := ask(places[1]); got == "hello" {
		t.Error("a server that was stopped still answers")
	}
}

// boundAddress returns the address in the log line about a server that listens.
func boundAddress(line string) string {
	_, after, _ := strings.Cut(line, `"address"="`)
	address, _, _ := strings.Cut(after, `"`)
	return address
}

// ask returns the answer from the address, by another process if it has taken the port since.
func ask(address string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + address)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func TestWhichAddressesAreTheSame(t *testing.T) {
	for _, test := range []struct {
		metrics, probes string
		want            bool
	}{
		{":8081", ":8081", true},
		{"0.0.0.0:8081", ":8081", true},
		{"[::]:8081", "0.0.0.0:8081", true},
		{"127.0.0.1:8081", "127.0.0.1:8081", true},
		{"127.0.0.1:8081", ":8081", false},
		{":8080", ":8081", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"", "", false},
	} {
		if got := sameAddress(test.metrics, test.probes); got != test.want {
			t.Errorf("%q and %q: %v", test.metrics, test.probes, got)
		}
	}
}

// The kubelet's probes decide whether the process lives: metrics at the same port are served by the same server.
func TestMetricsAtTheAddressOfTheProbes(t *testing.T) {
	free, err := ports.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	probes := net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0]))
	metrics := http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		_, _ = answer.Write([]byte("metrics"))
	})
	servers := Start(probes, NewHealth(clock.RealClock{}), metrics, logr.Discard())
	defer servers.Stop()
	servers.ServeMetrics(probes)
	if got := ask(probes + "/healthz"); got != "ok\n" {
		t.Errorf("/healthz: %s", got)
	}
	if got := ask(probes + "/metrics"); got != "metrics" {
		t.Errorf("/metrics: %s", got)
	}
	servers.ServeMetrics("")
	if got := ask(probes + "/metrics"); got == "metrics" {
		t.Error("metrics that were switched off are served")
	}
}
