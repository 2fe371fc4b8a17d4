package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
)

// facts are tried in this order; later ones use what earlier ones made.
var facts = []struct {
	name, claim string
	try         func(context.Context, *contract) (seen string, err error)
}{
	{"scale-set", "a scale set is created, and found by its name", createSet},
	{"several-labels", "a scale set keeps several labels", keepLabels},
	{"changed-labels", "its labels can be changed", changeLabels},
	{"session", "it has a session, and no second one", openSession},
	{"capacity-zero", "a poll that announces room for 0 jobs is answered", pollWithoutRoom},
	{"acquire-nothing", "acquiring a job that nobody has acquires none", acquireNothing},
	{"acquire", "a job that matches a label comes: by itself, or offered and acquired", acquireJob},
	{"registration", "a runner is registered, and found by id and name", register},
	{"name-taken", "a second runner of that name is refused", registerAgain},
	{"runner", "a runner is refused because of its version, and ends by itself", runRunner},
	{"record-version", "the record of a runner has its version", recordVersion},
	{"removal", "a registration is removed, and unknown afterwards", unregister},
}

// defaultGroup is the id of the default runner group.
const defaultGroup = 1

func createSet(ctx context.Context, c *contract) (string, error) {
	group := defaultGroup
	if c.settings.group != "" {
		found, err := c.client.GetRunnerGroupByName(ctx, c.settings.group)
		if err != nil {
			return "", err
		}
		group = found.ID
	}
	c.removeLater("scale set "+c.name, c.removeSet(group))
	made, err := c.client.CreateRunnerScaleSet(ctx, &actions.RunnerScaleSet{
		Name: c.name, RunnerGroupID: group, Labels: labelsOf(c.name, c.name+"-a"),
		RunnerSetting: actions.RunnerSetting{DisableUpdate: true},
	})
	if err != nil {
		return "", err
	}
	c.set = made
	found, err := c.client.GetRunnerScaleSet(ctx, group, c.name)
	switch {
	case errors.Is(err, actions.ErrScaleSetNotFound):
		return "", otherwise("it is not found by its name")
	case err != nil:
		return "", err
	case found.ID != made.ID:
		return "", otherwise("it was created as %d and found as %d", made.ID, found.ID)
	}
	return fmt.Sprintf("id %d", made.ID), nil
}

func labelsOf(names ...string) (labels []actions.Label) {
	for _, name := range names {
		labels = append(labels, actions.Label{Name: name, Type: "System"})
	}
	return labels
}

