package v1alpha1

// Reasons that one program or controller writes and another decides by.
const (
	// ReasonListenerStopped is the reason of an AutoscalingListener's condition Ready once it is being deleted and its
	// pod is gone.
	ReasonListenerStopped = "Stopped"
	// ReasonScaleSetNotFound is what a listener, or a runner that can't be registered, says when GitHub no longer knows
	// the scale set. The manager then looks at GitHub at once and creates it again.
	ReasonScaleSetNotFound = "ScaleSetNotFound"
)

// ReasonListenerPodStarting and ReasonListenerNotListening, of Ready on an AutoscalingListener, are the stations on its
// ordinary way to its first session.
const (
	ReasonListenerPodStarting  = "PodStarting"
	ReasonListenerNotListening = "NotListening"
)
