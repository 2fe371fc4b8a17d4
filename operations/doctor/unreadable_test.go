package doctor

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/finding"
)

// spoiltSets is an API server with a scale set that Go can't decode.
type spoiltSets struct{ client.Reader }

func (s spoiltSets) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ours := list.(*v1alpha1.AutoscalingRunnerSetList); ours {
		return errors.New("time: invalid duration")
	}
	if err := s.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if raw, ok := list.(*unstructured.UnstructuredList); ok {
		return unstructured.SetNestedField(raw.Items[0].Object, "999999999999h", "spec", "pendingTimeout")
	}
	return nil
}

func TestRunNamesWhatCantBeRead(t *testing.T) {
	output := &bytes.Buffer{}
	whole := cluster(t, allow, objects()...)
	whole.Reader = spoiltSets{whole.Reader}
	if err := Run(t.Context(), whole, Options{Output: "text"}, output); !errors.Is(err, finding.ErrProblems) {
		t.Errorf("Run() = %v, want %v", err, finding.ErrProblems)
	}
	for _, part := range []string{"Unreadable", "AutoscalingRunnerSet runners/linux", "invalid duration", "kubectl edit",
		"CredentialsMissing"} {
		if !strings.Contains(output.String(), part) {
			t.Errorf("the report lacks %q:\n%s", part, output)
		}
	}
}
