package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/harrier-ci/harrier/internal/crdcheck"
)

func TestManagerWaitsUntilTheCRDsAreRight(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	answers := []error{
		&crdcheck.OutdatedError{Missing: []string{"EphemeralRunner"}}, errors.New("the API server is away"), nil,
	}
	var reported []error
	asked := 0
	check := func(context.Context) error {
		asked++
		return answers[asked-1]
	}
	done := make(chan error)
	go func() {
		done <- awaitCRDs(t.Context(), check, clock, logr.Discard(), func(err error) {
			reported = append(reported, err)
		})
	}()
	for range len(answers) - 1 {
		gomega.NewWithT(t).Eventually(clock.HasWaiters).
			WithTimeout(startTimeout).WithPolling(time.Millisecond).Should(gomega.BeTrue())
		clock.Step(longestCRDBackoff)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(reported) != 3 || reported[0] == nil || reported[1] == nil || reported[2] != nil {
		t.Errorf("reported %v", reported)
	}
}

func TestAwaitCRDsEnds(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	report := func(error) {}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "openapi", nil)
	if err := awaitCRDs(
		t.Context(), func(context.Context) error { return forbidden }, clock, logr.Discard(), report,
	); err != nil {
		t.Errorf("where schemas can't be read: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	outdated := func(context.Context) error { return &crdcheck.OutdatedError{} }
	if err := awaitCRDs(canceled, outdated, clock, logr.Discard(), report); !errors.Is(err, context.Canceled) {
		t.Errorf("when told to stop: %v", err)
	}
}
