package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/test/rig"
)

// Attacks last for a minute. Meanwhile team a's set takes so many jobs.
const (
	minute = time.Minute
	jobs   = 10
)

// path is the moment of an attack.
type path string

const (
	running path = "while the manager runs"
	before  path = "before the manager starts"
	across  path = "across a restart of the manager"
)

// Whatever team b tries, team a and the manager are as if it hadn't, and team b is told what it may not do.
func TestTenantsAreSafeFromEachOther(t *testing.T) {
	pattern := regexp.MustCompile(*only)
	var chosen []attack
	for _, subject := range slices.Sorted(maps.Keys(tables())) {
		table := slices.DeleteFunc(tables()[subject], func(a attack) bool { return !pattern.MatchString(a.name) })
		chosen = append(chosen, table...)
		if !*everyPath || len(table) == 0 {
			continue
		}
		for _, way := range []path{running, before, across} {
			t.Run(strings.ReplaceAll(fmt.Sprintf("%s/%s", subject, way), " ", "-"),
				func(t *testing.T) { assault(t, way, table) })
		}
	}
	switch {
	case len(chosen) == 0:
		t.Fatalf("no attack matches %s", pattern)
	case !*everyPath:
		assault(t, running, chosen)
	}
}

// assault makes attacks together and has the witness look at what they have done.
func assault(t *testing.T, way path, chosen []attack) {
	t.Helper()
	s := newStage(t)
	following, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	secrets, memory := s.collect(following), s.weigh(following)
	s.follow(following)
	defer memory.report(t) // also of a manager that leaves a job undone, which ends the test

	first := s.state()
	control := append(s.take(rig.DefaultSet, jobs/2), s.take(vaultedSet, 1)...)
	s.awaitQuiet()
	usual := s.state()
	usually := first.differences(usual)

	objects := s.objects(chosen)
	t.Cleanup(func() { s.retreat(objects) })
	restarted := s.restarts()
	if way == before {
		s.rig.StopManager()
	}
	written := s.write(chosen, objects)
	if way == before {
		s.rig.StartManager()
		s.awaitManager()
		restarted = s.restarts()
	}
	for _, a := range chosen {
		if a.act != nil {
			if err := a.act(s); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
	}
	// after what they do: on a busy machine 300 patches take longer than their consequences may last
	began := time.Now()
	during := s.spend(began, func() {
		if way == across {
			s.killManager()
			restarted = s.restarts()
		}
	})
	until := time.Now()
	s.awaitTold(chosen, func(a attack) bool { return !a.atStart || way != running })
	s.awaitQuiet()

	// What is said comes first, because a refusal that is missing often explains the rest.
	for _, a := range chosen {
		if a.harm != nil {
			report(t, a.name, a.harm(s))
		}
	}
	report(t, "team b sees", s.leaks(secrets))
	report(t, "reached", s.reached())
	report(t, "RoleBindings for team b", s.bindings())
	report(t, "changed, of team a's or the manager's", usual.changes(s.state(), usually))
	report(t, "written too often", s.chatter(began, until, written+s.runners()))
	if now := s.restarts(); fmt.Sprint(now) != fmt.Sprint(restarted) {
		t.Errorf("the manager has been restarted: %v, before %v", now, restarted)
	}
	s.take(vaultedSet, 1)
	if slices.ContainsFunc(chosen, func(a attack) bool { return a.atStart }) && way == running {
		s.killManager()
		s.awaitTold(chosen, func(a attack) bool { return a.atStart })
	}
	s.retreat(objects)
	control = append(control, s.take(rig.DefaultSet, jobs/2)...)
	t.Logf("team a's jobs: median %s during the attack, %s without", median(during), median(control))
	report(t, "slowed down", slowed(during, control))
}

func report(t *testing.T, what string, found []string) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%s:\n  %s", what, summary(found))
	}
}

// objects returns the objects that the attacks write, by attack.
func (s *stage) objects(chosen []attack) map[string][]client.Object {
	made := map[string][]client.Object{}
	for _, a := range chosen {
		made[a.name] = a.objects(s)
	}
	return made
}

// write writes the attacks' objects as team b and returns their number.
func (s *stage) write(chosen []attack, objects map[string][]client.Object) (written int) {
	s.Helper()
	for _, a := range chosen {
		for _, object := range objects[a.name] {
			err := s.attacker.client.Create(s.Context(), object)
			if refused := refusedField(err, a.refused); err != nil && !refused {
				s.Errorf("%s: %v", a.name, err)
			} else if a.refused != "" && !refused {
				s.Errorf("%s: the API server takes it, though %s is too much", a.name, a.refused)
			}
			if err == nil {
				written++
			}
		}
	}
	return written
}

