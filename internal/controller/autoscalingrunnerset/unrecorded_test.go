package autoscalingrunnerset_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/credentials"
)

const thirdAddress = "https://github.com/third-org"

// running creates a set whose listener listens.
func (f *fixture) running(change ...func(*v1alpha1.AutoscalingRunnerSet)) {
	f.Helper()
	f.create(newSet(change...))
	f.settle()
	f.listening()
	f.holdDependents()
}

func (f *fixture) put(object client.Object) {
	f.Helper()
	if err := f.client.Update(f.Context(), object); err != nil {
		f.Fatal(err)
	}
}

// TestAddressLeftBeforeTheAnswerWasRecorded: what was created there does not stay on GitHub.
func TestAddressLeftBeforeTheAnswerWasRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		registered bool   // at the first address
		next       string // where the set goes before the answer is recorded, nowhere where it is deleted
	}{
		"and back":         {true, address},
		"for a third":      {true, thirdAddress},
		"for good":         {true, ""},
		"the first one":    {false, thirdAddress},
		"and then deleted": {false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				if test.registered {
					f.running()
					f.move(newAddress)
				} else {
					f.create(newSet(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.GitHubConfigUrl = newAddress }))
				}
				f.reconcile() // asked and answered, not recorded yet
				if len(f.github.Sets[newAddress]) != 1 {
					t.Fatal("want a scale set created")
				}
				if test.next != "" {
					f.move(test.next)
					f.settle()
					f.settle()
				} else {
					f.delete()
					if test.registered {
						f.drained()
					}
					f.settle()
				}
				if left := f.github.Sets[newAddress]; len(left) > 0 {
					t.Errorf("left on GitHub: %+v", left)
				}
				if live := f.github.Sets[test.next]; test.next != "" && len(live) != 1 {
					t.Errorf("scale sets at the present address: %+v", live)
				}
			})
		})
	}
}

// TestAddressLeftAfterALostAnswerIsTold: GitHub may have created a scale set there.
func TestAddressLeftAfterALostAnswerIsTold(t *testing.T) {
	for name, deleted := range map[string]bool{"moved on": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.running()
				f.github.LoseCreation = true
				f.move(newAddress)
				f.reconcile()
				f.github.LoseCreation = false
				f.events()
				if deleted {
					f.delete()
					f.drained()
				} else {
					f.move(address)
				}
				f.settle()
				told := strings.Join(f.events(), "\n")
				if !strings.Contains(told, "Perhaps left on GitHub") || !strings.Contains(told, newAddress) {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// TestFormerScaleSetIsDeletedAsItWasReached: the new address needs no certificate authorities of its own, the old one
// did.
func TestFormerScaleSetIsDeletedAsItWasReached(t *testing.T) {
	withTLS := func(s *v1alpha1.AutoscalingRunnerSet) {
		s.Spec.GitHubServerTLS = &v1alpha1.TLSConfig{
			CertificateFrom: &v1alpha1.TLSCertificateSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "ca"}}}
	}
	for name, deleted := range map[string]bool{"moved": false, "deleted before the move": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.needsTLS = map[string]bool{address: true}
				f.running(withTLS)
				if deleted {
					f.github.Fail(errors.New("away"))
				}
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) {
					s.Spec.GitHubConfigUrl, s.Spec.GitHubServerTLS = newAddress, nil
				})
				f.settle()
				if deleted {
					f.github.Fail(nil)
					f.restart()
					f.delete()
					f.drained()
				}
				f.settle()
				if left := f.github.Sets[address]; len(left) > 0 {
					t.Errorf("left at the former address: %+v, told %q", left, f.events())
				}
			})
		})
	}
}

// TestDeregistrationWithInvalidCredentials: somebody has edited the Secret; what the listener has may be good.
func TestDeregistrationWithInvalidCredentials(t *testing.T) {
	for name, good := range map[string]bool{"the listener's are good": true, "the listener has none": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.deletable()
				f.github.leaveUnresolved(&credentials.InvalidError{Kind: "Secret", Namespace: setNamespace,
					Name:   "github",
					Reason: "it holds both"})
				f.github.listenerResolved = good
				f.drained()
				start := time.Now()
				f.settle()
				if left := len(f.github.Sets[address]); (left == 0) != good {
					t.Errorf("%d scale sets left", left)
				}
				if f.set().Status.Registration != nil {
					t.Errorf("nothing is decided after %s", time.Since(start))
				}
			})
		})
	}
}

// TestDeletionThatAwaitsACreationSaysSo: the scale set may be created in the meantime, so it isn't reported as gone.
func TestDeletionThatAwaitsACreationSaysSo(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.github.Silence = 25 * time.Second
		f.create(newSet())
		f.reconcile()
		f.delete()
		controllertest.Elapse(2 * statusInterval)
		f.reconcile()
		f.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, "Deregistering")
		for _, c := range f.set().Status.Conditions {
			if c.Type == v1alpha1.ConditionScaleSetRegistered && c.Reason == "Deregistered" {
				t.Errorf("ScaleSetRegistered says %q", c.Message)
			}
		}
	})
}

// TestObjectKeptByAForeignFinalizerIsNamed: nobody could find out otherwise why the set stays.
func TestObjectKeptByAForeignFinalizerIsNamed(t *testing.T) {
	for name, keep := range map[string]string{"AutoscalingListener": "listener", "EphemeralRunnerSet": "runners"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.deletable()
				f.settle()
				f.stopListener()
				f.settle()
				if keep == "listener" {
					f.release(&f.runnerSets()[0])
					f.settle()
					listener := f.listeners()[0]
					listener.Finalizers = []string{"example.com/backup"}
					f.put(&listener)
				} else {
					runnerSet := f.runnerSets()[0]
					runnerSet.Finalizers = []string{"example.com/backup"}
					f.put(&runnerSet)
				}
				f.settle()
				message := meta.FindStatusCondition(f.set().Status.Conditions, v1alpha1.ConditionReady).Message
				if !strings.Contains(message, name+" ") || !strings.Contains(message, "example.com/backup") {
					t.Errorf("Ready says %q", message)
				}
			})
		})
	}
}

// TestCreationWithoutAnAnswerThenAnotherName: GitHub may have the scale set under the first name.
func TestCreationWithoutAnAnswerThenAnotherName(t *testing.T) {
	for name, deleted := range map[string]bool{"renamed": false, "renamed and deleted": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.github.LoseCreation = true
				f.create(newSet())
				f.reconcile()
				f.github.LoseCreation = false
				f.edit(func(s *v1alpha1.AutoscalingRunnerSet) { s.Spec.RunnerScaleSetName = "second" })
				if deleted {
					f.delete()
				}
				f.settle()
				there := f.github.Sets[address]
				if deleted && (len(there) > 0 || !f.gone()) {
					t.Errorf("gone %t, left on GitHub: %+v", f.gone(), there)
				}
				if !deleted && (len(there) != 1 || there[1].Name != "second") {
					t.Errorf("on GitHub %+v, want the first one renamed", there)
				}
			})
		})
	}
}
