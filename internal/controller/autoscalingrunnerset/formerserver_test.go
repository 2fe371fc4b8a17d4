package autoscalingrunnerset_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/scaleset"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const formerServer = "https://ghes.example.com/my-org"

// watched records which credentials are sent where.
type watched struct {
	*fakeGitHub
	sent *[]string
}

func (g watched) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	*g.sent = append(*g.sent, reference.Namespace+"/"+reference.GitHubConfigSecret+" to "+reference.GitHubConfigURL)
	return g.fakeGitHub.GitHub(ctx, reference)
}

func (g watched) GitHubOfListener(
	ctx context.Context, reference credentials.Reference, listener client.ObjectKey, cause error,
) (scaleset.GitHub, error) {
	*g.sent = append(*g.sent, "the listener's to "+reference.GitHubConfigURL)
	return g.fakeGitHub.GitHubOfListener(ctx, reference, listener, cause)
}

// TestFormerServerIsNotSentTheNewCredentials: it may belong to somebody else by now.
func TestFormerServerIsNotSentTheNewCredentials(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.running(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.GitHubConfigSecret = formerServer, "former"
		})
		var sent []string
		f.way.Connections = watched{f.github, &sent}
		f.github.listenerResolved = true
		f.github.refusedSecrets = map[string]string{formerServer: "former"}
		f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Spec.GitHubConfigUrl, s.Spec.GitHubConfigSecret = address, "present"
		})
		for range 2 * int(scaleset.DeregisterTimeout/time.Minute) {
			f.settle()
			controllertest.Elapse(time.Minute)
		}
		slices.Sort(sent)
		if got := strings.Join(slices.Compact(sent), ", "); got != "arc-runners/former to "+formerServer+
			", arc-runners/present to "+address {
			t.Errorf("credentials were sent: %s", got)
		}
		if events := strings.Join(f.events(), "\n"); !strings.Contains(events, formerServer) || len(f.leaving()) > 0 {
			t.Errorf("former registrations %+v, events %q; want it given up and told", f.leaving(), events)
		}
	})
}

// slowDeletion answers deletions late.
type slowDeletion struct{ *fakeGitHub }

func (g slowDeletion) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	github, err := g.fakeGitHub.GitHub(ctx, reference)
	if err != nil {
		return nil, err
	}
	return slowDeletionAt{github.(controllertest.ScaleSetsAt)}, nil
}

type slowDeletionAt struct{ controllertest.ScaleSetsAt }

func (g slowDeletionAt) DeleteRunnerScaleSet(ctx context.Context, id int) error {
	<-time.After(20 * time.Second)
	return g.ScaleSetsAt.DeleteRunnerScaleSet(ctx, id)
}

// TestReturnWhileTheFormerScaleSetIsBeingDeleted: what a search would find is gone a moment later, with the jobs that
// were queued there.
func TestReturnWhileTheFormerScaleSetIsBeingDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newSet())
		f.settle()
		f.listening()
		f.github.NextID = 5
		f.way.Connections = slowDeletion{f.github}
		f.move(newAddress)
		f.settle()
		f.move(address)
		f.settle()
		if got := f.set().Status.Registration; got.URL == address {
			t.Fatalf("registered at %s, whose scale set is being deleted", got.URL)
		}
		controllertest.Elapse(20 * time.Second)
		f.settle()
		got := f.set().Status.Registration
		f.github.Lock() // the other scale set is being deleted now
		defer f.github.Unlock()
		if there := f.github.Sets[address]; got.URL != address || len(there) != 1 || there[got.ID].Name != setKey.Name {
			t.Errorf("registration %+v, on GitHub %+v", got, there)
		}
	})
}

// secretGone lacks the former Secret, and fails the first deletion.
type secretGone struct {
	*fakeGitHub
	failures *int
}

func (g secretGone) GitHub(ctx context.Context, reference credentials.Reference) (scaleset.GitHub, error) {
	if reference.GitHubConfigSecret == "former" {
		return nil, &credentials.MissingError{Kind: "Secret", Namespace: setNamespace, Name: "former"}
	}
	if *g.failures > 0 {
		*g.failures--
		return nil, &actions.Error{StatusCode: http.StatusServiceUnavailable}
	}
	return g.fakeGitHub.GitHub(ctx, reference)
}

// TestHopelessDeletionDoesNotEndTheOthers: GitHub is asked again for the scale set whose credentials are good.
func TestHopelessDeletionDoesNotEndTheOthers(t *testing.T) {
	gone, good := v1alpha1.ScaleSetRegistration{URL: formerServer, ID: 1},
		v1alpha1.ScaleSetRegistration{URL: address, ID: 2}
	inBubble(t, func(f *fixture) {
		failures := 1
		f.way.Connections = secretGone{f.github, &failures}
		f.github.Sets[address] = map[int]actions.RunnerScaleSet{2: labelled(2, "set", 1, "set")}
		set := newSet(func(s *v1alpha1.AutoscalingRunnerSet) {
			s.Finalizers = []string{v1alpha1.FinalizerAutoscalingRunnerSet}
			journal.Records(nil).Leave(s, gone, credentials.Reference{GitHubConfigSecret: "former"}, time.Now()).Vouch(s)
		})
		f.create(set)
		set.Status.Registration = &good
		f.updateStatus(set)
		f.delete()
		for range 5 {
			f.settle()
		}
		if left := f.github.Sets[address]; len(left) > 0 || !f.gone() {
			t.Errorf("gone %t, left on GitHub: %+v, events %q", f.gone(), left, f.events())
		}
	})
}
