package diagnosis_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/kube/informer"
	"github.com/harrier-ci/harrier/internal/meaning"
	"github.com/harrier-ci/harrier/operations/doctor/diagnosis"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
	"github.com/harrier-ci/harrier/operations/finding"
)

// healthy is a snapshot in which nothing is wrong and one job runs.
func healthy(changes ...func(*snapshot.Snapshot)) *snapshot.Snapshot {
	wanted := v1alpha1.EphemeralRunnerSetSpec{Replicas: 1, AssignedJobs: 1}
	manager := appsv1.Deployment{Status: appsv1.DeploymentStatus{AvailableReplicas: 1}}
	manager.Namespace, manager.Name = "arc-systems", "arc"
	s := &snapshot.Snapshot{
		Managers: []appsv1.Deployment{manager},
		Sets:     []snapshot.Set{{RunnerSets: []v1alpha1.EphemeralRunnerSet{{Spec: wanted}}}},
		Unread:   map[string]error{},
	}
	set := &s.Sets[0]
	set.Namespace, set.Name, set.Spec.GitHubConfigUrl = "runners", "linux", "https://github.com/acme"
	for _, about := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionScaleSetRegistered,
		v1alpha1.ConditionCredentialsValid, v1alpha1.ConditionListenerReady} {
		set.Status.Conditions = append(set.Status.Conditions,
			metav1.Condition{Type: about, Status: metav1.ConditionTrue, Reason: "Fine"})
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// wrongFigures make GitHub count jobs that don't exist, for which runners are wanted and not created.
func wrongFigures(s *snapshot.Snapshot) {
	condition(v1alpha1.ConditionStatisticsDoubtful, yes, v1alpha1.ReasonJobsNotTaken)(s)
	s.Sets[0].Status.AssignedJobs, s.Sets[0].Status.DesiredRunners = 15, 15
}

// condition gives the set a condition.
func condition(about string, status metav1.ConditionStatus, reason string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		conditions := &s.Sets[0].Status.Conditions
		for i := range *conditions {
			if (*conditions)[i].Type == about {
				(*conditions)[i].Status, (*conditions)[i].Reason, (*conditions)[i].Message = status, reason, "because"
				return
			}
		}
		*conditions = append(*conditions, metav1.Condition{Type: about, Status: status, Reason: reason, Message: "because"})
	}
}

// limited gives the set a limit.
func limited(kind v1alpha1.LimitKind, reason string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Status.LimitedBy = &v1alpha1.Limit{Kind: kind, Reason: reason, Message: "because of " + reason}
	}
}

// pod adds a pending pod whose runner container waits for the reason, or that has no node.
func pod(reason string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "linux-runner-1"},
			Status: corev1.PodStatus{Phase: corev1.PodPending}}
		if reason == "Unschedulable" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: reason, Message: "0/3 nodes"}}
		} else {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
		s.Sets[0].Pods = append(s.Sets[0].Pods, p)
	}
}

func runner(phase v1alpha1.EphemeralRunnerPhase, reason string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Runners = append(s.Sets[0].Runners,
			v1alpha1.EphemeralRunner{Status: v1alpha1.EphemeralRunnerStatus{Phase: phase, Reason: reason}})
	}
}

func quota(used string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Quotas = []corev1.ResourceQuota{{Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"pods": resource.MustParse("10"), "services": resource.MustParse("0")},
			Used: corev1.ResourceList{"pods": resource.MustParse(used)},
		}}}
	}
}

