package ephemeralrunner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/apiaccess"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
	"github.com/harrier-ci/harrier/internal/controller/ephemeralrunner/rules"
	"github.com/harrier-ci/harrier/internal/kube"
)

// A policy forbids deleting the runner's Secret: the runner is removed nevertheless, and garbage collection deletes
// what it owns.
func TestRunnerIsRemovedThoughItsSecretMayNotBeDeleted(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.finishedWithHooks()
		f.api.refuse = map[string]error{"delete Secret": apierrors.NewForbidden(secrets, name, errors.New("policy"))}
		f.settle()
		if f.runner() != nil {
			t.Errorf("it is left: %s", f.api.sent())
		}
		f.wantCalls() // its job has used up the registration
	}, newRunner(withHooks))
}

// An API server that has just started refuses for a moment, and what hooks created has no owner whose end would delete
// it.
func TestWhatHooksCreatedIsLeftOnlyAfterALastingRefusal(t *testing.T) {
	for _, request := range []string{"list SecretList", "list PodList"} {
		t.Run(request, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				f.finishedWithHooks()
				f.api.refuse = map[string]error{request: apierrors.NewForbidden(secrets, name, errors.New("policy"))}
				began := time.Now()
				for f.runner() != nil && time.Since(began) < time.Minute {
					// errors are expected here
					_, _ = f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey})
					f.elapse(time.Second)
				}
				if took := time.Since(began); took < apiaccess.ForbiddenTimeout || took > 2*apiaccess.ForbiddenTimeout {
					t.Errorf("it went after %s: %s", took, f.api.sent())
				}
				f.wantEvent("HookResourcesLeft")
			}, newRunner(withHooks))
		})
	}
}

func withHooks(r *v1alpha1.EphemeralRunner) {
	r.Spec.PodSpec.Containers[0].Env = []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/hooks"}}
}

func (f *fixture) finishedWithHooks() {
	f.Helper()
	f.started()
	f.setStatus(jobDone)
	f.setPod(exits(0))
}

// hookObjects are the objects that hooks leave behind: the job's pod and Secret, a step's Job, and another runner's
// pod.
func hookObjects() []client.Object {
	labelled := func(objectName, runnerPod string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: objectName,
			Labels: map[string]string{v1alpha1.LabelRunnerPod: runnerPod}}
	}
	return []client.Object{
		&corev1.Pod{ObjectMeta: labelled("job", name)}, &corev1.Pod{ObjectMeta: labelled("other-job", "other")},
		&corev1.Secret{ObjectMeta: labelled("job-secret", name)}, &batchv1.Job{ObjectMeta: labelled("step", name)},
	}
}

// wantOnlyOthers fails the test unless everything that hooks created for the runner is gone, and nothing else.
func (f *fixture) wantOnlyOthers() {
	f.Helper()
	var pods corev1.PodList
	var secrets corev1.SecretList
	var jobs batchv1.JobList
	for _, list := range []client.ObjectList{&pods, &secrets, &jobs} {
		if err := f.api.WithWatch.List(f.Context(), list, client.HasLabels{v1alpha1.LabelRunnerPod}); err != nil {
			f.Fatal(err)
		}
	}
	if len(pods.Items) != 1 || pods.Items[0].Name != "other-job" || len(secrets.Items)+len(jobs.Items) != 0 {
		f.Errorf("left: %d pods, %d Secrets, %d Jobs; want another runner's pod only", len(pods.Items),
			len(secrets.Items),
			len(jobs.Items))
	}
	if f.api.propagation == nil || *f.api.propagation != metav1.DeletePropagationBackground {
		f.Error("the Job's pod stays: the API server's default leaves what a Job owns")
	}
}

func TestWhatContainerHooksCreatedIsDeleted(t *testing.T) {
	for title, end := range map[string]func(f *fixture){
		"idle runner":         func(f *fixture) { f.delete() },
		"job ended":           func(f *fixture) { f.finishedWithHooks() },
		"pod deleted by hand": func(f *fixture) { f.losesPodAtWork(); f.settle(); f.elapse(rules.SilentGrace) },
		"kept as failed": func(f *fixture) {
			f.setStatus(func(r *v1alpha1.EphemeralRunner) { r.Status.Phase = v1alpha1.EphemeralRunnerPhaseFailed })
		},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) { end(f); f.settle(); f.wantOnlyOthers() },
				append(hookObjects(), newRunner(withHooks))...)
		})
	}
}

// Its hooks end their work while the runner is told to stop, and what they create by then must go, too.
func TestWhatContainerHooksCreatedStaysWhileTheRunnerRuns(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.started()
		f.delete()
		pod := f.pod()
		pod.Finalizers = []string{"test/kept"}
		if err := f.api.WithWatch.Update(f.Context(), pod); err != nil {
			f.Fatal(err)
		}
		f.api.sent()
		f.settle()
		if requests := f.api.sent(); strings.Contains(requests, "list") {
			f.Errorf("%s while the runner container runs", requests)
		}
		pod = f.pod()
		pod.Finalizers = nil
		if err := f.api.WithWatch.Update(f.Context(), pod); err != nil {
			f.Fatal(err)
		}
		f.settle()
		f.wantOnlyOthers()
		f.wantGone()
	}, append(hookObjects(), newRunner(withHooks))...)
}

