package reconcile

import (
	"context"
	"errors"
)

// Rule says what to do in one situation. W is the world by which it is recognized, and D what is to be done: a Step for a controller's
// rules, a decision for those of a pure plan.
type Rule[W, D any] struct {
	// Situation is the rule's name, in words.
	Situation string
	// Applies reports whether this is the situation. It must not change the world.
	Applies func(W) bool
	Do      D
}

// When returns a rule.
func When[W, D any](situation string, applies func(W) bool, do D) Rule[W, D] {
	return Rule[W, D]{Situation: situation, Applies: applies, Do: do}
}

// Otherwise returns the last rule of a list, which always applies.
func Otherwise[W, D any](situation string, do D) Rule[W, D] {
	return When(situation, func(W) bool { return true }, do)
}

// First returns the first rule that applies, nil if none does.
func First[W, D any](rules []Rule[W, D], world W) *Rule[W, D] {
	for i := range rules {
		if rules[i].Applies(world) {
			return &rules[i]
		}
	}
	return nil
}

// Step does something in a pass. What it finds out for later steps and for the report is noted in the world.
type Step[W any] = func(context.Context, W) error

// InOrder takes steps in order, up to the first that fails.
func InOrder[W any](steps ...Step[W]) Step[W] {
	return func(ctx context.Context, world W) error {
		for _, step := range steps {
			if err := step(ctx, world); err != nil {
				return err
			}
		}
		return nil
	}
}

// Each takes all the steps in order, whichever fail: none needs what another one does.
func Each[W any](steps ...Step[W]) Step[W] {
	return func(ctx context.Context, world W) error {
		var errs []error
		for _, step := range steps {
			errs = append(errs, step(ctx, world))
		}
		return errors.Join(errs...)
	}
}

// Reported takes a step and then, even if that has failed, calls report with its error. The pass fails with what report returns.
func Reported[W any](report func(context.Context, W, error) error, step Step[W]) Step[W] {
	return func(ctx context.Context, world W) error { return report(ctx, world, step(ctx, world)) }
}

// Nothing is the step of a rule that ends the pass.
func Nothing[W any](context.Context, W) error { return nil }
