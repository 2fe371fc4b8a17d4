package autoscalingrunnerset_test

import "github.com/onsi/gomega"

// Matchers for Eventually.
var (
	isTrue  = gomega.BeTrue()
	isFalse = gomega.BeFalse()
	isOne   = gomega.Equal(1)
	isTwo   = gomega.Equal(2)
	succeed = gomega.Succeed()

	isDeregistering = gomega.Equal("Deregistering")
	isListener      = gomega.Equal("AutoscalingListener")
)
