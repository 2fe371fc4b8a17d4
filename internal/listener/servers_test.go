package listener

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

func TestWhereMetricsAreServed(t *testing.T) {
	for name, test := range map[string]struct{ configured, override, want string }{
		"as configured":   {":8080", "", ":8080"},
		"switched off":    {"", "127.0.0.1:9", ""},
		"switched off, 0": {"0", "", ""},
		"overridden":      {":8080", "127.0.0.1:9", "127.0.0.1:9"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := metricsAddress(&config.Config{MetricsAddr: test.configured}, test.override); got != test.want {
				t.Errorf("address = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDefaultsComeFromTheEnvironment(t *testing.T) {
	t.Setenv(config.PathVariable, "/elsewhere/config.json")
	t.Setenv(config.MetricsAddressVariable, "127.0.0.1:9")
	o := Options{}.withDefaults()
	if o.ConfigPath != "/elsewhere/config.json" || o.MetricsAddress != "127.0.0.1:9" || o.HealthAddress != ":8081" || o.Owner == "" {
		t.Errorf("defaults = %+v", o)
	}
}

func TestAServerThatMoves(t *testing.T) {
	s := &server{name: "test", log: logr.Discard()}
	defer s.stop()
	hello := http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { _, _ = answer.Write([]byte("hello")) })
	first, second := freePort(t), freePort(t)
	for _, address := range []string{first, second} {
		s.serve(address, hello)
		answer, err := http.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	if _, err := net.Dial("tcp", first); err == nil {
		t.Error("the old address still answers")
	}
	s.serve("no address", hello)
	s.serve("", hello)
	if _, err := net.Dial("tcp", second); err == nil {
		t.Error("a server that was stopped still answers")
	}
}

func freePort(t *testing.T) string {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	return probe.Addr().String()
}

func TestTheLogLevelCanChange(t *testing.T) {
	to := new(bytes.Buffer)
	log, level := newLogger(to, &config.Config{LogLevel: "error", LogFormat: "json"})
	log.Info("quiet")
	level.SetLevel(parseLevel("debug"))
	log.V(1).Info("loud")
	level.SetLevel(parseLevel("nonsense"))
	log.V(1).Info("quiet")
	if got := to.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"severity":"debug"`) || !strings.Contains(got, `"message":"loud"`) {
		t.Errorf("log = %s", got)
	}
}
