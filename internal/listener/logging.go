package listener

import (
	"io"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/logging"
)

// newLogger returns a logger that writes text or JSON, and its level, which can be changed while it is in use.
func newLogger(to io.Writer, settings *config.Config) (logr.Logger, zap.AtomicLevel) {
	level := zap.NewAtomicLevelAt(parseLevel(settings.LogLevel))
	return logging.New(to, settings.LogFormat == "json", level), level
}

// parseLevel parses debug, info, warn or error; anything else means info. Debug is V(1).
func parseLevel(name string) zapcore.Level {
	level, err := zapcore.ParseLevel(name)
	if err != nil {
		return zapcore.InfoLevel
	}
	return level
}
