package listener

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/logging"
)

func TestDefaultsComeFromTheEnvironment(t *testing.T) {
	t.Setenv(config.PathVariable, "/elsewhere/config.json")
	t.Setenv(config.MetricsAddressVariable, "127.0.0.1:9")
	o := Options{}.withDefaults()
	if o.ConfigPath != "/elsewhere/config.json" || o.MetricsAddress != "127.0.0.1:9" || o.HealthAddress != ":8081" ||
		o.Owner == "" {
		t.Errorf("defaults = %+v", o)
	}
}

func TestTheLogLevelCanChange(t *testing.T) {
	to := new(bytes.Buffer)
	level := zap.NewAtomicLevelAt(logLevel(&config.Config{LogLevel: "error"}))
	log := logging.New(to, true, level)
	log.Info("quiet")
	level.SetLevel(logLevel(&config.Config{LogLevel: "debug"}))
	log.V(1).Info("loud")
	level.SetLevel(logLevel(&config.Config{LogLevel: "nonsense"}))
	log.V(1).Info("quiet")
	got := to.String()
	if strings.Contains(got, "quiet") || !strings.Contains(got, `"severity":"debug"`) ||
		!strings.Contains(got, `"message":"loud"`) {
		t.Errorf("log = %s", got)
	}
}
