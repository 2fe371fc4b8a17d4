package informer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/harrier-ci/harrier/internal/kube/informer"
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
			was := decoded(t, test.was)
			last := func(key string) (any, bool) { return was, key == "n/a" }
			got, err := cache.ToListerWatcherWithContext(informer.Readable(apiServer(t, podList(named(t, test.is))),
				&corev1.Pod{}, last)).ListWithContext(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pod, want := got.(*corev1.PodList).Items[0], &corev1.Pod{}
			if whole := name == "readable"; informer.IsWhole(&pod) != whole {
				t.Errorf("it counts as whole: %t", !whole)
			}
			delete(pod.Annotations, annotationUnreadable)
			if err := json.Unmarshal([]byte(named(t, test.want)), want); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, &pod, cmpopts.EquateEmpty()); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}

// named returns the content of a pod with these fields, and a name.
func named(t *testing.T, content string) string {
	t.Helper()
	fields := decoded(t, content)
	fields["metadata"] = map[string]any{"namespace": "n", "name": "a"}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
	other := strings.Replace(badPod, `"containers"`, `"initContainers"`, 1)
	source := apiServer(t, podEvents("MODIFIED", badPod, badPod, other, strings.Replace(badPod, `"abc"`, `[]`, 1), other))
	readable := cache.ToListerWatcherWithContext(informer.Readable(source, &corev1.Pod{}, nothingKnown))
	watched(ctx, t, readable) // ends at the first
	if events := watched(ctx, t, readable); len(events) != 5 {
		t.Errorf("events %v, want 5", events)
	}
	checkSaid(t, lines, 3)
}

// A decoder may repeat the value.
func TestUnreadableErrorsNameTheObject(t *testing.T) {
	long := strings.Replace(strings.Replace(badPod, `"abc"`, `[]`, 1), `"spec"`,
		`"status":{"startTime":"`+strings.Repeat("x", 4000)+`"},"spec"`, 1)
	for _, content := range []string{badPod, long} {
		unreadable, err := informer.ListReadable(t.Context(), undecoded{pods: podList(goodPod, content)}, scheme.Scheme,
			&corev1.PodList{})
		if err != nil || len(unreadable) != 1 {
			t.Fatalf("unreadable are %v, %v, want one", unreadable, err)
		}
		if bad := unreadable[0]; bad.Kind != "Pod" || bad.Namespace != "n" || bad.Name != "bad" ||
			len(bad.Error()) > 1000 {
			t.Errorf("error %v", bad)
		}
	}
}

func nothingKnown(string) (any, bool) { return nil, false }
