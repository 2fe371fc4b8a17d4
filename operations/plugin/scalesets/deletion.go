package scalesets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/output"
)

// ErrNotDeleted reports that a scale set stays, as it should: somebody holds it, or it was not confirmed.
var ErrNotDeleted = errors.New("nothing was deleted")

// sessionOwner is shown by GitHub to those who find the session taken that a deletion opens for a moment.
const sessionOwner = "kubectl-harrier-scalesets"

// remove deletes the scale set that the words name, by its id or its name. It asks before, unless yes is set.
func remove(ctx context.Context, github GitHub, told document, words string, yes bool, in io.Reader, notes io.Writer) error {
	row, err := choose(told.ScaleSets, words)
	if err != nil {
		return err
	}
	if len(row.HeldBy) > 0 {
		return fmt.Errorf("%w: scale set %d (%s) is held by AutoscalingRunnerSet %s of this cluster; uninstall that, and "+
			"the scale set goes with it", ErrNotDeleted, row.ID, output.Clean(row.Name), strings.Join(row.HeldBy, ", "))
	}
	if yes && told.Unseen != "" {
		return fmt.Errorf("%w: %s. A set of this cluster that takes no jobs has no session, so nothing else would tell; "+
			"without --yes you are asked", ErrNotDeleted, output.Clean(told.Unseen))
	}
	if !yes && !confirmed(row, told, in, notes) {
		return fmt.Errorf("%w: it was not confirmed", ErrNotDeleted)
	}
	// A scale set has one session at most, so this one shows that nobody listens, and keeps others from beginning to.
	session, err := github.CreateSession(ctx, row.ID, sessionOwner)
	switch {
	case errors.Is(err, actions.ErrSessionConflict):
		return fmt.Errorf("%w: somebody listens to scale set %d (%s), such as the manager of another cluster: delete the "+
			"AutoscalingRunnerSet there. A listener that was killed frees its session within minutes", ErrNotDeleted, row.ID,
			output.Clean(row.Name))
	case err != nil:
		return fmt.Errorf("find out whether somebody listens to scale set %d: %w", row.ID, err)
	}
	if err := github.DeleteRunnerScaleSet(ctx, row.ID); err != nil {
		return errors.Join(fmt.Errorf("delete scale set %d: %w", row.ID, err), session.Close(ctx))
	}
	fmt.Fprintf(notes, "Scale set %d (%s) is deleted.\n", row.ID, output.Clean(row.Name))
	return nil
}

// choose returns the row with an id or a name, which may be in several runner groups.
func choose(rows []Row, words string) (Row, error) {
	var named []Row
	for _, row := range rows {
		if strconv.Itoa(row.ID) == words {
			return row, nil
		}
		if strings.EqualFold(row.Name, words) {
			named = append(named, row)
		}
	}
	switch len(named) {
	case 0:
		return Row{}, fmt.Errorf("GitHub has no scale set %q at this address; without --delete the command lists those that "+
			"it has", words)
	case 1:
		return named[0], nil
	}
	return Row{}, fmt.Errorf("GitHub has %d scale sets %q, in several runner groups: name one by its id", len(named), words)
}

// An answer has at most longestAnswer characters.
const longestAnswer = 256

// confirmed asks whether the scale set is to go, and reports whether its name was the answer.
func confirmed(row Row, told document, in io.Reader, notes io.Writer) bool {
	if told.Unseen != "" {
		fmt.Fprintf(notes, "Note: %s.\n", output.Clean(told.Unseen))
	}
	fmt.Fprintf(notes, "Scale set %d (%s) of %s has %d assigned jobs and %d registered runners. No set of this cluster is "+
		"known to hold it. It is deleted on GitHub, with its queue; jobs that name it wait until somebody creates it again.\n"+
		"Type its name to delete it: ", row.ID, output.Clean(row.Name), output.Clean(told.Address), row.Jobs, row.Registered)
	answer, _ := bufio.NewReader(io.LimitReader(in, longestAnswer)).ReadString('\n') // what came before an error counts
	return strings.TrimSpace(answer) == row.Name
}
