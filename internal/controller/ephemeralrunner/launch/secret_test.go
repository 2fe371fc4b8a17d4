package launch_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/launch"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
)

// newSecret returns the runner's Secret, with the registration 7.
func newSecret(change ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: "secret-uid", OwnerReferences: ownerOfRunner(),
			Labels:            map[string]string{v1alpha1.LabelScaleSetName: "set"},
			CreationTimestamp: metav1.Unix(946_684_700, 0),
		},
		Data: map[string][]byte{
			"jitToken": []byte("config-7"), "runnerName": []byte(name), "runnerId": []byte("7"), "scaleSetId": []byte("5"),
		},
	}
	for _, c := range change {
		c(secret)
	}
	return secret
}

// ownerless takes the owner away, as a backup does.
func ownerless(s *corev1.Secret) { s.OwnerReferences = nil }

// with gives a Secret other data under a key, none if it is empty.
func with(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		if delete(s.Data, key); value != "" {
			s.Data[key] = []byte(value)
		}
	}
}

// secret returns the Secret of the runner's name, which must be there.
func (f *fixture) secret() *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{}
	if !controllertest.Read(f, f.api, client.ObjectKey{Namespace: namespace, Name: name}, secret) {
		f.Fatal("there is no Secret")
	}
	return secret
}

// hasSecret reports whether there is a Secret of the runner's name.
func (f *fixture) hasSecret() bool {
	f.Helper()
	return controllertest.Read(f, f.api, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
}

// secrets are all that may have the runner's name.
var secrets = map[string]struct {
	secret *corev1.Secret
	// runners: it was created for the runner, or an earlier one of its name. abandoned: it has lost its owner.
	runners, abandoned bool
}{
	"the runner's":                 {newSecret(), true, false},
	"an earlier runner's":          {newSecret(func(s *corev1.Secret) { s.OwnerReferences[0].UID = "earlier" }), true, false},
	"one without an owner":         {newSecret(ownerless), true, true},
	"another runner's":             {newSecret(func(s *corev1.Secret) { s.OwnerReferences[0].Name = "other" }), false, false},
	"another kind's":               {newSecret(func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "Job" }), false, false},
	"one that was never a set's":   {newSecret(ownerless, func(s *corev1.Secret) { s.Labels = nil }), false, false},
	"a lost one of another runner": {newSecret(ownerless, with("runnerName", "other")), false, false},
	"a lost one without a runner":  {newSecret(ownerless, with("runnerName", "")), false, false},
	"a lost one without a config":  {newSecret(ownerless, with("jitToken", "")), false, false},
	"a user's":                     {newSecret(ownerless, func(s *corev1.Secret) { s.Labels, s.Data = nil, nil }), false, false},
	"none":                         {nil, false, false},
}

// Whoever chose the name of a Secret, it is found and deleted only if it was made for a runner of this name.
func TestWhoseASecretIs(t *testing.T) {
	for whose, test := range secrets {
		t.Run(whose, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.put(test.secret)
				if there, err := f.HasSecret(t.Context(), newRunner()); there != test.runners || err != nil {
					t.Errorf("HasSecret() = %t, %v", there, err)
				}
				err := f.DeleteAbandonedSecret(t.Context(), types.NamespacedName{Namespace: namespace, Name: name})
				if stays := test.secret != nil && !test.abandoned; err != nil || f.hasSecret() != stays {
					t.Errorf("DeleteAbandonedSecret() = %v, it is there: %t", err, f.hasSecret())
				}
				f.put(test.secret)
				err = f.DeleteSecret(t.Context(), newRunner(), &launch.Memory{})
				if stays := test.secret != nil && !test.runners; err != nil || f.hasSecret() != stays {
					t.Errorf("DeleteSecret() = %v, it is there: %t", err, f.hasSecret())
				}
			})
		})
	}
}

// A launch replaces the Secret in the same cases. Any other it leaves as it is, and another runner gets another name.
func TestWhoseSecretIsReplaced(t *testing.T) {
	taken := &rules.Failure{Kind: rules.NameTaken, Reason: "SecretNameTaken",
		Message: "delete the Secret if nobody needs it"}
	for whose, test := range secrets {
		t.Run(whose, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.put(test.secret)
				var want *rules.Failure
				config := "config"
				if test.secret != nil && !test.runners {
					want, config = taken, string(test.secret.Data["jitToken"])
				}
				wantFailure(t, f.launch(newRunner(), 0), want)
				if got := string(f.secret().Data["jitToken"]); got != config || f.hasPod() != (want == nil) {
					t.Errorf("JIT config %q, want %q; there is a pod: %t", got, config, f.hasPod())
				}
			})
		})
	}
}

// put has the Secret there, unless it is nil.
func (f *fixture) put(secret *corev1.Secret) {
	f.Helper()
	if secret != nil && !f.hasSecret() {
		controllertest.Create(f, f.api, secret.DeepCopy())
	}
}

