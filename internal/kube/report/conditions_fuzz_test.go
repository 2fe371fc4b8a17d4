package report_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/harrier-ci/harrier/internal/kube/report"
)

// What a kubelet or GitHub says becomes a condition that the schema accepts.
func FuzzConditions(f *testing.F) {
	f.Add("ImagePullBackOff", "message")
	f.Add("", "")
	f.Add("9: bad reason!", strings.Repeat("ü", 2*maxMessage))
	f.Add("\xff", "\xff\xfe")
	f.Fuzz(func(t *testing.T, reason, message string) {
		var conditions []metav1.Condition
		report.SetConditions(&conditions, 1, time.Unix(0, 0), report.False("Ready", reason, message))
		if problems := validation.IsConfigMapKey(strings.ToLower(strings.NewReplacer(
			",", "", ":", "",
		).Replace(conditions[0].Reason))); len(problems) > 0 {
			t.Errorf("reason %q becomes %q", reason, conditions[0].Reason)
		}
		if length := len(conditions[0].Message); length > maxMessage {
			t.Errorf("a message of %d bytes", length)
		}
	})
}
