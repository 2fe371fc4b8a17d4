package meaning

import "github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"

const (
	keepToPolicy = "remove the fields from listenerTemplate and resourceMeta, or ask the controller's operator to " +
		"allow them: flags.listenerSidecarImages for a further container, flags.listenerMetadataKeys for a label or " +
		"annotation, flags.listenerPriorityClasses for a class, flags.listenerTemplatePolicy for the rest; " +
		"docs/listener-template.md lists what is allowed"
	protect = "docs/nodes.md says what a PodDisruptionBudget of the scale set's chart does, and what to do about " +
		"others"
	newerImage    = "use a newer runner image in the template"
	keepImageNew  = newerImage + ", by a policy that keeps it new: docs/runner-versions.md"
	describeLater = "wait; if it stays so, " + describeListener
	noRunners     = "the scale set starts no runners at present"
	noRoom        = "no node of the cluster has room for the runner"
	moreRoom      = "wait: the number rises by itself as pods find nodes, and other clusters with the label take the " +
		"other jobs; to have more run here, add nodes or raise the quota"
)

// ofSets are the reasons of scale sets and their listeners.
var ofSets = []Row{
	{
		Reason: v1alpha1.ReasonReconcileFailed,
		Actor:  User,
		Passes: true,
		Advice: "correct the value that the message names, or grant the manager the permission " +
			"that it lacks; the charts' Roles contain it",
	},
	{Reason: v1alpha1.ReasonFieldsRefused, Actor: User, Advice: keepToPolicy},
	{
		Reason: v1alpha1.ReasonLabelsDropped,
		Actor:  User,
		Advice: "use runnerScaleSetName in runs-on, or upgrade GitHub Enterprise Server",
	},
	{
		Reason: v1alpha1.ReasonScheduleRefused, Actor: User,
		Advice: "correct the field of the schedule that the message names",
	},
	{
		Reason: v1alpha1.ReasonMaxRunnersReached,
		Actor:  User,
		Chosen: true,
		Few:    "at maxRunners",
		Author: "all runners that the scale set may have are at work",
		Advice: "raise maxRunners of the scale set or of its open schedule, or flags.maxRunnersPerSet of the controller, " +
			"whichever is reached; or wait for a runner to finish",
	},
	{
		Reason: v1alpha1.ReasonMaxRunnersZero,
		Actor:  User,
		Chosen: true,
		Few:    "maxRunners is 0",
		Author: noRunners,
		Advice: "raise maxRunners, or wait for the end of the schedule that allows no runner",
	},
	{
		Reason: v1alpha1.ReasonDrained,
		Actor:  User,
		Chosen: true,
		Author: noRunners,
		Advice: "have it take jobs again with kubectl harrier resume",
	},
	{Reason: v1alpha1.ReasonTakesJobs},
	{
		Reason: v1alpha1.ReasonStartsLimited,
		Chosen: true,
		Few:    "maxStartsPerMinute",
		Author: "the scale set starts as many runners a minute as it may",
		Advice: "wait: the runners come minute by minute; to have them faster, raise maxStartsPerMinute of the " +
			"scale set",
	},
	{
		Reason: v1alpha1.ReasonCapacityUnproven, Actor: User, Chosen: true, Passes: true, Author: noRoom,
		Advice: moreRoom,
	},
	{Reason: v1alpha1.ReasonPodsUnschedulable, Actor: Administrator, Passes: true, Author: noRoom, Advice: moreRoom},
	{
		Reason: v1alpha1.ReasonJobsNotTaken,
		Actor:  User,
		Passes: true,
		Advice: "look on GitHub for queued jobs whose runs-on names the scale set: cancel those that never start; if " +
			"there are none, wait: GitHub's figures are wrong, which costs no runners and ends with them " +
			"(docs/troubleshooting.md)",
	},
	{
		Reason: v1alpha1.ReasonListenerNameTaken,
		Actor:  User,
		Passes: true,
		Advice: "have whoever created the object that the message names delete it, or recreate it under another " +
			"name: the manager leaves it as it is",
	},
	{
		Reason: v1alpha1.ReasonListenerIgnored,
		Actor:  User,
		Advice: "delete the AutoscalingListener, if whoever wrote it can't say what it is for",
	},
	{
		Reason: v1alpha1.ReasonForeignFinalizers,
		Actor:  Administrator,
		Passes: true,
		Advice: "find out why the program that set the finalizers doesn't remove them, such as a backup, a policy " +
			"engine or Argo CD; if there is no such program any more, run the command in the message",
	},
	{Reason: v1alpha1.ReasonListenerStopped},
	{Reason: v1alpha1.ReasonListenerPodStarting, Advice: describeLater},
	{Reason: v1alpha1.ReasonListenerNotListening, Advice: describeLater},
	{
		Reason: v1alpha1.ReasonPublishFailed,
		Actor:  Administrator,
		Passes: true,
		Advice: "check that the listener can reach the API server, and that its Role and RoleBinding exist; if " +
			"deleted, the manager recreates them",
	},
	{
		Reason: v1alpha1.ReasonOtherRevisionLives,
		Actor:  Administrator,
		Passes: true,
		Advice: "wait while the rollout is under way; if it stays so, delete the pods of the other revision",
	},
	{Reason: v1alpha1.ReasonVersionEndsSoon, Actor: User, Few: "runner version ends soon", Advice: keepImageNew},
	{Reason: v1alpha1.ReasonVersionRefused, Actor: User, Few: "runner version refused", Advice: keepImageNew},
	{
		Reason: "RunnerVersionRefused",
		Actor:  User,
		Few:    "runner too old",
		Author: "GitHub refuses the runner's version",
		Advice: newerImage,
	},
	{Reason: v1alpha1.ReasonNoDisruptionBudget, Actor: User, Advice: protect},
	{Reason: v1alpha1.ReasonSeveralDisruptionBudgets, Actor: User, Advice: protect},
	{Reason: v1alpha1.ReasonDisruptionBudgetTooWeak, Actor: User, Advice: protect},
}

// ofDoctor are reasons that only the doctor gives, and some that it shares with conditions.
var ofDoctor = []Row{
	{Reason: "RunnersMissing"},
	{Reason: "StrayRegistrations"},
	{
		Reason: "QuotaUsedUp",
		Actor:  Administrator,
		Few:    quotaUsedUp,
		Author: quotaAllowsNoMore,
		Advice: "raise the quota, or lower maxRunners or the runners' requests",
	},
	{Reason: "MissingPermission", Actor: Administrator},
	{Reason: "PodMetadataForbidden", Actor: Administrator},
	{Reason: "NotReconciled", Actor: Administrator, Few: "no manager acts"},
	{Reason: "NotInstalled", Actor: Administrator},
	{Reason: "NoManager", Actor: Administrator},
	{Reason: "OutdatedCRDs", Actor: Administrator},
}
