package failpoints

import (
	"flag"
	"io"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var logged = flag.Bool("failpoints.log", false, "write what manager and listener log")

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func logTo(t *testing.T) logr.Logger {
	if !*logged {
		return logr.Discard()
	}
	return funcr.New(func(prefix, line string) { t.Log(time.Now().Format("15:04:05.000"), prefix, line) }, funcr.Options{})
}

func (w *world) logWriter() io.Writer {
	if !*logged {
		return io.Discard
	}
	return os.Stderr
}
