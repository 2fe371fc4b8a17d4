package dryrun

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// Checks of a pod beyond the types of its fields, in the API server's words. It accepts a set with such a template, and
// refuses all of the set's pods. The rules are those that values can break and that hold in every version of Kubernetes
// and with every setting of it.

// podSpec is the spec in a template of pods.
type podSpec struct {
	corev1.PodSpec
	// partial: it is merged into another template, which may have the images and the volumes that this one lacks.
	partial bool
	// claims are the set's volumeClaimTemplates, which add volumes.
	claims []v1alpha1.VolumeClaimTemplate
}

// podRules are the rules, a function for each subject.
var podRules = []func(podSpec, *field.Path) field.ErrorList{
	podSpec.checkVolumes, podSpec.checkContainers, podSpec.checkNames, podSpec.checkSettings, podSpec.checkNodes,
	podSpec.checkAffinity, podSpec.checkSpread, podSpec.checkSystem,
}

// checkNames checks the names of other objects, and the names by which others know the pod.
func (t podSpec) checkNames(at *field.Path) (refused field.ErrorList) {
	runtimeClass := ""
	if t.RuntimeClassName != nil {
		runtimeClass = *t.RuntimeClassName
	}
	for name, given := range map[string]string{
		"serviceAccountName": t.ServiceAccountName, "priorityClassName": t.PriorityClassName, "nodeName": t.NodeName,
		"runtimeClassName": runtimeClass,
	} {
		ours := t.partial && name == "serviceAccountName" // a listener has its own account, whatever its template says
		if given != "" && !ours {
			refused = append(refused, invalid(at.Child(name), given, apivalidation.NameIsDNSSubdomain(given, false))...)
		}
	}
	for name, given := range map[string]string{"hostname": t.Hostname, "subdomain": t.Subdomain} {
		if given != "" {
			refused = append(refused, invalid(at.Child(name), given, validation.IsDNS1123Label(given))...)
		}
	}
	for i, alias := range t.HostAliases {
		refused = append(refused, validation.IsValidIPForLegacyField(at.Child("hostAliases").Index(i).Child("ip"), alias.IP,
			false, nil)...)
	}
	return refused
}

