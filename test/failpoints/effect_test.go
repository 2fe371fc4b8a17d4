package failpoints

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
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

// Of the effects of one name the first two are tried and the last of those that a scenario tries: what is repeated
// in between repeats itself.
const firstOfAName, lastOfAName = 2, 1

// effect is one that was met.
type effect struct {
	name string
	at   time.Time
	// follows is the effect after which the same process has come to this one at once: nothing was written in between
	// and no time has passed, so whoever dies before this one leaves what he leaves who dies after that one.
	follows string
	// first is set of the first of its kind.
	first bool
	// trying is set if it happened while effects were tried.
	trying bool
}

// effects numbers the effects of a run and says what becomes of each. A name doesn't depend on how workers take turns:
// it has the process, the verb, the object by the order in which objects of its kind were first written, and how often.
type effects struct {
	// version is how often the objects of the API server have changed.
	version func() int64

	mu     sync.Mutex
	begun  bool
	trying bool
	faults []fault
	all    []effect
	total  int
	last   string
	// flying is how many effects have begun and not ended, and written the version when one has ended last.
	flying  int
	written int64
	counts  map[string]int
	// ordinals number the objects of each resource.
	ordinals map[string]int
	objects  map[string]int
	reached  []fault
}

func newEffects(version func() int64, faults []fault) *effects {
	return &effects{
		version: version, faults: faults, counts: map[string]int{}, ordinals: map[string]int{}, objects: map[string]int{},
	}
}

// begin has effects counted from now on.
func (e *effects) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
}

// try says whether the effects from now on are tried, or only counted.
func (e *effects) try(trying bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.trying = trying
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
	met := effect{name: name, at: time.Now(), trying: e.trying}
	if len(e.all) > 0 {
		last := e.all[len(e.all)-1]
		if processOf(last.name) == processOf(name) && last.at.Equal(met.at) && e.flying == 0 && e.written == e.version() {
			met.follows = last.name
		}
	}
	e.all = append(e.all, met)
	e.flying++
	for i, planned := range e.faults {
		if planned.effect == name {
			e.faults = slices.Delete(slices.Clone(e.faults), i, i+1)
			e.reached = append(e.reached, planned)
			return planned.end
		}
	}
	return ""
}

// ended notes that an effect of next has ended.
func (e *effects) ended() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flying, e.written = e.flying-1, e.version()
}

func processOf(effect string) string {
	process, _, _ := strings.Cut(effect, " ")
	return process
}

// nth is the name of an effect that has come so often.
func nth(name string, times int) string {
	if times == 1 {
		return name
	}
	return fmt.Sprintf("%s ×%d", name, times)
}

// tried returns the effects of a play that are tried. One that follows an effect which isn't stands for itself.
func (e *effects) tried() (tried []effect) {
	e.mu.Lock()
	defer e.mu.Unlock()
	times := map[string][]string{} // by name, those that were met, each with its number
	for _, met := range e.all {
		if met.trying {
			times[unnumbered(met.name)] = append(times[unnumbered(met.name)], met.name)
		}
	}
	chosen, kinds := map[string]bool{}, map[string]bool{}
	for _, names := range times {
		for i, name := range names {
			chosen[name] = i < firstOfAName || i >= len(names)-lastOfAName
		}
	}
	for _, met := range e.all {
		if !chosen[met.name] {
			continue
		}
		if !chosen[met.follows] {
			met.follows = ""
		}
		met.first = !kinds[met.kind()]
		kinds[met.kind()] = true
		tried = append(tried, met)
	}
	return tried
}

// unnumbered is a name without how often it has come.
func unnumbered(name string) string {
	name, _, _ = strings.Cut(name, " ×")
	return name
}

// reads reports whether an effect of this name changes nothing: a read of GitHub, or of a vault.
func reads(name string) bool {
	return strings.Contains(name, " GitHub GET ") || strings.Contains(name, " vault ")
}

// beats reports whether an effect of this name is repeated while nothing happens: the listener reads statistics and
// publishes them with every empty poll, the set says that it has seen them, vaults are read every minute, and a ledger
// writes that it looks.
func beats(name string) bool {
	return reads(name) || strings.Contains(name, " SQL ") || strings.HasPrefix(name, "listener patch ephemeralrunnersets#") ||
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

// ofInternet names a call to GitHub or to a vault. A poll is none: it changes nothing, and there is always one.
func (e *effects) ofInternet(process string, r *http.Request) (name string, numbered bool) {
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
	service := "GitHub"
	if r.URL.Host != gitHubHost {
		service = "vault"
	}
	return fmt.Sprintf("%s %s %s %s", process, service, r.Method, strings.Join(words, "/")), true
}

// ends are the ends that are tried of an effect, each of which leaves something else:
//
//   - After a read nothing is different, so that to die then, or to lose its answer, is to die before the next effect, or
//     to get no answer. Nor is it after an Event, which nobody reads.
//   - What dying before an effect leaves is tried once, if it is what dying after the last one leaves.
//   - The API server's 429 says when to come again, and client-go does, so that a process sees a write that takes a
//     second. That is tried of the first write of each kind.
//   - Conflict is for what exists.
func (e effect) ends() (all []end) {
	kubernetes := !strings.Contains(e.name, " GitHub ")
	if strings.Contains(e.name, " SQL ") {
		return e.endsOfStatement()
	}
	if e.follows == "" {
		all = append(all, diesBefore)
	}
	switch {
	case reads(e.name):
		return append(all, tooMany, serverError, timeout)
	case strings.HasSuffix(e.kind(), " event"):
		return append(all, serverError, timeout)
	}
	all = append(all, diesAfter, answerLost, serverError, timeout)
	if !kubernetes || e.first {
		all = append(all, tooMany)
	}
	// An API server answers a deletion with a conflict only if another object has the name by now.
	if kubernetes && !strings.Contains(e.name, " create ") && !strings.Contains(e.name, " delete ") {
		all = append(all, conflict)
	}
	return all
}

// kind is the name without a number: process, verb and resource.
func (e effect) kind() string {
	name, _, _ := strings.Cut(unnumbered(e.name), "#")
	return name
}

// endsOfStatement are those of a statement of the ledger's database. One within a transaction leaves nothing until that
// is committed.
func (e effect) endsOfStatement() (all []end) {
	if e.follows == "" {
		all = append(all, diesBefore)
	}
	if !strings.HasSuffix(e.kind(), withinTransaction) {
		all = append(all, diesAfter, answerLost)
	}
	return append(all, serverError, timeout)
}
