package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/harrier-ci/harrier/operations/convert/legacy"
)

const (
	// maxName leaves room for what the chart appends to the name of a scale set.
	maxName = 45
	// nameless is the name of a scale set whose object has none.
	nameless = "runners"
)

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// validName makes a name of a scale set and of a Helm release from any text. A longer one has eight digits of a hash in
// place of its end.
func validName(text string) string {
	var parts []string
	for part := range strings.SplitSeq(notInNames.ReplaceAllString(strings.ToLower(text), "-"), ".") {
		if part = strings.Trim(part, "-"); part != "" {
			parts = append(parts, part)
		}
	}
	name := cmp.Or(strings.Join(parts, "."), nameless)
	if len(name) > maxName {
		digest := sha256.Sum256([]byte(text))
		name = strings.Trim(name[:maxName-9], "-.") + "-" + hex.EncodeToString(digest[:4])
	}
	return name
}

// names chooses names for scale sets: those of the objects as far as possible, and no name for two.
type names struct {
	taken map[string]bool
	// next is the first number that may be free after a name.
	next map[string]int
}

// choose returns the first name that no other scale set has.
func (n *names) choose(object *legacy.Object) string {
	for _, candidate := range []string{object.Name, object.Name + "-" + object.Namespace,
		object.Name + "-" + object.Kind} {
		if name := validName(candidate); n.take(name) {
			return name
		}
	}
	base := validName(object.Name)
	for number := max(2, n.next[base]); ; number++ {
		if name := validName(fmt.Sprintf("%s-%d", object.Name, number)); n.take(name) {
			n.next[base] = number + 1
			return name
		}
	}
}

// take reports whether nobody had a name before.
func (n *names) take(name string) bool {
	free := !n.taken[name]
	n.taken[name] = true
	return free
}
