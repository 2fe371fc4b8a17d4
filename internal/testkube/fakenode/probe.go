package fakenode

import (
	"context"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// addressOf returns the address to probe. It is empty if there is no probe, or one that can't be played: it is not
// HTTP, or its port has no address on this machine.
func (c *Container) addressOf(probe *corev1.Probe) string {
	if probe == nil || probe.HTTPGet == nil {
		return ""
	}
	port := probe.HTTPGet.Port.IntVal
	for _, named := range c.Spec.Ports {
		if named.Name == probe.HTTPGet.Port.StrVal {
			port = named.ContainerPort
		}
	}
	return c.addresses[port]
}

// probe plays the container's probes until ctx ends: first the startup probe, then liveness and readiness side by side.
func (c *Container) probe(ctx context.Context) {
	if !c.awaitStartup(ctx) {
		return
	}
	var probes sync.WaitGroup
	defer probes.Wait()
	probes.Go(func() {
		c.watch(ctx, c.Spec.ReadinessProbe, func(healthy bool) {
			c.report(func(status *corev1.ContainerStatus) { status.Ready = healthy })
		})
	})
	probes.Go(func() {
		c.watch(ctx, c.Spec.LivenessProbe, func(healthy bool) {
			if !healthy {
				c.restart(c.Spec.LivenessProbe)
			}
		})
	})
}

// awaitStartup holds back the other probes until the startup probe, if there is one, has succeeded. It returns false if
// that never happens.
func (c *Container) awaitStartup(ctx context.Context) bool {
	if c.addressOf(c.Spec.StartupProbe) == "" {
		return true
	}
	starting, done := context.WithCancel(ctx)
	defer done()
	passed := false
	c.watch(starting, c.Spec.StartupProbe, func(healthy bool) {
		defer done()
		if !healthy {
			c.restart(c.Spec.StartupProbe)
			return
		}
		passed = true
		c.report(func(status *corev1.ContainerStatus) {
			up := true
			status.Started, status.Ready = &up, c.addressOf(c.Spec.ReadinessProbe) == ""
		})
	})
	return passed
}

// report changes the container's status unless this run of it is over.
func (c *Container) report(change func(*corev1.ContainerStatus)) {
	c.player.update(func() {
		if c.player.runs[c.Spec.Name] == c {
			change(c.player.containers[c.Spec.Name])
		}
	})
}

// restart stops the container, with the probe's grace period or else the pod's. The restart policy does the rest.
func (c *Container) restart(probe *corev1.Probe) {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	for _, seconds := range []*int64{c.Pod.Spec.TerminationGracePeriodSeconds, probe.TerminationGracePeriodSeconds} {
		if seconds != nil {
			grace = *seconds
		}
	}
	c.terminate()
	c.player.node.playing.Go(func() {
		if c.player.pause(c.over, time.Duration(grace)*time.Second) {
			c.kill("Error")
		}
	})
}

// watch probes until ctx ends. It calls tell with the first verdict and with every later one that differs.
func (c *Container) watch(ctx context.Context, probe *corev1.Probe, tell func(healthy bool)) {
	address := c.addressOf(probe)
	if address == "" || !c.player.pause(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	period, count := c.pace(probe)
	ticker := c.player.node.options.Clock.NewTicker(period)
	defer ticker.Stop()
	client := &http.Client{
		Timeout: time.Duration(max(1, probe.TimeoutSeconds)) * time.Second,
		// No keep-alive, because each probe asks whether the program accepts a new connection.
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	for ctx.Err() == nil {
		if changed := count.add(healthy(ctx, client, "http://"+address+probe.HTTPGet.Path)); changed {
			tell(count.healthy)
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
		}
	}
}

// pace returns the period of a probe and its thresholds. Options.ProbePeriod changes the period, and with it the
// failure threshold of a startup probe, so that it fails after the same time.
func (c *Container) pace(probe *corev1.Probe) (time.Duration, verdict) {
	period := time.Duration(max(1, probe.PeriodSeconds)) * time.Second
	thresholds := verdict{success: max(1, probe.SuccessThreshold), failure: max(1, probe.FailureThreshold)}
	override := c.player.node.options.ProbePeriod
	if override == 0 {
		return period, thresholds
	}
	if probe == c.Spec.StartupProbe {
		thresholds.failure *= int32(max(1, period/override))
	}
	return override, thresholds
}

// healthy is the kubelet's rule for HTTP probes: 200 to 399.
func healthy(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest
}

// verdict decides by a probe's thresholds whether a container is healthy.
type verdict struct {
	success, failure int32
	row              int32 // number of latest answers that are equal
	last             bool
	decided, healthy bool
}

// add counts an answer. It reports whether there is a verdict for the first time or it has changed.
func (v *verdict) add(answer bool) bool {
	if v.row == 0 || answer != v.last {
		v.row, v.last = 0, answer
	}
	v.row++
	threshold := v.failure
	if answer {
		threshold = v.success
	}
	if v.row < threshold || (v.decided && v.healthy == answer) {
		return false
	}
	v.decided, v.healthy = true, answer
	return true
}
