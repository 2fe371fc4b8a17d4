package meaning

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

const (
	quotaUsedUp       = "quota used up"
	quotaAllowsNoMore = "a quota of the cluster allows no more runners"
	raiseQuota        = "raise the ResourceQuota, or lower maxRunners or the runners' requests"
	restoreRole       = "grant the manager what the message says it lacks: the scale set's chart contains the " +
		"Role and its binding, and helm upgrade restores them"
	anotherFollows = "nothing: another runner takes its place"
)

// ofRunners are the reasons of runners that wait or have failed, and of their sets.
var ofRunners = []Row{
	{
		Reason: v1alpha1.ReasonRunnersNotCreated,
		Actor:  User,
		Advice: "correct what the API server refuses: a field of the template, a policy or webhook of the namespace, " +
			"or a permission that the manager lacks",
	},
	{
		Reason: v1alpha1.ReasonRunnersUnseen,
		Actor:  Administrator,
		Advice: "find out from the manager's log why it can't watch EphemeralRunners; the charts' Roles allow it to " +
			"list and watch them",
	},
	{Reason: v1alpha1.ReasonRunnersFail, Actor: User},
	{
		Reason: v1alpha1.ReasonRunnerSpecDiffers,
		Actor:  User,
		Passes: true,
		Advice: "find out who changes the EphemeralRunnerSet: the manager writes it from the AutoscalingRunnerSet",
	},
	{Reason: v1alpha1.ReasonOwnerless, Advice: "nothing: the manager removes it; runners with a job finish it"},
	{Reason: v1alpha1.ReasonPending},
	{
		Reason: v1alpha1.ReasonPendingTimeout,
		Actor:  User,
		OfPods: true,
		Advice: "run kubectl describe on the pod; pendingTimeout is how long it may take to start",
	},
	{Reason: v1alpha1.ReasonRunnerNameTaken, OfPods: true, Advice: anotherFollows},
	{
		Reason: v1alpha1.ReasonRegistrationFailed,
		Actor:  User,
		Passes: true,
		OfPods: true,
		Author: "GitHub doesn't register its runner",
		Advice: "the message says what failed: correct what it names, or wait, and look at " +
			"https://www.githubstatus.com",
	},
	{
		Reason: v1alpha1.ReasonAPIServerUnavailable,
		OfPods: true,
		Advice: "wait: the manager repeats the request; if it goes on, check the control plane, its admission " +
			"webhooks, and the network between it and the manager",
	},
	{
		Reason: v1alpha1.ReasonInvalidSecret, Actor: User, OfPods: true,
		Advice: "correct ephemeralRunnerConfigSecretMetadata",
	},
	{Reason: v1alpha1.ReasonSecretRefused, Actor: Administrator, OfPods: true, Advice: restoreRole},
	{Reason: v1alpha1.ReasonSecretUnreadable, Actor: Administrator, OfPods: true, Advice: restoreRole},
	{
		Reason: v1alpha1.ReasonInvalidPod, Actor: User, OfPods: true,
		Advice: "correct the field of the template that the message names",
	},
	{
		Reason: v1alpha1.ReasonPodFieldsLost,
		Actor:  Administrator,
		Advice: "have the policy or webhook that changes pods leave what the message names, or write the template so " +
			"that it agrees: docs/policies.md",
	},
	{
		Reason: v1alpha1.ReasonJobImageRefused,
		Actor:  User,
		Advice: "have workflows use images that the policy takes: the message names it",
	},
	{
		Reason: v1alpha1.ReasonPodForbidden,
		Actor:  Administrator,
		OfPods: true,
		Advice: "correct what the message names: a policy such as Pod Security, or a missing Role of the manager",
	},
	{
		Reason: v1alpha1.ReasonPodsForbidden,
		Actor:  Administrator,
		Few:    quotaUsedUp,
		Author: quotaAllowsNoMore,
		Advice: raiseQuota,
	},
	{
		Reason: v1alpha1.ReasonQuotaExceeded,
		Actor:  Administrator,
		Few:    quotaUsedUp,
		Author: quotaAllowsNoMore,
		Advice: raiseQuota,
	},
	{
		Reason: v1alpha1.ReasonPodRefused, Actor: User, OfPods: true,
		Advice: "correct what the message names; it may be an admission webhook",
	},
	{
		Reason: v1alpha1.ReasonPodNameTaken,
		Actor:  User,
		Passes: true,
		Advice: "delete the pod that the message names, or recreate it under another name",
	},
	{
		Reason: v1alpha1.ReasonPodLost,
		Actor:  Administrator,
		OfPods: true,
		Advice: "find out what deletes pods: a node autoscaler, evictions, or somebody by hand",
	},
	{
		Reason: v1alpha1.ReasonInitContainerFailed, Actor: User, OfPods: true,
		Advice: "run kubectl logs on the pod's init container, and correct it in the template",
	},
	{Reason: v1alpha1.ReasonRunnerExitedWithoutJob, Actor: User, OfPods: true, Advice: CorrectCommand},
	{
		Reason: v1alpha1.ReasonPodTerminating,
		Actor:  Administrator,
		Passes: true,
		OfPods: true,
		Advice: "find out who set the finalizers that the message names, and why they are still there; then remove " +
			"them from the pod",
	},
	{Reason: v1alpha1.ReasonNodeLost, Actor: Administrator, OfPods: true, Advice: nodesGo},
	{
		Reason: v1alpha1.ReasonVolumeClaimsExhausted,
		Actor:  User,
		Author: "all volumes with the runners' caches are in use",
		Advice: "raise volumeClaimPool.max, or set volumeClaimPool.whenExhausted to Ephemeral: the runner then " +
			"starts at once, with an empty directory",
	},
	{
		Reason: v1alpha1.ReasonVolumeClaimsAwaitPlace,
		Actor:  Administrator,
		Passes: true,
		Author: "there is no node where the volumes with the runners' caches are",
		Advice: "nothing, if nodes come to that zone; docs/caches.md says when runners get other claims, and " +
			"kubectl harrier doctor names the claims to delete if the zone doesn't come back",
	},
	{
		Reason: v1alpha1.ReasonVolumeClaimUnprovisioned,
		Actor:  User,
		Author: "no volume can be made for the runners' caches",
		Advice: "run kubectl describe on the claims of the runner that the message names: the provisioner says why it makes " +
			"no volume. With volumeClaimPool.seedFrom the driver must be able to clone, and the source be of the same class",
	},
	{
		Reason: v1alpha1.ReasonVolumeClaimRefused,
		Actor:  User,
		Advice: "raise the ResourceQuota, or correct what the message names in volumeClaimTemplates; the runners " +
			"start when the claim is accepted, or another one is free",
	},
	{
		Reason: v1alpha1.ReasonVolumeClaimUnusable,
		Actor:  User,
		Passes: true,
		Advice: "wait: the runner gets another claim, or another runner takes its place; if it goes on, " +
			"docs/caches.md says what makes a claim unusable",
	},
	{
		Reason: v1alpha1.ReasonVolumeClaimAwaited,
		Advice: "nothing: the runner goes when the report about its job has come, or after some minutes; GitHub keeps the " +
			"reports for a scale set that takes no jobs until it takes some again, and its claims are kept until then",
	},
	{
		Reason: v1alpha1.ReasonJobHooksFailed,
		Actor:  User,
		Advice: "use an image whose runner container has a POSIX shell as sh, or set feedback.jobLog to false: without it every " +
			"job fails at its start",
	},
	{
		Reason: v1alpha1.ReasonVolumeClaimNotDeleted,
		Actor:  User,
		Advice: "let the manager delete PersistentVolumeClaims in the namespace: the chart of the scale set does " +
			"while its values have volumeClaimTemplates or volumeClaimPool",
	},
	{Reason: v1alpha1.ReasonVolumeClaimShared, Advice: anotherFollows},
	{
		Reason: v1alpha1.ReasonSnapshotKindMissing,
		Actor:  Administrator,
		Advice: "install the CustomResourceDefinitions of snapshot.storage.k8s.io and the snapshot controller; " +
			"until then all runners start with empty claims",
	},
	{
		Reason: v1alpha1.ReasonSnapshotRefused,
		Actor:  User,
		Advice: "correct what the message names: the manager's right, which the chart of the scale set gives while " +
			"volumeClaimPool.mode is Snapshot, a ResourceQuota, or a policy",
	},
	{
		Reason: v1alpha1.ReasonSnapshotFailed,
		Actor:  User,
		Advice: "set volumeClaimPool.snapshotClassName to a VolumeSnapshotClass of the claims' driver, or correct what " +
			"the driver says; a driver without snapshots can't serve volumeClaimPool.mode Snapshot",
	},
	{
		Reason: v1alpha1.ReasonSnapshotLate,
		Actor:  Administrator,
		Advice: "kubectl describe the VolumeSnapshot: the snapshot controller may not run, or the driver is slow; " +
			"runners start from the last one that is ready",
	},
	{
		Reason: v1alpha1.ReasonSnapshotTooLarge,
		Actor:  User,
		Advice: "raise the size in volumeClaimTemplates, or delete the VolumeSnapshots that are larger",
	},
	{
		Reason: v1alpha1.ReasonSnapshotNotCopied,
		Actor:  User,
		Advice: "kubectl describe the claims that are pending; delete the VolumeSnapshot to have runners start " +
			"without it, or set volumeClaimPool.whenExhausted to Ephemeral",
	},
	{Reason: "Unknown", Author: "the cluster gives no reason; runners may be starting"},
}
