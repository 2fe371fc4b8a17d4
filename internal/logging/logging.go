// Package logging creates the loggers of manager and listener, so that one log pipeline can read both. Its keys are
// ARC's (ts, severity, logger, message), for which pipelines exist.
package logging

import (
	"io"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/harrier-ci/harrier/internal/output"
)

// New returns a logger that writes lines of JSON or of text. It is safe for concurrent use, and the level may change at
// any time.
func New(to io.Writer, json bool, level zapcore.LevelEnabler) logr.Logger {
	keys := zap.NewProductionEncoderConfig()
	keys.LevelKey, keys.MessageKey, keys.EncodeTime = "severity", "message", zapcore.RFC3339TimeEncoder
	encoder := zapcore.NewConsoleEncoder(keys)
	if json {
		encoder = zapcore.NewJSONEncoder(keys)
	}
	return zapr.NewLogger(zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(output.NewWriter(to))), level)))
}