// refusedField reports whether the API server has refused an object because of one field.
func refusedField(err error, field string) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if field == "" || !ok || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == field {
			return true
		}
	}
	return false
}

// spend has team a take its jobs over the attacks' minute, in the middle of which it calls halfway.
func (s *stage) spend(began time.Time, halfway func()) (durations []time.Duration) {
	s.Helper()
	for i := range jobs {
		if !rig.Wait(s.Context(), time.Until(began.Add(minute*time.Duration(i)/jobs))) {
			break
		}
		if i == jobs/2 {
			halfway()
		}
		durations = append(durations, s.take(rig.DefaultSet, 1)...)
	}
	rig.Wait(s.Context(), time.Until(began.Add(minute)))
	return durations
}

// killManager kills the manager and returns when another is ready.
func (s *stage) killManager() {
	s.Helper()
	before := s.restarts()
	s.rig.KillManager()
	gomega.NewWithT(s.T).Eventually(s.restarts, rig.Patience, "100ms").
		ShouldNot(gomega.Equal(before), "the manager is started again")
	s.awaitManager()
}

// awaitManager waits until a manager is ready, and team a's listener, which it may have replaced, and until a job has
// shown that the manager leads: one that was killed keeps its Lease for up to 9 s. That time is the restart's and not
// the attack's.
func (s *stage) awaitManager() {
	s.Helper()
	gomega.NewWithT(s.T).Eventually(func() bool {
		for _, pod := range s.rig.ManagerPods() {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					return true
				}
			}
		}
		return false
	}, rig.Patience, "100ms").Should(gomega.BeTrue(), "the manager is ready")
	s.rig.AwaitListening(rig.DefaultSet)
	s.take(rig.DefaultSet, 1)
}

// awaitTold fails the test for each attack about which team b isn't told what it should be.
func (s *stage) awaitTold(chosen []attack, of func(attack) bool) {
	s.Helper()
	// They have had their minute. What a busy machine adds is the same for all.
	late, cancel := context.WithTimeout(s.Context(), minute/2)
	defer cancel()
	for _, a := range chosen {
		if a.says == nil || !of(a) {
			continue
		}
		err := a.says(s)
		for err != nil && rig.Wait(late, time.Second) {
			err = a.says(s)
		}
		if err != nil {
			s.Errorf("%s: %v", a.name, err)
		}
	}
}

// retreat deletes the attacks' objects. A set whose GitHub refuses everything is let go after five minutes if a restart
// has made the manager forget that it was never registered. The next test doesn't wait for that.
func (s *stage) retreat(objects map[string][]client.Object) {
	s.Helper()
	administrator := s.rig.Cluster.Client()
	for _, list := range objects {
		for _, object := range list {
			if err := client.IgnoreNotFound(administrator.Delete(context.Background(), object)); err != nil {
				s.Error(err)
			}
		}
	}
	late, cancel := context.WithTimeout(context.Background(), minute)
	defer cancel()
	for _, list := range objects {
		for _, object := range list {
			for s.exists(object) && rig.Wait(late, 100*time.Millisecond) {
				continue
			}
			if s.exists(object) {
				s.release(object)
			}
		}
	}
}

func (s *stage) exists(object client.Object) bool {
	return s.rig.Cluster.Client().Get(context.Background(), client.ObjectKeyFromObject(object), object) == nil
}

func (s *stage) release(object client.Object) {
	before := object.DeepCopyObject().(client.Object)
	object.SetFinalizers(nil)
	if err := client.IgnoreNotFound(s.rig.Cluster.Client().Patch(context.Background(), object,
		client.MergeFrom(before))); err != nil {
		s.Error(err)
	}
}

// awaitQuiet waits until nothing is left of team a's jobs.
func (s *stage) awaitQuiet() {
	s.Helper()
	late, cancel := context.WithTimeout(s.Context(), minute)
	defer cancel()
	left := s.jobsLeft()
	for len(left) > 0 && rig.Wait(late, 100*time.Millisecond) {
		left = s.jobsLeft()
	}
	report(s.T, "left of team a's jobs", append(left, s.rig.Anomalies()...))
}

func (s *stage) jobsLeft() (left []string) {
	s.Helper()
	var runners v1alpha1.EphemeralRunnerList
	if err := s.rig.Cluster.Client().List(s.Context(), &runners, client.InNamespace(s.victim.namespace)); err != nil {
		s.Fatal(err)
	}
	for _, runner := range runners.Items {
		left = append(left, "runner "+runner.Name)
	}
	for _, pod := range s.rig.RunnerPods() {
		left = append(left, "pod "+pod.Name)
	}
	for _, runner := range s.rig.GitHub.Snapshot().Runners {
		left = append(left, "registration of "+runner.Name)
	}
	return left
}
