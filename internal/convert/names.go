package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/harrier-ci/harrier/internal/convert/legacy"
)

const (
	// maxName leaves room for what the chart appends to the name of a scale set.
	maxName = 45
	// nameless is what a scale set is called whose object has no name.
	nameless = "runners"
)

var notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)

// validName makes a name of a scale set and of a Helm release from any text. A longer one has eight digits of a hash in place of its end.
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

// names chooses names for scale sets: those of the objects as far as possible, each once.
type names map[string]bool

// choose returns the first name that no other scale set has.
func (n names) choose(object *legacy.Object) string {
	candidates := []string{object.Name, object.Name + "-" + object.Namespace, object.Name + "-" + object.Kind}
	name := ""
	for number := 1; name == ""; number++ {
		candidates = append(candidates, fmt.Sprintf("%s-%d", object.Name, number+1))
		if i := slices.IndexFunc(candidates, func(candidate string) bool { return !n[validName(candidate)] }); i >= 0 {
			name = validName(candidates[i])
		}
	}
	n[name] = true
	return name
}
