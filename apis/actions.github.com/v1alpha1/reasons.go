package v1alpha1

// ReasonListenerStopped is the reason of an AutoscalingListener's condition Ready once it is being deleted and its pod is
// gone. One controller writes it and another waits for it.
const ReasonListenerStopped = "Stopped"
