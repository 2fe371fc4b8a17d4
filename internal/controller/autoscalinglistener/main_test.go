package autoscalinglistener

import (
	"os"
	"testing"

	"github.com/harrier-ci/harrier/internal/testkube"
)

func TestMain(m *testing.M) { os.Exit(testkube.Main(m, testkube.Options{})) }
