package manager

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	formatText = "text"
	formatJSON = "json"
	levelDebug = "debug"
)

// NewLogger returns the manager's logger. Keys are those of ARC (ts, severity, logger, message), so that log pipelines
// made for it keep working. The options must be valid.
func NewLogger(options Options, output io.Writer) logr.Logger {
	keys := zap.NewProductionEncoderConfig()
	keys.LevelKey, keys.MessageKey, keys.EncodeTime = "severity", "message", zapcore.RFC3339TimeEncoder
	encoder := zapcore.NewConsoleEncoder(keys)
	if options.LogFormat == formatJSON {
		encoder = zapcore.NewJSONEncoder(keys)
	}
	level, err := parseLevel(options.LogLevel)
	if err != nil {
		level = zapcore.DebugLevel
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(output)), level)
	return zapr.NewLogger(zap.New(core))
}
