package manager

import (
	"io"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"

	"github.com/harrier-ci/harrier/internal/logging"
)

const (
	formatText = "text"
	formatJSON = "json"
	levelDebug = "debug"
)

// NewLogger returns the manager's logger. The options must be valid.
func NewLogger(options Options, output io.Writer) logr.Logger {
	level, err := parseLevel(options.LogLevel)
	if err != nil {
		level = zapcore.DebugLevel
	}
	return logging.New(output, options.LogFormat == formatJSON, level)
}
