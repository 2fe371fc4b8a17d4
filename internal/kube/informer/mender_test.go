package informer

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Only the smallest part that can't be read is replaced by its last value, or dropped.
func TestMend(t *testing.T) {
	for name, test := range map[string]struct{ is, was, want string }{
		"readable": {`{"spec":{"nodeName":"a"}}`, `{}`, `{"spec":{"nodeName":"a"}}`},
		"a field":  {`{"spec":{"nodeName":"a","containers":"abc"}}`, `{}`, `{"spec":{"nodeName":"a"}}`},
		"as it was": {
			`{"spec":{"nodeName":"a","containers":"abc"}}`, `{"spec":{"nodeName":"b","containers":[]}}`,
			`{"spec":{"nodeName":"a","containers":[]}}`,
		},
		"deep": {`{"spec":{"nodeSelector":{"a":1,"b":"c"}}}`, `{}`, `{"spec":{"nodeSelector":{"b":"c"}}}`},
		"deep as was": {
			`{"spec":{"nodeSelector":{"a":1,"b":"c"}}}`, `{"spec":{"nodeSelector":{"a":"x"}}}`,
			`{"spec":{"nodeSelector":{"a":"x","b":"c"}}}`,
		},
		"another shape": {
			`{"spec":3,"status":{"phase":"Running"}}`, `{"spec":{"nodeName":"b"}}`,
			`{"spec":{"nodeName":"b"},"status":{"phase":"Running"}}`,
		},
		"a quantity": {`{"spec":{"overhead":{"cpu":"1e99999999999999999999","memory":"1Gi"}}}`, `{}`,
			`{"spec":{"overhead":{"memory":"1Gi"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			fields, was, want := decoded(t, test.is), decoded(t, test.was), decoded(t, test.want)
			newMender(&corev1.Pod{}, nothingKnown).mend(fields, was, nil)
			if difference := cmp.Diff(want, fields); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

func decoded(t *testing.T, content string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(content), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// An object is logged again if the cause changes, or if it could be read in the meantime.
func TestUnreadableObjectsAreLoggedAgain(t *testing.T) {
	ctx, lines := logged(t)
	m := newMender(&corev1.Pod{}, nothingKnown)
	other := strings.Replace(badPod, `"containers"`, `"initContainers"`, 1)
	for _, object := range []string{badPod, badPod, other, strings.Replace(badPod, `"abc"`, `[]`, 1), other} {
		m.object(ctx, []byte(object))
	}
	checkSaid(t, lines, 3)
}

// A decoder may repeat the value.
func TestUnreadableErrorsNameTheObject(t *testing.T) {
	m := newMender(&corev1.Pod{}, nothingKnown)
	if err := m.cause([]byte(goodPod)); err != nil {
		t.Error(err)
	}
	long := strings.Replace(badPod, `"abc"`, `[{"resources":{"limits":{"a":"`+strings.Repeat("x", 4000)+`"}}}]`, 1)
	for _, content := range []string{badPod, long} {
		err := m.cause([]byte(content))
		if err == nil || err.Kind != "Pod" || err.Namespace != "n" || err.Name != "bad" || len(err.Error()) > 1000 {
			t.Errorf("error %v", err)
		}
	}
}

func nothingKnown(string) (any, bool) { return nil, false }
