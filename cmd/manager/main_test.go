package main

import (
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/internal/doctor"
)

func TestEveryCommandIsHandedOver(t *testing.T) {
	if !slices.Equal(operatorCommands, doctor.Commands) {
		t.Errorf("%v are handed over, and there are %v", operatorCommands, doctor.Commands)
	}
}