var (
	no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	capped  = limited("Ceiling", v1alpha1.ReasonMaxRunnersReached)
	full    = limited("Maximum", v1alpha1.ReasonMaxRunnersReached)
	off     = limited("NoJobs", v1alpha1.ReasonMaxRunnersZero)
	denied  = func(s *snapshot.Snapshot) {
		s.Sets[0].Denials = []snapshot.Denial{{Account: "arc-systems/arc", Actions: []string{"create pods"}}}
	}
	noJob  = func(s *snapshot.Snapshot) { s.Sets[0].RunnerSets[0].Spec.AssignedJobs = 0 }
	strays = func(s *snapshot.Snapshot) {
		s.Sets[0].RunnerSets[0].Status.Listener = &v1alpha1.ListenerStatus{StrayRegistrations: 3}
	}
	idleManager = func(s *snapshot.Snapshot) {
		s.Managers[0].Spec.Replicas, s.Managers[0].Status.AvailableReplicas = ptr.To[int32](0), 0
	}
)

// budgets adds PodDisruptionBudgets for all pods of the namespace.
func budgets(names ...string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Sets[0].Budgets = &policyv1.PodDisruptionBudgetList{}
		for _, name := range names {
			s.Sets[0].Budgets.Items = append(s.Sets[0].Budgets.Items, policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			})
		}
	}
}

// warned adds a warning about a runner.
func warned(ago time.Duration) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		set := &s.Sets[0]
		set.Now = time.Unix(100_000, 0)
		set.Warnings = []corev1.Event{{Reason: "Evicted", LastTimestamp: metav1.NewTime(set.Now.Add(-ago)),
			Message: "node was low on memory"}}
	}
}

// fixOf returns the fix of the finding that has the reason.
func fixOf(t *testing.T, reason string, changes ...func(*snapshot.Snapshot)) string {
	t.Helper()
	for _, f := range diagnosis.Diagnose(healthy(changes...)) {
		if f.Reason == reason {
			return f.Fix
		}
	}
	t.Errorf("no finding has reason %s", reason)
	return ""
}

// The fix for a runner's sidecar is not the fix for the listener.
func TestACrashLoopHasTheFixOfItsPod(t *testing.T) {
	ofRunner := fixOf(t, "CrashLoopBackOff", condition(v1alpha1.ConditionRunnersPending, yes, "CrashLoopBackOff"))
	ofListener := fixOf(t, "CrashLoopBackOff", condition(v1alpha1.ConditionListenerReady, no, "CrashLoopBackOff"))
	if !strings.Contains(ofRunner, "runner's pod") || !strings.Contains(ofListener, "listener's pod") {
		t.Errorf("of a runner %q, of a listener %q", ofRunner, ofListener)
	}
}

// Nobody is told to change the template because pods or nodes are taken away, or refused by a node.
func TestFixOfDisruptionsBlamesTheCluster(t *testing.T) {
	for reason, part := range map[string]string{
		"PreemptionByScheduler": "priorityClassName", "Preempted": "priorityClassName", "DeletionByPodGC": "nodes",
		"NodeLost": "nodes", "Terminated": "nodes", "EvictionByEvictionAPI": "drain", "OutOfcpu": "kubelet",
		"OutOfexample.com/gpu": "kubelet", "UnexpectedAdmissionError": "device plugin",
	} {
		ofRunner := meaning.For(reason).Advice
		if fix := fixOf(t, reason, condition(v1alpha1.ConditionRunnersPending, yes, reason)); fix != ofRunner ||
			!strings.HasPrefix(fix, "wait:") || !strings.Contains(fix, part) {
			t.Errorf("%s: %q, of the runner %q; want to wait, and %q", reason, fix, ofRunner, part)
		}
	}
}

func TestFixOfDroppedLabelsFitsTheAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/acme": "install it again", "https://acme.ghe.com/acme": "install it again",
		"https://ghes.example/acme": "upgrade GitHub Enterprise Server",
	} {
		findings := diagnosis.Diagnose(healthy(condition(v1alpha1.ConditionLabelsInSync, no, "LabelsDropped"),
			func(s *snapshot.Snapshot) { s.Sets[0].Spec.GitHubConfigUrl = address }))
		if len(findings) != 1 || !strings.Contains(findings[0].Fix, want) {
			t.Errorf("%s: findings %+v, want the fix %q", address, findings, want)
		}
	}
}