// checkSettings checks settings of the whole pod that are one of a few words, or within limits.
func (t podSpec) checkSettings(at *field.Path) (refused field.ErrorList) {
	refused = oneOf(at.Child("dnsPolicy"), t.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst,
		corev1.DNSDefault, corev1.DNSNone)
	if t.DNSPolicy == corev1.DNSNone && (t.DNSConfig == nil || len(t.DNSConfig.Nameservers) == 0) {
		refused = append(refused, field.Required(at.Child("dnsConfig", "nameservers"),
			"must provide at least one DNS nameserver when `dnsPolicy` is None"))
	}
	if t.DNSConfig != nil {
		refused = append(refused, checkDNS(t.DNSConfig, at.Child("dnsConfig"))...)
	}
	if t.PreemptionPolicy != nil {
		refused = append(refused, oneOf(at.Child("preemptionPolicy"), *t.PreemptionPolicy, corev1.PreemptLowerPriority,
			corev1.PreemptNever)...)
	}
	if limit := t.ActiveDeadlineSeconds; limit != nil && (*limit < 1 || *limit > math.MaxInt32) {
		refused = append(refused, field.Invalid(at.Child("activeDeadlineSeconds"), *limit,
			validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if t.ShareProcessNamespace != nil && *t.ShareProcessNamespace && t.HostPID {
		refused = append(refused, field.Invalid(at.Child("shareProcessNamespace"), true,
			"ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	own := t.SecurityContext
	if own == nil {
		return refused
	}
	at = at.Child("securityContext")
	if own.FSGroupChangePolicy != nil {
		refused = append(refused, oneOf(at.Child("fsGroupChangePolicy"), *own.FSGroupChangePolicy,
			corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)...)
	}
	refused = append(refused, checkID(at.Child("fsGroup"), own.FSGroup)...)
	for i := range own.SupplementalGroups {
		refused = append(refused, checkID(at.Child("supplementalGroups").Index(i), &own.SupplementalGroups[i])...)
	}
	return append(refused, checkIdentity(at, own.RunAsUser, own.RunAsGroup, own.SeccompProfile)...)
}

func checkDNS(config *corev1.PodDNSConfig, at *field.Path) (refused field.ErrorList) {
	if most := 3; len(config.Nameservers) > most {
		refused = append(refused, field.Invalid(at.Child("nameservers"), config.Nameservers,
			fmt.Sprintf("must not have more than %d nameservers", most)))
	}
	for i, server := range config.Nameservers {
		refused = append(refused, validation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), server, false, nil)...)
	}
	for i, domain := range config.Searches {
		if domain != "." {
			refused = append(refused, invalid(at.Child("searches").Index(i), domain,
				validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(domain, ".")))...)
		}
	}
	return refused
}

// checkNodes checks node selector and tolerations.
func (t podSpec) checkNodes(at *field.Path) (refused field.ErrorList) {
	refused = metavalidation.ValidateLabels(t.NodeSelector, at.Child("nodeSelector"))
	for i, toleration := range t.Tolerations {
		at := at.Child("tolerations").Index(i)
		if toleration.Key != "" {
			refused = append(refused, metavalidation.ValidateLabelName(toleration.Key, at.Child("key"))...)
		} else if toleration.Operator != corev1.TolerationOpExists {
			refused = append(refused, field.Invalid(at.Child("operator"), toleration.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if toleration.TolerationSeconds != nil && toleration.Effect != corev1.TaintEffectNoExecute {
			refused = append(refused, field.Invalid(at.Child("effect"), toleration.Effect,
				"effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		if toleration.Operator == corev1.TolerationOpExists && toleration.Value != "" {
			refused = append(refused, field.Invalid(at.Child("operator"), toleration.Value,
				"value must be empty when `operator` is 'Exists'"))
		}
		if toleration.Operator == corev1.TolerationOpEqual || toleration.Operator == "" {
			refused = append(refused, invalid(at.Child("value"), toleration.Value,
				validation.IsValidLabelValue(toleration.Value))...)
		}
		// Newer versions compare numbers, too.
		refused = append(refused, oneOf(at.Child("operator"), toleration.Operator, corev1.TolerationOpEqual,
			corev1.TolerationOpExists, "Lt", "Gt")...)
		refused = append(refused, oneOf(at.Child("effect"), toleration.Effect, corev1.TaintEffectNoSchedule,
			corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
	}
	return refused
}

func (t podSpec) checkAffinity(at *field.Path) (refused field.ErrorList) {
	if t.Affinity == nil {
		return nil
	}
	at = at.Child("affinity")
	if nodes := t.Affinity.NodeAffinity; nodes != nil {
		at := at.Child("nodeAffinity")
		if required := nodes.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			at := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			if len(required.NodeSelectorTerms) == 0 {
				refused = append(refused, field.Required(at, "must have at least one node selector term"))
			}
			for i := range required.NodeSelectorTerms {
				refused = append(refused, checkNodeTerm(&required.NodeSelectorTerms[i], at.Index(i))...)
			}
		}
		for i, term := range nodes.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
			refused = append(refused, checkWeight(term.Weight, at)...)
			refused = append(refused, checkNodeTerm(&term.Preference, at.Child("preference"))...)
		}
	}
	if pods := t.Affinity.PodAffinity; pods != nil {
		refused = append(refused, checkPodTerms(pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))...)
	}
	if pods := t.Affinity.PodAntiAffinity; pods != nil {
		refused = append(refused, checkPodTerms(pods.RequiredDuringSchedulingIgnoredDuringExecution,
			pods.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))...)
	}
	return refused
}

func checkNodeTerm(term *corev1.NodeSelectorTerm, at *field.Path) (refused field.ErrorList) {
	for i, one := range term.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		refused = append(refused, metavalidation.ValidateLabelName(one.Key, at.Child("key"))...)
		switch one.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(one.Values) == 0 {
				refused = append(refused, field.Required(at.Child("values"),
					"must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(one.Values) > 0 {
				refused = append(refused, field.Forbidden(at.Child("values"),
					"may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(one.Values) != 1 {
				refused = append(refused, field.Required(at.Child("values"),
					"must be specified single value when `operator` is 'Lt' or 'Gt'"))
			}
		default:
			refused = append(refused, field.Invalid(at.Child("operator"), one.Operator, "not a valid selector operator"))
		}
	}
	return refused
}

func checkWeight(weight int32, at *field.Path) field.ErrorList {
	if weight < 1 || weight > 100 {
		return field.ErrorList{field.Invalid(at.Child("weight"), weight, "must be in the range 1-100")}
	}
	return nil
}

func checkPodTerms(
	required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path,
) (refused field.ErrorList) {
	for i := range required {
		refused = append(refused, checkPodTerm(&required[i],
			at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		at := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		refused = append(refused, checkWeight(preferred[i].Weight, at)...)
		refused = append(refused, checkPodTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return refused
}

func checkPodTerm(term *corev1.PodAffinityTerm, at *field.Path) (refused field.ErrorList) {
	refused = append(refused, checkSelector(term.LabelSelector, at.Child("labelSelector"))...)
	refused = append(refused, checkSelector(term.NamespaceSelector, at.Child("namespaceSelector"))...)
	return append(refused, checkTopologyKey(term.TopologyKey, at.Child("topologyKey"))...)
}

func checkSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
}

func checkTopologyKey(key string, at *field.Path) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(at, "can not be empty")}
	}
	return metavalidation.ValidateLabelName(key, at)
}

func (t podSpec) checkSpread(at *field.Path) (refused field.ErrorList) {
	for i, constraint := range t.TopologySpreadConstraints {
		at := at.Child("topologySpreadConstraints").Index(i)
		if constraint.MaxSkew <= 0 {
			refused = append(refused, field.Invalid(at.Child("maxSkew"), constraint.MaxSkew, "must be greater than 0"))
		}
		refused = append(refused, required(constraint.TopologyKey, at.Child("topologyKey"))...)
		refused = append(refused, oneOf(at.Child("whenUnsatisfiable"), constraint.WhenUnsatisfiable, corev1.DoNotSchedule,
			corev1.ScheduleAnyway)...)
		refused = append(refused, checkSelector(constraint.LabelSelector, at.Child("labelSelector"))...)
	}
	return refused
}

// checkSystem checks that the pod asks for nothing that its operating system lacks, if it names one.
func (t podSpec) checkSystem(at *field.Path) (refused field.ErrorList) {
	if t.OS == nil {
		return nil
	}
	refused = oneOf(at.Child("os", "name"), t.OS.Name, corev1.Linux, corev1.Windows)
	if t.SecurityContext != nil {
		refused = append(refused, checkSystemOf(t.OS.Name, *t.SecurityContext, at.Child("securityContext"))...)
	}
	for _, list := range t.containerLists() {
		for i := range list.containers {
			if own := list.containers[i].SecurityContext; own != nil {
				refused = append(refused, checkSystemOf(t.OS.Name, *own, at.Child(list.name).Index(i).Child("securityContext"))...)
			}
		}
	}
	for name, set := range map[string]bool{
		"hostPID":               t.HostPID,
		"hostIPC":               t.HostIPC,
		"shareProcessNamespace": t.ShareProcessNamespace != nil,
	} {
		if set && t.OS.Name == corev1.Windows {
			refused = append(refused, field.Forbidden(at.Child(name), "cannot be set for a windows pod"))
		}
	}
	return refused
}

// ignoredBySome are fields that API servers without their feature drop instead of refusing them.
var ignoredBySome = []string{"appArmorProfile", "seLinuxChangePolicy", "supplementalGroupsPolicy"}

// checkSystemOf checks the securityContext of a pod or a container. All its fields but two are for Linux.
func checkSystemOf(system corev1.OSName, own any, at *field.Path) (refused field.ErrorList) {
	value := reflect.ValueOf(own)
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		ofWindows := name == "windowsOptions"
		refusedHere := (system == corev1.Linux && ofWindows) ||
			(system == corev1.Windows && !ofWindows && name != "runAsNonRoot")
		given := value.Field(i)
		if refusedHere && !given.IsZero() && !slices.Contains(ignoredBySome, name) && (name != "sysctls" || given.Len() > 0) {
			refused = append(refused, field.Forbidden(at.Child(name), fmt.Sprintf("cannot be set for a %s pod", system)))
		}
	}
	return refused
}

// oneOf checks a word that has to be one of a few. Without one there is a default.
func oneOf[T ~string](at *field.Path, given T, known ...T) field.ErrorList {
	for _, one := range append(known, "") {
		if given == one {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(at, given, known)}
}

// invalid makes errors of the messages of a check of apimachinery's.
func invalid(at *field.Path, given string, messages []string) (refused field.ErrorList) {
	for _, message := range messages {
		refused = append(refused, field.Invalid(at, given, message))
	}
	return refused
}

// checkID checks the number of a user or a group.
func checkID(at *field.Path, id *int64) field.ErrorList {
	if id == nil {
		return nil
	}
	return invalid(at, strconv.FormatInt(*id, 10), validation.IsValidUserID(*id))
}
