package failpoints

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/harrier-ci/harrier/test/failpoints/apiserver"
)

// end is what becomes of an effect.
type end string

// Ends. Conflict is what the API server answers to a write that comes too late, so only writes to what exists get it.
const (
	diesBefore  end = "dies before"
	diesAfter   end = "dies after"
	answerLost  end = "answer lost"
	conflict    end = "refused: conflict"
	tooMany     end = "refused: 429"
	serverError end = "refused: 500"
	timeout     end = "refused: timeout"
)

// fault is the end of one effect.
type fault struct {
	effect string
	end    end
}

func (f fault) String() string { return fmt.Sprintf("%s: %s", f.effect, f.end) }

// Of the effects of one name the first three are tried and the last two: what is repeated in between repeats itself.
const firstOfAName, lastOfAName = 3, 2

// effects numbers the effects of a run and says what becomes of each. A name doesn't depend on how workers take turns:
// it has the process, the verb, the object by the order in which objects of its kind were first written, and how often.
type effects struct {
	mu     sync.Mutex
	begun  bool
	faults []fault
	names  []string
	total  int
	last   string
	counts map[string]int
	// ordinals number the objects of each resource.
	ordinals map[string]int
	objects  map[string]int
	reached  []fault
}

func newEffects(faults []fault) *effects {
	return &effects{
		faults: faults, counts: map[string]int{}, ordinals: map[string]int{}, objects: map[string]int{},
	}
}

// begin has effects counted from now on.
func (e *effects) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
}

// next names an effect and returns the end that is planned for it, empty for the usual one.
func (e *effects) next(name string) end {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		return ""
	}
	if !beats(name) {
		e.total, e.last = e.total+1, name
	}
	e.counts[name]++
	name = nth(name, e.counts[name])
	e.names = append(e.names, name)
	for i, planned := range e.faults {
		if planned.effect == name {
			e.faults = slices.Delete(slices.Clone(e.faults), i, i+1)
			e.reached = append(e.reached, planned)
			return planned.end
		}
	}
	return ""
}

// nth is the name of an effect that has come so often.
func nth(name string, times int) string {
	if times == 1 {
		return name
	}
	return fmt.Sprintf("%s ×%d", name, times)
}

// tried returns the effects of a play that are tried.
func (e *effects) tried() (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	chosen := map[string]bool{}
	for name, count := range e.counts {
		for times := range count {
			if times < firstOfAName || times >= count-lastOfAName {
				chosen[nth(name, times+1)] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(e.names), func(name string) bool { return !chosen[name] })
}

// beats reports whether an effect of this name is repeated while nothing happens: the listener reads statistics and
// publishes them with every empty poll, and the set says that it has seen them.
func beats(name string) bool {
	return strings.Contains(name, " GitHub GET ") || strings.HasPrefix(name, "listener patch ephemeralrunnersets#") ||
		strings.HasPrefix(name, "manager patch ephemeralrunnersets/status#")
}

// ordinal numbers the objects of a resource by when they were first written.
func (e *effects) ordinal(resource, namespace, name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := resource + " " + namespace + "/" + name
	if e.objects[object] == 0 {
		e.ordinals[resource]++
		e.objects[object] = e.ordinals[resource]
	}
	return e.objects[object]
}

// ofKubernetes names a write to the API server. Reads are no effects, nor is the Lease by which managers elect one.
func (e *effects) ofKubernetes(process string, r *http.Request) (name string, numbered bool) {
	asked, err := apiserver.Parse(r)
	if err != nil || slices.Contains([]string{"get", "list", "watch"}, asked.Verb) || asked.Name == leaseName ||
		asked.DryRun {
		return "", false
	}
	resource := asked.Resource()
	switch {
	case resource == "events":
		return fmt.Sprintf("%s %s event", process, asked.Verb), true
	case resource == "leases" && asked.Verb == "create":
		// that of the election has no name in its address yet, and those of scale sets are few
		return process + " create lease", true
	case asked.Verb == "create":
		// The name is in the body; who is created is the next one of its kind.
		return fmt.Sprintf("%s create %s", process, resource), true
	}
	kind, _, _ := strings.Cut(resource, "/")
	return fmt.Sprintf("%s %s %s#%d", process, asked.Verb, resource,
		e.ordinal(kind, asked.Namespace, asked.Name)), true
}

// ofGitHub names a call to GitHub. A poll is none: it changes nothing, and there is always one.
func (e *effects) ofGitHub(process string, r *http.Request) (name string, numbered bool) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/message") {
		return "", false
	}
	var words []string
	for _, part := range strings.Split(strings.Trim(r.URL.Path, "/"), "/") {
		switch {
		case part == "api" || part == "v3" || part == "_apis" || part == "services" || part == "runtime":
		case strings.ContainsFunc(part, unicode.IsDigit):
			words = append(words, "{}")
		default:
			words = append(words, part)
		}
	}
	return fmt.Sprintf("%s GitHub %s %s", process, r.Method, strings.Join(words, "/")), true
}

// ends are the ends that an effect of this name can have. After a read nothing is different, so that to die then, or to
// lose its answer, is to die before the next effect, or to get no answer.
func ends(name string) []end {
	if strings.Contains(name, " GitHub GET ") {
		return []end{diesBefore, tooMany, serverError, timeout}
	}
	all := []end{diesBefore, diesAfter, answerLost, tooMany, serverError, timeout}
	if !strings.Contains(name, " GitHub ") && !strings.Contains(name, " create ") {
		all = append(all, conflict)
	}
	return all
}