// A set that is turned off has no job because of that.
func TestASetThatIsOffHasOneFinding(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(off, noJob))
	if len(findings) != 1 || findings[0].Reason != v1alpha1.ReasonMaxRunnersZero {
		t.Errorf("findings %+v, want one, about maxRunners", findings)
	}
}

// Why are there not more runners? One finding answers: what the status says, or the quota that the next runner meets.
func TestOneFindingHasTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		changes       []func(*snapshot.Snapshot)
		reason, words string
		severity      finding.Severity
	}{
		"maxRunners":    {[]func(*snapshot.Snapshot){full}, v1alpha1.ReasonMaxRunnersReached, "because of", finding.Warning},
		"the manager's": {[]func(*snapshot.Snapshot){capped}, v1alpha1.ReasonMaxRunnersReached, "because of", finding.Warning},
		"announced": {[]func(*snapshot.Snapshot){limited("Announced", v1alpha1.ReasonCapacityUnproven)},
			v1alpha1.ReasonCapacityUnproven, "because of", finding.Warning},
		"starts": {[]func(*snapshot.Snapshot){limited("Pace", v1alpha1.ReasonStartsLimited)},
			v1alpha1.ReasonStartsLimited, "because of", finding.Warning},
		"registrations": {[]func(*snapshot.Snapshot){limited("Starts", v1alpha1.ReasonRateLimited)},
			v1alpha1.ReasonRateLimited, "because of", finding.Problem},
		"a quota": {[]func(*snapshot.Snapshot){limited("Quota", v1alpha1.ReasonQuotaExceeded), quota("10"),
			condition(v1alpha1.ConditionQuotaExceeded, yes, v1alpha1.ReasonPodsForbidden)},
			v1alpha1.ReasonPodsForbidden, "10 of 10 pods", finding.Problem},
		"a quota, nothing refused yet": {[]func(*snapshot.Snapshot){quota("10"), full}, "QuotaUsedUp", "10 of 10 pods",
			finding.Warning},
		"nodes": {[]func(*snapshot.Snapshot){limited("Nodes", "Unschedulable"), quota("10")}, "Unschedulable",
			"because of", finding.Problem},
		"drained": {[]func(*snapshot.Snapshot){limited("NoJobs", v1alpha1.ReasonDrained), noJob}, v1alpha1.ReasonDrained,
			"takes 0 jobs", finding.Problem},
		"a kind of a later manager": {[]func(*snapshot.Snapshot){limited("Weather", "Rain")}, "Rain", "because of",
			finding.Warning},
	} {
		found := diagnosis.Diagnose(healthy(test.changes...))
		if len(found) != 1 || found[0].Reason != test.reason || found[0].Severity != test.severity ||
			!strings.Contains(found[0].Message, test.words) || found[0].Fix == "" {
			t.Errorf("%s: %+v, want one, %s: %q", name, found, test.reason, test.words)
		}
	}
}

