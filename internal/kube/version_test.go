package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsStale(t *testing.T) {
	for _, test := range []struct {
		have, written string
		want          bool
	}{
		{"9", "10", true}, {"10", "10", false}, {"11", "10", false}, {"9", "", false}, {"", "10", false}, {"x", "10", false},
	} {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: test.have}}
		if got := IsStale(object, test.written); got != test.want {
			t.Errorf("IsStale(%q, %q) = %t", test.have, test.written, got)
		}
	}
}
