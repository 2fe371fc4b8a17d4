package scaleset_test

import (
	"context"
	"errors"
	"testing"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/credentials"
)

// severalSecrets refuses the Secret called refused, and reaches nothing with the others.
type severalSecrets struct{ scaleset.Connections }

func (severalSecrets) GitHub(_ context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	if reference.GitHubConfigSecret == "refused" {
		return nil, actions.ErrUnauthorized
	}
	return nil, &actions.NetworkError{Err: errors.New("x509: certificate signed by unknown authority")}
}

// TestFailureOfSeveralReferences: a reference without usable credentials says nothing about the others.
func TestFailureOfSeveralReferences(t *testing.T) {
	reference := func(secret string) credentials.Reference {
		return credentials.Reference{Namespace: "arc-runners", GitHubConfigURL: address, GitHubConfigSecret: secret}
	}
	for first, want := range map[string]error{"refused": actions.ErrUnauthorized, "other": nil} {
		_, err := scaleset.DeleteAll(t.Context(), severalSecrets{},
			[]scaleset.Target{{References: []credentials.Reference{reference(first), reference("third")}}})
		if _, network := errors.AsType[*actions.NetworkError](err); (want != nil && !errors.Is(err, want)) ||
			(want == nil && !network) {
			t.Errorf("%s: %v", first, err)
		}
	}
}
