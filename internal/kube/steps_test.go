package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestStepsAreTakenUpToTheFirstThatFails(t *testing.T) {
	var taken []string
	failure := errors.New("second")
	step := func(name string, err error) func(context.Context, *[]string) error {
		return func(_ context.Context, taken *[]string) error {
			*taken = append(*taken, name)
			return err
		}
	}
	err := InOrder(t.Context(), &taken, step("first", nil), step("second", failure), step("third", nil))
	if !errors.Is(err, failure) || !slices.Equal(taken, []string{"first", "second"}) {
		t.Errorf("InOrder() = %v after %v", err, taken)
	}
}
