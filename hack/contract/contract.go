package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/build"
	"github.com/harrier-ci/harrier/internal/output"
)

// States of facts.
const (
	held     = "held"
	refuted  = "refuted"   // GitHub does something else
	unknown  = "unknown"   // a call failed in another way
	notTried = "not tried" // a flag is missing, or an earlier fact
)

// verdict is what became of a fact.
type verdict struct {
	Name  string `json:"name"`
	Claim string `json:"claim"`
	State string `json:"state"`
	Seen  string `json:"seen"`
}

// otherwiseError is what GitHub does instead of what a fact claims.
type otherwiseError struct{ seen string }

func (e *otherwiseError) Error() string { return e.seen }

func otherwise(format string, values ...any) error {
	return &otherwiseError{fmt.Sprintf(format, values...)}
}

// skippedError is the reason why a fact was not tried.
type skippedError struct{ why string }

func (e *skippedError) Error() string { return e.why }

// removalTimeout limits the removal of one thing. A call is repeated for up to 30 s.
const removalTimeout = time.Minute

// contract is one run.
type contract struct {
	client   *actions.Client
	settings settings
	progress io.Writer
	// name is that of the scale set, and of the runner with a suffix.
	name string

	set     *actions.RunnerScaleSet
	session *actions.Session
	runner  *actions.RunnerReference
	jit     *actions.JITConfig
	ran     *runnerRun
	// undo has what removes what was made, in the order in which it was begun.
	undo []removal
}

// removal removes one thing that was made, or may have been.
type removal struct {
	what string
	do   func(context.Context) error
}

func newContract(client *actions.Client, s settings, progress io.Writer) *contract {
	random := make([]byte, 5)
	_, _ = rand.Read(random) // never fails
	return &contract{
		client: client, settings: s, progress: progress, name: "harrier-contract-" + hex.EncodeToString(random),
	}
}

func (c *contract) say(format string, values ...any) {
	fmt.Fprintln(c.progress, "contract: "+output.OneLine(fmt.Sprintf(format, values...)))
}

// try tries the facts one after the other, and removes what they made, whatever became of them.
func (c *contract) try(ctx context.Context) *result {
	r := &result{ConfigURL: c.settings.configURL, At: time.Now().UTC().Truncate(time.Second), Version: build.Version}
	for i, f := range facts {
		c.say("%d of %d: %s", i+1, len(facts), f.claim)
		v := verdict{Name: f.name, Claim: f.claim, State: held}
		seen, err := "", ctx.Err()
		if err == nil {
			seen, err = f.try(ctx, c)
		}
		if err != nil {
			seen, v.State = err.Error(), stateOf(err)
		}
		v.Seen = output.OneLine(actions.Quote(seen, c.settings.token))
		c.say("   %s: %s", v.State, v.Seen)
		r.Facts = append(r.Facts, v)
	}
	r.LeftBehind = c.removeAll(ctx)
	return r
}

func stateOf(err error) string {
	if _, ok := errors.AsType[*otherwiseError](err); ok {
		return refuted
	}
	if _, ok := errors.AsType[*skippedError](err); ok {
		return notTried
	}
	return unknown
}

// removeLater has something removed at the end. It is called before that is made: the answer may be lost.
func (c *contract) removeLater(what string, do func(context.Context) error) {
	c.say("   making %s, which is removed at the end", what)
	c.undo = append(c.undo, removal{what, do})
}

// removeAll removes what was made, the last thing first, and returns what could not be removed.
func (c *contract) removeAll(ctx context.Context) (left []string) {
	for _, one := range slices.Backward(c.undo) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
		err := one.do(limited)
		cancel()
		if err != nil {
			c.say("%s could not be removed: %v", one.what, err)
			left = append(left, one.what)
			continue
		}
		c.say("%s is removed", one.what)
	}
	return left
}

// removeSet removes the scale set by its name, which nobody else has.
func (c *contract) removeSet(group int) func(context.Context) error {
	return func(ctx context.Context) error {
		set, err := c.client.GetRunnerScaleSet(ctx, group, c.name)
		if err == nil {
			err = c.client.DeleteRunnerScaleSet(ctx, set.ID)
		}
		if errors.Is(err, actions.ErrScaleSetNotFound) {
			return nil
		}
		return err
	}
}

// removeRunner removes the registration by its name, if it is one of our scale set.
func (c *contract) removeRunner(ctx context.Context) error {
	runner, err := c.client.GetRunnerByName(ctx, c.runnerName())
	switch {
	case errors.Is(err, actions.ErrRunnerNotFound):
		return nil
	case err != nil:
		return err
	case runner.RunnerScaleSetID != c.set.ID:
		return fmt.Errorf("runner %s belongs to another scale set", runner.Name)
	}
	err = c.client.RemoveRunner(ctx, runner.ID)
	if errors.Is(err, actions.ErrRunnerNotFound) {
		return nil
	}
	return err
}

func (c *contract) runnerName() string { return c.name + "-runner" }