// Every way to break a scale set that users have reported leads to the finding that names it, as the first one.
func TestDiagnose(t *testing.T) {
	for name, test := range map[string]struct {
		changes  []func(*snapshot.Snapshot)
		reason   string // of the first finding, empty for none
		severity finding.Severity
	}{
		"nothing":             {nil, "", ""},
		"not installed":       {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.NotInstalled = true }}, "NotInstalled", finding.Problem},
		"wrong name":          {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets, s.Name, s.Others = nil, "ubuntu", []string{"runners/linux"} }}, "NoScaleSet", finding.Problem},
		"manager down":        {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Managers[0].Status.AvailableReplicas = 0 }}, "ManagerNotRunning", finding.Problem},
		"manager scaled to 0": {[]func(*snapshot.Snapshot){idleManager}, "ManagerNotRunning", finding.Problem},
		"ledger down": {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Ledgers = make([]appsv1.StatefulSet, 1) }},
			"HistoryNotRunning", finding.Info},
		"no manager":          {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Managers = nil }}, "NoManager", finding.Warning},
		"unwatched namespace": {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].Generation = 1 }}, "NotReconciled", finding.Problem},
		"wrong URL":           {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].Spec.GitHubConfigUrl = "github.com" }}, "InvalidConfigURL", finding.Problem},
		"deleting":            {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].DeletionTimestamp = new(metav1.Now()) }}, "Deleting", finding.Problem},
		"other version":       {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionVersionSupported, no, "VersionDiffers")}, "VersionDiffers", finding.Warning},
		"wrong token":         {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionCredentialsValid, no, "Unauthorized")}, "Unauthorized", finding.Problem},
		"secret read":         {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].Credentials = errors.New("lacks github_token") }}, "CredentialsInvalid", finding.Problem},
		"secret missing": {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) {
			s.Sets[0].Credentials = &credentials.MissingError{Kind: "Secret", Name: "github"}
		}}, "CredentialsMissing", finding.Problem},
		"wrong group":           {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionScaleSetRegistered, no, "RunnerGroupNotFound")}, "RunnerGroupNotFound", finding.Problem},
		"no disruption budget":  {[]func(*snapshot.Snapshot){budgets()}, v1alpha1.ReasonNoDisruptionBudget, finding.Warning},
		"foreign budget":        {[]func(*snapshot.Snapshot){budgets("set-gha-rs-runners", "ops")}, v1alpha1.ReasonSeveralDisruptionBudgets, finding.Warning},
		"no budget wanted":      {[]func(*snapshot.Snapshot){budgets(), func(s *snapshot.Snapshot) { s.Sets[0].Spec.ProtectRunners = v1alpha1.ProtectNoRunners }}, "", ""},
		"budgets not read":      {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionRunnersUnprotected, yes, "SeveralDisruptionBudgets")}, "SeveralDisruptionBudgets", finding.Warning},
		"pods not marked":       {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].Unmarked.Actions = []string{"patch pods"} }}, "PodMetadataForbidden", finding.Warning},
		"labels":                {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionLabelsInSync, no, "LabelsDropped")}, "LabelsDropped", finding.Warning},
		"deaf listener":         {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionListenerReady, no, "SessionConflict")}, "SessionConflict", finding.Problem},
		"image ends soon":       {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionRunnerVersionExpires, yes, v1alpha1.ReasonVersionEndsSoon)}, v1alpha1.ReasonVersionEndsSoon, finding.Warning},
		"outdated image":        {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionRunnerOutdated, yes, "RunnerVersionRefused")}, "RunnerVersionRefused", finding.Problem},
		"degraded":              {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionDegraded, yes, "ImagePullBackOff")}, "ImagePullBackOff", finding.Problem},
		"no rights":             {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionReady, no, v1alpha1.ReasonReconcileFailed)}, v1alpha1.ReasonReconcileFailed, finding.Problem},
		"quota condition":       {[]func(*snapshot.Snapshot){limited("Quota", "PodsForbidden"), quota("10")}, "PodsForbidden", finding.Problem},
		"quota used up":         {[]func(*snapshot.Snapshot){quota("10")}, "QuotaUsedUp", finding.Warning},
		"quota left":            {[]func(*snapshot.Snapshot){quota("9")}, "", ""},
		"full":                  {[]func(*snapshot.Snapshot){full}, "MaxRunnersReached", finding.Warning},
		"off":                   {[]func(*snapshot.Snapshot){off}, "MaxRunnersZero", finding.Problem},
		"no node":               {[]func(*snapshot.Snapshot){pod("Unschedulable")}, "Unschedulable", finding.Problem},
		"wrong image":           {[]func(*snapshot.Snapshot){pod("ImagePullBackOff")}, "ImagePullBackOff", finding.Problem},
		"on its way":            {[]func(*snapshot.Snapshot){pod("ContainerCreating")}, "ContainerCreating", finding.Info},
		"waits without a pod":   {[]func(*snapshot.Snapshot){runner("", "RateLimited")}, "RateLimited", finding.Problem},
		"out of memory":         {[]func(*snapshot.Snapshot){runner(v1alpha1.EphemeralRunnerPhaseFailed, "OOMKilled")}, "OOMKilled", finding.Warning},
		"no listener yet":       {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionUnknown, "Registering"), condition(v1alpha1.ConditionListenerReady, no, "WaitingForScaleSet")}, "Registering", finding.Warning},
		"old CRDs":              {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.OutdatedCRDs = errors.New("lack status.conditions") }}, "OutdatedCRDs", finding.Problem},
		"missing permission":    {[]func(*snapshot.Snapshot){denied, condition(v1alpha1.ConditionRunnersPending, yes, "SecretRefused")}, "MissingPermission", finding.Problem},
		"runners wait":          {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionRunnersPending, yes, "Unschedulable")}, "Unschedulable", finding.Problem},
		"runners missing":       {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].Status.DesiredRunners = 2 }}, "RunnersMissing", finding.Warning},
		"wrong figures":         {[]func(*snapshot.Snapshot){wrongFigures}, "JobsNotTaken", finding.Warning},
		"ended without a job":   {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Sets[0].Status.DesiredRunners = 2 }, runner(v1alpha1.EphemeralRunnerPhaseSucceeded, "")}, "RunnerExitedWithoutJob", finding.Warning},
		"warned of late":        {[]func(*snapshot.Snapshot){warned(time.Minute)}, "Evicted", finding.Info},
		"warned long ago":       {[]func(*snapshot.Snapshot){warned(time.Hour)}, "", ""},
		"no job":                {[]func(*snapshot.Snapshot){noJob}, "NoJobAssigned", finding.Info},
		"after a restore":       {[]func(*snapshot.Snapshot){strays}, "StrayRegistrations", finding.Info},
		"not read":              {[]func(*snapshot.Snapshot){func(s *snapshot.Snapshot) { s.Unread["Pods"] = errors.New("forbidden") }}, "NotRead", finding.Info},
		"unreadable set":        {[]func(*snapshot.Snapshot){unreadableObject("AutoscalingRunnerSet")}, "Unreadable", finding.Problem},
		"unreadable runner":     {[]func(*snapshot.Snapshot){unreadableObject("EphemeralRunner")}, "Unreadable", finding.Warning},
		"problem before limit":  {[]func(*snapshot.Snapshot){full, condition(v1alpha1.ConditionListenerReady, no, "RateLimited")}, "RateLimited", finding.Problem},
		"shared vault identity": {[]func(*snapshot.Snapshot){vaulted("a"), vaulted("b")}, "SharedVaultIdentity", finding.Warning},
		"limit of the manager":  {[]func(*snapshot.Snapshot){capped}, "MaxRunnersReached", finding.Warning},
		"vault not allowed":     {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, "VaultNotAllowed")}, "VaultNotAllowed", finding.Problem},
		"refused template":      {[]func(*snapshot.Snapshot){condition(v1alpha1.ConditionListenerTemplateAccepted, no, "FieldsRefused")}, "FieldsRefused", finding.Warning},
	} {
		t.Run(name, func(t *testing.T) {
			findings := diagnosis.Diagnose(healthy(test.changes...))
			if test.reason == "" {
				if len(findings) > 0 {
					t.Errorf("found %+v, want nothing", findings)
				}
				return
			}
			if len(findings) == 0 || findings[0].Reason != test.reason || findings[0].Severity != test.severity {
				t.Fatalf("found %+v, want %s %s first", findings, test.severity, test.reason)
			}
			if findings[0].Message == "" || findings[0].Fix == "" {
				t.Errorf("%+v lacks what happened or what to do", findings[0])
			}
		})
	}
}

