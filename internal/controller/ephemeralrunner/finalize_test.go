package ephemeralrunner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/registrations"
)

// started brings the runner to Running.
func (f *fixture) started() *fixture {
	f.Helper()
	f.settle()
	f.setPod(runs)
	f.settle()
	f.wantCalls("jit")
	return f
}

func (f *fixture) wantGone() {
	f.Helper()
	if f.runner() != nil || f.pod() != nil || f.secret() != nil {
		f.Error("runner, pod or Secret is left")
	}
	f.wasGone = true
}

func TestIdleRunnerIsRemovedWithGitHubsConsent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().delete()
		f.api.sent()
		f.settle()
		f.wantCalls("remove 101")
		f.wantGone()
		if got := f.api.sent(); got != "delete Pod, delete Secret, patch EphemeralRunner" {
			t.Errorf("requests %s", got)
		}
	}, newRunner())
}

// Its set asked GitHub before deleting the runner: one answer is enough, but only about this very registration.
func TestRunnerThatItsSetHadRemovedNeedsNoOtherCall(t *testing.T) {
	for id, calls := range map[int][]string{101: nil, 100: {"remove 101"}} {
		inBubble(t, func(f *fixture) {
			f.started()
			f.verdicts.Give(runnerKey, registrations.Registration{Runner: "runner-uid", ID: id}, registrations.Removed)
			f.delete()
			f.settle()
			f.wantCalls(calls...)
			f.wantGone()
		}, newRunner())
	}
}

// elapseMinutes lets that many minutes pass, with passes after each.
func (f *fixture) elapseMinutes(minutes int) {
	f.Helper()
	for range minutes {
		f.elapse(time.Minute)
		f.settle()
	}
}

// endsItsJob makes the runner exit and GitHub agree, after which nothing may be left of a runner that is being deleted.
func (f *fixture) endsItsJob() {
	f.Helper()
	f.github.remove = nil
	f.setPod(exits(0))
	f.elapseMinutes(1)
	f.wantGone()
}

func TestBusyRunnerDrains(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.remove = actions.ErrJobStillRunning
		f.started().delete()
		f.settle()
		f.wantCalls("remove 101")
		f.wantEvent(v1alpha1.ConditionDraining)
		f.elapse(rules.BusyRetryBackoff)
		f.settle()
		f.wantCalls("remove 101")

		// GitHub becomes unreachable: that it mentioned a job is not forgotten, not even in a restart.
		f.github.remove = errGitHubAway
		f.restart()
		f.elapseMinutes(20)
		if f.pod() == nil {
			t.Fatal("a running job was killed")
		}
		f.endsItsJob()
	}, newRunner())
}

func TestIdleRunnerIsRemovedWhenGitHubIsSilent(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().delete()
		f.github.remove = errGitHubAway
		f.settle()
		f.elapse(rules.SilenceTimeout - time.Second)
		f.settle()
		if f.pod() == nil {
			t.Fatal("the pod is gone though GitHub has time to answer")
		}
		f.wantEvent("RemovalUnanswered")
		f.elapse(time.Second)
		f.settle()
		f.wantGone()
		f.wantEvent("RegistrationLeft")
	}, newRunner())
}

// The release was uninstalled with Helm: the credential Secret is gone, and the manager may no longer delete anything
// in the namespace.
func TestRunnerIsRemovedWithoutCredentialsAndPermissions(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().delete()
		f.github.unresolved = &credentials.MissingError{Kind: "Secret", Name: "github"}
		forbidden := apierrors.NewForbidden(pods, name, errors.New("no"))
		f.api.refuse = map[string]error{"delete Pod": forbidden, "delete Secret": forbidden}
		f.settle()
		f.elapse(rules.SilenceTimeout)
		f.settle()
		if f.runner() != nil {
			t.Error("the runner is left")
		}
	}, newRunner())
}

func TestRegistrationThatNobodyRecordedIsLookedUp(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.registered[name] = actions.RunnerReference{ID: 42, Name: name, RunnerScaleSetID: scaleSet}
		f.delete()
		f.settle()
		f.wantCalls("find", "remove 42")
		f.wantGone()
	}, newRunner())
}

func TestSomebodyElsesRegistrationIsLeftAlone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.registered[name] = actions.RunnerReference{ID: 42, Name: name, RunnerScaleSetID: scaleSet + 1}
		f.delete()
		f.settle()
		f.wantCalls("find")
		f.wantGone()
	}, newRunner())
}

// GitHub does not know a runner that was created after this manager took over and that it never registered.
func TestRunnerThatWasNeverRegisteredNeedsNoGitHub(t *testing.T) {
	runner := newRunner(func(r *v1alpha1.EphemeralRunner) { r.Name, r.UID = "another", "another" })
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.elapse(2 * time.Minute)
		f.create(newRunner())
		f.delete()
		f.settle()
		f.wantCalls()
		f.wantGone()
	}, runner)
}

// Another manager may have registered it: that this one remembers nothing proves nothing.
func TestRunnerOfAFormerManagerIsLookedUp(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.create(newRunner())
		f.elapse(time.Minute)
		f.restart()
		f.delete()
		f.settle()
		f.wantCalls("find")
		f.wantGone()
	})
}