// losesPodAtWork has somebody delete the pod while the job runs.
func (f *fixture) losesPodAtWork() {
	f.Helper()
	f.started()
	f.setStatus(startJob)
	if err := f.api.WithWatch.Delete(f.Context(), f.pod()); err != nil {
		f.Fatal(err)
	}
}

// A scale set's chart of an earlier version, or of ARC, gives the manager no right on Jobs. That holds nobody up, and
// is told where a Job may run on.
func TestJobsThatMayNotBeListedMatterOnlyToADeadRunner(t *testing.T) {
	for title, test := range map[string]struct {
		end  func(f *fixture)
		told int
	}{
		"idle":         {func(f *fixture) { f.started().delete() }, 0},
		"job ended":    {func(f *fixture) { f.finishedWithHooks() }, 0},
		"lost at work": {func(f *fixture) { f.losesPodAtWork() }, 1},
	} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, func(f *fixture) {
				test.end(f)
				f.api.refuse = map[string]error{"list JobList": apierrors.NewForbidden(batchv1.Resource("jobs"), "",
					errors.New("no rule"))}
				began := time.Now()
				for f.runner() != nil && f.runner().Status.Phase != v1alpha1.EphemeralRunnerPhaseFailed &&
					time.Since(began) < time.Minute {
					// errors are expected here
					_, _ = f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey})
					f.elapse(time.Second)
				}
				if took := time.Since(began); test.told == 0 && took > 5*time.Second {
					t.Errorf("it went after %s: %s", took, f.api.sent())
				}
				for range 20 {
					_, _ = f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey})
					f.elapse(time.Second)
				}
				if told := controllertest.CountEvents(f.recorder, "HookResourcesLeft"); told != test.told {
					t.Errorf("%d Events HookResourcesLeft, want %d", told, test.told)
				}
			}, newRunner(withHooks))
		})
	}
}

// Hooks that copy files create no Jobs, and in their mode the manager may not list any.
func TestJobsAreNotAskedForWhereHooksCreateNone(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.finishedWithHooks()
		f.settle()
		if requests := f.api.sent(); !strings.Contains(requests, "list PodList") ||
			strings.Contains(requests, "JobList") {
			t.Errorf("requests %s", requests)
		}
	}, newRunner(func(r *v1alpha1.EphemeralRunner) {
		r.Spec.PodSpec.Containers[0].Env = []corev1.EnvVar{{Name: kube.EnvContainerHooks,
			Value: "/home/runner/k8s-novolume/index.js"}}
	}))
}

// endless answers every list with a page that is followed by another.
type endless struct{ *recordingAPI }

func (e endless) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := e.recordingAPI.List(ctx, list, options...)
	list.SetContinue("more")
	return err
}

// A workflow may label more objects than anybody can delete in one pass.
func TestWhatContainerHooksCreatedIsReadWithinLimits(t *testing.T) {
	const pages = 10 // of 100 objects of each kind
	inBubble(t, func(f *fixture) {
		f.live.Reader = endless{f.api}
		f.finishedWithHooks()
		f.api.sent()
		f.settle()
		if lists := strings.Count(f.api.sent(), "list "); lists != 3*pages {
			t.Errorf("%d lists, want %d", lists, 3*pages)
		}
		f.wantEvent("HookResourcesLeft")
		f.wantGone()
	}, newRunner(withHooks))
}

// A sidecar's environment is not the runner's: a runner without hooks leaves nothing behind that must be looked for.
func TestHooksAreTheRunnerContainers(t *testing.T) {
	for container, lists := range map[string]bool{"dind": false, v1alpha1.RunnerContainerName: true} {
		inBubble(t, func(f *fixture) {
			f.settle()
			f.setPod(exits(0))
			f.setStatus(endJob(time.Now()))
			f.settle()
			if got := f.api.sent(); strings.Contains(got, "list ") != lists {
				t.Errorf("hooks in the environment of container %s: requests %s", container, got)
			}
		}, newRunner(func(r *v1alpha1.EphemeralRunner) {
			r.Spec.PodSpec.Containers = append([]corev1.Container{{Name: "dind"}}, r.Spec.PodSpec.Containers...)
			for i := range r.Spec.PodSpec.Containers {
				if c := &r.Spec.PodSpec.Containers[i]; c.Name == container {
					c.Env = []corev1.EnvVar{{Name: kube.EnvContainerHooks, Value: "/hooks"}}
				}
			}
		}))
	}
}

// vanish has the runner garbage collected before it has got a finalizer, which takes the manager more than one try.
func (f *fixture) vanish() {
	f.Helper()
	f.api.refuse = map[string]error{"patch EphemeralRunner": apierrors.NewServiceUnavailable("busy")}
	if _, err := f.controller.Reconcile(f.Context(), reconcile.Request{NamespacedName: runnerKey}); err == nil {
		f.Fatal("the finalizer is there")
	}
	f.api.refuse = nil
	f.delete()
}