// wantLabels reads the scale set, and compares its labels.
func (c *contract) wantLabels(ctx context.Context, want ...string) (string, error) {
	set, err := c.client.GetRunnerScaleSetByID(ctx, c.set.ID)
	if err != nil {
		return "", err
	}
	var got []string
	for _, label := range set.Labels {
		got = append(got, label.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return "", otherwise("it has the labels %s, of %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	return strings.Join(got, ", "), nil
}

func keepLabels(ctx context.Context, c *contract) (string, error) {
	if c.set == nil {
		return "", &skippedError{"there is no scale set"}
	}
	return c.wantLabels(ctx, c.name, c.name+"-a")
}

func changeLabels(ctx context.Context, c *contract) (string, error) {
	if c.set == nil {
		return "", &skippedError{"there is no scale set"}
	}
	changed := *c.set
	changed.Labels = labelsOf(c.name, c.name+"-b")
	if _, err := c.client.UpdateRunnerScaleSet(ctx, c.set.ID, &changed); err != nil {
		return "", err
	}
	return c.wantLabels(ctx, c.name, c.name+"-b")
}

func openSession(ctx context.Context, c *contract) (string, error) {
	if c.set == nil {
		return "", &skippedError{"there is no scale set"}
	}
	session, err := c.client.CreateSession(ctx, c.set.ID, c.name)
	if err != nil {
		return "", err
	}
	c.session = session
	c.removeLater("session of "+c.name, session.Close)
	second, err := c.client.CreateSession(ctx, c.set.ID, c.name+"-second")
	switch {
	case errors.Is(err, actions.ErrSessionConflict):
		return "the second one is refused", nil
	case err != nil:
		return "", err
	}
	c.removeLater("second session of "+c.name, second.Close)
	return "", otherwise("a second session is opened beside the first")
}

func pollWithoutRoom(ctx context.Context, c *contract) (string, error) {
	if c.session == nil {
		return "", &skippedError{"there is no session"}
	}
	c.say("   an empty poll takes 50 s")
	began := time.Now()
	message, err := c.session.GetMessage(ctx, 0, 0)
	switch {
	case err != nil:
		return "", err
	case message != nil && len(message.JobsAvailable)+len(message.JobsAssigned) > 0:
		return "", otherwise("jobs come although there is room for none")
	}
	return "answered after " + time.Since(began).Round(time.Second).String(), nil
}

func acquireNothing(ctx context.Context, c *contract) (string, error) {
	if c.session == nil {
		return "", &skippedError{"there is no session"}
	}
	const nobodys = 1 // ids of requests are large numbers
	acquired, err := c.session.AcquireJobs(ctx, []int64{nobodys})
	switch {
	case err != nil:
		return "", otherwise("it fails: %v", err)
	case len(acquired) > 0:
		return "", otherwise("%d are acquired", len(acquired))
	}
	return "none, and no error", nil
}

func acquireJob(ctx context.Context, c *contract) (string, error) {
	switch {
	case c.session == nil:
		return "", &skippedError{"there is no session"}
	case c.settings.wait <= 0:
		return "", &skippedError{"-wait DURATION waits for a job of yours"}
	}
	c.say("   start a job now with runs-on: %s-b. It gets no runner: cancel it afterwards", c.name)
	limited, cancel := context.WithTimeout(ctx, c.settings.wait)
	defer cancel()
	var last int64
	var acquired []int64
	for {
		message, err := c.session.GetMessage(limited, last, 1)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case limited.Err() != nil && len(acquired) > 0:
			return "", otherwise("job %d is acquired and not assigned within %s", acquired[0], c.settings.wait)
		case limited.Err() != nil:
			return "", &skippedError{"no job came within " + c.settings.wait.String()}
		case err != nil:
			return "", err
		case message == nil:
			continue
		}
		last = message.ID
		if len(message.JobsAssigned) > 0 {
			how := "assigned by itself"
			if len(acquired) > 0 {
				how = "offered, acquired and assigned"
			}
			return fmt.Sprintf("%s, labels %v", how, message.JobsAssigned[0].RequestLabels),
				c.session.DeleteMessage(ctx, last)
		}
		if acquired, err = c.takeOffer(ctx, message, acquired); err != nil {
			return "", err
		}
	}
}

// takeOffer acquires the first job that a message offers, unless one is acquired, and acknowledges the message.
func (c *contract) takeOffer(ctx context.Context, m *actions.Message, acquired []int64) ([]int64, error) {
	if len(m.JobsAvailable) > 0 && len(acquired) == 0 {
		var err error
		if acquired, err = c.session.AcquireJobs(ctx, []int64{m.JobsAvailable[0].RunnerRequestID}); err != nil {
			return nil, err
		}
	}
	return acquired, c.session.DeleteMessage(ctx, m.ID)
}

func register(ctx context.Context, c *contract) (string, error) {
	if c.set == nil {
		return "", &skippedError{"there is no scale set"}
	}
	c.removeLater("runner "+c.runnerName(), c.removeRunner)
	config, err := c.client.GenerateJITConfig(ctx, c.set.ID, actions.JITConfigRequest{Name: c.runnerName()})
	if err != nil {
		return "", err
	}
	c.jit, c.runner = config, &config.Runner
	byID, err := c.client.GetRunner(ctx, c.runner.ID)
	if err != nil {
		return "", err
	}
	byName, err := c.client.GetRunnerByName(ctx, c.runnerName())
	switch {
	case err != nil:
		return "", err
	case byID.Name != c.runnerName() || byName.ID != c.runner.ID || byName.RunnerScaleSetID != c.set.ID:
		return "", otherwise("by id it is %q, by name %d of scale set %d", byID.Name, byName.ID, byName.RunnerScaleSetID)
	}
	return fmt.Sprintf("id %d, status %q", byID.ID, byID.Status), nil
}

func registerAgain(ctx context.Context, c *contract) (string, error) {
	if c.runner == nil {
		return "", &skippedError{"there is no runner"}
	}
	_, err := c.client.GenerateJITConfig(ctx, c.set.ID, actions.JITConfigRequest{Name: c.runnerName()})
	switch {
	case errors.Is(err, actions.ErrRunnerExists):
		return "refused", nil
	case err != nil:
		return "", err
	}
	return "", otherwise("it is registered as well")
}

func recordVersion(ctx context.Context, c *contract) (string, error) {
	switch {
	case c.runner == nil:
		return "", &skippedError{"there is no runner"}
	case c.ran == nil:
		return "", &skippedError{"-runner DIRECTORY starts a runner, which says its version when it connects"}
	}
	if c.ran.record.Version == "" {
		return "", otherwise("the record has none, while the runner's status is %q", c.ran.record.Status)
	}
	return c.ran.record.Version, nil
}

func unregister(ctx context.Context, c *contract) (string, error) {
	if c.runner == nil {
		return "", &skippedError{"there is no runner"}
	}
	if err := c.client.RemoveRunner(ctx, c.runner.ID); err != nil && !errors.Is(err, actions.ErrRunnerNotFound) {
		return "", err
	}
	_, err := c.client.GetRunner(ctx, c.runner.ID)
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return "unknown", nil
	case err != nil:
		return "", err
	}
	return "", otherwise("it is still found")
}
