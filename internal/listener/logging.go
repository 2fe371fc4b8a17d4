package listener

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/harrier-ci/harrier/internal/listener/config"
)

// newLogger returns a logger that writes text or JSON, and its level, which can be changed while it is in use.
func newLogger(to io.Writer, settings *config.Config) (logr.Logger, zap.AtomicLevel) {
	level := zap.NewAtomicLevelAt(parseLevel(settings.LogLevel))
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339TimeEncoder
	encoding.LevelKey, encoding.MessageKey = "severity", "message"
	encoder := zapcore.NewJSONEncoder(encoding)
	if settings.LogFormat != "json" {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	return zapr.NewLogger(zap.New(zapcore.NewCore(encoder, zapcore.AddSync(to), level))), level
}

// parseLevel parses debug, info, warn or error; anything else means info. Debug is V(1).
func parseLevel(name string) zapcore.Level {
	level, err := zapcore.ParseLevel(name)
	if err != nil {
		return zapcore.InfoLevel
	}
	return level
}
