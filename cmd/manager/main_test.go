package main

import (
	"slices"
	"testing"

	"github.com/harrier-ci/harrier/internal/doctor"
)

func TestEveryCommandIsHandedOver(t *testing.T) {
	if commands := append(slices.Clone(doctor.Commands), "history"); !slices.Equal(operatorCommands, commands) {
		t.Errorf("%v are handed over, and there are %v", operatorCommands, commands)
	}
}