// One that came back without its finalizer may be garbage collected before it has got that again.
func TestSecretOfARunnerThatVanishesGoes(t *testing.T) {
	runner := newRunner(lost["an owner that is gone"], func(r *v1alpha1.EphemeralRunner) { r.Finalizers = nil })
	secret := newSecret(runner, 37, "config")
	secret.UID, secret.OwnerReferences = "secret", nil
	inBubble(t, func(f *fixture) {
		f.vanish()
		f.settle()
		if f.secret() != nil {
			t.Error("the Secret is still there")
		}
	}, runner, secret)
}

// It may also be gone before any pass has seen it, as on a busy machine.
func TestSecretOfARunnerThatNoPassHasSeenGoes(t *testing.T) {
	runner := newRunner(lost["an owner that is gone"], func(r *v1alpha1.EphemeralRunner) { r.Finalizers = nil })
	secret := newSecret(runner, 37, "config")
	secret.UID, secret.OwnerReferences = "secret", nil
	inBubble(t, func(f *fixture) {
		started, seen := f.start(), f.runner()
		f.delete()
		started.Deleted(seen)
		started.Next()
		if f.secret() != nil {
			t.Error("the Secret is still there")
		}
		f.wasGone = true
	}, runner, secret)
}

// With the scale set went the Role that lets the manager read Secrets: there is nothing to try again.
func TestSecretOfARunnerThatVanishesIsLeftIfItMayNotBeRead(t *testing.T) {
	inBubble(t, func(f *fixture) {
		f.vanish()
		f.api.refuse = map[string]error{"get Secret": apierrors.NewForbidden(secrets, name,
			errors.New("the Role is gone"))}
		if _, err := f.controller.Reconcile(t.Context(), reconcile.Request{NamespacedName: runnerKey}); err != nil {
			t.Error(err)
		}
		f.wasGone = true
	}, newRunner(lost["an owner that is gone"], func(r *v1alpha1.EphemeralRunner) { r.Finalizers = nil }))
}

// A backup may bring back Secrets alone: nothing leads to them, so they are looked for, in namespaces that have a scale
// set. Of the others nothing tells whether they were a runner's.
func TestSecretsAloneGoWithinTheHour(t *testing.T) {
	runner, other := newRunner(), newRunner()
	restored := newSecret(newRunner(func(r *v1alpha1.EphemeralRunner) { r.Name = "set-runner-gone" }), 38, "config")
	chart := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set-github",
		Labels: map[string]string{v1alpha1.LabelScaleSetName: "set"}}, Data: map[string][]byte{"github_token": []byte("x")}}
	elsewhere := restored.DeepCopy()
	restored.OwnerReferences, elsewhere.OwnerReferences = nil, nil
	elsewhere.Namespace = "nobodys"
	owned := newSecret(other, 39, "config")
	owned.Name = "set-runner-owned"
	inBubble(t, func(f *fixture) {
		started := f.start()
		f.elapse(time.Hour)
		for due := true; due; {
			_, due = started.Next()
		}
		for secret, stays := range map[*corev1.Secret]bool{restored: false, chart: true, elsewhere: true, owned: true} {
			there := controllertest.Read(f, f.api, client.ObjectKeyFromObject(secret), &corev1.Secret{})
			if there != stays {
				t.Errorf("Secret %s/%s is there: %t", secret.Namespace, secret.Name, there)
			}
		}
	}, runner, restored, chart, elsewhere, owned)
}

// A namespace whose Secrets can't be listed, for whatever reason, keeps nobody from those of the others.
func TestSecretsAloneAreLookedForInEveryNamespace(t *testing.T) {
	var objects []client.Object
	left := map[string]*corev1.Secret{}
	for _, namespace := range []string{"a-broken", "b-refused", "c-fine"} {
		set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "set"}}
		left[namespace] = newSecret(newRunner(func(r *v1alpha1.EphemeralRunner) { r.Name = "set-runner-gone" }), 38, "config")
		left[namespace].Namespace, left[namespace].OwnerReferences = namespace, nil
		objects = append(objects, set, left[namespace])
	}
	inBubble(t, func(f *fixture) {
		f.live.Reader = refusedLists{f.api, map[string]error{
			"a-broken":  apierrors.NewInternalError(errors.New("etcd is away")),
			"b-refused": apierrors.NewForbidden(secrets, "", errors.New("the Role is gone")),
		}}
		started := f.start()
		f.elapse(time.Hour)
		for due := true; due; {
			_, due = started.Next()
		}
		for namespace, secret := range left {
			there := controllertest.Read(f, f.api, client.ObjectKeyFromObject(secret), &corev1.Secret{})
			if there != (namespace != "c-fine") {
				t.Errorf("the Secret in %s is there: %t", namespace, there)
			}
		}
	}, objects...)
}

// refusedLists answers lists in some namespaces with an error.
type refusedLists struct {
	client.Reader
	namespaces map[string]error
}

func (r refusedLists) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	if err := r.namespaces[asked.Namespace]; err != nil {
		return err
	}
	return r.Reader.List(ctx, list, options...)
}
