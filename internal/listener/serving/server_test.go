package serving_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/harrier-ci/harrier/internal/listener/serving"
)

var metrics = http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
	_, _ = answer.Write([]byte("metrics"))
})

func TestAServerThatMoves(t *testing.T) {
	bound := ""
	log := funcr.New(func(_, line string) { bound = boundAddress(line) }, funcr.Options{Verbosity: 1})
	servers := serving.Start("127.0.0.1:0", serving.NewHealth(clock.RealClock{}), metrics, log)
	defer servers.Stop()
	var places []string
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} { // any free port, under two names
		servers.ServeMetrics(address)
		places = append(places, bound)
		if _, got := ask(bound); got != "metrics" {
			t.Errorf("at %s: %s", bound, got)
		}
	}
	if _, got := ask(places[0]); got == "metrics" {
		t.Error("the old address still answers")
	}
	servers.ServeMetrics("no address")
	servers.ServeMetrics("")
	if _, got := ask(places[1]); got == "metrics" {
		t.Error("a server that was stopped still answers")
	}
}

// boundAddress returns the address in the log line about a server that listens.
func boundAddress(line string) string {
	_, after, _ := strings.Cut(line, `"address"="`)
	address, _, _ := strings.Cut(after, `"`)
	return address
}

// ask returns the answer from the address, by another process if it has taken the port since, or the error and no
// status.
func ask(address string) (status int, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + address)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(content)
}

// Where a second server could not listen, the probes' serves metrics, too, and otherwise it does not.
func TestWhichAddressesAreTheSame(t *testing.T) {
	for _, test := range []struct {
		metrics, probes string // PORT is a free one, OTHER another
		want            bool
	}{
		{":PORT", ":PORT", true},
		{"0.0.0.0:PORT", ":PORT", true},
		{"[::]:PORT", "0.0.0.0:PORT", true},
		{"127.0.0.1:PORT", "127.0.0.1:PORT", true},
		{"127.0.0.1:PORT", ":PORT", false},
		{":OTHER", ":PORT", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"", ":PORT", false},
	} {
		probes, bound := freeAddress(t), ""
		_, port, _ := net.SplitHostPort(probes)
		_, other, _ := net.SplitHostPort(freeAddress(t))
		at := strings.NewReplacer("PORT", port, "OTHER", other)
		log := funcr.New(func(_, line string) {
			if strings.Contains(line, `"server"="health"`) {
				bound = boundAddress(line)
			}
		}, funcr.Options{Verbosity: 1})
		servers := serving.Start(at.Replace(test.probes), serving.NewHealth(clock.RealClock{}), metrics, log)
		servers.ServeMetrics(at.Replace(test.metrics))
		_, port, _ = net.SplitHostPort(bound)
		if status, got := ask(net.JoinHostPort("127.0.0.1", port) + "/metrics"); status == 0 ||
			(got == "metrics") != test.want {
			t.Errorf("metrics at %q, probes at %q: the probes' server says %d %s", test.metrics, test.probes, status, got)
		}
		servers.Stop()
	}
}

// The kubelet's probes decide whether the process lives: metrics at the same port are served by the same server.
func TestMetricsAtTheAddressOfTheProbes(t *testing.T) {
	probes := freeAddress(t)
	servers := serving.Start(probes, serving.NewHealth(clock.RealClock{}), metrics, logr.Discard())
	defer servers.Stop()
	servers.ServeMetrics(probes)
	if _, got := ask(probes + "/healthz"); got != "ok\n" {
		t.Errorf("/healthz: %s", got)
	}
	if _, got := ask(probes + "/metrics"); got != "metrics" {
		t.Errorf("/metrics: %s", got)
	}
	servers.ServeMetrics("")
	if _, got := ask(probes + "/metrics"); got == "metrics" {
		t.Error("metrics that were switched off are served")
	}
}