// One cause shows in several places, for example in two conditions and a runner.
func TestACauseIsToldOnce(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(condition(v1alpha1.ConditionCredentialsValid, no, "Unauthorized"),
		condition(v1alpha1.ConditionScaleSetRegistered, no, "Unauthorized"),
		condition(v1alpha1.ConditionListenerReady, no, "WaitingForScaleSet"), runner("", "Unauthorized")))
	if len(findings) != 1 {
		t.Errorf("found %+v, want one finding", findings)
	}
}

// A condition's message ends with what to do, if the error itself doesn't say it. The finding says so as its fix.
func TestWhatToDoIsToldOnce(t *testing.T) {
	const advice = "create it on GitHub, or correct runnerGroup"
	s := healthy(condition(v1alpha1.ConditionScaleSetRegistered, no, v1alpha1.ReasonRunnerGroupNotFound))
	registered := meta.FindStatusCondition(s.Sets[0].Status.Conditions, v1alpha1.ConditionScaleSetRegistered)
	registered.Message = "no such group; " + advice
	if findings := diagnosis.Diagnose(s); len(findings) != 1 || findings[0].Message != "no such group" ||
		findings[0].Fix != advice {
		t.Errorf("found %+v, want %q told once", findings, advice)
	}
}

// Conditions lag behind: a pod that failed to pull its image a second ago may be backing off by now.
func TestAConditionAddsNothingToThePodsOwnReason(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(pod("ErrImagePull"),
		condition(v1alpha1.ConditionRunnersPending, yes, "ImagePullBackOff")))
	if len(findings) != 1 || findings[0].Reason != "ErrImagePull" {
		t.Errorf("found %+v, want the pod's reason alone", findings)
	}
}