// A Secret is deleted without a read if this manager has created it, and only that one. While the runner is being
// deleted, what is forbidden is garbage collection's to delete.
func TestDeletionOfTheSecret(t *testing.T) {
	deleted := newRunner(func(r *v1alpha1.EphemeralRunner) { r.DeletionTimestamp = new(metav1.Now()) })
	const own, stays, read, del = true, true, "get Secret", "delete Secret"
	for rule, test := range map[string]struct {
		runner *v1alpha1.EphemeralRunner
		own    bool // this manager has created it
		fails  map[string]error
		stays  bool
		err    string
	}{
		"created here, nobody reads":     {newRunner(), own, map[string]error{read: errInternal}, !stays, ""},
		"found":                          {newRunner(), !own, nil, !stays, ""},
		"gone meanwhile":                 {newRunner(), own, map[string]error{del: errNotFound}, stays, ""},
		"unreadable":                     {newRunner(), !own, map[string]error{read: errInternal}, stays, "read Secret: "},
		"a read is forbidden":            {newRunner(), !own, map[string]error{read: errForbidden}, stays, "read Secret: "},
		"it is, of a runner that goes":   {deleted, !own, map[string]error{read: errForbidden}, stays, ""},
		"undeletable":                    {newRunner(), own, map[string]error{del: errInternal}, stays, "delete Secret: "},
		"undeletable, of one that goes":  {deleted, own, map[string]error{del: errInternal}, stays, "delete Secret: "},
		"a deletion is forbidden":        {newRunner(), own, map[string]error{del: errForbidden}, stays, "delete Secret: "},
		"that is, of a runner that goes": {deleted, own, map[string]error{del: errForbidden}, stays, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.launched(newRunner())
				f.fails = test.fails
				memory := f.memory
				if !test.own {
					memory = &launch.Memory{}
				}
				err := f.DeleteSecret(t.Context(), test.runner, memory)
				if (err != nil) != (test.err != "") || (err != nil && !strings.HasPrefix(err.Error(), test.err)) {
					t.Errorf("DeleteSecret() = %v, want %q", err, test.err)
				}
				if f.hasSecret() != test.stays {
					t.Errorf("the Secret is there: %t", f.hasSecret())
				}
			})
		})
	}
}

// Somebody deletes the runner's Secret and creates another one of that name.
func TestASecretThatSomebodyHasReplacedStays(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.launched(newRunner())
		f.meanwhile["delete Secret"] = func() {
			if err := f.api.Delete(t.Context(), newSecret()); err != nil {
				t.Error(err)
			}
			controllertest.Create(t, f.api, newSecret(with("jitToken", "another")))
		}
		err := f.DeleteSecret(t.Context(), newRunner(), f.memory)
		if err != nil || string(f.secret().Data["jitToken"]) != "another" {
			t.Errorf("DeleteSecret() = %v, Secret %v", err, f.secret())
		}
	})
}

// Of a runner that is gone nobody knows whether its Secret has gone with it.
func TestErrorsOfTheDeletionOfAnAbandonedSecret(t *testing.T) {
	for rule, test := range map[string]struct {
		fails map[string]error
		is    func(error) bool
	}{
		"unreadable":     {map[string]error{"get Secret": errForbidden}, apierrors.IsForbidden},
		"undeletable":    {map[string]error{"delete Secret": errInternal}, apierrors.IsInternalError},
		"gone meanwhile": {map[string]error{"delete Secret": errNotFound}, nil},
	} {
		inBubble(t, func(f *fixture) {
			controllertest.Create(t, f.api, newSecret(ownerless))
			f.fails = test.fails
			err := f.DeleteAbandonedSecret(t.Context(), types.NamespacedName{Namespace: namespace, Name: name})
			if (err != nil) != (test.is != nil) || (err != nil && !test.is(err)) || !f.hasSecret() {
				t.Errorf("%s: %v, it is there: %t", rule, err, f.hasSecret())
			}
		})
	}
}

// Deletions that have failed leave nothing to do, or are repeated.
func TestDeletionFailure(t *testing.T) {
	deleted := newRunner(func(r *v1alpha1.EphemeralRunner) { r.DeletionTimestamp = new(metav1.Now()) })
	conflict := apierrors.NewConflict(corev1.Resource("pods"), name, errNoAnswer)
	for rule, test := range map[string]struct {
		err error
		// fails and failsLater say whether it does while the runner stays, and while it is being deleted.
		fails, failsLater bool
	}{
		"done":      {nil, false, false},
		"gone":      {errNotFound, false, false},
		"another":   {conflict, false, false},
		"forbidden": {errForbidden, true, false},
		"away":      {errNoAnswer, true, true},
	} {
		stays := launch.DeletionFailure(newRunner(), "delete pod", test.err)
		later := launch.DeletionFailure(deleted, "delete pod", test.err)
		if (stays != nil) != test.fails || (later != nil) != test.failsLater {
			t.Errorf("%s: %v while the runner stays, %v while it is being deleted", rule, stays, later)
		}
		if stays != nil && stays.Error() != "delete pod: "+test.err.Error() {
			t.Errorf("%s: %v", rule, stays)
		}
	}
}