// The end of a call requeues its runner.
func TestEndOfACallWakesTheRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		started := f.start()
		f.reconcile()
		if woken, due := started.Next(); !due || woken != runnerKey {
			t.Errorf("woken %s, want %s", woken, runnerKey)
		}
	}, newRunner())
}

// create creates the runner now, as its set would.
func (f *fixture) create(runner *v1alpha1.EphemeralRunner) {
	f.Helper()
	runner.CreationTimestamp = metav1.Now()
	if err := f.api.WithWatch.Create(f.Context(), runner); err != nil {
		f.Fatal(err)
	}
}

// The runner is deleted while its registration is under way: the registration is removed, and no pod is created.
func TestDeletedDuringRegistration(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.hold = make(chan struct{})
		f.reconcile()
		f.delete()
		f.settle()
		f.wantCalls()
		close(f.github.hold)
		synctest.Wait()
		f.settle()
		f.wantCalls("jit", "remove 101")
		f.wantGone()
		if strings.Contains(f.api.sent(), "create") {
			t.Error("something was created for a runner that is being deleted")
		}
	}, newRunner())
}

func TestCompletedRunnerNeedsNoRemoval(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started().setStatus(jobDone)
		f.delete()
		f.settle()
		f.wantCalls()
		f.wantGone()
	}, newRunner())
}

// Such a runner has not told GitHub anything: evicted, out of memory, or deleted together with its node.
func TestRegistrationOfARunnerThatDiedWithItsJobIsRemoved(t *testing.T) {
	for name, dies := range map[string]func(f *fixture){
		"out of memory": func(f *fixture) { f.setPod(exits(137)) },
		"pod deleted": func(f *fixture) {
			if err := f.api.WithWatch.Delete(t.Context(), f.pod()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.started().setStatus(hasReportedJob)
				f.settle()
				dies(f)
				f.settle()
				f.elapse(rules.SilentGrace)
				f.settle()
				f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.JobResult = "failed" })
				f.settle()
				f.delete()
				f.settle()
				f.elapse(30 * time.Second) // nobody plays the set, which would count the lost job
				f.settle()
				if calls := f.github.said(); !slices.Contains(calls, "remove 101") {
					t.Errorf("GitHub was asked %q", calls)
				}
				f.wantGone()
			}, newRunner())
		})
	}
}

// ARC's runners have two finalizers; others may have added theirs, which must stay.
func TestFinalizersOfOthers(t *testing.T) {
	runner := newRunner(func(r *v1alpha1.EphemeralRunner) {
		r.Finalizers = []string{v1alpha1.FinalizerEphemeralRunner, "example.com/theirs",
			v1alpha1.FinalizerRunnerRegistration}
	})
	inBubble(t, func(f *fixture) {
		f.delete()
		f.settle()
		if got := f.runner().Finalizers; len(got) != 1 || got[0] != "example.com/theirs" {
			t.Errorf("finalizers %v, want only theirs", got)
		}
		f.api.sent()
		f.restart()
		f.settle()
		if got := f.api.sent(); got != "" {
			t.Errorf("requests for a runner that waits for others: %s", got)
		}
	}, runner)
}

func newNamesake() *v1alpha1.EphemeralRunner {
	return newRunner(func(r *v1alpha1.EphemeralRunner) { r.UID = "namesake" })
}

// An object that was replaced by another of the same name between two passes leaves no memory behind.
func TestNamesakeIsAnotherRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.reconcile()
		f.replaceBy(newNamesake())
		if err := errors.Join(f.api.WithWatch.Delete(t.Context(), f.pod()),
			f.api.WithWatch.Delete(t.Context(), f.secret())); err != nil {
			t.Fatal(err)
		}
		clear(f.github.registered)
		f.settle()
		f.wantCalls("jit", "jit") // the former runner's registration is not remembered
		f.wantPodOf("102")
	}, newRunner())
}

// The runner is replaced while its registration is under way: nothing is created for it, but everything for its
// namesake.
func TestNamesakeEndsTheRegistrationOfTheFormerRunner(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.hold = make(chan struct{})
		f.reconcile()
		f.replaceBy(newNamesake())
		room := false
		f.admit = func(*v1alpha1.EphemeralRunnerSet, types.NamespacedName) bool { return room }
		f.reconcile()
		f.api.sent()
		close(f.github.hold)
		synctest.Wait()
		if got := f.api.sent(); got != "" {
			t.Errorf("requests %s for a runner that is gone", got)
		}
		room = true
		f.elapse(5 * time.Second) // until it is looked at again
		f.settle()
		f.wantPodOf("102")
	}, newRunner())
}

// replaceBy replaces the present runner by another.
func (f *fixture) replaceBy(another *v1alpha1.EphemeralRunner) {
	f.Helper()
	runner := f.runner()
	runner.Finalizers = nil
	api := f.api.WithWatch
	if err := errors.Join(api.Update(f.Context(), runner), api.Delete(f.Context(), runner),
		api.Create(f.Context(), another)); err != nil {
		f.Fatal(err)
	}
}