// If the Secret is missing, the doctor doesn't advise to wait for GitHub.
func TestWithoutCredentialsGitHubIsNotWaitedFor(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(
		condition(v1alpha1.ConditionCredentialsValid, no, v1alpha1.ReasonCredentialsMissing),
		condition(v1alpha1.ConditionScaleSetRegistered, metav1.ConditionUnknown, "Registering")))
	if len(findings) != 1 || findings[0].Reason != v1alpha1.ReasonCredentialsMissing {
		t.Errorf("found %+v, want the credentials alone", findings)
	}
}

func TestFindingsOfOneReasonAreCounted(t *testing.T) {
	findings := diagnosis.Diagnose(healthy(pod("Unschedulable"), pod("Unschedulable"), pod("ImagePullBackOff")))
	if len(findings) != 2 || !strings.HasPrefix(findings[1].Message,
		"2 runners wait, for example linux-runner-1: 0/3 nodes") {
		t.Errorf("found %+v, want one finding for each reason, with its count", findings)
	}
}

func unreadableObject(kind string) func(*snapshot.Snapshot) {
	return func(s *snapshot.Snapshot) {
		s.Unreadable = append(s.Unreadable, &informer.UnreadableError{Kind: kind, Namespace: "runners", Name: "linux",
			Cause: "no duration"})
	}
}

// The doctor advises what the reason's row says, whichever condition has the reason, and what the cause's row says about
// a lost job.
func TestFixesAreThoseOfTheMeaning(t *testing.T) {
	for _, row := range meaning.All() {
		if row.Advice == "" {
			continue
		}
		if row.Reason != "QuotaExceeded" && row.Reason != "RunnerExitedWithoutJob" { // found in other ways
			fix := fixOf(t, row.Reason, condition(v1alpha1.ConditionDegraded, yes, row.Reason))
			if fix != row.Advice && !row.Chosen {
				t.Errorf("%s: %q, want %q", row.Reason, fix, row.Advice)
			}
		}
		if ofListener := fixOf(t, row.Reason, condition(v1alpha1.ConditionListenerReady, no, row.Reason)); row.OfPods !=
			(ofListener != row.Advice) {
			t.Errorf("%s of a listener: %q", row.Reason, ofListener)
		}
	}
}
